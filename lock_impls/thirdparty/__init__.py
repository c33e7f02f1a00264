"""Locks that come with libraries, unmodified: each adapter is a few lines around the library's own class, and says
which version it was tested with and what the library's documentation promises."""

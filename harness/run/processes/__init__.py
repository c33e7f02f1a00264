"""Worker processes for the code under test, and the Python that each is."""

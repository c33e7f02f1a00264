"""Locks that use event loops other than asyncio's own. Importing one has effects on the process."""

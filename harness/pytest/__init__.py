"""The pytest plugin: a library's own tests hunt and run its locks under faults."""

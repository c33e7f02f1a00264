"""``harness serve``: a read-only web server for a store of runs."""

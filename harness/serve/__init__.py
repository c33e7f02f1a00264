"""``harness serve``: the web page over a store. It reads the store and changes nothing in it."""

"""From a recorded history to the verdict, its cause and its summary, and the comparison with what was expected."""

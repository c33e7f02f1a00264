"""Stories of failures: the steps of a violation, told in plain sentences."""

"""Studies of many runs: nightly runs with their trends, sweeps over parameters, and comparisons of locks."""

"""The command line: one module for each command of ``harness``, named as the command."""

"""Checks of histories that no run of ours recorded: of files, of recordings, and of applications that are running."""

"""Tests of how histories are read and written."""

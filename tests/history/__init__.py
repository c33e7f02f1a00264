"""Tests of reading and writing histories."""

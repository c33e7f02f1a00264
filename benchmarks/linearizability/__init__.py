"""Measure our linearizability checks beside Porcupine, on the same histories of locks and registers."""

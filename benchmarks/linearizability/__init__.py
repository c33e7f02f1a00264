"""Whether a history of locks or registers is linearizable: ours beside Porcupine, on the same histories."""

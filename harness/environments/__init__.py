"""Environments in which locks run: the Python and the releases of libraries that a user asked for.

:func:`.interpreters.interpreter_for` returns the interpreter to start a worker with. It is the present one if that has
all that is required, else that of an environment which ``uv`` builds once and which is kept.
"""

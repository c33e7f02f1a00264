"""Take away from this process and its children what Windows lacks. Python imports this file when it starts.

``sys.platform`` stays: the standard library would look for Windows's own modules. The standard library of this machine
needs some of what is taken away, so its modules for processes get copies of ``os`` and ``signal`` from before.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
import types
import warnings

import psutil  # type: ignore[import-untyped] # noqa: F401 - on Linux it needs what is taken away

MODULES = ("fcntl", "grp", "posixshmem", "pty", "pwd", "resource", "syslog", "termios", "tty")
OF_OS = (
    "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "forkpty", "getegid", "geteuid", "getgid",
    "getpgid", "getuid", "killpg", "mkfifo", "pread", "pwrite", "register_at_fork", "sendfile", "setsid", "sysconf",
)  # fmt: skip
OF_SIGNAL = (
    "SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGUSR1", "SIGUSR2",
    "alarm", "pthread_kill", "pthread_sigmask", "setitimer",
)  # fmt: skip
OF_SOCKET = ("AF_UNIX", "recv_fds", "send_fds")
OF_SELECT = ("epoll", "poll")
OF_TIME = ("clock_gettime", "clock_gettime_ns")


def _copy(module: types.ModuleType) -> types.ModuleType:
    copy = types.ModuleType(module.__name__)
    vars(copy).update(vars(module))
    return copy


subprocess.os, subprocess.signal = _copy(os), _copy(signal)  # type: ignore[attr-defined]
subprocess._PopenSelector = selectors.SelectSelector  # type: ignore[attr-defined]
selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[assignment,misc]
for _name in MODULES:
    sys.modules[_name] = None  # type: ignore[assignment]
for _module, _names in (
    (os, OF_OS), (signal, OF_SIGNAL), (socket, OF_SOCKET), (select, OF_SELECT), (time, OF_TIME),
):  # fmt: skip
    for _name in _names:
        vars(_module).pop(_name, None)
os.supports_dir_fd = set()
warnings.filterwarnings("ignore", message="only soft file lock is available")  # filelock, where no fcntl is

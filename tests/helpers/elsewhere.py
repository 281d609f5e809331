"""A Python without what only Linux, or only POSIX, has: a stand-in for other systems.

Third-party packages are imported before, because they have forms for these systems of their own.
"""

import builtins
import io
import os
import shutil
import signal
import sys
import tempfile

HIDDEN_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
NO_FILES = ("/proc/meminfo", "/proc/self/status", "/proc/self/cgroup")
KEPT = {"O_APPEND", "O_CREAT", "O_EXCL", "O_RDONLY", "O_RDWR", "O_TRUNC", "O_WRONLY"}
HIDDEN_FUNCTIONS = """
    chown confstr fchdir fchmod fchown fork forkpty fstatvfs getegid geteuid getgid getgroups
    getloadavg getpgid getpgrp getpriority getsid getuid killpg lchown lockf mkfifo mknod nice
    pathconf pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev readv
    sched_getaffinity sched_setaffinity sched_yield sendfile setpgid setsid statvfs sync sysconf
    uname wait3 wait4 waitid writev
"""
HIDDEN_SIGNALS = "SIGHUP SIGKILL SIGALRM SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD alarm setitimer"


def hide() -> None:
    """Take it all away from this process."""
    for name in HIDDEN_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    flags = [n for n in dir(os) if n.startswith("O_") and n not in KEPT]
    for module, names in ((os, HIDDEN_FUNCTIONS.split() + flags), (signal, HIDDEN_SIGNALS.split())):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    shutil._use_fd_functions = tempfile._O_TMPFILE_WORKS = False  # as without these flags
    builtins.open = io.open = _without_proc(io.open)


def _without_proc(real):
    def opened(file, *args, **kwargs):
        if str(file).startswith(NO_FILES):
            raise FileNotFoundError(2, "hidden", str(file))
        return real(file, *args, **kwargs)

    return opened

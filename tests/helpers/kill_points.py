"""Kill a child process before each of its file operations."""

import os
import signal
import traceback

# What changes files, and what is done around it. A kill after one is a kill before the next.
OPERATIONS = ("open", "replace", "rename", "unlink", "mkdir", "rmdir", "fsync")


def kill_at(nth):
    """From now on, count file operations and die before the `nth`."""
    calls = 0

    def counted(original):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))


def killed(work, nth):
    """Do `work` in a forked child; return whether it came to its `nth` operation and died."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(nth)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"failed at {nth}"
    return os.WIFSIGNALED(status)


def every_point(work):
    """Yield after each kill of `work`, at every operation it comes to."""
    nth = 1
    while killed(work, nth):
        yield nth
        nth += 1

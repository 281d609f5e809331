"""Kill a child process before each of its file operations."""

import builtins
import functools
import io
import os
import signal
import traceback

# What changes files, and what is done around it. A kill after one is a kill before the next.
OPERATIONS = ("open", "replace", "rename", "unlink", "mkdir", "rmdir", "fsync", "ftruncate", "link",
              "posix_fallocate", "remove")  # fmt: skip


class Counter:
    """Counts file operations from now on, and kills the process before the `nth`."""

    def __init__(self, nth=0):
        self.nth, self.calls = nth, 0
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))
        builtins.open = io.open = self._counted(io.open)  # which pathlib calls, too

    def _counted(self, original):
        @functools.wraps(original)
        def call(*arguments, **options):
            self.calls += 1
            if self.calls == self.nth:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call


def counted(work):
    """Do `work`, from now on with counting; return how many operations it has come to."""
    counter = Counter()
    work()
    return counter.calls


def killed(work, nth):
    """Do `work` in a forked child; return whether it came to its `nth` operation and died."""
    child = os.fork()
    if child == 0:
        try:
            Counter(nth)
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

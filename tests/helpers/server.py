"""Runs commands in forked processes, without the two seconds that importing everything takes.

This process imports once, then forks a child for each line it reads; it starts no thread.
"""

import importlib
import json
import os
import resource
import signal
import sys
import traceback

from nearkin.app.warmup import compile_all


def main():
    for name in ("nearkin.cli.app", "nearkin.classifier", "nearkin.slde", "nearkin.app.pipeline",
                 "nearkin.app.baselines", "nearkin.app.strips",
                 "nearkin.app.planning", "nearkin.images.llc", "nearkin.app.cluster",
                 "matplotlib.figure", "matplotlib.backends.backend_agg", "PIL.PngImagePlugin",
                 "PIL.JpegImagePlugin", "sklearn.svm"):  # fmt: skip
        importlib.import_module(name)
    compile_all()  # children inherit the loaded code
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(arguments, out, err, cwd=None, signal_at=None, file_limit=None):
    """Run a command in the forked child; never returns."""
    code = 70
    try:
        for path, number in ((os.devnull, 0), (out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.chdir(cwd or ".")
        if file_limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        if signal_at:
            send_signal(*signal_at)
        sys.argv = ["nearkin", *map(str, arguments)]
        importlib.import_module("nearkin.cli.app").main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def send_signal(number, module, name, count):
    """Send this process a signal at the `count`-th call of a function."""
    owner = importlib.import_module(module)
    *classes, function = name.split(".")
    for part in classes:
        owner = getattr(owner, part)
    original, calls = getattr(owner, function), 0

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    setattr(owner, function, counted)


if __name__ == "__main__":
    main()

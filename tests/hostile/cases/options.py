"""Bad arguments and options for every command."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import commands, judge
from hostile.judge import FINE, Verdict
from hostile.material import HOME
from hostile.runner import Case

NUMBERS = ["nan", "inf", "-inf", "-1", "0", "1", "2", "x", "", "1e400", "1e-320", "9" * 30, "1.5",
           "-0", "２", "0x10", "1_000", " 5 ", "4294967296", "1e9"]  # fmt: skip
TEXTS = ["", "x", "no such thing", "\N{SLIGHTLY SMILING FACE}", "a\nb", "-", "nan", "1,2,x",
         "9" * 5000, "0", "1,2", "auto", "exact", "cells;recall=7", "HNSW0", "IVF0,Flat", "pca",
         "float16", "none", "tcp://127.0.0.1:1", "../..", "\udcff"]  # fmt: skip
MINE = {"mine.npy": b"mine", ".my.partners.db": b"mine", "learning/mine": b"mine"}


def _made(name: str, make: Callable[[str], object]) -> Callable[[], str]:
    return lambda: make(name) or os.path.abspath(name)  # which return None


def _clean(name: str) -> Callable[[], str]:
    """A copy of a clean file: an option may be one that names a file to write."""

    def make() -> str:
        source, copy = HOME.folder / name, Path("copy-of-" + Path(name).name)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
        return str(copy.absolute())

    return make


PATHS: dict[str, Callable[[], str]] = {
    "pipe": _made("pipe.npy", os.mkfifo), "loop": _made("loop", lambda n: os.symlink(n, n)),
    "empty": _made("empty.npz", lambda n: Path(n).touch()), "occupied": lambda: ".",
    "labels": _clean("labels.txt"), "image": _clean("images/round/0.png"),
    "images": _clean("images"),
    "csv": _clean("rows.csv"), "npy": _clean("queries.npy"), "parquet": _clean("rows.parquet"),
    "lists": _clean("lists.npz"), "encoder": _clean("LLC.safetensors"),
    "onnx": _clean("network.onnx"),
    "learner": _clean("SLNE.safetensors"),
} | {text[:30]: (lambda text=text: text) for text in
     ("", "no/such/x.npy", "x" * 300, "/dev/null", "/proc/self/mem", "\udcff.npy", "new",
      "line\nbreak.npz", "mine.npy", "-x")}  # fmt: skip


def cases(seed: int) -> Iterator[Case]:
    for command, details in commands.commands().items():
        for parameter in details.params:
            if parameter.name not in commands.LONG.get(command, (parameter.name,)):
                continue
            for name, words in attacks_on(parameter):
                yield _case(command, parameter, name, words)


def attacks_on(parameter: Any) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Words to give for a parameter, made in the child."""
    option = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
    kind = commands.kind_of(parameter)
    if kind is bool:
        yield "given", lambda: option
        yield "with a value", lambda: [*option, "maybe"]
        return
    yield "left out", list
    yield "twice", lambda: [*option, "7", *option, "8"]
    if kind is Path:
        for name, make in PATHS.items():
            yield name, lambda make=make: [*option, make()]
    else:
        texts = NUMBERS if kind in (int, float) else TEXTS
        for text in [t for t in texts if parameter.name != "jobs" or not t.strip("-0_").isdigit()]:
            yield repr(text)[:30], lambda text=text: [*option, text]


def _case(command: str, parameter: Any, name: str, words: Callable[[], list[str]]) -> Case:
    id_ = f"nearkin {command}/{parameter.name}/{name}"
    return Case("options", id_, lambda: _run(command, parameter, words), seconds=40)


def _run(command: str, parameter: Any, words: Callable[[], list[str]]) -> Verdict:
    for name, data in MINE.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(data)
    given = words()
    arguments = commands.line(command, {parameter.name: given})
    inputs = [word for word in arguments if os.path.lexists(word)]
    code, out, err = commands.execute(arguments)
    lost = [n for n, data in MINE.items() if not Path(n).exists() or Path(n).read_bytes() != data]
    if lost and not (parameter.name in ("out", "report") and given[-1:] == lost):
        return Verdict("wrong", f"files of the user are lost: {lost}")
    if code:
        return refused(code, err, (parameter.name, *parameter.opts, *given))
    if commands.lasting(out) is None:
        return Verdict("unjudged", "no answer that could be compared")
    return _again(arguments, inputs, out)


def refused(code: int, err: str, names: tuple[str, ...]) -> Verdict:
    message = (err.strip().splitlines() or [""])[-1]
    ways = (str, Path, os.path.abspath, lambda n: n.replace("_", "-"), lambda n: repr(n)[1:-1],
            lambda n: " ".join(n.split()))  # fmt: skip
    known = {str(way(name)) for name in names for way in ways}
    if "." in known:  # which ends any sentence
        known = known - {"."} | {"error: .", "'.'"}
    if code == 2 and re.match("error: (Missing|Invalid|Got unexpected|No such|Option)", message):
        return Verdict("clear", message)
    if code == 1 and message.startswith("error: ") and judge.is_clear(message, tuple(known)):
        return Verdict("clear", message)
    return Verdict("obscure", f"exit code {code}: {err[-400:]}")


def _again(arguments: list[str], inputs: list[str], out: str) -> Verdict:
    """The same command in a folder of its own, with its rows in another form."""
    clean, other = str(HOME.folder / "rows.npz"), str(HOME.folder / "other.npz")
    here = os.getcwd()
    os.mkdir("again")
    os.chdir("again")
    changed = [other if word == clean else word for word in arguments]
    places = [os.path.join(here, word) if word in inputs else word for word in changed]
    code, second, err = commands.execute(places)
    if code:
        return Verdict("wrong", f"accepted, and refused with rows in another form: {err[-300:]}")
    first, again = commands.lasting(out), commands.lasting(second)
    return FINE if _near(first, again) else Verdict("wrong", f"{first!r:.300} and {again!r:.300}")


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_near(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_near, a, b))
    numbers = isinstance(a, float) and isinstance(b, float)
    return a == b or (numbers and abs(a - b) <= 1e-3 * max(1, abs(a)))

"""Runs items of the paper and writes their results.

Command: ``nearkin reproduce all --data DIR --folder RUN``; under 90 minutes on two cores, image
features from scratch included; ``--quick`` (20 classes, at most 50 images of each, 256 words, 300
dimensions, 2,000 rows of the substitutes) under five minutes. Finished work is kept in
the run folder: a second call resumes.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import nearkin
from nearkin.io.fingerprint import TextDigest
from nearkin.reproduction import ITEMS, pages, tasks
from nearkin.reproduction.results import Result
from nearkin.reproduction.setup import DataMissing, Setup


def run(item: str, setup: Setup, results: Path | None = None) -> list[Result]:
    """Run `item`, or ``all``; write JSON, plots, an HTML page and optionally a Markdown file."""
    with setup.folder.claim("reproduce"):
        setup.folder.begin({"quick": setup.quick})
        return _run(item, setup, results)


def _run(item: str, setup: Setup, results: Path | None) -> list[Result]:
    if setup.quick:
        setup.log(quick_note())
    done = []
    for name in ITEMS if item == "all" else (item,):
        module = import_module(f"nearkin.reproduction.{name}")
        result = _run_item(module, name, setup)
        _write(module, result, setup)
        done.append((module, result))
        for line in pages.lines(result):
            setup.log(line)
    found = [result for _, result in done]
    about = _about(setup, found)
    page = _file(
        setup,
        "report.html" if item == "all" else f"{item}.html",
        about + "".join(result.json for result in found),
        lambda path: pages.write_html(path, done, about),
    )
    setup.log(f"\nreport: {page}")
    if results is not None:
        # The Markdown file is published: it must not name folders of this machine.
        kept = [
            replace(result, not_run=[t.replace(str(setup.data), "DIR") for t in result.not_run])
            for result in found
        ]
        pages.write_markdown(results, kept, about)
        setup.log(f"text: {results}")
    return found


def quick_note() -> str:
    """What a quick run leaves out."""
    return (
        f"quick run: {tasks.QUICK_CLASSES} classes of at most {tasks.QUICK_IMAGES} images, "
        f"{tasks.QUICK_WORDS} words, {tasks.QUICK_DIMS} dimensions, few rows of the substitutes; "
        "its figures are not comparable with the paper's"
    )


def _run_item(module: Any, name: str, setup: Setup) -> Result:
    began = time.perf_counter()
    setup.log(f"\n{module.TITLE} ...")
    try:
        result: Result = module.run(setup)
    except DataMissing as missing:
        result = Result(name, module.TITLE, not_run=[str(missing)])
    result.seconds = max(time.perf_counter() - began, _before(setup, name))
    return result


def _before(setup: Setup, item: str) -> float:
    """Seconds of the earlier call that this one resumed."""
    name = f"{item}.json"
    if setup.again or not setup.folder.is_intact(name):
        return 0.0
    return float(json.loads(setup.folder.local(name).read_text(encoding="utf-8"))["seconds"])


def _write(module: Any, result: Result, setup: Setup) -> None:
    text = result.json
    _file(setup, f"{result.item}.json", text, lambda path: path.write_text(text, encoding="utf-8"))
    if hasattr(module, "plots") and result.numbers:
        for name, plot in module.plots(result).items():
            for suffix in ("png", "svg"):
                _file(setup, f"{name}.{suffix}", text, partial(plot.savefig, dpi=130))


def _file(setup: Setup, name: str, source: str, make: Callable[[Path], object]) -> Path:
    """A file for the reader, written unless it was made from this text."""
    return setup.folder.file(name, {"results": TextDigest(source)}, make, "replace")


def _about(setup: Setup, results: list[Result]) -> str:
    minutes = sum(result.seconds for result in results) / 60
    kind = quick_note() if setup.quick else f"{setup.splits} split(s) of the image sets"
    return (
        f"nearkin {nearkin.__version__}, {os.cpu_count()} cores, {minutes:.1f} minutes; "
        f"{kind}. In brackets: ours minus the paper's."
    )

"""The code of the pages runs, and prints what they show."""

import re

import numpy as np
import pytest
import typer

import pages
from nearkin.cli.app import app
from samples import blobs

TUTORIALS = [
    "tutorials/embeddings.md",
    "tutorials/adapter.md",
    "tutorials/images.md",
    "tutorials/upgrade.md",
    "pairs.md",
]
SLOW = {"pairs.md"}
# Run by tests of their own: tests/docs/test_stores.py, tests/ensemble/test_cluster.py.
ELSEWHERE_COMMANDS = {"reproduce"}  # a plug-in
ELSEWHERE = {"stores.md", "cluster.md", "large-data.md", "serving.md"}


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in TUTORIALS]
)
def test_a_tutorial_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.run(f"docs/{page}")


@pytest.mark.slow
def test_large_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = blobs(1_500, 1_000)
    np.save("rows.npy", X)
    names = pages.run("docs/large-data.md", {"y": y})
    assert names["learner"].matrix_.shape == (1_000, 1_000)


def test_no_page_shows_code_that_nothing_runs():
    docs = pages.ROOT / "docs"
    shown = {str(p.relative_to(docs)) for p in docs.rglob("*.md") if "```python" in p.read_text()}
    assert shown - set(TUTORIALS) <= ELSEWHERE


@pytest.mark.parametrize(
    ("printed", "alike"),
    [("a 0.50", True), ("a .51", True), ("a 0.6", False), ("b 0.5", False), ("a 0.5 0.5", False)],
)
def test_printed_text_is_compared(printed, alike):
    if alike:
        pages.assert_alike(printed, "a 0.5\n")
        return
    with pytest.raises(AssertionError):
        pages.assert_alike(printed, "a 0.5\n")


def commands_shown():
    """Lines of the pages that call the command line, without their comments."""
    texts = [p.read_text() for p in (pages.ROOT / "docs").rglob("*.md")] + [pages.read("README.md")]
    fenced = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for language, block in fenced.findall("\n".join(texts)):
        for line in block.splitlines():
            if line.startswith("nearkin ") and not language:
                yield line.partition("#")[0].split()[1:]


def test_commands_and_options_that_pages_show_exist():
    known = typer.main.get_command(app).commands
    shown = list(commands_shown())
    assert {name for name, *_ in shown} > {"try", "run", "train"}
    for name, *words in shown:
        if name in ELSEWHERE_COMMANDS:
            continue
        options = {option for parameter in known[name].params for option in parameter.opts}
        unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options
        assert not unknown, f"nearkin {name}: no {unknown}"

"""Pages whose snippets run: code in ``python`` blocks, and what it prints in ``text`` blocks.

``python tests/helpers/pages.py PAGE…`` runs pages, each in an empty folder, and writes what their
snippets print now into them.
"""

import io
import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_SNIPPET = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d*\.\d+|(?<![\w.])[-−]?\d+(?![\w.])")


def read(name: str) -> str:
    """The text of a page, by its path in the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def snippets(text: str) -> list[str]:
    """The code of a page, block by block."""
    return [code for code, _ in _SNIPPET.findall(text)]


def execute(code: str, names: dict[str, Any], where: str) -> str:
    """Run a snippet with the names that earlier ones left, and return what it prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, where, "exec"), names)
    return printed.getvalue()


def run(name: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a page in the working folder, compare what it prints; return its names."""
    names = {} if names is None else names
    for code, shown in _SNIPPET.findall(read(name)):
        printed = execute(code, names, name)
        if shown:
            assert_alike(printed, shown)
    return names


def assert_alike(printed: str, shown: str, tolerance: float = 0.021) -> None:
    """The same words, and numbers that are close: they depend on the type of the processor."""
    parts = [(_NUMBER.sub("#", text).split(), _NUMBER.findall(text)) for text in (printed, shown)]
    (words, numbers), (expected_words, expected) = parts
    assert words == expected_words, printed
    values, wanted = ([float(n.replace("−", "-")) for n in of] for of in (numbers, expected))
    assert values == pytest.approx(wanted, abs=tolerance, rel=tolerance), printed


def refresh(path: Path) -> None:
    """Write what the snippets print now into a page."""
    text, names = path.read_text(encoding="utf-8"), {}

    def filled(block: re.Match[str]) -> str:
        printed = execute(block.group(1), names, path.name)
        output = f"\n\n```text\n{printed.rstrip()}\n```" if printed.strip() else ""
        return f"```python\n{block.group(1)}```{output}"

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        text = _SNIPPET.sub(filled, text)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for page in sys.argv[1:]:
        refresh(Path(page).absolute())

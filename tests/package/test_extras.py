"""Hints to install something name extras that exist, and that have it."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from nearkin.validation.extras import missing_extra

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*SOURCES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("tests/**/*.py")]
NAMED = re.compile(r"nearkin\[([\w,-]+)\]|pip install '?\.\[([\w,-]+)\]")


def packages(extra):
    """The names of an extra's packages, those of the extras it consists of included."""
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "nearkin":
            for part in requirement.extras:
                yield from packages(part)
        yield requirement.name.lower()


def hints():
    """Package, None if it is a variable, and extra of every `missing_extra` in the sources."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "missing_extra":
                _, package, extra = (getattr(a, "value", None) for a in node.args)
                yield pytest.param(package, extra, id=f"{path.stem}-{extra}")


def test_there_are_hints():
    assert len(list(hints())) >= 7


@pytest.mark.parametrize(("package", "extra"), list(hints()))
def test_an_extra_has_the_package_that_is_missing(package, extra):
    has = set(packages(extra))
    assert has
    assert package is None or package.lower() in has


def test_every_hint_is_made_in_one_place():
    written = [p.name for p in SOURCES if "pip install" in p.read_text(encoding="utf-8")]
    assert written == ["extras.py"]


def test_every_extra_that_is_named_exists():
    named = {
        (path.name, extra)
        for path in PAGES
        for found in NAMED.findall(path.read_text(encoding="utf-8"))
        for extra in "".join(found).split(",")
    }
    assert {extra for _, extra in named} > {"cluster", "stores"}
    assert [pair for pair in sorted(named) if pair[1] not in EXTRAS] == []


def test_a_hint_works_before_the_package_is_on_an_index():
    hint = str(missing_extra("reading images", "Pillow", "images"))
    assert "'nearkin[images]'" in hint
    assert "in a clone pip install '.[images]'" in hint

"""What the files around the code say of the package agrees with it."""

import re
import tomllib
from pathlib import Path

import pytest

import nearkin

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited.group(1) == newest.group(1) == nearkin.__version__


def test_the_oldest_python_is_the_first_that_is_named():
    named = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if ":: 3." in c]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_review_of_the_repository_passes():
    """`repo-review .` says the same; pyproject.toml says why some of its checks are left out."""
    review = pytest.importorskip("repo_review.processor")
    results = review.process(ROOT).results
    assert len(results) > 20
    assert [(r.name, r.description) for r in results if r.result is False] == []

"""What the README shows can be pasted, and its numbers hold."""

import re

import numpy as np
import pytest

import pages


@pytest.fixture(scope="module")
def pasted():
    """What the README's snippet leaves behind, on the data of the tutorial."""
    names: dict = {}
    first = pages.snippets(pages.read("docs/tutorials/adapter.md"))[0]
    pages.execute(first, names, "docs/tutorials/adapter.md")
    return pages.run("README.md", names)


def test_an_index_finds_more_of_the_same_kind_than_raw_cosine(pasted):
    labels, truth = pasted["y"], pasted["truth"][:, None]
    before = np.argsort(-pasted["Q"] @ pasted["X"].T, axis=1, kind="stable")[:, :10]
    shares = [(labels[found] == truth).mean() for found in (pasted["found"], before)]
    told = re.search(
        r"digits (\.\d+) of .* raw cosine, .*\s+finds (\.\d+)", pages.read("README.md")
    )
    np.testing.assert_allclose(shares, [float(t) for t in told.groups()], atol=0.005)


def test_the_picture_tells_the_same(pasted):
    picture = [float(n) for n in re.findall(r"all queries: (\.\d+)", pages.read("docs/why.svg"))]
    told = re.findall(r"(?:digits|finds) (\.\d+)", pages.read("README.md"))
    np.testing.assert_allclose(picture, sorted(map(float, told)), atol=0.005)


def test_its_table_repeats_what_the_pages_say():
    """Rounded: .862 where the page has .8623."""
    text = pages.read("README.md")
    known = pages.read("docs/accuracy.md") + pages.read("docs/performance.md")
    values = re.findall(r"\.\d+", known)
    for line in text.split("|---|")[-1].splitlines():
        for number in re.findall(r"\d*\.\d+", line):
            exact = [v for v in values if f"{float(v):.3f}".lstrip("0") == number]
            assert number in known or exact, f"{number} of {line}"

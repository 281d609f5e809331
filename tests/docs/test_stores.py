"""What docs/stores.md shows, run in real stores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pages

PAGE = pages.read("docs/stores.md")
SECTIONS = {text.split("\n", 1)[0]: pages.snippets(text) for text in PAGE.split("\n## ")}
NEEDED = {
    "pgvector": ["pgserver", "psycopg", "pgvector"],
    "Qdrant": ["qdrant_client"],
    "faiss": [],
    "usearch": ["usearch"],
    "LanceDB": ["lancedb"],
    "Chroma": ["chromadb"],
    "sqlite-vec": ["apsw", "sqlite_vec"],
}
HEAVY = {"pgvector", "Qdrant", "LanceDB", "Chroma"}  # seconds to import or to start
STORES = [pytest.param(s, marks=[pytest.mark.slow] * (s in HEAVY)) for s in NEEDED]


def run(snippet, names):
    names = dict(names)
    pages.execute(snippet, names, "docs/stores.md")
    return names


@pytest.fixture(scope="module")
def start():
    """What the first snippet leaves behind."""
    return run(*SECTIONS["# In front of a vector store"], {})


def test_every_store_is_tried():
    shown = [name for name, snippets in SECTIONS.items() if len(snippets) == 1]
    assert shown[1:] == [*NEEDED, "Graph indexes", "Hubs"]


@pytest.mark.parametrize("store", STORES)
def test_a_store_ranks_by_the_similarity(start, store, tmp_path, monkeypatch):
    for module in NEEDED[store]:
        pytest.importorskip(module, reason=f"needs {module}: pip install 'nearkin[stores]'")
    monkeypatch.chdir(tmp_path)
    names = run(*SECTIONS[store], start)
    exact, found = start["model"].similarity(start["Q"], start["X"]), np.array(names["found"])
    got, largest = np.take_along_axis(exact, found, axis=1), np.abs(exact).max()
    assert_allclose(got, -np.sort(-exact, axis=1)[:, :10], rtol=0, atol=1e-5 * largest)
    assert_allclose(names["scores"], got, rtol=0, atol=1e-4 * largest)


def test_rows_that_a_store_found_are_ranked_again(start):
    names = run(*SECTIONS["Graph indexes"], start)
    exact = start["model"].similarity(start["Q"], start["X"])
    among = np.take_along_axis(exact, names["near"], axis=1)
    got = np.take_along_axis(exact, names["found"], axis=1)
    assert_allclose(got, -np.sort(-among, axis=1)[:, :10], rtol=1e-4)


@pytest.mark.slow
def test_one_more_column_holds_what_csls_takes_off(start, tmp_path, monkeypatch):
    for module in NEEDED["pgvector"]:
        pytest.importorskip(module, reason=f"needs {module}: pip install 'nearkin[stores]'")
    monkeypatch.chdir(tmp_path)
    names = run(*SECTIONS["Hubs"], start)
    X, similarity = start["X"].astype(float), start["model"].similarity
    distances = np.square(X[:, None] - X).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    near, own = np.argsort(distances, axis=1)[:, :50], similarity(X, X)
    share = [own[others, row].mean() / 2 for row, others in enumerate(near)]
    exact = similarity(start["Q"], X) - share
    best, largest = -np.sort(-exact, axis=1)[:, :10], np.abs(exact).max()
    scanned = np.array(names["scanned"])[:, :, 0]
    got = np.take_along_axis(exact, scanned, axis=1)
    assert_allclose(got, best, rtol=0, atol=1e-5 * largest)
    found = np.array(names["found"])  # in a graph, which may miss some
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, scanned)]) > 0.98
    got = np.take_along_axis(exact, found, axis=1)
    assert_allclose(names["scores"], got, rtol=0, atol=1e-4 * largest)

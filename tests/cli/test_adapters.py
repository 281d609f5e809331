"""Commands for the index that there is: pairs, export, try."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import nearkin as package
from commands import answer, nearkin
from samples import blobs

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Classes with a loud column that means nothing; documents that a rotated query finds."""
    folder = tmp_path_factory.mktemp("adapters")
    X, y = blobs(n=400, dims=8, classes=4, spread=0.4, seed=0)
    X[:, 0] = 2 * RNG.normal(size=len(X))
    np.save(folder / "x.npy", X)
    np.savez(folder / "test.npz", X=X[:100], y=y[:100])
    (folder / "y.txt").write_text("\n".join(map(str, y)))
    np.save(folder / "noise.npy", RNG.normal(size=(300, 6)))
    (folder / "coin.txt").write_text("\n".join(RNG.choice(["heads", "tails"], 300)))
    documents = RNG.normal(size=(300, 10)).astype(np.float32)
    turned = documents[:200] @ np.linalg.qr(RNG.normal(size=(10, 10)))[0].astype(np.float32)
    queries = 0.5 * documents[:200] + turned
    ids = [f"d{i}" for i in range(300)]
    pq.write_table(pa.table({"id": ids, "v": list(documents)}), folder / "d.parquet")
    np.save(folder / "q.npy", queries.astype(np.float32))
    (folder / "qrels.tsv").write_text("".join(f"{i}\td{i}\t1\n" for i in range(200)))
    return folder


def pair_arrays(folder):
    documents = np.stack(pq.read_table(folder / "d.parquet")["v"].to_numpy())
    return np.load(folder / "q.npy"), documents, np.stack([np.arange(200)] * 2, axis=1)


@pytest.fixture(scope="module")
def learned(folder):
    out = folder / "pairs.safetensors"
    files = (folder / "q.npy", folder / "d.parquet", folder / "qrels.tsv")
    return answer("pairs", *files, "--out", out, "--folder", folder / "work") | {"path": out}


def test_pairs(folder, learned):
    model = package.SLNE(random_state=0).fit_pairs(*pair_arrays(folder))
    found = package.load(learned["path"])
    np.testing.assert_array_equal(found.matrix_, model.matrix_)
    assert learned["rounds"] == model.pair_choice_["rounds"] > 0
    assert learned["held_out_ndcg_after"] > learned["held_out_ndcg_before"]
    assert not (folder / "work").exists()


def test_export_measures_what_it_writes(folder, learned, tmp_path):
    out, card = tmp_path / "a.safetensors", tmp_path / "card.md"
    measured = ("--data", folder / "d.parquet", "--queries", folder / "q.npy", "--qrels",
                folder / "qrels.tsv")  # fmt: skip
    result = answer("export", learned["path"], "--out", out, "--card", card, "--onnx",
                    tmp_path / "a.onnx", "--npy", tmp_path / "a.npy", *measured)  # fmt: skip
    queries, documents, judged = pair_arrays(folder)
    adapter = package.load(learned["path"]).adapter()
    expected = adapter.evaluate(documents, queries, judged)
    assert {name: result[name] for name in expected} == expected
    assert package.load(out).card == adapter.card
    assert (np.load(tmp_path / "a.npy")[:-1] == adapter.matrix).all()
    assert f"| nDCG@10 | {expected['before']['nDCG@10']:.4f} |" in card.read_text()
    again = answer("export", out, "--out", tmp_path / "b.safetensors", *measured)
    assert again["after"] == result["after"]


def test_export_of_a_classifier_measured_by_labels(folder, tmp_path):
    X, y = np.load(folder / "x.npy"), np.loadtxt(folder / "y.txt", str)
    learner = package.SLNE(random_state=0, n_neighbors=20)
    package.save(learner.fit(X[100:], y[100:]), tmp_path / "m.safetensors")
    command = ("export", tmp_path / "m.safetensors", "--out", tmp_path / "a.safetensors")
    result = answer(*command, "--data", folder / "test.npz")
    assert result["after"] == learner.adapter().evaluate(X[:100], labels=y[:100])["after"]
    both = answer(*command, "--data", folder / "x.npy", "--labels", folder / "y.txt",
                  "--queries", folder / "test.npz")  # fmt: skip
    assert both["after"] == learner.adapter().evaluate(X, X[:100], labels=y, truth=y[:100])["after"]


def test_try_says_that_it_helps(folder, tmp_path):
    out, page = tmp_path / "a.safetensors", tmp_path / "r.html"
    command = ("try", folder / "x.npy", folder / "y.txt")
    result = answer(*command, "--out", out, "--report", page)
    raw, reranked, whole, *graphs = result["methods"]
    assert result["verdict"] == "deploy"
    assert whole["precision@10"] > raw["precision@10"] + 0.05
    assert_allclose(whole["gains"]["precision@10"]["difference"],
                    whole["precision@10"] - raw["precision@10"])  # fmt: skip
    assert reranked["recall@100"] == pytest.approx(raw["recall@100"])  # the same hundred
    assert [graph["found"] > 0.9 for graph in graphs] == [True, True]
    assert "recall@100" not in graphs[0]
    card = package.load(out).card
    assert card["after"]["nDCG@10"] == whole["nDCG@10"]
    assert result["advice"] in page.read_text()
    shown = nearkin(*command).stdout
    assert "whole index, HNSW ef 40" in shown
    assert "Deploy: " in shown


def test_try_says_that_it_does_not(folder):
    result = answer("try", folder / "noise.npy", folder / "coin.txt")
    assert result["verdict"] == "do not deploy this"
    assert "may be chance" in result["advice"]


def test_try_pairs(folder):
    command = ("try", folder / "d.parquet", folder / "qrels.tsv", "--queries", folder / "q.npy")
    result = answer(*command)
    assert result["verdict"] == "deploy"
    assert result["test_queries"] + result["learned_from"] == 200
    assert result["measure"] == "nDCG@10"
    lines = (folder / "qrels.tsv").read_text().splitlines()
    mixed = [f"{line.split()[0]}\td{i}\t1" for i, line in zip(RNG.permutation(200), lines)]
    (folder / "mixed.tsv").write_text("\n".join(mixed))
    nothing = answer(*command[:2], folder / "mixed.tsv", *command[3:])
    assert nothing["verdict"] == "do not deploy this"
    assert "identity" in nothing["advice"]


def test_try_pairs_of_different_widths_against_ridge_regression(folder, tmp_path):
    np.save(tmp_path / "q.npy", np.load(folder / "q.npy")[:, :7])
    result = answer("try", folder / "d.parquet", folder / "qrels.tsv", "--queries",
                    tmp_path / "q.npy")  # fmt: skip
    assert result["methods"][0]["name"] == "ridge regression"


@pytest.mark.parametrize("option", ["--npy", "--onnx", "--card"])
def test_files_beside_the_adapter_are_never_replaced(learned, tmp_path, option):
    mine, out = tmp_path / "mine", tmp_path / "a.safetensors"
    mine.write_text("mine")
    failed = nearkin("export", learned["path"], "--out", out, option, mine)
    assert failed.returncode == 1
    assert f"{option} {mine} exists; give another name" in failed.stderr
    assert mine.read_text() == "mine"
    assert not out.exists()

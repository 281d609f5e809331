"""Tables with a column of vectors and ids, through every command that reads rows."""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nearkin as package
from commands import MANUAL, answer, nearkin
from samples import blobs

N = 120
X, y = blobs(n=N, dims=6, classes=3, seed=0)
IDS = np.array([f"doc {i}" for i in np.random.default_rng(0).permutation(N)])
HITS = ("raw", "learned")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    columns = {"key": IDS, "words": list(IDS), "emb": list(X), "other": list(X[:, :2]), "kind": y}
    pq.write_table(pa.table(columns), folder / "t.parquet")
    queries = pa.table({"_id": np.arange(100, 105), "v": list(X[:5])})
    pyarrow.feather.write_feather(queries, folder / "q.arrow")
    np.save(folder / "q.npy", X[:5])
    np.savez(folder / "t.npz", X=X, y=y)
    return folder


NAMED = ("--vector-column", "emb", "--id-column", "key")
SMALL = (*MANUAL, "--n-neighbors", 10)


@pytest.fixture(scope="module")
def model(folder):
    out = folder / "m.safetensors"
    answer("train", folder / "t.parquet", *NAMED, "--label-column", "kind", *SMALL, "--out", out)
    return out


def test_the_same_model_as_from_an_array(folder, model, tmp_path):
    answer("train", folder / "t.npz", *SMALL, "--out", tmp_path / "m.safetensors")
    one, other = (package.load(path) for path in (model, tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(one.similarity_.matrix_, other.similarity_.matrix_)
    assert not hasattr(other, "ids_")


def test_ids_come_back(folder, model):
    known = ("--train", folder / "t.npz")
    found = answer("search", model, folder / "q.arrow", "--n", 3, *known)["queries"]
    assert [query["query"] for query in found] == list(range(100, 105))
    for i, query in enumerate(found):
        assert query["raw"][0]["id"] == IDS[i]  # itself
        for hit in (hit for kind in HITS for hit in query[kind]):
            assert hit["id"] == IDS[hit["row"]]
    assert f"  {y[0]}  {IDS[0]}\n" in nearkin("search", model, folder / "q.npy").stdout
    labelled = answer("classify", model, folder / "q.arrow")["rows"]
    assert [row["id"] for row in labelled] == list(range(100, 105))
    lines = list(csv.reader(io.StringIO(nearkin("classify", model, folder / "q.arrow").stdout)))
    assert lines[:2] == [["id", "label"], ["100", str(labelled[0]["labels"][0])]]


def test_rows_that_are_added_later_have_no_id(folder, model, tmp_path):
    grown = package.load(model)
    grown.add(X[:1] + 1e-3, y[:1])
    grown.save(tmp_path / "m.safetensors")
    found = answer("search", tmp_path / "m.safetensors", folder / "q.npy", "--n", 2)["queries"][0]
    assert {hit["row"]: hit["id"] for hit in found["learned"]} == {0: IDS[0], N: None}
    assert (
        f"  {y[0]}  row {N}\n"
        in nearkin("search", tmp_path / "m.safetensors", folder / "q.npy").stdout
    )


def test_a_run_keeps_the_ids_of_its_training_rows(folder, tmp_path):
    command = ("run", folder / "t.parquet", *NAMED, "--label-column", "kind", "--folder",
               tmp_path / "run", "--baselines", "none")  # fmt: skip
    answer(*command, *SMALL)
    assert answer(*command, *SMALL)["done_now"] == []
    with np.load(tmp_path / "run" / "split.npz") as split:
        train = split["train"]
    search = ("search", tmp_path / "run", folder / "q.npy", "--n", 3, "--train", folder / "t.npz")
    for query in answer(*search)["queries"]:
        assert all(hit["id"] == IDS[train[hit["row"]]] for kind in HITS for hit in query[kind])
    assert "split.npz" in answer(*command[:2], "--vector-column", "other", *command[4:],
                                 *SMALL)["done_now"]  # fmt: skip


def test_evaluate_neighbors_and_info(folder, model, tmp_path):
    result = answer("evaluate", model, folder / "t.parquet", *NAMED, "--label-column", "kind")
    assert result["rows"] == N
    answer("neighbors", folder / "t.parquet", *NAMED, "--k", 2, "--out", tmp_path / "n.npz")
    with np.load(tmp_path / "n.npz") as lists:
        assert lists["ids"].tolist() == IDS.tolist()
    about = answer("info", folder / "q.arrow")
    assert (about["rows"], about["columns"]) == (5, 6)


def test_what_was_guessed_is_said(folder, model):
    done = nearkin("classify", model, folder / "q.arrow")
    assert (
        "q.arrow: vectors are read from column 'v', ids are read from column '_id'" in done.stderr
    )
    done = nearkin("classify", model, folder / "t.parquet")
    assert "has several columns of vectors: emb, other; name one" in done.stderr


def test_pictures_of_rows_that_are_none(folder, model, tmp_path):
    done = nearkin("search", model, folder / "q.arrow", "--report", tmp_path / "r.html")
    assert "--report shows pictures" in done.stderr
    assert not (tmp_path / "r.html").exists()


def test_damaged_ids_are_refused(folder, model, tmp_path):
    damaged = package.load(model)
    text, ends = damaged.ids_
    for ids in ((text, ends + 1), (text, np.append(ends, ends[-1])), (text[:-1], ends), 3,
                (text, ends[::-1].copy()), (text, ends.astype(np.int32)), ends[None]):  # fmt: skip
        damaged.ids_ = ids
        damaged.save(tmp_path / "m.safetensors")
        done = nearkin("search", tmp_path / "m.safetensors", folder / "q.npy")
        assert "ids_ of the model is not one id for each of its 120 rows" in done.stderr

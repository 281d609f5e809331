"""Similarities that were saved without rows: SLNE, SLDE and adapters, served alone or over rows."""

import json

import httpx
import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearkin
from commands import answer
from commands import nearkin as command
from nearkin import SLDE, SLNE, Adapter
from nearkin.app.finished_run import TrainedModel
from nearkin.io.tables import Dataset
from nearkin.serve import maps
from nearkin.serve.adapted import AdaptedModel
from nearkin.serve.engine import open_engine
from nearkin.serve.reload import Holder
from serving import digits, living, started

X, Y = digits(0, 300)
Q = digits(900, 907)[0]
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def slne():
    return SLNE(n_neighbors=20, max_epochs=2, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def files(tmp_path_factory, slne):
    folder = tmp_path_factory.mktemp("adapted")
    nearkin.save(slne, folder / "slne.safetensors")
    np.save(folder / "rows.npy", X)
    (folder / "labels.txt").write_text("\n".join(Y))
    np.savez(folder / "labelled.npz", X=X, y=Y)
    return folder


def serving(adapter, data=None, folder=None):
    model = AdaptedModel(adapter, "SLNE", data)
    return living(Holder(lambda: open_engine(TrainedModel(model), None), folder or "nowhere"))


@pytest.fixture(scope="module")
def live(slne):
    ids = np.array([f"document {i}" for i in range(len(X))])
    with serving(slne.adapter(), Dataset(X, Y, ids)) as server:
        yield server


def naive(scores, n):
    return np.argsort(-scores, kind="stable")[:n].tolist()


def rows_of(found, side="learned"):
    return [hit["row"] for hit in found[side]]


def test_all_rows_are_ranked_by_the_learned_similarity_and_by_cosine(live, slne):
    similarity = slne.similarity(Q, X)
    cosine = (Q / np.linalg.norm(Q, axis=1, keepdims=True)) @ UNIT.T
    for i, found in enumerate(live.ok("/v1/search", vectors=Q.tolist(), n=20)["queries"]):
        for side, scores in (("learned", similarity[i]), ("raw", cosine[i])):
            assert rows_of(found, side) == naive(scores, 20)
            given = [hit["similarity"] for hit in found[side]]
            assert_allclose(given, np.sort(scores)[::-1][:20], rtol=1e-4, atol=1e-4)
    best = found["learned"][0]
    assert (best["label"], best["id"]) == (Y[best["row"]], f"document {best['row']}")


def test_a_stored_row_asks_for_the_others(live, slne):
    similarity = slne.similarity(X[[7]], X)[0]
    similarity[7] = -np.inf
    found = live.ok("/v1/search", rows=[7], n=100)["queries"][0]
    assert rows_of(found) == naive(similarity, 100)
    assert 7 not in rows_of(found, "raw")


@pytest.mark.parametrize("asked", [{"vectors": Q[:2].tolist()}, {"rows": [3, 4]}])
def test_a_search_within_a_class_is_exact(live, slne, asked):
    queries = X[[3, 4]] if "rows" in asked else Q[:2]
    similarity = slne.similarity(queries, X)
    similarity[:, Y != "three"] = -np.inf
    if "rows" in asked:
        similarity[np.arange(2), asked["rows"]] = -np.inf
    answer = live.ok("/v1/search", n=100, label="three", **asked)["queries"]
    for found, scores in zip(answer, similarity):
        known = int(np.isfinite(scores).sum())
        assert rows_of(found) == naive(scores, known)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_an_adapter_for_vectors_of_unit_length(metric):
    learner = SLNE(n_neighbors=20, max_epochs=2, random_state=0).fit(UNIT, Y)
    unit = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    with serving(learner.adapter(metric=metric), Dataset(UNIT.astype(np.float32))) as live:
        answer = live.ok("/v1/search", vectors=(3 * unit).tolist(), n=10)["queries"]
        for found, scores in zip(answer, learner.similarity(unit, UNIT)):
            assert rows_of(found) == naive(scores, 10)
            assert "label" not in found["learned"][0]


def test_transform_is_the_adapters(live, slne):
    adapter = slne.adapter()
    answer = live.ok("/v1/transform", vectors=Q.tolist())
    assert_allclose(answer["vectors"], adapter.transform(Q), rtol=1e-4, atol=1e-4)
    assert answer["metric"] == "dot"
    given = live.ok("/v1/transform", rows=[5])["vectors"]
    assert_allclose(given, adapter.transform(X[[5]]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("path", ["/v1/confusions", "/v1/suspects", "/v1/suspects.csv"])
def test_what_needs_votes_is_refused(live, path):
    refused = live.get(path)
    assert refused.status_code == 409
    assert "nearkin train" in refused.json()["error"]["message"]
    refused = live.post("/v1/classify", rows=[0])
    assert refused.status_code == 409
    assert "does not classify" in refused.json()["error"]["message"]


def test_the_map_shows_both_similarities(live, monkeypatch):
    monkeypatch.setattr(maps, "find_spec", lambda name: None)
    live.get("/v1/map")
    live.state.engine.map._thread.join(60)
    known = live.get("/v1/map").json()
    assert known["state"] == "done", known["error"]
    assert {name: len(places) for name, places in known["places"].items()} == {
        "raw": 300, "learned": 300,
    }  # fmt: skip


def test_without_rows_only_queries_are_adapted(slne):
    with serving(slne.adapter()) as live:
        known = live.get("/v1/model").json()
        assert (known["rows"], known["columns"], known["similarities"]) == (0, 64, [])
        answer = live.ok("/v1/transform", vectors=Q.tolist())
        assert_allclose(answer["vectors"], slne.adapter().transform(Q), rtol=1e-4, atol=1e-4)
        for path, body in (("search", {"vectors": Q.tolist()}), ("transform", {"rows": [0]})):
            refused = live.post(f"/v1/{path}", **body)
            assert refused.status_code == 409
            assert "--rows FILE" in refused.json()["error"]["message"]
        for path in ("/v1/rows", "/v1/rows/0", "/v1/map"):
            assert live.get(path).status_code == 409
        assert live.get("/health").json()["status"] == "ok"
        assert "nearkin_rows 0\n" in live.get("/metrics").text


def test_queries_and_rows_of_different_widths():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(4, 6)).astype(np.float32)
    rows, queries = rng.normal(size=(50, 6)), rng.normal(size=(3, 4)).astype(np.float32)
    adapter = Adapter(matrix, np.zeros(6), np.zeros(6))
    with serving(adapter, Dataset(rows.astype(np.float32))) as live:
        answer = live.ok("/v1/search", vectors=queries.tolist(), n=5)["queries"]
        for found, scores in zip(answer, queries @ matrix @ rows.T):
            assert rows_of(found) == naive(scores, 5)
            assert set(found) == {"learned"}
        for path in ("search", "transform"):
            refused = live.post(f"/v1/{path}", rows=[0])
            assert (refused.status_code, refused.json()["error"]["field"]) == (409, "rows")


def test_unlabelled_rows_have_no_classes(slne):
    with serving(slne.adapter(), Dataset(X)) as live:
        assert live.get("/v1/model").json()["n_classes"] == 0
        assert "label" not in live.get("/v1/rows/3").json()
        refused = live.post("/v1/search", rows=[0], label="three")
        assert refused.status_code == 409
        assert "--labels" in refused.json()["error"]["message"]


def test_the_command_serves_a_learner_over_rows_and_takes_a_new_one(files, slne, tmp_path):
    path = tmp_path / "model.safetensors"
    nearkin.save(slne, path)
    rows, labels = files / "rows.npy", files / "labels.txt"
    process, facts = started(path, "--rows", rows, "--labels", labels)
    try:
        assert (facts["rows"], facts["classes"]) == (300, 10)
        assert facts["similarities"] == ["raw", "learned"]
        with httpx.Client(base_url=facts["url"], timeout=60) as client:
            found = client.post("/v1/search", json={"vectors": Q.tolist(), "n": 5}).json()
            for hits, scores in zip(found["queries"], slne.similarity(Q, X)):
                assert rows_of(hits) == naive(scores, 5)
            slne.adapter().save(path)
            while client.get("/v1/model").json()["learner"] != "Adapter":
                assert process.poll() is None
            again = client.post("/v1/search", json={"vectors": Q.tolist(), "n": 5}).json()
            assert [rows_of(hits) for hits in again["queries"]] == [
                rows_of(hits) for hits in found["queries"]
            ]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_an_ensemble_is_served_too(files, tmp_path):
    model = SLDE(n_components=32, random_state=0).fit(X, Y)
    nearkin.save(model, tmp_path / "slde.safetensors")
    facts = answer("serve", tmp_path / "slde.safetensors", "--check", "--port", 0)
    assert facts["rows"] == 0
    assert "--rows FILE" in facts["note"]
    facts = answer("serve", tmp_path / "slde.safetensors", "--rows", files / "labelled.npz",
                   "--check", "--port", 0)  # fmt: skip
    assert (facts["rows"], facts["classes"]) == (300, 10)


@pytest.mark.parametrize(("model", "options", "said"), [
    ("slne", ("--train", "labelled.npz"), "--rows"),
    ("slne", ("--labels", "labels.txt"), "--rows FILE"),
    ("slne", ("--rows", "narrow.npy"), "64 are expected"),
    ("codebook", (), "learns no similarity"),
    ("classifier", ("--rows", "rows.npy"), "holds its own rows"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(files, model_file, model, options, said):
    np.save(files / "narrow.npy", X[:, :5])
    nearkin.save(nearkin.Preprocess().fit(X), files / "codebook.safetensors")
    path = model_file if model == "classifier" else files / f"{model}.safetensors"
    given = [files / one if "." in one else one for one in options]
    ended = command("serve", path, *given, "--port", 0)
    assert ended.returncode == 1, json.dumps(ended.stdout)
    assert said in ended.stderr

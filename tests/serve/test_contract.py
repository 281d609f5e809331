"""What the service answers, against the model itself and against naive forms."""

import csv
import io

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nearkin
from nearkin import SLNE, Preprocess, Retrieval, SoftVotingKNN
from nearkin.serve.reload import Holder
from serving import digits, engine_of, fitted, living

QUERIES = digits(900, 907)


def test_search_finds_what_the_model_finds_and_raw_cosine(live, model):
    Q = QUERIES[0]
    answer = live.ok("/v1/search", vectors=Q.tolist(), n=5)
    similarities, indices = model.kneighbors(Q, 5)
    X, y = digits(0, 300)
    cosines = (Q @ X.T) / np.linalg.norm(Q, axis=1)[:, None] / np.linalg.norm(X, axis=1)
    for i, found in enumerate(answer["queries"]):
        assert [hit["row"] for hit in found["learned"]] == indices[i].tolist()
        assert_allclose([hit["similarity"] for hit in found["learned"]], similarities[i], atol=1e-5)
        naive = np.argsort(-cosines[i], kind="stable")[:5]
        assert [hit["row"] for hit in found["raw"]] == naive.tolist()
        assert_allclose([hit["similarity"] for hit in found["raw"]], cosines[i][naive], atol=1e-5)
        assert [hit["label"] for hit in found["raw"]] == y[naive].tolist()


def test_a_stored_row_asks_for_the_others(live, model):
    answer = live.ok("/v1/search", rows=[7, 250], n=12)
    X = digits(0, 300)[0]
    for row, found in zip((7, 250), answer["queries"]):
        learned = [hit["row"] for hit in found["learned"]]
        assert row not in learned
        d = np.linalg.norm(model.database_ - model.database_[row], axis=1)
        assert set(learned) == set(np.argsort(d, kind="stable")[1:13].tolist())
        cosines = X @ X[row] / np.linalg.norm(X, axis=1)
        cosines[row] = -1
        assert [hit["row"] for hit in found["raw"]] == np.argsort(-cosines)[:12].tolist()


def test_a_search_within_a_class_ranks_its_nearest_rows(live, model):
    X, y = digits(0, 300)
    answer = live.ok("/v1/search", vectors=QUERIES[0].tolist(), n=4, label="three")
    members = np.flatnonzero(y == "three")
    prepared = model.prepared(QUERIES[0])
    for query, given, found in zip(prepared, QUERIES[0], answer["queries"]):
        d = np.linalg.norm(model.database_[members] - query, axis=1)
        near = members[np.argsort(d, kind="stable")[:12]]
        scores = query @ model.similarity_.matrix_ @ model.database_[near].T
        naive = near[np.argsort(-scores, kind="stable")][:4]
        assert [hit["row"] for hit in found["learned"]] == naive.tolist()
        cosines = X[members] @ given / np.linalg.norm(X[members], axis=1)
        assert [hit["row"] for hit in found["raw"]] == members[np.argsort(-cosines)[:4]].tolist()
    own = live.ok("/v1/search", rows=[int(members[0])], n=12, label="three")
    assert all(members[0] not in [h["row"] for h in hits] for hits in own["queries"][0].values())


def test_classes_are_those_of_the_model_and_the_votes_add_up(live, model):
    Q = QUERIES[0]
    answer = live.ok("/v1/classify", vectors=Q.tolist(), top=10, votes=True)
    p, novelty = model.predict_proba(Q), model.novelty_score(Q)
    for i, decision in enumerate(answer["queries"]):
        found = {one["label"]: one["probability"] for one in decision["classes"]}
        assert_allclose([found[label] for label in model.classes_], p[i], atol=1e-5)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert_allclose(decision["novelty"], novelty[i], atol=1e-5)
        assert decision["unknown"] is bool(novelty[i] > model.novelty_threshold_)
        for one in decision["classes"]:
            voted = sum(v["share"] for v in decision["votes"] if v["label"] == one["label"])
            assert_allclose(voted, one["neighbors"], atol=1e-5)
            parts = one["neighbors"] + one["class_mean"] + one["prior"]
            assert_allclose(parts, one["probability"], atol=1e-5)


def test_many_queries_are_answered_as_one_at_a_time(live):
    Q = digits(300, 900)[0]
    together = live.ok("/v1/search", vectors=Q.tolist(), n=3)["queries"]
    for i in (0, 255, 256, 599):
        alone = live.ok("/v1/search", vectors=[Q[i].tolist()], n=3)["queries"][0]
        for name, hits in alone.items():
            assert [h["row"] for h in hits] == [h["row"] for h in together[i][name]]


def test_the_adapter_of_a_model_that_has_one(tmp_path):
    X, y = digits(0, 200)
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(SLNE(n_neighbors=10, random_state=0), preprocess=None).fit(X, y).save(path)
    with living(Holder(lambda: engine_of(path, X), path)) as live:
        answer = live.ok("/v1/transform", vectors=QUERIES[0].tolist())
        adapter = nearkin.load(path).adapter()
        assert_allclose(answer["vectors"], adapter.transform(QUERIES[0]), rtol=1e-5)
        assert answer["metric"] == adapter.metric
        rows = live.ok("/v1/transform", rows=[3, 5])["vectors"]
        assert_allclose(rows, adapter.transform(X[[3, 5]]), rtol=1e-5)


def test_without_an_adapter_the_reason_is_told(live):
    refused = live.post("/v1/transform", rows=[0])
    assert refused.status_code == 409
    assert "unit length" in refused.json()["error"]["message"]


def test_a_model_without_its_rows_explains_what_is_missing(model_file):
    with living(Holder(lambda: engine_of(model_file), model_file)) as live:
        known = live.get("/v1/model").json()
        assert known["similarities"] == ["learned"]
        assert "--train" in known["no_raw"]
        assert set(live.ok("/v1/search", rows=[0])["queries"][0]) == {"learned"}
        refused = live.post("/v1/search", rows=[0], similarities=["raw"])
        assert refused.status_code == 409
        assert refused.json()["error"]["field"] == "similarities"
        refused = live.post("/v1/search", images=["aGVsbG8="])
        assert (refused.status_code, refused.json()["error"]["field"]) == (409, "images")


DATES = np.array(["2024-01-01", "2024-02-01"], "M8[D]")


@pytest.mark.parametrize("kinds", [np.arange(3), np.array([True, False]), DATES])
def test_labels_of_any_kind_come_back_and_filter(kinds, tmp_path):
    labels = kinds[np.arange(40) % len(kinds)]
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(None, n_neighbors=5, vote="top").fit(X, labels).save(path)
    with living(Holder(lambda: engine_of(path, X), path)) as live:
        label = live.ok("/v1/search", rows=[1], n=1)["queries"][0]["learned"][0]["label"]
        hits = live.ok("/v1/search", rows=[1], n=5, label=label)["queries"][0]["learned"]
        assert {hit["label"] for hit in hits} == {label}
        assert live.get("/v1/rows", params={"label": str(label)}).json()["total"] >= 13


def test_a_retrieval_finds_and_the_similarity_ranks(tmp_path):
    X, y = digits(0, 200)
    learner = SLNE(n_neighbors=20, max_epochs=2, prepare=None, random_state=0)
    found_by = Retrieval(Preprocess(power=0.5))
    model = SoftVotingKNN(learner, index=found_by, preprocess=None, n_neighbors=9).fit(X, y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    with living(Holder(lambda: engine_of(path, X), path)) as live:
        answer = live.ok("/v1/search", vectors=QUERIES[0].tolist(), n=9)["queries"]
        for hits, expected in zip(answer, model.kneighbors(QUERIES[0], 9)[1].tolist()):
            assert [hit["row"] for hit in hits["learned"]] == expected
        lists = model.retrieval_.lists(9)
        learned = live.ok("/v1/search", rows=[4], n=9)["queries"][0]["learned"]
        assert {hit["row"] for hit in learned} == set(lists[4].tolist())
        own = live.ok("/v1/search", rows=[4], n=3, label=y[4])["queries"][0]["learned"]
        assert {hit["label"] for hit in own} == {y[4]}
        p = model.predict_proba(QUERIES[0])
        decisions = live.ok("/v1/classify", vectors=QUERIES[0].tolist())["queries"]
        best = [one["classes"][0]["probability"] for one in decisions]
        assert_allclose(best, p.max(axis=1), atol=1e-5)


def test_a_single_stored_row_has_no_neighbours(tmp_path):
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(None, n_neighbors=1, vote="top").fit([[1.0, 2.0]], ["a"]).save(path)
    with living(Holder(lambda: engine_of(path), path)) as live:
        assert live.ok("/v1/search", rows=[0], n=1)["queries"] == [{"learned": []}]
        assert live.ok("/v1/search", vectors=[[1, 2]], n=1)["queries"][0]["learned"][0]["row"] == 0
        assert live.ok("/v1/classify", rows=[0])["queries"][0]["classes"][0]["label"] == "a"


def test_rows_are_listed_and_described(live):
    y = digits(0, 300)[1]
    page = live.get("/v1/rows", params={"label": "two", "offset": 3, "limit": 4}).json()
    twos = np.flatnonzero(y == "two")
    assert page["total"] == len(twos)
    assert [row["row"] for row in page["rows"]] == twos[3:7].tolist()
    assert live.get("/v1/rows/299").json()["label"] == y[299]
    assert live.get("/v1/rows/300").status_code == 404
    assert live.get("/v1/rows/0/picture").status_code == 404


def test_every_endpoint_is_documented_and_nothing_comes_from_elsewhere(live):
    api = live.get("/openapi.json").json()
    questions = {"/v1/search", "/v1/classify", "/v1/transform"}
    assert questions | {"/health", "/metrics", "/v1/map"} <= set(api["paths"])
    schema = api["components"]["schemas"]["Search"]["properties"]
    assert {"vectors", "rows", "images", "n", "label", "similarities"} == set(schema)
    for path in ("/", "/docs", "/static/page.js", "/static/widgets.js", "/static/map.js",
                 "/static/docs.js", "/static/style.css"):  # fmt: skip
        page = live.get(path)
        assert page.status_code == 200
        assert "https://" not in page.text
        assert "innerHTML" not in page.text
        assert not [word for word in page.text.split() if word.startswith('"http://')]


def test_counters_are_text_for_prometheus(live):
    before = _count(live.get("/metrics").text, "/v1/rows/{row}", "200")
    live.get("/v1/rows/1")
    live.get("/no/such/thing")
    text = live.get("/metrics").text
    assert _count(text, "/v1/rows/{row}", "200") == before + 1
    assert _count(text, "other", "404") >= 1
    assert "nearkin_rows 300\n" in text
    for line in text.splitlines():
        assert line.startswith("# ") or float(line.rsplit(" ", 1)[1]) >= 0
    buckets = [line for line in text.splitlines() if '_bucket{endpoint="/v1/rows/{row}"' in line]
    counts = [int(line.rsplit(" ", 1)[1]) for line in buckets]
    assert counts == sorted(counts)


def _count(text, endpoint, status):
    name = f'nearkin_requests_total{{endpoint="{endpoint}",status="{status}"}} '
    return next((int(x.removeprefix(name)) for x in text.splitlines() if x.startswith(name)), 0)


def test_likely_wrong_labels_come_as_a_table(tmp_path):
    X, y = digits(0, 200)
    y = y.astype("U40")
    y[5] = '=cmd|"/c calc"!A1'  # what a spreadsheet would run
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(None, n_neighbors=8).fit(X, y).save(path)
    with living(Holder(lambda: engine_of(path), path)) as live:
        live.get("/v1/suspects")
        live.state.engine.review._thread.join(60)
        answer = live.get("/v1/suspects").json()
        assert answer["state"] == "done"
        assert 5 in [one["row"] for one in answer["suspects"]]
        table = list(csv.DictReader(io.StringIO(live.get("/v1/suspects.csv").text)))
    assert len(table) == answer["total"] == answer["wrong"]
    (planted,) = [line for line in table if line["row"] == "5"]
    assert planted["label"] == "'" + y[5]
    assert float(planted["probability"]) > float(planted["own_probability"])


def test_novelty_needs_no_threshold(tmp_path):
    path = tmp_path / "model.safetensors"
    fitted(vote="softmax").save(path)
    with living(Holder(lambda: engine_of(path), path)) as live:
        decision = live.ok("/v1/classify", rows=[0])["queries"][0]
        assert decision["unknown"] is None
        assert decision["novelty"] > 0


def test_neighbours_come_from_the_retrieval_that_the_model_has(tmp_path):
    X, Q = digits(0, 300)[0], QUERIES[0]
    model = fitted(index=Retrieval(Preprocess(power=0.5)))
    path = tmp_path / "model.safetensors"
    model.save(path)
    with living(Holder(lambda: engine_of(path), path)) as live:
        answer = live.ok("/v1/search", vectors=Q.tolist(), n=5)["queries"]
        found = [[hit["row"] for hit in query["learned"]] for query in answer]
        assert found == model.kneighbors(Q, 5)[1].tolist()
        learned = live.ok("/v1/search", rows=[7], n=12)["queries"][0]["learned"]
        near = Retrieval(Preprocess(power=0.5, random_state=0)).fit(X).lists(12)[7]
        assert {hit["row"] for hit in learned} == set(near.tolist())

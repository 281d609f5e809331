"""A learned similarity in front of an index of vectors as they are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors.numpy import load_file

import nearkin
from nearkin import (
    SLDE,
    SLNE,
    Adapter,
    FourierFeatures,
    Preprocess,
    SoftVotingKNN,
    UnitLength,
    WithinClassWhitening,
)
from samples import blobs

ort = pytest.importorskip("onnxruntime")


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def rows():
    X, y = blobs(n=240, dims=8, spread=1.0)
    return (X * np.arange(1, 9) + 3).astype(np.float32), y


def learner(**settings):
    return SLNE("softmax", n_neighbors=20, max_epochs=1, random_state=0, **settings)


@pytest.fixture(scope="module")
def models(rows):
    X, y = rows
    within = WithinClassWhitening(unit_length=False)
    return {
        "SLNE": learner().fit(X, y),
        "unprepared": learner(prepare=None).fit(X, y),
        "SLDE": SLDE(learner(), n_members=2, random_state=0).fit(X, y),
        "classifier": SoftVotingKNN(learner(), preprocess=within, vote="top").fit(X, y),
    }


@pytest.mark.parametrize("name", ["SLNE", "unprepared", "SLDE", "classifier"])
def test_an_index_by_dot_product_ranks_by_the_similarity(rows, models, name):
    X, _ = rows
    model = models[name]
    adapter = model.adapter(raw=True)
    assert adapter.metric == "dot"
    asked = adapter.transform(X[:30])
    assert_allclose(asked, X[:30] @ adapter.matrix + adapter.offset, rtol=1e-4, atol=1e-3)
    if name == "classifier":
        made = model.preprocess_.transform(X)
        exact = model.similarity_.similarity(made[:30], made)
    else:
        exact = model.similarity(X[:30], X)
    tolerance = {"atol": 1e-4 * np.abs(exact).max()}
    assert_allclose(adapter.scores(X[:30], asked @ X.T), exact, **tolerance)


@pytest.mark.parametrize("metric", ["dot", "cosine", "l2"])
def test_an_index_of_unit_vectors_may_compare_in_any_way(rows, metric):
    X, y = unit(rows[0]), rows[1]
    model = learner().fit(X, y)
    adapter = model.adapter(metric=metric)
    queries = 3 * X[:30] if metric != "dot" else X[:30]  # whatever their length
    asked, exact = adapter.transform(queries), model.similarity(X[:30], X)
    stored = {
        "dot": asked @ X.T,
        "cosine": unit(asked) @ X.T,
        "l2": np.square(asked[:, None] - X).sum(axis=2),
    }[metric]
    tolerance = {"atol": 1e-3 * np.abs(exact).max()}
    assert_allclose(adapter.scores(queries, stored), exact, **tolerance)
    assert model.adapter().metric == "cosine"


def test_a_cosine_index_does_the_scaling_of_unit_length(rows):
    X, y = rows
    model = SoftVotingKNN(learner(), preprocess=UnitLength(), vote="top").fit(X, y)
    adapter = model.adapter()
    assert adapter.metric == "cosine"
    exact = model.similarity_.similarity(unit(X[:9]), unit(X))
    assert_allclose(adapter.transform(X[:9]) @ unit(X).T, exact, atol=1e-4 * np.abs(exact).max())
    with pytest.raises(ValueError, match=r"metric='dot': .* give metric='cosine'"):
        model.adapter(metric="dot")


def test_preprocessed_rows_may_have_unit_length(rows):
    X, y = rows
    model = SoftVotingKNN(learner(), preprocess=Preprocess(5), vote="top").fit(X, y)
    adapter = model.adapter(raw=False)
    assert adapter.matrix.shape == (8, 5)
    exact = model.similarity_.similarity(model.database_[:9], model.database_)
    asked = adapter.transform(X[:9])
    lengths = np.linalg.norm(Preprocess.transform(
        model.preprocess_.truncated(5).set_params(unit_length=False), X[:9]), axis=1)  # fmt: skip
    assert_allclose(asked @ model.database_.T, exact * lengths[:, None], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("preprocess", "reason"),
    [
        (Preprocess(), "unit length after its map"),
        (Preprocess(unit_length=False, power=0.5), "to the power 0.5"),
        (FourierFeatures(Preprocess(unit_length=False), n_features=9), "is not linear"),
        (UnitLength(power=0.5), "to the power 0.5"),
    ],
)
def test_what_stored_rows_would_need_is_refused(rows, preprocess, reason):
    X, y = rows
    model = SoftVotingKNN(learner(), preprocess=preprocess, vote="top").fit(np.abs(X), y)
    with pytest.raises(ValueError, match=rf"{reason}.*for_index=True"):
        model.adapter(raw=True)


def test_a_cosine_needs_rows_of_unit_length(rows, models):
    with pytest.raises(ValueError, match=r"metric='cosine': .* not of unit length"):
        models["SLNE"].adapter(metric="cosine")
    with pytest.raises(ValueError, match="metric='manhattan' must be"):
        models["SLNE"].adapter(metric="manhattan")


def test_rows_that_an_index_returned_are_ranked_again(rows, models):
    X, _ = rows
    model, found = models["SLNE"], np.random.default_rng(0).integers(0, len(X), (7, 5))
    similarities, order = model.adapter().rerank(X[:7], X[found])
    exact = np.take_along_axis(model.similarity(X[:7], X), found, axis=1)
    assert (order == np.argsort(-exact, axis=1, kind="stable")).all()
    assert_allclose(similarities, -np.sort(-exact, axis=1), atol=1e-4 * np.abs(exact).max())
    with pytest.raises(ValueError, match=r"vectors has shape \(7, 8\); \(7, k, 8\)"):
        model.adapter().rerank(X[:7], X[:7])


def test_a_file_needs_no_nearkin_to_be_read(rows, models, tmp_path):
    X, _ = rows
    adapter = models["SLNE"].adapter()
    adapter.save(tmp_path / "adapter.safetensors")
    arrays = load_file(tmp_path / "adapter.safetensors")
    expected = adapter.transform(X)
    assert_allclose(X @ arrays["matrix"] + arrays["offset"], expected, rtol=1e-4, atol=1e-3)
    loaded = nearkin.load(tmp_path / "adapter.safetensors")
    assert isinstance(loaded, Adapter)
    assert (loaded.transform(X) == expected).all()
    assert loaded.card == adapter.card
    adapter.to_npy(tmp_path / "adapter.npy")
    assert (np.load(tmp_path / "adapter.npy") == np.vstack([adapter.matrix, adapter.offset])).all()


@pytest.mark.parametrize("scaled", [False, True])
def test_an_onnx_graph_gives_the_same(rows, tmp_path, scaled):
    X, y = unit(rows[0]) if scaled else rows[0], rows[1]
    adapter = learner().fit(X, y).adapter()
    adapter.to_onnx(tmp_path / "adapter.onnx")
    session = ort.InferenceSession(str(tmp_path / "adapter.onnx"))
    (made,) = session.run(None, {"query": 2 * X})
    expected = adapter.transform(2 * X)
    assert_allclose(made, expected, atol=1e-5 * np.abs(expected).max())


def test_an_encoder_and_the_adapter_in_one_graph(rows, tmp_path):
    X, y = rows
    encoder = Adapter(np.random.default_rng(0).normal(size=(3, 8)), np.ones(8), np.zeros(8))
    encoder.to_onnx(tmp_path / "encoder.onnx")
    adapter = learner().fit(X, y).adapter()
    adapter.to_onnx(tmp_path / "both.onnx", encoder=tmp_path / "encoder.onnx")
    session = ort.InferenceSession(str(tmp_path / "both.onnx"))
    given = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    (made,) = session.run(None, {"query": given})
    expected = adapter.transform(encoder.transform(given))
    assert_allclose(made, expected, atol=1e-5 * np.abs(expected).max())
    wide = Adapter(np.ones((3, 5)), np.ones(5), np.zeros(5))
    wide.to_onnx(tmp_path / "wide.onnx")
    with pytest.raises(ValueError, match="encoder puts out n × 5; n × 8"):
        adapter.to_onnx(tmp_path / "no.onnx", encoder=tmp_path / "wide.onnx")
    assert not (tmp_path / "no.onnx").exists()


def test_files_of_sentence_transformers(rows, models, tmp_path):
    adapter = models["SLNE"].adapter()
    adapter.to_sentence_transformers(tmp_path / "dense")
    weights = load_file(tmp_path / "dense" / "model.safetensors")
    assert (weights["linear.weight"] == adapter.matrix.T).all()
    assert (weights["linear.bias"] == adapter.offset).all()
    with pytest.raises(FileExistsError):
        adapter.to_sentence_transformers(tmp_path / "dense")


def test_parts_that_do_not_fit_are_refused(models):
    adapter = models["SLNE"].adapter()
    with pytest.raises(ValueError, match="offset"):
        Adapter(adapter.matrix, adapter.offset[:3], adapter.center)
    with pytest.raises(ValueError, match="store_scores has shape"):
        adapter.scores(np.zeros((2, 8)), np.zeros(3))


def test_the_card_says_where_it_comes_from(models):
    card = models["SLNE"].adapter().model_card()
    assert "240 rows, sha256:" in card
    assert "vectors as they are, by dot product" in card


def naive(scores, grades):
    """Precision@10, nDCG@10 and recall@100 of each query that has anything relevant, averaged."""
    values = []
    for score, grade in zip(scores, grades):
        ranked = grade[np.argsort(-score, kind="stable")]
        discount = 1 / np.log2(np.arange(2, 12))
        if (grade > 0).any():
            ideal = np.sort(grade)[::-1][:10] @ discount[: len(grade)]
            values.append([(ranked[:10] > 0).mean(), ranked[:10] @ discount / ideal,
                           (ranked[:100] > 0).sum() / (grade > 0).sum()])  # fmt: skip
    return dict(zip(("precision@10", "nDCG@10", "recall@100"), np.mean(values, axis=0)))


def close(found, expected):
    assert found.keys() == expected.keys()
    assert_allclose(list(found.values()), list(expected.values()), atol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_retrieval_before_and_after(rows, scaled):
    X, y = unit(rows[0]) if scaled else rows[0], rows[1]
    model = learner().fit(X[:60], y[:60])
    adapter = model.adapter()
    stored, asked = (3 * X[60:200], 2 * X[200:]) if scaled else (X[60:200], X[200:])
    result = adapter.evaluate(stored, asked, labels=y[60:200], truth=y[200:])
    same = (y[200:, None] == y[60:200]).astype(float)
    close(result["before"], naive(X[200:] @ X[60:200].T, same))
    close(result["after"], naive(model.similarity(X[200:], X[60:200]), same))
    assert result["before"] != result["after"]
    judged = np.argwhere(same)
    assert adapter.evaluate(stored, asked, judged) == result
    assert adapter.card["queries"] == 40
    assert f"| nDCG@10 | {result['before']['nDCG@10']:.4f} |" in adapter.model_card()


def test_retrieval_where_every_document_asks_for_the_others(rows, models):
    X, y = rows
    result = models["SLNE"].adapter().evaluate(X, labels=y)
    scores, same = models["SLNE"].similarity(X, X), (y[:, None] == y).astype(float)
    others = ~np.eye(len(X), dtype=bool)
    close(result["after"], naive(scores[others].reshape(240, -1), same[others].reshape(240, -1)))


def test_retrieval_without_anything_to_compare_with(rows):
    X, y = rows
    queries, documents = X[:40, :5], X
    judged = np.argwhere(y[:40, None] == y)
    model = learner(prepare=None).fit_pairs(queries, documents, judged)
    adapter = model.adapter()
    assert adapter.transform(queries).shape == (40, 8)
    result = adapter.evaluate(documents, queries, judged)
    assert result["before"] == {}
    assert "| recall@100 | – |" in adapter.model_card()
    assert "40 queries, 240 documents" in adapter.model_card()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "what is relevant"),
        ({"relevant": [[0, 0]], "labels": np.zeros(9)}, "no labels"),
        ({"labels": np.zeros(9)}, "what is relevant"),
        ({"labels": np.zeros(8), "truth": np.zeros(2)}, r"labels has shape \(8,\)"),
        ({"relevant": [[0, 0, 0]]}, "no query has a relevant"),
    ],
)
def test_what_cannot_be_measured_is_refused(models, given, reason):
    documents, queries = np.eye(9, 8) + 1, np.ones((2, 8))
    with pytest.raises(ValueError, match=reason):
        models["SLNE"].adapter().evaluate(documents, queries, **given)
    with pytest.raises(ValueError, match="documents has 3 columns"):
        models["SLNE"].adapter().evaluate(np.ones((4, 3)), labels=[0, 0, 1, 1])


def test_half_a_folder_is_none(models, tmp_path):
    """The second file cannot be written: another process holds its name."""
    adapter, folder = models["SLNE"].adapter(), tmp_path / "dense"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearkin.io.dense_module.json.dumps", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adapter.to_sentence_transformers(folder)
    assert not folder.exists()


def test_short_queries_have_a_direction(rows):
    """Their squares are beyond float32, as those of a lone query that is refused are."""
    X = unit(rows[0])
    adapter = learner().fit(X, rows[1]).adapter(metric="cosine")
    short = adapter.transform(np.vstack([X[:1], X[1:] * np.float32(1e-30)]))
    assert_allclose(short, adapter.transform(X), rtol=1e-4, atol=1e-4)


def naive_csls(similarity, lists, weight):
    """What CSLS takes off each row's score, by its definition."""
    return [weight * similarity[near, row].mean() for row, near in enumerate(lists)]


def nearest_rows(rows, k):
    distances = np.square(rows[:, None].astype(float) - rows).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("name", ["SLNE", "unprepared", "SLDE"])
@pytest.mark.parametrize("given", [True, False])
def test_csls_is_one_more_component(rows, models, name, given):
    X, _ = rows
    model, adapter = models[name], models[name].adapter()
    lists = nearest_rows(X, 7 if given else 50)
    column = adapter.csls_column(X, 0.7, neighbors=lists if given else None)
    exact = model.similarity(X[:30], X) - naive_csls(model.similarity(X, X), lists, 0.7)
    products = adapter.transform(X[:30], csls=True) @ np.column_stack([X, column]).T
    largest = np.abs(exact).max()
    assert_allclose(adapter.scores(X[:30], products), exact, atol=2e-4 * largest)
    plain = adapter.scores(X[:30], adapter.transform(X[:30]) @ X.T)
    assert np.abs(plain - exact).max() > 0.01 * largest


def test_csls_is_the_classifiers_own(rows):
    X, y = rows
    within, vote = WithinClassWhitening(unit_length=False), nearkin.Vote("softmax", csls=0.5)
    model = SoftVotingKNN(learner(), preprocess=within, vote=vote, n_neighbors=240).fit(X, y)
    adapter = model.adapter()
    lists = nearest_rows(model.database_, 50)
    column = adapter.csls_column(X, 0.5, neighbors=lists)
    bias = model.csls_bias_ / adapter.csls_scale
    assert_allclose(column, bias, atol=1e-4 * np.abs(bias).max())
    scores, found = model.kneighbors(X[:30])
    stored = np.column_stack([X, bias])
    mine = adapter.scores(X[:30], adapter.transform(X[:30], csls=True) @ stored.T)
    got = np.take_along_axis(mine, found, axis=1)
    assert_allclose(got, scores, atol=1e-4 * np.abs(scores).max())


def test_csls_refuses_what_it_cannot(rows, models):
    X = rows[0]
    cosine = learner().fit(unit(X), rows[1]).adapter()
    for ask in (cosine.csls_column, lambda X: cosine.transform(X, csls=True)):
        with pytest.raises(ValueError, match=r"cosine.*metric='dot'"):
            ask(X)
    with pytest.raises(ValueError, match="raw=True"):
        models["SLNE"].adapter(raw=False).csls_column(X)
    with pytest.raises(ValueError, match=r"vectors has 3 columns where 2"):
        Adapter(np.ones((2, 3)), np.zeros(3), np.zeros(3)).csls_column(np.ones((4, 3)))
    with pytest.raises(ValueError, match="one row"):
        models["SLNE"].adapter().csls_column(X[:1])
    with pytest.raises(ValueError, match="neighbors"):
        models["SLNE"].adapter().csls_column(X, neighbors=[[1]])


@pytest.mark.parametrize(
    "preprocess", [None, UnitLength(), WithinClassWhitening(unit_length=False)]
)
def test_a_classifier_of_unit_rows_is_for_an_index_by_cosine_or_any_other(rows, preprocess):
    X, y = unit(rows[0]), rows[1]
    model = SoftVotingKNN(learner(prepare=None), preprocess=preprocess, vote="top").fit(X, y)
    assert model.adapter().metric == "cosine"
    made = model.prepared(X)
    exact = model.similarity_.similarity(made[:9], made)
    for metric in ("dot", "cosine"):
        adapter = model.adapter(metric=metric)
        asked = adapter.transform(X[:9])
        products = asked @ X.T if metric == "dot" else unit(asked) @ X.T
        assert_allclose(adapter.scores(X[:9], products), exact, atol=1e-3 * np.abs(exact).max())
    assert model.add(3 * X[:5], y[:5]).unit_length_ is False

import _thread
import pickle
import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
import oracle
from nearkin import SLNE, Constraint, Execution, Hardest, SamplingRule, Softmax
from nearkin.learning import trainer
from nearkin.learning.incremental import TrainingSet
from nearkin.native.threads import limited
from nearkin.neighborhoods import as_graph
from nearkin.neighbors import nearest
from nearkin.validation.parameters import ParameterGroup
from nearkin.voting.votes import Vote
from samples import blobs, slne


@parametrize_with_checks(
    [
        SLNE.paper(),
        SLNE.paper(constraint=Constraint(psd=True)),
        SLNE.paper("softmax", validation_fraction=0.1),
        SLNE(n_neighbors=20),
    ],
    # A weight scales a row's step; the row is a neighbour of others whatever its weight. The check
    # compares predictions and transformed rows, which only an inner product has.
    expected_failed_checks=lambda model: (
        {"check_sample_weight_equivalence_on_dense_data": "weights scale steps"}
        if model.psd
        else {}
    ),
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("rule", ["softmax", "all"])
def test_learning_helps_new_rows(rule):
    X, y = blobs(n=900, dims=20, spread=1.0)
    train, test = slice(0, 600), slice(600, 900)
    model = SLNE.paper(rule, step_size=0.5, random_state=0).fit(X[train], y[train])
    near = nearest(X[train], 50, queries=X[test])[1]
    votes = Vote("softmax", 0.05)

    def accuracy(M):
        scores = np.stack([x @ M @ X[train][row].T for x, row in zip(X[test], near)])
        return (votes.tally(scores, y[train][near], 4).argmax(1) == y[test]).mean()

    assert accuracy(model.matrix_) > accuracy(np.eye(20)) + 0.02


def test_similarity_and_its_forms_agree(data):
    X, y = data
    model = SLNE.paper(max_epochs=2, random_state=0).fit(X, y)
    expected = X[:5].astype(float) @ model.matrix_.astype(float) @ X[5:9].T
    np.testing.assert_allclose(model.similarity(X[:5], X[5:9]), expected, atol=1e-5)
    np.testing.assert_allclose(model.transform_query(X[:5]) @ X[5:9].T, expected, atol=1e-5)
    pairs = np.stack([X[:4], X[5:9]], axis=1)
    np.testing.assert_allclose(model.pair_score(pairs), np.diag(expected[:4]), atol=1e-5)
    lists = np.array([[0, 3, -1]] * 5, np.int32)
    near = model.neighbor_scores(X[:5], X[5:9], lists)
    np.testing.assert_allclose(near[:, :2], expected[:, [0, 3]], atol=1e-5)
    assert np.isneginf(near[:, 2]).all()


@pytest.mark.parametrize("rule", ["hardest", "softmax"])
def test_any_number_of_threads_gives_the_same_matrix(rule):
    X, y = blobs(n=700, dims=30)
    settings = {"rule": rule, "max_epochs": 2, "random_state": 3}
    many = slne(**settings).fit(X, y)
    with limited(1):
        one = slne(**settings).fit(X, y)
    np.testing.assert_array_equal(one.matrix_, many.matrix_)


def test_projections(data):
    X, y = data
    free = SLNE.paper(max_epochs=3, random_state=0).fit(X, y).matrix_
    assert not np.allclose(free, free.T)
    symmetric = (
        SLNE.paper(max_epochs=3, random_state=0, constraint=Constraint(symmetric=True))
        .fit(X, y)
        .matrix_
    )
    np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-6)
    for also in ({}, {"symmetric": True}, {"psd": True}, {"normalize": True}):
        M = slne(max_epochs=3, rank=4, random_state=0, **also).fit(X, y).matrix_
        assert np.linalg.matrix_rank(M, tol=1e-4) == 4
        if "normalize" in also:
            assert np.linalg.norm(M) == pytest.approx(np.sqrt(12), rel=1e-5)


def test_psd_gives_a_euclidean_space(data):
    X, y = data
    model = SLNE.paper(max_epochs=3, random_state=0, constraint=Constraint(psd=True)).fit(X, y)
    L = model.components_
    np.testing.assert_allclose(L.T @ L, model.matrix_, atol=1e-5)
    np.testing.assert_allclose(
        model.transform(X[:3]) @ model.transform(X[3:6]).T,
        model.similarity(X[:3], X[3:6]),
        atol=1e-4,
    )
    plain = SLNE.paper(max_epochs=1).fit(X, y)
    assert not hasattr(plain, "transform")
    with pytest.raises(AttributeError, match=r"constraint=Constraint\(psd=True\)"):
        plain.components_  # noqa: B018


def test_early_stopping_keeps_the_best_epoch():
    X, y = blobs(n=600, dims=20, spread=1.2)
    seen = []
    model = slne(
        "softmax",
        step_size=3.0,
        max_epochs=12,
        random_state=0,
        validation_fraction=0.1,
        callback=lambda epoch, m: seen.append(m.matrix_.copy()),
    ).fit(X, y)
    validation = [h["validation"] for h in model.history_]
    assert model.n_epochs_ == int(np.argmax(validation)) + 1
    np.testing.assert_array_equal(model.matrix_, seen[model.n_epochs_ - 1])


def test_stops_when_settled(data):
    X, y = data
    assert SLNE.paper(tol=0.5, max_epochs=50, random_state=0).fit(X, y).n_epochs_ < 10
    assert SLNE.paper(tol=0, max_epochs=7, random_state=0).fit(X, y).n_epochs_ == 7


def test_warm_start_goes_on_where_it_stopped(data):
    X, y = data
    whole = SLNE.paper(max_epochs=4, tol=0, random_state=0).fit(X, y)
    parts = SLNE.paper(max_epochs=2, tol=0, random_state=0, warm_start=True).fit(X, y).fit(X, y)
    np.testing.assert_array_equal(whole.matrix_, parts.matrix_)
    assert len(parts.history_) == parts.n_epochs_ == 4
    with pytest.raises(ValueError, match="warm_start"):
        parts.fit(X[:, :5], y)


def test_interrupt_keeps_what_was_learned(data):
    X, y = data

    def press(epoch, model):
        if epoch == 3:
            _thread.interrupt_main()
            threading.Event().wait(1)

    model = SLNE.paper(max_epochs=500, tol=0, random_state=0, execution=Execution(callback=press))
    with pytest.warns(UserWarning, match="interrupted in epoch 4"):
        model.fit(X, y)
    assert model.n_epochs_ == 3
    again = SLNE.paper(max_epochs=3, tol=0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.matrix_, again.matrix_)


def test_rows_without_triplets_are_counted():
    X, y = blobs(n=120)
    y[:5] = [10, 11, 12, 13, 14]  # classes of one: no targets, still impostors
    model = SLNE.paper(n_neighbors=6, max_epochs=1, random_state=0).fit(X, y)
    assert model.n_skipped_ >= 5
    assert model.history_[0]["skipped"] == model.n_skipped_


def test_nothing_to_learn_is_said():
    X = np.concatenate([np.eye(4), -np.eye(4)]).repeat(3, axis=0) + 0.01
    y = np.arange(8).repeat(3)
    with pytest.warns(ConvergenceWarning, match="nothing can be learned"):
        model = SLNE.paper(n_neighbors=2).fit(X, y)
    np.testing.assert_array_equal(model.matrix_, np.eye(4))


def test_same_for_any_layout_and_type(data, tmp_path):
    X, y = data
    expected = SLNE.paper(max_epochs=2, random_state=0).fit(X, y).matrix_
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert not mapped.flags.writeable
    for other in (np.asfortranarray(X), X.astype(np.float64), mapped, X.tolist()):
        M = SLNE.paper(max_epochs=2, random_state=0).fit(other, y).matrix_
        np.testing.assert_array_equal(M, expected)
    whole_numbers = (X * 100).astype(int)
    half = SLNE.paper(max_epochs=1, random_state=0).fit(X.astype(np.float16), y)
    assert half.matrix_.dtype == np.float32
    assert SLNE.paper(max_epochs=1).fit(whole_numbers, y).matrix_.dtype == np.float32


def with_cell(value):
    X = blobs(n=40)[0].copy()
    X[3, 2] = value
    return X


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (with_cell(np.nan), blobs(n=40)[1], "NaN"),
        (with_cell(np.inf), blobs(n=40)[1], "infinity"),
        (np.zeros((0, 4)), [], "0 sample"),
        (np.ones((1, 4)), [0], r"1 sample.* minimum of 2"),
        (blobs(n=40)[0], np.zeros(40), "one class"),
        (blobs(n=40)[0], np.arange(40), "single row"),
        (np.zeros((40, 4)), np.arange(40) % 2, "only zero vectors"),
        (blobs(n=40)[0], np.zeros(39), "y has 39 labels and X has 40 rows"),
        (np.array([["a"], ["b"]]), [0, 1], "could not convert"),
    ],
)
def test_bad_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        SLNE.paper().fit(X, y)


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": "softest"}, {"sampling": Hardest(-1)}, {"sampling": Softmax(-0.1)},
        {"sampling": Softmax}, {"step_size": 0}, {"n_neighbors": 0}, {"max_epochs": 0},
        {"constraint": Constraint(rank=0)}, {"constraint": "psd"}, {"tol": np.nan},
        {"validation_fraction": 1.5}, {"execution": {"order": "local"}},
        {"execution": Execution(order="none")}, {"execution": Execution(callback=5)},
    ],
)  # fmt: skip
def test_bad_parameters_are_named(data, settings):
    ((name, value),) = settings.items()
    names = value.get_params() if isinstance(value, ParameterGroup) else [name]
    with pytest.raises(ValueError, match=rf"^({name}\.)?({'|'.join(names)})="):
        SLNE.paper(**settings).fit(*data)


def test_too_many_neighbours_warns_and_uses_all(data):
    X, y = data
    with pytest.warns(UserWarning, match="299 are used"):
        SLNE.paper(n_neighbors=300, max_epochs=1).fit(X, y)


def test_some_zero_vectors_are_harmless(data):
    X, y = data
    X = X.copy()
    X[:3] = 0
    assert np.isfinite(SLNE.paper(max_epochs=2).fit(X, y).matrix_).all()


@pytest.mark.filterwarnings("ignore:.*(overflow|invalid).*")
@pytest.mark.parametrize("setting", [{"psd": True}, {"rank": 2}, {"symmetric": True}])
def test_an_interrupt_within_an_epoch_keeps_what_was_promised(monkeypatch, setting):
    X, y = blobs(n=700, dims=12)
    seen = []

    def interrupted(learner, *given, take=trainer.Trainer.take):
        seen.append(take(learner, *given))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return seen[-1]

    monkeypatch.setattr(trainer.Trainer, "take", interrupted)
    with pytest.warns(UserWarning, match="interrupted in epoch 1"):
        model = slne(step_size=1.0, random_state=0, **setting).fit(X, y)
    eigenvalues = np.linalg.eigvals(model.matrix_)
    if "rank" in setting:
        assert np.linalg.matrix_rank(model.matrix_, tol=1e-4) == 2
    else:
        np.testing.assert_allclose(model.matrix_, model.matrix_.T, atol=1e-6)
    if "psd" in setting:
        assert eigenvalues.real.min() > -1e-5
        np.testing.assert_allclose(
            model.components_.T @ model.components_, model.matrix_, atol=1e-4
        )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_neighbors": 2.5}, "n_neighbors=2.5 must be a whole number"),
        ({"max_epochs": 1.5}, "max_epochs=1.5 must be a whole number"),
        ({"rank": 2.5}, "rank=2.5 must be a whole number"),
        ({"validation_fraction": "a"}, "validation_fraction='a' must be a number"),
        ({"index": 3}, "index=3 must be a string"),
    ],
)
def test_settings_of_the_wrong_kind(data, setting, message):
    with pytest.raises(ValueError, match=message):
        slne(**setting).fit(*data)


def test_ragged_lists_are_named(data):
    X, y = data
    with pytest.raises(ValueError, match="neighbors"):
        SLNE.paper().fit(X, y, neighbors=[[1, 2], [0]] * (len(X) // 2))


def test_no_tolerance_means_all_epochs(data):
    X, y = data
    model = SLNE.paper("softmax", tol=0, max_epochs=17, random_state=0, validation_fraction=0.1)
    assert len(model.fit(X, y).history_) == 17


@pytest.mark.parametrize(("factor", "largest"), [(1e20, r"e\+20"), (1e-25, "e-25")])
def test_rows_whose_squares_are_beyond_float32(data, factor, largest):
    X, y = data
    with pytest.raises(ValueError, match=f"largest number is .*{largest}.*divide X by it"):
        SLNE.paper().fit(X / np.abs(X).max() * factor * 1.5, y)


@pytest.mark.parametrize("setting", [{"psd": True}, {"rank": 3}, {"normalize": True}])
def test_divergence_is_named_whatever_is_kept(data, setting):
    X, y = data
    with pytest.raises(
        FloatingPointError, match=r"step_size=1e\+60 diverged.*lower step_size"
    ) as told:
        slne(step_size=1e60, random_state=0, **setting).fit(X, y)
    assert ("normalize=True" in str(told.value)) == ("normalize" not in setting)


def test_a_divergent_step_size_warns_once(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match="diverges: .* of epoch 1 is") as told:
        model = SLNE.paper(step_size=1e6, tol=0, max_epochs=5, random_state=0).fit(X, y)
    assert min(h["loss"] for h in model.history_) > 1e4  # in every epoch, and told once
    assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(ConvergenceWarning, match="of epoch 6 is") as told:
        model.partial_fit(X[:2], y[:2])
    assert [warning.filename for warning in told] == [__file__]


def test_divergence_is_named(data):
    with pytest.raises(FloatingPointError, match=r"step_size=1e\+38 diverged"):
        SLNE.paper(Hardest(1e30), step_size=1e38, max_epochs=20).fit(*data)
    with pytest.warns(ConvergenceWarning, match=r"step_size=1e\+20 diverges"):
        SLNE.paper(step_size=1e20, max_epochs=2).fit(*data)


def test_wrong_width_later(data):
    model = SLNE.paper(max_epochs=1).fit(*data)
    with pytest.raises(ValueError, match="5 features"):
        model.similarity(np.ones((2, 5)), np.ones((2, 12)))
    with pytest.raises(ValueError, match="pairs has shape"):
        model.pair_score(np.ones((2, 12)))
    with pytest.raises(ValueError, match="y has 3 labels"):
        model.objective(data[0], [0, 1, 0])
    for y in (np.linspace(0, 1, len(data[0])), np.where(data[1] == 0, np.nan, data[1])):
        with pytest.raises(ValueError, match=r"continuous|NaN"):
            model.objective(data[0], y)


def test_bad_neighbours(data):
    X, y = data
    with pytest.raises(ValueError, match="one list for each row"):
        SLNE.paper().fit(X, y, neighbors=[[1, 2]])
    with pytest.raises(ValueError, match="between 0 and 299"):
        SLNE.paper().fit(X, y, neighbors=np.full((300, 2), 300))


def test_quiet_unless_asked(data, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SLNE.paper(max_epochs=2).fit(*data)
    assert capsys.readouterr().out == ""
    SLNE.paper(max_epochs=2, execution=Execution(verbose=1)).fit(*data)
    assert "violation_rate" in capsys.readouterr().out


def exact_lists(X, rows, k):
    """The k nearest of some rows among all but themselves, by sorting all distances."""
    lists = []
    for i in rows:
        distances = np.linalg.norm(X.astype(float) - X[i].astype(float), axis=1)
        distances[i] = np.inf
        lists.append(np.argsort(distances)[:k])
    return np.array(lists)


@pytest.mark.parametrize("first_by", ["fit", "partial_fit"])
def test_partial_fit_against_numpy(first_by):
    """Lists, visits and steps of rows that come later, one of them of a new class."""
    X, y = blobs(n=160, dims=8)
    y[-3:] = 9
    n, k = 100, 6
    model = SLNE.paper(
        n_neighbors=k, max_epochs=2, tol=0, random_state=0, execution=Execution(order="given")
    )
    getattr(model, first_by)(X[:n], y[:n])
    lists = exact_lists(X[:n], range(n), k)
    passes = 2 if first_by == "fit" else 1
    M, _ = oracle.algorithm_1(X[:n], y[:n], lists, epochs=passes)
    t = passes * n
    for lo, hi in ((100, 140), (140, 160)):
        new = exact_lists(X[:hi], range(lo, hi), k)
        lists = np.concatenate([lists, new])
        near = oracle.symmetrised(lists)
        hoods = oracle.split(near, y)
        visits = [i for i in range(hi) if i >= lo or any(j >= lo for j in near[i])]
        for i in visits:
            rho = 0.2 / np.sqrt(t / hi + 1)
            t += 1
            targets, impostors = hoods[i]
            if targets and impostors:
                q = X[i].astype(float) @ M
                ct, ci, _ = oracle.weights("hardest", X[targets] @ q, X[impostors] @ q, 0.02, 0, 0)
                M = M + rho * np.outer(X[i], ct @ X[targets] + ci @ X[impostors])
        model.partial_fit(X[lo:hi], y[lo:hi])
        assert model.t_ == t
        np.testing.assert_allclose(model.matrix_, M, atol=1e-4)
    assert model.n_epochs_ == len(model.history_) == passes + 2


def test_partial_fit_learns_a_new_class():
    X, y = blobs(n=900, dims=20, classes=6, spread=1.0)
    old, new, test = (np.flatnonzero(m) for m in _thirds(y))
    model = SLNE.paper("softmax", step_size=0.5, random_state=0).fit(X[old], y[old])
    train = np.concatenate([old, new])
    near = nearest(X[train], 30, queries=X[test])[1]

    def accuracy():
        scores = model.neighbor_scores(X[test], X[train], near)
        return (Vote("softmax", 0.05).tally(scores, y[train][near], 6).argmax(1) == y[test]).mean()

    before = accuracy()
    model.partial_fit(X[new], y[new])
    assert accuracy() > before


def _thirds(y):
    """Rows of all classes but two; rows of these two; rows of them to be asked about."""
    late = y >= 4
    second = np.cumsum(late) % 2 == 0
    return ~late, late & second, late & ~second


def test_partial_fit_row_by_row_and_in_words():
    X, y = blobs(n=60)
    names = np.array(["wren", "owl", "kite", "blackbird"])[y]
    model = SLNE.paper(n_neighbors=5, random_state=0).partial_fit(X[:40], names[:40])
    before = model.matrix_.copy()
    for i in range(40, 60):
        model.partial_fit(X[[i]], names[[i]])
    assert model.n_epochs_ == 21
    assert not np.array_equal(before, model.matrix_)
    with pytest.raises(ValueError, match="where earlier labels are"):
        model.partial_fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_fit(X[:2, :3], names[:2])


@pytest.mark.filterwarnings("ignore:no row has both")
def test_partial_fit_begins_with_anything():
    X, y = blobs(n=60)
    model = SLNE.paper(n_neighbors=30).partial_fit(
        X[:2], [0, 0]
    )  # one class, fewer rows than wanted
    np.testing.assert_array_equal(model.matrix_, np.eye(12))
    assert np.isfinite(model.partial_fit(X[2:], y[2:]).matrix_).all()


def test_equal_new_rows_do_not_list_themselves():
    X, y = blobs(n=60)
    known = TrainingSet(X, y, nearest(X, 3)[1])
    graph = known.extended(np.tile(X[:1], (9, 1)), np.zeros(9, int), 3, "auto").neighbors
    own = np.arange(60, 69).repeat(3)
    assert not (graph.indices[graph.indptr[60] :] == own).any()


@pytest.mark.parametrize("lists", ["array", "graph"])
def test_partial_fit_after_ready_made_lists(data, lists):
    X, y = data
    near = nearest(X[:200], 8)[1]
    given = as_graph(near, 200) if lists == "graph" else near
    settings = {"n_neighbors": 8, "random_state": 0, "max_epochs": 2}
    model = slne(**settings).fit(X[:200], y[:200], neighbors=given)
    model.partial_fit(X[200:], y[200:])
    expected = slne(**settings).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(model.matrix_, expected.matrix_)


def test_rows_are_not_pickled_or_saved(data, tmp_path):
    X, y = data
    model = SLNE.paper(max_epochs=1, warm_start=True, random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "m")
    for copy in (pickle.loads(pickle.dumps(model)), nearkin.load(tmp_path / "m")):
        np.testing.assert_array_equal(copy.matrix_, model.matrix_)
        with pytest.raises(ValueError, match="warm_start=True"):
            copy.partial_fit(X, y)
        copy.fit(X, y)
        assert copy.n_epochs_ == 2
    assert len(pickle.dumps(model)) < X.nbytes
    model.partial_fit(X, y)


def test_the_softmax_rule_always_has_some_loss(data):
    X, y = data
    for rule, rate in (("softmax", 1.0), ("hardest", 0.99)):
        history = SLNE.paper(rule, n_neighbors=5, tol=0, random_state=0).fit(X, y).history_
        assert (history[-1]["violation_rate"] >= rate) == (rule == "softmax")


@pytest.mark.parametrize("length", [1e-12, 1e12])
@pytest.mark.parametrize("symmetric", [False, True])
def test_normalised_whatever_the_length_of_rows(data, length, symmetric):
    X, y = data
    model = SLNE.paper(
        max_epochs=2,
        tol=0,
        random_state=0,
        constraint=Constraint(normalize=True, symmetric=symmetric),
    )
    expected = model.fit(X, y).matrix_
    found = model.fit(X * np.float32(length), y).matrix_
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_a_graph_with_repeated_entries_stays_as_it_is(data):
    X, y = data
    lists = nearest(X, 7)[1]
    twice, n = np.c_[lists, lists], len(X)
    graph = sparse.csr_array(
        (np.ones(twice.size), twice.ravel(), np.arange(n + 1) * 14), shape=(n, n)
    )
    model = SLNE.paper(max_epochs=2, random_state=0, validation_fraction=0.1)
    once = model.fit(X, y, neighbors=lists).matrix_
    np.testing.assert_allclose(model.fit(X, y, neighbors=graph).matrix_, once, atol=1e-5)
    assert graph.indptr[-1] == twice.size


def test_early_stopping_without_a_row_to_spare_warns():
    X, _ = blobs(n=80)
    with pytest.warns(UserWarning, match="validation_fraction=0.1 of classes"):
        SLNE.paper(n_neighbors=10, max_epochs=1, validation_fraction=0.1).fit(X, np.arange(80) // 2)


def test_a_choice_that_cannot_be_hashed(data):
    with pytest.raises(ValueError, match=r"sampling=\['hardest'\] must be 'auto' or one of"):
        SLNE.paper(["hardest"]).fit(*data)


def test_a_callback_stops_the_fit(data):
    model = SLNE.paper(tol=0, execution=Execution(callback=lambda epoch, _: epoch == 3)).fit(*data)
    assert model.n_epochs_ == len(model.history_) == 3


def test_nested_parameters_reach_the_groups(data):
    model = SLNE.paper(Softmax(), execution=Execution())
    model.set_params(sampling__temperature=0.3, execution__order="given", max_epochs=2)
    expected = SLNE.paper(Softmax(0.3), execution=Execution(order="given"), max_epochs=2).fit(*data)
    np.testing.assert_array_equal(model.fit(*data).matrix_, expected.matrix_)


class OwnHardest(SamplingRule):
    """The paper's rule once more, as a user would write it."""

    @staticmethod
    def weights(scores, n_targets, parameter, u, c):
        target = np.argmin(scores[:n_targets])
        impostor = n_targets + np.argmax(scores[n_targets:])
        loss = np.float32(0.02) - scores[target] + scores[impostor]
        if loss > 0:
            c[target], c[impostor] = 1, -1
        return max(loss, 0.0)


@pytest.mark.parametrize("dims", [12, 300])  # block by block, and pipelined
def test_a_rule_of_the_users_own(dims):
    X, y = blobs(n=500, dims=dims, spread=2)
    settings = {"max_epochs": 2, "tol": 0, "random_state": 0}
    own = SLNE.paper(OwnHardest(), **settings).fit(X, y)
    scale = own.scale_
    theirs = SLNE.paper(Hardest(0.02 / scale), **settings).fit(X, y)
    np.testing.assert_allclose(own.matrix_, theirs.matrix_, atol=1e-5)
    assert own.history_[0]["violation_rate"] > 0


def test_a_model_with_a_rule_of_the_users_own_can_be_saved(data, tmp_path):
    model = SLNE.paper(OwnHardest(), max_epochs=1).fit(*data)
    nearkin.save(model, tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.matrix_, model.matrix_)
    with pytest.raises(ValueError, match="sampling=None"):  # its code is not in the file
        again.fit(*data)


def test_indices_that_are_no_rows_are_refused(data):
    X, y = data
    model = SLNE.paper(max_epochs=1).fit(X, y)
    for lists in ([[300]], [[-2]], [[0.5]], [0], [[0], [1]], np.ma.masked_array([[9_999]], True)):
        with pytest.raises(ValueError, match="neighbors"):
            model.neighbor_scores(X[:1], X, lists)
    for Z in (X[:, :5], X[0]):
        with pytest.raises(ValueError, match=r"Z has (5 columns|shape)"):
            model.neighbor_scores(X[:1], Z, [[0]])
    with pytest.raises(ValueError, match="masked array"):
        SLNE.paper().fit(X, y, neighbors=np.ma.masked_array(np.full((300, 2), 10**6), True))

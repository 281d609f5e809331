import itertools
import os
import resource
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

import nearkin
import oracle
from nearkin import SLDE, SLNE, Execution, SoftVotingKNN
from nearkin.ensemble import joint
from nearkin.ensemble.members import learn_member, mean_squared_length
from nearkin.native.threads import n_threads
from nearkin.neighbors import nearest
from nearkin.neighbors.kmeans import Partition, cells_of
from nearkin.reproduction.baselines import LMNN
from samples import blobs, slne

EASY = {"n_neighbors": 10, "max_epochs": 3, "tol": 0}


@parametrize_with_checks([SLDE(), SLDE(SLNE.paper(max_epochs=2), n_members=2)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return blobs(n=240, dims=12)


@pytest.mark.parametrize("projection", ["pca", "random", "orthonormal", "sparse", "mixed"])
def test_collapsed_matrix_gives_the_ensembles_scores(data, projection):
    X, y = data
    model = SLDE(slne(**EASY), projection=projection, n_members=4, n_components=3, random_state=0)
    model.fit(X, y)
    expected = np.zeros((5, 7))
    for P, M in zip(model.projections_, model.members_):
        A, B = X[:5] @ P.matrix().T, X[5:12] @ P.matrix().T
        expected += A.astype(float) @ M @ B.T
    np.testing.assert_allclose(model.similarity(X[:5], X[5:12]), expected, atol=1e-4)


def test_a_member_is_slne_on_the_projected_rows(data):
    """In the units of the whole data: margin and step as they are for rows of this length."""
    X, y = data
    P = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 5)))[0].T.astype(np.float32)
    lists = nearest(X, 10)[1]
    alone = SLDE(slne(order="given", **EASY), projection=[P], coupling="none")
    model = alone.fit(X, y, neighbors=lists)
    Z = X @ P.T
    M, _ = oracle.algorithm_1(Z, y, lists, epochs=3)
    assert np.linalg.norm(model.members_[0] - M) <= 1e-3 * np.linalg.norm(M)


def test_same_for_any_number_of_workers(data):
    X, y = data
    settings = {"n_members": 3, "random_state": 0}
    one = SLDE(slne(**EASY), n_jobs=1, **settings).fit(X, y)
    two = SLDE(slne(**EASY), n_jobs=2, **settings).fit(X, y)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        three = SLDE(slne(**EASY), **settings).fit(X, y)
    np.testing.assert_array_equal(one.matrix_, two.matrix_)
    np.testing.assert_array_equal(one.matrix_, three.matrix_)


def test_one_member_in_the_whole_space_is_slne(data):
    X, y = data
    ensemble = SLDE(slne(order="given", **EASY), projection=[np.eye(12)]).fit(X, y)
    single = slne(order="given", **EASY).fit(X, y)
    np.testing.assert_allclose(ensemble.matrix_, single.matrix_, atol=1e-4)


@pytest.mark.parametrize("learner", [NeighborhoodComponentsAnalysis(max_iter=5), LMNN(max_iter=10)])
def test_other_metric_learners(data, learner):
    X, y = data
    model = SLDE(learner, n_members=3, random_state=0).fit(X, y)
    assert model.matrix_.shape == (12, 12)
    assert np.linalg.eigvalsh(model.matrix_).min() > -1e-3
    assert SoftVotingKNN(SLDE(learner, n_members=3), random_state=0).fit(X, y).score(X, y) > 0.5


def test_a_learner_without_a_matrix_is_refused(data):
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(TypeError, match=r"LogisticRegression has neither matrix_"):
        SLDE(LogisticRegression(), n_members=2).fit(*data)


def test_joint_refinement_lowers_the_objective(data):
    X, y = data
    lists = nearest(X, 10)[1]
    settings = {"n_members": 3, "random_state": 0}
    apart = SLDE(slne(rule="all", **EASY), **settings).fit(X, y, neighbors=lists)
    joint = SLDE(slne(rule="all", **EASY), joint_epochs=3, **settings).fit(X, y, neighbors=lists)
    before = oracle.objective(apart.matrix_.astype(float), X, y, lists, 0.02 * apart.scale_)
    after = oracle.objective(joint.matrix_.astype(float), X, y, lists, 0.02 * joint.scale_)
    assert after < before
    first, last = joint.joint_history_[0], joint.joint_history_[-1]
    assert first["before"] == pytest.approx(before, rel=1e-3)
    assert min(last["before"], last["after"]) == pytest.approx(after, rel=1e-3)
    assert any(h["kept"] for h in joint.joint_history_)
    for update in joint.joint_history_:
        assert update["kept"] == (update["after"] < update["before"])


def test_a_joint_step_sees_the_other_members(data):
    """One round over the second of two members, against Algorithm 1 with offsets in numpy."""
    X, y = data
    lists = nearest(X, 10)[1]
    A, B = np.eye(12, dtype=np.float32)[:6], np.eye(12, dtype=np.float32)[6:]
    base = SLNE.paper(
        "all",
        n_neighbors=10,
        max_epochs=1,
        tol=0,
        step_size=2.0,
        execution=Execution(order="given"),
    )
    plain = SLDE(base, projection=[A, B]).fit(X, y, neighbors=lists)
    joint = SLDE(base, projection=[A, B], joint_epochs=1).fit(X, y, neighbors=lists)
    kept = joint.joint_history_[0]["kept"]
    first = joint.members_[0] if kept else plain.members_[0]
    hoods = oracle.split(oracle.symmetrised(lists), y)
    Z, n, M = X[:, 6:].astype(float), len(X), plain.members_[1].astype(float)
    others = X[:, :6].astype(float) @ first @ X[:, :6].T
    for i, (targets, impostors) in enumerate(hoods):
        if targets and impostors:
            q = Z[i] @ M
            scores = [Z[s] @ q + others[i, s] for s in (targets, impostors)]
            ct, ci, _ = oracle.weights("all", *scores, 0.02, 0, 0)
            step = 2.0 / np.sqrt((n + i) / n + 1)
            M += step * np.outer(Z[i], ct @ Z[targets] + ci @ Z[impostors])
    expected = M if joint.joint_history_[1]["kept"] else plain.members_[1]
    assert np.linalg.norm(joint.members_[1] - expected) <= 1e-3 * np.linalg.norm(expected)


def test_weights_by_held_out_accuracy(data):
    X, y = data
    noise = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32) * 1e-3
    model = SLDE(slne(**EASY), projection=[np.eye(12), noise], weights="accuracy", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # for rows that are short, the margin is long
        model.fit(X, y)
    assert model.weights_[0] > model.weights_[1]
    assert np.mean(model.weights_) == pytest.approx(1)


def test_options_and_saving(data, tmp_path):
    X, y = data
    model = SLDE(slne(psd=True, **EASY), projection="mixed", n_members=4)
    model.fit(X, y)
    L = model.components_
    np.testing.assert_allclose(L.T @ L, model.matrix_, atol=1e-3)
    nearkin.save(model, tmp_path / "e.safetensors")
    again = nearkin.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(again.similarity(X, X), model.similarity(X, X))
    np.testing.assert_array_equal(again.projections_[3].matrix(), model.projections_[3].matrix())


def test_resumes_with_the_missing_members_only(data, tmp_path):
    X, y = data
    settings = {"n_members": 4, "random_state": 0}
    whole = SLDE(slne(**EASY), **settings).fit(X, y)
    first = SLDE(slne(**EASY), **settings).fit(X, y, folder=tmp_path / "run")
    np.testing.assert_array_equal(whole.matrix_, first.matrix_)
    files = sorted((tmp_path / "run").glob("member-*"))
    assert len(files) == 4
    kept = {f: f.stat().st_mtime_ns for f in files[:2]}
    for f in files[2:]:
        f.unlink()
    again = SLDE(slne(**EASY), n_jobs=2, **settings).fit(X, y, folder=tmp_path / "run")
    np.testing.assert_array_equal(whole.matrix_, again.matrix_)
    assert {f: f.stat().st_mtime_ns for f in files[:2]} == kept
    left = sorted(p.suffix for p in (tmp_path / "run").iterdir() if p.is_file())
    assert left == [".json"] + [".safetensors"] * 4


def test_a_folder_of_another_run_is_refused(data, tmp_path):
    X, y = data
    SLDE(slne(**EASY), n_members=2, random_state=0).fit(X, y, folder=tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    other = X.copy()
    other[len(X) // 3, 2] += 1
    for changed, rows, told in [
        ({"n_members": 3}, X, "n_members is 2 there and 3 here"),
        (
            {"learner": slne(**EASY | {"margin": 0.1})},
            X,
            r"learner\.sampling is .*margin=0\.1",
        ),
        ({"random_state": 1}, X, "seeds is"),
        ({}, other, "X differs"),
    ]:
        settings = {"learner": slne(**EASY), "n_members": 2, "random_state": 0} | changed
        with pytest.raises(ValueError, match=f"made from other data or settings: .*{told}"):
            SLDE(**settings).fit(rows, y, folder=tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


def test_a_classifier_with_a_folder_fits_twice(data, tmp_path):
    """Once without the held-out rows and once with all; both are kept, and found again."""
    X, y = data

    def fit():
        model = SoftVotingKNN(SLDE(slne(**EASY), n_members=2), random_state=0)
        return model.fit(X, y, folder=tmp_path).similarity_.matrix_

    first = fit()
    files = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*member-*")}
    assert len(files) == 4
    np.testing.assert_array_equal(first, fit())
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("*member-*")} == files


class Counting(SLNE):
    """Notes how many threads each library may use while a member is learned."""

    def fit(self, X, y, neighbors=None):
        super().fit(X, y, neighbors=neighbors)
        libraries = [library["num_threads"] for library in threadpool_info()]
        self.history_ = [max([n_threads(), *libraries])]
        return self


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_member_uses_one_thread(data, n_jobs):
    model = SLDE(Counting(**EASY), n_members=2, n_jobs=n_jobs).fit(*data)
    assert model.histories_ == [[1], [1]]


class KilledOnce(SLNE):
    """Dies like a process that the operating system kills, once."""

    def fit(self, X, y, neighbors=None):
        marker = os.environ["NEARKIN_TEST_MARKER"]
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y, neighbors=neighbors)


@pytest.mark.slow
def test_a_killed_worker_is_named_and_the_fit_resumes(data, tmp_path, monkeypatch):
    X, y = data
    monkeypatch.setenv("NEARKIN_TEST_MARKER", str(tmp_path / "marker"))
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)  # workers see the variable
    settings = {"n_members": 4, "random_state": 0, "n_jobs": 2}
    with pytest.raises(RuntimeError, match=r"worker process died.*of 4 members are kept"):
        SLDE(KilledOnce.paper(**EASY), **settings).fit(X, y, folder=tmp_path / "run")
    left = {p.name[:6] for p in (tmp_path / "run").iterdir() if p.suffix == ".safetensors"}
    assert left <= {"member"}
    again = SLDE(KilledOnce.paper(**EASY), **settings).fit(X, y, folder=tmp_path / "run")
    whole = SLDE(slne(**EASY), n_members=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)


@pytest.mark.filterwarnings("ignore:interrupted")
def test_interrupt_keeps_whole_members_only(data, tmp_path):
    X, y = data

    def press():
        while not list(tmp_path.glob("member-*")):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    settings = {"n_members": 5, "random_state": 0}
    slow = SLNE.paper(n_neighbors=50, max_epochs=400, tol=0)
    with pytest.raises(KeyboardInterrupt):
        SLDE(slow, **settings).fit(X, y, folder=tmp_path)
    assert 1 <= len(list(tmp_path.glob("member-*"))) < 5
    again = SLDE(slow, **settings).fit(X, y, folder=tmp_path)
    # A temporary that the interrupt has left is removed by the next owner.
    assert [p.name for p in (tmp_path / ".nearkin-tmp").iterdir()] == ["lock"]
    np.testing.assert_array_equal(again.matrix_, SLDE(slow, **settings).fit(X, y).matrix_)


def interrupted_at(call, wrapped):
    """A function that raises KeyboardInterrupt at its nth call."""
    calls = itertools.count(1)

    def wrapper(*given, **named):
        if next(calls) == call:
            raise KeyboardInterrupt
        return wrapped(*given, **named)

    return wrapper


def test_interrupt_without_a_folder_keeps_what_is_finished(data, monkeypatch):
    X, y = data
    settings = {"projection": "mixed", "n_members": 4, "random_state": 0}
    whole = SLDE(slne(**EASY), **settings).fit(X, y)
    monkeypatch.setattr(
        "nearkin.ensemble.ensemble_fit.learn_member", interrupted_at(4, learn_member)
    )
    with pytest.warns(UserWarning, match="3 of 4 members are finished; with folder=") as w:
        cut = SLDE(slne(**EASY), joint_epochs=1, **settings).fit(X, y)
    assert cut.interrupted_
    assert not whole.interrupted_
    assert w[0].filename == __file__
    assert len(cut.projections_) == 3
    assert cut.energies_ == whole.energies_
    total = sum(
        P.matrix().T @ M @ P.matrix() for P, M in zip(whole.projections_, whole.members_[:3])
    )
    np.testing.assert_allclose(cut.matrix_, total, atol=1e-4 * np.abs(total).max())
    monkeypatch.setattr(
        "nearkin.ensemble.ensemble_fit.learn_member", interrupted_at(1, learn_member)
    )
    with pytest.raises(KeyboardInterrupt):
        SLDE(slne(**EASY), **settings).fit(X, y)


def test_interrupt_keeps_whole_joint_updates(data, monkeypatch):
    X, y = data
    settings = {"n_members": 3, "random_state": 0}
    plain = SLDE(slne(**EASY), **settings).fit(X, y)
    # The objective is computed before and after each update: in the third.
    monkeypatch.setattr(joint, "objective", interrupted_at(6, joint.objective))
    with pytest.warns(UserWarning, match="2 joint updates are kept"):
        cut = SLDE(slne(**EASY), joint_epochs=5, **settings).fit(X, y)
    assert [entry["member"] for entry in cut.joint_history_] == [0, 1]
    same = [np.array_equal(a, b) for a, b in zip(cut.members_, plain.members_)]
    assert same == [not entry["kept"] for entry in cut.joint_history_] + [True]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a file system nobody may write")
def test_read_only_disk(data):
    with pytest.raises(OSError, match="/proc/nearkin"):
        SLDE(slne(**EASY), n_members=2).fit(*data, folder="/proc/nearkin")


def test_full_disk(data, tmp_path):
    """A limit on the size of files stands for a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        with pytest.raises(OSError, match="the disk is full"):
            SLDE(slne(**EASY), n_members=2).fit(*data, folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["nearkin-folder.json"]


def test_a_folder_that_is_a_file(data, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        SLDE(slne(**EASY), n_members=2).fit(*data, folder=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 13}, "n_components=13"),
        ({"projection": [np.ones((2, 3))]}, r"\(d, 12\) is expected"),
        ({"weights": "luck"}, "weights='luck'"),
        ({"n_members": 0}, "n_members=0"),
        ({"n_members": 2.5}, r"n_members=2\.5 must be a whole number"),
        ({"n_components": 2.5}, r"n_components=2\.5 must be a whole number"),
        ({"learner": SLNE.paper(n_neighbors=2.5)}, r"n_neighbors=2\.5 must be a whole number"),
        ({"learner": SLNE.paper(execution=Execution(index=3))}, "index=3 must be a string"),
        (
            {"learner": SLNE.paper(execution=Execution(index="exact;foo"))},
            "'exact' takes no settings",
        ),
        ({"learner": LMNN(), "joint_epochs": 1}, "needs SLNE as learner"),
    ],
)
def test_bad_parameters(data, settings, message):
    with pytest.raises(ValueError, match=message):
        SLDE(**settings).fit(*data)


def test_lists_of_different_lengths(data):
    X, y = data
    lists = [[1, 2], *([0] for _ in X[1:])]
    with pytest.raises(ValueError, match="neighbors holds lists of different lengths"):
        SLDE(n_members=2).fit(X, y, neighbors=lists)


def test_one_row_has_no_objective(data):
    X, y = data
    model = SLDE(slne(**EASY), n_members=2).fit(X, y)
    with pytest.raises(ValueError, match="X has one row"):
        model.objective(X[:1], y[:1])


def test_more_neighbours_than_rows(data):
    """One warning, as from SLNE alone, at the call of fit; and what all other rows would give."""
    X, y = data
    settings = {"n_members": 3, "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        many = SLDE(SLNE.paper(n_neighbors=500, max_epochs=1), **settings).fit(X, y)
    (warning,) = caught
    with pytest.warns(UserWarning, match="n_neighbors=500 but X has 240 rows; 239 are") as alone:
        SLNE.paper(n_neighbors=500, max_epochs=1).fit(X, y)
    assert str(warning.message) == str(alone[0].message)
    assert warning.filename == __file__
    all_others = SLDE(SLNE.paper(n_neighbors=239, max_epochs=1), **settings).fit(X, y)
    np.testing.assert_array_equal(many.matrix_, all_others.matrix_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # lists that are there, and learners that ask for none
        SLDE(SLNE.paper(n_neighbors=500, max_epochs=1)).fit(X, y, neighbors=nearest(X, 10)[1])
        few = np.concatenate([X[y == label][:10] for label in np.unique(y)])
        labels = np.repeat(np.arange(len(np.unique(y))), 10)
        SLDE(NeighborhoodComponentsAnalysis(max_iter=5), n_members=2).fit(few, labels)


def test_local_order_follows_the_whole_space(data, monkeypatch):
    """Members visit rows in the cells of all dimensions; none looks for cells in its own."""
    X, y = data
    asked = []
    monkeypatch.setattr(
        "nearkin.ensemble.ensemble_fit.cells_of", lambda rows: asked.append(rows) or cells_of(rows)
    )
    monkeypatch.delattr("nearkin.learning.trainer.cells_of")
    learner = slne(order="local", **EASY)
    local = SLDE(learner, n_members=3, random_state=0).fit(X, y).matrix_
    assert [rows.shape for rows in asked] == [(240, 12)]
    random = SLDE(slne(**EASY), n_members=3, random_state=0).fit(X, y).matrix_
    assert not np.array_equal(local, random)


@pytest.mark.parametrize("ensemble", [True, False])
def test_local_order_by_cells_of_the_search(data, monkeypatch, tmp_path, ensemble):
    """One k-means, for the search and the order; the same when work is resumed."""
    X, y = data
    made, kmeans = [], Partition.__init__
    monkeypatch.setattr(
        Partition, "__init__", lambda self, *given: made.append(1) or kmeans(self, *given)
    )
    learner = slne(order="local", index="cells", random_state=0, **EASY)
    model = SLDE(learner, n_members=3, random_state=0) if ensemble else learner
    matrix = model.fit(X, y).matrix_
    assert len(made) == 1
    for _ in range(2):  # the second finds the lists kept
        np.testing.assert_array_equal(model.fit(X, y, folder=tmp_path / "run").matrix_, matrix)


def test_a_block_without_anything_in_it_is_named():
    X, y = blobs(n=200, dims=12)
    X[:, 8:] = 0
    with pytest.raises(
        ValueError, match=r"PCA block 5 of 6 holds nothing.*n_members=4 with n_components=2"
    ):
        SLDE(slne(**EASY), n_members=6, n_components=2).fit(X, y)
    SLDE(slne(**EASY), n_members=4, n_components=2).fit(X, y)
    rest = np.eye(12, dtype=np.float32)[8:]
    with pytest.raises(ValueError, match=r"projection\[1\] makes every row of X zero"):
        SLDE(slne(**EASY), projection=[np.eye(12), rest]).fit(X, y)
    many = np.tile(X, (8, 1))
    many[2, 8:] = 0.1  # a row that is not in the sample
    assert mean_squared_length(many, rest) == 0
    SLDE(slne(**EASY), projection=[rest]).fit(many, np.tile(y, 8))


@pytest.mark.parametrize("factor", [1e30, 0])
def test_rows_beyond_float32_raise_the_error_of_slne(data, factor):
    X, y = data
    told = []
    for model in (SLNE(), SLDE(n_members=2)):
        with pytest.raises(ValueError, match="X") as error:
            model.fit(X * factor, y)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_one_class_is_reported_as_by_slne(data):
    X, y = data
    for model in (SLNE.paper(), SLDE(), LMNN()):
        with pytest.raises(ValueError, match="y holds one class; at least two classes are needed"):
            model.fit(X, np.zeros(len(y)))


def test_joint_updates_are_those_of_the_last_fit(data):
    model = SLDE(slne(**EASY), n_members=2, joint_epochs=1, random_state=0).fit(*data)
    assert model.joint_history_
    assert model.set_params(joint_epochs=0).fit(*data).joint_history_ == []


def test_threads_that_fit_at_once_leave_blas_as_it_was():
    def blas():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    data = blobs(n=500, dims=30)
    ensemble = SLDE(n_members=3, random_state=0).fit(*data)
    before = blas()
    with ThreadPoolExecutor(6) as threads:
        fits = [threads.submit(clone(ensemble).fit, *data) for _ in range(12)]
    assert blas() == before
    for fit in fits:
        np.testing.assert_array_equal(fit.result().matrix_, ensemble.matrix_)


@pytest.mark.parametrize("projection", ["pca", "orthonormal"])
def test_projections_have_the_same_bits_on_any_number_of_threads(projection):
    X, y = blobs(n=900, dims=700, spread=4.0)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = SLDE(SLNE(max_epochs=1, n_neighbors=5), projection=projection, n_members=2,
                         n_components=300, random_state=0)  # fmt: skip
            found.append(model.fit(X, y).matrix_)
    np.testing.assert_array_equal(*found)

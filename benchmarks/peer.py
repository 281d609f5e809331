"""One fit of one method, in its own process; started by `peers.py`, which reads its output.

    PYTHON benchmarks/peer.py METHOD ROWS.npz MEMORY_WATCH.py GIB [SCALE]

PYTHON may belong to an environment that has the peer and no nearkin: each method imports what it
needs, and the memory watch is loaded from its file. The last line printed is JSON: wall-clock and
CPU seconds of the fit, growth of the process in bytes, accuracy on the test rows.

Methods that compile code are fitted on a few rows first, which is not timed.
"""

import importlib.util
import json
import resource
import runpy
import sys
import time
import types
import warnings

import numpy as np

WARM_UP = 300
K = 3  # neighbours that vote under a learned metric, and targets of LMNN: its authors' choice


def nearkin(epochs=8, index="auto"):
    from nearkin import SLNE, Softmax

    learner = SLNE.paper(
        Softmax(0.05), n_neighbors=50, step_size=0.5, max_epochs=epochs, tol=0, random_state=0
    )
    return _voting(learner, index=index)


def nearkin_at_once():
    return nearkin(epochs=1)


class Quick:
    """One epoch, neighbours from an inverted file.

    The best of twelve, compared by hand on 5,000 training rows held out of fits of 10,000 and of
    55,000: 5 to 50 neighbours; 2, 4 or 8 lists searched. The test accuracy of a cheaper one of them
    (10 neighbours) had been seen before, and was too low to be compared with PyLMNN's.
    """

    def fit(self, X, y):
        """Learn; the number of lists grows with the rows."""
        index = f"IVF{int(len(X) ** 0.5)},Flat;nprobe=8"
        self.model = nearkin(epochs=1, index=index).fit(X, y)
        self.predict = self.model.predict
        return self


def plain():
    return _knn()


def oasis():
    from nearkin.reproduction.baselines import OASIS

    return _voting(OASIS(random_state=0))


def linear_svc():
    from nearkin.reproduction.linear_svms import linear_svm

    return linear_svm(0)


def averaged_sgd():
    from nearkin.reproduction.linear_svms import sgd_svm

    return sgd_svm(0)


def nca():
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    return _knn(NeighborhoodComponentsAnalysis(random_state=0))  # 50 iterations


def metric_learn_lmnn():
    from metric_learn import LMNN

    # At its default rate of 1e-7 nothing moves in 50 iterations, and 1,000 iterations, its default,
    # take minutes for 400 rows. It lowers the rate by itself where it is too high.
    return _knn(LMNN(n_neighbors=K, learn_rate=1e-5, max_iter=100, random_state=0))


def pylmnn():
    # The package's __init__ imports GPyOpt, which no longer builds, for a search that is not used
    # here: its module is imported without it.
    if "pylmnn" not in sys.modules:
        package = types.ModuleType("pylmnn")
        package.__path__ = list(importlib.util.find_spec("pylmnn").submodule_search_locations)
        sys.modules["pylmnn"] = package
    from pylmnn.lmnn import LargeMarginNearestNeighbor

    return _knn(LargeMarginNearestNeighbor(n_neighbors=K, random_state=0))  # 50 iterations


METHODS = {
    "nearkin SL-NE": nearkin,
    "SL-NE, 1 epoch": nearkin_at_once,
    "SL-NE, quick": Quick,
    "plain kNN": plain,
    "metric-learn LMNN": metric_learn_lmnn,
    "PyLMNN": pylmnn,
    "scikit-learn NCA": nca,
    "OASIS": oasis,
    "LinearSVC": linear_svc,
    "averaged SGD": averaged_sgd,
}


OURS = ("nearkin SL-NE", "SL-NE, 1 epoch", "SL-NE, quick")
COMPILED = (*OURS, "OASIS")


def _voting(similarity, **settings):
    from nearkin import SoftVotingKNN

    return SoftVotingKNN(similarity, vote="softmax", random_state=0, **settings)


def _knn(*before):
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*before, KNeighborsClassifier(K, n_jobs=-1))


def main() -> None:
    method, rows, memory_watch, gib, *scale = sys.argv[1:]
    most = int(float(gib) * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    warnings.simplefilter("ignore")
    watch = runpy.run_path(memory_watch)
    with np.load(rows) as file:
        X, y, Q, truth = (file[name] for name in ("X", "y", "Q", "truth"))
    for part in (X, Q):
        part *= np.float32(scale[0] if scale else 1)
    if method in COMPILED:
        METHODS[method]().fit(X[:WARM_UP], y[:WARM_UP])
    watch["release_memory"]()
    model = METHODS[method]()
    began, worked = time.perf_counter(), time.process_time()
    try:
        with watch["MemoryWatch"]() as memory:
            model.fit(X, y)
    except MemoryError:
        print(json.dumps({"failed": f"needs more than {gib} GiB"}))
        return
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - worked}
    accuracy = float(np.mean(model.predict(Q) == truth))
    print(json.dumps(took | {"bytes": memory.growth, "accuracy": accuracy}))


if __name__ == "__main__":
    main()

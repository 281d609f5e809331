"""What the choice of `SoftVotingKNN()` costs, and how much it depends on the seed.

    python benchmarks/choice.py --only cost [--rows 20000] [--dims 512] [--classes 200]
    python benchmarks/choice.py --only sets --data DIR --sets usps letter banking77 mnist covtype
    python benchmarks/choice.py --only few
    python benchmarks/choice.py --only many --rows 200000 --dims 1000 --classes 1000
    python benchmarks/choice.py --only seeds --data DIR --work WORK [--onnx NETWORK] [--sets …]

cost: wall and CPU seconds of the whole fit on made-up rows, beside scikit-learn's
LogisticRegressionCV (five folds, five C's) on the same rows. sets: CPU seconds of both on one
thread, on the training rows of data sets; logistic regression with scaled columns, as in
benchmarks/accuracy.py. few: 300 rows of digits, ten random samples, with the error on the rest and
its spread, beside logistic regression by cross-validation. many: the share of the choice in the
whole fit. seeds: test accuracies of ten seeds on the same rows, over all of them and as the mean of
the classes (data sets as in benchmarks/accuracy.py).
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline

import accuracy
import machine
from made_up import World
from nearkin import SoftVotingKNN
from nearkin.app.baselines import Scale
from nearkin.native.threads import limited

SEEDS = 10


def timed(model, X, y):
    """The fitted model, wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, time.perf_counter() - wall, time.process_time() - cpu


def logistic():
    return LogisticRegressionCV(Cs=5, cv=5, max_iter=300, n_jobs=2, use_legacy_attributes=False)


def cost(given):
    X, y = World(given.dims, given.classes).sample(given.rows)
    shape = f"{given.rows:,} × {given.dims}, {given.classes} classes"
    model, wall, cpu = timed(SoftVotingKNN(random_state=0), X, y)
    chosen = sum(trial["seconds"] for trial in model.trials_)
    print(f"{shape}: nearkin {wall:.1f} s, {cpu:.1f} of CPU; the choice {chosen:.1f} s", flush=True)
    if given.peer:
        _, wall, _ = timed(logistic(), X, y)
        print(f"{shape}: LogisticRegressionCV {wall:.1f} s")


def sets(given):
    with limited(1):
        timed(SoftVotingKNN(random_state=0), *World(64, 10).sample(3_000))  # loads compiled code
        for name in given.sets:
            X, y, *_ = accuracy.load(name, 0, given)
            peer = LogisticRegressionCV(Cs=5, cv=5, max_iter=1000, use_legacy_attributes=False)
            cpu = [timed(model, X, y)[2] for model in
                   (SoftVotingKNN(random_state=0), make_pipeline(Scale(), peer))]  # fmt: skip
            print(f"{name}, {len(X):,} × {X.shape[1]}: seconds of CPU: nearkin {cpu[0]:.1f}, "
                  f"LogisticRegressionCV {cpu[1]:.1f}", flush=True)  # fmt: skip


def few(given):
    X, y = load_digits(return_X_y=True)
    for name, make in (("nearkin", lambda: SoftVotingKNN(random_state=0)), ("logistic", logistic)):
        errors, seconds = [], []
        for seed in range(SEEDS):
            order = np.random.default_rng(seed).permutation(len(y))
            fit, test = order[:300], order[300:]
            model, wall, _ = timed(make(), X[fit], y[fit])
            errors.append(100 - 100 * model.score(X[test], y[test]))
            seconds.append(wall)
        print(f"300 digits, {name}: error {np.mean(errors):.2f} ± {np.std(errors):.2f} %, "
              f"{np.median(seconds):.1f} s (first {seconds[0]:.1f})", flush=True)  # fmt: skip


def seeds(given):
    for name in given.sets:
        X, y, Q, truth = accuracy.load(name, 0, given)
        found = []
        for seed in range(SEEDS):
            model, wall, _ = timed(SoftVotingKNN(random_state=seed), X, y)
            right = model.predict(Q) == truth
            classes = np.mean([right[truth == c].mean() for c in np.unique(truth)])
            found.append([100 * right.mean(), 100 * classes])
            print(name, seed, "{:.2f} %, by class {:.2f} %".format(*found[-1]), f"{wall:.1f} s",
                  flush=True)  # fmt: skip
        (mean, classes), (spread, by_class) = np.mean(found, axis=0), np.std(found, axis=0)
        print(f"{name}: {mean:.2f} ± {spread:.2f} %, by class {classes:.2f} ± {by_class:.2f} %, "
              f"over {SEEDS} seeds")  # fmt: skip


WORK = {"cost": cost, "sets": sets, "few": few, "many": cost, "seeds": seeds}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=WORK, default="cost")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dims", type=int, default=512)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--onnx", type=Path, help="a network for the embeddings")
    parser.add_argument("--sets", nargs="+", choices=accuracy.SETS, default=["usps", "banking77"])
    given = parser.parse_args()
    given.peer = given.only == "cost"
    print(machine.facts())
    WORK[given.only](given)

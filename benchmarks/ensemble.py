"""SL-DE: accuracy against ensemble size and dimension (the paper's Figure 4), time, and memory.

Command: ``python benchmarks/ensemble.py --data DIR --work WORK`` (Caltech-101 if ``DIR`` holds
``caltech101.tar``, else MNIST; the first run makes the features). Writes ``figure4.png`` to WORK.
``--only projections`` and ``--only defaults`` are in `complementary.py`.
About 40 minutes on two cores; ``--quick`` a tenth of it.

Parameters are the same for all points: half whitening, k=400, 10 epochs, votes = similarity⁴.
The paper's claims are checked and printed, true or not.
"""

import argparse
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import caltech
import complementary
import machine
from nearkin import SLDE, SLNE, Preprocess
from nearkin.ensemble.members import Members
from nearkin.io.run_folder import RunFolder
from nearkin.native.listed_scores import pair_scores
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from nearkin.reproduction.methods import member_scores
from nearkin.voting.votes import Vote

K, EPOCHS, VOTE = 400, 10, Vote("power", 4.0)


class Data:
    """Training rows, test rows and their neighbours."""

    def __init__(self, X, y, Q, truth):
        self.X, self.y, self.Q, self.truth = X, y, Q, truth
        self.k = min(K, len(X) - 1)
        self.lists = nearest(X, self.k)[1]
        self.near = nearest(X, self.k, queries=Q)[1]

    def accuracy(self, scores):
        """Per cent, from the scores of the test rows' neighbours."""
        tally = VOTE.tally(scores, self.y[self.near], self.y.max() + 1)
        return caltech.mean_per_class(tally.argmax(axis=1) == self.truth, self.truth)


def load(arguments):
    if (arguments.data / "caltech101.tar").exists():
        features, labels = caltech.llc_features(arguments.data, arguments.work)
        mask = caltech.split(labels, 0)
        X, Q = caltech.preprocessed(features, mask, "llc-split0", arguments.work)
        return "Caltech-101 LLC", Data(X, labels[mask], Q, labels[~mask])
    with np.load(arguments.data / "mnist.npz") as file:
        X, y = file["x_train"][:10_000].reshape(-1, 784), file["y_train"][:10_000].astype(int)
        Q, truth = file["x_test"].reshape(-1, 784), file["y_test"].astype(int)
    prepare = Preprocess(300).fit(X)
    return "MNIST", Data(prepare.transform(X), y, prepare.transform(Q), truth)


def learner():
    return SLNE.paper(n_neighbors=K, max_epochs=EPOCHS, tol=0)


def running_accuracies(data, model):
    """Accuracy of the first 1, 2, … members together."""
    total, curve = np.zeros(data.near.shape, np.float32), []
    for scores in member_scores(model, data.X, data.Q, data.near):
        total += scores
        curve.append(data.accuracy(total))
    return curve


def figure4(name, data, dims, members, out):
    from matplotlib.figure import Figure

    single = SLNE.paper(n_neighbors=K, max_epochs=EPOCHS, tol=0, random_state=0)
    single.fit(data.X, data.y, neighbors=data.lists)
    line = data.accuracy(single.neighbor_scores(data.Q, data.X, data.near))
    plain = data.accuracy(pair_scores(data.Q, data.X, data.near))
    print(f"plain {plain:.2f}, single SL-NE in {data.X.shape[1]} dimensions {line:.2f}", flush=True)
    curves = {}
    for d in dims:
        began = time.perf_counter()
        model = SLDE(learner(), projection="random", n_members=members, n_components=d, n_jobs=2,
                     random_state=0).fit(data.X, data.y, neighbors=data.lists)  # fmt: skip
        curves[d] = running_accuracies(data, model)
        shown = "  ".join(f"{n}: {curves[d][n - 1]:.2f}" for n in (1, 5, 10, members))
        print(f"d={d:<5} {shown}   {time.perf_counter() - began:.0f} s", flush=True)
    plot = Figure(figsize=(11, 4.2))
    left, right = plot.subplots(1, 2)
    for d, curve in curves.items():
        left.plot(range(1, members + 1), curve, label=f"d={d}")
    left.set(xlabel="ensemble size", ylabel="mean of per-class accuracies %", title=name)
    for n, style in ((1, "o--"), (members, "s-")):
        right.plot(dims, [curves[d][n - 1] for d in dims], style, label=f"{n} member(s)")
    right.set(xlabel="projected dimension d", xscale="log")
    for axes in (left, right):
        axes.axhline(line, color="black", lw=1, ls=":", label="single SL-NE")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    plot.savefig(out / "figure4.png", dpi=130, bbox_inches="tight")
    claims(curves, line, dims, members)


def claims(curves, line, dims, members):
    largest, low = dims[-1], dims[len(dims) // 2]
    ten = curves[largest][min(10, members) - 1]
    print(f"claim: 10 members of {largest}-d almost equal the single similarity: "
          f"{ten:.2f} against {line:.2f}, {'true' if ten > line - 1 else 'not here'}")  # fmt: skip
    many = curves[low][members - 1]
    print(f"claim: {members} members of {low}-d lose nothing: {many:.2f} against {line:.2f}, "
          f"{'true' if many > line - 0.5 else 'not here'}")  # fmt: skip


def kinds(data, d_pca, d_random, members):
    for kind, n, d in [("pca", 3, d_pca), ("random", members, d_random), ("mixed", 6, d_pca)]:
        model = SLDE(learner(), projection=kind, n_members=n, n_components=d, n_jobs=2,
                     random_state=0).fit(data.X, data.y, neighbors=data.lists)  # fmt: skip
        print(f"{kind} {n} × {d}: {running_accuracies(data, model)[-1]:.2f}", flush=True)


def speed(rows=20_000, D=1_000, k=50):
    from learner import clustered

    X, y = clustered(rows, D)
    lists = nearest(X, k)[1]
    times = {}
    for name, model in {
        "SL-NE 1 × 1000-d": SLNE.paper(n_neighbors=k, max_epochs=20, tol=0, random_state=0),
        "SL-DE 10 × 100-d, n_jobs=1": _ten(k, 1),
        "SL-DE 10 × 100-d, n_jobs=2": _ten(k, 2),
    }.items():
        model.fit(X[:2_000], y[:2_000])  # compile, start workers
        began = time.perf_counter()
        model.fit(X, y, neighbors=lists)
        times[name] = time.perf_counter() - began
        print(f"{name}: {times[name]:.1f} s", flush=True)
    one, two = list(times.values())[1:]
    print(f"n_jobs=2 is {one / two:.2f} times as fast as n_jobs=1")


def _ten(k, n_jobs):
    member = SLNE.paper(n_neighbors=k, max_epochs=20, tol=0)
    return SLDE(member, n_members=10, n_components=100, n_jobs=n_jobs, random_state=0)


MEMBER = """
import pickle, sys
from nearkin import SLNE, Execution
from nearkin.ensemble.members import learn_member

def anonymous():
    lines = open("/proc/self/status")
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

before, peaks = anonymous(), []
watch = Execution(callback=lambda *_: peaks.append(anonymous()))
learner = SLNE.paper(max_epochs=1, tol=0, random_state=0, execution=watch)
learn_member(pickle.load(sys.stdin.buffer), 0, learner)
print(max(peaks) - before)
"""


def memory(rows=200_000, d=100, k=50):
    """Memory of a fresh process that learns one member, beside the data and graph it maps."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, rows)
    hoods = neighborhoods(rng.integers(0, rows, (rows, k), dtype=np.int32), labels)
    with RunFolder.temporary() as folder, folder.claim("benchmark"):
        members = Members(folder, {}, 1)
        X = rng.standard_normal((rows, d), dtype=np.float32)
        members.write_rows(0, X, np.eye(d, dtype=np.float32))
        members.write_shared(labels, hoods, np.zeros(rows, bool), np.empty((0, 1), np.int32))
        command = [sys.executable, "-c", MEMBER]
        output = subprocess.check_output(command, input=pickle.dumps(members))
    print(f"a member on {rows:,} × {d} with {len(hoods.indices):,} edges: N·d "
          f"{rows * d * 4 >> 20} MiB and graph {hoods.indices.nbytes >> 20} MiB, both mapped; "
          f"{int(output) >> 10} MiB of its own", flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only", choices=["figure4", "kinds", "speed", "memory", "projections", "defaults"]
    )
    parser.add_argument("--network", type=Path, help="ONNX encoder, for projections")
    parser.add_argument("--rows", type=int, default=50_000, help="made-up rows, 50 a class")
    parser.add_argument("--epochs", type=int, default=5, help="of members, for projections")
    for name in ("projections", "couplings"):
        known = getattr(complementary, name.upper())
        parser.add_argument(f"--{name}", nargs="*", choices=known, default=known)
    parser.add_argument("--sets", nargs="*", help="data sets of the projections, all if left out")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    print(machine.facts(), flush=True)
    wanted = [arguments.only] if arguments.only else ["speed", "memory", "figure4", "kinds"]
    if "speed" in wanted:
        speed()
    if "projections" in wanted:
        complementary.compare(arguments)
    if "defaults" in wanted:
        complementary.defaults(arguments)
    if "memory" in wanted:
        memory()
    if {"figure4", "kinds"} & set(wanted):
        name, data = load(arguments)
        full = data.X.shape[1]
        dims = [20, 50, 100, 300, 1_000] if full > 1_000 else [10, 20, 50, 100, 200]
        if arguments.quick:
            dims = dims[:3]
        if "figure4" in wanted:
            figure4(name, data, dims, 20, arguments.work)
        if "kinds" in wanted:
            kinds(data, full // 3, full // 3, 10)

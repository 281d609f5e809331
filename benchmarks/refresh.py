"""What rounds of refreshed neighbourhoods bring (the paper's future work: joint search).

    python benchmarks/refresh.py --data DIR [--sets usps banking77 mnist] [--rows 200000]

Each round finds every row's neighbours under the M of the round before, by dot product, and learns
again from these beside the plain ones; M is asymmetric. Above 100,000 rows the search is by cells,
queries transformed. Test rows; both columns are in per cent: precision@10 of what an index of all
rows finds by dot product under M, and accuracy of a softmax vote among the 50 plain nearest rows.
Seconds are of CPU, of all rounds so far.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import machine
from made_up import World
from nearkin import SLNE, Execution
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors import nearest
from nearkin.voting.votes import Vote

ROUNDS, MADE_UP, TESTS = (0, 1, 2, 3), "made-up", 2_000
MOST = 20_000  # rows of a real set


def load(name: str, given: argparse.Namespace) -> tuple[np.ndarray, ...]:
    """Training rows and labels, test rows and labels."""
    if name == MADE_UP:
        world = World(1_000, 1_000)
        return *world.sample(given.rows), *world.sample(TESTS, part=1)
    with np.load(given.data / f"{name}.npz") as file:
        X, y, Q, truth = (file[f"{kind}_{part}"] for part in ("train", "test") for kind in "xy")
    X, Q = (rows.reshape(len(rows), -1).astype(np.float32) for rows in (X[:MOST], Q[:TESTS]))
    return X, y[:MOST], Q, truth[:TESTS]


def measures(model: SLNE, X: np.ndarray, y: np.ndarray, Q: np.ndarray, truth: np.ndarray):
    """Precision@10 of all rows under M, and accuracy of a vote among plain neighbours."""
    Z, R = (model.preparation_.transform(rows) for rows in (X, Q))
    asked = R @ model.matrix_
    found = np.concatenate([
        np.argpartition(-(part @ Z.T), 10, axis=1)[:, :10]
        for part in np.array_split(asked, max(1, len(asked) // 200))
    ])  # fmt: skip
    near = nearest(Z, 50, queries=R)[1]
    scores = pair_scores(asked, Z, near)
    classes, labels = np.unique(y, return_inverse=True)
    votes = Vote("softmax", 0.25 * float(scores.std())).tally(scores, labels[near], len(classes))
    right = classes[votes.argmax(axis=1)] == truth
    return 100 * float((y[found] == truth[:, None]).mean()), 100 * float(right.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    sets = ["usps", "banking77", "mnist", MADE_UP]
    parser.add_argument("--sets", nargs="+", default=sets)
    parser.add_argument("--rows", type=int, default=200_000, help="made-up rows")
    given = parser.parse_args()
    print(machine.facts())
    print("\n| data | rounds | precision@10 | accuracy | CPU s |\n|---|--:|--:|--:|--:|")
    for name in given.sets:
        data = load(name, given)
        for rounds in ROUNDS:
            began = time.process_time()
            model = SLNE(random_state=0, execution=Execution(refresh=rounds)).fit(*data[:2])
            taken = time.process_time() - began
            precision, accuracy = measures(model, *data)
            print(f"| {name}, {len(data[0]):,} × {data[0].shape[1]} | {rounds} | {precision:.2f} "
                  f"| {accuracy:.2f} | {taken:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

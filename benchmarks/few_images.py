"""What SL-NE of few images (Table 1, own settings) is settled on: pairs of other classes.

    python benchmarks/few_images.py --data DIR --work WORK [--splits 16]

Thirty training images of each of two classes of Caltech-101, the rest are test images, for the
pairs that ridge regression tells apart worst (each class in two pairs at most, none of Table 1's
four): SL-NE as in `own_settings.slne_of_few` over whitening and margin, beside LMNN on rows
that are half whitened. LLC features by default, with square roots. Means over pairs and random
splits, and the difference to LMNN with its standard error over the pairs. Some ten minutes once
the features are there.
"""

import argparse
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import numpy as np

import caltech
import machine
from nearkin.learning.sampling import AllPairs
from nearkin.reproduction import own_settings, published, table1, tasks
from nearkin.reproduction.toy_task import divided

PAIRS, LEAST_IMAGES, MOST_IMAGES, TRAINING, DRAWS = 14, 45, 60, 30, 3
WHITENINGS, MARGINS = (0.0, 0.25, 0.5, 0.75), (0.0, 0.005, 0.01, 0.02, 0.05)
# Of Table 1, and what is no kind of thing or another class once more.
LEFT_OUT = {*published.TOY_CLASSES, "BACKGROUND_Google", "Faces", "Faces_easy"}


def hardest_pairs(features, names):
    """The pairs of classes that ridge regression on half of their images tells apart worst."""
    counts = Counter(names)
    classes = sorted(c for c, n in counts.items() if n >= LEAST_IMAGES and c not in LEFT_OUT)
    rows = np.concatenate([np.flatnonzero(names == c)[:MOST_IMAGES] for c in classes])
    X = np.concatenate([roots(features, part) for part in np.array_split(rows, 10)])
    X -= X.mean(axis=0)
    gram, own = X @ X.T, names[rows]
    accuracies = {pair: ridge_accuracy(gram, own, pair) for pair in combinations(classes, 2)}
    chosen, used = [], Counter()
    for pair in sorted(accuracies, key=accuracies.get):
        if max(used[c] for c in pair) < 2 and len(chosen) < PAIRS:
            chosen.append(pair)
            used.update(pair)
    return chosen


def ridge_accuracy(gram, names, pair):
    """Mean accuracy of the two classes over a few draws."""
    found = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        a, b = (rng.permutation(np.flatnonzero(names == c)) for c in pair)
        known, y = np.r_[a[:TRAINING], b[:TRAINING]], np.repeat([1.0, -1.0], TRAINING)
        inner = gram[np.ix_(known, known)]
        penalty = 0.1 * np.trace(inner) / len(y) * np.eye(len(y))
        weights = np.linalg.solve(inner + penalty, y)
        sides = [gram[np.ix_(c[TRAINING:], known)] @ weights for c in (a, b)]
        found.append(((sides[0] > 0).mean() + (sides[1] < 0).mean()) / 2)
    return float(np.mean(found))


def roots(features, rows):
    return np.asarray(features[rows], np.float32) ** np.float32(tasks.OWN.power)


def main(given):
    print(machine.facts())
    features, _ = caltech.llc_features(given.data, given.work)
    names = np.asarray(caltech.images(given.data, given.work).labels)
    pairs = hardest_pairs(features, names)
    print("pairs: " + ", ".join("/".join(pair) for pair in pairs), flush=True)
    found = {}
    for pair in pairs:
        part = np.flatnonzero(np.isin(names, pair))
        X, kinds = roots(features, part), {name: name for name in pair}
        for seed in range(given.splits):
            task = divided(names[part], X, kinds, seed)
            half = task.whitened(own_settings.WHITENING)
            found.setdefault("LMNN", []).append(table1.lmnn(half))
            for whitening, margin in product(WHITENINGS, MARGINS):
                learner = own_settings.FEW | {"sampling": AllPairs(margin=margin)}
                top1 = own_settings.slne_of_few(task, learner, whitening)["top1"]
                found.setdefault((whitening, margin), []).append(top1)
    lmnn = np.reshape(found.pop("LMNN"), (len(pairs), -1))
    print(f"LMNN, half-whitened: {lmnn.mean():.2f}")
    for (whitening, margin), accuracies in found.items():
        gains = (np.reshape(accuracies, lmnn.shape) - lmnn).mean(axis=1)
        error = gains.std(ddof=1) / np.sqrt(len(pairs))
        print(f"whitening {whitening:g}, margin {margin:g}: {np.mean(accuracies):.2f}, "
              f"{gains.mean():+.2f} ± {error:.2f}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=16)
    main(parser.parse_args())

"""Caltech-101 for the benchmarks: features made once, the paper's splits, PCA per split.

Everything is kept in a work folder, so that the second run starts at once; features of other
settings of LLC want another folder.
"""

from pathlib import Path

import numpy as np

import nearkin
from nearkin import Preprocess, RunFolder
from nearkin.images import LLC, ImageFolder, OnnxEncoder
from nearkin.io.atomic import atomic_write
from nearkin.reproduction import layouts


def images(data: Path, work: Path) -> ImageFolder:
    with RunFolder(work / "images").claim("benchmarks") as claimed:
        return layouts.find("Caltech-101", data, claimed).folder


def llc_features(data: Path, work: Path):
    """LLC by default, 9,144 × 43,008 in half precision, and the labels."""
    folder = images(data, work)
    out = work / "llc.npy"
    if not out.exists():
        print("LLC features: some eight minutes ...", flush=True)
        features = LLC(random_state=0).fit(folder).transform(folder, dtype="float16", n_jobs=2)
        with atomic_write(out) as aside:
            np.save(aside, features)
    return np.load(out, mmap_mode="r"), np.unique(folder.labels, return_inverse=True)[1]


def embeddings(data: Path, work: Path, network: Path):
    """Outputs of an ONNX network, and the labels."""
    folder = images(data, work)
    out = work / "embeddings.npy"
    if not out.exists():
        print("embeddings: about three minutes ...", flush=True)
        encoder = OnnxEncoder(network, output="features", mean=127.0, scale=128.0)
        features = encoder.transform(folder)
        with atomic_write(out) as aside:
            np.save(aside, features)
    return np.load(out, mmap_mode="r"), np.unique(folder.labels, return_inverse=True)[1]


def split(labels, seed):
    """Mark 30 random images of each class for training."""
    return layouts.some_of_each(labels, seed, layouts.thirty)


def preprocessed(features, mask, name, work, dims=3_000, whitening=0.5):
    """Rows after a PCA that was fitted on the training rows; (training rows, other rows)."""
    fitted = work / f"{name}-pca{dims}.safetensors"
    if not fitted.exists():
        print(f"PCA of {name} ...", flush=True)
        nearkin.save(Preprocess(dims).fit(features[mask]), fitted)
    rows = work / f"{name}-rows{dims}-{whitening:g}.npy"
    if not rows.exists():
        nearkin.load(fitted).set_params(whitening=whitening).transform(features, out=rows)
    Z = np.load(rows)
    return Z[mask], Z[~mask]


def in_span(features, mask, name, work, power=1.0):
    """Rows in coordinates of the span of the training rows; (training rows, other rows).

    The entries are raised to `power` (their signs kept) and the rows scaled to unit length. What
    a row has outside the span of the training rows, nothing that is learned from them can see.
    """
    out = work / f"{name}-span-{power:g}.npy"
    if not out.exists():
        print(f"coordinates of {name} ...", flush=True)
        X = _powered(features[mask], power)
        values, vectors = np.linalg.eigh((X @ X.T).astype(np.float64))
        kept = values > values[-1] * 1e-6
        axes = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
        blocks = np.array_split(np.arange(len(features)), 20)
        rows = np.concatenate([_powered(features[b], power) @ X.T @ axes for b in blocks])
        with atomic_write(out) as aside:
            np.save(aside, rows)
    C = np.load(out)
    return C[mask], C[~mask]


def _powered(features, power):
    rows = np.asarray(features, np.float32)
    if power != 1:
        rows = np.sign(rows) * np.abs(rows) ** np.float32(power)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def mean_per_class(right, truth):
    """Per cent, the mean of the classes' accuracies."""
    return 100 * float(np.mean([right[truth == c].mean() for c in np.unique(truth)]))

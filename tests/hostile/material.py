"""Clean material to be mutilated: rows, labels, files, fitted models; small and always the same."""

import inspect
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from nearkin import SLNE
from pictures import encoded, textured
from samples import blobs

# Small values for parameters of any estimator that has them.
SMALL = {
    "n_neighbors": 5, "max_epochs": 2, "n_members": 2, "n_words": 8, "n_features": 8,
    "random_state": 0, "pyramid": (1, 2), "joint_epochs": 0, "sample": 20, "max_rows": 60,
}  # fmt: skip


@cache
def rows():
    return blobs(n=60, dims=6, classes=3)


@cache
def many_rows():
    """Enough to fill a few pages of a disk."""
    return blobs(n=1500, dims=40, classes=3)


@cache
def queries():
    return blobs(n=15, dims=6, classes=3, seed=0)


@cache
def lists():
    """The five nearest rows of each row, the naive way."""
    X = rows()[0].astype(float)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return distances.argsort(axis=1, kind="stable")[:, :5].astype(np.int32)


@cache
def judged():
    """Some rows of each query's class, as pairs of query and row."""
    labels, truth = rows()[1], queries()[1]
    return np.array([(q, i) for q in range(15) for i in np.flatnonzero(labels == truth[q])[:5]])


@cache
def table():
    import pyarrow

    X, y = rows()
    columns = {f"a{i}": X[:, i] for i in range(X.shape[1])}
    return pyarrow.table(columns | {"label": np.array(["ant", "bee", "cat"])[y]})


@cache
def images():
    return [encoded(textured(seed, 48, 48)) for seed in range(4)]


def clean_arguments() -> dict[str, Any]:
    """A good value for an argument of this name, wherever it occurs."""
    (X, y), (Q, truth) = rows(), queries()
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 15)
    return {
        "X": X, "y": y, "Z": X, "queries": Q, "neighbors": lists(), "indices": lists(),
        "lists": lists(), "labels": y.astype(np.int32), "pairs": np.stack([X[:15], Q], axis=1),
        "calibration": (Q, truth), "k": 3, "n": 2, "images": images(),
        "image": textured(0, 48, 48), "ranked": np.stack([truth, (truth + 1) % 3], axis=1),
        "truth": truth, "predicted": truth[::-1].copy(), "relevant": lists()[:15] % 3 == 0,
        "totals": np.full(15, 20), "probabilities": probabilities, "correct": truth == 0,
        "rows": X, "hub_limit": 100, "minutes": 1.0, "documents": X, "judgements": judged(),
        "stored": y, "ideal": np.sort(lists()[:15] % 3 == 0, axis=1)[:, ::-1],
        "before": probabilities[:, 0], "after": probabilities[:, 1],
        "matrix": np.eye(6, dtype=np.float32), "offset": X[0], "center": X[1], "table": table(),
        "triplets": np.stack([np.arange(0, 30), np.arange(10, 40), np.arange(20, 50)], axis=1),
    }  # fmt: skip


# Where a name means something else.
SPECIAL = {
    "DenseSIFT.fit": {"X": None},
    "LLC.fit_transform": {"X": images()},
    "OnnxEncoder.fit_transform": {"X": images()},
    "DenseSIFT.fit_transform": {"X": [textured(0, 48, 48)]},
    "DenseSIFT.transform": {"X": [textured(0, 48, 48), textured(1, 48, 48)]},
    "Codebook.fit": {"X": np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)},
    "datasets.read": {"path": "rows.npz"},
    "datasets.read_labels": {"path": "labels.txt"},
    "datasets.read_judgements": {
        "path": "qrels.tsv",
        "queries": np.arange(15),
        "documents": np.arange(60),
    },
    "SLNE.fit_pairs": {"relevant": judged()},
    "SLDE.fit_pairs": {"relevant": judged()},
    "judged_relevance": {"ranked": lists()[:15]},
    "label_relevance": {"ranked": lists()[:15]},
    "datasets.read_archive": {"path": "rows.npz"},
    "datasets.read_array": {"path": "rows.npz", "name": "X", "hint": "a hint"},
    "datasets.check_finite": {"path": "rows.npz"},
    "load": {"path": "SLNE.safetensors"},
    "ImageFolder": {"root": "images"},
    "ImageFolder.from_csv": {"path": "images.csv"},
    "RunFolder": {"path": "cwd:run"},
    "OnnxEncoder": {"model": "network.onnx"},
}


def small(cls: type, **given: Any) -> Any:
    """An estimator with small settings."""
    known = inspect.signature(cls).parameters
    settings = {name: value for name, value in SMALL.items() if name in known}
    if cls.__name__ == "OnnxEncoder":
        settings |= {"model": str(HOME.folder / "network.onnx"), "output": "features"}
    if "similarity" in known:
        settings["similarity"] = SLNE(n_neighbors=5, max_epochs=2)
    return cls(**settings | given)


class Home:
    """Where the clean files lie."""

    folder = Path()


HOME = Home()


def write_files(folder: Path) -> None:
    """Every format that is read, once; run in a child, because fits may start threads."""
    from pyarrow import feather, parquet

    import nearkin
    from hostile.surface import estimators
    from nearkin.images import ImageFolder

    X, y = rows()
    names = np.array(["ant", "bee", "cat"])[y]
    np.savez(folder / "rows.npz", X=X, y=names)
    np.savez(folder / "other.npz", X=np.asfortranarray(X, dtype=np.float64), y=names.astype("U9"))
    np.savez(folder / "many.npz", X=many_rows()[0], y=many_rows()[1])
    np.save(folder / "rows.npy", X)
    np.save(folder / "queries.npy", queries()[0])
    np.savez(folder / "lists.npz", indices=lists())
    (folder / "labels.txt").write_text("\n".join(names) + "\n")
    header = [f"a{i}" for i in range(X.shape[1])]
    lines = [",".join([*header, "label"])]
    lines += [",".join([*map(repr, map(float, row)), label]) for row, label in zip(X, names)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    parquet.write_table(table(), folder / "rows.parquet")
    feather.write_feather(table(), folder / "rows.arrow", compression="uncompressed")
    (folder / "qrels.tsv").write_text("".join(f"{q}\t{i}\t1\n" for q, i in judged()))
    write_images(folder)
    write_network(folder / "network.onnx")
    folders = ImageFolder(folder / "images")
    for name, cls in estimators().items():
        if cls.__name__ == "OnnxEncoder":
            continue
        model = small(cls)
        first = next(iter(inspect.signature(model.fit).parameters))
        model.fit(*((folders,) if first == "images" else (X, names)))
        with suppress(NotFittedError):  # it learns nothing
            nearkin.save(model, folder / f"{name}.safetensors")
    searched = small(nearkin.SoftVotingKNN, index="cells").fit(X, names)
    nearkin.save(searched, folder / "SearchIndex.safetensors")
    adapter = nearkin.load(folder / "SLNE.safetensors").adapter()
    nearkin.save(adapter, folder / "Adapter.safetensors")


def write_images(folder: Path) -> None:
    lines = []
    formats = {
        "png": "PNG",
        "jpg": "JPEG",
        "bmp": "BMP",
        "tif": "TIFF",
        "webp": "WEBP",
        "gif": "GIF",
    }
    for i, (suffix, fmt) in enumerate(formats.items()):
        path = folder / "images" / ("round", "square")[i % 2] / f"{i}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(textured(i, 48, 48), fmt))
        lines.append(f"{path},{path.parent.name}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")


def write_network(path: Path) -> None:
    """The mean colour of an image times a matrix."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    matrix = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["image", "axes"], ["pooled"], keepdims=1),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["features"]),
    ]
    constants = {"matrix": matrix, "axes": np.array([2, 3], dtype=np.int64)}
    graph = helper.make_graph(
        nodes, "mean colour",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("n", 3, 16, 16))],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ("n", 5))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)

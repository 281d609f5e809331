"""One file a model: safetensors with JSON metadata, versioned, memory-mapped, never pickle."""

import json
import os
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import _safetensors
from nearkin._safetensors import FileFormatError

FORMAT = 1

# Only these classes are ever made from a file.
CLASSES = {
    "SLDE": "nearkin.slde",
    "SLNE": "nearkin.slne",
    "SoftVotingKNN": "nearkin.voting",
    "Preprocess": "nearkin.preprocess",
    "FourierLift": "nearkin.lift",
    "LMNN": "nearkin.baselines.lmnn",
    "LinearSVM": "nearkin.baselines.linear_svm",
    "LLC": "nearkin.images.llc",
    "Codebook": "nearkin.images.codebook",
    "DenseSIFT": "nearkin.images.sift",
    "OnnxEncoder": "nearkin.images.onnx",
    "Vote": "nearkin.votes",
    "Fixed": "nearkin.projections",
    "Random": "nearkin.projections",
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    The file appears whole or not at all. Callbacks and random generators are not kept.

    Examples
    --------
    >>> import tempfile, nearkin
    >>> X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    >>> model = nearkin.SoftVotingKNN(nearkin.SLNE(n_neighbors=5), random_state=0).fit(X, y)
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> nearkin.save(model, path)
    >>> bool((nearkin.load(path).predict(X) == model.predict(X)).all())
    True
    """
    arrays: dict[str, NDArray[Any]] = {}
    description = _describe(model, "", arrays)
    metadata = {"format": "nearkin", "version": str(FORMAT), "model": json.dumps(description)}
    _safetensors.write(path, arrays, metadata)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote. Large arrays stay on disk, memory-mapped."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; give the path of a saved model")
    arrays, metadata = _safetensors.read(path)
    if metadata.get("format") != "nearkin":
        raise FileFormatError(f"{path} is a safetensors file, but nearkin did not write it")
    if int(metadata["version"]) > FORMAT:
        raise FileFormatError(
            f"{path} has format {metadata['version']}, newer than the {FORMAT} this version of "
            "nearkin reads; upgrade nearkin"
        )
    try:
        return _restore(json.loads(metadata["model"]), arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged ({error!r}); save the model again") from None


def _describe(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Turn a value into JSON; arrays are put aside under their dotted name."""
    kind = type(value).__name__
    if kind in CLASSES and type(value).__module__ == CLASSES[kind]:
        return {"class": kind, "state": {
            key: _describe(item, f"{name}.{key}".lstrip("."), arrays)
            for key, item in _state(value).items()
        }}  # fmt: skip
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fiub":
            arrays[name] = value
            return {"array": name}
        return {"values": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {"dict": [[key, _describe(v, f"{name}.{key}", arrays)] for key, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_describe(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{name} is a {kind}, which a nearkin file cannot hold; models of nearkin's own parts can "
        "be saved"
    )


def _state(model: Any) -> dict[str, Any]:
    """Parameters and learned attributes, without what only lives in a process."""
    state = dict(vars(model))
    for name in [key for key in state if key.startswith("_cached") or key == "failed_"]:
        del state[name]  # an index that is built again, paths that belong to one run
    for name in ("callback", "random_state", "cache_dir"):
        if name in state and not isinstance(state[name], int):
            state[name] = None
    return state


def _restore(item: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if not isinstance(item, dict):
        return item
    if "class" in item:
        cls = getattr(import_module(CLASSES[item["class"]]), item["class"])
        model = cls.__new__(cls)
        vars(model).update({key: _restore(v, arrays) for key, v in item["state"].items()})
        return model
    if "array" in item:
        return arrays[item["array"]]
    if "values" in item:
        return np.array(item["values"], dtype=item["dtype"])
    if "dict" in item:
        return {key: _restore(value, arrays) for key, value in item["dict"]}
    if "tuple" in item:
        return tuple(_restore(value, arrays) for value in item["tuple"])
    return [_restore(value, arrays) for value in item["list"]]

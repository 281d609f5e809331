"""One file a model: safetensors with JSON metadata, versioned, memory-mapped, never pickle."""

import inspect
import json
import os
import re
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from nearkin.io import safetensors
from nearkin.io.safetensors import FileFormatError
from nearkin.validation import expect
from nearkin.validation.arrays import first_not_finite
from nearkin.validation.parameters import check_parameters, checked, require

FORMAT = 2

_PLAIN = bool | int | float | str | None
# What reading a header that is not as `save` wrote it can end in.
_DAMAGE = (
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)

_PRIVATE = ("_n_features_out", "_sklearn_output_config", "sampling")  # the last by mistake, as None
_LARGE = 1 << 30  # bytes of rows that are read, and checked, when they are searched

# Only these classes are ever made from a file.
CLASSES = {
    "Adapter": "nearkin.adapter",
    "SLDE": "nearkin.slde",
    "SLNE": "nearkin.slne",
    "SoftVotingKNN": "nearkin.classifier",
    "Preprocess": "nearkin.preprocessing.preprocess",
    "UnitLength": "nearkin.preprocessing.unit_length",
    "WithinClassWhitening": "nearkin.preprocessing.within_class",
    "FourierFeatures": "nearkin.preprocessing.fourier",
    "LLC": "nearkin.images.llc",
    "Codebook": "nearkin.images.codebook",
    "DenseSIFT": "nearkin.images.sift",
    "OnnxEncoder": "nearkin.images.onnx",
    "Vote": "nearkin.voting.votes",
    "Hardest": "nearkin.learning.sampling",
    "Uniform": "nearkin.learning.sampling",
    "RandomTarget": "nearkin.learning.sampling",
    "AllPairs": "nearkin.learning.sampling",
    "Softmax": "nearkin.learning.sampling",
    "Constraint": "nearkin.learning.constraints",
    "Selection": "nearkin.selection.options",
    "Execution": "nearkin.learning.execution",
    "Retrieval": "nearkin.neighbors.retrieval",
    "Fixed": "nearkin.ensemble.projections",
    "Random": "nearkin.ensemble.projections",
}


@checked(path=expect.path)
def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file.

    The file appears whole or not at all. Callbacks and random generators are not kept. Labels are,
    if they are numbers, text or numpy dates.

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
    if hasattr(model, "fit"):
        check_is_fitted(model, msg="%(name)s is not fitted; fit it before it is saved")
    arrays, description = describe(model)
    if not isinstance(description, dict):
        raise TypeError(f"model={model!r} is a {type(model).__name__}; give a fitted model")
    metadata = {"format": "nearkin", "version": str(FORMAT), "model": json.dumps(description)}
    safetensors.write(path, arrays, metadata)


def describe(model: Any) -> tuple[dict[str, NDArray[Any]], Any]:
    """The arrays of a model, and a description of the rest that JSON can hold."""
    arrays: dict[str, NDArray[Any]] = {}
    return arrays, _describe(model, "", arrays)


def can_hold(value: Any) -> bool:
    """Whether a file can hold `value`: models of nearkin's own parts, arrays, plain values."""
    try:
        _describe(value, "", {})
    except TypeError:
        return False
    return True


@checked(path=expect.path, verify=expect.optional(expect.flag))
def load(path: str | os.PathLike[str], verify: bool | None = None) -> Any:
    """Read a model that `save` wrote. Large arrays stay on disk, memory-mapped.

    Parameters
    ----------
    path : path
    verify : bool, optional
        Whether to compare the file's checksum, which reads all of it. If left out, this is done for
        files of up to 1 GiB.
    """
    arrays, metadata = safetensors.read(path, verify)
    if metadata.get("format") != "nearkin":
        raise FileFormatError(f"{path} is a safetensors file, but nearkin did not write it")
    try:
        version = int(metadata["version"])
        if version == FORMAT:
            return _restore_model(metadata["model"], arrays)
    except _DAMAGE as error:
        raise FileFormatError(f"{path} is damaged ({error!r}); save the model again") from None
    age, remedy = ("newer", "upgrade nearkin")
    if version < FORMAT:
        age, remedy = "older", "it is too old: train the model again"
    raise FileFormatError(
        f"{path} has format {version}, {age} than the {FORMAT} that this version of nearkin reads; "
        f"{remedy}"
    )


def _describe(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Turn a value into JSON; arrays are collected under their dotted name."""
    kind = type(value).__name__
    if kind in CLASSES and type(value).__module__ == CLASSES[kind]:
        return {"class": kind, "state": {
            key: _describe(item, f"{name}.{key}".lstrip("."), arrays)
            for key, item in _state(value).items()
        }}  # fmt: skip
    if isinstance(value, np.ndarray):
        if safetensors.can_hold(value.dtype):
            # A parameter and a fitted part may share one: it is written once.
            known = next((other for other, array in arrays.items() if array is value), name)
            arrays[known] = value
            return {"array": known}
        return {"values": _values(value, name), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {"dict": [[key, _describe(v, f"{name}.{key}", arrays)] for key, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_describe(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, _PLAIN):
        return value
    if inspect.isroutine(value):
        raise TypeError(
            f"{name} is a function, whose code a nearkin file cannot hold; as the source of a "
            "Retrieval give a transformer or vectors, or keep lists and fit with neighbors="
        )
    raise TypeError(
        f"{name or 'model'} is a {kind}, which a nearkin file cannot hold; models of nearkin's own "
        "parts can be saved"
    )


def _values(array: NDArray[Any], name: str) -> Any:
    """An array of text, dates or objects as lists for JSON; dates as counts of their unit."""
    if array.dtype.kind in "mM":
        return array.astype(np.int64).tolist()
    items = np.empty(array.size, object)
    items[:] = [v.item() if isinstance(v, np.generic) else v for v in array.ravel().tolist()]
    strange = [item for item in items if not isinstance(item, _PLAIN)]
    if strange:
        raise TypeError(
            f"{name} holds a {type(strange[0]).__name__}, {strange[0]!r}, which a nearkin file "
            "cannot hold; numbers, text and numpy dates can be saved: as labels, fit with dates as "
            "np.array(y, 'datetime64'), with others as text"
        )
    return items.reshape(array.shape).tolist()


def _state(model: Any) -> dict[str, Any]:
    """Parameters and learned attributes, without what belongs to one process."""
    state = dict(model.state_to_save() if hasattr(model, "state_to_save") else vars(model))
    for name in [key for key in state if key.startswith("_cached") or key == "failed_"]:
        del state[name]  # an index that is built again, paths that belong to one run
    for name in ("callback", "random_state"):
        if name in state and not isinstance(state[name], int):
            state[name] = None
    if "sampling" in state and type(state["sampling"]).__name__ not in (*CLASSES, "str"):
        state["sampling"] = None  # a rule of the user's own, whose code no file can hold
    return state


def _restore_model(text: str, arrays: dict[str, NDArray[Any]]) -> Any:
    description = json.loads(text)
    if not isinstance(description, dict):
        raise TypeError(f"a {type(description).__name__} in place of a model")
    return restore(description, arrays)


def _check_restored(model: Any) -> None:
    """Refuse what no fit leaves behind: a file is written by anybody."""
    parameters = inspect.signature(type(model)).parameters
    for name, value in vars(model).items():
        if name not in parameters and name not in _PRIVATE and not re.fullmatch(r"[a-z]\w*_", name):
            raise ValueError(f"{type(model).__name__} has no attribute {name!r}")
        floats = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0
        if floats and value.nbytes < _LARGE and first_not_finite(value) is not None:
            raise ValueError(f"{name} contains NaN or infinity")
    if hasattr(model, "n_features_in_"):
        require("n_features_in_", model.n_features_in_, expect.whole(1))
    if hasattr(model, "PARAMETERS"):
        known = [n for n in model.PARAMETERS if n != "sampling" or model.sampling is not None]
        check_parameters(model, only=known)
    if hasattr(model, "_check_fitted"):
        model._check_fitted()


def restore(item: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The model that `describe` has described."""
    if not isinstance(item, dict):
        return item
    if "class" in item:
        cls = getattr(import_module(CLASSES[item["class"]]), item["class"])
        model = cls.__new__(cls)
        vars(model).update({key: restore(v, arrays) for key, v in item["state"].items()})
        _check_restored(model)
        return model
    if "array" in item:
        return arrays[item["array"]]
    if "values" in item:
        dtype = np.dtype(item["dtype"])  # as long as the longest text, whatever the file says
        return np.array(item["values"], dtype=dtype.kind if dtype.kind in "SU" else dtype)
    if "dict" in item:
        return {key: restore(value, arrays) for key, value in item["dict"]}
    if "tuple" in item:
        return tuple(restore(value, arrays) for value in item["tuple"])
    return [restore(value, arrays) for value in item["list"]]

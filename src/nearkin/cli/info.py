"""The command that says what is in a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli.output import Json, emit


def info(
    file: Annotated[
        Path, typer.Argument(help="A model, encoder, feature or neighbour file, or a run folder.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the checksum of a model of any size.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what is in a model, a feature file, a neighbour file or folder, or a run folder.

    Example: nearkin info model.safetensors
    """
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist; give a model, .npy or .npz file")
    if file.is_dir():
        result = _run(file)
    elif file.suffix == ".npz":
        result = _archive(file)
    elif file.suffix in (".npy", ".parquet", ".csv"):
        result = _rows(file)
    else:
        import nearkin

        result = summary(nearkin.load(file, verify=verify or None))
    emit(result, as_json)


def _rows(file: Path) -> dict[str, Any]:
    from nearkin import datasets
    from nearkin.cli.inputs import beside

    data = datasets.read(file, beside(file))
    result = {"rows": len(data.rows), "columns": data.rows.shape[1], "type": str(data.rows.dtype)}
    return result | _classes(data.labels)


def _classes(labels: Any) -> dict[str, Any]:
    if labels is None:
        return {}
    import numpy as np

    counts = np.unique(labels, return_counts=True)[1]
    return {"classes": len(counts), "rows_of_a_class": f"{counts.min()} to {counts.max()}"}


def _archive(file: Path) -> dict[str, Any]:
    from nearkin import datasets

    arrays = datasets.read_archive(file)
    if "indices" in arrays and arrays["indices"].ndim == 2:
        return _lists(arrays["indices"])
    return {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}


def _lists(indices: Any) -> dict[str, Any]:
    n, k = indices.shape
    empty = sum(int((indices[lo : lo + 4_096] < 0).sum()) for lo in range(0, n, 4_096))
    return {"kind": "neighbour lists", "rows": n, "k": k, "empty_places": empty}


def _run(folder: Path) -> dict[str, Any]:
    from nearkin.io.marker import NAME, Marker

    if (folder / "lists.safetensors").exists():
        from nearkin.neighbors.shards import finished_lists

        return _lists(finished_lists(folder))
    if not (folder / NAME).is_file():
        raise ValueError(f"{folder} is a folder, but not one of 'nearkin run'; give a file")
    marker = Marker.decode((folder / NAME).read_bytes(), folder)
    source = {k: v.strip("'") for k, v in marker.inputs.get("", {}).items() if k == "source"}
    done = {name: f"{(folder / name).stat().st_size:,} bytes"
            for name in marker.files if (folder / name).is_file()}  # fmt: skip
    return {"kind": "run folder", "purpose": marker.purposes.get("", "")} | source | done


def summary(model: Any) -> dict[str, Any]:
    """What a person wants to know of a model."""
    result: dict[str, Any] = {"kind": type(model).__name__}
    learner = getattr(model, "similarity_", model)
    if hasattr(model, "database_"):
        vote = f"{model.vote_.kind} {model.vote_.sharpness:g}"
        result |= {"rows": len(model.database_), "columns": model.n_features_in_}
        result |= {"dimensions": model.database_.shape[1], "classes": len(model.classes_)}
        result |= {"shortlist": model.n_neighbors, "vote": vote, "csls": model.csls}
    if hasattr(model, "preprocess_"):
        result["preprocess"] = " ".join(repr(model.preprocess_).split())
    if hasattr(model, "calibration_accuracy_"):
        result["held_out_accuracy"] = model.calibration_accuracy_
    if learner is not None:
        if learner is not model:
            result["learner"] = type(learner).__name__
        inner = getattr(learner, "learner", None) or learner
        for part in dict.fromkeys((inner, learner)):
            for name in _TOLD:
                if hasattr(part, name):
                    result[name.rstrip("_")] = getattr(part, name)
    return result


_TOLD = ("sampling", "n_neighbors", "margin", "step_size", "n_epochs_", "n_skipped_", "projection",
         "n_members", "n_words", "n_features_out_", "model")  # fmt: skip

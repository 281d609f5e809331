"""Commands about models: train, evaluate, classify, search, info."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli.data import Rows
from nearkin.cli.output import Json, emit, loud, plain_warnings

Model = Annotated[Path, typer.Argument(help="A model that 'nearkin train' wrote.")]
Labels = Annotated[Path | None, typer.Option(help="Labels: .npy, or a label a line.")]
Column = Annotated[str | None, typer.Option(help="Column of the file that holds the labels.")]


def train(
    rows: Rows,
    out: Annotated[Path, typer.Option(help="Model file to write (.safetensors).")],
    labels: Labels = None,
    label_column: Column = None,
    neighbors: Annotated[Path | None, typer.Option(help="Lists from 'nearkin neighbors'.")] = None,
    tune: Annotated[bool, typer.Option(help="Choose every setting on held-out rows.")] = False,
    n_neighbors: Annotated[int, typer.Option(help="Neighbours to learn from and to vote.")] = 50,
    rule: Annotated[str, typer.Option(help="A sampling rule: see the README.")] = "softmax",
    margin: float = 0.02,
    step_size: float = 0.2,
    temperature: float = 0.1,
    epochs: Annotated[int, typer.Option(help="Epochs, at most.")] = 20,
    batch_size: Annotated[int, typer.Option(help="1 is the paper's algorithm.")] = 1,
    early_stopping: Annotated[bool, typer.Option(help="Keep the best epoch.")] = False,
    symmetric: bool = False,
    psd: Annotated[bool, typer.Option("--psd", help="Keep M positive semidefinite.")] = False,
    normalize: Annotated[bool, typer.Option(help="Keep the norm of M.")] = False,
    rank: int | None = None,
    index: Annotated[str, typer.Option(help="'auto', 'exact' or a faiss index string.")] = "auto",
    preprocess: Annotated[bool, typer.Option(help="Centre, whiten, unit length.")] = True,
    components: Annotated[int | None, typer.Option(help="PCA dimensions to keep.")] = None,
    whitening: Annotated[float, typer.Option(help="0 to 1.")] = 0.5,
    vote: Annotated[str, typer.Option(help="auto, similarity, power, softmax, top.")] = "auto",
    ensemble: Annotated[str | None, typer.Option(help="SL-DE: pca, random, mixed …")] = None,
    members: Annotated[int, typer.Option(help="Members of the ensemble.")] = 10,
    dims: Annotated[int | None, typer.Option(help="Dimensions of a member.")] = None,
    joint_epochs: Annotated[int, typer.Option(help="Rounds of joint refinement.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes for the ensemble.")] = 1,
    cache_dir: Annotated[Path | None, typer.Option(help="Keeps finished members.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to keep work in; removed when the model is written.")
    ] = None,
    checkpoint_minutes: Annotated[float, typer.Option(help="Time between two writes.")] = 5.0,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn a similarity from labelled vectors and write a classifier to one file.

    Example: nearkin train digits.npz --out model.safetensors

    Example: nearkin train x.npy --labels y.txt --ensemble pca --jobs 2 --out m.safetensors

    With --checkpoint a run that was killed goes on when the same command is given again.
    """
    from contextlib import nullcontext

    import nearkin

    if tune and checkpoint is not None:
        raise ValueError("--checkpoint keeps the work of one fit, --tune makes many: give one")
    keep = None if checkpoint is None else nearkin.Checkpoint(checkpoint, checkpoint_minutes)
    X, y = _labelled(rows, labels, label_column)
    with plain_warnings():
        if tune:
            model = nearkin.tune(X, y, random_state=seed, verbose=loud())
        else:
            learner: Any = nearkin.SLNE(
                n_neighbors=n_neighbors, rule=rule, margin=margin, step_size=step_size,
                temperature=temperature, max_epochs=epochs, batch_size=batch_size,
                early_stopping=early_stopping, symmetric=symmetric, psd=psd, normalize=normalize,
                rank=rank, index=index, verbose=loud(),
            )  # fmt: skip
            if ensemble is not None:
                learner = nearkin.SLDE(
                    learner, projection=ensemble, n_members=members, n_components=dims,
                    joint_epochs=joint_epochs, n_jobs=jobs, cache_dir=cache_dir,
                )  # fmt: skip
            prepare = nearkin.Preprocess(components, whitening=whitening) if preprocess else None
            model = nearkin.SoftVotingKNN(
                learner, n_neighbors=n_neighbors, vote=vote, index=index, random_state=seed,
                preprocess=prepare,
            )  # fmt: skip
            with _connected(cluster) if cluster else nullcontext():
                model.fit(X, y, neighbors=_lists(neighbors), checkpoint=keep)
    model.save(out)
    if keep is not None and not getattr(model.similarity_, "interrupted_", False):
        keep.remove()
    emit({"model": str(out)} | _summary(model), as_json)


def _connected(address: str) -> Any:
    from nearkin.cluster import connected

    return connected(address)


def _lists(path: Path | None) -> Any:
    if path is None:
        return None
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        if "indices" not in file:
            raise ValueError(f"{path} holds no array 'indices'; 'nearkin neighbors' writes one")
        return file["indices"]


def _labelled(rows: Path, labels: Path | None, column: str | None) -> tuple[Any, Any]:
    from nearkin import datasets

    data = datasets.read(rows, labels, column)
    if data.labels is None:
        raise ValueError(f"{rows} has no labels; give --labels FILE or --label-column NAME")
    return data.rows, data.labels


def _load(path: Path) -> Any:
    import nearkin

    model = nearkin.load(path)
    if not hasattr(model, "predict_top"):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a classifier; train one with "
                         "'nearkin train'")  # fmt: skip
    return model


def evaluate(
    model: Model,
    rows: Rows,
    labels: Labels = None,
    label_column: Column = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows that it was not trained on.

    Example: nearkin evaluate model.safetensors test.npz --report report.html
    """
    from nearkin.experiments import assessment

    X, y = _labelled(rows, labels, label_column)
    with plain_warnings():
        result = assessment.assess(_load(model), X, y)
    if report is not None:
        assessment.write_report(report, result, str(model))
    shown = {k: v for k, v in result.items() if as_json or not isinstance(v, list | dict)}
    emit(shown, as_json)


def classify(
    model: Model,
    rows: Rows,
    top: Annotated[int, typer.Option(help="Labels a row, best first.")] = 1,
    probabilities: Annotated[bool, typer.Option(help="Add the shares of the votes.")] = False,
    as_json: Json = False,
) -> None:
    """Label new rows; CSV on standard output, or JSON.

    Example: nearkin classify model.safetensors q.npy --top 3 --json
    """
    import numpy as np

    from nearkin import datasets

    loaded, X = _load(model), datasets.read(rows).rows
    p = loaded.predict_proba(X)
    if not 1 <= top <= p.shape[1]:
        raise ValueError(f"--top {top} must lie between 1 and the {p.shape[1]} classes")
    order = np.argsort(-p, axis=1, kind="stable")[:, :top]
    guesses, shares = loaded.classes_[order], np.take_along_axis(p, order, axis=1)
    if as_json:
        pairs = zip(guesses.tolist(), shares.astype(float).round(6).tolist())
        lines = [{"labels": g} | ({"probabilities": s} if probabilities else {}) for g, s in pairs]
        emit({"rows": lines}, True)
        return
    writer = csv.writer(sys.stdout)
    names = [f"label_{i + 1}" for i in range(top)] if top > 1 else ["label"]
    writer.writerow(names + [n.replace("label", "share") for n in names if probabilities])
    for g, s in zip(guesses.tolist(), shares.tolist()):
        writer.writerow(g + ([f"{v:.4f}" for v in s] if probabilities else []))


def search(
    model: Model,
    rows: Rows,
    n: Annotated[int, typer.Option(help="Rows to find for each query.")] = 5,
    as_json: Json = False,
) -> None:
    """Find the most similar training rows, plain and learned side by side.

    Example: nearkin search model.safetensors q.npy --n 10
    """
    from nearkin import datasets

    loaded = _load(model)
    X = datasets.read(rows).rows
    plain, learned = (loaded.kneighbors(X, n, rerank=rerank)[0] for rerank in (False, True))
    label = loaded.classes_[loaded.labels_]
    found: list[dict[str, Any]] = [
        {"query": i, "plain": _named(p, label), "learned": _named(q, label)}
        for i, (p, q) in enumerate(zip(plain, learned))
    ]
    if as_json:
        emit({"queries": found}, True)
        return
    for entry in found:
        typer.echo(f"query {entry['query']}")
        for kind in ("plain", "learned"):
            names = "  ".join(f"{hit['row']}:{hit['label']}" for hit in entry[kind])
            typer.echo(f"  {kind:<8} {names}")


def _named(rows: Any, label: Any) -> list[dict[str, Any]]:
    return [{"row": int(r), "label": label[r].item()} for r in rows]


def info(
    file: Annotated[Path, typer.Argument(help="A model, feature file or neighbour file.")],
    as_json: Json = False,
) -> None:
    """Say what is in a model, a feature file or a neighbour file.

    Example: nearkin info model.safetensors
    """
    import numpy as np

    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist; give a model, .npy or .npz file")
    if file.suffix == ".npy":
        from nearkin import datasets

        array = datasets.read(file).rows
        emit({"rows": array.shape[0], "columns": array.shape[1], "type": str(array.dtype)}, as_json)
    elif file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            emit({name: f"{arrays[name].dtype} {arrays[name].shape}" for name in arrays}, as_json)
    else:
        import nearkin

        emit(_summary(nearkin.load(file)), as_json)


def _summary(model: Any) -> dict[str, Any]:
    """What a person wants to know of a model."""
    result: dict[str, Any] = {"kind": type(model).__name__}
    learner = getattr(model, "similarity_", model)
    if hasattr(model, "database_"):
        vote = f"{model.vote_.kind} {model.vote_.sharpness:g}"
        result |= {"rows": len(model.database_), "columns": model.n_features_in_}
        result |= {"classes": len(model.classes_), "vote": vote}
    if hasattr(model, "calibration_accuracy_"):
        result["held_out_accuracy"] = model.calibration_accuracy_
    if learner is not None:
        result["learner"] = type(learner).__name__
        for name in ("rule", "n_neighbors", "n_epochs_", "n_skipped_", "n_members"):
            if hasattr(learner, name):
                result[name.rstrip("_")] = getattr(learner, name)
    return result

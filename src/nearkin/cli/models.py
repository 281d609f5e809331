"""Commands that make and measure models: train, evaluate."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options
from nearkin.cli.inputs import (
    check_output_paths,
    load_classifier,
    parse_columns,
    require_encoder,
    training_rows,
)
from nearkin.cli.interrupts import Interrupted, interrupt_learning_only, interruptible
from nearkin.cli.output import Json, emit, epoch_bar, model_summary, plain_warnings, verbosity

if TYPE_CHECKING:
    from nearkin.app.settings import TrainingSettings


@options.with_training_options
def train(
    rows: options.Rows,
    out: Annotated[Path, typer.Option(help="Model file to write (.safetensors).")],
    settings: "TrainingSettings",
    given: list[str],
    labels: options.Labels = None,
    label_column: options.Column = None,
    columns: options.Columns = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    neighbors: Annotated[
        Path | None, typer.Option(help="Neighbour lists of 'nearkin neighbors'.")
    ] = None,
    jobs: options.Jobs = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps checkpoints; removed when the model is written.")
    ] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(help="Minutes between two checkpoints.")
    ] = 5.0,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler.")] = None,
    as_json: Json = False,
) -> None:
    """Learn a similarity from labelled vectors and write a classifier to one file.

    Example: nearkin train digits.npz --out model.safetensors

    Example: nearkin train x.npy --labels y.txt --ensemble pca --members 10 --out m.safetensors

    Example: nearkin train x.npy --labels y.txt --folder work/ --out m.safetensors

    With --folder, the same command resumes a training that was killed.

    Example: nearkin train digits.npz --ensemble pca --cluster tcp://host:8786 --out m.safetensors

    Example: nearkin train x.parquet --label-column kind --scoring precision --out m.safetensors
    """
    import nearkin
    from nearkin.app.labels import read_labelled
    from nearkin.io.ids import pack

    settings = settings.given(given)
    if settings.auto and neighbors is not None:
        raise ValueError(
            "the automatic choice searches for neighbours itself: leave out --neighbors, or give "
            "--no-auto"
        )
    settings.check()
    if cluster is not None and settings.ensemble is None:
        raise ValueError("--cluster fits the members of an ensemble; give --ensemble pca as well")
    work = None if folder is None else nearkin.RunFolder(folder, checkpoint_minutes)
    check_output_paths(out)
    advice = _resume_advice(folder)
    with plain_warnings(), interruptible(advice), _cluster(cluster):
        chosen = parse_columns(columns, vector_column, id_column, label_column)
        data = read_labelled(rows, labels, chosen)
        with epoch_bar(settings) as callback, interrupt_learning_only():
            model = settings.classifier(data.rows.shape, callback, jobs, verbosity())
            lists = _neighbor_lists(neighbors)
            model.fit(data.rows, data.labels, neighbors=lists, folder=work)
        if data.ids is not None:
            model.ids_ = pack(data.ids)
        model.save(out)
    if getattr(model.similarity_, "interrupted_", False):
        raise Interrupted(f"the model learned so far is in {out}", advice)
    if work is not None:
        work.discard()
    emit({"model": str(out)} | model_summary(model), as_json)


def _resume_advice(folder: Path | None) -> str:
    """How to continue after an interrupt."""
    if folder is not None:
        return "run the same command again to resume"
    return "the same command starts from the beginning; with --folder DIR it would resume"


def _cluster(address: str | None) -> AbstractContextManager[Any]:
    if address is None:
        return nullcontext()
    from nearkin.app.cluster import connected

    return connected(address)


def _neighbor_lists(path: Path | None) -> Any:
    if path is None:
        return None
    from nearkin import datasets
    from nearkin.neighbors.shards import finished_lists

    if path.is_dir():
        return finished_lists(path)
    return datasets.read_array(path, "indices", "'nearkin neighbors' writes one")


def evaluate(
    model: options.Model,
    rows: options.Queries,
    labels: options.Labels = None,
    label_column: options.Column = None,
    columns: options.Columns = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    encoder: options.Encoder = None,
    train: options.Train = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder to write plots to.")] = None,
    baselines: options.Baselines = "none",
    time_limit: Annotated[float | None, typer.Option(help="Seconds per baseline.")] = None,
    names: options.Names = None,
    skip_unreadable: options.Skip = False,
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows or images that it was not trained on.

    Example: nearkin evaluate model.safetensors test.npz --train digits.npz --report report.html

    Example: nearkin evaluate runs/birds more-birds/ --baselines quick --report report.html
    """
    from nearkin.app import assessment, page
    from nearkin.app import plots as plotting
    from nearkin.app.baselines import fit_raw_cosine, measure, parse_baselines
    from nearkin.app.extras import require_extras
    from nearkin.app.labels import match_labels, read_labelled

    selected = parse_baselines(baselines)
    if report is not None or plots is not None:
        require_extras("a report", "plots")
    check_output_paths(report)
    trained = load_classifier(model, encoder, names)
    chosen = parse_columns(columns, vector_column, id_column, label_column)
    known = training_rows(trained, train, chosen)
    if selected and known is None:
        raise ValueError(
            "--baselines are fitted on the training rows as they were given, which a model does "
            "not hold; give --train FILE"
        )
    with plain_warnings():
        labels_of = trained.model.classes_[trained.model.labels_]
        raw = None if known is None else fit_raw_cosine(known, labels_of)
        if rows.is_dir():
            X, y, images = _test_images(rows, trained, jobs, skip_unreadable)
        else:
            data = read_labelled(rows, labels, chosen)
            X, y, images = data.rows, data.labels, None
        result = assessment.assess(trained.model, X, y, raw)
        if selected:
            truth = match_labels(y, trained.model.classes_)
            result["baselines"] = measure(known, labels_of, X, truth, selected, time_limit)
        if report is not None:
            title = model.resolve().name if model.is_dir() else model.name
            strips = page.strips_of(trained.model, X, y, trained.names, images, lambda: raw)
            others = result.get("baselines", ())
            page.write(report, result, title, others, strips, trained.fit_seconds)
        if plots is not None:
            plotting.save(plots, result)
    emit(result if as_json else _short(result), as_json)


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """The single values of an assessment, and one entry per baseline."""
    values = {key: value for key, value in result.items() if not isinstance(value, list | dict)}
    return values | {
        other["name"]: {"top 1": other["top1"], "top 3": other["top3"], "seconds": other["seconds"]}
        for other in result.get("baselines", ())
    }


def _test_images(folder: Path, trained: Any, jobs: int, skip: bool) -> tuple[Any, Any, list[str]]:
    """Rows, labels and paths of a folder of images."""
    from nearkin.app.encoding import encode
    from nearkin.images import ImageFolder

    images = ImageFolder(folder)
    X, readable = encode(require_encoder(trained, folder), images, skip, n_jobs=jobs)
    images = images[readable]
    return X[readable], images.labels, images.paths

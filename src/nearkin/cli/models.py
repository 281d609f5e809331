"""Commands about models: train, evaluate, classify, search."""

import csv
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli.info import summary
from nearkin.cli.inputs import asked, labelled, needed, opened, places
from nearkin.cli.interrupts import Interrupted, interruptible, learners_listen
from nearkin.cli.options import (
    Column,
    Encoder,
    Jobs,
    Labels,
    Model,
    Queries,
    Rows,
    Skip,
    with_settings,
)
from nearkin.cli.output import Json, emit, epoch_bar, loud, plain_warnings

if TYPE_CHECKING:
    from nearkin.app.settings import Settings

Baselines = Annotated[
    str, typer.Option(help="retrieval, svm, logistic, lda, ridge between commas; quick, all, none.")
]


@with_settings
def train(
    rows: Rows,
    out: Annotated[Path, typer.Option(help="Model file to write (.safetensors).")],
    settings: "Settings",
    given: list[str],
    labels: Labels = None,
    label_column: Column = None,
    neighbors: Annotated[Path | None, typer.Option(help="Lists of 'nearkin neighbors'.")] = None,
    jobs: Jobs = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps checkpoints; removed when the model is written.")
    ] = None,
    checkpoint_minutes: Annotated[float, typer.Option(help="Between two checkpoints.")] = 5.0,
    cluster: Annotated[str | None, typer.Option(help="Address of a dask scheduler.")] = None,
    as_json: Json = False,
) -> None:
    """Learn a similarity from labelled vectors and write a classifier to one file.

    Example: nearkin train digits.npz --out model.safetensors

    Example: nearkin train x.npy --labels y.txt --ensemble pca --members 10 --out m.safetensors

    Example: nearkin train x.npy --labels y.txt --folder work/ --out m.safetensors

    With --folder, a run that was killed goes on when the same command is given again.

    Example: nearkin train digits.npz --ensemble pca --cluster tcp://host:8786 --out m.safetensors

    Example: nearkin train x.parquet --label-column kind --tune --out m.safetensors
    """
    import nearkin

    if settings.tune and folder is not None:
        raise ValueError("--folder keeps the work of one fit, --tune makes many: give one")
    if settings.tune and neighbors is not None:
        raise ValueError("--tune finds neighbours of its own, --neighbors names some: give one")
    settings.check_given(given)
    settings.check()
    if cluster is not None and settings.ensemble is None:
        raise ValueError("--cluster learns the members of an ensemble; give --ensemble pca as well")
    work = None if folder is None else nearkin.RunFolder(folder, checkpoint_minutes)
    places(out)
    after = _after_interrupt(settings, folder)
    with plain_warnings(), interruptible(after), _connected(cluster) if cluster else nullcontext():
        X, y = labelled(rows, labels, label_column)
        if settings.tune:
            model = nearkin.tune(
                X, y, max_rows=settings.tune_rows, random_state=settings.seed, verbose=loud()
            )
        else:
            where = {"n_jobs": jobs}
            with epoch_bar(settings) as callback, learners_listen():
                model = settings.classifier(X.shape[0], X.shape[1], callback, where, loud())
                model.fit(X, y, neighbors=_lists(neighbors), folder=work)
        model.save(out)
    if getattr(model.similarity_, "interrupted_", False):
        raise Interrupted(f"what was learned so far is in {out}", after)
    if work is not None:
        work.discard()
    emit({"model": str(out)} | summary(model), as_json)


def _after_interrupt(settings: "Settings", folder: Path | None) -> str:
    """What a person can do once the training was interrupted."""
    if folder is not None:
        return "the same command goes on"
    if settings.tune:
        return "the same command begins anew"
    return "the same command begins anew, but with --folder DIR it goes on where it was stopped"


def _connected(address: str) -> Any:
    from nearkin.app.cluster import connected

    return connected(address)


def _lists(path: Path | None) -> Any:
    if path is None:
        return None
    from nearkin import datasets
    from nearkin.neighbors.shards import finished_lists

    if path.is_dir():
        return finished_lists(path)
    return datasets.read_array(path, "indices", "'nearkin neighbors' writes one")


def evaluate(
    model: Model,
    rows: Queries,
    labels: Labels = None,
    label_column: Column = None,
    encoder: Encoder = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder to write plots to.")] = None,
    baselines: Baselines = "none",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for a baseline.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="Image of each of the model's rows, a path a line.")
    ] = None,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Measure a model on labelled rows or images that it was not trained on.

    Example: nearkin evaluate model.safetensors test.npz --report report.html

    Example: nearkin evaluate runs/birds more-birds/ --baselines quick --report report.html
    """
    from nearkin.app import assessment, page
    from nearkin.app import baselines as reference
    from nearkin.app import plots as drawings

    others = chosen_baselines(baselines)
    places(report)
    found = opened(model, encoder)
    with plain_warnings():
        X, y, images = _test_rows(rows, labels, label_column, found, jobs, skip_unreadable)
        result = assessment.assess(found.model, X, y)
        if others:
            result["baselines"] = reference.measure(found.model, X, y, others, time_limit)
        if report is not None:
            stored = found.names if names is None else _names(names, len(found.model.labels_))
            strips = page.strips_of(found.model, X, y, stored, images)
            page.write(report, result, _title(model), result.get("baselines", ()), strips)
        if plots is not None:
            drawings.save(plots, result)
    shown = {k: v for k, v in result.items() if as_json or not isinstance(v, list | dict)}
    if others and not as_json:
        shown |= {o["name"]: {"top 1": o["top1"], "top 3": o["top3"], "seconds": o["seconds"]}
                  for o in result["baselines"]}  # fmt: skip
    emit(shown, as_json)


def chosen_baselines(text: str) -> tuple[str, ...]:
    """The baselines that a person named."""
    from nearkin.app.baselines import BASELINES, QUICK, check_baselines

    groups = {"none": (), "quick": QUICK, "all": tuple(BASELINES)}
    names = groups.get(text, tuple(part.strip() for part in text.lower().split(",")))
    check_baselines(names)
    return names


def _title(model: Path) -> str:
    return model.resolve().name if model.is_dir() else model.name


def _names(path: Path, n: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) != n:
        raise ValueError(f"--names {path} holds {len(lines)} lines for the {n} rows of the model")
    return lines


def _test_rows(
    rows: Path, labels: Path | None, column: str | None, found: Any, jobs: int, skip: bool
) -> tuple[Any, Any, list[str] | None]:
    if not rows.is_dir():
        return *labelled(rows, labels, column), None
    from nearkin.app.encoding import encode
    from nearkin.images import ImageFolder

    folder, encoder = ImageFolder(rows), needed(found, rows)
    X, kept = encode(encoder, folder, skip, n_jobs=jobs)
    some = folder[kept]
    return X[kept], some.labels, some.paths


def classify(
    model: Model,
    rows: Queries,
    top: Annotated[int, typer.Option(help="Labels a row, best first.")] = 1,
    probabilities: Annotated[bool, typer.Option(help="Add the shares of the votes.")] = False,
    encoder: Encoder = None,
    out: Annotated[Path | None, typer.Option(help="File to write, in place of printing.")] = None,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Label new rows or images; CSV or JSON, printed or to a file.

    Example: nearkin classify model.safetensors q.npy --top 3 --json

    Example: nearkin classify runs/birds unknown/ --probabilities --out labels.csv
    """
    import numpy as np

    places(out)
    found = opened(model, encoder)
    classes = found.model.classes_
    if not 1 <= top <= len(classes):
        raise ValueError(f"--top {top} must lie between 1 and the {len(classes)} classes")
    with plain_warnings():
        queries = asked(rows, found, jobs, skip_unreadable)
        p = np.concatenate([found.model.predict_proba(block) for block in queries.blocks])
    order = np.argsort(-p, axis=1, kind="stable")[:, :top]
    shares = np.take_along_axis(p, order, axis=1).astype(float).round(6).tolist()
    lines = []
    for i, (guess, share) in enumerate(zip(classes[order].tolist(), shares)):
        line: dict[str, Any] = {} if queries.names is None else {"image": queries.names[i]}
        if queries.names is not None and queries.names[i] in queries.lost:
            guess, share = [], []
        lines.append(line | {"labels": guess} | ({"probabilities": share} if probabilities else {}))
    _deliver(lines, top, probabilities, out, as_json)


def _deliver(
    lines: list[dict[str, Any]], top: int, shares: bool, out: Path | None, as_json: bool
) -> None:
    import io
    import json

    text = io.StringIO(newline="")
    if as_json:
        text.write(json.dumps({"rows": lines}, ensure_ascii=False) + "\n")
    else:
        writer = csv.writer(text, lineterminator="\n")
        names = [f"label_{i + 1}" for i in range(top)] if top > 1 else ["label"]
        first = ["image"] if lines and "image" in lines[0] else []
        writer.writerow(first + names + [n.replace("label", "share") for n in names if shares])
        for line in lines:
            cells = [line[name] for name in first] + _filled(line["labels"], top)
            writer.writerow(cells + (_filled(line["probabilities"], top) if shares else []))
    if out is None:
        sys.stdout.write(text.getvalue())
        return
    from nearkin.io.atomic import atomic_write

    with atomic_write(out) as aside:
        aside.write_text(text.getvalue(), encoding="utf-8")


def _filled(values: list[Any], n: int) -> list[Any]:
    return values + [""] * (n - len(values))


def search(
    model: Model,
    rows: Queries,
    n: Annotated[int, typer.Option(help="Rows to find for each query.")] = 5,
    encoder: Encoder = None,
    names: Annotated[
        Path | None, typer.Option(help="Name of each of the model's rows, a line each.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML page of pictures to write, for images.")
    ] = None,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Find the most similar training rows, plain and learned side by side.

    Example: nearkin search model.safetensors q.npy --n 10

    Example: nearkin search runs/birds robin.jpg --report found.html
    """
    places(report)
    found = opened(model, encoder)
    stored = found.names if names is None else _names(names, len(found.model.labels_))
    most = min(found.model.n_neighbors, len(found.model.labels_))
    if not 1 <= n <= most:
        raise ValueError(f"--n {n} must lie between 1 and {most}, the model's shortlist")
    with plain_warnings():
        queries = asked(rows, found, jobs, skip_unreadable)
        pairs = [
            (found.model.kneighbors(block, n, rerank=False), found.model.kneighbors(block, n))
            for block in queries.blocks
        ]
    label = found.model.classes_[found.model.labels_]
    result: list[dict[str, Any]] = []
    for plain, learned in pairs:
        for i in range(len(plain[0])):
            query = len(result) if queries.names is None else queries.names[len(result)]
            some = slice(0 if query in queries.lost else n)
            hits = {
                kind: _hits(near[i, some], scores[i, some], label, stored)
                for kind, (scores, near) in (("plain", plain), ("learned", learned))
            }
            result.append({"query": query} | hits)
    if report is not None:
        _page(report, result, stored)
    if as_json:
        emit({"queries": result}, True)
        return
    for entry in result:
        typer.echo(f"query {entry['query']}")
        for kind in ("plain", "learned"):
            shown = "  ".join(
                f"{hit.get('name', hit['row'])}:{hit['label']}" for hit in entry[kind]
            )
            typer.echo(f"  {kind:<8} {shown}")


def _hits(near: Any, scores: Any, label: Any, names: list[str] | None) -> list[dict[str, Any]]:
    return [
        {"row": int(r), "label": label[r].item(), "similarity": round(float(s), 6)}
        | ({} if names is None else {"name": names[r]})
        for r, s in zip(near, scores)
    ]


def _page(path: Path, result: list[dict[str, Any]], stored: list[str] | None) -> None:
    if stored is None or not isinstance(result[0]["query"], str):
        raise ValueError(
            "--report shows pictures; ask with images, and give a run folder or --names"
        )
    from nearkin.app import report
    from nearkin.app.strips import Shown, strip_html

    strips = [
        strip_html(
            Shown(entry["query"], Path(entry["query"]).name),
            *([Shown(hit["name"], str(hit["label"])) for hit in entry[kind]]
              for kind in ("plain", "learned")),
            judge=False,
        )
        for entry in result
    ]  # fmt: skip
    report.write_page(path, "Most similar images", f"{len(result)} queries", strips)

"""Commands that use a model on new rows or images: classify, search."""

import csv
import io
import itertools
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli.inputs import (
    check_output_paths,
    load_classifier,
    parse_columns,
    read_queries,
    training_rows,
)
from nearkin.cli.options import (
    Column,
    Columns,
    Encoder,
    IdColumn,
    Jobs,
    Model,
    Names,
    Queries,
    Skip,
    Train,
    VectorColumn,
)
from nearkin.cli.output import Json, emit, plain_warnings, write_text

TITLES = {"raw": "raw cosine", "learned": "learned"}
UNKNOWN = "unknown"  # in place of the label of a row that is rejected


def classify(
    model: Model,
    rows: Queries,
    top: Annotated[int, typer.Option(help="Labels per row, best first.")] = 1,
    probabilities: Annotated[bool, typer.Option(help="Add the shares of the votes.")] = False,
    reject: Annotated[
        bool,
        typer.Option("--reject", help="Label rows that resemble no training row 'unknown'."),
    ] = False,
    encoder: Encoder = None,
    columns: Columns = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write instead of standard output.")
    ] = None,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Label new rows or images; CSV or JSON, on standard output or in a file.

    With --reject there is a column 'novelty', and a row whose novelty exceeds that of 95 % of the
    held-out training rows gets no label: 'unknown' in CSV, null in JSON.

    Example: nearkin classify model.safetensors q.npy --top 3 --json

    Example: nearkin classify runs/birds unknown/ --probabilities --out labels.csv

    Example: nearkin classify runs/birds unknown/ --reject --out labels.csv
    """
    import numpy as np

    check_output_paths(out)
    trained = load_classifier(model, encoder)
    classes = trained.model.classes_
    if not 1 <= top <= len(classes):
        raise ValueError(f"--top {top} must lie between 1 and {len(classes)}, the model's classes")
    limit = _novelty_limit(trained.model, as_json) if reject else np.inf
    with plain_warnings():
        chosen = parse_columns(columns, vector_column, id_column)
        queries = read_queries(rows, chosen, trained, jobs, skip_unreadable)
        p, novelty = _answers(trained.model, queries.blocks, reject)
    order = np.argsort(-p, axis=1, kind="stable")[:, :top]
    shares = np.take_along_axis(p, order, axis=1).astype(float).round(6).tolist()
    results: list[dict[str, Any]] = []
    for i, (labels, share) in enumerate(zip(classes[order].tolist(), shares)):
        result: dict[str, Any] = {} if queries.names is None else {"image": queries.names[i]}
        result |= {} if queries.ids is None else {"id": queries.ids[i]}
        end = 0 if result.get("image") in queries.unreadable else top
        known = not (end and novelty[i] > limit)
        result["labels"] = labels[:end] if known else None
        if probabilities:
            result["probabilities"] = share[:end] if known else None
        if reject:
            measured = end and np.isfinite(novelty[i])
            result["novelty"] = round(float(novelty[i]), 6) if measured else None
        results.append(result)
    table = {"rows": results}
    text = json.dumps(table, ensure_ascii=False) + "\n" if as_json else _csv(results, top)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)


def _novelty_limit(model: Any, as_json: bool) -> float:
    """The novelty from which rows are rejected."""
    limit = getattr(model, "novelty_threshold_", None)
    if limit is None:
        raise ValueError(
            "--reject needs a model that was trained with held-out rows: let 'nearkin train' or "
            "'nearkin run' choose the vote"
        )
    if not as_json and UNKNOWN in map(str, model.classes_):
        raise ValueError(f"--reject writes {UNKNOWN!r}, which is a class of the model; give --json")
    return limit


def _answers(model: Any, blocks: Any, reject: bool) -> tuple[Any, Any]:
    """Probabilities of all queries, and their novelty if some are to be rejected."""
    import numpy as np

    shares, novelties = [], []
    for block in blocks:
        shares.append(model.predict_proba(block))
        novelties.append(model.novelty_score(block) if reject else np.zeros(len(block)))
    return np.concatenate(shares), np.concatenate(novelties)


def _csv(results: list[dict[str, Any]], top: int) -> str:
    """One line per row; an unreadable image has empty cells, a rejected row no label."""
    ends = [f"_{i + 1}" for i in range(top)] if top > 1 else [""]
    lists = {"labels": "label", "probabilities": "share"}
    header = [[lists[key] + end for end in ends] if key in lists else [key] for key in results[0]]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(itertools.chain(*header))
    for result in results:
        if result["labels"] is None:
            result = {key: [] if key in lists else v for key, v in result.items()}
            result["labels"] = [UNKNOWN]
        cells = [v + [""] * (top - len(v)) if key in lists else [v] for key, v in result.items()]
        writer.writerow(itertools.chain(*cells))
    return text.getvalue()


def search(
    model: Model,
    rows: Queries,
    n: Annotated[int, typer.Option(help="Rows to find for each query.")] = 5,
    encoder: Encoder = None,
    columns: Columns = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    names: Names = None,
    train: Train = None,
    label_column: Column = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML page of pictures to write, for images.")
    ] = None,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """Find the most similar training rows, by the learned similarity and by raw cosine.

    Raw cosine needs the training rows as they were given: a run on images has them, other models
    need --train; without them it is left out, and a note says so.

    Example: nearkin search model.safetensors q.npy --n 10 --train digits.npz

    Example: nearkin search runs/birds robin.jpg --report found.html
    """
    from nearkin.app.baselines import NO_MEMORY, NO_RAW, fit_raw_cosine
    from nearkin.app.extras import require_extras

    if report is not None:
        require_extras("a report of pictures", "images")
    check_output_paths(report)
    trained = load_classifier(model, encoder, names)
    shortlist = min(trained.model.shortlist_length, len(trained.model.labels_))
    if not 1 <= n <= shortlist:
        raise ValueError(f"--n {n} must lie between 1 and {shortlist}, the model's shortlist")
    chosen = parse_columns(columns, vector_column, id_column, label_column)
    known = training_rows(trained, train, chosen)
    with plain_warnings():
        searched = {"learned": trained.model}
        if known is not None:
            raw = fit_raw_cosine(known, trained.model.classes_[trained.model.labels_])
            searched = ({"raw": raw.set_params(n_neighbors=n)} if raw else {}) | searched
        queries = read_queries(rows, chosen, trained, jobs, skip_unreadable)
        found: list[Any] = []
        for block in queries.blocks:
            found += zip(*(_hits(trained, by, block, n) for by in searched.values()))
    results: list[dict[str, Any]] = []
    for query, hits in zip(queries.names or queries.ids or itertools.count(), found):
        hits = [[] for _ in searched] if query in queries.unreadable else hits
        results.append({"query": query} | dict(zip(searched, hits)))
    if report is not None:
        _write_report(report, results, queries.names and trained.names)
    note = "" if "raw" in searched else NO_RAW if known is None else NO_MEMORY
    if as_json:
        emit({"queries": results} | ({"note": note} if note else {}), True)
        return
    _print(results)
    if note:
        typer.echo(f"note: {note}", err=True)


def _hits(trained: Any, by: Any, block: Any, n: int) -> list[list[dict[str, Any]]]:
    """For each query its hits: row, label and similarity, and the name or id if there is one."""
    similarities, indices = by.kneighbors(block, n)
    labels = trained.model.classes_[trained.model.labels_]
    return [
        [
            {"row": int(i), "label": labels[i].item(), "similarity": round(float(s), 6)}
            | ({} if trained.names is None else {"name": trained.names[i]})
            | ({} if trained.ids is None else {"id": trained.ids[i]})
            for i, s in zip(*query)
        ]
        for query in zip(indices, similarities)
    ]


def _print(results: list[dict[str, Any]]) -> None:
    """One line per hit: its similarity, its label, and its name, id or row."""
    for result in results:
        typer.echo(f"query {result['query']}")
        for kind, title in TITLES.items():
            if kind in result:
                typer.echo(f"  {title}")
                width = max((len(str(hit["label"])) for hit in result[kind]), default=0)
                for hit in result[kind]:
                    label = str(hit["label"])
                    typer.echo(f"    {hit['similarity']:>7.3f}  {label:<{width}}  {_shown(hit)}")


def _shown(hit: dict[str, Any]) -> Any:
    known = (hit.get(key) for key in ("name", "id"))
    return next((name for name in known if name is not None), f"row {hit['row']}")


def _write_report(path: Path, results: list[dict[str, Any]], names: list[str] | None) -> None:
    if names is None:
        raise ValueError(
            "--report shows pictures: give images as queries, and a run folder or --names FILE"
        )
    from nearkin.app import report
    from nearkin.app.page import ENLARGE, LISTS
    from nearkin.app.strips import Picture, strip_html

    strips = [
        strip_html(
            Picture(result["query"], ""),
            {title: [Picture(hit["name"], str(hit["label"]), hit["similarity"])
                     for hit in result[kind]]
             for kind, title in LISTS.items() if kind in result},
            mark=False,
        )
        for result in results
    ]  # fmt: skip
    count = "One query" if len(results) == 1 else f"{len(results):,} queries"
    note = (
        f"{count}. Below a picture are its class, its similarity to the query, on the scale of its "
        f"list, and the name of its file. {ENLARGE}"
    )
    report.write_page(path, "Most similar images", note, strips)

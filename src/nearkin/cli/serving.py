"""The command that serves a model: serve."""

import os
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options
from nearkin.cli.adapters import adapter_of
from nearkin.cli.inputs import parse_columns, training_rows, with_images
from nearkin.cli.interrupts import interruptible
from nearkin.cli.output import Json, emit, plain_warnings

if TYPE_CHECKING:
    from nearkin.io.tables import Columns, Dataset
    from nearkin.serve.engine import Engine

TOKEN = "NEARKIN_TOKEN"


def serve(
    model: Annotated[
        Path,
        typer.Argument(help="Model file, adapter of 'nearkin export', or folder of 'nearkin run'."),
    ],
    train: options.Train = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="Vectors to search, as they are, for a model without rows of its own: "
            "an adapter, or the similarity of 'nearkin pairs'."
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels of --rows: .npy, or text with one per line.")
    ] = None,
    encoder: options.Encoder = None,
    names: options.Names = None,
    label_column: options.Column = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0: a free one.", min=0, max=65_535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File of the token that requests must carry; or set {TOKEN}."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let other machines ask without a token.")
    ] = False,
    allow_host: Annotated[
        str | None, typer.Option(help="Further names of this machine, comma-separated.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Open everything, say what would be served, and end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve a model: a page to search and look at it, and an HTTP service with JSON.

    Only this machine can reach it unless --host says otherwise; then a token is needed. A new model
    in place of the file is taken within seconds, without dropping a request. Ctrl-C stops it, after
    the requests that are being answered.

    Example: nearkin serve runs/birds

    Example: nearkin serve model.safetensors --train digits.npz --port 8080

    Example: nearkin serve runs/birds --host 0.0.0.0 --token-file token.txt

    Example: nearkin serve adapter.safetensors --rows documents.parquet
    """
    _require_extra()
    from nearkin.app.finished_run import load_trained
    from nearkin.app.run_files import MODEL
    from nearkin.serve.adapted import AdaptedModel
    from nearkin.serve.engine import open_engine
    from nearkin.serve.guard import Guard, check_reach, read_token
    from nearkin.serve.reload import Holder
    from nearkin.serve.server import bind, url_of
    from nearkin.serve.server import serve as serve_app
    from nearkin.serve.service import create_app

    token = read_token(token_file, os.environ.get(TOKEN))
    check_reach(host, token, no_token)
    columns = parse_columns(None, vector_column, id_column, label_column)

    def opened() -> "Engine":
        trained = load_trained(model)
        if hasattr(trained.model, "predict_top"):
            _refuse("holds its own rows", model, rows=rows, labels=labels)
            trained = with_images(trained, encoder, names)
            return open_engine(trained, training_rows(trained, train, columns))
        _refuse("has no rows of its own; give --rows", model, train=train)
        searched = _searched(rows, labels, columns)
        adapted = AdaptedModel(
            adapter_of(trained.model, model), type(trained.model).__name__, searched
        )
        return open_engine(with_images(replace(trained, model=adapted), encoder, names), None)

    with bind(host, port) as bound, plain_warnings():
        url = url_of(bound, host)
        holder = Holder(opened, model / MODEL if model.is_dir() else model)
        facts = _facts(url, holder.engine)
        if check:
            emit(facts, as_json)
            return
        known = tuple(name.strip().lower() for name in (allow_host or "").split(",") if name)
        app = create_app(holder, Guard(host, known, token))
        with interruptible("requests that had begun were answered"):
            serve_app(app, bound, lambda: emit(facts, as_json))


def _require_extra() -> None:
    from nearkin.validation.extras import missing_extra

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise missing_extra("nearkin serve", error.name or "FastAPI", "serve") from error


def _refuse(why: str, model: Path, **given: Path | None) -> None:
    """Refuse options that have no effect on this model."""
    for name, path in given.items():
        if path is not None:
            raise ValueError(f"--{name} {path} has no effect: {model} {why}")


def _searched(rows: Path | None, labels: Path | None, columns: "Columns") -> "Dataset | None":
    """Vectors to search, with labels and ids if there are any."""
    from nearkin import datasets
    from nearkin.app.labels import default_labels

    if rows is None:
        if labels is not None:
            raise ValueError(f"--labels {labels} are those of --rows FILE; give it, too")
        return None
    data = datasets.read(rows, labels or default_labels(rows), *astuple(columns))
    datasets.check_finite(data.rows, rows)
    return data


def _facts(url: str, engine: "Engine") -> dict[str, Any]:
    """What is served, and where."""
    known = engine.describe()
    facts = {"url": url, "rows": known["rows"], "columns": known["columns"]}
    facts |= {"classes": known["n_classes"], "similarities": known["similarities"]}
    facts |= {"images": known["images"]}
    notes = dict.fromkeys([engine.no_raw, *engine.refused.values()])  # each once
    note = "; ".join(filter(None, notes))
    return facts | ({"note": note} if note else {})

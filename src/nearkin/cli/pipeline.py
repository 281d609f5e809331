"""Commands about whole runs: plan, run, demo."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli.encoders import Mean, Onnx, Output, Scale, Words, onnx_encoder
from nearkin.cli.inputs import parse_columns
from nearkin.cli.interrupts import RESUMES, interruptible
from nearkin.cli.options import (
    Baselines,
    Column,
    Columns,
    IdColumn,
    Jobs,
    Labels,
    Skip,
    VectorColumn,
    with_training_options,
)
from nearkin.cli.output import Json, emit, epoch_bar, plain_warnings, print_progress, verbosity

if TYPE_CHECKING:
    from nearkin.app.settings import TrainingSettings


def plan(
    rows: Annotated[int, typer.Argument(help="Number of rows.")],
    dims: Annotated[int, typer.Argument(help="Dimensions of a row.")],
    k: Annotated[int, typer.Argument(help="Neighbours per row.")] = 50,
    members: Annotated[int, typer.Option(help="Members of an ensemble; 0: SL-NE.")] = 0,
    epochs: Annotated[int, typer.Option(help="Maximum number of epochs.")] = 5,
    as_json: Json = False,
) -> None:
    """Estimate memory, disk and time of a training on this machine, by a probe of two seconds.

    Example: nearkin plan 1200000 1000 500
    """
    from nearkin.app import planning

    estimate = planning.estimate(rows, dims, k, members, epochs)
    emit(estimate if as_json else planning.readable(estimate), as_json)


@with_training_options
def run(
    source: Annotated[Path, typer.Argument(help="A folder of images, or a file of vectors.")],
    settings: "TrainingSettings",
    given: list[str],
    folder: Annotated[
        Path | None, typer.Option(help="Run folder; by default runs/ and the name of the source.")
    ] = None,
    labels: Labels = None,
    label_column: Column = None,
    columns: Columns = None,
    vector_column: VectorColumn = None,
    id_column: IdColumn = None,
    test_share: Annotated[float, typer.Option(help="Share of the rows to test on.")] = 0.2,
    baselines: Baselines = "quick",
    onnx: Onnx = None,
    output: Output = None,
    mean: Mean = None,
    scale: Scale = None,
    words: Words = 2048,
    skip_unreadable: Skip = False,
    jobs: Jobs = 1,
    as_json: Json = False,
) -> None:
    """From images or vectors to an evaluated model; the same command resumes a stopped run.

    Example: nearkin run birds/ --folder runs/birds

    Example: nearkin run digits.npz --folder runs/digits --sampling hardest --n-neighbors 50

    Example: nearkin run birds/ --onnx net.onnx --output features --folder runs/birds-net
    """
    from nearkin.app import pipeline
    from nearkin.app.baselines import parse_baselines

    settings = settings.given(given)
    encoder = None
    if onnx is not None:
        encoder = onnx_encoder(onnx, output, mean, scale)
    elif source.is_dir():
        from nearkin.images import LLC

        encoder = LLC(words, random_state=settings.seed)
    with plain_warnings(), interruptible(RESUMES):
        result = pipeline.run(
            pipeline.DataSource(
                source,
                labels,
                parse_columns(columns, vector_column, id_column, label_column),
                encoder,
                skip_unreadable,
            ),
            folder or pipeline.default_folder(source),
            pipeline.RunSettings(settings, test_share, parse_baselines(baselines)),
            pipeline.RunOptions(jobs, print_progress, partial(epoch_bar, settings), verbosity()),
        )
    emit(result, as_json)
    if not as_json:
        found = shlex.quote(str(folder or pipeline.default_folder(source)))
        typer.echo(f"\nto look at it, and to search: nearkin serve {found}")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
    splits: Annotated[
        int, typer.Option(help="Random splits to average over; 1 is the quickest.")
    ] = 3,
) -> None:
    """Compare kNN by raw cosine, linear classifiers and nearkin on digits, and write a report.

    Example: nearkin demo --out demo
    """
    from nearkin.app import demo

    demo.run(out, typer.echo, splits)

"""Commands about whole runs: plan, run, demo."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli.data import Mean, Onnx, Output, Scale, Words, network
from nearkin.cli.interrupts import GOES_ON, interruptible
from nearkin.cli.models import Baselines, chosen_baselines
from nearkin.cli.options import Column, Jobs, Labels, Skip, with_settings
from nearkin.cli.output import Json, emit, epoch_bar, loud, plain_warnings, say

if TYPE_CHECKING:
    from nearkin.app.settings import Settings


def plan(
    rows: Annotated[int, typer.Argument(help="Number of rows.")],
    dims: Annotated[int, typer.Argument(help="Dimensions of a row.")],
    k: Annotated[int, typer.Argument(help="Neighbours a row.")] = 50,
    members: Annotated[int, typer.Option(help="Members of an ensemble; 0 is SL-NE.")] = 0,
    epochs: Annotated[int, typer.Option(help="Epochs, at most.")] = 20,
    as_json: Json = False,
) -> None:
    """Tell what a training run would take on this machine, by a probe of two seconds.

    Example: nearkin plan 1200000 1000 500
    """
    from nearkin.app import planning

    found = planning.estimate(rows, dims, k, members, epochs)
    emit(found if as_json else planning.readable(found), as_json)


@with_settings
def run(
    source: Annotated[Path, typer.Argument(help="A folder of images, or a file of vectors.")],
    settings: "Settings",
    given: list[str],
    folder: Annotated[
        Path | None, typer.Option(help="Run folder; by default runs/ and the name of the source.")
    ] = None,
    labels: Labels = None,
    label_column: Column = None,
    test_share: Annotated[float, typer.Option(help="Rows kept for the evaluation.")] = 0.2,
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
    """From images or vectors to an evaluated model; a second run goes on where the first stopped.

    Example: nearkin run birds/ --folder runs/birds

    Example: nearkin run digits.npz --folder runs/digits --tune

    Example: nearkin run birds/ --onnx net.onnx --output features --folder runs/birds-net
    """
    from nearkin.app import pipeline
    from nearkin.cli.inputs import beside

    settings.check_given(given)
    encoder = None
    if onnx is not None:
        encoder = network(onnx, output, mean, scale)
    elif source.is_dir():
        from nearkin.images import LLC

        encoder = LLC(words, random_state=settings.seed)
    with plain_warnings(), interruptible(GOES_ON):
        result = pipeline.run(
            pipeline.Source(
                source, labels or beside(source), label_column, encoder, skip_unreadable
            ),
            folder or pipeline.usual_folder(source),
            pipeline.Plan(settings, test_share, chosen_baselines(baselines)),
            pipeline.How(jobs, say, partial(epoch_bar, settings), loud()),
        )
    emit(result, as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
) -> None:
    """Compare plain kNN, a linear SVM and SL-NE on handwritten digits, and write a report.

    Example: nearkin demo --out demo
    """
    from nearkin.app import demo

    demo.run(out, typer.echo)

"""Commands about whole runs: plan, run, demo."""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.output import Json, emit, plain_warnings


def plan(
    rows: Annotated[int, typer.Argument(help="Number of rows.")],
    dims: Annotated[int, typer.Argument(help="Dimensions of a row.")],
    k: Annotated[int, typer.Argument(help="Neighbours a row.")] = 50,
    members: Annotated[int, typer.Option(help="Members of an ensemble; 0 is SL-NE.")] = 0,
    as_json: Json = False,
) -> None:
    """Tell what a training run would take on this machine, by a probe of two seconds.

    Example: nearkin plan 1200000 1000 500
    """
    from nearkin.experiments import planning

    emit(planning.estimate(rows, dims, k, members), as_json)


def run(
    source: Annotated[Path, typer.Argument(help="A folder of images, or a file of vectors.")],
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("runs/run"),
    labels: Annotated[Path | None, typer.Option(help="Labels: .npy, or a label a line.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Column with the labels.")] = None,
    rule: str = "softmax",
    n_neighbors: int = 50,
    components: Annotated[int | None, typer.Option(help="PCA dimensions to keep.")] = None,
    whitening: float = 0.5,
    epochs: int = 20,
    test_share: Annotated[float, typer.Option(help="Rows kept for the evaluation.")] = 0.2,
    jobs: Annotated[int, typer.Option(help="Processes for the features.")] = 1,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """From images or vectors to an evaluated model; a second run goes on where the first stopped.

    Example: nearkin run birds/ --out runs/birds
    """
    from nearkin.experiments import pipeline

    settings = pipeline.Settings(
        rule=rule, n_neighbors=n_neighbors, components=components, whitening=whitening,
        epochs=epochs, test_share=test_share, seed=seed,
    )  # fmt: skip
    with plain_warnings():
        emit(pipeline.run(source, out, settings, labels, label_column, jobs), as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
) -> None:
    """Compare plain kNN, a linear SVM and SL-NE on handwritten digits, and write a report."""
    from nearkin.experiments import digits

    digits.run(out, typer.echo)

"""The command ``nearkin reproduce``, registered as an entry point of ``nearkin.commands``.

The command line imports this module at every start: everything heavy is imported inside.
"""

from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.interrupts import RESUMES, interruptible
from nearkin.cli.output import plain_warnings
from nearkin.reproduction import ITEMS


def reproduce(
    item: Annotated[str, typer.Argument(help="table1 … table4, figure1 … figure5, or all.")],
    data: Annotated[Path, typer.Option(help="Folder with caltech101.tar, mnist.npz, …")],
    folder: Annotated[
        Path, typer.Option(help="Run folder for results; the same command resumes there.")
    ] = Path("runs/paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, a few minutes.")] = False,
    splits: Annotated[int, typer.Option(help="Random splits for Table 3.")] = 1,
    again: Annotated[bool, typer.Option("--again", help="Measure anew; keep features.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes for features and ensembles.")] = 2,
    results: Annotated[Path | None, typer.Option(help="Markdown file to write.")] = None,
) -> None:
    """Run the paper's tables and figures and print its figures beside ours; resumes.

    Example: nearkin reproduce all --data DIR --folder runs/paper
    """
    from nearkin.validation import expect
    from nearkin.validation.parameters import require

    require("item", item, expect.choice("all", *ITEMS))
    for name, value in (("splits", splits), ("jobs", jobs)):
        require(name, value, expect.whole(1))
    if not data.is_dir():
        raise FileNotFoundError(f"--data {data} is not a folder; give the one that holds the data")
    from nearkin.io.run_folder import RunFolder
    from nearkin.reproduction import runner
    from nearkin.reproduction.setup import Setup

    setup = Setup(data, RunFolder(folder), quick, splits, again, jobs, typer.echo)
    with plain_warnings(), interruptible(RESUMES):
        runner.run(item, setup, results)

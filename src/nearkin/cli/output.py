"""Output of commands: text or JSON, warnings as single lines, progress on a terminal."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nearkin.app.settings import TrainingSettings

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Attributes of a learner or encoder that a summary shows, where there are any.
SUMMARY_ATTRIBUTES = ("sampling", "n_neighbors", "margin", "step_size", "n_epochs_", "projection",
                      "n_members", "n_words", "n_features_out_", "model")  # fmt: skip


# Measures whose names in JSON are short, in words.
WORDS = {
    "top_1": "right at the first guess",
    "top_1_raw": "right by raw cosine",
    "top_1_mean_per_class": "right, mean of the classes",
    "top_3": "right among three guesses",
    "top_3_mean_per_class": "among three, mean of the classes",
    "top_5": "right among five guesses",
    "top_5_mean_per_class": "among five, mean of the classes",
    "map_raw": "mean average precision, raw cosine",
    "map_learned": "mean average precision, learned",
}


def emit(result: Mapping[str, Any], as_json: bool) -> None:
    """Print a result: one JSON object, or one line per entry."""
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, default=str))
        return
    named = {WORDS.get(name, name.replace("_", " ")): value for name, value in result.items()}
    width = max(map(len, named), default=0)
    for name, value in named.items():
        typer.echo(f"{name:<{width}}  {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_readable(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_readable(item) for item in value) or "–"
    return str(value)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    from nearkin.io.atomic import atomic_write

    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def model_summary(model: Any) -> dict[str, Any]:
    """Kind, size and main settings of a model or encoder."""
    result: dict[str, Any] = {"kind": type(model).__name__}
    learner = getattr(model, "similarity_", model)
    if hasattr(model, "database_"):
        vote = f"{model.vote_.kind} {model.vote_.sharpness:g}"
        result |= {"rows": len(model.database_), "columns": model.n_features_in_}
        result |= {"dimensions": model.database_.shape[1], "classes": len(model.classes_)}
        result |= {"shortlist": model.shortlist_length, "vote": vote, "csls": model.vote_.csls}
        result |= {"hyperplane_weight": model.vote_.hyperplane_weight}
        result |= {"class_mean_weight": model.vote_.class_weight}
    if hasattr(model, "preprocess_"):
        result["preprocess"] = " ".join(repr(model.preprocess_).split())
    if hasattr(model, "calibration_accuracy_"):
        result["held_out_accuracy"] = model.calibration_accuracy_
    if learner is not model and learner is not None:
        result["learner"] = type(learner).__name__
    for part in (getattr(learner, "learner", None), learner):
        found = {name: getattr(part, name, None) for name in SUMMARY_ATTRIBUTES}
        result |= {name.rstrip("_"): value for name, value in found.items() if value is not None}
    return result


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the source line that issued them."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        typer.echo(f"note: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        # Its advice is for Python callers; `interrupts` has that of the command line.
        warnings.filterwarnings("ignore", "interrupted")
        warnings.showwarning = show
        yield


def verbosity() -> int:
    """1 if standard error is a terminal, else 0."""
    return int(sys.stderr.isatty())


def print_progress(text: str) -> None:
    """Print a line on standard error if it is a terminal."""
    if verbosity():
        typer.echo(text, err=True)


@contextmanager
def epoch_bar(settings: "TrainingSettings") -> Iterator[Callable[[int, Any], object] | None]:
    """A callback that advances a progress bar on standard error; None without a terminal.

    There is none for an ensemble, whose members are fitted in other processes.
    """
    if not verbosity() or settings.ensemble is not None:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("learning", total=settings.epochs)
        yield lambda epoch, _: progress.update(task, completed=epoch)

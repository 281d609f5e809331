"""Commands of the command line, run in this process; what they take, found by introspection."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import typer

from hostile.material import HOME

# Arguments and options by name, and by command and name where that differs.
CLEAN = {
    "rows": "rows.npz", "model": "SoftVotingKNN.safetensors", "source": "rows.npz",
    "images": "images", "file": "SoftVotingKNN.safetensors", "item": "no-such-table",
    "train.out": "cwd:m.safetensors", "features.out": "cwd:f.npy", "neighbors.out": "cwd:n.npz",
    "classify.rows": "queries.npy", "search.rows": "queries.npy", "plan.rows": "1000",
    "plan.dims": "10", "k": "3", "words": "8", "epochs": "2", "n_neighbors": "5", "seed": "0",
    "shortlist": "5", "n": "2", "baselines": "none", "run.folder": "cwd:run",
    "data": "images", "pairs.queries": "queries.npy", "pairs.documents": "rows.npy",
    "pairs.qrels": "qrels.tsv", "pairs.out": "cwd:p.safetensors", "embeddings": "rows.npz",
    "export.model": "SLNE.safetensors", "export.out": "cwd:a.safetensors",
    "export.data": "rows.csv", "retrieval": "whitening=0.5", "serve.port": "0",
    "serve.rows": None,  # the classifier has its own
}  # fmt: skip
ENDS = {"serve": "--check"}  # what makes a command end that would go on until it is stopped
LONG = {"demo": (), "reproduce": ("item",)}  # minutes: only these parameters are attacked
VARIABLE = ("second", "time", "path", "model", "bytes", "folder", "out", "report", "file", "memory",
            "verdict", "done_", "ms_per", "adapter")  # fmt: skip


def commands() -> dict[str, Any]:
    from nearkin.cli.app import app
    from nearkin.cli.plugins import add_plugins

    add_plugins(app)
    return typer.main.get_command(app).commands


def kind_of(parameter: Any) -> type:
    """int, float, bool, Path or str."""
    annotation = parameter.type_descriptor.annotation
    members = getattr(annotation, "__args__", (annotation,))
    return next((m for m in members if isinstance(m, type) and m is not type(None)), str)


def clean_value(command: str, parameter: Any) -> str | None:
    value = CLEAN.get(f"{command}.{parameter.name}", CLEAN.get(parameter.name))
    if value is None or value.startswith("cwd:"):
        return value and value[4:]
    there = HOME.folder / value
    return str(there) if there.exists() else value


def line(command: str, changed: dict[str, list[str]]) -> list[str]:
    """A whole command line; `changed` gives the words of some parameters."""
    words, options = [command], []
    if command in ENDS and ENDS[command][2:] not in changed:
        options.append(ENDS[command])
    for parameter in commands()[command].params:
        value = clean_value(command, parameter)
        if parameter.name == "as_json":
            options.append("--json")
        elif parameter.name in changed:
            given = changed[parameter.name]
            (words if parameter.param_type_name == "argument" else options).extend(given)
        elif parameter.param_type_name == "argument":
            words += [value] if value is not None else []
        elif value is not None and (parameter.required or kind_of(parameter) is not bool):
            options += [parameter.opts[0], value]
    return [*words, *options]


def execute(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    from nearkin.cli.app import main

    out, err, kept = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["nearkin", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.argv = kept
    return code, out.getvalue(), err.getvalue()


def lasting(output: str) -> Any:
    """What a command answers, without times and places; None if that is not JSON."""
    try:
        return _lasting(json.loads(output))
    except ValueError:
        return None


def _lasting(item: Any) -> Any:
    if isinstance(item, dict):
        kept = {k: v for k, v in item.items() if not any(word in k for word in VARIABLE)}
        return {k: _lasting(v) for k, v in kept.items() if "/" not in str(v)}
    return [_lasting(v) for v in item] if isinstance(item, list) else item

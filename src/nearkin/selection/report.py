"""The automatic choice in words: what was chosen and why, or what was best so far."""

from typing import Any

from nearkin.selection.options import Scoring
from nearkin.voting.votes import Vote

Trial = dict[str, Any]


def report(trials: list[Trial], scoring: Scoring) -> str:
    """What was chosen and what it gained, in a few lines."""
    if not trials:
        return "too few rows to choose on: plain neighbours and class means vote"
    best = trials[-1]
    plain = [trial for trial in trials if trial["learner"] is None]
    most = max(trial["rows"] for trial in plain)  # where they were out of the running at the end
    sizes = {trial["rows"] for trial in plain}
    rows = best["rows"] if best["rows"] in sizes else most
    same = [trial for trial in plain if trial["rows"] == rows]
    raw = next((trial for trial in same if trial["preprocess"] == "None"), same[0])
    lines = [
        f"{len(trials)} candidates, judged by {_name(scoring)} on held-out rows",
        f"plain neighbours of {_rows(raw)}: {_quality(raw, scoring)}",
        f"chosen: {_quality(best, scoring)}",
        *(f"  {name:<11}  {value}" for name, value in _settings(best).items()),
    ]
    return "\n".join(lines)


def summary(trials: list[Trial], scoring: Scoring) -> str:
    """The best candidate so far of a search that was stopped, in one line."""
    if not trials:
        return "no candidate had been tried"
    last = [trial for trial in trials if trial["rows"] == trials[-1]["rows"]]  # the same test rows
    best = max(last, key=lambda trial: trial["score"])
    settings = "; ".join(f"{name}: {value}" for name, value in _settings(best).items())
    return (
        f"{len(trials)} candidates had been tried; by {_name(scoring)} the best was "
        f"{_quality(best, scoring)}, with {settings}"
    )


def _settings(trial: Trial) -> dict[str, Any]:
    return {
        "preprocess": trial["preprocess"],
        "learner": _learner(trial["learner"]),
        "epochs": trial["epochs"],
        "n_neighbors": trial["n_neighbors"],
        "vote": _vote(trial["vote"]),
    }


def _name(scoring: Scoring) -> str:
    return scoring.replace("_", " ")


def _rows(trial: Trial) -> str:
    given = trial["preprocess"] == "None"
    return "the rows as they are" if given else f"rows after {trial['preprocess']}"


def _learner(settings: dict[str, str] | None) -> str:
    if settings is None:
        return "none: plain neighbours"
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _vote(vote: Vote) -> str:
    parts = [f"{vote.kind} {vote.sharpness:.3g}"]
    parts += [f"csls {vote.csls:g}"] if vote.csls else []
    parts += [f"hyperplanes {vote.hyperplane_weight:.0%}"] if vote.hyperplane_weight else []
    refined = " refined" if vote.refinement else ""
    parts += [f"class means {vote.class_weight:.0%}{refined}"] if vote.class_weight else []
    return ", ".join(parts)


def _quality(trial: Trial, scoring: Scoring) -> str:
    retrieval = scoring in ("precision", "average_precision")
    chosen_by = f"{_name(scoring)} {trial['score']:.4f}, " if retrieval else ""
    return f"{chosen_by}log loss {trial['log_loss']:.4f}, accuracy {trial['accuracy']:.4f}"

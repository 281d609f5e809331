"""What to make of a trial: a table, and a paragraph of advice."""

import html
from pathlib import Path
from typing import Any

from nearkin.app import report
from nearkin.app.trial import EFS, RERANKED, WHOLE, Method, Trial, graph_name
from nearkin.retrieval_task import MEASURES

NO, RERANK, DEPLOY = "do not deploy this", "re-rank only", "deploy"
CLOSE = 0.005  # what a graph may lose
HEADER = ["", *MEASURES, "gain", "95 % interval", "found", "ms a query"]


def as_dict(trial: Trial) -> dict[str, Any]:
    """The trial, its verdict and the advice, for JSON."""
    verdict, text = advise(trial)
    return {"learned_from": trial.kind, "seconds": trial.seconds, **trial.facts,
            "measure": trial.measure, "verdict": verdict, "advice": text,
            "methods": [method.as_dict() for method in trial.methods]}  # fmt: skip


def table(trial: Trial) -> list[list[str]]:
    """Cells of each method; gains are in the measure that decides."""
    return [_cells(method, trial.measure) for method in trial.methods]


def text(trial: Trial) -> str:
    """Table and advice for a terminal."""
    rows = [HEADER, *table(trial)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = ["  ".join(f"{cell:<{w}}" if i == 0 else f"{cell:>{w}}"
             for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows]  # fmt: skip
    return "\n".join([_facts(trial), "", *lines, "", advise(trial)[1]])


def write_page(path: Path, trial: Trial, title: str) -> None:
    """The same as an HTML page."""
    verdict, words = advise(trial)
    best = {NO: 0, RERANK: 1, DEPLOY: 2}[verdict]
    parts = [f"<p>{html.escape(words)}</p>", report.table(HEADER, table(trial), best)]
    report.write_page(path, title, _facts(trial), parts)


def _facts(trial: Trial) -> str:
    unit = "labelled rows" if trial.kind == "labels" else "queries"
    return (
        f"learned from {trial.facts['learned_from']:,} {unit} in {trial.seconds:.1f} s; "
        f"{trial.facts['test_queries']:,} other queries to {trial.facts['documents']:,} vectors; "
        f"gain: in {trial.measure}; found: share of the ten most similar that the graph finds"
    )


def _cells(method: Method, measure: str) -> list[str]:
    values, gain = method.as_dict(), method.gains.get(measure)
    cells = [f"{values[name]:.4f}" if name in values else "–" for name in MEASURES]
    shown = ["", ""]
    if gain is not None:
        shown = [f"{gain['difference']:+.4f}", f"{gain['low']:+.4f} … {gain['high']:+.4f}"]
    found = "" if method.found is None else f"{method.found:.3f}"
    return [method.name, *cells, *shown, found, f"{method.ms:.2f}"]


def advise(trial: Trial) -> tuple[str, str]:
    """The verdict, and why."""
    if not trial.learned:
        return NO, (
            f"{NO.capitalize()}: on learning queries that were held out, nothing that could be "
            "learned helped beyond chance, so the adapter is the identity. More judged queries may "
            "change that."
        )
    gain = {name: trial[name].gains[trial.measure] for name in (RERANKED, WHOLE)}
    helps = {name: gain[name]["low"] > 0 for name in gain}
    recall = trial[WHOLE].gains["recall@100"]
    if helps[WHOLE] and not (recall["high"] < 0 and helps[RERANKED]):
        return DEPLOY, _deploy(trial, gain[WHOLE])
    if helps[RERANKED]:
        why = "the whole index loses relevant vectors" if helps[WHOLE] else (
            f"over the whole index the gain is {_shown(gain[WHOLE])}"
        )  # fmt: skip
        return RERANK, (
            f"Re-rank only: let the index find a hundred vectors for the raw query, and order "
            f"these with adapter.rerank, which gains {_shown(gain[RERANKED])}. Do not ask the "
            f"index for adapted queries: {why}."
        )
    return NO, (
        f"{NO.capitalize()}: over the whole index {trial.measure} changes by "
        f"{_shown(gain[WHOLE])}, and by {_shown(gain[RERANKED])} if the top hundred are re-ranked, "
        "which may be chance. Raw cosine is as good here, and simpler."
    )


def _deploy(trial: Trial, gain: dict[str, float]) -> str:
    """For which index, exact or a graph."""
    exact = trial[WHOLE].as_dict()[trial.measure]
    values = {ef: trial[graph_name(ef)].as_dict()[trial.measure] for ef in EFS}
    close = [ef for ef in EFS if values[ef] >= exact - CLOSE]
    words = f"Deploy: asked for adapted queries, the index gains {_shown(gain)}. "
    if close:
        return words + (
            f"In a graph (HNSW), ef {close[0]} is enough: {values[close[0]]:.4f} against "
            f"{exact:.4f} exactly."
        )
    lost = exact - values[EFS[-1]]
    reranked = trial[RERANKED].as_dict()[trial.measure]
    return words + (
        f"A graph (HNSW) loses {lost:.4f} of it at ef {EFS[-1]}: raise ef, search exactly, or "
        f"re-rank the top hundred of raw queries ({reranked:.4f})."
    )


def _shown(gain: dict[str, float]) -> str:
    return f"{gain['difference']:+.4f} ({gain['low']:+.4f} to {gain['high']:+.4f})"

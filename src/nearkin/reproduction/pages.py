"""Results as terminal output, as an HTML page and as Markdown for the documentation."""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nearkin.app import report
from nearkin.io.atomic import atomic_write
from nearkin.reproduction.results import Cell, Result, shown

HEADER = ("what", "method", "paper", "ours, paper's settings", "ours, own settings")
CLAIMS = ("the paper's claim", "here", "evidence")
REASONS = ("method", "why it may differ")


def cells_of(cell: Cell) -> tuple[str, ...]:
    """A row of the table."""
    ours = cell.beside(cell.ours), cell.beside(cell.best)
    return cell.what, cell.method, shown(cell.paper), *ours


def reasons_of(result: Result) -> list[tuple[str, str]]:
    """Why the figures of a method may differ, once for each."""
    return list(dict.fromkeys((c.method, c.reason) for c in result.cells if c.reason))


def claims_of(result: Result) -> list[tuple[str, str, str]]:
    """Rows of the table of claims."""
    return [
        (c.text, c.verdict, c.evidence if c.holds or not c.why else f"{c.evidence}. {c.why}")
        for c in result.claims
    ]


def tally_of(results: Iterable[Result]) -> str:
    """How many of the claims hold."""
    verdicts = [claim.holds for result in results for claim in result.claims]
    return f"Of {len(verdicts)} claims checked, {sum(v is True for v in verdicts)} hold here."


def in_words(results: Iterable[Result]) -> str:
    """Of which items everything holds, in a sentence."""
    checked = [result for result in results if result.claims]
    holds = [r.title.partition(":")[0] for r in checked if all(c.holds for c in r.claims)]
    return f"Every claim of {', '.join(holds)} holds." if holds else ""


def failures(results: Iterable[Result]) -> list[str]:
    """What does not hold, and why; claims that fail for one reason together."""
    reasons: dict[str, list[str]] = {}
    for result in results:
        for claim in result.claims:
            if not claim.holds:
                reasons.setdefault(claim.why, []).append(claim.text)
    return [f"{'; '.join(texts)}. {why}".strip() for why, texts in reasons.items()]


def lines(result: Result) -> Iterable[str]:
    """Lines for the terminal."""
    yield f"\n{result.title} ({result.seconds:.0f} s)"
    if result.cells:
        table = [HEADER, *map(cells_of, result.cells)]
        widths = [max(map(len, column)) for column in zip(*table)]
        for row in table:
            first = [cell.ljust(w) for cell, w in zip(row[:2], widths)]
            yield "  ".join([*first, *(c.rjust(w) for c, w in zip(row[2:], widths[2:]))])
    for claim in result.claims:
        yield f"{claim.verdict:<14} {claim.text}: {claim.evidence}"
    yield from (f"note: {note}" for note in result.notes)
    yield from result.not_run


def write_html(path: Path, results: list[tuple[Any, Result]], about: str) -> None:
    """One self-contained page; `results` pairs modules with their results."""
    parts: list[str] = []
    for module, result in results:
        parts.append(f"<h2>{result.title}</h2>")
        parts += [f"<p class=note>{html.escape(note)}</p>" for note in result.notes]
        if result.cells:
            parts.append(report.table(HEADER, map(cells_of, result.cells)))
            parts.append(_words(REASONS, reasons_of(result)))
        if result.numbers:  # not there where the data is not
            figures = module.plots(result) if hasattr(module, "plots") else {}
            parts.append(report.figures((plot, name) for name, plot in figures.items()))
            parts.append(module.page(result) if hasattr(module, "page") else "")
        if result.claims:
            parts.append(_words(CLAIMS, claims_of(result)))
        parts += [f"<p class=note>{html.escape(text)}</p>" for text in result.not_run]
    found = [result for _, result in results]
    about = f"{tally_of(found)} {in_words(found)} {about}"
    failed = failures(found)
    parts.insert(0, f"<p>What does not hold:</p>{_bullets(failed)}" if failed else "")
    report.write_page(path, "The paper, table by table", about, parts)


def _bullets(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in texts) + "</ul>"


def _words(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of sentences."""
    return f"<div class=words>{report.table(header, rows)}</div>"


def write_markdown(path: Path, results: list[Result], about: str) -> None:
    """The same figures as Markdown, without plots."""
    failed = [f"- {text}" for text in failures(results)]
    text = ["# The paper, table by table", "", f"{tally_of(results)} {in_words(results)}".strip(),
            *(["What does not hold:", "", *failed] if failed else []), "", about, "",
            "Written by `nearkin reproduce all`; do not edit. The paper is Wang et al., *Scalable "
            "Similarity Learning using Large Margin Neighborhood Embedding*. Each module of "
            "`nearkin.reproduction` says what it runs."]  # fmt: skip
    for result in results:
        text += ["", f"## {result.title}", "", *(f"{note}\n" for note in result.notes)]
        if result.cells:
            text += _markdown(HEADER, map(cells_of, result.cells))
            text += ["", *_markdown(REASONS, reasons_of(result))]
        if result.claims:
            text += ["", *_markdown(CLAIMS, claims_of(result))]
        text += ["", *(f"{line}\n" for line in result.not_run)]
    joined = "\n".join(text).rstrip() + "\n"
    while "\n\n\n" in joined:
        joined = joined.replace("\n\n\n", "\n\n")
    with atomic_write(path) as part:
        part.write_text(joined, encoding="utf-8")


def _markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(header)
    return [
        f"| {' | '.join(names)} |",
        "|" + "---|" * len(names),
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows),
    ]

"""What items found, for people: lines on the screen, a page, and a text for the documentation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nearkin import report
from nearkin._files import replacing
from nearkin.experiments.paper.common import Cell, Result, shown

HEADER = ("what", "method", "paper", "ours, paper's settings", "ours, own settings", "difference",
          "why")  # fmt: skip


def cells_of(cell: Cell) -> tuple[str, ...]:
    """A row of the table."""
    gap = cell.difference
    return (cell.what, cell.method, shown(cell.paper), shown(cell.ours), shown(cell.best),
            "–" if gap is None else f"{gap:+.2f}", cell.reason)  # fmt: skip


def lines(result: Result) -> Iterable[str]:
    """For the screen."""
    yield f"\n{result.title} ({result.seconds:.0f} s)"
    if result.cells:
        table = [HEADER[:-1], *(cells_of(cell)[:-1] for cell in result.cells)]
        widths = [max(map(len, column)) for column in zip(*table)]
        for row in table:
            first = [cell.ljust(w) for cell, w in zip(row[:2], widths)]
            yield "  ".join([*first, *(c.rjust(w) for c, w in zip(row[2:], widths[2:]))])
    for claim in result.claims:
        yield f"{claim.verdict:<14} {claim.text}: {claim.evidence}"
    yield from (f"note: {note}" for note in result.notes)
    yield from result.not_run


def write_html(path: Path, results: list[tuple[Any, Result]], about: str) -> None:
    """One page that needs no other file; `results` pairs modules with what they found."""
    parts = []
    for module, result in results:
        parts.append(f"<h2>{result.title}</h2>")
        parts += [f"<p class=note>{_escaped(note)}</p>" for note in result.notes]
        if result.cells:
            parts.append(report.table(HEADER, map(cells_of, result.cells)))
        figures = module.plots(result) if hasattr(module, "plots") else {}
        parts += [report.figure(plot, name) for name, plot in figures.items()]
        if hasattr(module, "page"):
            parts.append(module.page(result))
        if result.claims:
            rows = [(c.text, c.verdict, c.evidence) for c in result.claims]
            parts.append(report.table(("the paper's claim", "here", "evidence"), rows))
        parts += [f"<p class=note>{_escaped(text)}</p>" for text in result.not_run]
    report.write_page(path, "The paper, table by table", about, parts)


def _escaped(text: str) -> str:
    import html

    return html.escape(text)


def write_markdown(path: Path, results: list[Result], about: str) -> None:
    """The same figures as a text; plots are not part of it."""
    text = ["# The paper, table by table", "", about, "",
            "Written by `nearkin reproduce all`; do not edit. The paper is Wang et al., *Scalable "
            "Similarity Learning using Large Margin Neighborhood Embedding*. Each module of "
            "`nearkin.experiments.paper` says what it runs."]  # fmt: skip
    for result in results:
        text += ["", f"## {result.title}", "", *(f"{note}\n" for note in result.notes)]
        if result.cells:
            text += _markdown(HEADER, map(cells_of, result.cells))
        if result.claims:
            claims = ((c.text, c.verdict, c.evidence) for c in result.claims)
            text += ["", *_markdown(("the paper's claim", "here", "evidence"), claims)]
        text += ["", *(f"{line}\n" for line in result.not_run)]
    joined = "\n".join(text).rstrip() + "\n"
    while "\n\n\n" in joined:
        joined = joined.replace("\n\n\n", "\n\n")
    with replacing(path) as part:
        part.write_text(joined, encoding="utf-8")


def _markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(header)
    return [
        f"| {' | '.join(names)} |",
        "|" + "---|" * len(names),
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows),
    ]

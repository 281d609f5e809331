"""Self-contained HTML reports: tables, plots and strips of pictures in one file.

There is no script in a page, and there must be none (SECURITY.md): names and labels of users are
in it. Pictures are enlarged by HTML's own popovers. The style sheet is ``report.css``.
"""

import base64
import html
import io
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.io.atomic import atomic_write

STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8")

# Colours of plots that the style sheet sets, so that they can be told apart in the dark, too.
RAW, LEARNED, GRID = "#8a94a3", "#1f7a4d", "#d5dae1"
_VARIABLES = {RAW: "var(--raw)", LEARNED: "var(--learned)", GRID: "var(--grid)",
              "#000000": "currentColor", "#ffffff": "var(--page)", "#cccccc": "var(--line)"}  # fmt: skip
_WIDE = 8  # inches; a wider plot has several panels, and scrolls where a page is too narrow
_NAME_END = 8  # characters of a file name that are never cut: a number and a suffix


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], best: int | None = None) -> str:
    """An HTML table; row `best` is highlighted."""
    body = "".join(
        f"<tr{' class=best' if i == best else ''}>{_cells('td', row)}</tr>"
        for i, row in enumerate(rows)
    )
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>"
    return f"<div class=table><table>{head}<tbody>{body}</tbody></table></div>"


def _cells(tag: str, row: Sequence[Any]) -> str:
    texts = (cell.html if isinstance(cell, Bar) else _breakable(str(cell)) for cell in row)
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def _breakable(text: str) -> str:
    """Escaped text that may be broken after underscores and slashes, where it is too long."""
    return re.sub("([_/])", r"\1<wbr>", html.escape(text))


class Bar(NamedTuple):
    """A cell of a table that holds HTML instead of text."""

    html: str


def bar(share: float, css: str = "") -> Bar:
    """A share as a bar, followed by its percentage."""
    width = f"<span class='bar {css}'><i style='width:{100 * share:.1f}%'></i></span>"
    return Bar(f"{width}<span class=share>{100 * share:.0f} %</span>")


def cards(numbers: Iterable[tuple[str, str]]) -> str:
    """Headline numbers, each with a caption."""
    texts = ((html.escape(number), html.escape(text)) for number, text in numbers)
    return f"<div class=cards>{''.join(f'<div><b>{n}</b><span>{t}</span></div>' for n, t in texts)}</div>"


def figure(plot: Any, alt: str) -> str:
    """A matplotlib figure as SVG in the page, in the page's colours and font."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        plot.savefig(buffer, format="svg", transparent=True, bbox_inches="tight",
                     metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))  # fmt: skip
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'\s(xmlns(:\w+)?|width|height|version)="[^"]*"', "", drawn, count=5)
    drawn = re.sub(r'<g id="[^"]*"', "<g", drawn)  # the same in each plot
    drawn = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], drawn)
    name = html.escape(alt)
    inches = plot.get_figwidth()
    width = f"--width:{100 * inches:.0f}px" + (
        f";--least:{55 * inches:.0f}px" if inches > _WIDE else ""
    )
    return f'<figure class=plot style="{width}"><div role=img aria-label="{name}">{drawn}</div></figure>'


def figures(drawn: Iterable[tuple[Any, str]]) -> str:
    """Plots with their descriptions, side by side where there is room."""
    return f"<div class=plots>{''.join(figure(plot, alt) for plot, alt in drawn)}</div>"


class Caption(NamedTuple):
    """What stands below a picture: its label, the similarity and the file name if known."""

    label: str
    score: float | None = None
    name: str = ""

    @property
    def text(self) -> str:
        """All of it on one line."""
        score = "" if self.score is None else f"{self.score:.3f}"
        return ", ".join(part for part in (self.label, score, self.name) if part)

    @property
    def html(self) -> str:
        """Labels are broken into lines; names are cut in the middle unless enlarged."""
        parts = [f"<span class=label>{_breakable(self.label)}</span>"] if self.label else []
        if self.score is not None:
            parts.append(f"<span>{self.score:.3f}</span>")
        if self.name:
            begin, end = (html.escape(self.name[part]) for part in (
                slice(-_NAME_END), slice(-_NAME_END, None)))  # fmt: skip
            parts.append(f"<span class=name><i>{begin}</i><i>{end}</i></span>")
        return f"<figcaption>{''.join(parts)}</figcaption>"


def picture(pixels: NDArray[np.uint8], caption: Caption, css: str = "") -> str:
    """Grey (H, W) or colour (H, W, 3) pixels as a captioned image that can be enlarged."""
    from PIL import Image

    buffer = io.BytesIO()
    small = max(pixels.shape[:2]) <= 32  # enlarged without smoothing, unlike photographs
    kind = "png" if small else "jpeg"
    Image.fromarray(pixels).save(buffer, format=kind, quality=80)
    data = base64.b64encode(buffer.getvalue()).decode()
    name = html.escape(caption.text)
    return (
        f'<div class=picture><figure class="{css}" popover id="picture">'
        f'<img{" class=pixels" if small else ""} alt="{name}" src="data:image/{kind};base64,{data}">'
        f'{caption.html}</figure><button type=button popovertarget="picture" title="{name}" '
        f'aria-label="enlarge {name}"></button></div>'
    )


def strip(
    name: str,
    pictures: Iterable[NDArray[np.uint8]],
    right: Iterable[bool | None],
    captions: Iterable[Caption],
) -> str:
    """A row of pictures, each marked right or wrong, or not at all for None."""
    marks = {True: "right", False: "wrong", None: ""}
    tags = (
        picture(p, caption, marks[None if ok is None else bool(ok)])
        for p, ok, caption in zip(pictures, right, captions)
    )
    return f'<div class="strip"><b>{html.escape(name)}</b>{"".join(tags)}</div>'


def query(pixels: NDArray[np.uint8], caption: Caption, strips: str) -> str:
    """A query picture, followed by the strips of its neighbours."""
    return f'<div class="query">{picture(pixels, caption)}<div>{strips}</div></div>'


def _numbered(body: str) -> str:
    """Each picture and its button get an id of their own.

    Escaped text holds no quotes, so no name or label is taken for one.
    """
    places = itertools.count(2)
    return re.sub(
        '(id|popovertarget)="picture"', lambda m: f'{m[1]}="picture-{next(places) // 2}"', body
    )


def write_page(path: str | os.PathLike[str], title: str, note: str, parts: Iterable[str]) -> None:
    """Write the page atomically."""
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p class=note>{html.escape(note)}</p>{_numbered(''.join(parts))}</html>"
    )
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")

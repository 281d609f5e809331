"""Self-contained HTML reports: tables, plots and strips of pictures in one file."""

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.io.atomic import atomic_write

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem 3rem;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.9rem; margin-bottom: .2rem; } h2 { margin: 2.6rem 0 .6rem; font-size: 1.3rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; color: #39424f; }
p.note { color: #5a6472; max-width: 46rem; } table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .9rem; text-align: right; border-bottom: 1px solid #e3e7ec; } th { font-weight: 500; color: #5a6472; font-size: .9rem; }
th:first-child, td:first-child { text-align: left; } tr.best td { font-weight: 600; background: #eef6f0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 14px; margin: 1.6rem 0; }
.cards div { background: #f4f6f8; border-radius: 10px; padding: 1rem 1.1rem; }
.cards b { display: block; font-size: 1.55rem; font-weight: 600; white-space: nowrap; } .cards span { color: #5a6472; font-size: .88rem; line-height: 1.35; display: block; }
.bar { display: inline-block; width: 9rem; height: .7rem; background: #edf0f3; border-radius: 4px; overflow: hidden; margin-right: .6rem; vertical-align: -1px; text-align: left; }
.bar i { display: block; height: 100%; background: #2f9e57; } .bar.wrong i { background: #d6453d; }
.share { display: inline-block; width: 3.2rem; } .yes { color: #2f9e57; } .no { color: #d6453d; }
.query { display: flex; gap: 18px; align-items: center; margin: 1.1rem 0; }
.query > figure, .strip figure { margin: 0; text-align: center; position: relative; }
.query > figure img { width: 104px; height: 104px; border: 3px solid #345; }
.strip { display: flex; align-items: flex-start; gap: 5px; margin: 5px 0; }
.strip b { width: 4.2rem; font-weight: 400; color: #5a6472; font-size: .85rem; align-self: center; }
.strip figure img { width: 68px; height: 68px; border: 3px solid #bbb; }
.strip figure.right img { border-color: #2f9e57; } .strip figure.wrong img { border-color: #d6453d; }
.strip figure::after { position: absolute; right: 0; top: 0; width: 1.15rem; font-size: .8rem; line-height: 1.15rem;
  color: #fff; } .strip figure.right::after { content: "✓"; background: #2f9e57; }
.strip figure.wrong::after { content: "✗"; background: #d6453d; }
.query img { display: block; object-fit: cover; box-sizing: border-box; border-radius: 3px; } img.pixels { image-rendering: pixelated; }
.query figcaption { font-size: .72rem; line-height: 1.25; color: #5a6472; max-width: 104px; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; } .strip figcaption { max-width: 68px; }
figure { margin: 1rem 0; } figure img { max-width: 100%; }
@media (max-width: 40rem) {
  table { display: block; overflow-x: auto; } th, td { padding: .35rem .5rem; } td { white-space: nowrap; } .bar { width: 4.5rem; }
  .query { flex-direction: column; align-items: flex-start; gap: 4px; } .strip { flex-wrap: wrap; } .strip b { width: 100%; }
}
"""


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], best: int | None = None) -> str:
    """An HTML table; row `best` is highlighted."""
    body = "".join(
        f"<tr{' class=best' if i == best else ''}>{_cells('td', row)}</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><tr>{_cells('th', header)}</tr>{body}</table>"


def _cells(tag: str, row: Sequence[Any]) -> str:
    texts = (cell.html if isinstance(cell, Bar) else html.escape(str(cell)) for cell in row)
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


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
    """A matplotlib figure as an image inside the page."""
    buffer = io.BytesIO()
    plot.savefig(buffer, format="png", dpi=130, bbox_inches="tight")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<figure><img alt="{html.escape(alt)}" src="data:image/png;base64,{data}"></figure>'


def picture(pixels: NDArray[np.uint8], title: str = "", css: str = "") -> str:
    """Grey (H, W) or colour (H, W, 3) pixels as a captioned image inside the page."""
    from PIL import Image

    buffer = io.BytesIO()
    small = max(pixels.shape[:2]) <= 32  # enlarged without smoothing, unlike photographs
    kind = "png" if small else "jpeg"
    Image.fromarray(pixels).save(buffer, format=kind, quality=80)
    data = base64.b64encode(buffer.getvalue()).decode()
    name = html.escape(title)
    return (
        f'<figure class="{css}"><img{" class=pixels" if small else ""} alt="{name}" '
        f'title="{name}" src="data:image/{kind};base64,{data}"><figcaption>{name}</figcaption>'
        "</figure>"
    )


def strip(
    name: str,
    pictures: Iterable[NDArray[np.uint8]],
    right: Iterable[bool | None],
    titles: Iterable[str],
) -> str:
    """A row of pictures, each marked right or wrong, or not at all for None."""
    marks = {True: "right", False: "wrong", None: ""}
    tags = (
        picture(p, title, marks[None if ok is None else bool(ok)])
        for p, ok, title in zip(pictures, right, titles)
    )
    return f'<div class="strip"><b>{html.escape(name)}</b>{"".join(tags)}</div>'


def query(pixels: NDArray[np.uint8], title: str, strips: str) -> str:
    """A query picture, followed by the strips of its neighbours."""
    return f'<div class="query">{picture(pixels, title)}<div>{strips}</div></div>'


def write_page(path: str | os.PathLike[str], title: str, note: str, parts: Iterable[str]) -> None:
    """Write the page atomically."""
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8>"
        f"<meta name=viewport content='width=device-width'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p class=note>{html.escape(note)}</p>{''.join(parts)}</html>"
    )
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")

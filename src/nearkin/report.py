"""Self-contained HTML reports: tables, plots and strips of pictures in one file."""

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin._files import replacing

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2.5rem auto; padding: 0 1rem;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { margin-top: 2.4rem; font-size: 1.25rem; }
p.note { color: #5a6472; } table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .9rem; text-align: right; border-bottom: 1px solid #e3e7ec; }
th:first-child, td:first-child { text-align: left; } tr.best td { font-weight: 600; background: #eef6f0; }
.strip { display: flex; align-items: center; gap: 4px; margin: 3px 0; }
.strip b { width: 5rem; font-weight: 400; color: #5a6472; font-size: .85rem; }
.strip img { width: 44px; height: 44px; object-fit: cover; image-rendering: pixelated; border: 3px solid #bbb; }
.strip img.right { border-color: #2f9e57; } .strip img.wrong { border-color: #d6453d; }
.query { display: flex; gap: 14px; align-items: center; margin: 1rem 0; }
.query > img { width: 72px; height: 72px; object-fit: cover; image-rendering: pixelated; border: 3px solid #345; }
figure { margin: 1rem 0; } figure img { max-width: 100%; }
"""


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], best: int | None = None) -> str:
    """An HTML table; row number `best` stands out."""
    body = "".join(
        f"<tr{' class=best' if i == best else ''}>{_cells('td', row)}</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><tr>{_cells('th', header)}</tr>{body}</table>"


def _cells(tag: str, row: Sequence[Any]) -> str:
    return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)


def figure(plot: Any, alt: str) -> str:
    """A matplotlib figure as an image inside the page."""
    buffer = io.BytesIO()
    plot.savefig(buffer, format="png", dpi=130, bbox_inches="tight")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<figure><img alt="{html.escape(alt)}" src="data:image/png;base64,{data}"></figure>'


def picture(pixels: NDArray[np.uint8], css: str = "", title: str = "") -> str:
    """Grey (H, W) or colour (H, W, 3) pixels as an image inside the page."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img class="{css}" title="{html.escape(title)}" src="data:image/png;base64,{data}">'


def strip(
    name: str, pictures: Iterable[NDArray[np.uint8]], right: Iterable[bool], titles: Iterable[str]
) -> str:
    """A row of pictures, each marked right or wrong."""
    tags = (
        picture(p, "right" if ok else "wrong", title)
        for p, ok, title in zip(pictures, right, titles)
    )
    return f'<div class="strip"><b>{html.escape(name)}</b>{"".join(tags)}</div>'


def write_page(path: str | os.PathLike[str], title: str, note: str, parts: Iterable[str]) -> None:
    """Write the page, whole or not at all."""
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p class=note>{html.escape(note)}</p>{''.join(parts)}</html>"
    )
    with replacing(path) as aside:
        aside.write_text(page, encoding="utf-8")

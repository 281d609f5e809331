"""Draw docs/why.svg: handwritten digits, and what raw cosine and the learned similarity find.

``python docs/pictures.py``: the split and the learner of the README's snippet. Of the test rows,
the three that gain most are shown; the line below has the mean over all of them.
"""

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from nearkin import SLNE

SHOWN, FOUND, TILE, GAP = 3, 5, 44, 7
TEXT = "#767676"  # legible on white and on black
SAME, OTHER = "#2a9d5c", "#e0523f"


def main() -> None:
    """Learn, search both ways, draw."""
    X, y = load_digits(return_X_y=True)
    X = normalize(X).astype("float32")
    X, Q, y, truth = train_test_split(X, y, random_state=0)
    learner = SLNE(random_state=0).fit(X, y)
    asked = (Q, learner.transform_query(Q))
    raw, learned = (np.argsort(-q @ X.T, axis=1, kind="stable")[:, :10] for q in asked)
    right = [(y[found] == truth[:, None]) for found in (raw, learned)]
    gain = right[1][:, :FOUND].mean(axis=1) - right[0][:, :FOUND].mean(axis=1)
    queries = np.argsort(-gain, kind="stable")[:SHOWN]
    strips = [
        (Q[q], [(X[found[q, :FOUND]], mark[q]) for found, mark in zip((raw, learned), right)])
        for q in queries
    ]
    svg = _page(strips, [mark.mean() for mark in right])
    (Path(__file__).parent / "why.svg").write_text(svg, encoding="utf-8")


def _page(strips: list, means: list) -> str:
    block = FOUND * (TILE + GAP)
    left = [TILE + 6 * GAP, TILE + 12 * GAP + block]
    heads = [(0, "query"), (left[0], "raw cosine"), (left[1], "learned: the same index, asked xM")]
    parts = [_text(x, 14, text) for x, text in heads]
    for row, (query, found) in enumerate(strips):
        top = 26 + row * (TILE + 2 * GAP)
        parts.append(_tile(query, 0, top, None))
        for x, (rows, marks) in zip(left, found):
            parts += [
                _tile(digit, x + i * (TILE + GAP), top, same)
                for i, (digit, same) in enumerate(zip(rows, marks))
            ]
    bottom = 26 + len(strips) * (TILE + 2 * GAP) + 12
    parts += [
        _text(x, bottom, f"all queries: {mean:.3f} of ten are right".replace("0.", "."))
        for x, mean in zip(left, means)
    ]
    width, height = left[1] + block, bottom + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 0 {width + 8} {height}" '
        f'width="{width + 8}" height="{height}" font-family="system-ui, sans-serif" '
        f'font-size="14" fill="{TEXT}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{text}</text>'


def _tile(pixels: np.ndarray, x: int, y: int, same: bool | None) -> str:
    """A digit; the frame, broken if the class is another one, says whether it is right."""
    file = io.BytesIO()
    paper = 255 * (1 - pixels.reshape(8, 8) / pixels.max())
    image = Image.fromarray(paper.astype("uint8"))
    image.resize((TILE // 2, TILE // 2), Image.Resampling.BICUBIC).save(file, "PNG", optimize=True)
    data = base64.b64encode(file.getvalue()).decode()
    place = f'x="{x}" y="{y}" width="{TILE}" height="{TILE}"'
    frame = "" if same is None else f' stroke="{SAME if same else OTHER}" stroke-width="4"'
    broken = "" if same or same is None else ' stroke-dasharray="6 4"'
    return (
        f'<image {place} href="data:image/png;base64,{data}"/>'
        f'<rect {place} fill="none"{frame}{broken}/>'
    )


if __name__ == "__main__":
    main()

"""The evaluation as one self-contained HTML page."""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin.app import plots, report
from nearkin.app.assessment import neighbors
from nearkin.app.baselines import TITLES as BASELINES
from nearkin.app.labels import match_labels

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN
    from nearkin.images.reading import Source

N_SHOWN = 8
COSINE = BASELINES["cosine"]
HELPED, HARMED, RANDOM = 5, 2, 3  # queries to show
LISTS = {"raw": "before: raw cosine", "learned": "after: learned similarity"}
MARKS = (
    "<span class=yes>✓</span> the same class as the query, <span class=no>✗</span> another. Below "
    "a picture are its class and its similarity to the query."
)
ENLARGE = "A click, or Enter, enlarges a picture; Escape closes it."
WORST_CLASSES = 12


def before_after(before: float, after: float, percent: bool = False) -> str:
    """Two figures with an arrow between them.

    Examples
    --------
    >>> before_after(0.9047, 0.95, percent=True), before_after(0.9047, 0.95)
    ('90.5 → 95.0%', '0.905 → 0.950')
    """
    return f"{100 * before:.1f} → {after:.1%}" if percent else f"{before:.3f} → {after:.3f}"


def write(
    path: Path,
    result: dict[str, Any],
    title: str,
    others: Sequence[dict[str, Any]] = (),
    strips: str = "",
    seconds: float | None = None,
) -> None:
    """Write the page.

    Parameters
    ----------
    result : dict
        From `assessment.assess`.
    others : list of dict
        From `baselines.measure`.
    strips : str
        From `strips_of`.
    seconds : float, optional
        That the model was fitted in, if known.
    """
    note = (
        f"{result['rows']:,} rows that the model has not seen, {result['classes']:,} classes, "
        f"{result['training_rows']:,} rows to learn from. "
        + ("Before is raw cosine: the nearest rows as they were given. After is this model."
           if _has_before(result) else "")
    )  # fmt: skip
    parts = [_cards(result), *_table(result, others, seconds), strips, *retrieval(result),
             *_confusions(result), *_classes(result), *calibration(result)]  # fmt: skip
    report.write_page(path, title, note, parts)


def _has_before(result: dict[str, Any]) -> bool:
    return "top_1_raw" in result


def _cards(result: dict[str, Any]) -> str:
    top_1, precision = f"{result['top_1']:.1%}", f"{result['map_learned']:.3f}"
    before = ""
    if _has_before(result):
        top_1 = before_after(result["top_1_raw"], result["top_1"], percent=True)
        precision = before_after(result["map_raw"], result["map_learned"])
        before = ", before → after"
    cards = [
        (top_1, f"right at the first guess{before}"),
        (precision, f"mean average precision{before}: 1 if the neighbours of the right class come "
                    "first"),
        (f"{result['calibration_error']:.1%}", "calibration error: how far probabilities are, on "
                                               "average, from how often guesses are right"),
    ]  # fmt: skip
    if "top_3" in result:
        cards.insert(1, (f"{result['top_3']:.1%}", "the right class among the first three guesses"))
    return report.cards(cards)


def _table(
    result: dict[str, Any], others: Sequence[dict[str, Any]], seconds: float | None
) -> Iterator[str]:
    yield "<h2>The result</h2>"
    model = ("this model", result["top_1"], result.get("top_3"), result["top_1_mean_per_class"],
             result.get("top_3_mean_per_class"), seconds)  # fmt: skip
    keys = ("name", "top1", "top3", "per_class", "per_class_top3", "seconds")
    rows = [model, *(tuple(other[key] for key in keys) for other in others)]
    if _has_before(result) and COSINE not in (row[0] for row in rows):
        rows.insert(1, (COSINE, result["top_1_raw"], None, None, None, None))
    few = result["classes"] <= 3  # three guesses are always right
    best = int(np.argmax([-1 if row[1] is None else row[1] for row in rows]))
    header = ["method", "top-1 %", "top-3 %", "top-1, mean per class", "top-3, mean per class",
              "seconds to fit"]  # fmt: skip
    shown = [
        (name, *(_percent(None if few and i % 2 else v) for i, v in enumerate(values)),
         "–" if seconds is None else f"{seconds:.2g}" if seconds < 100 else f"{seconds:,.0f}")
        for name, *values, seconds in rows
    ]  # fmt: skip
    yield report.table(header, shown, best)
    yield f"<p class=note>{html.escape(_conditions(result, others))}</p>"


def _conditions(result: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """What the columns are, what the other methods got, and what difference may be chance."""
    less = [f"{o['name']} {o['rows']:,}" for o in others if o["rows"] < result["training_rows"]]
    compared = (
        "The others get the training rows as they were given, and choose their settings by "
        "cross-validation, on a sample where rows are many; so does this model, and the seconds "
        "include it. "
    )
    return (
        "Top-1: the share of rows whose first guess is right; top-3: whose first three guesses "
        "hold the right class. "
        + (compared if others else "")
        + (f"To save time, of the training rows got: {', '.join(less)}. " if less else "")
        + f"A difference of less than {100 * _spread(result):.1f} points may be chance."
    )


def _spread(result: dict[str, Any]) -> float:
    """Two standard errors of the accuracy."""
    p = min(max(result["top_1"], 0.01), 0.99)
    return float(2 * np.sqrt(p * (1 - p) / result["rows"]))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def retrieval(result: dict[str, Any]) -> Iterator[str]:
    """The neighbours: curves, and the precision of short lists."""
    both = "raw" in result["curves"]
    yield f"<h2>Neighbours {'before and after' if both else 'after'} learning</h2>"
    yield report.figures(plots.panels("retrieval", result))
    length = len(result["curves"]["learned"]["recall"])
    yield (
        "<p class=note>Precision: the share of the neighbours looked at that are of the query's "
        "class. Recall: the share of all training rows of that class that are among them. "
    )
    if length < result["training_rows"]:
        yield (
            f"The curves end where the model's list does, at {length:,} of "
            f"{result['training_rows']:,} rows: what lies behind is not searched."
        )
    yield "</p>"
    lengths = [k for key in result for k in re.findall(r"^precision_at_(\d+)_learned$", key)]
    rows = [
        [plots.TITLES[name], *(_percent(result[f"precision_at_{k}_{name}"]) for k in lengths),
         f"{result[f'map_{name}']:.4f}"]
        for name in result["curves"]
    ]  # fmt: skip
    header = ["% of the right class among the first", *lengths, "mean average precision"]
    yield report.table(header, rows)


def _confusions(result: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Most confused classes</h2>"
    if not result["confusions"]:
        yield "<p class=note>None: every row was classified rightly.</p>"
        return
    rows = [
        (c["truth"], c["predicted"], c["count"], report.bar(c["share"], "wrong"))
        for c in result["confusions"]
    ]
    yield report.table(["truth", "taken for", "rows", "share of the class"], rows)


def _classes(result: dict[str, Any]) -> Iterator[str]:
    classes = sorted(result["per_class"], key=lambda c: c["accuracy"])
    if len(classes) < 2:
        return
    some = classes[:WORST_CLASSES]
    yield f"<h2>{'The hardest classes' if len(some) < len(classes) else 'Class by class'}</h2>"
    rows = [(c["class"], c["rows"], report.bar(c["accuracy"])) for c in some]
    yield report.table(["class", "rows", "right at the first guess"], rows)


def calibration(result: dict[str, Any]) -> Iterator[str]:
    """Whether probabilities are what they say."""
    yield "<h2>Can the probabilities be trusted?</h2>"
    yield report.figures(plots.panels("calibration", result))
    yield (
        "<p class=note>On the dotted line guesses with a probability of 80 % are right in 80 % of "
        "the cases. Above it the model is better than it says, below it overconfident. The "
        f"calibration error, {result['calibration_error']:.1%}, is the mean distance of all "
        f"guesses from that line. Hollow dots are of fewer than {plots.FEW_ROWS} rows: chance.</p>"
    )


def strips_of(
    model: "SoftVotingKNN",
    X: ArrayLike,
    y: ArrayLike,
    stored: "Sequence[Source] | None",
    queries: "Sequence[Source] | None",
    fit_raw: Callable[[], "SoftVotingKNN | None"] = lambda: None,
) -> str:
    """Image strips of queries that learning helped, harmed, or that were drawn at random.

    `stored` and `queries` are the image files, or their bytes, of the model's rows and of `X`;
    without them the result is empty. `fit_raw` gives the classifier by raw cosine, if there is one.
    """
    if stored is None or queries is None:
        return ""
    from nearkin.app.strips import Picture, most_changed, strip_html

    raw = fit_raw()
    truth, labels = match_labels(y, model.classes_), model.classes_[model.labels_]
    n = min(N_SHOWN, len(labels), model.shortlist_length)
    found = {LISTS[key]: hits for key, hits in neighbors(model, X, raw, n).items()}
    right = [labels[near] == truth[:, None] for _, near in found.values()]
    before, after = right[0], right[-1]
    helped, harmed = most_changed(before, after, HELPED), most_changed(before, after, -HARMED)
    rest = np.setdiff1d(np.arange(len(truth)), [*helped, *harmed])
    drawn = np.random.default_rng(0).permutation(rest)[:RANDOM]
    parts = [
        "<h2>The most similar images</h2><p class=note>Each image beside its nearest neighbours"
        f"{'' if raw is None else ' by raw cosine, and those'} by the learned similarity, which "
        f"are on scales of their own. {MARKS} {ENLARGE}</p>"
    ]
    for title, chosen in (("Where learning helped most", helped),
                          ("Where it did harm", harmed), ("Drawn at random", drawn)):  # fmt: skip
        parts += [f"<h3>{html.escape(title)}</h3>"] if len(chosen) else []
        parts += [
            strip_html(
                Picture(queries[i], str(truth[i])),
                {
                    name: [
                        Picture(stored[j], str(labels[j]), s) for s, j in zip(scores[i], near[i])
                    ]
                    for name, (scores, near) in found.items()
                },
            )
            for i in chosen
        ]
    return "".join(parts)

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
from nearkin.app.labels import match_labels

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN

N_SHOWN = 8
HELPED, HARMED, RANDOM = 5, 2, 3  # queries to show
WORST_CLASSES = 12


def write(
    path: Path,
    result: dict[str, Any],
    title: str,
    others: Sequence[dict[str, Any]] = (),
    strips: str = "",
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
    """
    note = (
        f"{result['rows']:,} rows that the model has not seen, {result['classes']:,} classes, "
        f"{result['training_rows']:,} rows to learn from"
    )
    parts = [_cards(result), *_table(result, others), strips, *_retrieval(result),
             *_confusions(result), *_classes(result), *_calibration(result)]  # fmt: skip
    report.write_page(path, title, note, parts)


def _cards(result: dict[str, Any]) -> str:
    top_1, precision = f"{result['top_1']:.1%}", f"{result['map_learned']:.3f}"
    before = ""
    if "top_1_raw" in result:
        top_1 = f"{100 * result['top_1_raw']:.1f} → {top_1}"
        precision = f"{result['map_raw']:.3f} → {precision}"
        before = ": raw cosine before, this model after"
    cards = [
        (top_1, f"right at the first guess{before}"),
        (precision, f"mean average precision of the neighbours{before}"),
        (f"{result['calibration_error']:.1%}", "calibration error"),
    ]
    if "top_3" in result:
        cards.insert(1, (f"{result['top_3']:.1%}", "right within three guesses"))
    return report.cards(cards)


def _table(result: dict[str, Any], others: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "<h2>The result</h2>"
    model = ("this model", result["top_1"], result.get("top_3"), result["top_1_mean_per_class"],
             result.get("top_3_mean_per_class"), None)  # fmt: skip
    keys = ("name", "top1", "top3", "per_class", "per_class_top3", "seconds")
    rows = [model, *(tuple(other[key] for key in keys) for other in others)]
    few = result["classes"] <= 3  # three guesses are always right
    best = int(np.argmax([-1 if row[1] is None else row[1] for row in rows]))
    header = ["method", "top-1", "top-3", "top-1, mean per class", "top-3, mean per class", "fit"]
    shown = [
        (name, *(_percent(None if few and i % 2 else v) for i, v in enumerate(values)),
         "" if seconds is None else f"{seconds:.2g} s")
        for name, *values, seconds in rows
    ]  # fmt: skip
    yield report.table(header, shown, best)
    if others:
        yield f"<p class=note>{html.escape(_conditions(result, others))}</p>"


def _conditions(result: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """What the other methods got, and what difference may be chance."""
    less = [f"{o['name']} {o['rows']:,}" for o in others if o["rows"] < result["training_rows"]]
    return (
        "The others get the training rows as they were given, and choose their settings by "
        "cross-validation, on a sample where rows are many. "
        + (f"To save time, of the training rows got: {', '.join(less)}. " if less else "")
        + f"A difference of less than {100 * _spread(result):.1f} points may be chance."
    )


def _spread(result: dict[str, Any]) -> float:
    """Two standard errors of the accuracy."""
    p = min(max(result["top_1"], 0.01), 0.99)
    return float(2 * np.sqrt(p * (1 - p) / result["rows"]))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _retrieval(result: dict[str, Any]) -> Iterator[str]:
    both = "raw" in result["curves"]
    yield f"<h2>Neighbours {'before and after' if both else 'after'} learning</h2>"
    yield report.figure(plots.retrieval(result), "precision against recall")
    lengths = [k for key in result for k in re.findall(r"^precision_at_(\d+)_learned$", key)]
    rows = [
        [plots.TITLES[name], *(_percent(result[f"precision_at_{k}_{name}"]) for k in lengths),
         f"{result[f'map_{name}']:.4f}"]
        for name in result["curves"]
    ]  # fmt: skip
    yield report.table(["neighbours of the right class among the first", *lengths, "mAP"], rows)


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


def _calibration(result: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Can the votes be trusted?</h2>"
    yield report.figure(plots.calibration(result), "calibration")
    yield (
        "<p class=note>On the dotted line a guess with 80 % of the votes is right in 80 % of the "
        "cases. Above it the model is better than it says.</p>"
    )


def strips_of(
    model: "SoftVotingKNN",
    X: ArrayLike,
    y: ArrayLike,
    stored: Sequence[str] | None,
    queries: Sequence[str] | None,
    fit_raw: Callable[[], "SoftVotingKNN | None"] = lambda: None,
) -> str:
    """Image strips of queries that learning helped, harmed, or that were drawn at random.

    `stored` and `queries` name the image files of the model's rows and of `X`; without them the
    result is empty. `fit_raw` gives the classifier by raw cosine, if there is one.
    """
    if stored is None or queries is None:
        return ""
    from nearkin.app.strips import Picture, most_changed, strip_html

    raw = fit_raw()
    truth, labels = match_labels(y, model.classes_), model.classes_[model.labels_]
    n = min(N_SHOWN, len(labels), model.shortlist_length)
    found = {plots.TITLES[key]: near for key, near in neighbors(model, X, raw, n).items()}
    right = [labels[near] == truth[:, None] for near in found.values()]
    before, after = right[0], right[-1]
    helped, harmed = most_changed(before, after, HELPED), most_changed(before, after, -HARMED)
    rest = np.setdiff1d(np.arange(len(truth)), [*helped, *harmed])
    drawn = np.random.default_rng(0).permutation(rest)[:RANDOM]
    parts = [
        "<h2>The most similar images</h2><p class=note>Each image beside its nearest neighbours"
        f"{'' if raw is None else ' by raw cosine, and those'} by the learned similarity. "
        "<span class=yes>✓</span> the same class, <span class=no>✗</span> another.</p>"
    ]
    for title, chosen in (("Where learning helped most", helped),
                          ("Where it did harm", harmed), ("Drawn at random", drawn)):  # fmt: skip
        parts += [f"<h3>{html.escape(title)}</h3>"] if len(chosen) else []
        parts += [
            strip_html(
                Picture(queries[i], str(truth[i])),
                {
                    name: [Picture(stored[j], str(labels[j])) for j in near[i]]
                    for name, near in found.items()
                },
            )
            for i in chosen
        ]
    return "".join(parts)

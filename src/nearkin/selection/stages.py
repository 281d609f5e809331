"""The stages of the search: starts, the best of them on more rows, the learner.

Groups of candidates are tried in turn, each derived from the best of the groups before.
"""

from typing import TYPE_CHECKING, Any

from nearkin.io.progress_bar import track
from nearkin.learning.presets import START, WIDE_START
from nearkin.selection.trial import Candidate

if TYPE_CHECKING:
    from nearkin.selection.search import Search

FINALISTS = 3
FINAL_EPOCHS = 8
FAR_BEHIND = 0.1  # in a score, with the same rows to vote


def best_starts(search: "Search", preprocess: Any) -> tuple[Candidate, list[Candidate]]:
    """The best plain neighbours, and the starts that learn best."""
    if not isinstance(preprocess, str):
        return search.plain(preprocess), [search.learned(preprocess, search.start)]
    starts = search.starts
    show = search.options.verbose == 1
    plain = search.best(search.plain(p) for p in track(starts.plain(), "plain", show=show))
    whitened = search.learned_each((p, search.start) for p in starts.whitened())
    reduced = starts.reduced(search.best(whitened).preprocess)
    others = (*reduced, *starts.unreduced())
    tried = [*whitened, *search.learned_each((p, search.start) for p in others)]
    for group in (starts.powered, starts.within_class, starts.fourier, starts.bandwidths):
        options = track(group(search.best(tried).preprocess), group.__name__, show=show)
        tried += search.learned_each((p, search.start) for p in options)
    best = search.best(tried)
    finalists = sorted(tried, key=lambda candidate: candidate.score, reverse=True)[:FINALISTS]
    return plain, [tried for tried in finalists if search.contends(tried, best)]


def starts_on_more_rows(search: "Search", starts: list[Candidate]) -> list[Candidate]:
    """The best starts on a larger sample, and what more rows may want."""
    starts = search.learned_each((s.preprocess, search.start) for s in starts)
    for derived in (search.starts.widened, search.starts.beside_fourier):
        more = derived(search.best(starts).preprocess)
        starts += search.learned_each((p, search.start) for p in more)
    return starts


def best_learner(search: "Search", starts: list[Candidate]) -> Candidate:
    """The best learner, from the best start."""
    best = search.best(starts)
    for group in search.changes:
        options = [(best.preprocess, best.learner | change) for change in group]  # type: ignore[operator]
        best = search.best([best, *search.learned_each(options)])
    final = search.starts.finer(best.preprocess)
    longer = search.learned(final, best.learner, FINAL_EPOCHS, curve=True)  # type: ignore[arg-type]
    best = search.best([longer, best])  # of equals the one that has its matrices
    if search.rows.shape[1] >= search.kept / 2:  # no rule wins everywhere near the border
        other = START if search.wide else WIDE_START
        last = search.learned(best.preprocess, other, FINAL_EPOCHS, curve=True)
        best = search.best([best, last])
    return best


def with_all_rows(
    search: "Search", whole: "Search", best: Candidate, spaces: list[Any]
) -> tuple[Candidate, list[Any]]:
    """What to learn from all rows, or plain neighbours; and of which of these still contend.

    Plain neighbours gain most from more rows. Where they beat what was learned on the sample
    beyond chance, with all rows to vote, nothing is learned again; where they are far behind that,
    they are out of the running, for with more rows to learn from they would be further behind.
    """
    plain = whole.best(whole.plain(space) for space in spaces)
    learned = search.among_more(best, whole)
    if whole.clearly_ahead(plain, learned):
        return search.plain(plain.preprocess), spaces
    return best, spaces if whole.contends(plain, learned, FAR_BEHIND) else []

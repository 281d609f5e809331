"""Each stored row asked for the others: what it is taken for, and which labels are likely wrong.

Rows that are not too many are judged in parts, each by the model learned again from the others
(`crossfit`). Else leave-one-out: a row's own vote is left out, so that its neighbours decide. The
similarity was learned from these rows, labels included, and the class means hold them: what is
found then is less than what happens to new rows. All rows are visited in random order, so that what
is known after a part of them is a fair sample of the rest.
"""

import heapq
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.serve import crossfit
from nearkin.serve.tasks import BackgroundTask

if TYPE_CHECKING:
    from nearkin.serve.side import Side

BLOCK = 256  # rows of a step
MOST_SUSPECTS = 10_000
ROWS_OF_PAIR = 200  # rows that are kept of each confusion

Judged = tuple[NDArray[np.int32], NDArray[np.float32]]


class Suspect(NamedTuple):
    """A row whose neighbours disagree with its label."""

    margin: float  # by how much another class is more probable than its own
    row: int
    predicted: int
    probability: float  # of the predicted class
    own: float  # of the row's own class


class ReviewTask(BackgroundTask):
    """Confusions and suspects, complete once the task is `finished`.

    `relearned` says whether rows are judged by models that were learned without them.
    """

    def __init__(self, side: "Side", relearned: bool | None = None) -> None:
        super().__init__()
        self.side, self.examined, self.wrong = side, 0, 0
        self.relearned = crossfit.worthwhile(side.model) if relearned is None else relearned
        self._suspects: list[Suspect] = []  # a heap: the least suspicious first
        self._pairs: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[int, int], list[Suspect]] = {}
        self._results = threading.Lock()

    def steps(self) -> Iterator[float]:
        """Examine all rows, a block at a time."""
        n = self.side.n_rows
        yield 0.0
        for rows, p in self._relearned() if self.relearned else self._left_out():
            self._add(rows, p)
            yield self.examined / n

    def _left_out(self) -> Iterator[Judged]:
        """Rows and their probabilities without their own vote."""
        side = self.side
        order = np.random.default_rng(0).permutation(side.n_rows).astype(np.int32)
        for rows in _blocks(order):
            found = side.without_own(side.near_stored(rows), rows)
            yield rows, side.inner.predict_proba(found.queries, found.indices)

    def _relearned(self) -> Iterator[Judged]:
        """Rows and their probabilities by models that have not seen them."""
        model, parts = self.side.model, crossfit.folds(self.side.model.labels_)
        for part in range(crossfit.FOLDS):
            held = parts == part
            again = crossfit.without(model, held, self.side.shortlist)
            for rows in _blocks(np.flatnonzero(held).astype(np.int32)):
                yield rows, crossfit.judged(again, model.database_[rows], len(model.classes_))

    def _add(self, rows: NDArray[np.int32], p: NDArray[np.float32]) -> None:
        best, own = p.argmax(axis=1), self.side.model.labels_[rows]
        chosen = np.arange(len(rows))
        of_best, of_own = p[chosen, best].astype(float), p[chosen, own].astype(float)
        with self._results:
            for i in np.flatnonzero(best != own).tolist():
                margin = of_best[i] - of_own[i]
                one = Suspect(margin, int(rows[i]), int(best[i]), of_best[i], of_own[i])
                self._keep((int(own[i]), int(best[i])), one)
            self.examined += len(rows)

    def _keep(self, pair: tuple[int, int], one: Suspect) -> None:
        self.wrong += 1
        self._pairs[pair] = self._pairs.get(pair, 0) + 1
        for heap, most in ((self._suspects, MOST_SUSPECTS),
                           (self._rows.setdefault(pair, []), ROWS_OF_PAIR)):  # fmt: skip
            (heapq.heappush if len(heap) < most else heapq.heappushpop)(heap, one)

    def suspects(self, label: int | None = None) -> list[Suspect]:
        """Rows whose label is likely wrong, the likeliest first; of one class, or of all."""
        with self._results:
            known = list(self._suspects)
        labels = self.side.model.labels_
        chosen = known if label is None else [one for one in known if labels[one.row] == label]
        return sorted(chosen, reverse=True)

    def confusions(self) -> list[tuple[tuple[int, int], int]]:
        """Pairs of own and predicted class, the most frequent first."""
        with self._results:
            return sorted(self._pairs.items(), key=lambda item: (-item[1], item[0]))

    def confused(self, pair: tuple[int, int]) -> list[Suspect]:
        """Rows of one class that are taken for another, the clearest first."""
        with self._results:
            return sorted(self._rows.get(pair, []), reverse=True)

    def progress(self) -> dict[str, Any]:
        """How far it is, and what it has seen."""
        seen = {"rows": self.side.n_rows, "examined": self.examined, "wrong": self.wrong}
        return super().progress() | seen | {"relearned": self.relearned}


def _blocks(rows: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for lo in range(0, len(rows), BLOCK):
        yield rows[lo : lo + BLOCK]

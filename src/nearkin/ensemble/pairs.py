"""An ensemble that learns from judgements: each round anew, impostors searched under its sum."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.pair_choice import HeldOutQueries, choose
from nearkin.learning.pair_search import impostors, search_visited
from nearkin.learning.pairs import PairData, Visits, identity, stacked
from nearkin.neighbors.index import NeighborIndex

Array = NDArray[np.float32]

ROUNDS = 2


@dataclass
class EnsembleRounds:
    """Rounds of an ensemble, as `learning.pair_choice` judges them."""

    data: PairData
    database: NeighborIndex  # of the documents
    ensemble: Any  # an SLDE that takes rows as they are
    seed: int
    weights: Array | None = None  # one a query

    def __post_init__(self) -> None:
        self.visits = Visits.of(self.data.judged)
        self.rows = stacked(self.data.queries[self.visits.query], self.data.documents)
        self.learned: Array = identity(self.data)
        self.rounds = 0

    def round(self) -> None:
        """Learn every member again; `members_` and the rest are those of the last round."""
        n = len(self.data.documents)
        k = min(self.ensemble.n_neighbors, n)
        near = None
        if not self.data.closed:
            near = search_visited(self.database, self.data.queries, self.visits, self.learned, k)
        others = impostors(near, self.data, [self.seed, self.rounds])
        hoods = self.visits.neighborhoods(others, n)
        labels = np.arange(len(self.rows)) % 2  # the graph alone says what is of a kind
        self.ensemble.fit(self.rows, labels, neighbors=hoods, sample_weight=self._row_weights())
        self.learned, self.rounds = self.ensemble.matrix_, self.rounds + 1

    def _row_weights(self) -> Array | None:
        """Of visits, and of documents, which take no steps."""
        if self.weights is None:
            return None
        own = self.weights[self.visits.query]
        mean = np.full(len(self.data.documents), own.mean(), np.float32)
        return np.concatenate([own, mean])


def fit_rounds(model: Any, data: PairData, weights: Array | None, seed: int) -> None:
    """Choose the number of rounds on held-out queries, take them, and leave the result in `model`.

    `model` is an SLDE; the ensembles of the rounds are copies that take rows as they are.
    """

    def made(data: PairData, database: NeighborIndex) -> EnsembleRounds:
        ensemble = model.unprepared().set_params(random_state=seed)
        return EnsembleRounds(data, database, ensemble, seed)

    held = HeldOutQueries(data, model.index, seed)
    choice = choose(held, lambda some, *_: made(some, held.database), (1.0,), ROUNDS, start=False)
    final = made(data, NeighborIndex(data.documents, model.index, metric="dot"))
    final.weights = weights
    while final.rounds < choice.rounds:
        final.round()
    fitted = {k: v for k, v in vars(final.ensemble).items() if k.endswith("_")}
    none: dict[str, Any] = {"members_": [], "projections_": [], "weights_": []}
    kept = {"unit_length_": model.unit_length_, "fingerprint_": model.fingerprint_}
    result = {"matrix_": final.learned, "preparation_": None}
    vars(model).update(none | fitted | kept | result)
    model.pair_choice_ = choice._asdict()

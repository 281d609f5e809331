"""An ensemble that learns from judgements: each round anew, impostors searched under its sum."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.pair_choice import choose_rounds
from nearkin.learning.pair_search import impostors, search_visited
from nearkin.learning.pairs import Judgements, Visits, stacked
from nearkin.neighbors.index import NeighborIndex

Array = NDArray[np.float32]

ROUNDS = 2


@dataclass
class EnsembleRounds:
    """Rounds of an ensemble, as `learning.pair_choice` judges them."""

    queries: Array
    documents: Array
    judged: Judgements
    ensemble: Any  # an SLDE that takes rows as they are
    seed: int

    def __post_init__(self) -> None:
        self.visits = Visits.of(self.judged)
        self.rows = stacked(self.queries[self.visits.query], self.documents)
        self.learned: Array = np.eye(self.rows.shape[1], dtype=np.float32)
        self.database = NeighborIndex(self.documents, self.ensemble.index, metric="dot")
        self.rounds = 0

    def round(self) -> None:
        """Learn every member again; `members_` and the rest are those of the last round."""
        k = min(self.ensemble.n_neighbors, len(self.documents))
        near = search_visited(self.database, self.queries, self.visits, self.learned, k)
        others = impostors(near, len(self.documents), [self.seed, self.rounds])
        hoods = self.visits.neighborhoods(others, len(self.documents))
        labels = np.arange(len(self.rows)) % 2  # the graph alone says what is of a kind
        self.ensemble.fit(self.rows, labels, neighbors=hoods)
        self.learned, self.rounds = self.ensemble.matrix_, self.rounds + 1


def fit_rounds(model: Any, queries: Array, documents: Array, judged: Judgements, seed: int) -> None:
    """Choose the number of rounds on held-out queries, take them, and leave the result in `model`.

    `model` is an SLDE; the ensembles of the rounds are copies that take rows as they are.
    """

    def make(queries: Array, documents: Array, judged: Judgements, _: float) -> EnsembleRounds:
        ensemble = model.unprepared().set_params(random_state=seed)
        return EnsembleRounds(queries, documents, judged, ensemble, seed)

    choice = choose_rounds(queries, documents, judged, make, (1.0,), ROUNDS, seed)
    final = make(queries, documents, judged, 1.0)
    while final.rounds < choice.rounds:
        final.round()
    fitted = {k: v for k, v in vars(final.ensemble).items() if k.endswith("_")}
    none: dict[str, Any] = {"members_": [], "projections_": [], "weights_": []}
    vars(model).update(none | fitted | {"matrix_": final.learned, "preparation_": None})
    model.pair_choice_ = choice._asdict()

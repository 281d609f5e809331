"""The methods of the paper and its relatives, ready for `nearkin.app.comparison.compare`.

    outcomes = compare(METHODS, X, y, queries, truth)

Rows of unit length are expected, as in the paper. Each method selects its settings on held-out
training rows, within the seconds reported:

==========  ====================================================================================
Linear SVM  C
Retrieval   the vote, as for all that follow
LMNN        when to stop; three targets, μ = ½, at most 10,000 rows
NCM         step size, rank, when to stop
kNN metric  the same; three dynamic targets
OASIS       C, when to stop
SL-NE       the best of `CANDIDATES`: rule, neighbours, step size, temperature, epochs
SL-DE       three or ten blocks of principal directions, and three of `CANDIDATES`
==========  ====================================================================================
"""

from typing import Any

from sklearn.model_selection import GridSearchCV

from nearkin.app.comparison import Factory
from nearkin.classifier import SoftVotingKNN
from nearkin.learning.presets import CANDIDATES
from nearkin.reproduction.baselines import LMNN, NCM, OASIS, KNNMetric
from nearkin.reproduction.hold_out import select
from nearkin.reproduction.linear_svms import linear_svm
from nearkin.slde import SLDE
from nearkin.slne import SLNE

VOTERS = 100


def _learner(settings: dict[str, Any]) -> SLNE:
    return SLNE.paper(**settings, tol=0)


def _voting(similarity: Any, seed: int) -> SoftVotingKNN:
    return SoftVotingKNN(similarity, n_neighbors=VOTERS, random_state=seed)


def _slne(seed: int) -> GridSearchCV:
    return select(_voting(None, seed), {"similarity": [_learner(s) for s in CANDIDATES]}, seed)


def _slde(seed: int) -> GridSearchCV:
    ensembles = [
        SLDE.paper(_learner(CANDIDATES[i]), n_members=n) for n in (3, 10) for i in (0, 3, 4)
    ]
    return select(_voting(None, seed), {"similarity": ensembles}, seed)


METHODS: dict[str, Factory] = {
    "Linear SVM": linear_svm,
    "Retrieval": lambda seed: _voting(None, seed),
    "LMNN": lambda seed: _voting(LMNN(max_rows=10_000, early_stopping=True), seed),
    "NCM": lambda seed: NCM(random_state=seed),
    "kNN metric": lambda seed: _voting(KNNMetric(), seed),
    "OASIS": lambda seed: _voting(OASIS(), seed),
    "SL-NE": _slne,
    "SL-DE": _slde,
}

"""Linear SVMs, one class against all others, with settings selected on held-out rows."""

from typing import Literal

from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from nearkin.reproduction.hold_out import select

COSTS = [0.1, 1.0, 10.0, 100.0]
ALPHAS = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3]


def linear_svm(seed: int, dual: bool | Literal["auto"] = "auto") -> GridSearchCV:
    """A linear SVM, one class against all others.

    With and without `dual` the optimum is the same; the dual is found ten times as fast where
    columns are about as many as rows.
    """
    return select(LinearSVC(dual=dual, random_state=seed), {"C": COSTS}, seed)


def sgd_svm(seed: int) -> GridSearchCV:
    """A linear SVM by averaged SGD, for data that liblinear's float64 copy would not fit."""
    sgd = SGDClassifier(average=True, max_iter=5, tol=None, n_jobs=-1, random_state=seed)
    return select(sgd, {"alpha": ALPHAS}, seed)

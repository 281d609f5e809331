"""Linear SVMs, one class against all others, with settings selected on held-out rows."""

from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from nearkin.reproduction.hold_out import select

COSTS = [0.1, 1.0, 10.0, 100.0]
ALPHAS = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3]


def linear_svm(seed: int) -> GridSearchCV:
    """A linear SVM, one class against all others."""
    return select(LinearSVC(random_state=seed), {"C": COSTS}, seed)


def sgd_svm(seed: int) -> GridSearchCV:
    """A linear SVM by averaged SGD, for data that liblinear's float64 copy would not fit."""
    sgd = SGDClassifier(average=True, max_iter=5, tol=None, n_jobs=-1, random_state=seed)
    return select(sgd, {"alpha": ALPHAS}, seed)

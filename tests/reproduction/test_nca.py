import numpy as np
import pytest
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import SoftVotingKNN
from nearkin.reproduction.baselines import NCA
from samples import blobs


@parametrize_with_checks([NCA(max_iter=10)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_is_scikit_learns_on_rows_of_mean_length_one():
    X, y = blobs(n=200, dims=6)
    model = NCA(3, max_iter=15).fit(7 * X, y)
    theirs = NeighborhoodComponentsAnalysis(3, max_iter=15, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.transform(7 * X), theirs.transform(X), rtol=0.05, atol=0.05)
    L = model.components_
    np.testing.assert_allclose(model.matrix_, L.T @ L, rtol=1e-4, atol=1e-6)


def test_votes_and_is_saved(tmp_path):
    X, y = blobs(n=700, dims=12, spread=1.0)
    learned = SoftVotingKNN(NCA(), random_state=0).fit(X[:400], y[:400])
    plain = SoftVotingKNN(random_state=0).fit(X[:400], y[:400])
    assert learned.score(X[400:], y[400:]) > plain.score(X[400:], y[400:]) + 0.02
    learned.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), learned.predict(X))


def test_row_limit_is_kept_and_said():
    X, y = blobs(n=300)
    with pytest.warns(UserWarning, match="X has 300 rows, but max_rows=120"):
        model = NCA(max_rows=120, max_iter=3, random_state=0).fit(X, y)
    assert model.n_rows_ == 120


@pytest.mark.parametrize("settings", [{"n_components": 0}, {"max_iter": 0}, {"max_rows": 0}])
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        NCA(**settings).fit(*blobs(n=30))


@pytest.mark.parametrize("name", ["n_components", "max_iter", "max_rows"])
def test_counts_are_whole(name):
    with pytest.raises(ValueError, match=rf"{name}=2\.5 must be a whole number"):
        NCA(**{name: 2.5}).fit(*blobs(n=30))

"""The codebook as an estimator."""

import faiss
import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from nearkin.images import Codebook


def rows(n=600, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 10))


def test_is_an_estimator():
    check_estimator(Codebook(n_words=3, n_neighbors=2))


def test_words_are_the_means_of_their_descriptors():
    X = rows()
    words = Codebook(n_words=6).fit(X).words_
    assert words.dtype == np.float32
    nearest = np.linalg.norm(X[:, None] - words, axis=2).argmin(axis=1)
    means = np.array([X[nearest == word].mean(axis=0) for word in range(6)])
    # k-means stops after some rounds, close to where it would settle.
    assert np.linalg.norm(words - means) < 0.1 * np.linalg.norm(means)


def test_same_seed_same_words_for_any_number_of_threads():
    X = rows()
    before = faiss.omp_get_max_threads()
    found = []
    try:
        for threads in (1, 2, 2):
            faiss.omp_set_num_threads(threads)
            found.append(Codebook(n_words=40, random_state=3).fit(X).words_)
    finally:
        faiss.omp_set_num_threads(before)
    assert (found[0] == found[1]).all()
    assert (found[1] == found[2]).all()
    assert not np.array_equal(Codebook(n_words=40, random_state=4).fit(X).words_, found[0])


def test_codes_are_sparse_rows_that_sum_to_one():
    X = rows()
    codes = Codebook(n_words=30).fit(X).transform(X)
    assert codes.shape == (600, 30)
    assert (np.diff(codes.indptr) == 5).all()
    np.testing.assert_allclose(codes.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_words": 0}, "n_words=0"),
        ({"n_words": 601}, r"n_words=601 needs at least as many descriptors, got n_samples=600"),
        ({"n_words": 8, "n_neighbors": 9}, "n_neighbors=9"),
        ({"n_words": 8, "n_neighbors": 0}, "n_neighbors=0"),
        ({"n_words": 8.5}, r"n_words=8\.5 must be a whole number"),
        ({"n_words": 8, "n_neighbors": 2.5}, r"n_neighbors=2\.5 must be a whole number"),
        ({"n_words": 8, "beta": 0}, "beta=0"),
        ({"n_words": 8, "beta": "a"}, "beta='a' must be a number"),
        ({"n_words": 8, "beta": float("nan")}, "beta=nan"),
    ],
)
def test_bad_settings(params, message):
    with pytest.raises(ValueError, match=message):
        Codebook(**params).fit(rows())


def test_what_is_changed_after_a_fit_is_checked():
    rows = np.eye(8, dtype=np.float32)
    codebook = Codebook(4, 2).fit(rows).set_params(n_neighbors=5)
    with pytest.raises(ValueError, match="n_neighbors=5 must be at most 4, the number of words"):
        codebook.transform(rows)


def test_rows_whose_squares_are_beyond_float32():
    with pytest.raises(ValueError, match=r"largest number is 1.0e\+30.*divide X by it"):
        Codebook(4, 2).fit(np.full((8, 3), 1e30))
    codebook = Codebook(4, 2).fit(np.eye(8))
    with pytest.raises(ValueError, match="divide X by it"):
        codebook.transform(np.full((2, 8), 1e30))

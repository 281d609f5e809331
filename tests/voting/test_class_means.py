import numpy as np
import pytest

from nearkin.preprocessing import pca
from nearkin.voting.class_means import class_means


def naive(rows, labels, n_classes):
    means = np.zeros((n_classes, rows.shape[1]))
    for c in range(n_classes):
        if (labels == c).any():
            mean = rows[labels == c].astype(float).mean(axis=0)
            means[c] = mean / (np.linalg.norm(mean) or 1)
    return means


@pytest.mark.parametrize("block", [1, 7, 100, 1_000])
def test_means_of_unit_length_whatever_the_blocks(monkeypatch, block):
    monkeypatch.setattr(pca, "BLOCK_BYTES", 4 * 5 * block)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(100, 5)).astype(np.float32), rng.integers(0, 6, 100)
    found = class_means(rows, labels, 6)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, naive(rows, labels, 6), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_a_class_without_rows_has_a_zero_mean():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 3)).astype(np.float32)
    labels = np.repeat([1, 3], 10)  # neither the first class, nor one between, nor the last
    found = class_means(rows, labels, 5)
    assert not found[[0, 2, 4]].any()
    np.testing.assert_allclose(found, naive(rows, labels, 5), atol=1e-6)


def test_rows_that_cancel_have_a_zero_mean():
    rows = np.array([[1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]], np.float32)
    found = class_means(rows, np.array([0, 0, 1]), 2)
    np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8]], atol=1e-7)


def test_rows_of_a_memory_map(tmp_path, monkeypatch):
    monkeypatch.setattr(pca, "BLOCK_BYTES", 4 * 4 * 16)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(50, 4)).astype(np.float32), rng.integers(0, 3, 50)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(class_means(mapped, labels, 3), class_means(rows, labels, 3))

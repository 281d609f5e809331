"""The order of cells against a naive tour."""

import numpy as np
import pytest

from nearkin.neighbors.kmeans import in_tour


@pytest.mark.parametrize(
    ("n", "dims", "scale"), [(1, 3, 1), (60, 2, 1), (90, 30, 1), (20, 3, 1e19)]
)
def test_each_is_followed_by_the_nearest_that_is_left(n, dims, scale):
    points = (scale * np.random.default_rng(0).normal(size=(n, dims))).astype(np.float32)
    left = [tuple(point) for point in points.astype(float)]
    tour = [left.pop(0)]
    while left:
        left.sort(key=lambda point: np.linalg.norm(np.subtract(point, tour[-1])))
        tour.append(left.pop(0))
    found = in_tour(points)
    if scale == 1:
        np.testing.assert_allclose(found, tour, rtol=1e-6)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(points, axis=0))

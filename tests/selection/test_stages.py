"""The stages of the search."""

import numpy as np
import pytest

from nearkin import Preprocess, Selection
from nearkin.learning.presets import START
from nearkin.selection import automatic, stages
from samples import blobs


@pytest.mark.parametrize("seed", range(3))
def test_directions_are_followed_as_long_as_they_gain(seed):
    X, y = blobs(n=200, dims=6, spread=1.0, seed=seed)
    search = automatic.draw_search(X, y, None, Selection(), 0, False, [], np.inf, 200)
    preprocess = Preprocess(6, random_state=0)
    start = search.learned(preprocess, START | {"n_neighbors": 5, "step_size": 0.05})
    directions = [
        [{"step_size": step} for step in steps]
        for steps in ((0.01, 0.001), (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4), ())
    ] + [[{"n_neighbors": k} for k in (10, 20, 40)]]
    expected = []
    for direction in directions:
        last = start
        for change in direction:
            new = search.learned(preprocess, start.learner | change)
            expected.append(new)
            if new.score <= last.score:
                break
            last = new
    directions = tuple(tuple(direction) for direction in directions if direction)
    found = stages._followed(search, start, directions)
    lengths = [sum(len(direction) for direction in directions), len(directions)]
    assert lengths[1] < len(found) < lengths[0]  # some are followed, not all to their ends
    for candidates in (found, expected):
        candidates.sort(key=lambda candidate: repr(candidate.learner))
    assert [repr(c.learner) for c in found] == [repr(c.learner) for c in expected]
    np.testing.assert_allclose([c.score for c in found], [c.score for c in expected], rtol=1e-5)

"""Each rule against its naive form, on scores of any kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from nearkin.learning.sampling import MAX_PAIRS, RULES, apply_rule

# Of so few digits that differences are exact in single precision, too; equal ones are frequent.
few_digits = st.integers(-2_048, 2_048).map(lambda n: n / 1_024)
scores = st.lists(few_digits, min_size=1, max_size=40)


@pytest.mark.parametrize("rule", RULES)
@given(scores, scores, few_digits.map(abs), st.floats(0, 1, exclude_max=True))
@settings(deadline=None)
def test_rule(rule, targets, impostors, margin, u):
    targets, impostors = np.array(targets, np.float32), np.array(impostors, np.float32)
    together = np.concatenate([targets, impostors])
    c = np.empty(len(together), np.float32)
    parameter = 0.3 if rule == "softmax" else margin
    function = RULES[rule]().function()
    loss = apply_rule(function, together, np.int32(len(targets)), parameter, u, c)
    ct, ci, expected = oracle.weights(
        rule, targets.astype(float), impostors.astype(float), margin, 0.3, u
    )
    assert loss == pytest.approx(expected, abs=1e-5)
    assert c.sum() == pytest.approx(0, abs=1e-5)  # a step never moves a row's scores as a whole
    if rule != "uniform":  # equal scores may be told apart in either order
        np.testing.assert_allclose(c, np.concatenate([ct, ci]), atol=1e-5)
    assert (c[: len(targets)] >= -1e-6).all()
    assert (c[len(targets) :] <= 1e-6).all()


def test_all_pairs_of_a_hub():
    rng = np.random.default_rng(0)
    together = rng.integers(-500, 500, 2_100).astype(np.float32) / 256  # with equal ones
    c = np.zeros(2_100, np.float32)
    loss = apply_rule(RULES["all"]().function(), together, np.int32(900), 0.25, 0.0, c)
    assert MAX_PAIRS < 900 * 1_200
    ct, ci, expected = oracle.weights("all", *np.split(together.astype(float), [900]), 0.25, 1, 0)
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(c, np.concatenate([ct, ci]), rtol=1e-5)


def test_uniform_draws_every_violating_pair_equally_often():
    together = np.array([0.5, 0.1, 0.4, 0.0, 0.3], np.float32)  # two targets, three impostors
    seen = {}
    for u in np.linspace(0, 1, 4_000, endpoint=False):
        c = np.empty(5, np.float32)
        apply_rule(RULES["uniform"]().function(), together, np.int32(2), 0.05, u, c)
        seen[int(c.argmax()), int(c.argmin())] = seen.get((int(c.argmax()), int(c.argmin())), 0) + 1
    assert set(seen) == {(1, 2), (1, 4)}
    assert max(seen.values()) - min(seen.values()) <= 2

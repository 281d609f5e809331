"""Compare a fit with Algorithm 1 written naively."""

import numpy as np

import oracle
from nearkin.learning.sampling import RULES
from samples import slne


def schedule(seed, epochs, n, order="random", random=False):
    """Repeat the orders and random numbers of SLNE's epochs."""
    orders, draws = [], []
    for epoch in range(epochs):
        rng = np.random.default_rng([seed, epoch])
        orders.append(rng.permutation(n) if order == "random" else np.arange(n))
        draws.append(rng.random(n) if random else np.zeros(n))
    return orders, draws


def agree(X, y, lists, epochs=2, order="random", random_state=0, quantize=False, compared=None,
          **settings):  # fmt: skip
    model = slne(max_epochs=epochs, tol=0, order=order, random_state=random_state,
                 quantize=quantize, **settings)  # fmt: skip
    model.fit(X, y, neighbors=lists)
    seed = np.random.RandomState(random_state).randint(np.iinfo(np.int32).max)
    random = RULES[settings.get("rule", "hardest")].random
    orders, draws = schedule(seed, epochs, len(X), order, random)
    M, losses = oracle.algorithm_1(
        X, y, lists, epochs=epochs, orders=orders, draws=draws, compared=compared, **settings
    )
    assert np.linalg.norm(model.matrix_ - M) <= 1e-4 * np.linalg.norm(M)
    np.testing.assert_allclose([h["loss"] for h in model.history_], losses, rtol=1e-3, atol=1e-6)
    return model

"""The paper's formulas in plain numpy, one row at a time: what the fast forms must equal."""

import numpy as np


def symmetrised(lists):
    """j is a neighbour of i if j ∈ N_i or i ∈ N_j."""
    near = [set() for _ in lists]
    for i, row in enumerate(lists):
        for j in row:
            if j >= 0 and j != i:
                near[i].add(int(j))
                near[int(j)].add(i)
    return [sorted(s) for s in near]


def split(near, labels):
    return [
        ([j for j in row if labels[j] == labels[i]], [j for j in row if labels[j] != labels[i]])
        for i, row in enumerate(near)
    ]


def weights(rule, targets, impostors, margin, temperature, u):
    """Weights on targets and impostors, and the loss, from their scores."""
    ct, ci = np.zeros(len(targets)), np.zeros(len(impostors))
    hinge = margin - targets[:, None] + impostors[None, :]
    if rule == "softmax":
        p_t = np.exp((targets - targets.max()) / temperature)
        everyone = np.concatenate([targets, impostors])
        p_a = np.exp((everyone - everyone.max()) / temperature)
        p_a /= p_a.sum()
        share = p_a[: len(targets)].sum()
        return p_t / p_t.sum() - p_a[: len(ct)], -p_a[len(ct) :], -temperature * np.log(share)
    if rule == "all":
        ct, ci = (hinge > 0).sum(axis=1) / hinge.size, -(hinge > 0).sum(axis=0) / hinge.size
        return ct, ci, np.maximum(hinge, 0).mean()
    if rule == "all_and_hardest":
        parts = [weights(r, targets, impostors, margin, 0, 0) for r in ("all", "hardest")]
        return tuple(a + 0.05 * h for a, h in zip(*parts))
    if rule == "uniform":
        falling = np.argsort(-impostors, kind="stable")
        pairs = [(j, m) for j in range(len(targets)) for m in falling if hinge[j, m] > 0]
        if not pairs:
            return ct, ci, 0.0
        j, m = pairs[int(u * len(pairs))]
    else:
        j = {"hardest": targets.argmin(), "random_target": int(u * len(targets))}[rule]
        m = impostors.argmax()
    if hinge[j, m] > 0:
        ct[j], ci[m] = 1, -1
    return ct, ci, max(hinge[j, m], 0.0)


def algorithm_1(
    X,
    labels,
    lists,
    *,
    rule="hardest",
    margin=0.02,
    step_size=0.2,
    temperature=0.1,
    epochs=1,
    orders=None,
    draws=None,
    symmetric=False,
    normalize=False,
    compared=None,
    few=16,
    every=None,
    iterates=None,
):
    """Algorithm 1, literally.

    `compared`: other rows for the scores, and for steps along more than `few` rows. `iterates`: a
    list that takes M after each `every` steps, and at the end of an epoch.
    """
    n, D = X.shape
    Z = X if compared is None else compared
    X, M, t = X.astype(np.float64), np.eye(D), 1
    kept = np.linalg.norm(M)
    hoods = split(symmetrised(lists), labels)
    losses = []
    for epoch in range(epochs):
        order = np.arange(n) if orders is None else orders[epoch]
        seen, loss = 0, 0.0
        for place, i in enumerate(order):
            rho = step_size / np.sqrt((t - 1) / n + 1)
            t += 1
            targets, impostors = hoods[i]
            if not targets or not impostors:
                continue
            seen += 1
            u = 0.0 if draws is None else draws[epoch][place]
            ct, ci, lost = weights(
                rule, Z[targets] @ (X[i] @ M), Z[impostors] @ (X[i] @ M), margin, temperature, u
            )
            loss += lost
            R = Z if np.count_nonzero(ct) + np.count_nonzero(ci) > few else X
            M = M + rho * np.outer(X[i], ct @ R[targets] + ci @ R[impostors])
            if symmetric:
                M = (M + M.T) / 2
            if normalize:
                M = M * (kept / np.linalg.norm(M))
            if every and seen % every == 0:
                iterates.append(M)
        if every and seen % every:
            iterates.append(M)
        losses.append(loss / max(seen, 1))
    return M, losses


def objective(M, X, labels, lists, margin):
    """Eq. 6, a sum over all triplets."""
    X = X.astype(np.float64)
    total = 0.0
    for i, (targets, impostors) in enumerate(split(symmetrised(lists), labels)):
        for j in targets:
            for m in impostors:
                total += max(0.0, margin - X[i] @ M @ X[j] + X[i] @ M @ X[m])
    return total


def numeric_gradient(function, W, nudge=1e-5):
    """Central differences of a function of a matrix."""
    gradient = np.zeros_like(W, dtype=float)
    for cell in np.ndindex(W.shape):
        step = np.zeros_like(gradient)
        step[cell] = nudge
        gradient[cell] = (function(W + step) - function(W - step)) / (2 * nudge)
    return gradient

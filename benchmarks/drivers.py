"""Why Algorithm 1 has two drivers, two matrix products and two thread runtimes.

Command: ``python benchmarks/drivers.py`` (about four minutes on two idle cores).

Each table runs the same rows through the specialised path and the general one, in turns, best of
the rounds. "blocks" is the driver for all constraints on M, "pipelined" the one that computes
matrix products while rows are visited; "packed" are the products of `native.gemm`, "BLAS" those of
`native.blas`; "team" are threads that share each row and meet at barriers, "one thread" the same
without.
"""

import argparse
import time

import numpy as np

import machine
from learner import clustered, learner, one_run
from nearkin.learning import blocks as learning_blocks
from nearkin.learning.superblocks import BLOCK, make_workspace
from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.gemm import TILE_ROWS, multiply, pack
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest

DRIVER_CASES = [(64, 50), (128, 50), (256, 50), (512, 50), (1_000, 50), (1_000, 500), (3_000, 50)]
TEAM_CASES = [(100, 50), (100, 500), (200, 500), (200, 1_000)]


def problem(rows, D, k):
    X, y = clustered(rows if D < 3_000 else rows // 2, D)
    return X, neighborhoods(nearest(X, k)[1], y)


def best(runs, rounds):
    """The least seconds a row of each, in turns."""
    for made in runs:
        one_run(made, 2_000)  # compile, and find the cores
    return [
        min(times) for times in zip(*([one_run(m, 8_192)[0] for m in runs] for _ in range(rounds)))
    ]


def drivers(rows, rounds):
    print("   D    k   blocks µs   pipelined µs   ratio")
    for D, k in DRIVER_CASES:
        X, hoods = problem(rows, D, k)
        blocks, pipelined = learner(X, hoods), learner(X, hoods)
        blocks.pipelined, blocks.superblock = False, learning_blocks.BLOCK
        slow, fast = best([blocks, pipelined], rounds)
        print(
            f"{D:>4} {k:>4} {1e6 * slow:>11.1f} {1e6 * fast:>14.1f} {slow / fast:>7.2f}", flush=True
        )


def products(rounds):
    print(f"\nproducts of {BLOCK} rows with a D×D matrix, one thread")
    print("   D   BLAS GFLOP/s   packed   ratio")
    for D in (256, 512, 1_000, 3_000):
        rng = np.random.default_rng(0)
        A, B = (rng.standard_normal((n, D), dtype=np.float32) for n in (BLOCK, D))
        theirs, ours = packed_and_blas(A, B, rounds)
        print(f"{D:>4} {theirs / 1e9:>14.1f} {ours / 1e9:>8.1f} {ours / theirs:>7.2f}", flush=True)


def packed_and_blas(A, B, rounds):
    D, space = A.shape[1], make_workspace(A.shape[1])
    pack(B, space.M_panels)
    slices = space.slices[0]
    for s in range(len(slices)):
        slices[s] = A[s * TILE_ROWS : (s + 1) * TILE_ROWS].T
    out, plain = np.zeros_like(space.Q[0]), np.empty_like(A)

    def packed():
        for panel in range(len(space.M_panels)):
            multiply(out, slices, space.M_panels, 0, len(slices), panel, D, False)

    def blas():
        multiply_into(plain, A, B, panel=D)

    packed()
    blas()
    np.testing.assert_allclose(out[:, :D], plain, rtol=1e-3, atol=1e-2)
    flops = 2 * A.size * D
    with serial_blas():
        seconds = [[timed(work) for work in (blas, packed)] for _ in range(20 * rounds)]
    return [flops / min(column) for column in zip(*seconds)]


def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def teams(rows, rounds):
    print("\n   D    k   one thread µs   team µs   ratio")
    for D, k in TEAM_CASES:
        X, hoods = problem(rows, D, k)
        alone, team = learner(X, hoods), learner(X, hoods)
        alone.max_threads = 1
        team.max_threads = max(2, team.max_threads)
        slow, fast = best([alone, team], rounds)
        print(
            f"{D:>4} {k:>4} {1e6 * slow:>15.1f} {1e6 * fast:>9.1f} {slow / fast:>7.2f}", flush=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(machine.facts())
    drivers(given.rows, given.rounds)
    products(given.rounds)
    teams(given.rows, given.rounds)

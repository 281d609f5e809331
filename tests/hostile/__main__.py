"""``python -m hostile --seed 0``: all kinds of cases, one table, an exit code."""

import argparse
import os
import sys

# Before anything is imported: a parent without threads, whose children can be forked.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from hostile.campaign import KINDS, campaign  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help="a sample, in a minute")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    parser.add_argument("--match", default="", help="only cases whose id contains this")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--most", type=int, default=20, help="obscure cases to print")
    parser.add_argument("--all", dest="report", help="file for all obscure and unjudged cases")
    return campaign(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

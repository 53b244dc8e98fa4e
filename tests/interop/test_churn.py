#!/usr/bin/env python3
"""A minute of churn, see churn.py; the seed is new each time and is printed: --seed replays the choices."""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "lib"))
import churn  # noqa: E402
from pool import namespace  # noqa: E402
from cluster import main  # noqa: E402


def a_minute_of_churn():
    seed = random.SystemRandom().randrange(10 ** 6)
    print("  seed %d" % seed, flush=True)
    churn.churn(churn.options(["--minutes", "1", "--seed", str(seed), "--pause", "1"]))


if __name__ == "__main__":
    namespace()
    main(a_minute_of_churn)

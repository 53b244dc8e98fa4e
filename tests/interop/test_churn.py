#!/usr/bin/env python3
"""A minute of churn, see churn.py; TV_SEED makes other choices than those of every run."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "lib"))
import churn  # noqa: E402
from pool import namespace  # noqa: E402
from cluster import main  # noqa: E402


def a_minute_of_churn():
    churn.churn(churn.options(["--minutes", "1", "--seed", os.environ.get("TV_SEED", "31"), "--pause", "1"]))


if __name__ == "__main__":
    namespace()
    main(a_minute_of_churn)

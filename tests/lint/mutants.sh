#!/bin/sh
# Each text that tests/sim/mutants.py changes is in raftd/core exactly once, and the table in doc/testing.md is of its mutants.
exec python3 "${srcdir:-.}/tests/sim/mutants.py" --check

#!/usr/bin/env python3
"""No line of C has more than 120 columns; a tab goes to the next multiple of 8.

raftd and the tests have older ones: a folder comes into the list when it has none.
"""
import glob
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = "common", "ctl", "gossipd", "rpcd"
COLUMNS = 120


def too_long(path):
    with open(path, encoding="utf-8") as f:
        return [(n, len(line)) for n, line in enumerate((x.rstrip("\n").expandtabs(8) for x in f), 1) if len(line) > COLUMNS]


def main():
    looked_at = wrong = 0
    for path in sorted(p for d in FOLDERS for p in glob.glob(os.path.join(TOP, d, "**", "*.[ch]"), recursive=True)):
        name = os.path.relpath(path, TOP)
        looked_at += 1
        for number, columns in too_long(path):
            print("%s:%d: %d columns, and %d are the most" % (name, number, columns, COLUMNS))
            wrong += 1
    return 1 if wrong or not looked_at else 0


sys.exit(main())

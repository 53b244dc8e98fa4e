#!/usr/bin/env python3
"""System tests run beside each other: no two of them may use the same loopback addresses.

A test that names "127.N.M" has that net to itself; one that names "127.N", and makes the rest up, has all of 127.N.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ADDRESS = re.compile(r"\b127\.(\d+)(?:\.(\d+))?")
EVERYBODY = ("127.0.0",)            # this machine, where nobody listens or where a port is free


def nets(path):
    with open(path) as f:
        found = {".".join(filter(None, ("127", *m.groups()))) for m in ADDRESS.finditer(f.read())}
    return found.difference(EVERYBODY)


def overlap(a, b):
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")


def main():
    owners, wrong = [], 0
    for path in sorted(glob.glob(os.path.join(TOP, "tests", "system", "test_*.py"))):
        name = os.path.basename(path)
        for net in sorted(nets(path)):
            for other, whose in owners:
                if whose != name and overlap(net, other):
                    print("%s uses %s, and %s uses %s" % (name, net, whose, other))
                    wrong += 1
            owners.append((net, name))
    return 1 if wrong else 0


sys.exit(main())

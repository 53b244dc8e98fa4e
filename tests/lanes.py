#!/usr/bin/env python3
"""Runs test programs beside each other, for tests/run-all: as many as the processors have time for.

    tests/lanes.py --least N --most M FOLDER OUT < NAMES

NAMES are programs of FOLDER, without ".py", in their order.  OUT/NAME gets what a program prints, OUT/NAME.status its exit status when it
has ended.  N run at any time, and up to M as long as a third of the processors' time is left over: most of what system tests do
is to wait.
"""
import argparse
import os
import subprocess
import sys
import time

LOOK = 1.0                  # seconds over which that time is taken
SPARE = 0.33


def times():
    """(all, left over) of the processors, in ticks."""
    with open("/proc/stat", encoding="ascii") as f:
        t = [int(x) for x in f.readline().split()[1:9]]
    return sum(t), t[3] + t[4]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--least", type=int, required=True)
    ap.add_argument("--most", type=int, required=True)
    ap.add_argument("folder")
    ap.add_argument("out")
    args = ap.parse_args()
    names, running = sys.stdin.read().split(), {}
    before, spare, looked = times(), 0.0, time.monotonic()
    while names or running:
        for name, p in list(running.items()):
            if p.poll() is None:
                continue
            end = os.path.join(args.out, name + ".end")
            with open(end, "w", encoding="ascii") as f:
                f.write("%d\n" % (p.returncode if p.returncode >= 0 else 128 - p.returncode))
            os.rename(end, os.path.join(args.out, name + ".status"))
            del running[name]
        if time.monotonic() - looked >= LOOK:
            now = times()
            spare = (now[1] - before[1]) / max(1, now[0] - before[0])
            before, looked = now, time.monotonic()
        while names and (len(running) < args.least or (len(running) < args.most and spare > SPARE)):
            name = names.pop(0)
            with open(os.path.join(args.out, name), "wb") as f:
                running[name] = subprocess.Popen([sys.executable, os.path.join(args.folder, name + ".py")], stdin=subprocess.DEVNULL,
                                                 stdout=f, stderr=subprocess.STDOUT)
            if len(running) > args.least:
                spare = 0.0             # until it has been seen what this one takes
        time.sleep(0.05)


main()

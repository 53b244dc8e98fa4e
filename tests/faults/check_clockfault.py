#!/usr/bin/env python3
"""clockfault.so by itself: a child looks at its clocks, the test turns them."""
import os
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TV_BUILD", os.getcwd())          # automake runs tests in the build folder
sys.path.insert(0, os.path.join(TOP, "tests", "system", "lib"))
import clockfault  # noqa: E402

PYTHON_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}        # which is not ours to mend
CHILD = "import sys, time\nfor line in sys.stdin:\n print(eval(line), flush=True)\n"
HOUR = 3600 * clockfault.SECOND
WALL = "time.clock_gettime_ns(time.CLOCK_REALTIME)"
MONO = "time.clock_gettime_ns(time.CLOCK_MONOTONIC)"


class Child:
    def __init__(self, clock):
        self.p = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, env=dict(os.environ, **clock.env, **PYTHON_LEAKS))

    def ask(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()
        return int(self.p.stdout.readline())

    def between(self, what, clock_id, change=lambda t: t):
        """The child's clock shows what ours showed meanwhile, changed."""
        low = change(time.clock_gettime_ns(clock_id))
        seen = self.ask(what)
        high = change(time.clock_gettime_ns(clock_id))
        assert low <= seen <= high, "%s: %d, not between %d and %d" % (what, seen, low, high)
        return seen

    def close(self):
        self.p.stdin.close()
        assert self.p.wait() == 0


def wall(clock, child):
    child.between(WALL, time.CLOCK_REALTIME)
    for hours in (5, -7, 0):
        clock.jump(hours * 3600)
        child.between(WALL, time.CLOCK_REALTIME, lambda t: t + hours * HOUR)
        child.between("int(time.time()) * 1000000000", time.CLOCK_REALTIME,
                      lambda t: (t // clockfault.SECOND) * clockfault.SECOND + hours * HOUR)
        child.between(MONO, time.CLOCK_MONOTONIC)


def monotonic(clock, child):
    child.between(MONO, time.CLOCK_MONOTONIC)
    last = 0
    for ppm in (100000, -100000, 0, 500000, -500000, 0):
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        before = clock.monotonic_ns(start)
        clock.rate(ppm)
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        assert before <= clock.monotonic_ns(end) <= before + 2 * (end - start), "a change of rate is no jump"
        for _ in range(50):
            seen = child.between(MONO, time.CLOCK_MONOTONIC, clock.monotonic_ns)
            assert seen >= last, "it went back"
            last = seen
        child.between(WALL, time.CLOCK_REALTIME)
    start = clock._get("from_ns")
    clock.rate(100000)
    assert abs(clock.monotonic_ns(clock._get("from_ns") + 10 * clockfault.SECOND) - clock._get("base_ns") -
               11 * clockfault.SECOND) < 1000 and clock._get("from_ns") > start


if clockfault.missing():
    print("SKIP: " + clockfault.missing())
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    turned = clockfault.ClockFault(os.path.join(folder, "clock"))
    looking = Child(turned)
    wall(turned, looking)
    monotonic(turned, looking)
    assert turned.reads > 100
    looking.close()
    turned.close()

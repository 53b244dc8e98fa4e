#!/usr/bin/env python3
"""Network coordinates: a pool whose halves are 20 ms apart; `serf rtt` and `clusterctl rtt` say so alike."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import LongCable, Ours, Pool, namespace  # noqa: E402
from cluster import main, skip  # noqa: E402
from waiting import need, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.106.0").rpartition(".")[0]
DELAY = 0.010			# one way
FAR_MS = 2000 * DELAY
NEAR_MS = 8.0			# among neighbours: no delay, but a busy machine
NOISE = 0.35			# of the truth, and between the two tools
SETTLE = 240			# Vivaldi takes some rounds of probes to find out
PAIRS = (("o1", "o2"), ("o1", "s1"), ("s1", "s2"), ("o1", "o3"), ("o1", "s3"), ("s1", "o3"), ("s2", "s3"))


def milliseconds(text):
    number, unit = re.search(r"rtt: ([0-9.]+) ?(ms|µs|us|s)\b", text).groups()
    return float(number) * {"ms": 1, "µs": 1e-3, "us": 1e-3, "s": 1e3}[unit]


def estimates(o, s, pair):
    return milliseconds(o.ctl("rtt", *pair).stdout), milliseconds(s.cmd("rtt", *pair).stdout)


def judge(pool, o, s):
    """None, or what is not as it should be yet."""
    for pair in PAIRS:
        ours, theirs = estimates(o, s, pair)
        apart = pool.members[pair[0]].far != pool.members[pair[1]].far
        for ms in (ours, theirs):
            if apart and abs(ms - FAR_MS) > NOISE * FAR_MS or not apart and ms > NEAR_MS:
                return "%s - %s: ours says %.2f ms, Serf's %.2f ms" % (*pair, ours, theirs)
        if abs(ours - theirs) > NOISE * max(ours, theirs, NEAR_MS):
            return "%s - %s: ours %.2f ms, Serf's %.2f ms differ" % (*pair, ours, theirs)
    return None


def settled(pool, o, s):
    text = judge(pool, o, s)
    need(text is None, text)
    return True


def far_and_near():
    why = LongCable.impossible()
    if why:
        skip("a long cable " + why)
    cable = LongCable(1, DELAY)
    try:
        with Pool(NET + ".1", True, label="20 ms apart", count=7) as pool:
            def member(make, i, last, far):
                m = make(i, cable.address(last, far), cable.wrap if far else ())
                m.far = far
                return m

            def ours(i, addr, wrap):
                return pool.add(Ours(pool, "o%d" % i, addr, wrap=wrap))

            o = [member(ours, i, i, i > 2) for i in (1, 2, 3, 4)]
            s = [member(lambda i, addr, wrap: pool.agent(i, addr, wrap=wrap), i, 100 + i, i > 2) for i in (1, 2, 3)]
            pool.formed(o, s)
            wait_for("the estimates are right", lambda: settled(pool, o[0], s[0]), SETTLE, 2)
            for pair in PAIRS:
                print("  %s - %s: clusterctl %.2f ms, serf %.2f ms" % (*pair, *estimates(o[0], s[0], pair)), flush=True)
            pool.clean()
    finally:
        cable.close()


if __name__ == "__main__":
    namespace()
    main(far_and_near)

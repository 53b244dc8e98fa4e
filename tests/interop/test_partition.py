#!/usr/bin/env python3
"""A firewall cuts a pool of five and five in two; both halves go on, and become one again when it is gone."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import FarSide, Ours, Pool, namespace, together  # noqa: E402
from cluster import main, skip  # noqa: E402

NET = os.environ.get("TV_NET", "127.102.0").rpartition(".")[0]


def half(here, there, status="failed", **changed):
    """What `here` expects while `there` is out of sight."""
    out = {m.name: (m.where, "alive") for m in here}
    out.update({m.name: (m.where, status) for m in there})
    return dict(out, **changed)


def members(pool, side):
    """3 of ours and 2 agents here, 2 of ours and 3 agents on the far side."""
    o = [pool.add(Ours(pool, "o%d" % i, side.address(i, i > 3), wrap=side.wrap if i > 3 else (),
                       allow_plaintext=True)) for i in range(1, 6)]
    s = [pool.agent(i, side.address(100 + i, i > 2), wrap=side.wrap if i > 2 else ()) for i in range(1, 6)]
    return pool.formed(o, s)


def alone(pool, what, a, b, limit=None, gone_a=(), gone_b=()):
    """Each half agrees on itself, and on the other half's being failed; gone_x left there, and only there."""
    def left(there):
        return {m.name: (m.where, "left") for m in there}

    together(lambda: pool.agree(what + ", here", limit, members=a, expected=half(a, [*b, *gone_b], **left(gone_a))),
             lambda: pool.agree(what + ", there", limit, members=b, expected=half(b, [*a, *gone_a], **left(gone_b))))


def cut_and_mend(pool, side):
    o, s = members(pool, side)
    a, b = o[:3] + s[:2], o[3:] + s[2:]
    side.cut()
    alone(pool, "alone", a, b, pool.limits.alone())
    o[0].set_tags(side="one")
    s[3].set_tags(side="other")
    s[1].leave()
    o[4].leave()
    a.remove(s[1])
    b.remove(o[4])
    alone(pool, "a leave in each half", a, b, gone_a=[s[1]], gone_b=[o[4]])
    side.mend()
    pool.down(o[4], s[1], status="left")
    pool.agree("one pool again", pool.limits.heal())
    pool.clean()


def partitioned(number, encrypted):
    side = FarSide(number)
    try:
        with Pool("%s.%d" % (NET, number), encrypted, label="encrypted" if encrypted else "plain") as pool:
            cut_and_mend(pool, side)
    finally:
        side.close()


def partition():
    why = FarSide.impossible()
    if why:
        skip("a partition " + why)
    together(lambda: partitioned(1, False), lambda: partitioned(2, True))


if __name__ == "__main__":
    namespace()
    main(partition)

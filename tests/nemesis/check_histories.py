#!/usr/bin/env python3
"""The checker of histories: what is wrong it rejects, what is right it accepts, and it agrees with trying every order."""
import itertools
import math
import os
import random
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "system", "lib"))
from linear import Op, check, number, shrink, silent, step, unseen  # noqa: E402


def put(key, start, end, value):
    return Op("put", start, end, value, key=key)


def read(key, start, end, value):
    return Op("read", start, end, result=value, key=key)


def cas(key, start, end, expect, value, result):
    return Op("cas", start, end, value, expect, result, key=key)


def snap(start, end, **values):
    return Op("snap", start, end, result=values)


BASE = [put("x", 0, 1, "x1"), put("y", 0, 1, "y1")]

WRONG = {
    "stale read": BASE + [put("x", 2, 3, "x2"), read("x", 4, 5, "x1")],
    "stale read of all": BASE + [put("x", 2, 3, "x2"), snap(4, 5, x="x1", y="y1")],
    "back in time": BASE + [put("x", 2, 9, "x2"), read("x", 3, 4, "x2"), read("x", 5, 6, "x1")],
    "lost update": BASE + [cas("x", 2, 3, "x1", "x2", True), cas("x", 4, 5, "x1", "x3", True)],
    "lost write": BASE + [put("x", 2, 3, "x2"), snap(4, 5, y="y1")],
    "two winners": BASE + [cas("x", 2, 4, "x1", "x2", True), cas("x", 3, 5, "x1", "x3", True)],
    "loser without winner": BASE + [cas("x", 2, 3, "x1", "x2", False)],
    "double effect": BASE + [put("x", 2, math.inf, "x2"), read("x", 3, 4, "x2"), put("x", 5, 6, "x3"),
                             read("x", 7, 8, "x2")],
    "double effect of a cas": BASE + [cas("x", 2, math.inf, "x1", "x2", None), read("x", 3, 4, "x2"),
                                      cas("x", 5, 6, "x2", "x3", True), read("x", 7, 8, "x2")],
    "effect before its cause": BASE + [read("x", 2, 3, "x2"), put("x", 4, math.inf, "x2")],
    "read of what nobody wrote": BASE + [read("x", 2, 3, "x9")],
    "read of a write that failed": BASE + [cas("x", 2, 3, "x0", "x2", False), read("x", 4, 5, "x2")],
    "deleted and back": BASE + [Op("delete", 2, 3, key="x"), read("x", 4, 5, "x1")],
    "half of a delete of all": BASE + [Op("clear", 2, 9), snap(3, 4, y="y1")],
    # Each key by itself is right: only together they are not.
    "skewed read": BASE + [put("x", 2, 3, "x2"), put("y", 4, 5, "y2"), snap(1.5, 6, x="x1", y="y2")],
    "two readers, two orders": BASE + [put("x", 2, 9, "x2"), put("y", 2, 9, "y2"), snap(3, 4, x="x2", y="y1"),
                                       snap(3, 4, x="x1", y="y2")],
    "a key's past beside another's present": BASE + [put("x", 2, 3, "x2"), snap(2, 9, x="x1", y="y2"),
                                                     put("y", 4, math.inf, "y2")],
}

RIGHT = {
    "in order": BASE + [put("x", 2, 3, "x2"), snap(4, 5, x="x2", y="y1")],
    "in flight, seen by one": BASE + [put("x", 2, 9, "x2"), snap(3, 4, x="x2", y="y1"), snap(5, 6, x="x2", y="y1")],
    "in flight, not yet seen": BASE + [put("x", 2, 9, "x2"), snap(3, 4, x="x1", y="y1"), snap(5, 6, x="x2", y="y1")],
    "late effect": BASE + [put("x", 2, math.inf, "x2"), snap(3, 4, x="x1", y="y1"), snap(5, 6, x="x2", y="y1")],
    "never": BASE + [put("x", 2, math.inf, "x2"), put("y", 2, math.inf, "y2"), snap(9, 10, x="x1", y="y1")],
    "two late effects at once": BASE + [put("x", 2, math.inf, "x2"), put("y", 2, math.inf, "y2"),
                                        snap(3, 4, x="x1", y="y1"), snap(5, 6, x="x2", y="y2")],
    "a chain of lost ones": BASE + [cas("x", 2, math.inf, "x1", "x2", None), cas("x", 2, math.inf, "x2", "x3", None),
                                    read("x", 4, 5, "x3")],
    "a lost one makes a loser": BASE + [put("x", 2, math.inf, "x2"), cas("x", 3, 4, "x1", "x3", False)],
    "a lost delete of all": BASE + [Op("clear", 2), snap(3, 4, x="x1", y="y1"), snap(5, 6)],
    "one winner": BASE + [cas("x", 2, 4, "x1", "x2", True), cas("x", 3, 5, "x1", "x3", False)],
}


def orders(ops):
    """Some order of all known operations and of some of the lost ones explains the history: by trying all."""
    size = number(ops)
    known = [o for o in ops if not o.unknown]
    lost = [o for o in ops if o.unknown and not silent(o)]
    for count in range(len(lost) + 1):
        for some in itertools.combinations(lost, count):
            for order in itertools.permutations(known + list(some)):
                if fits(order, size):
                    return True
    return False


def fits(order, size):
    state, latest = (None,) * size, -math.inf
    for op in order:
        latest = max(latest, op.start)
        if op.end < latest:
            return False                # it was over before one that comes earlier began
        state = step(op, state)
        if state is None:
            return False
    return True


def made_up(rng, length, keys):
    """A history of any kind: right or wrong."""
    ops, values = [], {k: [None] for k in keys}
    for i in range(length):
        start = rng.uniform(0, 3)
        end = math.inf if rng.random() < 0.25 else start + rng.uniform(0, 1.5)
        key, kind = rng.choice(keys), rng.choice(("put", "put", "cas", "delete", "read", "read", "snap", "clear"))
        new = "%s%d" % (key, i)
        if kind in ("put", "cas"):
            values[key].append(new)
        ops.append((kind, start, end, key, new))
    out = []
    for kind, start, end, key, new in ops:
        expect, result = rng.choice(values[key]), rng.choice(values[key])
        if kind == "snap":
            result = {k: v for k in keys if (v := rng.choice(values[k])) is not None}
        elif kind == "cas":
            result = rng.random() < 0.7
        out.append(Op(kind, start, end, new, expect, result, key=key))
    return [o for o in out if not (o.unknown and o.kind in ("read", "snap"))]


def true_story(rng, length, keys):
    """A right history: each operation took effect at a moment between its start and its end, or after it got lost."""
    plans = []
    for i in range(length):
        start = rng.uniform(0, length / 4)
        at = start + rng.uniform(0, 1)
        kind = rng.choice(("put", "put", "cas", "cas", "delete", "read", "read", "read", "snap", "snap", "clear"))
        lost = kind not in ("read", "snap") and rng.random() < 0.15
        plans.append((at + (rng.uniform(0, 3) if lost else 0), start, at + rng.uniform(0, 1), kind, rng.choice(keys),
                      lost, i))
    state, past, out = {}, {k: [None] for k in keys}, []
    for at, start, end, kind, key, lost, i in sorted(plans):
        op = Op(kind, start, math.inf if lost else end, "%s%d" % (key, i), key=key)
        if kind == "read":
            op.result = state.get(key)
        elif kind == "snap":
            op.result = dict(state)
        elif kind == "cas":
            op.expect = rng.choice(past[key][-3:] + [state.get(key)])
            op.result = op.expect == state.get(key)
        out.append(op)
        if lost and rng.random() < 0.4:
            continue                    # it never happened
        if kind == "put" or (kind == "cas" and op.result):
            state[key] = op.arg
            past[key].append(op.arg)
        elif kind == "delete":
            state.pop(key, None)
        elif kind == "clear":
            state.clear()
    return out


def main():
    for name, ops in WRONG.items():
        assert check(ops), name + " was accepted"
        part = shrink(ops)
        assert check(part) and len(part) <= len(ops), name
    for name, ops in RIGHT.items():
        wrong = check(ops)
        assert wrong is None, "%s was rejected: %s" % (name, wrong)
    rng, counts = random.Random(7), [0, 0]
    for _ in range(3000):
        ops = made_up(rng, rng.randrange(3, 7), "xy")
        right = orders(ops)
        assert (check(ops) is None) == right, "%s:\n%s" % (right, "\n".join(map(repr, ops)))
        counts[right] += 1
        for o in ops:                   # what shrink() takes out is never the cause
            if right and (silent(o) or unseen(o, ops)):
                assert check([p for p in ops if p is not o]) is None, "without %r:\n%s" % (o, "\n".join(map(repr, ops)))
    assert min(counts) > 300, counts
    for _ in range(300):
        ops = true_story(rng, rng.randrange(20, 120), "xyz")
        wrong = check(ops)
        assert wrong is None, wrong
    print("histories: %d wrong kinds, %d right kinds, %d wrong and %d right ones against all orders, 300 long ones"
          % (len(WRONG), len(RIGHT), *counts))


main()

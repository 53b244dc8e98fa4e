#!/usr/bin/env python3
"""The checker of rights: each kind of breach is found, and what the moments of changes leave open is none."""
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from rights import READ, WRITE, Token, denied, done, shown, stale_start, trail  # noqa: E402

KEY, OTHER = ("key", 1), ("service", 1)


def story(*changes):
    """A token by its changes: (start, end or None without an answer, right to KEY)."""
    t = Token("t")
    for start, end, right in changes:
        t.asked(start, {KEY: right, OTHER: WRITE} if right else {})
        if end is not None:
            t.answered(end)
    return t


# Made at 1..2, may write; read alone since 10..12; nothing since 20..22; write again since 30..32; deleted at 40..42.
LIFE = story((1, 2, WRITE), (10, 12, READ), (20, 22, None), (30, 32, WRITE), (40, 42, None))
# The answer to the second change never came; a third one did.
LOST = story((1, 2, WRITE), (10, None, None), (30, 32, None))

WRONG = {
    "a write before the token was there": done(LIFE, KEY, 0, 0.9),
    "a write after the right was taken": done(LIFE, KEY, 12.1, 13),
    "a write with a right to read": done(LIFE, KEY, 15, 16),
    "a write while it had none": done(LIFE, KEY, 23, 29),
    "a write without an answer, seen before the right came back": done(LIFE, KEY, 23, 29.9),
    "a write with a token that is gone": done(LIFE, KEY, 43, 44),
    "a late write with a token that is gone": done(LIFE, KEY, 43, math.inf),
    "a write after a lost change that was made good": done(LOST, KEY, 33, 34),
    "a right to something else": done(story((1, 2, None)), OTHER, 3, 4),
    "denied while it had it": denied(LIFE, KEY, WRITE, 3, 9),
    "reading denied while it might write": denied(LIFE, KEY, READ, 3, 9),
    "reading denied through both rights": denied(LIFE, KEY, READ, 5, 19),
    "denied after the right came back": denied(LIFE, KEY, WRITE, 33, 34),
    "shown after it was taken": shown(LIFE, KEY, 22.1, 25),
    "shown to a token that is gone": shown(LIFE, KEY, 43, 44),
    "an old state that has what was written later": shown(LIFE, KEY, stale_start(26, [5, 23], None, 30), 26.5),
    "an old state of a server that heard of a leader": shown(LIFE, KEY, stale_start(80, [5], 0.5, 30), 81),
    "the trail names another": trail({"accessor": "a", "name": "k"}, {"b"}),
}

RIGHT = {
    "a write that begins before the token's answer": done(LIFE, KEY, 1.5, 3),
    "a write under way when it was taken": done(LIFE, KEY, 9, 20),
    "a write while it was being taken": done(LIFE, KEY, 11, 13),
    "a write that could be done when the right came back": done(LIFE, KEY, 23, 30),
    "a write without an answer, before the right came back": done(LIFE, KEY, 23, math.inf),
    "a write while a change is lost": done(LOST, KEY, 25, 26),
    "denied while a change is lost": denied(LOST, KEY, WRITE, 25, 26),
    "denied while it was being given": denied(LIFE, KEY, WRITE, 1.5, 9),
    "denied while it was being taken": denied(LIFE, KEY, WRITE, 5, 10.5),
    "writing denied with a right to read": denied(LIFE, KEY, WRITE, 14, 15),
    "denied in the middle": denied(LIFE, KEY, READ, 19, 35),
    "shown while it was being taken": shown(LIFE, KEY, 21, 23),
    "shown with a right to write": shown(LIFE, KEY, 3, 4),
    "an old state": shown(LIFE, KEY, stale_start(60, [5], None, 30), 61),
    "an old state within the bound": shown(LIFE, KEY, stale_start(60, [5], 0.5, 30), 61),
    "the trail names who asked": trail({"accessor": "a", "name": "k"}, {"a", "b"}),
}


def lives(rng):
    """A made-up life: the token as it is known, and as it was (moment, right)."""
    t, was, now = Token("t"), [(-math.inf, None)], 0.0
    for _ in range(rng.randrange(2, 8)):
        right, start = rng.choice((None, READ, WRITE)), now + rng.random()
        end = start + rng.random()
        was.append((rng.uniform(start, end), right))
        t.asked(start, {KEY: right} if right else {})
        t.answered(end)
        now = end
    return t, was, now


def had(was, at):
    return [right for moment, right in was if moment <= at][-1]


def main():
    for name, text in WRONG.items():
        assert text, name + " was accepted"
    for name, text in RIGHT.items():
        assert text is None, "%s was rejected: %s" % (name, text)
    rng = random.Random(3)
    # Whatever the true moment was at which a right was looked at, what came of it is accepted.
    for _ in range(3000):
        t, was, last = lives(rng)
        at = rng.uniform(0, last + 1)
        start, end, right = at - rng.random(), at + rng.random(), had(was, at)
        text = (done if right == WRITE else lambda *a: denied(a[0], a[1], WRITE, *a[2:]))(t, KEY, start, end) or \
            (shown(t, KEY, start, end) if right else denied(t, KEY, READ, start, end))
        assert text is None, (text, was, at)
    print("rights: %d wrong kinds, %d right kinds, 3000 made-up lives" % (len(WRONG), len(RIGHT)))


main()

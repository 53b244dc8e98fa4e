"""Is a history of operations on one register, or on a group of them, linearizable?

Wing & Gong's search with Lowe's memory of visited states.  A history is a list of Op.  Keys that no operation touches
together are checked alone (linearizability composes); those that are read together, at one moment, are one group, and
its state is the tuple of their values.  A register holds None (no such key) or a value; every written value must be
unique within its key, so that "the version a cas was based on" and "the value that was read" are one thing.
Operations without an answer may have taken effect at any time after their start, or never.
"""
import math
import time


class Op:
    """kind: read, put, delete or cas of one key; snap, a read of all keys of the group at one moment; clear, a delete
    of all of them.  arg: what is written.  expect: what a cas was based on.  result: the value read, for snap
    {key: value} of those that exist, or whether a cas took place.  end is infinite where no answer came."""
    __slots__ = ("kind", "start", "end", "arg", "expect", "result", "who", "key", "slot", "seen")

    def __init__(self, kind, start, end=math.inf, arg=None, expect=None, result=None, who="", key=""):
        self.kind, self.start, self.end, self.key = kind, start, end, key
        self.arg, self.expect, self.result, self.who = arg, expect, result, who

    @property
    def unknown(self):
        return self.end == math.inf

    def __repr__(self):
        what = {"read": "read -> %r" % (self.result,), "put": "put %r" % (self.arg,), "delete": "delete",
                "cas": "cas %r -> %r: %r" % (self.expect, self.arg, self.result),
                "snap": "read all -> %r" % (self.result,), "clear": "delete all"}[self.kind]
        return "%.4f..%.4f %s %s%s" % (self.start, self.end, self.who, self.key and self.key + " ", what)


class Undecided(AssertionError):
    """The search grew beyond its bound: the history is too concurrent to be judged."""


def silent(op):
    """Takes effect without changing anything."""
    return op.kind in ("read", "snap") or (op.kind == "cas" and not op.unknown and not op.result)


def number(ops):
    """Gives each key its place in the state; returns how many there are."""
    keys = {o.key for o in ops if o.kind not in ("snap", "clear")}
    for o in ops:
        if o.kind == "snap":
            keys.update(o.result)
    order = sorted(keys)
    place = {k: i for i, k in enumerate(order)}
    for o in ops:
        if o.kind == "snap":
            o.seen = tuple(o.result.get(k) for k in order)
        elif o.kind != "clear":
            o.slot = place[o.key]
    return len(order)


def step(op, state):
    """The state when op takes effect on this one; None when it cannot."""
    if op.kind == "snap":
        return state if op.seen == state else None
    if op.kind == "clear":
        return (None,) * len(state)
    value = state[op.slot]
    if op.kind == "read":
        return state if op.result == value else None
    if op.kind == "cas":
        if not op.unknown and not op.result:
            return state if op.expect != value else None
        if op.expect != value:           # one without answer that changes nothing is one that never happened
            return None
    new = op.arg if op.kind != "delete" else None
    return state[:op.slot] + (new,) + state[op.slot + 1:]


def notices(op, slot, value):
    """Does it matter to op that this register has this value, and suit it?"""
    if op.kind == "snap":
        return op.seen[slot] == value
    if op.kind not in ("read", "cas") or op.slot != slot:
        return False
    if op.kind == "read":
        return op.result == value
    return (op.expect == value) == (op.unknown or op.result)


class Search:
    def __init__(self, ops, initial, limit):
        size = number(ops)
        self.known = sorted((o for o in ops if not o.unknown), key=lambda o: o.start)
        self.lost = [o for o in ops if o.unknown and not silent(o)]
        self.initial, self.limit = (initial,) * size, limit
        self.best = 0                    # how far the furthest path came, for the report

    def candidates(self, low, done):
        """Indexes of known operations that may be next, and the time before which the next one must start."""
        first = math.inf
        out = []
        for i in range(low, len(self.known)):
            op = self.known[i]
            if op.start > first:
                break
            if not done >> i & 1:
                out.append(i)
                first = min(first, op.end)
        return [i for i in out if self.known[i].start <= first], first

    def settle(self, low, done, state):
        """Takes every silent operation that fits at once: that never closes a way."""
        while True:
            ready, first = self.candidates(low, done)
            fits = [i for i in ready if silent(self.known[i]) and step(self.known[i], state) is not None]
            for i in fits:
                done |= 1 << i
            while low < len(self.known) and done >> low & 1:
                low += 1
            if not fits:
                return low, done, ready, first

    def useful(self, op, before, after, used, ready):
        """A change without answer may as well have happened just before somebody noticed it; if it is overwritten
        unseen, it may as well not have happened.  Not so one of several keys: what comes after may hide a part of it."""
        return (op.kind == "clear" and before != after) or any(
            any(notices(self.known[i], slot, after[slot]) for i in ready) or
            any(o is not op and o.kind == "cas" and not used >> j & 1 and notices(o, slot, after[slot])
                for j, o in enumerate(self.lost))
            for slot in range(len(before)) if before[slot] != after[slot])

    def successors(self, low, done, used, state, ready, first):
        """Where one more operation leads; those without answer are pushed first, so that they are tried last."""
        for j, op in enumerate(self.lost):
            if not used >> j & 1 and op.start <= first:
                after = step(op, state)
                if after is not None and self.useful(op, state, after, used, ready):
                    yield low, done, used | 1 << j, after
        for i in reversed(ready):
            if not silent(self.known[i]):
                after = step(self.known[i], state)
                if after is not None:
                    yield low, done | 1 << i, used, after

    def run(self):
        seen = set()
        stack = [(0, 0, 0, self.initial)]
        while stack:
            low, done, used, state = stack.pop()
            low, done, ready, first = self.settle(low, done, state)
            self.best = max(self.best, low)
            if low == len(self.known):
                return True
            at = (done, used, state)
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > self.limit:
                raise Undecided("more than %d states" % self.limit)
            stack.extend(self.successors(low, done, used, state, ready, first))
        return False


def check(ops, initial=None, limit=300000):
    """None when the history is linearizable, else a text that shows where no order fits."""
    s = Search(ops, initial, limit)
    if s.run():
        return None
    at = s.known[s.best]
    near = [o for o in ops if o.start <= at.end and o.end >= at.start - 0.2]
    return "no order explains %r; around it:\n  %s" % (at, "\n  ".join(map(repr, sorted(near, key=lambda o: o.start)[-40:])))


# -- the part of a wrong history that is wrong ----------------------------------------------------


def prefix(ops, end):
    """What was known at that time: linearizable if the whole is."""
    return [o if o.end <= end else Op(o.kind, o.start, math.inf, o.arg, o.expect, None, o.who, o.key)
            for o in ops if o.start <= end and (o.end <= end or not (o.kind in ("read", "snap")))]


def unseen(op, ops):
    """May this write be left out without making a right history wrong?  When nobody saw its value, and nobody was
    refused because of it, what was there before may as well have stayed."""
    if op.kind not in ("put", "cas", "delete") or (op.kind == "cas" and not op.unknown and not op.result):
        return False
    value = None if op.kind == "delete" else op.arg
    for o in ops:
        if o.kind == "snap" and o.result.get(op.key) == value:
            return False
        if o is not op and o.key == op.key and (
                (o.kind == "read" and o.result == value) or
                (o.kind == "cas" and (o.expect == value or not (o.unknown or o.result)))):
            return False
    return True


def shrink(ops, seconds=20.0):
    """A part of a history that is not linearizable which is not either, sorted: small enough to be read.  Only what
    cannot be the cause is taken out: reads, answers that came later, writes that nobody could miss."""
    until = time.monotonic() + seconds

    def wrong(part):
        try:
            return time.monotonic() < until and check(part, limit=20000) is not None
        except Undecided:
            return False

    ops = sorted(ops, key=lambda o: o.start)
    ends = sorted({o.end for o in ops if not o.unknown})
    low, high = 0, len(ends) - 1
    while low < high:                    # the first moment at which it is wrong
        middle = (low + high) // 2
        if wrong(prefix(ops, ends[middle])):
            high = middle
        else:
            low = middle + 1
    if ends and wrong(prefix(ops, ends[high])):
        ops = prefix(ops, ends[high])
    size = max(1, len(ops) // 2)
    while size and time.monotonic() < until:
        at = 0
        while at < len(ops):
            part = [o for i, o in enumerate(ops)
                    if not at <= i < at + size or not (silent(o) or unseen(o, ops))]
            if len(part) < len(ops) and wrong(part):
                ops = part
            else:
                at += size
        size //= 2
    return ops

"""Is a history of operations on one register linearizable?  Wing & Gong's search with Lowe's memory of visited states.

A history is a list of Op of one key; histories of different keys are checked alone (linearizability composes).
The register holds None (no such key) or a value; every written value must be unique within its key, so that
"the version a cas was based on" and "the value that was read" are one thing.
Operations without an answer may have taken effect at any time after their start, or never.
"""
import math


class Op:
    """kind: read, put, delete or cas.  arg: what is written.  expect: what a cas was based on.
    result: the value read, or whether a cas took place.  end is infinite where no answer came."""
    __slots__ = ("kind", "start", "end", "arg", "expect", "result", "who")

    def __init__(self, kind, start, end=math.inf, arg=None, expect=None, result=None, who=""):
        self.kind, self.start, self.end = kind, start, end
        self.arg, self.expect, self.result, self.who = arg, expect, result, who

    @property
    def unknown(self):
        return self.end == math.inf

    def __repr__(self):
        what = {"read": "read -> %r" % (self.result,), "put": "put %r" % (self.arg,), "delete": "delete",
                "cas": "cas %r -> %r: %r" % (self.expect, self.arg, self.result)}[self.kind]
        return "%.4f..%.4f %s %s" % (self.start, self.end, self.who, what)


class Undecided(AssertionError):
    """The search grew beyond its bound: the history is too concurrent to be judged."""


def step(op, value):
    """(possible, value afterwards) when op takes effect on value."""
    if op.kind == "read":
        return op.result == value, value
    if op.kind == "put":
        return True, op.arg
    if op.kind == "delete":
        return True, None
    if op.unknown:                       # one that changes nothing is the same as one that never happened
        return op.expect == value, op.arg
    if op.result:
        return op.expect == value, op.arg
    return op.expect != value, value


def silent(op):
    """Takes effect without changing anything."""
    return op.kind == "read" or (op.kind == "cas" and not op.unknown and not op.result)


class Search:
    def __init__(self, ops, initial, limit):
        self.known = sorted((o for o in ops if not o.unknown), key=lambda o: o.start)
        self.lost = [o for o in ops if o.unknown and o.kind != "read"]
        self.initial, self.limit = initial, limit
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

    def settle(self, low, done, value):
        """Takes every silent operation that fits at once: that never closes a way."""
        while True:
            ready, first = self.candidates(low, done)
            fits = [i for i in ready if silent(self.known[i]) and step(self.known[i], value)[0]]
            for i in fits:
                done |= 1 << i
            while low < len(self.known) and done >> low & 1:
                low += 1
            if not fits:
                return low, done, ready, first

    def useful(self, op, value, after, used, ready):
        """A change without answer that the next operation overwrites unseen may as well not have happened."""
        return after != value and (
            any(self.known[i].kind in ("read", "cas") and step(self.known[i], after)[0] for i in ready) or
            any(o is not op and o.kind == "cas" and o.expect == after and not used >> j & 1
                for j, o in enumerate(self.lost)))

    def successors(self, low, done, used, value, ready, first):
        """Where one more operation leads; those without answer are pushed first, so that they are tried last."""
        for j, op in enumerate(self.lost):
            if not used >> j & 1 and op.start <= first:
                ok, after = step(op, value)
                if ok and self.useful(op, value, after, used, ready):
                    yield low, done, used | 1 << j, after
        for i in reversed(ready):
            if not silent(self.known[i]):
                ok, after = step(self.known[i], value)
                if ok:
                    yield low, done | 1 << i, used, after

    def run(self):
        seen = set()
        stack = [(0, 0, 0, self.initial)]
        while stack:
            low, done, used, value = stack.pop()
            low, done, ready, first = self.settle(low, done, value)
            self.best = max(self.best, low)
            if low == len(self.known):
                return True
            state = (done, used, value)
            if state in seen:
                continue
            seen.add(state)
            if len(seen) > self.limit:
                raise Undecided("more than %d states" % self.limit)
            stack.extend(self.successors(low, done, used, value, ready, first))
        return False


def check(ops, initial=None, limit=300000):
    """None when the history is linearizable, else a text that shows where no order fits."""
    s = Search(ops, initial, limit)
    if s.run():
        return None
    at = s.known[s.best]
    near = [o for o in ops if o.start <= at.end and o.end >= at.start - 0.2]
    return "no order explains %r; around it:\n  %s" % (at, "\n  ".join(map(repr, sorted(near, key=lambda o: o.start)[-40:])))

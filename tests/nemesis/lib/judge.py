"""Judges the windows that are closed, in a process of its own, and remembers what must last.

Of each group: is there an order of all its operations that explains them (linear.py)?  Beside that, what costs little:
one ModifyIndex is one value, the index of one query never goes back, one index is one content on every server and in
every mode, and nobody ever sees the value of a write that was refused with the promise that nothing was done.
"""
import base64
import concurrent.futures
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system", "lib"))
from clients import PREFIX  # noqa: E402
from linear import Op, Undecided, check, shrink  # noqa: E402
from waiting import wait_for  # noqa: E402


def backwards(path, seen):
    """The index of a query that was answered before another one began is not the larger of both."""
    best = None                          # of those that ended so far
    ended = sorted(seen, key=lambda s: s[1])
    at = 0
    for start, end, index, who in sorted(seen):
        while at < len(ended) and ended[at][1] < start:
            if best is None or ended[at][2] > best[2]:
                best = ended[at]
            at += 1
        if best is not None and best[2] > index:
            return "the index of %s went back from %d (%s, answered at %.4f) to %d (%s, asked at %.4f)" % (
                path, best[2], best[3], best[1], index, who, start)
    return None


def contents(shown):
    """One index of one query with two contents."""
    known = {}
    for path, index, content, who in shown:
        other = known.setdefault((path, index), (content, who))
        if other[0] != content:
            yield "%s at index %d is %r (%s) and %r (%s)" % (path, index, content, who, other[0], other[1])


def invented(window):
    """Values that nobody wrote, or that were refused."""
    tried = {o.arg for ops in window.ops.values() for o in ops}
    failed = {v for values in window.failed.values() for v in values}
    for path, index, content, who in window.shown:
        for key, modified, value in content:
            if value in failed:
                yield "%s showed %s = %r, whose write was refused (index %d)" % (who, key, value, modified)
            elif value not in tried:
                yield "%s showed %s = %r, which nobody wrote (index %d)" % (who, key, value, modified)


def judge(window):
    """(number of the window, findings, groups that could not be decided).  Runs in a process of its own."""
    wrong = list(window.wrong)
    for path, seen in sorted(window.indexes.items()):
        text = backwards(path, seen)
        if text:
            wrong.append(text)
    wrong += list(contents(window.shown))[:3] + list(invented(window))[:3]
    undecided = 0
    for group, ops in sorted(window.ops.items()):
        try:
            text = check(ops)
        except Undecided:
            undecided += 1
            continue
        if text:
            part = shrink(ops)
            wrong.append("window %d, group %d: %s\nthe part that is wrong (%d of %d):\n  %s" % (
                window.number, group, text.splitlines()[0], len(part), len(ops), "\n  ".join(map(repr, part))))
    return window.number, wrong, undecided, len(window.ops)


def answered(node):
    """All that the clients wrote, from this node; NotYet when it cannot tell now, as in the midst of an election."""
    return node.get("/v1/kv/%s?recurse" % PREFIX, timeout=60).ok(200, 404)


class Judge(threading.Thread):
    """Closes windows with a last read of each group, has them judged, and keeps what must last: the last read, and
    what of the unknown could still come."""

    def __init__(self, history, report, guard=None):
        super().__init__(daemon=True)
        self.guard = guard
        self.pool = concurrent.futures.ProcessPoolExecutor(1)
        self.pool.submit(os.getpid).result()        # started now: it shall have no threads and no pipes of ours
        self.history, self.nodes, self.report = history, [], report
        self.halt, self.pending, self.judged, self.undecided, self.groups = threading.Event(), [], 0, 0, 0
        self.open, self.lasting, self.broken = [], {}, None

    def last_read(self, window, group):
        """As an operation of the history; False while no node can say."""
        path = window.prefix(window.number, group)
        for node in self.nodes:
            start = time.monotonic()
            try:
                r = node.get("/v1/kv/%s?recurse" % path, timeout=3)
            except OSError:
                continue
            except Exception:            # noqa: BLE001 - an answer cut short
                continue
            if r.status not in (200, 404):
                continue
            values = {e["Key"]: base64.b64decode(e["Value"] or "").decode()
                      for e in (r.json() if r.status == 200 else [])}
            ops = window.ops[group]
            ops.append(Op("snap", start, time.monotonic(), result=values, who="end@" + node.name))
            late = {o.arg for o in ops if o.unknown and o.kind in ("put", "cas")}
            gone = any(o.unknown and o.kind in ("delete", "clear") for o in ops)
            self.lasting[path] = (values, late, gone)
            return True
        return False

    def turn(self):
        self.open += self.history.closed()
        while self.open and not self.halt.is_set():
            window = self.open[0]
            if self.guard and window.writers:
                self.guard.sift(window)
            if not all(self.lasting.get(window.prefix(window.number, g)) or self.last_read(window, g)
                       for g in sorted(window.ops)):
                break                    # nobody answers now: later
            self.open.pop(0)
            self.pending.append(self.pool.submit(judge, window))
        self.collect(0)

    def collect(self, timeout):
        for job in list(self.pending):
            try:
                number, wrong, undecided, groups = job.result(timeout)
            except concurrent.futures.TimeoutError:
                return
            self.pending.remove(job)
            self.judged += 1
            self.undecided += undecided
            self.groups += groups
            for text in wrong:
                self.report("history", text)

    def run(self):
        try:
            while not self.halt.wait(0.5):
                self.turn()
        except Exception as e:           # noqa: BLE001 - the run fails with it
            self.broken = e

    def lasts(self, node):
        """Everything that was ever read last is still there, or is what a lost write made of it since."""
        lasting = dict(self.lasting)     # before it is looked at: of what is closed meanwhile it may not have all
        r = wait_for("%s shows everything" % node.name, lambda: answered(node))
        have = {}
        for e in (r.json() if r.status == 200 else []):
            have.setdefault(e["Key"].rpartition("/")[0] + "/", {})[e["Key"]] = base64.b64decode(e["Value"] or "").decode()
        for path, (values, late, gone) in lasting.items():
            now = have.get(path, {})
            for key in set(values) | set(now):
                a, b = values.get(key), now.get(key)
                if a != b and not (b in late or (b is None and gone)):
                    self.report("lasting", "%s was %r when its window was closed, and is %r on %s" %
                                (key, a, b, node.name))
        return len(have)

    def finish(self):
        """All clients are gone, the cluster is well: judges what is left."""
        self.halt.set()
        self.join(60)
        self.halt.clear()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.turn()
            if not self.open and not self.history.windows:
                break
            time.sleep(0.5)
        if self.open or self.history.windows:
            self.report("judge", "%d windows could not be closed" % (len(self.open) + len(self.history.windows)))
        self.collect(120)
        self.pool.shutdown()

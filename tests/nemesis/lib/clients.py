"""Clients that work through every node at once, and the history of what they saw.

Keys come in groups of a few under one prefix, and every few seconds the clients go on to fresh groups: a window.  So
histories stay short, and can be judged while the test runs.
"""
import base64
import http.client
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system", "lib"))
from linear import Op  # noqa: E402

WINDOW = 4.0                # seconds
GROUPS, KEYS = 4, 3         # in each window; keys in each group
PREFIX = "nemesis/"
PATIENCE = (0.7, 2.0, 6.0)  # seconds that a client waits for an answer: some give up early, so that outcomes are unknown
# Words of refusals that promise that nothing was done.
NOTHING_DONE = ("No cluster leader", "disk full", "Permission denied", "ACL not found")


class Window:
    """What happened to the groups of one window."""

    def __init__(self, number):
        self.number = number
        self.ops = {}           # group -> [Op]
        self.failed = {}        # group -> values of writes that were refused
        self.indexes = {}       # path -> [(start, end, index, who)]
        self.shown = []         # (path, index, content, who): any read at all, also stale ones
        self.versions = {}      # (key, ModifyIndex) -> value
        self.wrong = []         # what was found wrong at once
        self.rights = []        # with access control: (group, op, token) of those of unknown outcome
        self.writers = {}       # the same: value -> (token, start)

    def version(self, key, index, value, who):
        if self.versions.setdefault((key, index), value) != value:
            self.wrong.append("%s at ModifyIndex %d is %r, and %r (%s)" %
                              (key, index, self.versions[key, index], value, who))

    @staticmethod
    def prefix(number, group):
        return "%s%d/%06d/" % (PREFIX, group, number)


class Everybody:
    """No access control: whoever asks may have it.  guarded.Guard is the other one."""

    def pick(self, rng, group, level):
        """The token for a request."""
        return None

    def headers(self, token):
        return {}

    def mark(self, token):
        """The end of each value that is written with it."""
        return ""

    def tried(self, window, group, token, op, who):
        """A write is about to be asked for."""

    def wrote(self, window, group, token, op, got):
        """What came of it."""

    def read(self, window, group, token, got, found, stale):
        """Is this answer all that is there?  found: (key, ModifyIndex, value)."""
        return True

    def more(self, client):
        """Anything else that clients do; true when it did it."""
        return False


class Got:
    """What came of a request; status None where no answer came."""

    def __init__(self, who, start, end=None, status=None, headers=None, body=b""):
        self.who, self.start, self.end, self.status, self.body = who, start, end, status, body
        self.headers = headers or {}
        self.index = int(self.headers.get("X-Consul-Index", 0))

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")


class History:
    """Windows by number.  judge() of lib/judge.py takes the old ones away."""

    def __init__(self):
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.windows, self.busy = {}, {}
        self.refused, self.counts, self.unknown = {}, {}, 0
        self.written, self.gap = self.began, 0.0        # last acknowledged write; longest time between two

    def now(self):
        return int((time.monotonic() - self.began) / WINDOW)

    def enter(self, who, number):
        """Client `who` starts an operation there: the window stays open until it is done.  None: too late."""
        with self.lock:
            if number < self.now() - 2:
                return None
            self.busy[who] = number
            return self.windows.setdefault(number, Window(number))

    def leave(self, who):
        with self.lock:
            self.busy.pop(who, None)

    def add(self, window, group, op):
        with self.lock:
            window.ops.setdefault(group, []).append(op)
            self.counts[op.kind] = self.counts.get(op.kind, 0) + 1
            self.unknown += op.unknown
            if op.kind not in ("read", "snap") and not op.unknown and op.end > self.written:
                self.gap = max(self.gap, op.end - self.written)
                self.written = op.end

    def saw(self, window, path, start, end, index, entries, who, fresh):
        """What a read showed: entries (key, ModifyIndex, value)."""
        with self.lock:
            if fresh:
                window.indexes.setdefault(path, []).append((start, end, index, who))
            window.shown.append((path, index, tuple(sorted(entries)), who))
            for key, modified, value in entries:
                window.version(key, modified, value, who)

    def fail(self, window, group, value):
        with self.lock:
            window.failed.setdefault(group, set()).add(value)

    def refuse(self, status, text):
        with self.lock:
            what = "%d %s" % (status, text.strip()[:70])
            self.refused[what] = self.refused.get(what, 0) + 1

    def longest_gap(self):
        """Seconds without any acknowledged write, the longest since the last call."""
        with self.lock:
            gap, self.gap = max(self.gap, time.monotonic() - self.written), 0.0
            return gap

    def closed(self):
        """Takes the windows out that nobody will add to any more."""
        with self.lock:
            old = [n for n in self.windows if n < self.now() - 3 and n not in self.busy.values()]
            return [self.windows.pop(n) for n in sorted(old)]

    @property
    def total(self):
        return sum(self.counts.values())


class Client(threading.Thread):
    """One request at a time over kept connections, mostly to one node: so those at nodes that are well go on while the
    others wait."""

    def __init__(self, number, nodes, history, pause, seed, guard=None):
        super().__init__(daemon=True)
        self.guard = guard or Everybody()
        self.number, self.nodes, self.history, self.pause = number, nodes, history, pause
        self.random = random.Random("%d/%d" % (seed, number))
        self.home = nodes[number % len(nodes)]
        self.patience = PATIENCE[number // len(nodes) % len(PATIENCE)]
        self.conns, self.known, self.count = {}, {}, 0
        self.halt = threading.Event()
        self.broken = None

    def ask(self, method, path, body=None, more=0.0, token=None, before=None):
        """before: is told who asks, just before."""
        node = self.home if self.random.random() < 0.8 else self.random.choice(self.nodes)
        who = "%d@%s" % (self.number, node.name)
        start = time.monotonic()
        if before:
            before(who, start)
        c = self.conns.get(node.name)
        if c is None:
            c = self.conns[node.name] = http.client.HTTPConnection(node.addr, 8500)
        c.timeout = self.patience + more
        if c.sock:
            c.sock.settimeout(c.timeout)
        try:
            c.request(method, "/v1/" + path, body=body, headers=self.guard.headers(token))
            r = c.getresponse()
            data = r.read()
            return Got(who, start, time.monotonic(), r.status, dict(r.getheaders()), data)
        except (OSError, http.client.HTTPException):
            c.close()
            self.halt.wait(0.02)         # a node that is down refuses at once: do not spin on it
            return Got(who, start)

    def read(self, window, group, tail, mode, wait=None):
        """One key of the group (tail), or all of it ('').  mode: '' or 'consistent', 'stale'.  Returns the index."""
        path = window.prefix(window.number, group) + tail
        query = "&".join(filter(None, ("" if tail else "recurse", mode, wait)))
        token = self.guard.pick(self.random, group, "read")
        got = self.ask("GET", "kv/" + path + ("?" + query if query else ""), more=2.5 if wait else 0.0, token=token)
        who, start, end, index = got.who, got.start, got.end, got.index
        if got.status not in (200, 404, None):
            self.history.refuse(got.status, got.text)
        found = [(e["Key"], e["ModifyIndex"], base64.b64decode(e["Value"] or "").decode())
                 for e in (json.loads(got.body) if got.status == 200 else [])]
        whole = got.status is None or self.guard.read(window, group, token, got, found, mode == "stale")
        if got.status not in (200, 404) or not whole:
            return 0
        self.history.saw(window, path, start, end, index, found, who, mode != "stale")
        if mode == "stale":
            return index
        values = {key: value for key, _, value in found}
        for key, modified, value in found:
            self.known[key] = (value, modified)
        if tail:
            if not found:
                self.known.pop(path, None)
            self.history.add(window, group, Op("read", start, end, result=values.get(path), who=who, key=path))
        else:
            self.history.add(window, group, Op("snap", start, end, result=values, who=who))
        return index

    def watch(self, window, group):
        """A blocking query over the group, from the index of a read."""
        index = self.read(window, group, "", "")
        if index:
            self.read(window, group, "", "", "index=%d&wait=2s" % index)

    def change(self, window, group, kind):
        self.count += 1
        prefix = window.prefix(window.number, group)
        key = "" if kind == "clear" else prefix + "abc"[self.random.randrange(KEYS)]
        token = self.guard.pick(self.random, group, "write")
        new = None if kind in ("delete", "clear") else "%d-%d%s" % (self.number, self.count, self.guard.mark(token))
        expect, modified = self.known.get(key, (None, 0))
        op = Op(kind, 0, arg=new, expect=expect, key=key)

        def before(who, start):
            op.who, op.start = who, start
            self.guard.tried(window, group, token, op, who)
        if kind in ("clear", "delete"):
            got = self.ask("DELETE", "kv/" + (key or prefix + "?recurse"), token=token, before=before)
        else:
            got = self.ask("PUT", "kv/" + key + ("?cas=%d" % modified if kind == "cas" else ""), new, token=token, before=before)
        if got.status == 200:
            assert got.body in (b"true", b"false"), repr(got.body)
            op.end, op.result = got.end, got.body == b"true"
            assert kind == "cas" or op.result, "%s answered false" % kind
        self.guard.wrote(window, group, token, op, got)
        if got.status not in (200, None):        # an error may have taken effect all the same, unless it says otherwise
            self.history.refuse(got.status, got.text)
            if any(words in got.text for words in NOTHING_DONE):
                if new is not None:
                    self.history.fail(window, group, new)
                return
        self.history.add(window, group, op)

    def one(self, window, group, old):
        dice = self.random.random()
        if old:                          # how did it end?
            self.read(window, group, "", self.random.choice(("", "stale")))
        elif dice < 0.22:
            self.read(window, group, "abc"[self.random.randrange(KEYS)], self.random.choice(("", "consistent")))
        elif dice < 0.44:
            self.read(window, group, "", self.random.choice(("", "consistent", "stale")))
        elif dice < 0.50:
            self.watch(window, group)
        else:
            self.change(window, group, "put" if dice < 0.66 else "cas" if dice < 0.92 else
                        "delete" if dice < 0.98 else "clear")

    def run(self):
        try:
            while not self.halt.is_set():
                now = self.history.now()
                old = now > 0 and self.random.random() < 0.08
                window = self.history.enter(self.number, now - 1 if old else now)
                if window and not self.guard.more(self):
                    self.one(window, self.random.randrange(GROUPS), old)
                self.history.leave(self.number)
                if len(self.known) > 200:
                    self.known.clear()
                self.halt.wait(self.random.uniform(0, 2 * self.pause))
        except Exception as e:           # noqa: BLE001 - whatever it was, the run fails with it
            self.broken = e
            self.history.leave(self.number)

#!/usr/bin/env python3
"""A mixed pool in which members come, go, die, move and change for a while, driven by a seed.

    tests/interop/churn.py [--minutes M] [--seed S] [--ours N] [--serf N] [--plain] [--pause SECONDS]

Checked all the time: no tool at any member shows another in a way that outlives what the protocol's timers allow since the
last change.  Checked at the end: all agree, each user event fired at the two members that always stayed came once to
both, no packet of a friend was refused, and gossipd's memory did not grow.  Exit status 0, 1, or 77 without serf.
"""
import argparse
import collections
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Ours, Pool, namespace  # noqa: E402
from tvframe import MSG, Closed, Conn  # noqa: E402
from waiting import AGAIN, Timeout, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.107.0").rpartition(".")[0]
LIVING_MIN = 2			# of each kind, beside the anchors
GROWTH_KIB = 256		# from the second quarter of a long run to the last: noise of the allocator
GROWTH_SHARE = 0.05
LONG_S = 600			# shorter runs say nothing about growth
PSS_KIB_MAX = 16 * 1024


class Watcher(threading.Thread):
    """Asks all members all the time; remembers since when each shows another otherwise than it is."""

    def __init__(self, churn):
        super().__init__(daemon=True)
        self.churn, self.since, self.worst = churn, {}, collections.Counter()
        self.halt, self.failure, self.rounds = threading.Event(), None, 0

    def run(self):
        while not self.halt.wait(0.5) and self.failure is None:
            for m in list(self.churn.pool.running()):
                before = self.churn.births.get(m.name)
                try:
                    tables = m.tables() if self.rounds % 10 == 0 else {"members": m.table()}
                except (*AGAIN, subprocess.SubprocessError):
                    tables = None       # it may be on its way out; judge() finds one that is mute for long
                except Exception as e:  # noqa: BLE001 - the test fails with it
                    self.failure = "%s: %r" % (m.name, e)
                    return
                with self.churn.lock:
                    if m.running() and self.churn.births.get(m.name) == before:
                        self.judge(m, tables)
            self.rounds += 1

    def judge(self, m, tables):
        for name, truth in self.churn.truth.items():
            wrong = "no answer" if tables is None else None
            for tool, table in (tables or {}).items():
                if not truth.fits(table.get(name), self.churn.births[m.name]):
                    wrong = "%s shows %s, want %s" % (tool, table.get(name), truth)
            self.note(m, name, truth, wrong)

    def note(self, m, name, truth, wrong):
        now, key = time.monotonic(), (m.name, name)
        if wrong is None:
            self.since.pop(key, None)
            return
        since = max(self.since.setdefault(key, now), truth.at, self.churn.births[m.name])
        self.worst[truth.what] = max(self.worst[truth.what], now - since)
        if now - since > truth.limit:
            self.failure = "%s about %s, %.0f s after '%s' (limit %.0f s): %s" % (
                m.name, name, now - truth.at, truth.what, truth.limit, wrong)


class Truth:
    """What is true of a member since when, and how long others may take to see it."""

    def __init__(self, where, status, tags, what, limit):
        self.where, self.status, self.tags, self.what, self.limit = where, status, dict(tags), what, limit
        self.at = time.monotonic()

    def fits(self, shown, born):
        if shown is None:
            return self.status != "alive" and born > self.at - self.limit   # who came later need not know of it
        if shown[:2] != (self.where, self.status):
            return False
        return self.status != "alive" or set(self.tags.items()) <= set(shown[2])

    def __str__(self):
        return "%s %s" % (self.where, self.status)


class Events(threading.Thread):
    """What a node of ours delivers to its clients."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.seen = collections.Counter()
        self.conn = Conn(os.path.join(node.node.run, "gossipd.sock"))
        self.conn.send(MSG.GOSSIP_EVENTS, [])

    def run(self):
        try:
            while True:
                for f in self.conn.frames(1):
                    if f.type == MSG.GOSSIP_USER_EVENT:
                        self.seen[f.body[2]] += 1
        except (OSError, Closed):
            pass


class Churn:
    def __init__(self, pool, args):
        self.pool, self.args, self.rng = pool, args, random.Random(args.seed)
        self.lock = threading.RLock()
        self.truth, self.births, self.counts = {}, {}, collections.Counter()
        self.fired, self.memory = [], collections.defaultdict(list)
        self.names = 0

    # -- the members

    def start(self):
        handler = os.path.join(self.pool.cluster.dir, "events.txt")
        self.handler = handler
        o = self.pool.ours(self.args.ours)
        s = [self.pool.agent(1, handler="user=echo $SERF_USER_EVENT >> " + handler)]
        s += self.pool.agents(self.args.serf - 1, first=2)
        self.pool.formed(o, s)
        self.anchors = [o[0], s[0]]
        for m in o + s:
            self.births[m.name] = time.monotonic()
            self.say(m, "alive", "start", self.pool.limits.spread())
        self.events = Events(o[0])
        self.events.start()

    def say(self, m, status, what, limit):
        self.truth[m.name] = Truth(m.where, status, m.tags if status == "alive" else {}, what, limit)

    def living(self):
        return [m for m in self.pool.running() if m not in self.anchors]

    def gone(self):
        return [m for m in self.pool.members.values() if not m.running()]

    def expendable(self):
        """One that may go: enough of its kind stay."""
        kinds = collections.Counter(m.kind for m in self.living())
        able = [m for m in self.living() if kinds[m.kind] > LIVING_MIN]
        return self.rng.choice(able) if able else None

    # -- what happens to them; each returns whether it did something

    def kill(self):
        m = self.expendable()
        if m is None:
            return False
        self.check_counters(m)
        with self.lock:
            m.kill()
            self.say(m, "failed", "kill", self.pool.limits.detect())
        return m.name

    def leave(self):
        m = self.expendable()
        if m is None:
            return False
        self.check_counters(m)
        with self.lock:
            m.leave()
            # One that gossip missed sees it fail first, and learns with a later exchange that it had left.
            self.say(m, "left", "leave", self.pool.limits.detect() + self.pool.limits.spread())
        return m.name

    def return_(self):
        return self.return_of(self.rng.choice(self.gone()), "return") if self.gone() else False

    def move(self):
        """Back at another address; only when nobody takes it for alive at the old one, which would be two of a name."""
        gone = [m for m in self.gone() if self.truth[m.name].status == "left"]
        if not gone:
            return False
        m = self.rng.choice(gone)
        try:
            if any((v.table().get(m.name) or (0, "left"))[1] != "left" for v in self.pool.running()):
                return False
        except AGAIN:
            return False
        self.names += 1
        with self.lock:
            m.move("%s.%d" % (self.pool.net, 20 + self.names % 80 if isinstance(m, Ours) else 130 + self.names % 80))
        return self.return_of(m, "move")

    def return_of(self, m, what):
        with self.lock:
            self.births[m.name] = time.monotonic()
            m.start(join=self.rng.choice(self.anchors))
            self.say(m, "alive", what, self.pool.limits.spread())
        wait_for(m.name + " answers", m.table)
        return m.name

    def tags(self):
        m = self.rng.choice(self.pool.running())
        with self.lock:
            m.set_tags(gen=str(self.rng.randrange(10 ** 6)))
            self.say(m, "alive", "tags", self.pool.limits.spread())
        return m.name

    def event(self):
        """From one of the anchors, or from anybody: an event of one that dies at once may be lost."""
        m = self.rng.choice(self.anchors if self.rng.random() < 0.7 else self.pool.running())
        name = "e%06d" % self.counts["event"]
        payload = "p" * self.rng.randrange(200)
        if isinstance(m, Ours):
            with Conn(os.path.join(m.node.run, "gossipd.sock")) as c:
                assert c.call(MSG.GOSSIP_FIRE, [0, name, payload.encode(), False], 20)[:2] == [0, ""]
        else:
            m.cmd("event", "-coalesce=false", name, payload)
        if m in self.anchors:
            self.fired.append(name)
        return m.name

    STEPS = (("kill", 3), ("leave", 3), ("return_", 6), ("move", 1), ("tags", 4), ("event", 12))

    def step(self):
        kinds, weights = zip(*self.STEPS)
        what = self.rng.choices(kinds, weights)[0]
        who = getattr(self, what)()
        if who:
            self.counts[what.rstrip("_")] += 1
            if self.args.verbose:
                print("%6.1f %s %s" % (time.monotonic() - self.began, what.rstrip("_"), who), flush=True)

    # -- measures

    def check_counters(self, m):
        if isinstance(m, Ours):
            self.pool.clean_one(m)

    def measure(self):
        for m in self.anchors[:1]:
            for daemon in ("gossipd", "rpcd"):
                self.memory[m.name, daemon].append((time.monotonic() - self.began, m.memory(daemon)))

    def unexpected_ends(self):
        for m in self.pool.members.values():
            if self.truth[m.name].status == "alive" and not m.running():
                return "%s ended by itself\n%s" % (m.name, m.log()[-2000:])
        return None

    def run(self):
        self.began = time.monotonic()
        end, report = self.began + self.args.minutes * 60, self.began
        watcher = Watcher(self)
        watcher.start()
        while time.monotonic() < end:
            self.step()
            trouble = watcher.failure or self.unexpected_ends()
            if trouble:
                raise Timeout(trouble)
            if time.monotonic() > report:
                report = time.monotonic() + 10
                self.measure()
                print("%5.0f s: %d of %d run; %s" % (time.monotonic() - self.began, len(self.pool.running()),
                                                     len(self.pool.members), dict(self.counts)), flush=True)
            time.sleep(self.rng.expovariate(1 / self.args.pause))
        self.finish(watcher)

    def finish(self, watcher):
        for m in self.gone():
            self.return_of(m, "return")
        for t in self.truth.values():
            t.at = max(t.at, time.monotonic())
        self.pool.expected = {name: (t.where, t.status) for name, t in self.truth.items()}
        self.pool.agree("all returned", self.pool.limits.forget())
        watcher.halt.set()
        watcher.join()
        if watcher.failure:
            raise Timeout(watcher.failure)
        self.pool.clean()
        self.measure()
        print("longest disagreements: " + ", ".join("%s %.0f s" % w for w in watcher.worst.most_common()))
        print("looked at all tables %d times" % watcher.rounds)
        self.check_events()
        self.check_memory()

    def check_events(self):
        """Each once: gossip is fast, full exchanges bring what it missed."""
        def heard():
            with open(self.handler) as f:
                return collections.Counter(f.read().split())

        for kind, seen in (("ours", lambda: self.events.seen), ("Serf's", heard)):
            wait_for("all events at " + kind, lambda: all(seen()[e] for e in self.fired), self.pool.limits.spread())
            twice = [e for e, n in seen().items() if n != 1]
            assert not twice, "delivered more than once at %s: %s" % (kind, twice[:5])
        print("%d events fired at members that stayed: all delivered once" % len(self.fired))

    def check_memory(self):
        for (name, daemon), samples in self.memory.items():
            quarter = len(samples) // 4
            part = [[kib for _, kib in samples[i * quarter:(i + 1) * quarter]] for i in range(4)] if quarter else []
            mean = [sum(p) / len(p) for p in part]
            print("PSS of %s at %s, KiB: first %d, last %d, most %d; quarters %s" % (
                daemon, name, samples[0][1], samples[-1][1], max(k for _, k in samples),
                " ".join("%.0f" % x for x in mean)))
            assert daemon != "gossipd" or max(k for _, k in samples) < PSS_KIB_MAX, "more than %d KiB" % PSS_KIB_MAX
            if self.args.minutes * 60 >= LONG_S:
                grown = mean[3] - mean[1]
                assert grown < GROWTH_KIB + GROWTH_SHARE * mean[1], "%s at %s grew by %.0f KiB" % (daemon, name, grown)


def options(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--ours", type=int, default=5)
    p.add_argument("--serf", type=int, default=5)
    p.add_argument("--plain", action="store_true")
    p.add_argument("--pause", type=float, default=2, help="mean seconds between steps")
    p.add_argument("--verbose", "-v", action="store_true")
    return p.parse_args(argv)


def churn(args):
    with Pool(NET + ".1", not args.plain, label="churn", count=args.ours + args.serf) as pool:
        c = Churn(pool, args)
        c.start()
        c.run()
        print("%s of churn with seed %d: %s" % ("%.1f minutes" % args.minutes, args.seed, dict(c.counts)), flush=True)


if __name__ == "__main__":
    namespace()
    churn(options())

#!/usr/bin/env python3
"""The keyring of a mixed pool, turned by `serf keys` and by `clusterctl keyring` while events and queries go on."""
import base64
import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Pool, namespace, together  # noqa: E402
from cluster import main  # noqa: E402
from waiting import NotYet, need, refusal, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.105.0").rpartition(".")[0]


def fresh(length=32):
    return base64.b64encode(os.urandom(length)).decode()


class Traffic(threading.Thread):
    """Events and queries from both sides, all the time; every query must be acknowledged by everybody."""

    def __init__(self, o, s, everybody):
        super().__init__(daemon=True)
        self.o, self.s, self.everybody = o, s, sorted(everybody)
        self.halt, self.count, self.failures = threading.Event(), 0, []

    def run(self):
        while not self.halt.is_set():
            try:
                together(self.from_agent, self.from_ours)
            except (AssertionError, NotYet, subprocess.SubprocessError, ValueError, KeyError) as e:
                self.failures.append(str(e)[:300])
            self.count += 1

    def from_agent(self):
        self.s.cmd("event", "-coalesce=false", "t%d" % self.count, "x" * 100)
        self.ask("serf", lambda timeout: self.s.cmd("query", "-format=json", "-timeout=" + timeout, "q", ""))

    def from_ours(self):
        self.o.ctl("event", "fire", "u%d" % self.count, "x" * 100)
        self.ask("ours", lambda timeout: self.o.ctl("--json", "query", "--timeout", timeout, "q", ""))

    def ask(self, who, query):
        """One that missed a member is asked again, with more time: gossip is best effort, while a key that is not known
        stays unknown, and pool.clean() finds each packet that was refused."""
        for timeout in ("2s", "8s"):
            acks = sorted(json.loads(query(timeout).stdout)["Acks"] or [])
            if acks == self.everybody:
                return
        self.failures.append("query %d of %s: acks of %s" % (self.count, who, acks))

    def wait_round(self):
        """Until a whole round has happened from now on."""
        start = self.count
        wait_for("traffic goes on", lambda: self.count >= start + 2)
        assert not self.failures, self.failures

    def stop(self):
        self.halt.set()
        self.join(60)
        assert not self.failures, self.failures


def judged(what, p, fails):
    """What a tool said, which had to succeed, or to complain so.  NotYet, if it shall be asked again."""
    text = p.stdout + p.stderr
    if fails is None and p.returncode != 0:
        raise refusal("%s: %d: %s" % (what, p.returncode, text), p.returncode in (1, 69, 77))
    assert fails is None or p.returncode != 0 and fails in text, (what, p.returncode, text)
    return text


def serf_keys(s, what, key=None, fails=None):
    """`serf keys`; fails: a text that its complaint must have."""
    return judged(what, s.cmd("keys", "-%s%s" % (what, "=" + key if key else ""), check=False), fails)


def our_keys(o, what, key=None, fails=None, args=()):
    """`clusterctl keyring`; the key comes by standard input."""
    return judged(what, subprocess.run(o.command("keyring", what, *args, *(["-"] if key else [])), capture_output=True,
                                       text=True, timeout=60, input=key), fails)


def listed(o, s, count):
    """key -> members that hold it, which both sides show alike; and our list's primary keys."""
    lan = [pool for pool in json.loads(o.ctl("--json", "keyring", "list", "--show-keys").stdout) if not pool["WAN"]][0]
    need(lan["NumNodes"] == count, lan)
    theirs = {}
    for line in serf_keys(s, "list").splitlines():
        if line.endswith("/%d]" % count):
            key, _, held = line.partition(" ")
            theirs[key] = int(held.strip(" []").partition("/")[0])
    need(lan["Keys"] == theirs, "ours %s, theirs %s" % (lan["Keys"], theirs))
    return theirs, lan["PrimaryKeys"]


class Ring:
    """Whose tool does it, and what all must show afterwards."""

    def __init__(self, pool, o, s, traffic):
        self.pool, self.o, self.s, self.traffic = pool, o, s, traffic
        self.count = len(pool.running())
        self.keys, self.primary = [pool.key], pool.key

    def check(self):
        wait_for("all have these keys", lambda: listed(self.o, self.s, self.count) == (
            {k: self.count for k in self.keys}, {self.primary: self.count}))
        self.traffic.wait_round()

    def turn(self, do, key):
        """A new key in, the old one out.  What did not reach all is done again, as its answer tells to."""
        old = self.primary
        wait_for("it is installed", lambda: do("install", key) is not None)
        self.keys.append(key)
        self.check()
        wait_for("it is used", lambda: do("use", key) is not None)
        self.primary = key
        self.check()
        wait_for("the old one is removed", lambda: do("remove", old) is not None)
        self.keys.remove(old)
        self.check()


def refusals(ring):
    unknown = fresh()
    for do in (lambda *a, **kw: serf_keys(ring.s, *a, **kw), lambda *a, **kw: our_keys(ring.o, *a, **kw)):
        do("remove", ring.primary, fails="emoving the primary key is not allowed")
        do("use", unknown, fails="equested key is not in the keyring")
        do("install", base64.b64encode(b"short").decode(), fails="")
    ring.check()


def everything_on_disk(pool, ring):
    """A restarted node of ours has the ring of now, not the file that it began with; so has an agent with a keyring file."""
    o, s = pool.members["o2"], pool.members["s2"]
    for m in (o, s):
        m.kill()
    pool.down(o, s)
    pool.agree("two are killed", pool.limits.detect())
    o.start()
    s.start(join=ring.o)
    pool.up(o, s)
    pool.agree("they return with the new key", pool.limits.heal())


def rotation():
    with Pool(NET + ".1", True, label="keys", count=6) as pool:
        ours = pool.ours(1, server=True) + pool.ours(2, first=2)
        agents = pool.agents(3)
        for m in agents:
            m.keyring, m.key = os.path.join(m.dir, "keyring"), None
            with open(m.keyring, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
                json.dump([pool.key], f)
        pool.formed(ours, agents)
        o, s = ours[0], agents[0]
        wait_for("a leader", lambda: o.stats("raft")["state"] == "Leader")
        traffic = Traffic(o, s, pool.members)
        traffic.start()
        ring = Ring(pool, o, s, traffic)
        ring.check()
        print("  serf keys", flush=True)
        ring.turn(lambda *a: serf_keys(s, *a), fresh())
        print("  clusterctl keyring", flush=True)
        ring.turn(lambda *a: our_keys(o, *a), fresh())
        print("  a key of 16 bytes", flush=True)
        ring.turn(lambda *a: serf_keys(s, *a), fresh(16))
        ring.turn(lambda *a: our_keys(o, *a), fresh())
        print("  refusals", flush=True)
        refusals(ring)
        our_keys(o, "rotate")
        ring.keys = list(wait_for("one key is left", lambda: [k for k in [listed(o, s, ring.count)[0]] if len(k) == 1])[0])
        assert ring.keys[0] != ring.primary, ring.keys
        ring.primary = ring.keys[0]
        ring.check()
        traffic.stop()
        print("  %d rounds of traffic" % traffic.count, flush=True)
        pool.agree("all still there")
        pool.clean()
        everything_on_disk(pool, ring)
        wait_for("all have it", lambda: listed(o, s, ring.count)[0] == {ring.primary: ring.count})
        pool.clean()


if __name__ == "__main__":
    namespace()
    main(rotation)

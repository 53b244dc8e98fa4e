#!/usr/bin/env python3
"""clusterctl lock: Consul's layouts, one command at a time whatever is killed, frozen or cut, and nothing left behind."""
import base64
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main, skip  # noqa: E402
from netns import FarSide  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.143.0")
LOCK_FLAGS, SEMAPHORE_FLAGS = 0x2DDCCBC058A50C18, 0xE0F69A2BAA414DE0     # of Consul's client library


def entry(n, key):
    r = n.get("/v1/kv/" + key).ok(200, 404)
    return r.json()[0] if r.status == 200 else None


def sessions(n):
    return n.get("/v1/session/list").json()


class Lock:
    """clusterctl lock in the background; its command writes into self.out."""
    count = 0

    def __init__(self, node, prefix, *options, command="echo $$ > OUT; exec sleep 600", stdin=None):
        Lock.count += 1
        self.out = os.path.join(node.cluster.dir, "lock-%d" % Lock.count)
        self.err = open(self.out + ".err", "w+")
        self.proc = subprocess.Popen(
            [os.path.join(BUILD, "ctl", "clusterctl"), "--addr", node.addr + ":8500", "lock", *options, prefix,
             command.replace("OUT", self.out)], stdin=stdin or subprocess.DEVNULL, stdout=self.err, stderr=self.err)

    def text(self):
        try:
            with open(self.out) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def runs(self):
        return self.text().endswith("\n")

    def running(self):
        wait_for("it holds the lock", self.runs)
        return self

    def child_lives(self):
        try:
            with open("/proc/%s/stat" % self.text().split()[0]) as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def errors(self):
        with open(self.err.name) as f:
            return f.read()

    def end(self, sig=None):
        if sig:
            self.proc.send_signal(sig)
        return self.proc.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        if self.proc.poll() is None:
            self.proc.kill()            # its command goes with it
            self.proc.wait()
        self.err.close()


def nothing_left(n, prefix):
    assert n.get("/v1/kv/%s?recurse" % prefix).status == 404, n.get("/v1/kv/%s?recurse" % prefix).text
    assert sessions(n) == [], sessions(n)


def simple(n):
    p = n.ctl("lock", "a/b/", "env; cat")
    env = dict(line.split("=", 1) for line in p.stdout.splitlines() if "=" in line)
    assert env["CONSUL_LOCK_HELD"] == "true" and env["TRIUMVIR_LOCK_KEY"] == "a/b/.lock" and env["TRIUMVIR_LOCK_INDEX"] == "1", env
    assert int(env["TRIUMVIR_FENCE"]) > 1 and len(env["TRIUMVIR_LOCK_SESSION"]) == 36
    later = n.ctl("lock", "/a/b", "echo $TRIUMVIR_FENCE").stdout
    assert int(later) > int(env["TRIUMVIR_FENCE"]), "the fence does not grow"
    nothing_left(n, "a/b")
    assert n.ctl("lock", "a/b", "printf", "%s|", "x y", "--json", "--n", "$HOME").stdout == "x y|--json|--n|$HOME|"
    assert n.ctl("lock", "--pass-stdin", "a/b", "cat", input="through").stdout == "through"
    assert n.ctl("lock", "a/b", "cat", input="not through").stdout == ""
    p = n.ctl("lock", "a/b", "exit 7", check=False)
    assert p.returncode == 0 and "the command ended with status 7" in p.stderr, p
    p = n.ctl("lock", "--child-exit-code", "a/b", "exit 7", check=False)
    assert p.returncode == 2, p
    assert n.ctl("lock", "--child-exit-code", "a/b", "true").returncode == 0
    p = n.ctl("lock", "--child-exit-code", "a/b", "no-such-program", "x", check=False)
    assert p.returncode == 2 and "no-such-program: No such file" in p.stderr, p
    n.kv_put("other/.lock", "x")
    p = n.ctl("lock", "other", "true", check=False)
    assert p.returncode == 1 and "is used for something else" in p.stderr, p
    assert n.kv_get("other/.lock") == b"x"
    n.delete("/v1/kv/other/.lock").ok()
    nothing_left(n, "")


def held(n):
    """The entry is Consul's; who comes second waits, or gives up; a signal ends the command and releases."""
    with Lock(n, "held", "--name", "mine") as one:
        one.running()
        e = entry(n, "held/.lock")
        assert e["Flags"] == LOCK_FLAGS and e["LockIndex"] == 1 and e["Value"] is None, e
        s = n.get("/v1/session/info/" + e["Session"]).json()[0]
        assert s["Name"] == "mine" and s["TTL"] == "15s" and s["Behavior"] == "release", s
        p = n.ctl("lock", "--try", "1s", "held", "true", check=False)
        assert p.returncode == 1 and "was not free within" in p.stderr and len(sessions(n)) == 1, p
        p = n.ctl("lock", "--n", "2", "held", "true", check=False)
        assert p.returncode == 1 and "used for something else, or for a lock" in p.stderr, p
        with Lock(n, "held") as two:
            wait_for("it waits", lambda: len(sessions(n)) == 2)
            assert not two.runs()
            assert one.end(signal.SIGTERM) == 0
            two.running()
            assert not one.child_lives()
            assert entry(n, "held/.lock")["Session"] not in (None, e["Session"])
            assert two.end(signal.SIGINT) == 0 and not two.child_lives()
    nothing_left(n, "held")


def waiting_is_ended(n):
    with Lock(n, "wait") as one:
        one.running()
        with Lock(n, "wait") as two:
            wait_for("it waits", lambda: len(sessions(n)) == 2)
            assert two.end(signal.SIGTERM) == 1 and not two.runs()
        assert len(sessions(n)) == 1
        one.end(signal.SIGTERM)
    nothing_left(n, "wait")


def stubborn(n):
    """What does not end when it is asked is killed, with what it has started."""
    with Lock(n, "stubborn", command="trap '' TERM; sleep 600 & echo $$ $! > OUT; wait; wait; sleep 600") as lock:
        lock.running()
        assert lock.end(signal.SIGTERM) == 0
        for pid in lock.text().split():
            wait_for("%s is gone" % pid, lambda: not os.path.exists("/proc/" + pid))
    nothing_left(n, "stubborn")


def semaphore(n):
    with Lock(n, "sem", "--n", "2") as a, Lock(n, "sem", "--n", "2") as b:
        a.running()
        b.running()
        e = entry(n, "sem/.lock")
        value = json.loads(base64.b64decode(e["Value"]))
        assert e["Flags"] == SEMAPHORE_FLAGS and "Session" not in e and value["Limit"] == 2, e
        assert sorted(value["Holders"]) == sorted(s["ID"] for s in sessions(n)) and set(value["Holders"].values()) == {True}
        for s in value["Holders"]:
            c = entry(n, "sem/" + s)
            assert c["Session"] == s and c["Flags"] == SEMAPHORE_FLAGS, c
        p = n.ctl("lock", "--n", "3", "sem", "true", check=False)
        assert p.returncode == 1 and "has 2 places, not 3" in p.stderr, p
        p = n.ctl("lock", "sem", "true", check=False)
        assert p.returncode == 1 and "or for a semaphore" in p.stderr, p
        with Lock(n, "sem", "--n", "2") as third:
            wait_for("it waits", lambda: len(sessions(n)) == 3)
            assert not third.runs()
            # One dies without a word: its session is what counts.
            dead = [s for s in value["Holders"]][0]
            n.put("/v1/session/destroy/" + dead).ok()
            third.running()
            loser = wait_for("one has lost it", lambda: next((x for x in (a, b) if x.proc.poll() is not None), None))
            assert loser.proc.returncode == 1 and "is lost" in loser.errors() and not loser.child_lives()
            for x in {a, b, third} - {loser}:
                assert x.child_lives() and x.end(signal.SIGTERM) == 0
    nothing_left(n, "sem")


def theirs(n):
    """A holder that is a Consul client: its session and entry are all that counts."""
    s = n.put("/v1/session/create", {"TTL": "60m", "LockDelay": "0s"}).json()["ID"]
    assert n.put("/v1/kv/mixed/.lock?acquire=%s&flags=%d" % (s, LOCK_FLAGS)).body == b"true"
    with Lock(n, "mixed") as ours:
        wait_for("it waits", lambda: len(sessions(n)) == 2)
        assert not ours.runs()
        assert n.put("/v1/kv/mixed/.lock?release=%s&flags=%d" % (s, LOCK_FLAGS)).body == b"true"
        ours.running()
        assert n.put("/v1/kv/mixed/.lock?acquire=%s&flags=%d" % (s, LOCK_FLAGS)).body == b"false"
        ours.end(signal.SIGTERM)
    n.put("/v1/session/destroy/" + s).ok()
    nothing_left(n, "mixed")


def invalidated(n):
    """The session is destroyed: the command ends, and whoever waits gets it after the lock delay."""
    with Lock(n, "inv") as one:
        one.running()
        with Lock(n, "inv") as two:
            wait_for("it waits", lambda: len(sessions(n)) == 2)
            n.put("/v1/session/destroy/" + entry(n, "inv/.lock")["Session"]).ok()
            assert one.end() == 1 and "inv is lost" in one.errors(), one.errors()
            assert not one.child_lives() and not two.runs()
            two.running()
            two.end(signal.SIGTERM)
    nothing_left(n, "inv")


def test_lock():
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        c.formed()
        for part in simple, held, waiting_is_ended, stubborn, semaphore, theirs, invalidated:
            part(n)
            print("     " + part.__name__, flush=True)


class Contender(threading.Thread):
    """Takes the lock again and again.  The kernel's lock on a file tells when two commands run at the same time."""

    def __init__(self, node, name, wrap=()):
        super().__init__(daemon=True)
        self.node, self.name_, self.halt, self.got = node, name, threading.Event(), 0
        self.log = os.path.join(node.cluster.dir, "got")
        self.both = os.path.join(node.cluster.dir, "both")
        self.args = list(wrap) + [os.path.join(BUILD, "ctl", "clusterctl"), "--addr", node.addr + ":8500", "lock", "race",
                                  "flock -n -E 99 %s sh -c 'echo %s >> %s; trap \"\" TERM; while :; do sleep 0.1; done'; "
                                  "[ $? = 99 ] && echo %s >> %s" % (self.both + ".flock", name, self.log, name, self.both)]
        self.proc = None

    def run(self):
        while not self.halt.is_set():
            self.proc = subprocess.Popen(self.args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.proc.wait()
            self.halt.wait(0.2)

    def turns(self):
        try:
            with open(self.log) as f:
                return f.read().split()
        except FileNotFoundError:
            return []

    def holds(self):
        """Whose command runs now, by what it wrote last."""
        t = self.turns()
        return t[-1] if t else None

    def stop(self):
        self.halt.set()
        while self.is_alive():
            if self.proc:
                self.proc.terminate()
            self.join(0.2)


def never_both(c):
    path = os.path.join(c.dir, "both")
    assert not os.path.exists(path), "two commands ran: " + open(path).read()


def holder_of(contenders):
    return wait_for("somebody holds it", lambda: next((x for x in contenders if x.holds() == x.name_), None))


def changes_hands(c, contenders, holder, what):
    before = len(holder.turns())
    wait_for(what, lambda: len(holder.turns()) > before, timeout=120)
    never_both(c)


def test_never_both():
    """Agents killed and frozen, the leader killed."""
    with Cluster(NET) as c:
        servers = c.servers(3)
        c.formed(servers)
        nodes = [c.client("c1", 11, servers[0]), c.client("c2", 12, servers[0])]
        for n in nodes:
            n.up()
        contenders = [Contender(n, n.name) for n in nodes]
        try:
            for x in contenders:
                x.start()
            holder = holder_of(contenders)
            leader = c.leader(servers)
            before = len(holder.turns())
            leader.kill()
            c.leader([s for s in servers if s is not leader])
            leader.start()
            c.formed(servers)
            assert len(holder.turns()) == before and holder.proc.poll() is None, "lost with the leader"
            never_both(c)
            # The agent dies and does not come back: the command ends before another begins.
            holder.node.kill("rpcd")
            changes_hands(c, contenders, holder, "the other one has it")
            holder.node.start("rpcd").up()
            # The agent is there and says nothing.
            holder = holder_of(contenders)
            holder.node.signal(signal.SIGSTOP, "rpcd")
            changes_hands(c, contenders, holder, "the other one has it again")
            holder.node.signal(signal.SIGCONT, "rpcd")
        finally:
            for x in contenders:
                x.stop()
        never_both(c)


def test_cut_off():
    """The holder's side of the network is cut off, in the place of a cable: its command ends before the other side has one."""
    reason = FarSide.impossible()
    if reason:
        skip("test_cut_off: it " + reason)
    far = FarSide(43)
    try:
        with Cluster("10.71.43") as c:
            near = [far.address(i, False) for i in (1, 2, 3)]
            servers = [c.add("n%d" % (i + 1), i + 1, raftd={"bootstrap_expect": 3}, retry_join=[near[0]]).start() for i in range(3)]
            c.formed(servers)
            away = far.address(9, True)
            f = c.add("f1", 9, server=False, retry_join=[near[0]], wrap=far.wrap)
            f.addr = away
            f.set_common(bind=away)
            f.write("rpcd.conf", {"http_addresses": [away], "http_admin": True, "http_allow_remote": True})
            f.start()
            wait_for("it is a member", lambda: servers[0].members().get("f1") == 1)
            here, there = Contender(servers[0], "here"), Contender(f, "there", wrap=far.wrap)
            try:
                there.start()
                holder_of([there])
                here.start()
                wait_for("it waits", lambda: len(sessions(servers[0])) == 2)
                far.cut()
                wait_for("the near side has it", lambda: here.turns()[-1] == "here", timeout=120)
                never_both(c)
                far.mend()
            finally:
                here.stop()
                there.stop()
            never_both(c)
    finally:
        far.close()


if __name__ == "__main__":
    main(test_lock, test_never_both, test_cut_off)

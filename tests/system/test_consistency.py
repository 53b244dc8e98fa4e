#!/usr/bin/env python3
"""Clients read, write and cas, by keys and by transactions, through every node while daemons are killed, frozen and restarted and the
leadership moves: the history of every key must be linearizable, and no version may ever be two values.

TV_SECONDS sets how long the disorder lasts (default 12), TV_SEED repeats a sequence of faults and requests."""
import base64
import http.client
import json
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from linear import Op, check  # noqa: E402
from waiting import wait_for  # noqa: E402

SECONDS = float(os.environ.get("TV_SECONDS", "12"))
SEED = int(os.environ.get("TV_SEED", "0")) or random.randrange(1, 1 << 30)
CLIENTS = 12
KEYS = 5
PARTS = ("/a", "/b", "/c")  # of what a transaction writes
EPOCH = 2.0                 # seconds after which the clients go on to fresh keys, so that histories stay short
ANSWER = 8.0                # seconds that a client waits for an answer


class History:
    def __init__(self):
        self.lock = threading.Lock()
        self.keys, self.versions, self.twice = {}, {}, []
        self.refused = {}

    def add(self, key, op):
        with self.lock:
            self.keys.setdefault(key, []).append(op)

    def answered(self):
        with self.lock:
            return sum(not op.unknown for ops in self.keys.values() for op in ops)

    def version(self, key, index, value):
        """One ModifyIndex names one value."""
        with self.lock:
            if self.versions.setdefault((key, index), value) != value:
                self.twice.append((key, index, value, self.versions[key, index]))

    def refuse(self, status, text):
        with self.lock:
            what = "%d %s" % (status, text.strip()[:60])
            self.refused[what] = self.refused.get(what, 0) + 1


class Client(threading.Thread):
    """One request at a time over kept connections, to a random node each time."""

    def __init__(self, number, nodes, history, began):
        super().__init__(daemon=True)
        self.number, self.nodes, self.history, self.began = number, nodes, history, began
        self.random = random.Random(SEED * 1000 + number)
        self.conns, self.known, self.count = {}, {}, 0
        self.halt = threading.Event()
        self.broken = None

    def ask(self, method, path, body=None):
        """(node, start, end, status, body); status None where no answer came."""
        node = self.random.choice(self.nodes)
        start = time.monotonic()
        c = self.conns.get(node.name)
        if c is None:
            c = self.conns[node.name] = http.client.HTTPConnection(node.addr, 8500, timeout=ANSWER)
        try:
            c.request(method, path, body=body)
            r = c.getresponse()
            data = r.read()
            return node, start, time.monotonic(), r.status, data
        except (OSError, http.client.HTTPException):
            c.close()
            self.halt.wait(0.02)         # a node that is down refuses at once: do not spin on it
            return node, start, None, None, b""

    def read(self, key):
        node, start, end, status, body = self.ask("GET", "/v1/kv/" + key)
        if status == 404:
            value, index = None, 0
        elif status == 200:
            e = json.loads(body)[0]
            value, index = base64.b64decode(e["Value"]).decode(), e["ModifyIndex"]
            self.history.version(key, index, value)
        else:
            if status is not None:
                self.history.refuse(status, body.decode("utf-8", "replace"))
            return
        self.known[key] = (value, index)
        self.history.add(key, Op("read", start, end, result=value, who="%d@%s" % (self.number, node.name)))

    def change(self, key, kind):
        self.count += 1
        new = "%d-%d" % (self.number, self.count)
        expect, index = self.known.get(key, (None, 0))
        path = "/v1/kv/" + key + ("?cas=%d" % index if kind == "cas" else "")
        if kind == "delete":
            node, start, end, status, body = self.ask("DELETE", path)
            new = None
        else:
            node, start, end, status, body = self.ask("PUT", path, new)
        op = Op(kind, start, arg=new, expect=expect, who="%d@%s" % (self.number, node.name))
        if status == 200:
            assert body in (b"true", b"false"), repr(body)
            op.end, op.result = end, body == b"true"
            assert kind == "cas" or op.result, "%s answered false" % kind
        elif status is not None:         # an error may have taken effect all the same
            self.history.refuse(status, body.decode("utf-8", "replace"))
        self.history.add(key, op)

    def last(self, node, key):
        """What is there in the end."""
        value = node.kv_get(key)
        return None if value is None else value.decode()

    def run(self):
        try:
            while not self.halt.is_set():
                epoch = int((time.monotonic() - self.began) / EPOCH)
                key = "lin/%d/%d" % (epoch, self.random.randrange(KEYS))
                dice = self.random.random()
                if dice < 0.5:
                    self.read(key)
                else:
                    self.change(key, "put" if dice < 0.68 else "cas" if dice < 0.95 else "delete")
        except Exception as e:           # noqa: BLE001 - whatever it was, the test fails with it
            self.broken = e


class TxnClient(Client):
    """The same by transactions: what is a key elsewhere are several here, which are read and written together.  Whoever sees them
    unlike sees half of a transaction."""

    def txn(self, *ops):
        return self.ask("PUT", "/v1/txn", json.dumps([{"KV": op} for op in ops]).encode())

    def together(self, key, results):
        """(value, index) of keys that were read at one moment."""
        seen = {(base64.b64decode(r["KV"]["Value"]).decode(), r["KV"]["ModifyIndex"]) for r in results}
        assert len(results) in (0, len(PARTS)) and len(seen) <= 1, "half of a transaction: %s: %r" % (key, results)
        return seen.pop() if seen else (None, 0)

    def read(self, key):
        tree = self.random.random() < 0.5
        ops = [dict(Verb="get-tree", Key=key + "/")] if tree else [dict(Verb="get", Key=key + p) for p in PARTS]
        node, start, end, status, body = self.txn(*ops)
        if status == 409:
            errors = json.loads(body)["Errors"]
            assert len(errors) == len(PARTS), "half of a transaction: %s: %r" % (key, errors)
            value, index = None, 0
        elif status == 200:
            value, index = self.together(key, json.loads(body)["Results"])
        else:
            if status is not None:
                self.history.refuse(status, body.decode("utf-8", "replace"))
            return
        if value is not None:
            self.history.version(key, index, value)
        self.known[key] = (value, index)
        self.history.add(key, Op("read", start, end, result=value, who="%d@%s" % (self.number, node.name)))

    def change(self, key, kind):
        self.count += 1
        new = "%d-%d" % (self.number, self.count)
        value = base64.b64encode(new.encode()).decode()
        expect, index = self.known.get(key, (None, 0))
        ops = [dict(Verb="set", Key=key + p, Value=value) for p in PARTS]
        if kind == "cas":
            ops[-1].update(Verb="cas", Index=index)     # the last: what is before it has to be undone
        elif kind == "delete":
            ops, new = [dict(Verb="delete-tree", Key=key + "/")], None
        node, start, end, status, body = self.txn(*ops)
        op = Op(kind, start, arg=new, expect=expect, who="%d@%s" % (self.number, node.name))
        if status in (200, 409):
            op.end, op.result = end, status == 200
            assert kind == "cas" or op.result, "%s answered %s" % (kind, body)
        elif status is not None:         # an error may have taken effect all the same
            self.history.refuse(status, body.decode("utf-8", "replace"))
        self.history.add(key, op)

    def last(self, node, key):
        """What is there in the end."""
        answer = node.put("/v1/txn", json.dumps([{"KV": dict(Verb="get-tree", Key=key + "/")}]).encode()).ok(200)
        return self.together(key, answer.json()["Results"])[0]


class Nemesis:
    """One fault at a time, each healed before the next."""

    def __init__(self, cluster, servers, nodes):
        self.cluster, self.servers, self.nodes = cluster, servers, nodes
        self.random = random.Random(SEED)
        self.done = {}

    def leader(self):
        return self.cluster.leader(self.servers)

    def crash(self, node, daemon, pause):
        node.kill(daemon)
        time.sleep(pause)
        node.start(daemon)

    def freeze(self, node, daemon, pause):
        node.signal(signal.SIGSTOP, daemon)
        time.sleep(pause)
        node.signal(signal.SIGCONT, daemon)

    def crash_leader(self):
        self.crash(self.leader(), "raftd", self.random.uniform(0, 1.2))

    def freeze_leader(self):
        self.freeze(self.leader(), "raftd", self.random.uniform(0.2, 2.5))

    def crash_follower(self):
        leader = self.leader()
        self.crash(self.random.choice([n for n in self.servers if n is not leader]), "raftd", 0.3)

    def crash_front(self):
        self.crash(self.random.choice(self.nodes), "rpcd", self.random.uniform(0, 0.5))

    def freeze_front(self):
        self.freeze(self.random.choice(self.nodes), "rpcd", self.random.uniform(0.2, 1.5))

    def crash_gossip(self):
        self.crash(self.random.choice(self.nodes), "gossipd", self.random.uniform(0, 0.5))

    def transfer(self):
        leader = self.leader()
        leader.ctl("raft", "transfer-leader", check=False)

    def restart(self):
        node = self.random.choice(self.servers)
        node.stop("raftd")
        node.start("raftd")

    def run(self, seconds):
        end = time.monotonic() + seconds
        acts = (self.crash_leader, self.freeze_leader, self.crash_follower, self.crash_front, self.freeze_front,
                self.crash_gossip, self.transfer, self.restart)
        order = []
        while time.monotonic() < end:
            if not order:
                order = list(acts)
                self.random.shuffle(order)
            act = order.pop()
            act()
            self.done[act.__name__] = self.done.get(act.__name__, 0) + 1
            time.sleep(self.random.uniform(0.1, 0.8))


def judge(history):
    assert not history.twice, "one ModifyIndex, two values: %r" % history.twice[:3]
    for key, ops in sorted(history.keys.items()):
        wrong = check(ops)
        assert wrong is None, "%s is not linearizable (seed %d): %s" % (key, SEED, wrong)


def test_checker_rejects_wrong_histories():
    put, read = "put", "read"
    assert check([Op(put, 0, 1, "a"), Op(read, 2, 3, result="a")]) is None
    # A stale read: b was acknowledged before the read began.
    assert check([Op(put, 0, 1, "a"), Op(put, 2, 3, "b"), Op(read, 4, 5, result="a")])
    # The same while b is in flight is right, but not back again once b was seen.
    assert check([Op(put, 0, 1, "a"), Op(put, 2, 9, "b"), Op(read, 4, 5, result="a")]) is None
    assert check([Op(put, 0, 1, "a"), Op(put, 2, 9, "b"), Op(read, 3, 4, result="b"), Op(read, 5, 6, result="a")])
    # A lost write.
    assert check([Op(put, 0, 1, "a"), Op(read, 2, 3, result=None)])
    # A cas that succeeded twice from one version, and one that failed for no reason.
    assert check([Op(put, 0, 1, "a"), Op("cas", 2, 4, "b", "a", True), Op("cas", 3, 5, "c", "a", True)])
    assert check([Op(put, 0, 1, "a"), Op("cas", 2, 4, "b", "a", True), Op("cas", 3, 5, "c", "a", False)]) is None
    assert check([Op(put, 0, 1, "a"), Op("cas", 2, 3, "b", "a", False)])
    # Without an answer: at any later time or never, but once only.
    lost = Op(put, 2, arg="b")
    assert check([Op(put, 0, 1, "a"), lost, Op(read, 3, 4, result="a"), Op(read, 5, 6, result="b")]) is None
    assert check([Op(put, 0, 1, "a"), lost, Op(read, 3, 4, result="a")]) is None
    assert check([Op(put, 0, 1, "a"), lost, Op(read, 3, 4, result="b"), Op(put, 5, 6, "c"), Op(read, 7, 8, result="b")])
    assert check([Op(put, 0, 1, "a"), Op(read, 1.2, 1.5, result="b"), lost])
    # A delete that was undone.
    assert check([Op(put, 0, 1, "a"), Op("delete", 2, 3), Op(read, 4, 5, result="a")])


def under_faults(net, client_class):
    with Cluster(net) as c:
        servers = c.servers(3)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        wait_for("the client node answers", lambda: client.kv_get("nothing") is None)
        nodes = servers + [client]
        history = History()
        began = time.monotonic()
        clients = [client_class(i, nodes, history, began) for i in range(CLIENTS)]
        for t in clients:
            t.start()
        nemesis = Nemesis(c, servers, nodes)
        nemesis.run(SECONDS)
        wait_for("the history is long enough", lambda: history.answered() > 20 * SECONDS)
        for t in clients:
            t.halt.set()
        for t in clients:
            t.join(3 * ANSWER)
            assert t.broken is None, repr(t.broken)
            assert not t.is_alive()
        c.formed(servers)
        for key in sorted(history.keys):
            for n in nodes:
                start = time.monotonic()
                value = wait_for("%s reads" % n.name, lambda: (clients[0].last(n, key),))[0]
                history.add(key, Op("read", start, time.monotonic(), who="end@" + n.name, result=value))
        judge(history)
        ops = [o for k in history.keys.values() for o in k]
        told = [n.stats("raftd") for n in servers]       # since each one's start
        reads, slow = (sum(int(t[k]) for t in told) for k in ("state_reads", "state_reads_slow"))
        print("     seed %d: %d operations on %d keys, %d without known outcome; %s; %d reads, %d of them by the slow way" %
              (SEED, len(ops), len(history.keys), len(ops) - history.answered(),
               ", ".join("%s %d" % a for a in sorted(nemesis.done.items())), reads, slow))
        for what, count in sorted(history.refused.items()):
            print("     %5d x %s" % (count, what))


def test_history_under_faults_is_linearizable():
    under_faults("127.8.0", Client)


def test_transactions_under_faults_are_serializable():
    """Strictly: those on the same keys have an order that explains all answers, and agrees with the clock (S81)."""
    under_faults("127.8.1", TxnClient)


def test_stale_reads_through_a_client_do_not_go_back():
    """A client that has links to several servers asks one of them: what it told once it does not take back."""
    with Cluster("127.8.2") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        for s in servers:       # whoever asked a server without raftd turns to another one, and keeps both links
            s.kill("raftd")
            wait_for("the client node answers", lambda: client.get("/v1/kv/nothing?stale").status == 404)
            s.start("raftd")
            c.formed(servers)
        links = lambda: int(client.stats("rpcd")["links_open"])         # noqa: E731
        assert links() > 1
        back = []
        for i in range(300):
            key = "back/%d" % i
            client.put("/v1/kv/" + key, "x").ok(200)
            wait_for("it is there", lambda: client.get("/v1/kv/%s?stale" % key).status == 200)
            back += [key for _ in range(4) if client.get("/v1/kv/%s?stale" % key).status != 200]
        assert links() > 1
        assert not back, "%d answers went back: %s" % (len(back), back[:5])


main(test_checker_rejects_wrong_histories, test_stale_reads_through_a_client_do_not_go_back, test_history_under_faults_is_linearizable,
     test_transactions_under_faults_are_serializable)

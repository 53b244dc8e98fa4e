#!/usr/bin/env python3
"""Transactions over whole clusters: through every node, all or nothing for whoever reads, also when a leader dies in the middle;
those that only read leave the log alone; servers of different versions."""
import base64
import http.client
import json
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from oldpeer import STATE, started_with_old  # noqa: E402
from raftcluster import OP, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

KEYS = ["pair/%d" % i for i in range(4)]        # always equal
TREE = 3000                                     # keys of the tree that comes and goes


def kv(verb, key, value=None, **more):
    if value is not None:
        more["Value"] = base64.b64encode(value.encode()).decode()
    return {"KV": dict(Verb=verb, Key=key, **more)}


def txn(node, *ops, query="", timeout=30):
    return node.put("/v1/txn" + query, json.dumps(ops).encode(), timeout=timeout)


def values(answer):
    return [base64.b64decode(r["KV"]["Value"] or b"").decode() for r in answer.json()["Results"]]


def write_all(node, value):
    return txn(node, *[kv("set", k, value) for k in KEYS])


class Reader(threading.Thread):
    """Reads all keys through one node, again and again, in one of three ways; they have to be equal at any moment."""

    def __init__(self, node, query):
        super().__init__(daemon=True)
        self.node, self.query = node, query
        self.over, self.torn, self.reads = threading.Event(), [], 0

    def run(self):
        while not self.over.is_set():
            try:
                a = txn(self.node, *[kv("get", k) for k in KEYS], kv("get-tree", "pair/"), query=self.query, timeout=15)
            except (OSError, http.client.HTTPException):
                continue                # nobody leads just now
            if a.status == 500:
                continue
            seen = values(a.ok(200))
            self.reads += 1
            if len(set(seen)) != 1 or len(seen) != 2 * len(KEYS):
                self.torn.append(seen)

    def stop(self):
        self.over.set()
        self.join(30)
        return self


def test_all_or_nothing_for_readers():
    """Beside a writer, a tree that comes and goes, and the death of a leader."""
    with Cluster("127.96.1") as c:
        servers = c.servers(3)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        write_all(client, "0").ok(200)
        nodes = servers + [client]
        for n in nodes:
            wait_for("%s has them, too" % n.name, lambda: txn(n, kv("get", KEYS[0]), query="?stale").status == 200)
        readers = [Reader(n, q) for n in nodes for q in ("", "?stale", "?consistent")]
        for r in readers:
            r.start()
        acked, number = 0, 0

        def write_some(count, through):
            nonlocal acked, number
            for _ in range(count):
                number += 1
                try:
                    a = write_all(random.choice(through), str(number))
                except (OSError, http.client.HTTPException):
                    continue            # it may have been carried out
                if a.status == 200:
                    acked = number
        write_some(40, nodes)
        assert acked == 40
        for start in range(0, TREE, 60):
            txn(client, *[kv("set", "tree/%06d" % i, "x" * 100) for i in range(start, start + 60)]).ok(200)
        # It goes, and comes back with the last operation's error.
        a = txn(client, kv("delete-tree", "tree/"), *[kv("set", k, "lost") for k in KEYS], kv("get", "tree/000000")).ok(409)
        assert json.loads(a.body) == {"Results": None, "Errors": [{"OpIndex": 1 + len(KEYS), "What": 'key "tree/000000" doesn\'t exist'}]}, a
        assert len(client.get("/v1/kv/tree/?keys").json()) == TREE
        number += 1
        txn(client, kv("delete-tree", "tree/"), *[kv("set", k, str(number)) for k in KEYS], kv("check-not-exists", "tree/000000")).ok(200)
        acked = number
        client.get("/v1/kv/tree/?keys").ok(404)
        leader.kill()
        others = [n for n in servers if n is not leader]
        c.leader(others)
        write_some(40, others + [client])
        wait_for("a write", lambda: write_some(1, others) or acked == number)
        leader.start()
        leader.up()
        c.formed(servers)
        for r in readers:
            r.stop()
        assert not any(r.torn for r in readers), [r.torn[:3] for r in readers if r.torn]
        assert all(r.reads > 0 for r in readers), [r.reads for r in readers]
        for n in nodes:
            assert set(values(txn(n, kv("get-tree", "pair/")).ok(200))) == {str(number)}
        indexes = {e["ModifyIndex"] for e in client.get("/v1/kv/pair/?recurse").json()}
        assert len(indexes) == 1, indexes
        print("     %d reads at %d nodes" % (sum(r.reads for r in readers), len(nodes)), flush=True)


def test_reads_are_no_entries():
    """At a follower and at a client, in each way of asking; without a leader when stale."""
    with Cluster("127.96.2") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        write_all(client, "1").ok(200)
        follower = next(n for n in servers if n is not leader)
        failed = [kv("get", "nope")]

        def quiet():
            """What else comes into the log comes to an end."""
            before = int(leader.stats("raft")["last_log_index"])
            for node in (leader, follower, client):
                for query in ("", "?stale", "?consistent"):
                    assert values(txn(node, *[kv("get", k) for k in KEYS], query=query).ok(200)) == ["1"] * len(KEYS)
                    txn(node, *failed, query=query).ok(409)
            return int(leader.stats("raft")["last_log_index"]) == before
        wait_for("reading writes nothing", quiet)
        before = int(leader.stats("state")["transactions_failed"])
        txn(client, kv("set", "a", "1"), *failed).ok(409)
        wait_for("it is counted", lambda: int(leader.stats("state")["transactions_failed"]) == before + 1)
        for n in servers:
            if n is not follower:
                n.kill()
        a = txn(follower, *[kv("get", k) for k in KEYS], query="?stale").ok(200)
        assert values(a) == ["1"] * len(KEYS)
        wait_for("it is told", lambda: json.loads(txn(follower, *failed, query="?stale").ok(409).body)["KnownLeader"] is False)


def test_clusterctl():
    with Cluster("127.96.3") as c:
        server, = c.servers(1)
        c.formed([server])
        path = os.path.join(c.dir, "ops.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump([kv("set", "a", "one"), kv("get", "a"), {"Node": {"Verb": "get", "Node": {"Node": server.name}}}], f)
        p = server.ctl("txn", path)
        lines = [line.split() for line in p.stdout.splitlines()]
        assert lines[0] == ["Kind", "Name", "Index", "Value"] and len(lines) == 4, p.stdout
        assert lines[1][:2] == ["key", "a"] and lines[2][3] == "one" and lines[3][:2] == ["node", server.name], p.stdout
        p = server.ctl("txn", "--json", "-", input=json.dumps([kv("get", "a")]))
        assert json.loads(p.stdout)["Results"][0]["KV"]["Value"] == base64.b64encode(b"one").decode()
        missing = {"KV": {"LockIndex": 0, "Key": "nope", "Flags": 0, "Value": None, "CreateIndex": 0, "ModifyIndex": 0}}
        assert txn(server, kv("get-or-empty", "nope")).ok(200).json()["Results"] == [missing]
        assert txn(server, kv("set", "c", "1"), kv("get-or-empty", "nope"), kv("get-or-empty", "c")).ok(200).json()["Results"][1] == missing
        assert server.kv_get("c") == b"1" and server.kv_get("nope") is None
        p = server.ctl("txn", "-", check=False, input=json.dumps([kv("set", "b", "x"), kv("get", "nope")]))
        assert p.returncode == 1 and 'clusterctl: txn: operation 1: key "nope" doesn\'t exist\n' in p.stderr, p.stderr
        p = server.ctl("txn", "-", check=False, input="[")
        assert p.returncode == 1 and "Failed to parse body: " in p.stderr, p.stderr
        assert server.kv_get("b") is None


def test_older_server():
    """While a server does not know transactions none that writes is proposed, with a sentence; once it does they are."""
    empty = ["", "", b"", 0, 0, ""]
    write = [[[["set", "k", b"v", 0, 0, ""]]]]
    read = [[[["get", "k", *empty[2:]]]]]
    with RaftCluster(3, net="127.96.4", bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c, STATE)
        wait_for("all vote", lambda: leader.servers() == {"n1": True, "n2": True, "n3": True})
        err, text, _, _ = leader.op(OP.TXN_APPLY, write)
        assert err != 0 and "n3 runs a version of raftd that cannot apply this" in text, (err, text)
        err, text, _, value = leader.op(OP.TXN_READ, read)
        assert err == 0 and value[0] is None and value[1][0][1] == 'key "k" doesn\'t exist', (err, text, value)
        relay.upgrade()
        wait_for("it is carried out", lambda: leader.op(OP.TXN_APPLY, write)[0] == 0)
        c.wait_equal()
        relay.close()


def proxy_of(name):
    """A registration in the catalog, with a proxy of that destination; "": a plain service."""
    proxy = [name, "", "", 0, "", "", None, "", [], [""], [False, []]] if name else None
    service = ["p1", "p", [], "", [], {}, 80, "", [1, 1], False, "connect-proxy" if name else "", 0, 0, proxy, None]
    return ["", "far", "10.0.0.1", "", {}, {}, False, service, None, [], 0]


def test_older_server_and_proxies():
    """The same for what a proxy says of itself: an older server would keep another record than the others."""
    with RaftCluster(3, net="127.96.5", bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c, STATE)
        wait_for("all vote", lambda: leader.servers() == {"n1": True, "n2": True, "n3": True})
        answer = leader.op(OP.CATALOG_REGISTER, proxy_of(""))
        assert answer[0] == 0, answer
        err, text, _, _ = leader.op(OP.CATALOG_REGISTER, proxy_of("web"))
        assert err != 0 and "n3 runs a version of raftd that cannot apply this" in text, (err, text)
        c.wait_equal()
        relay.upgrade()
        wait_for("it is registered", lambda: leader.op(OP.CATALOG_REGISTER, proxy_of("web"))[0] == 0)
        c.wait_equal()
        relay.close()


main(test_all_or_nothing_for_readers, test_reads_are_no_entries, test_clusterctl, test_older_server, test_older_server_and_proxies)

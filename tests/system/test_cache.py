#!/usr/bin/env python3
"""?cached: answers from a node's memory are as new as the servers know, go on without any server, follow again when they are back, and
cost nothing once nobody asks."""
import http.client
import json
import os
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, SANITIZERS, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.119.1")
SHORT = {"cache_ttl": "2s"}


def register(node, service, name, **more):
    node.put("/v1/catalog/register", dict({"Node": name, "Address": "10.1.1.1", "Service": {"Service": service}}, **more)).ok()


def cached(node, path, headers=None, query=""):
    """The answer, and what the cache says of it: "MISS" or the age in seconds."""
    r = node.get("/v1/%s?cached%s" % (path, query), headers=headers).ok()
    return r, r.headers["X-Cache"] if r.headers["X-Cache"] == "MISS" else int(r.headers["Age"])


def names(node, path, headers=None, query=""):
    """Nodes of the instances, from memory or not."""
    return [e["Node"]["Node"] if "Checks" in e else e["Node"] for e in cached(node, path, headers, query)[0].json()]


def numbers(node):
    return {k: int(v) for k, v in node.stats("rpcd").items() if k.startswith("cache_") or k.startswith("calls")}


def test_follows():
    """At a client: each change shows, whoever asks shares one question to the servers, and an index waits for the next one."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        client.up()
        register(client, "web", "a")
        paths = "health/service/web", "catalog/service/web", "catalog/services"
        wait_for("all of them have it", lambda: all(len(s.get("/v1/health/service/web?stale").json()) == 1 for s in servers))
        for path in paths:
            assert cached(client, path)[1] == "MISS", path
            assert cached(client, path)[1] == 0, path
        for name in "bcde":
            register(client, "web", name)
            wait_for(name + " shows", lambda: all(name in names(client, path) for path in paths[:2]))
        register(client, "db", "a")
        wait_for("the other service shows", lambda: "db" in cached(client, paths[2])[0].json())
        client.put("/v1/catalog/deregister", {"Node": "a", "ServiceID": "web"}).ok()
        wait_for("what is removed goes", lambda: names(client, paths[0]) == list("bcde") and names(client, paths[1]) == list("bcde"))

        before = numbers(client)
        for _ in range(50):
            assert cached(client, paths[0])[1] == 0
        after = numbers(client)
        assert after["cache_hits"] == before["cache_hits"] + 50 and after["cache_misses"] == before["cache_misses"], (before, after)
        assert after["calls_forwarded"] - before["calls_forwarded"] < 5, (before, after)    # what the node does otherwise

        index = cached(client, paths[0])[0].index
        got = []
        waiters = [threading.Thread(target=lambda: got.append(cached(client, paths[0], query="&index=%d&wait=50s" % index)))
                   for _ in range(20)]
        under_way = numbers(client)["calls_under_way"]
        for t in waiters:
            t.start()
        wait_for("all of them wait", lambda: numbers(client)["cache_waiting"] == 20)
        assert numbers(client)["calls_under_way"] <= under_way + 1, "a question for each"
        register(client, "web", "z")
        for t in waiters:
            t.join()
        assert [(r.index > index, len(r.json()), x) for r, x in got] == [(True, 5, "MISS")] * 20, got

        metrics = {g["Name"]: g["Value"] for g in client.get("/v1/agent/metrics").json()["Gauges"]}
        assert metrics["consul.cache.entries_count"] == 3, metrics
        assert client.get("/v1/health/service/web?cached&consistent").status == 400
        client.write("rpcd.conf", {"http_addresses": [client.addr], "http_admin": True, "http_config.use_cache": False})
        client.put("/v1/agent/reload").ok()
        r = client.get("/v1/health/service/web?cached&consistent").ok()
        assert "X-Cache" not in r.headers and numbers(client)["cache_entries"] == 0, r.headers
        wait_for("nothing is followed", lambda: numbers(client)["cache_fetches_under_way"] == 0)


def test_no_server():
    """Servers go one by one and come back: the client's answers go on, tell their age, and follow again."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=CALM, rpcd={"rpc_hold_timeout": "1s"})
        client = c.client("c1", 4, servers[0], rpcd={"rpc_hold_timeout": "1s"})
        leader = c.formed(servers)
        client.up()
        for i in range(20):
            register(client, "s%d" % i, "a")
        wait_for("all of them have it", lambda: all(len(s.get("/v1/catalog/services?stale").json()) >= 20 for s in servers))
        paths = ["health/service/s%d" % i for i in range(20)] + ["catalog/services"]
        force = {"Cache-Control": "max-age=0"}
        for path in paths:
            cached(client, path)
        assert cached(client, "catalog/datacenters")[1] == "MISS"
        client.http("POST", "/v1/query", {"Name": "q", "Service": {"Service": "s0"}}).ok()
        wait_for("it is known", lambda: cached(client, "query/q/execute", force)[0].json()["Nodes"])
        followers = [s for s in servers if s is not leader]

        followers[0].kill()
        register(leader, "s0", "b")
        wait_for("with one server less it follows", lambda: names(client, paths[0]) == ["a", "b"])
        leader.kill()                   # no leader any more
        assert names(client, paths[0]) == ["a", "b"]
        followers[1].kill()
        wait_for("all contact is lost", lambda: numbers(client)["cache_entries_lost"] == len(paths))
        wait_for("the age tells", lambda: all(cached(client, p)[1] > 0 for p in paths))
        r, age = cached(client, paths[0])
        assert len(r.json()) == 2 and r.headers["X-Consul-KnownLeader"] == "false", (r.headers, age)
        assert client.get("/v1/health/service/s0").status == 500
        assert client.get("/v1/health/service/new?cached").status == 500

        wait_for("the list of datacenters is old", lambda: cached(client, "catalog/datacenters")[1] > 1)
        assert len(cached(client, "query/q/execute")[0].json()["Nodes"]) == 1
        assert client.get("/v1/catalog/datacenters?cached", headers=force).status == 500
        r, age = cached(client, "catalog/datacenters", dict(force, **{"Cache-Control": "max-age=0, stale-if-error=1000"}))
        assert r.json() == ["dc1"] and age > 1

        before = numbers(client)["cache_fetches"]
        wait_for("some more try", lambda: numbers(client)["cache_fetches_failed"] > before + 1)
        for s in servers:
            s.start()
        c.formed(servers)
        wait_for("all of them follow", lambda: numbers(client)["cache_entries_lost"] == 0)
        assert all(cached(client, p)[1] == 0 for p in paths)
        register(client, "s1", "b")
        wait_for("a change shows", lambda: names(client, paths[1]) == ["a", "b"])

        # A restart forgets; the first question fills it again.
        client.stop("rpcd")
        client.start("rpcd")
        client.up()
        assert numbers(client)["cache_entries"] == 0 and cached(client, paths[0])[1] == "MISS"


def test_frozen():
    """A server that keeps its connections and says nothing is left for another one, although only blocking queries wait for it."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        client.up()
        register(leader, "web", "a")
        wait_for("all of them have it", lambda: all(len(s.get("/v1/health/service/web?stale").json()) == 1 for s in servers))
        assert cached(client, "health/service/web")[1] == "MISS"
        wait_for("it is followed", lambda: numbers(client)["cache_fetches_under_way"] == 1)
        asked = wait_for("somebody is asked", lambda: [s for s in servers if int(s.stats("raftd")["watches"]) > 0])
        if asked[0] is leader:          # its rpcd alone: writes go on
            leader.put("/v1/operator/raft/transfer").ok()
            leader = c.leader([s for s in servers if s is not asked[0]])
        asked[0].signal(signal.SIGSTOP, "rpcd")
        try:
            register(leader, "web", "b")
            wait_for("the change shows", lambda: names(client, "health/service/web") == ["a", "b"])
        finally:
            asked[0].signal(signal.SIGCONT, "rpcd")


def test_unused():
    """What nobody asks for goes, at the client and at the servers."""
    with Cluster(NET) as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server, rpcd=SHORT)
        c.formed([server])
        client.up()
        for i in range(30):
            cached(client, "health/service/s%d" % i)
        assert numbers(client)["cache_entries"] >= 30
        wait_for("it is empty", lambda: numbers(client)["cache_entries"] == 0)
        wait_for("no question is left", lambda: numbers(client)["cache_fetches_under_way"] == 0 and
                 numbers(client)["calls_under_way"] == 0 and server.stats("raftd")["watches"] == "0")
        assert numbers(client)["cache_bytes"] == 0 and numbers(client)["cache_expired"] == 30
        before = numbers(client)["cache_fetches"]
        client.get("/v1/status/leader").ok()
        assert numbers(client)["cache_fetches"] == before


def test_datacenters():
    """Entries of another datacenter follow it, outlive it, and are told apart from those of the own one."""
    with Cluster(NET) as c:
        one, = c.servers(1)
        two, = c.servers(1, dc="dc2", first=11, prefix="d", retry_join_wan=["%s.1" % c.net])
        client = c.client("c1", 4, one)
        c.formed([one])
        c.formed([two])
        client.up()
        register(one, "web", "a")
        wait_for("dc2 is there", lambda: register(client, "web", "far", Datacenter="dc2") or True)
        wait_for("it is asked", lambda: names(client, "health/service/web", query="&dc=dc2") == ["far"])
        assert names(client, "health/service/web") == ["a"]
        register(two, "web", "further")
        wait_for("a change there shows", lambda: names(client, "health/service/web", query="&dc=dc2") == ["far", "further"])
        r = client.get("/v1/health/service/web?cached&dc=nowhere")
        assert (r.status, r.text) == (500, "No path to datacenter") and "X-Cache" not in r.headers, r
        two.kill()
        wait_for("it is away", lambda: cached(client, "health/service/web", query="&dc=dc2")[1] > 0)
        assert names(client, "health/service/web", query="&dc=dc2") == ["far", "further"]
        assert cached(client, "health/service/web")[1] == 0
        two.start()
        wait_for("it is back", lambda: cached(client, "health/service/web", query="&dc=dc2")[1] == 0)


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def ask_many(node, source, paths):
    """All of these over one connection from this address; what was answered other than 200."""
    conn = http.client.HTTPConnection(node.addr, 8500, timeout=60, source_address=(source, 0))
    bad = []
    for path in paths:
        conn.request("GET", path)
        r = conn.getresponse()
        text = r.read()
        if r.status != 200:
            bad.append((path, r.status, text))
    conn.close()
    return bad


def test_flood():
    """100,000 different questions with little room: memory is bounded, and what another client uses is still there."""
    with Cluster(NET) as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server, rpcd={"limits.cache_bytes_max": 1 << 20})
        c.formed([server])
        client.up()
        used = ["health/service/used%d" % i for i in range(50)]
        other = c.net + ".77"
        assert ask_many(client, other, ["/v1/%s?cached" % p for p in used for _ in range(2)]) == []
        flood = ["/v1/health/service/flood%d?cached" % i for i in range(100000)]
        assert ask_many(client, c.net + ".78", flood[:5000]) == []
        before = rss_kib(client.pid("rpcd"))
        threads = [threading.Thread(target=lambda n=n: ends.append(ask_many(client, c.net + ".78", flood[5000 + n::8])))
                   for n in range(8)]
        ends = []
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert ends == [[]] * 8, (numbers(client), ends)
        n = numbers(client)
        assert n["cache_bytes"] <= 1 << 20 and n["cache_evicted"] > 90000, n
        assert n["calls_under_way"] <= n["cache_entries"] + 10, n
        grown = rss_kib(client.pid("rpcd")) - before
        print("     %d entries, %d KiB more" % (n["cache_entries"], grown), flush=True)
        assert grown < 8192 or SANITIZERS, grown
        assert all(cached(client, p)[1] == 0 for p in used)
        wait_for("the server has as many watches", lambda: int(server.stats("raftd")["watches"]) <= numbers(client)["cache_entries"] + 5)


def test_large():
    """A large list from memory goes out in slices; a client that reads nothing of it holds up nobody."""
    with Cluster(NET) as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server)
        c.formed([server])
        client.up()
        meta = {"k%d" % i: "x" * 400 for i in range(8)}
        for i in range(600):
            register(server, "web", "n%03d" % i, NodeMeta=meta)
        path = "/v1/health/service/web?cached"
        assert len(client.get(path).json()) == 600
        whole = client.get(path).ok()
        assert whole.headers["X-Cache"] == "HIT" and len(whole.body) > 1 << 20, len(whole.body)
        silent = socket.create_connection((client.addr, 8500))
        silent.sendall(("GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path).encode() * 3)
        assert json.loads(client.get(path).body) == json.loads(whole.body)
        register(server, "web", "n600")
        wait_for("it follows", lambda: len(client.get(path).json()) == 601)
        silent.close()
        wait_for("nobody is served any more", lambda: int(client.stats("rpcd")["http_under_way"]) == 1)


main(test_follows, test_no_server, test_frozen, test_unused, test_datacenters, test_flood, test_large)

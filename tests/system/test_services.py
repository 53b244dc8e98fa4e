#!/usr/bin/env python3
"""Services and checks of a node: kept over kill -9 in the middle of registrations, compared with the catalog, written once,
and nothing written when nothing changed."""
import http.client
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

SOON = {"sync_interval": "1s", "check_sync_wait": "5s"}
FULL = {"ID": "web1", "Name": "web", "Tags": ["a", "b"], "Meta": {"k": "v", "a": "z"}, "Address": "10.5.0.1", "Port": 80,
        "Weights": {"Passing": 4, "Warning": 2}, "EnableTagOverride": True,
        "TaggedAddresses": {"lan": {"Address": "10.5.0.2", "Port": 81}},
        "Check": {"TTL": "1h", "Status": "passing", "Notes": "n"}}


def register(node, body, query=""):
    r = node.put("/v1/agent/service/register" + query, body)
    assert r.status == 200, r
    return r


def local(node):
    return node.get("/v1/agent/services").ok().json()


def in_catalog(node, of):
    """{id: service} of a node, but for the servers' own."""
    answer = node.get("/v1/catalog/node/" + of.name).ok().json()
    return {k: v for k, v in (answer or {"Services": {}})["Services"].items() if k != "consul"}


def checks_in_catalog(node, of):
    return {c["CheckID"]: c["Status"] for c in node.get("/v1/health/node/" + of.name).ok().json() if c["CheckID"] != "serfHealth"}


def agrees(server, node):
    """The catalog has what the agent has: each service with its fields, each check with its status."""
    here, there = local(node), in_catalog(server, node)
    same = {k: (v["Service"], v["Port"], v["Tags"]) for k, v in here.items()} == \
        {k: (v["Service"], v.get("Port", 0), v["Tags"]) for k, v in there.items()}
    return same and {k: c["Status"] for k, c in node.get("/v1/agent/checks").ok().json().items()} == checks_in_catalog(server, node)


def applied(server):
    return int(server.stats("raft")["applied_index"])


def compared(node, more=2):
    """Waits until the agent has compared all of the catalog so many times from now on."""
    def count():
        return int(node.stats("rpcd")["sync_comparisons"])
    enough = wait_for("the agent tells of itself", lambda: [count()])[0] + more
    wait_for("%d more comparisons" % more, lambda: count() >= enough)


def test_restart_writes_nothing():
    with Cluster("127.60.140") as c:
        quiet = dict(SOON, disable_coordinates=True)        # which are written every few seconds
        server, = c.servers(1, raftd=CALM, rpcd=quiet)
        node = c.client("c1", 2, server, rpcd=quiet)
        c.formed([server])
        node.up()
        register(node, FULL)
        assert node.put("/v1/agent/service/maintenance/web1?enable=true&reason=disk").status == 200
        assert node.put("/v1/agent/maintenance?enable=true").status == 200
        wait_for("catalog and agent agree", lambda: agrees(server, node))
        wait_for("the leader has written its own configuration", lambda: server.get(
            "/v1/operator/autopilot/configuration").ok().json()["ModifyIndex"] > 0)
        before, index = local(node), in_catalog(server, node)["web1"]["ModifyIndex"]
        for how in (node.stop, node.kill):
            how("rpcd")
            log = applied(server)
            node.start("rpcd")
            node.up()
            assert local(node) == before
            compared(node, 3)
            assert agrees(server, node)
            assert in_catalog(server, node)["web1"]["ModifyIndex"] == index
            assert applied(server) == log, "%d entries were written" % (applied(server) - log)
        notes = {k: v["Notes"] for k, v in node.get("/v1/agent/checks").json().items()}
        assert notes["_service_maintenance:web1"] == "disk" and "no reason was provided" in notes["_node_maintenance"]
        assert node.get("/v1/agent/health/service/id/web1?format=text").body == b"maintenance"
        assert [e for e in server.get("/v1/health/service/web?passing").json()] == []
        assert node.put("/v1/agent/service/maintenance/web1?enable=false").status == 200
        assert node.put("/v1/agent/maintenance?enable=false").status == 200
        wait_for("web passes again", lambda: len(server.get("/v1/health/service/web?passing").ok().json()) == 1)


class Registering(threading.Thread):
    """Registers and deregisters services until rpcd goes away: what was answered is known, the last one is not."""

    def __init__(self, node, begin):
        super().__init__()
        self.node, self.number, self.known, self.unknown = node, begin, {}, None

    def run(self):
        rng = random.Random(self.number)
        while True:
            drop = self.known and rng.random() < 0.3
            name = rng.choice(list(self.known)) if drop else "s%d" % self.number
            self.number += 1
            body = {"Name": name, "Port": self.number, "Checks": [{"TTL": "1h", "Status": "passing"}, {"TTL": "2h"}]}
            self.unknown = name
            try:
                r = self.node.put("/v1/agent/service/deregister/" + name) if drop else \
                    self.node.put("/v1/agent/service/register", body)
            except (OSError, http.client.HTTPException):
                return
            assert r.status == 200, r
            if drop:
                del self.known[name]
            else:
                self.known[name] = self.number
            self.unknown = None


def test_kill_in_the_middle():
    """What was answered is there, with all its checks; and the catalog agrees within a comparison or two."""
    with Cluster("127.60.141") as c:
        server, = c.servers(1, raftd=CALM)
        node = c.client("c1", 2, server, rpcd=dict(SOON, check_sync_wait="20ms"))
        c.formed([server])
        node.up()
        known, number = {}, 0
        for _ in range(5):
            r = Registering(node, number)
            r.known = known
            r.start()
            time.sleep(0.3 + random.random() / 2)
            node.kill("rpcd")
            r.join(30)
            assert not r.is_alive()
            number = r.number
            node.start("rpcd")
            node.up()
            here, checks = local(node), node.get("/v1/agent/checks").json()
            surely = {k: v for k, v in known.items() if k != r.unknown}
            assert {k: v["Port"] for k, v in here.items() if k != r.unknown} == surely
            for name in here:       # all of a registration, or nothing
                assert {"service:%s:1" % name, "service:%s:2" % name} <= set(checks), (name, checks)
            assert len(checks) == 2 * len(here)
            if r.unknown in here:
                known[r.unknown] = here[r.unknown]["Port"]
            else:
                known.pop(r.unknown, None)
            wait_for("catalog and agent agree", lambda: agrees(server, node))
        print("     %d services registered or deregistered, 5 kills" % number, flush=True)


def test_the_catalog_follows():
    """What somebody else puts into the catalog, or takes out, is mended; tags of others count where they may."""
    with Cluster("127.60.142") as c:
        server, = c.servers(1, raftd=CALM)
        node = c.client("c1", 2, server, rpcd=SOON)
        c.formed([server])
        node.up()
        register(node, FULL)
        register(node, {"Name": "api", "Port": 1, "Tags": ["own"]})
        wait_for("catalog and agent agree", lambda: agrees(server, node))
        put = {"Node": node.name, "Address": node.addr, "SkipNodeUpdate": True}
        theirs = dict(in_catalog(server, node)["web1"], Tags=["theirs"])
        for service in (theirs, {"Service": "stranger"}, {"Service": "api", "Port": 2, "Tags": ["not"]}):
            service = {k: v for k, v in service.items() if k not in ("Proxy", "Connect", "CreateIndex", "ModifyIndex")}
            assert server.put("/v1/catalog/register", dict(put, Service=service)).status == 200
        wait_for("tags of others are taken over", lambda: local(node)["web1"]["Tags"] == ["theirs"])
        wait_for("catalog and agent agree", lambda: agrees(server, node))
        assert in_catalog(server, node)["api"]["Tags"] == ["own"]
        assert server.put("/v1/catalog/deregister", {"Node": node.name, "ServiceID": "web1"}).status == 200
        wait_for("web1 comes back", lambda: "web1" in in_catalog(server, node) and agrees(server, node))
        assert "consul" in server.get("/v1/catalog/node/" + server.name).json()["Services"]


def test_servers_are_restored():
    """The servers get a state from before: what was registered since comes back, what went since goes, with no restart (S152)."""
    with Cluster("127.60.147") as c:
        server, = c.servers(1, raftd=CALM)
        node = c.client("c1", 2, server, rpcd=SOON)
        c.formed([server])
        node.up()
        register(node, {"Name": "gone", "Port": 1})
        wait_for("catalog and agent agree", lambda: agrees(server, node))
        archive = server.get("/v1/snapshot").ok().body
        register(node, FULL)
        node.put("/v1/agent/service/deregister/gone").ok()
        wait_for("catalog and agent agree", lambda: agrees(server, node))
        assert set(in_catalog(server, node)) == {"web1"}
        # The next comparison may come before the answer does.
        server.put("/v1/snapshot", archive).ok()
        wait_for("the restored catalog is what the agent has", lambda: set(in_catalog(server, node)) == {"web1"} and
                 agrees(server, node))


def test_damaged_file():
    with Cluster("127.60.143") as c:
        server, = c.servers(1, raftd=CALM, rpcd=SOON)
        c.formed([server])
        register(server, FULL)
        server.stop("rpcd")
        path = os.path.join(server.data, "rpcd", "checks.json")
        with open(path) as f:
            whole = f.read()
        json.loads(whole)
        with open(path, "w") as f:
            f.write(whole[:len(whole) // 2])
        server.start("rpcd")
        server.up()
        assert local(server) == {}
        assert "moved to %s.bad, starting without services and checks" % path in server.log("rpcd")
        with open(path + ".bad") as f:
            assert f.read() == whole[:len(whole) // 2]
        wait_for("the catalog agrees", lambda: in_catalog(server, server) == {})


def journal(node):
    return os.path.join(node.data, "rpcd", "checks.json.journal")


def test_damaged_journal():
    """A journal that breaks off, or whose end is nonsense: what is before it is kept, the rest is set aside with a sentence."""
    with Cluster("127.60.145") as c:
        server, = c.servers(1, raftd=CALM, rpcd=SOON)
        c.formed([server])
        server.up()
        for i, damage in enumerate((lambda b: b[:-7], lambda b: b + bytes(100), lambda b: b[:-1] + bytes([b[-1] ^ 1]))):
            names = ["s%d-%d" % (i, k) for k in range(3)]
            for name in names:
                register(server, {"Name": name, "Port": 1, "Check": {"TTL": "1h"}})
            server.kill("rpcd")
            with open(journal(server), "rb") as f:
                whole = f.read()
            with open(journal(server), "wb") as f:
                f.write(damage(whole))
            server.start("rpcd")
            server.up()
            lost = set() if damage(whole).startswith(whole) else {names[-1]}
            assert set(local(server)) >= set(names) - lost and not lost & set(local(server)), local(server)
            assert set(server.get("/v1/agent/checks").json()) == {"service:" + s for s in local(server)}
            assert server.log("rpcd").count("checks.json.journal: its last ") == i + 1
            assert os.path.getsize(journal(server)) == 0, "all is in one file again"
            with open(journal(server) + ".bad", "rb") as f:
                assert damage(whole).endswith(f.read())
            wait_for("catalog and agent agree", lambda: agrees(server, server))


def test_the_journal_is_folded():
    """Now and then all is written as one file and the journal begins anew; a kill at any time loses nothing."""
    big = {"Meta": {"k%d" % i: "v" * 500 for i in range(40)}}       # 20 kB each
    with Cluster("127.60.146") as c:
        server, = c.servers(1, raftd=CALM, rpcd=SOON)
        c.formed([server])
        server.up()

        def folds():
            return int(server.stats("rpcd")["registry_folds"])
        port = 0
        for goal in (1, 2, 1):
            while folds() < goal:
                port += 1
                register(server, dict(big, Name="big%d" % (port % 5), Port=port))
            assert os.path.getsize(journal(server)) < 3 << 20
            server.kill("rpcd")
            server.start("rpcd")
            server.up()
            assert local(server)["big%d" % (port % 5)]["Port"] == port and len(local(server)) == 5
            assert folds() <= 1 and os.path.getsize(journal(server)) == 0       # what was there is in one file by now
        server.stop("rpcd")
        assert os.path.getsize(journal(server)) == 0
        with open(os.path.join(server.data, "rpcd", "checks.json")) as f:
            assert len([e for e in json.load(f) if "Service" in e]) == 5
        server.start("rpcd")


main(test_restart_writes_nothing, test_kill_in_the_middle, test_the_catalog_follows, test_servers_are_restored, test_damaged_file,
     test_damaged_journal, test_the_journal_is_folded)

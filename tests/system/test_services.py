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
            # As many comparisons as it takes to be sure: each one reads the catalog once or more.
            time.sleep(5)
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


main(test_restart_writes_nothing, test_kill_in_the_middle, test_the_catalog_follows, test_damaged_file)

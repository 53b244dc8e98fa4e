#!/usr/bin/env python3
"""A cluster forms, is written to and read from everywhere, across two datacenters."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402


def two_datacenters(c):
    servers = c.servers(3)
    client = c.client("c1", 4, servers[0])
    remote = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=["%s.1" % c.net])[0]
    c.formed(servers)
    c.formed([remote])
    wait_for("client sees servers", lambda: client.get("/v1/status/leader").body not in (b'""', b""))
    wait_for("dc2 known to all of dc1", lambda: all(
        "dc2" in n.get("/v1/catalog/datacenters").json() for n in servers))
    return servers, client, remote


def test_two_datacenters():
    with Cluster("127.60.1") as c:
        servers, client, remote = two_datacenters(c)
        # Members agree on every node.
        everybody = {"n1": 1, "n2": 1, "n3": 1, "c1": 1}
        for n in servers + [client]:
            wait_for("members on " + n.name, lambda: n.members() == everybody)
        wan = {"n1.dc1": 1, "n2.dc1": 1, "n3.dc1": 1, "m1.dc2": 1}
        for n in servers + [remote]:
            wait_for("WAN members on " + n.name, lambda: n.members(wan=True) == wan)
        for n in servers + [client]:
            assert n.get("/v1/catalog/datacenters").json() == ["dc1", "dc2"], n.name
        # A write through any node is at once readable on every server, without ?stale.
        for i, writer in enumerate(servers + [client]):
            writer.kv_put("k%d" % i, "v%d" % i)
            for reader in servers + [client]:
                assert reader.kv_get("k%d" % i) == b"v%d" % i, (writer.name, reader.name)
        # The other datacenter is reached by name, in both directions, and keeps its own data.
        assert remote.kv_get("k0", "?dc=dc1") == b"v0"
        assert remote.kv_get("k0") is None
        for n in servers + [client]:
            n.kv_put("far/" + n.name, "x", "?dc=dc2")
            assert remote.kv_get("far/" + n.name) == b"x"
            assert n.kv_get("far/" + n.name) is None
        r = client.get("/v1/kv/k0?dc=nowhere")
        assert r.status == 500 and "No path to datacenter" in r.text, r
        # clusterctl agrees, over TCP and over the unix socket.
        out = client.ctl("members").stdout
        assert all(name in out for name in everybody), out
        assert servers[0].get("/v1/status/leader", unix=True).status == 200
        info = servers[0].ctl("info").stdout
        for field in ("applied_index", "commit_index", "fsm_pending", "last_log_index", "last_log_term",
                      "last_snapshot_index", "last_snapshot_term", "num_peers", "state", "term"):
            assert "\t%s = " % field in info, field
        # A lost datacenter harms no other, and comes back by itself.
        remote.stop()
        servers[0].kv_put("alone", "1")
        wait_for("dc2 is seen as gone", lambda: servers[0].members(wan=True)["m1.dc2"] != 1, 120)
        r = servers[0].get("/v1/kv/far/n1?dc=dc2")
        assert r.status == 500, r
        remote.start()
        wait_for("dc2 answers again", lambda: client.kv_get("far/n1", "?dc=dc2") == b"x", 120)
        # The leader keeps the members in the catalog.
        nodes = {n["Node"] for n in client.get("/v1/catalog/nodes").json()}
        assert nodes >= {"n1", "n2", "n3"}, nodes
        wait_for("the client is in the catalog",
                 lambda: "c1" in {n["Node"] for n in client.get("/v1/catalog/nodes").json()})
        client.kill()
        wait_for("serfHealth of the dead client is critical",
                 lambda: [k["Status"] for k in servers[0].get("/v1/health/node/c1").json()] == ["critical"], 60)
        for n in servers + [remote]:
            n.stop()


def test_blocking_query_from_client():
    with Cluster("127.60.2") as c:
        servers = c.servers(3)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        wait_for("client is up", lambda: client.kv_get("a") is None)
        client.kv_put("a", "1")
        index = client.get("/v1/kv/a").index
        import threading
        got = []
        waiters = [threading.Thread(target=lambda n=n: got.append(n.get("/v1/kv/a?wait=60s&index=%d" % index).json()))
                   for n in servers + [client, client]]
        for t in waiters:
            t.start()
        servers[1].kv_put("a", "2")
        for t in waiters:
            t.join(70)
        assert len(got) == len(waiters) and all(g[0]["ModifyIndex"] > index for g in got), got


def test_restart_keeps_everything():
    """SIGTERM changes no membership; a cluster that was stopped whole carries on by itself."""
    with Cluster("127.60.3") as c:
        servers = c.servers(3)
        c.formed(servers)
        servers[0].kv_put("kept", "yes")
        before = servers[0].get("/v1/operator/raft/configuration").json()["Servers"]
        for n in servers:
            n.stop()
        for n in servers:
            n.start()
        c.formed(servers)
        after = servers[0].get("/v1/operator/raft/configuration").json()["Servers"]
        assert {s["ID"] for s in before} == {s["ID"] for s in after}
        for n in servers:
            assert n.kv_get("kept") == b"yes"


def test_other_datacenter_hangs():
    """The other datacenter says nothing, then comes and goes: requests for it fail in time, one's own data and leader know nothing
    of it (S147, S150)."""
    with Cluster("127.60.5") as c:
        near = c.servers(3, rpcd={"answer_timeout": "2s"}, raftd=CALM)
        far = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=["%s.1" % c.net])[0]
        leader = c.formed(near)
        c.formed([far])
        for n in near:
            wait_for("dc2 answers " + n.name, lambda: n.kv_put("far", n.name, "?dc=dc2") or True)
        term, halt, done = leader.term(), threading.Event(), []

        def write(n):
            while not halt.is_set():
                n.kv_put("near/" + n.name, "x")
                done.append(n.name)
        writers = [threading.Thread(target=write, args=(n,)) for n in near]
        far.signal(signal.SIGSTOP)
        for t in writers:
            t.start()
        try:
            # More than a link carries at once wait for it; all of them are answered, and those for here meanwhile.
            got = []
            askers = [threading.Thread(target=lambda n=n: got.append(n.get("/v1/kv/far?dc=dc2").status)) for n in near for _ in range(50)]
            for t in askers:
                t.start()
            for t in askers:
                before = len(done)
                t.join(100)
                wait_for("writes here go on", lambda: len(done) > before)
            assert got == [500] * len(askers), set(got)
            far.signal(signal.SIGCONT)
            for _ in range(3):
                far.kill("gossipd")
                far.start("gossipd")
            for n in near:
                wait_for("dc2 answers " + n.name, lambda: n.kv_get("far", "?dc=dc2"))
        finally:
            halt.set()
            for t in writers:
                t.join()
        assert set(done) == {n.name for n in near}
        assert leader.is_leader() and {n.term() for n in near} == {term}


main(test_two_datacenters, test_other_datacenter_hangs, test_blocking_query_from_client, test_restart_keeps_everything)

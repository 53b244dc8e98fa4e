#!/usr/bin/env python3
"""Servers and clients that come back at another address, with their data (S62, S71, S128)."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, Writer, main, rpcd_conf  # noqa: E402
from waiting import Told, wait_for  # noqa: E402

ALIVE, FAILED = 1, 4
# Nothing but the check itself may decide: a dead name could otherwise move after a time.
GOSSIP = {"profile": "local", "profile_wan": "local", "dead_reclaim": "0s"}
SLOW = dict(GOSSIP, **{"lan.suspicion_mult": 60, "wan.suspicion_mult": 60})     # a dead member is shown alive for minutes


def peers(node):
    return Told((s["Node"], s) for s in node.get("/v1/operator/raft/configuration").json()["Servers"])


def address_of(node, name, wan=False):
    return {m["Name"]: m["Addr"] for m in node.get("/v1/agent/members" + ("?wan=1" if wan else "")).json()}.get(name)


def move(node, addr):
    node.addr = addr
    node.set_common(bind=addr)
    node.write("rpcd.conf", rpcd_conf(addr))


def two_datacenters(c, gossipd):
    """Three servers of dc1, one of dc2, one WAN pool."""
    c.gossipd = gossipd
    one = c.servers(3, raftd=CALM)
    two = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=[one[0].addr])
    c.formed(one)
    c.formed(two)
    for n in one + two:
        wait_for("%s knows the WAN pool" % n.name, lambda n=n: n.members(wan=True) ==
                 {"n1.dc1": ALIVE, "n2.dc1": ALIVE, "n3.dc1": ALIVE, "m1.dc2": ALIVE})
    return one, two


def follows(mover, was, servers, others):
    """Its address in both pools and in the configuration, by the same seat; it never stopped."""
    leader = next(n for n in servers if n is not mover)
    for n in [s for s in servers if s is not mover] + others:
        wait_for("%s follows in the WAN pool" % n.name, lambda n=n: address_of(n, mover.name + ".dc1", True) == mover.addr)
    for n in servers:
        wait_for("%s follows in the LAN pool" % n.name, lambda n=n: address_of(n, mover.name) == mover.addr and
                 n.members()[mover.name] == ALIVE)
    wait_for("the configuration follows", lambda: peers(leader)[mover.name]["Address"] == mover.addr + ":8300")
    now = peers(leader)[mover.name]
    assert now["ID"] == was["ID"] and now["Voter"] and len(peers(leader)) == 3, peers(leader)
    assert all(mover.running(d) for d in mover.daemons), "it stopped"


def moves(net, gossipd, seen_failed):
    with Cluster(net) as c:
        one, two = two_datacenters(c, gossipd)
        leader = c.leader(one)
        mover = next(n for n in one if n is not leader)
        others = [n for n in one if n is not mover]
        was = peers(leader)[mover.name]
        w = Writer(others, pause=0.02)
        w.start()
        mover.kill()
        if seen_failed:
            for n in others + two:
                wait_for("it is seen as failed in the WAN pool", lambda n=n: n.members(True)[mover.name + ".dc1"] == FAILED)
            for n in others:
                wait_for("it is seen as failed", lambda n=n: n.members()[mover.name] == FAILED)
        else:
            assert leader.members()[mover.name] == ALIVE
        move(mover, c.net + ".33")
        mover.start()
        follows(mover, was, one, two)
        if not seen_failed:
            assert "EventMemberFailed: " + mover.name not in leader.log("gossipd"), "its former address was to be shown as alive"
        count = len(w.acked)
        wait_for("writes go on", lambda: len(w.acked) > count + 20)
        w.stop()
        wait_for("it reads them all", lambda: w.check(mover))
        wait_for("it answers the other datacenter", lambda: two[0].put("/v1/kv/x?dc=dc1", "y").body == b"true")
        wait_for("the catalog follows", lambda: mover.addr in [
            e["Address"] for e in leader.get("/v1/catalog/nodes").json() if e["Node"] == mover.name])
        for n in one + two:
            assert "Name conflict" not in n.log("gossipd"), n.log("gossipd")
        # And home again.
        mover.kill()
        move(mover, c.net + ".34")
        mover.start()
        follows(mover, was, one, two)


def test_at_once():
    """While gossip still shows it at its former address as alive."""
    moves("127.115.1", SLOW, False)


def test_after_it_failed():
    """When its former address is known to be dead."""
    moves("127.115.2", GOSSIP, True)


def test_client_moves():
    with Cluster("127.115.3", gossipd=SLOW) as c:
        servers = c.servers(1)
        c.formed(servers)
        client = c.client("c1", 9, servers[0]).up()
        wait_for("it is a member", lambda: servers[0].members().get("c1") == ALIVE)
        client.kill()
        move(client, c.net + ".39")
        client.start()
        wait_for("its address follows", lambda: address_of(servers[0], "c1") == client.addr)
        client.up()
        wait_for("it works", lambda: client.put("/v1/kv/k", "v").body == b"true")
        assert "Name conflict" not in client.log("gossipd") + servers[0].log("gossipd")


def copy_data(old, new):
    shutil.rmtree(new.data)
    shutil.copytree(old.data, new.data)
    for path, _, files in os.walk(old.data):
        for f in [""] + files:
            st = os.stat(os.path.join(path, f))
            os.chown(os.path.join(new.data, os.path.relpath(path, old.data), f), st.st_uid, st.st_gid)


def test_live_copy():
    """The same name and node id while both answer: the copy stops, with the remedy; the original notices only that."""
    with Cluster("127.115.4") as c:
        one, two = two_datacenters(c, GOSSIP)
        leader = c.leader(one)
        original = next(n for n in one if n is not leader)
        before = peers(leader)
        copy = c.add("copy", 9, node_name=original.name, retry_join=[leader.addr], raftd=CALM)
        original.stop()
        copy_data(original, copy)
        original.start()
        c.formed(one)
        for n in one + two:
            wait_for("it is back", lambda n=n: n.members(True).get(original.name + ".dc1") == ALIVE)
        copy.start("gossipd")
        copy.expect_end("gossipd", 1, timeout=120)
        log = copy.log("gossipd")
        assert "has our name %s and our node id %s, and answers" % (original.name, before[original.name]["ID"]) in log, log
        assert "empty data_dir and a node_name of its own" in log
        assert all(original.running(d) for d in original.daemons) and peers(leader) == before
        for n in one:
            assert address_of(n, original.name) == original.addr
        assert original.put("/v1/kv/k", "v").body == b"true"


def test_another_id():
    """Another node of that name: the newcomer stops with the advice, and the old one goes on."""
    with Cluster("127.115.5") as c:
        one, _ = two_datacenters(c, GOSSIP)
        leader = c.leader(one)
        old = next(n for n in one if n is not leader)
        new = c.add("new", 9, node_name=old.name, retry_join=[leader.addr], raftd=CALM)
        new.start("gossipd")
        new.expect_end("gossipd", 1, timeout=120)
        assert "Give this node another node_name" in new.log("gossipd"), new.log("gossipd")
        assert "Give this node" not in old.log("gossipd") and all(old.running(d) for d in old.daemons)
        assert address_of(leader, old.name) == old.addr
        wait_for("the old one knows whose turn it is", lambda: new.addr + ":830" in old.log("gossipd"))


main(test_at_once, test_after_it_failed, test_client_moves, test_live_copy, test_another_id)

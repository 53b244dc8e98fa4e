#!/usr/bin/env python3
"""kill -9 each daemon of each node in turn under a steady write load: no acknowledged write is lost, every node
answers the same, and killing rpcd or gossipd leaves the Raft term as it was."""
import os
import signal
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, Writer, main  # noqa: E402
from waiting import wait_for  # noqa: E402


# Seconds, the median of ten: promised is a second or so, and a machine that has much else to do may take longer; the worst
# one is bounded by wait_for's patience.  doc/testing.md says why.
FAILOVER = 5.0


def all_equal(nodes, prefix):
    def same():
        answers = [n.get("/v1/kv/%s/?recurse&stale" % prefix).ok().body for n in nodes]
        return all(a == answers[0] for a in answers)
    wait_for("all nodes answer the same", same)


def test_kill_each_daemon_under_load():
    with Cluster("127.60.11") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        wait_for("client is up", lambda: client.kv_get("w/0") is None)
        nodes = servers + [client]
        writer = Writer(nodes, pause=0.002)
        writer.start()
        wait_for("first writes", lambda: len(writer.acked) > 20)
        first = min(writer.acked.copy())
        for node in nodes:
            for daemon in node.daemons:
                leader = c.leader(servers)
                observer = leader if leader is not node else next(n for n in servers if n is not node)
                term = observer.term()
                count = len(writer.acked)
                node.kill(daemon)
                wait_for("writes go on after killing %s of %s" % (daemon, node.name),
                         lambda: len(writer.acked) > count + 10)
                node.start(daemon)
                wait_for("%s answers again" % node.name, lambda: node.kv_get(first) is not None)
                if daemon != "raftd":
                    assert observer.term() == term, "killing %s of %s moved the term" % (daemon, node.name)
        writer.stop()
        assert len(writer.acked) > 100
        c.formed(servers)
        for node in nodes:
            writer.check(node)
        all_equal(nodes, "w")
        print("     %d writes acknowledged, %d refused, %d without answer" %
              (len(writer.acked), len(writer.errors), len(writer.unknown)))


def test_leader_killed_ten_times():
    """Writes go on soon after the leader's machine is lost; the median is reported (bound: see doc/testing.md)."""
    with Cluster("127.60.12") as c:
        servers = c.servers(3)
        c.formed(servers)
        gaps = []
        for i in range(10):
            leader = c.leader(servers)
            others = [n for n in servers if n is not leader]
            others[0].kv_put("f/%d" % i, "x")
            start = time.monotonic()
            leader.signal(signal.SIGKILL)
            wait_for("a write after the leader's death",
                     lambda: others[i % 2].put("/v1/kv/f/%d" % i, "y", timeout=10).body == b"true", interval=0.005)
            gaps.append(time.monotonic() - start)
            leader.wait_end()
            leader.start()
            c.formed(servers)
        print("     leader lost to next acknowledged write: median %.0f ms, worst %.0f ms" %
              (statistics.median(gaps) * 1000, max(gaps) * 1000))
        assert statistics.median(gaps) < FAILOVER, gaps


def test_all_servers_killed_at_once():
    with Cluster("127.60.13") as c:
        servers = c.servers(3)
        c.formed(servers)
        writer = Writer(servers)
        writer.start()
        wait_for("writes", lambda: len(writer.acked) > 200)
        for n in servers:
            n.signal(signal.SIGKILL)
        for n in servers:
            n.wait_end()
        writer.stop()
        for n in servers:
            n.start()
        c.formed(servers)
        for n in servers:
            writer.check(n)
        all_equal(servers, "w")


main(test_kill_each_daemon_under_load, test_leader_killed_ten_times, test_all_servers_killed_at_once)

#!/usr/bin/env python3
"""Adding and removing servers, as the operator's guide tells it: same commands, same log lines."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, wait_for  # noqa: E402

CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever
VOTES = 120         # seconds: a server that is added votes when it was healthy for 10 s at a stretch


def in_log(node, daemon, text):
    return wait_for("%s of %s logs '%s'" % (daemon, node.name, text), lambda: text in node.log(daemon))


def peers(node):
    return {s["Node"]: s for s in node.get("/v1/operator/raft/configuration").json()["Servers"]}


def test_add_servers_one_by_one():
    with Cluster("127.60.21") as c:
        first = c.add("n1", 1, raftd=dict(CALM, bootstrap=True)).start()
        c.formed([first])
        client = c.client("c1", 4, first)
        for i in range(500):
            first.kv_put("d/%03d" % i, "x" * 200)
        # A server without peers warns and waits.
        second = c.add("n2", 2, raftd=dict(CALM)).start()
        in_log(second, "raftd", "[WARN] raft: EnableSingleNode disabled, and no known peers. Aborting election.")
        wait_for("client is a member", lambda: first.members().get("c1") == 1)
        # Any member may be named for join, also a client.
        out = second.ctl("join", "--wait", client.addr)
        assert "Successfully joined cluster by contacting 1 nodes." in out.stdout, out
        in_log(first, "raftd", "[INFO] raft: Added peer %s:8300, starting replication" % second.addr)
        third = c.add("n3", 3, raftd=dict(CALM)).start().up()
        third.ctl("join", first.addr)
        leader = c.formed([first, second, third], VOTES)
        # info on the leader and on the new server come to match.
        wait_for("the new server has caught up", lambda: leader.stats("raft")["last_log_index"] ==
                 third.stats("raft")["last_log_index"] == third.stats("raft")["applied_index"])
        assert leader.stats("raft")["num_peers"] == "2" and leader.stats("raft")["state"] == "Leader"
        assert third.kv_get("d/499") == b"x" * 200
        assert len(third.get("/v1/kv/d/?keys&stale").json()) == 500


def test_graceful_leave_and_refusal():
    with Cluster("127.60.22") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        other = next(n for n in servers if n not in (leader, follower))
        # With one server dead, removing another would lose the quorum: refused, with the arithmetic.
        other.kill()
        wait_for("the dead one is seen", lambda: leader.members()[other.name] == 4)
        r = follower.ctl("leave", check=False)
        assert r.returncode == 1 and re.search(r"quorum", r.stderr), r
        assert follower.running("raftd") and len(peers(leader)) == 3
        other.start()
        c.formed(servers)
        # All healthy: the follower leaves, both sides log it, and its daemons stop with status 0.
        wait_for("the returned one is seen", lambda: leader.members()[other.name] == 1)
        leader = c.leader(servers)
        follower = next(n for n in servers if n is not leader)
        # The returned one is in the pool before its log is in touch with the leader, and until then it does not count.
        wait_for("it may leave", lambda: follower.ctl("leave", check=False).returncode == 0)
        assert follower.wait_end() == [0, 0, 0], follower.wait_end()
        log = follower.log("rpcd") + follower.log("raftd")
        assert "server starting leave" in log
        in_log(follower, "raftd", "[INFO] raft: Removed ourself, transitioning to follower")
        in_log(leader, "raftd", "member '%s' left, deregistering" % follower.name)
        in_log(leader, "raftd", "[INFO] raft: Removed peer %s:8300, stopping replication" % follower.addr)
        assert len(peers(leader)) == 2
        wait_for("it is deregistered", lambda: follower.name not in {
            n["Node"] for n in leader.get("/v1/catalog/nodes").json()})
        # It may come back: it is added again.
        follower.start()
        c.formed(servers, VOTES)


def test_leader_leaves():
    with Cluster("127.60.23") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        rest = [n for n in servers if n is not leader]
        rest[0].kv_put("a", "1")
        leader.ctl("leave")
        assert leader.wait_end() == [0, 0, 0]
        new = c.leader(rest)
        new.kv_put("b", "2")
        wait_for("two servers are left", lambda: len(peers(new)) == 2)
        assert rest[0].kv_get("a") == b"1" and rest[1].kv_get("b") == b"2"


def test_force_leave_stays_away():
    with Cluster("127.60.24") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        dead = next(n for n in servers if n is not leader)
        dead.kill()
        wait_for("it is seen as failed", lambda: leader.members()[dead.name] == 4)
        assert dead.name in peers(leader), "a failed server keeps its seat"
        leader.ctl("force-leave", dead.name)
        wait_for("it is seen as left", lambda: leader.members()[dead.name] == 3)
        wait_for("it lost its seat", lambda: dead.name not in peers(leader))
        in_log(leader, "raftd", "[INFO] raft: Removed peer %s:8300, stopping replication" % dead.addr)
        # Started again as it was, it stays away: what was removed stays removed.
        dead.start()
        wait_for("it is a member again", lambda: leader.members()[dead.name] == 1)
        leader.kv_put("x", "1")
        wait_for("the refusal is logged", lambda: "was removed" in leader.log("raftd"))
        assert dead.name not in peers(leader)
        r = leader.ctl("force-leave", "nobody", check=False)
        assert r.returncode == 1 and "nobody" in r.stderr, r


def test_force_leave_before_it_is_seen_as_failed():
    with Cluster("127.60.26") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        dead = next(n for n in servers if n is not leader)
        wait_for("the pool is whole", lambda: set(leader.members().values()) == {1} and len(leader.members()) == 3)
        dead.kill()
        leader.ctl("force-leave", dead.name)
        wait_for("it lost its seat", lambda: dead.name not in peers(leader))
        dead.start()
        wait_for("the refusal is logged", lambda: "was removed" in leader.log("raftd"))
        assert dead.name not in peers(leader)


def test_crash_and_return():
    with Cluster("127.60.25") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        victim = next(n for n in servers if n is not leader)
        victim.kill()
        wait_for("it is seen as failed", lambda: leader.members()[victim.name] == 4)
        for i in range(200):
            leader.kv_put("away/%d" % i, "x")
        victim.start()
        c.formed(servers)
        wait_for("it has what it missed", lambda: len(victim.get("/v1/kv/away/?keys&stale").json()) == 200)
        wait_for("it is seen as alive", lambda: leader.members()[victim.name] == 1)
        victim.signal(signal.SIGTERM)
        victim.wait_end()
        assert len(peers(leader)) == 3, "SIGTERM is not leave"


main(test_add_servers_one_by_one, test_graceful_leave_and_refusal, test_leader_leaves, test_force_leave_stays_away,
     test_force_leave_before_it_is_seen_as_failed, test_crash_and_return)

#!/usr/bin/env python3
"""A server whose disk is put back to an older state, as a reverted snapshot of a virtual machine does: told on both sides, a learner
until it has caught up, never a reason to lose what was acknowledged (S61)."""
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import Told, need, wait_for  # noqa: E402

HEALTH = "/v1/operator/autopilot/health"
RAFTD = dict(CALM, server_stabilization_time="2s")
PEER = "the disk of %s (%s:8300) went back to an older state: it had acknowledged the log up to index"
OWN = "the disk of this server went back to an older state: other servers remember what it lacks now"
FAULT = "its disk went back to an older state"


def folder(node):
    return os.path.join(node.data, "raftd")


def copy_disk(node):
    """Its raftd folder as it is while raftd does not run; the copy's path."""
    node.kill("raftd")
    copy = os.path.join(node.dir, "raftd-before")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder(node), copy, symlinks=True)
    for at, names, files in os.walk(folder(node)):
        for name in [""] + names + files:
            old = os.path.join(at, name) if name else at
            new = os.path.join(copy, os.path.relpath(old, folder(node)))
            st = os.lstat(old)
            os.lchown(new, st.st_uid, st.st_gid)
    node.start("raftd")
    return copy


def put_back(node, copy):
    if node.running("raftd"):
        node.kill("raftd")
    shutil.rmtree(folder(node))
    os.rename(copy, folder(node))


def servers_of(node):
    return Told((s["Node"], s) for s in node.get("/v1/operator/raft/configuration").json()["Servers"])


def voters(node):
    return sorted(name for name, s in servers_of(node).items() if s["Voter"])


def health_of(node, name):
    return Told((s["Name"], s) for s in node.get(HEALTH).ok(200, 429).json()["Servers"])[name]


def write(node, prefix, count):
    for i in range(count):
        node.kv_put("%s/%d" % (prefix, i), b"%s %d" % (prefix.encode(), i))


def has(node, prefix, count):
    """By its own state."""
    return all(node.kv_get("%s/%d" % (prefix, i), "?stale") == b"%s %d" % (prefix.encode(), i) for i in range(count))


def index(node):
    return int(node.stats("raft")["last_log_index"])


def with_copy(c):
    """Three servers that have the keys before/*, and the copy of the disk of one that does not lead."""
    servers = c.servers(3, raftd=RAFTD)
    leader = c.formed(servers)
    victim = next(n for n in servers if n is not leader)
    write(leader, "before", 3)
    copy = copy_disk(victim)
    wait_for("it is back", lambda: victim.stats("raft")["state"] == "Follower" and index(victim) == index(leader))
    return servers, leader, victim, copy


def all_healthy(leader):
    h = leader.get(HEALTH).json()
    return h["Healthy"] and h["FailureTolerance"] == 1


def reverted():
    """As the operator sees it: told, a learner, caught up, a voter again; the leader leads on."""
    with Cluster("127.66.1") as c:
        servers, leader, victim, copy = with_copy(c)
        term = leader.term()
        write(leader, "after", 5)
        wait_for("all have it", lambda: all(has(n, "after", 5) for n in servers))
        put_back(victim, copy)
        victim.start("raftd")
        wait_for("its leader says so", lambda: PEER % (victim.name, victim.addr) in leader.log("raftd"))
        wait_for("it says so", lambda: OWN in victim.log("raftd"))
        for log in (leader.log("raftd"), victim.log("raftd")):
            line = next(text for text in log.splitlines() if "went back to an older state" in text)
            assert "[ERR]" in line and "was a snapshot of its virtual machine reverted" in line, line
        # It may have caught up before anybody looks.
        wait_for("it was made a learner", lambda: "Demoted peer %s:8300 to learner" % victim.addr in leader.log("raftd"))
        assert "Demoting server %s" % victim.name in leader.log("raftd")
        wait_for("it has what it lacked", lambda: has(victim, "after", 5))
        wait_for("it is a voter again", lambda: len(voters(leader)) == 3)
        wait_for("all is well", lambda: all_healthy(leader))
        assert leader.is_leader() and leader.term() == term, "another leader"
        assert int(leader.stats("raft")["disks_went_back"]) == 1, leader.stats("raft")
        own = wait_for("its figures", lambda: victim.stats("raft"))
        assert own["disk_went_back"] == "0" and own["disks_went_back"] == "1", own
        assert "has everything again that its disk had lost" in victim.log("raftd")
        # Its next start is one as any other.
        victim.kill("raftd")
        victim.start("raftd")
        wait_for("it follows", lambda: victim.stats("raft")["disk_went_back"] == "0" and index(victim) == index(leader))
        time.sleep(6)               # hellos go on every 2.5 s
        assert victim.log("raftd").count(OWN) == 1, victim.log("raftd")


def another_one_stopped():
    """Without it there is no quorum: it keeps its seat, nothing is confirmed by it before it has caught up, and writes go on then."""
    with Cluster("127.66.2") as c:
        servers, leader, victim, copy = with_copy(c)
        third = next(n for n in servers if n not in (leader, victim))
        term = leader.term()
        third.stop("raftd")
        wait_for("that is seen", lambda: not health_of(leader, third.name)["Healthy"])
        write(leader, "after", 5)
        wait_for("it has them", lambda: has(victim, "after", 5))
        put_back(victim, copy)
        victim.start("raftd")
        wait_for("its leader says so", lambda: PEER % (victim.name, victim.addr) in leader.log("raftd"))
        wait_for("a write", lambda: leader.kv_put("then", b"1") is None)
        wait_for("it has all again", lambda: has(victim, "after", 5) and victim.kv_get("then", "?stale") == b"1")
        assert leader.is_leader() and leader.term() == term, "another leader"
        assert len(voters(leader)) == 3, voters(leader)
        assert "%s (%s:8300) has everything again" % (victim.name, victim.addr) in leader.log("raftd")
        third.start("raftd")
        wait_for("all is well", lambda: all_healthy(leader))
        assert has(leader, "after", 5)


def leader_is_gone():
    """The two that are left are a majority; but what one of them has forgotten to have acknowledged, the other never had."""
    with Cluster("127.66.3") as c:
        servers, leader, victim, copy = with_copy(c)
        third = next(n for n in servers if n not in (leader, victim))
        write(leader, "early", 5)
        wait_for("all have it", lambda: all(has(n, "early", 5) for n in servers))
        time.sleep(6)               # both hear hellos every 2.5 s: the third remembers how far the victim has come
        third.signal(signal.SIGSTOP, "raftd")
        write(leader, "late", 5)
        wait_for("it has that", lambda: has(victim, "late", 5))
        leader.kill("raftd")
        put_back(victim, copy)
        third.signal(signal.SIGCONT, "raftd")
        victim.start("raftd")
        wait_for("it is told", lambda: OWN in victim.log("raftd"))
        wait_for("it says so", lambda: victim.stats("raft")["disk_went_back"] == "1")
        wait_for("status says so", lambda: need(FAULT in victim.ctl("status", check=False).stdout, victim.ctl("status", check=False)) or
                 True)
        wait_for("and why there is no leader", lambda: "gives no vote until a leader has sent what is missing" in
                 victim.get(HEALTH + "?stale").text)
        for n in (victim, third):
            assert n.stats("raft")["leader"] == "", "a leader that lacks what was acknowledged"
        leader.start("raftd")
        new = wait_for("a leader", lambda: next((n for n in servers if n.is_leader()), None))
        assert new is not victim
        for n in servers:
            wait_for("nothing is lost on " + n.name, lambda n=n: has(n, "late", 5) and has(n, "early", 5))
        wait_for("all is well", lambda: all_healthy(new))


main(reverted, another_one_stopped, leader_is_gone)

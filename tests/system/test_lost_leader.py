#!/usr/bin/env python3
"""Followers elect at once when the leader's raftd has died, by what their links tell; and not when a link breaks, or a leader is silent."""
import os
import re
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, Node, main, skip  # noqa: E402
import netns  # noqa: E402
from netns import FarSide, run  # noqa: E402
from waiting import wait_for  # noqa: E402

SAID = "nobody listens there"


def prompt(nodes):
    """Elections that these have begun without waiting."""
    return sum(int(n.stats("raft")["prompt_elections"]) for n in nodes)


def linked(nodes):
    """Each with each, as raftd sees it."""
    wait_for("the servers are linked", lambda: all(n.stats("raftd")["links"] == str(len(nodes) - 1) for n in nodes))


def calm(leader, term, *others):
    """It leads in that term still, and of the others nobody has asked for votes before its time, nor seen another term."""
    now = (leader.is_leader(), leader.term(), [n.term() for n in others], prompt(others))
    assert now == (True, term, [term] * len(others), 0), now


def follows(node, leader):
    return node.stats("raft")["leader"] == leader.stats("raft")["leader"] != ""


def raftd_killed_five_times():
    """Each time the followers say why they stand.  The election timeout is 2 s."""
    with Cluster("127.61.1") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        for i in range(5):
            leader = c.leader(servers)
            others = [n for n in servers if n is not leader]
            linked(servers)
            before = prompt(others)
            leader.kill("raftd")
            new = wait_for("a new leader", lambda: next((n for n in others if n.is_leader()), None))
            wait_for("a write", lambda: others[i % 2].kv_put("k", b"%d" % i) is None)
            assert prompt(others) > before, "the new leader stood because its patience ended"
            assert SAID in new.log("raftd") or any(SAID in n.log("raftd") for n in others)
            leader.start("raftd")
            wait_for("it follows", lambda: follows(leader, new))
            c.formed(servers)


def silent_leader_gives_no_evidence():
    with Cluster("127.61.2") as c:
        servers = c.servers(3)
        c.formed(servers)
        leader = c.leader(servers)
        others = [n for n in servers if n is not leader]
        leader.signal(signal.SIGSTOP, "raftd")
        wait_for("a new leader", lambda: next((n for n in others if n.is_leader()), None))
        assert prompt(others) == 0
        leader.signal(signal.SIGCONT, "raftd")
        wait_for("it follows", lambda: next((n for n in others if n.is_leader() and follows(leader, n)), None))
        c.formed(servers)


def both_sides_say_why():
    """raftd of the leader is stopped for 4 s: the others say for how long it was silent, and itself that it did not run."""
    with Cluster("127.61.4") as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        for i in range(20):             # some log write may be under way then
            leader.kv_put("k", b"%d" % i)
        leader.signal(signal.SIGSTOP, "raftd")
        wait_for("a new leader", lambda: next((n for n in others if n.is_leader()), None))
        time.sleep(4)                   # the fault itself: how long it lasts is what the log has to say
        leader.signal(signal.SIGCONT, "raftd")
        wait_for("it follows", lambda: next((n for n in others if n.is_leader() and follows(leader, n)), None))
        said = [int(ms) for n in others for ms in
                re.findall(r"no leader known: nothing heard from %s \(%s:8300\) for (\d+) ms" % (leader.name, leader.addr), n.log("raftd"))]
        assert said and min(said) >= 300 and max(said) < 4000, said
        stood = re.findall(r"\[WARN\] raft: this process did not run for (\d+\.\d) s: ", leader.log("raftd"))
        assert any(3.5 <= float(s) < 10 for s in stood), (stood, leader.log("raftd"))
        assert "slow disk" not in leader.log("raftd")
        assert int(leader.stats("raft")["pauses"]) >= 1 and int(leader.stats("raft")["pause_longest_ms"]) >= 3500


def sockets(wrap, which, *how):
    """The open TCP connections that ss chooses: a line each."""
    return set(run(wrap + ["ss", "--no-header", "--numeric", "--tcp", *how, "state", "established", which]).splitlines())


def reset(wrap, which):
    """These are closed by force, with a reset for the other end.  Were there any?"""
    return sockets(wrap, which, "--kill") != set()


def ends(lines):
    """(address, address) of each, without what is queued in them."""
    return {tuple(line.split()[-2:]) for line in lines}


def reset_links_are_dialled_again():
    """All links with the leader are reset, and it listens as ever."""
    if not shutil.which("ss"):
        skip("needs ss (package iproute2)")
    if not netns.isolated():
        skip("needs root and a network namespace")
    with Cluster("127.61.3") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        linked(servers)
        leader = c.leader(servers)
        term, others = leader.term(), [n for n in servers if n is not leader]
        links = ends(sockets([], "dport = :8300"))
        assert len(links) == 6, links
        if not reset([], "dport = :8300"):
            skip("ss cannot close sockets here")
        wait_for("other links", lambda: len(ends(sockets([], "dport = :8300")) - links) == 6)
        linked(servers)
        for n in servers:
            wait_for("a write through " + n.name, lambda: n.kv_put("k", n.name.encode()) is None)
        calm(leader, term, *others)


def make_far(c, side):
    """Two servers on this side, and one on the far side that everybody lets in."""
    near = [side.address(i, False) for i in (1, 2)]
    join = {"retry_join": [near[0]], "raftd": dict(CALM, bootstrap_expect=3)}
    nodes = [Node(c, "n%d" % (i + 1), a, **join) for i, a in enumerate(near)]
    nodes.append(Node(c, "n3", side.address(3, True), wrap=side.wrap, **join))
    for n in nodes:
        c.nodes[n.name] = n
        n.start()
    return nodes


def refuse(wrap, addr):
    """Nobody on that side reaches the raftd at this address any more: new connections are reset."""
    run(wrap + ["nft", "table ip tvrefuse { chain o { type filter hook output priority 0; "
                "ip daddr %s tcp dport 8300 reject with tcp reset; }; }" % addr])


def one_link_is_lost():
    """To one follower its leader looks as if it had died, and to nobody else: it asks for votes, and the term stays."""
    why = FarSide.impossible()
    if why or not shutil.which("ss"):
        skip("a far side " + (why or "needs ss (package iproute2)"))
    side = FarSide(3)
    try:
        with Cluster("10.71.3") as c:
            nodes = make_far(c, side)
            near, far = nodes[:2], nodes[2]
            c.formed(nodes)
            linked(nodes)
            if not near[0].is_leader():
                near[0].ctl("raft", "transfer-leader", "n1")
            leader = wait_for("n1 leads", lambda: near[0] if near[0].is_leader() else None)
            wait_for("the far one follows", lambda: follows(far, leader))
            term = leader.term()
            refuse(side.wrap, leader.addr)      # before the links go
            refuse([], far.addr)
            for which in "dport = :8300 and dst %s" % leader.addr, "sport = :8300":
                reset(side.wrap, which)         # where the firewall has not done so
            wait_for("it asks for votes at once", lambda: SAID in far.log("raftd"))
            for i in range(20):
                wait_for("writes go on", lambda: near[i % 2].kv_put("k", b"%d" % i) is None)
            wait_for("it stands as its timer says, too", lambda: far.stats("raft")["leader"] == "")
            other = next(n for n in near if n is not leader)
            calm(leader, term, other)
            assert far.term() == term, far.term()
            for wrap in (side.wrap, []):
                run(wrap + ["nft", "delete", "table", "ip", "tvrefuse"])
            wait_for("it follows again", lambda: follows(far, leader))
            calm(leader, term, other)
            assert far.term() == term, far.term()
    finally:
        side.close()


if __name__ == "__main__":
    main(raftd_killed_five_times, silent_leader_gives_no_evidence, both_sides_say_why, reset_links_are_dialled_again, one_link_is_lost)

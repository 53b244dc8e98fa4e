#!/usr/bin/env python3
"""A leader that is stopped in order hands over: no write is refused or left unknown, and no election is lost time."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tvframe  # noqa: E402
from cluster import Cluster, Writer, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.27.2")
SAID = "transferring leadership before stopping"
# An election takes longer than a request is held: leadership that is not handed over costs refused writes.  And a leader that
# gets no processor for a while stays leader.
SLOW = {"raftd": {"election_timeout": "4s"}, "rpcd": {"rpc_hold_timeout": "3s"}}


def change_under_load(c, servers, act):
    """While writes go through the others: act(leader), then wait for a new leader.  Returns (old, new leader)."""
    leader = c.formed(servers)
    term = leader.term()
    writers = [Writer([n], prefix="%s-%s-%d" % (n.name, leader.name, term)) for n in servers if n is not leader]
    for w in writers:
        w.start()
    wait_for("writes flow", lambda: all(len(w.acked) > 50 for w in writers))
    act(leader)
    new = c.leader([n for n in servers if n is not leader])
    counts = [len(w.acked) for w in writers]
    wait_for("writes flow again", lambda: all(len(w.acked) > n + 50 for w, n in zip(writers, counts)))
    for w in writers:
        w.stop()
        assert not w.errors, "refused: %r" % w.errors[:3]
        assert not w.unknown, "unknown: %r" % w.unknown[:3]
        w.check(new)
    assert new.term() == term + 1, "one election, not several: term %d -> %d" % (term, new.term())
    return leader, new


def stopped_node():
    """All three daemons get SIGTERM at once, as when the machine goes down."""
    with Cluster(NET) as c:
        servers = c.servers(3, **SLOW)
        for _ in range(3):
            leader, _ = change_under_load(c, servers, lambda n: n.stop())
            assert leader.log("raftd").count(SAID) >= 1
            leader.start()
            c.formed(servers)


def stopped_raftd():
    with Cluster(NET) as c:
        servers = c.servers(3, **SLOW)
        leader, _ = change_under_load(c, servers, lambda n: n.stop("raftd"))
        assert SAID in leader.log("raftd")
        leader.start("raftd")
        c.formed(servers)


def nobody_to_hand_over_to():
    """One server alone, and the last of three: they end all the same, with status 0; followers say nothing."""
    with Cluster(NET) as c:
        one = c.servers(1)[0]
        c.formed([one])
        one.stop()
        assert SAID not in one.log("raftd")
    with Cluster(NET) as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        for n in others:
            n.kill()
        leader.stop()
        for n in others:
            assert SAID not in n.log("raftd")


def second_signal():
    """Who cannot wait sends a second one: raftd ends though its leadership has no taker."""
    with Cluster(NET) as c:
        servers = c.servers(3, **SLOW)          # it leads until the signal comes
        leader = c.formed(servers)
        for n in servers:
            if n is not leader:
                n.signal(signal.SIGSTOP, "raftd")
        leader.signal(signal.SIGTERM, "raftd")
        wait_for("it tries", lambda: SAID in leader.log("raftd"))
        leader.signal(signal.SIGTERM, "raftd")
        assert leader.wait_end("raftd") == [0]


def answers_under_way():
    """rpcd stops: the requests that it has get their answers, blocking queries end with a sentence, and new ones are refused."""
    with Cluster(NET) as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        got = []
        index = follower.get("/v1/kv/?keys").index
        t = threading.Thread(target=lambda: got.append(follower.get("/v1/kv/none?index=%d&wait=60s" % index)))
        t.start()
        wait_for("it waits", lambda: int(follower.stats("raftd")["watches"]) > 0)
        follower.stop("rpcd")
        t.join(20)
        assert got and got[0].status == 500 and "stopping" in got[0].text, got


def leader_without_rpcd():
    """Writes go through the leader's rpcd: without one it does not keep leadership; a restart of rpcd moves nothing."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd={"election_timeout": "3s", "heartbeat_interval": "300ms"})     # it stays else
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        others[0].kv_put("k", b"1")
        term = leader.term()
        leader.stop("rpcd")
        leader.start("rpcd").up()
        assert leader.is_leader() and leader.term() == term, "a restart moved leadership"
        leader.kill("rpcd")
        for n in others:
            wait_for("a write through " + n.name, lambda n=n: n.put("/v1/kv/k", n.name).body == b"true", 60)
        assert "rpcd on this server has been disconnected for 5 s" in leader.log("raftd")
        assert c.leader(others) is not leader and leader.running("raftd")
        leader.stop("raftd")
        leader.start("raftd")           # which has not met an rpcd yet
        new, told = c.leader(others), leader.log("raftd").count("rpcd on this server has been disconnected for 5 s")
        wait_for("it is to lead", lambda: new.ctl("raft", "transfer-leader", leader.name, check=False).returncode == 0)
        wait_for("it hands over", lambda: leader.log("raftd").count("rpcd on this server has been disconnected for 5 s") > told)
        c.leader(others).kv_put("k", others[-1].name.encode())
        leader.start("rpcd").up()
        assert leader.kv_get("k") == others[-1].name.encode()


STEADY = {"election_timeout": "3s", "heartbeat_interval": "300ms"}      # leadership moves for the reason under test only


def told_by_raftd(node):
    """The raftd section of info, from raftd itself: its rpcd may be frozen."""
    with tvframe.Conn(os.path.join(node.run, "raftd.sock"), role="test") as conn:
        return conn.call(tvframe.MSG.INFO, [])["raftd"]


def in_the_background(act):
    """Starts act(); the list will have its result."""
    got = []
    t = threading.Thread(target=lambda: got.append(act()), daemon=True)
    t.start()
    return t, got


def leader_with_frozen_rpcd():
    """One that hangs is as bad as none: leadership moves, a write under way ends with a sentence; later all serve again."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=STEADY)
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        others[0].kv_put("k", b"1")
        leader.signal(signal.SIGSTOP, "rpcd")
        under_way, got = in_the_background(lambda: others[0].put("/v1/kv/under/way", b"1", timeout=120))
        for n in others:
            wait_for("a write through " + n.name, lambda n=n: n.put("/v1/kv/k", n.name, timeout=5).body == b"true", 60)
        new = c.leader(others)
        log = leader.log("raftd")
        assert "rpcd on this server has not answered for 5 s" in log and "transferring leadership to " in log, log
        under_way.join(60)
        assert got and got[0].status == 500 and "may have been applied" in got[0].text, got
        term = new.term()
        leader.signal(signal.SIGCONT, "rpcd")
        leader.up()
        assert leader.kv_get("k") == others[-1].name.encode()
        leader.kv_put("k", b"2")
        assert all(n.kv_get("k") == b"2" for n in servers)
        assert new.is_leader() and new.term() == term and not leader.is_leader()
        assert leader.stats("raftd")["rpcd_silent_ms"] == "0"


def slow_rpcd_moves_nothing():
    """An rpcd that answers late is asked, and leadership stays."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=STEADY)
        leader = c.formed(servers)
        term = leader.term()
        for _ in range(3):
            leader.signal(signal.SIGSTOP, "rpcd")
            wait_for("its silence is seen", lambda: int(told_by_raftd(leader)["rpcd_silent_ms"]) > 0)
            leader.signal(signal.SIGCONT, "rpcd")
            wait_for("and forgotten", lambda: int(told_by_raftd(leader)["rpcd_silent_ms"]) == 0)
        assert leader.is_leader() and leader.term() == term
        assert "transferring leadership" not in leader.log("raftd")


def others_no_better_off():
    """Leadership goes where an rpcd answers, and nowhere while there is none: then the log says what to do."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=STEADY)
        leader = c.formed(servers)
        frozen, well = [n for n in servers if n is not leader]
        for n in (frozen, leader):
            n.signal(signal.SIGSTOP, "rpcd")
        wait_for("the one that is well leads", well.is_leader, 60)
        assert "transferring leadership to " + well.name in leader.log("raftd")
        leader.kill("rpcd")
        well.signal(signal.SIGSTOP, "rpcd")
        wait_for("it says that nobody can", lambda: "no server can take over" in well.log("raftd"), 60)
        line = next(s for s in well.log("raftd").splitlines() if "no server can take over" in s)
        assert frozen.name + " (its rpcd does not answer)" in line and leader.name + " (its rpcd does not run)" in line, line
        frozen.signal(signal.SIGCONT, "rpcd")
        wait_for("the first that can leads", frozen.is_leader, 60)
        well.signal(signal.SIGCONT, "rpcd")
        leader.start("rpcd")
        c.formed(servers)
        for n in servers:
            n.kv_put("k", n.name.encode())


def leader_with_frozen_raftd():
    """A lost leader for all clients: those of its own rpcd are served by the others, until it is back."""
    with Cluster(NET) as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        leader.kv_put("k", b"1")
        leader.signal(signal.SIGSTOP, "raftd")
        under_way, got = in_the_background(lambda: leader.put("/v1/kv/under/way", b"1", timeout=120))
        for n in servers:
            wait_for("a write through " + n.name, lambda n=n: n.put("/v1/kv/k", n.name, timeout=5).body == b"true", 60)
            assert n.kv_get("k") == n.name.encode()
        under_way.join(60)
        assert got and got[0].status == 500 and "may have been applied" in got[0].text, got
        assert "raftd has not answered for 3 s" in leader.log("rpcd")
        assert leader.stats("rpcd")["raftd"] == "silent"
        leader.signal(signal.SIGCONT, "raftd")
        wait_for("it is back", lambda: leader.stats("raft")["state"] in ("Follower", "Leader"))     # elected again, perhaps
        c.formed(servers)
        leader.kv_put("k", b"2")
        assert all(n.kv_get("k") == b"2" for n in servers)


def client_of_a_frozen_server():
    """A node without raftd leaves the server that it is linked to when that server's rpcd is frozen."""
    with Cluster(NET) as c:
        servers = c.servers(3)
        c.formed(servers)
        client = c.client("c1", 9, servers[0])
        wait_for("the client node is served", lambda: client.put("/v1/kv/k", b"1").body == b"true")
        for n in servers:       # one of them is the one
            n.signal(signal.SIGSTOP, "rpcd")
            wait_for("reads while rpcd of %s is frozen" % n.name, lambda: client.kv_get("k", timeout=10) == b"1", 60)
            n.signal(signal.SIGCONT, "rpcd")
        assert "has not answered for 5 s" in client.log("rpcd")


def signals_until_the_end():
    """One more SIGTERM or SIGHUP, however late it comes, is no reason to end by it instead of with status 0."""
    for _ in range(5):
        with Cluster(NET) as c:
            n = c.servers(1)[0]
            c.formed([n])
            while any(n.running(d) for d in n.daemons):
                n.signal(signal.SIGTERM)
                n.signal(signal.SIGHUP)


if __name__ == "__main__":
    main(leader_with_frozen_rpcd, leader_with_frozen_raftd, client_of_a_frozen_server, others_no_better_off, slow_rpcd_moves_nothing,
         leader_without_rpcd, stopped_node, stopped_raftd, nobody_to_hand_over_to, second_signal, answers_under_way,
         signals_until_the_end)

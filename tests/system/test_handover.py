#!/usr/bin/env python3
"""A leader that is stopped in order hands over: no write is refused or left unknown, and no election is lost time."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, Writer, main, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.27.2")
SAID = "handing leadership over before the end"


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
        servers = c.servers(3)
        for _ in range(3):
            leader, _ = change_under_load(c, servers, lambda n: n.stop())
            assert leader.log("raftd").count(SAID) >= 1
            leader.start()
            c.formed(servers)


def stopped_raftd():
    with Cluster(NET) as c:
        servers = c.servers(3)
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
        servers = c.servers(3)
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
        assert "rpcd of this server has been away for 5 s" in leader.log("raftd")
        assert c.leader(others) is not leader and leader.running("raftd")
        leader.start("rpcd").up()
        assert leader.kv_get("k") == others[-1].name.encode()


if __name__ == "__main__":
    main(leader_without_rpcd, stopped_node, stopped_raftd, nobody_to_hand_over_to, second_signal, answers_under_way)

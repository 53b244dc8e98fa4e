#!/usr/bin/env python3
"""Servers come, go, move, are replaced and mistaken for each other, on real daemons (S13, S54, S60, S62, S64, S65, S71, S73, S75)."""
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, Writer, main, rpcd_conf  # noqa: E402
from waiting import Told, wait_for  # noqa: E402

ALIVE, FAILED = 1, 4
QUICK = {"server_stabilization_time": "0s"}
STILL = dict(QUICK, **CALM)
BOTH_LOCAL = {"profile": "local", "profile_wan": "local"}


MOVE = 90.0                 # seconds at most until gossip lets a name that failed have another address


def in_log(node, text, daemon="raftd", timeout=60.0):
    return wait_for("%s of %s logs '%s'" % (daemon, node.name, text), lambda: text in node.log(daemon), timeout)


def peers(node, query=""):
    """The seats; not how the one who answers sees their servers just now."""
    return Told((s["Node"], {k: v for k, v in s.items() if k != "State"})
                for s in node.get("/v1/operator/raft/configuration" + query).json()["Servers"])


def healthy(node):
    return Told((s["Name"], s["Healthy"]) for s in node.get("/v1/operator/autopilot/health").json()["Servers"])


def node_id(node):
    with open(os.path.join(node.data, "node-id")) as f:
        return f.read().strip()


def votes(node, *nodes):
    """Waits until exactly these, as they are now, are in the configuration, and vote."""
    wait_for("the voters are %s" % sorted(n.name for n in nodes), lambda: sorted(
        (s["ID"], s["Voter"]) for s in node.get("/v1/operator/raft/configuration").json()["Servers"]) ==
        sorted((node_id(n), True) for n in nodes), timeout=90)


def seen_dead(dead, *others):
    """In both pools: only then, and some time later, may its name be used at another address."""
    for n in others:
        wait_for("%s sees that %s is dead" % (n.name, dead.name), lambda n=n: n.members()[dead.name] == FAILED)
        wait_for("also in the WAN pool", lambda n=n: n.members(wan=True)[dead.name + ".dc1"] == FAILED, timeout=60)


def seen_everywhere(nodes):
    """By each other, in the WAN pool too: who never met somebody never sees it fail."""
    for n in nodes:
        wait_for("%s knows all servers in the WAN pool" % n.name, lambda n=n: all(
            n.members(wan=True).get(m.name + ".dc1") == ALIVE for m in nodes), timeout=60)


def leaves(node):
    """Gracefully, once it may: right after a change the others may not be known to be healthy yet."""
    wait_for("%s leaves" % node.name, lambda: node.ctl("leave", check=False).returncode == 0 or
             not any(map(node.running, node.daemons)))
    assert node.wait_end() == [0, 0, 0]


def caught_up(leader, node):
    wait_for(node.name + " has caught up", lambda: int(node.stats("raft")["applied_index"]) >=
             int(leader.stats("raft")["commit_index"]) - 50)


def test_transfer():
    with Cluster("127.72.1") as c:
        servers = c.servers(3, raftd=dict(CALM, server_stabilization_time="24h"))
        client = c.client("c1", 9, servers[0])
        leader = c.formed(servers)
        a, b = [n for n in servers if n is not leader]
        wait_for("the client node knows the servers", lambda: client.kv_get("none") is None)
        # To a named one: by name, by id, by address; from any node.
        for target, asked, how in ((a, client, a.name), (b, a, peers(leader)[b.name]["ID"]), (leader, b, leader.addr + ":8300")):
            out = asked.ctl("raft", "transfer-leader", how).stdout
            assert out == "Leadership transferred.\n", out
            wait_for("%s leads" % target.name, target.is_leader)
        # To whoever: somebody else leads.
        client.ctl("raft", "transfer-leader")
        wait_for("another one leads", lambda: not leader.is_leader() and c.leader(servers))
        leader = c.leader(servers)
        # To one that is down: refused in time, and the leader goes on.
        down = next(n for n in servers if n is not leader)
        term = leader.term()
        down.kill("raftd")
        r = client.ctl("raft", "transfer-leader", down.name, check=False)
        assert r.returncode == 1 and r.stderr, r
        wait_for("writes go on", lambda: leader.put("/v1/kv/x", "1").body == b"true")
        assert leader.is_leader() and leader.term() == term
        # To a learner, which it stays while one of the voters is down; to a stranger.
        learner = c.add("n4", 4, retry_join=[leader.addr], raftd=CALM).start()
        wait_for("it is a learner", lambda: peers(leader)["n4"]["Voter"] is False)
        for server, why in (("n4", ""), ("nobody", 'no server "nobody"'), ("127.0.0.1:1", "was not found")):
            r = client.ctl("raft", "transfer-leader", server, check=False)
            assert r.returncode == 1 and why in r.stderr, r
        assert leader.is_leader() and peers(leader)["n4"]["Voter"] is False
        # A young leader waits for nobody when all voters are well.
        down.start("raftd")
        votes(leader, learner, *servers)


def test_remove_peer():
    with Cluster("127.72.2") as c:
        servers = c.servers(5, raftd=STILL)
        leader = c.formed(servers)
        a, b, d, e = [n for n in servers if n is not leader]
        for n in servers:
            n.set_common(retry_join=[x.addr for x in servers])
        # By id, by address and by name; what is unknown.
        ids = {n: s["ID"] for n, s in peers(leader).items()}
        for n in (a, b):
            n.kill()
        r = e.ctl("raft", "remove-peer", ids[a.name])
        assert r.stdout == "Removed peer %s.\n" % ids[a.name], r
        leader.ctl("raft", "remove-peer", b.addr + ":8300")
        votes(leader, leader, d, e)
        for server, why in (("nobody", 'no server "nobody"'), ("10.9.9.9:8300", 'address "10.9.9.9:8300" was not found'),
                            (ids[a.name], "no server")):
            r = d.ctl("raft", "remove-peer", server, check=False)
            assert r.returncode == 1 and why in r.stderr, r
        # Not at the price of the quorum.
        d.kill()
        wait_for("it is seen", lambda: leader.members()[d.name] == FAILED)
        r = wait_for("refused", lambda: (lambda r: r if "quorum would be lost" in r.stderr else None)(
            leader.ctl("raft", "remove-peer", e.name, check=False)))
        assert r.returncode == 1 and e.name in peers(leader), r
        d.start()
        # Who was removed for good and comes back is told why, and says so in its own log with the remedy.
        a.start()
        in_log(a, "the leader %s does not add this server: its node id %s was removed for good" % (leader.name, ids[a.name]))
        in_log(a, "stop the daemons here, remove %s and start them" % a.data)
        votes(leader, leader, d, e)
        # Doing that, it is a new server; its term was higher meanwhile, and nobody stepped down (S13).
        a.signal(signal.SIGTERM)
        a.wait_end()
        shutil.rmtree(a.data)
        os.mkdir(a.data)
        term = leader.term()
        a.start()
        votes(leader, leader, a, d, e)
        assert leader.is_leader() and leader.term() == term
        # The leader is removed for good like any other, and its successor does not take it back.
        wait_for("removed", lambda: d.ctl("raft", "remove-peer", leader.name, check=False).returncode == 0 or
                 leader.name not in peers(d))       # what came of it may have been lost with its leadership
        now = c.leader([a, d, e])
        in_log(leader, "the leader %s does not add this server: its node id" % now.name)
        votes(now, a, d, e)
        r = now.ctl("raft", "transfer-leader", now.name, check=False)
        assert r.returncode == 1 and "is the leader already" in r.stderr, r


def test_replaced_at_once():
    """A new machine under the old name, at the old address or another one, takes the old one's seat (S60)."""
    with Cluster("127.72.3", gossipd=BOTH_LOCAL) as c:
        servers = c.servers(3, raftd=STILL)
        leader = c.formed(servers)
        a, b = [n for n in servers if n is not leader]
        for n in servers:
            n.set_common(retry_join=[x.addr for x in servers])
        leader.kv_put("k", "v")
        seen_everywhere(servers)
        for old, move in ((a, None), (b, 9)):
            was = peers(leader)[old.name]["ID"]
            old.kill()
            kept = old.data + ".old"
            os.rename(old.data, kept)
            os.mkdir(old.data)
            if move is not None:
                seen_dead(old, *[n for n in servers if n is not old])   # its name is free then
                old.addr = "%s.%d" % (c.net, move)
                old.set_common(bind=old.addr)
                old.write("rpcd.conf", rpcd_conf(old.addr))
            old.start()
            in_log(leader, "Removing server %s" % old.name, timeout=MOVE)
            votes(leader, *servers)
            now = peers(leader)[old.name]
            assert now["ID"] != was and now["Address"] == old.addr + ":8300", now
            assert old.up().kv_get("k") == b"v"
            # The old identity is out for good, should its disk turn up again.
            old.kill()
            shutil.rmtree(old.data)
            os.rename(kept, old.data)
            old.start()
            in_log(old, "its node id %s was removed for good" % was)
            assert now["ID"] in {s["ID"] for s in leader.get("/v1/operator/raft/configuration").json()["Servers"]}
            old.kill()
            shutil.rmtree(old.data)
            os.mkdir(old.data)
            old.start()
            votes(leader, *servers)


def test_cloned():
    """A copied data directory: the copy is refused, and both sides' logs name both addresses and the remedy (S62)."""
    with Cluster("127.72.4") as c:
        servers = c.servers(3, raftd=STILL)
        leader = c.formed(servers)
        original = next(n for n in servers if n is not leader)
        other = next(n for n in servers if n not in (leader, original))
        leader.kv_put("k", "v")
        original.stop()
        copy = c.add("n9", 9, retry_join=[leader.addr], raftd=STILL)
        shutil.rmtree(copy.data)
        shutil.copytree(original.data, copy.data)
        for path, _, files in os.walk(original.data):
            for f in [""] + files:
                st = os.stat(os.path.join(path, f))
                os.chown(os.path.join(copy.data, os.path.relpath(path, original.data), f), st.st_uid, st.st_gid)
        original.start()
        c.formed(servers)
        wait_for("it is in the pool", lambda: leader.members()[original.name] == ALIVE)
        before = peers(leader)
        # Also while the original does not answer: it lives, so its seat is its own.
        original.signal(signal.SIGSTOP, "raftd")
        wait_for("its link is lost", lambda: not healthy(leader)[original.name])
        copy.start()
        in_log(copy, "no leader for 5 s")
        assert peers(leader) == before
        original.signal(signal.SIGCONT, "raftd")
        for n in (original, leader, other, copy):
            in_log(n, "have the same node id " + before[original.name]["ID"])
            line = next(x for x in n.log("raftd").splitlines() if "have the same node id" in x)
            assert original.addr in line and copy.addr in line and "stop the daemons of the copy" in line, line
        in_log(copy, "refuses this server: another one with the same node id")
        for i in range(20):
            leader.kv_put("more/%d" % i, "x")
        assert peers(leader) == before and original.kv_get("more/19") == b"x"
        # The remedy works: with a data directory of its own it is a server like any other.
        copy.signal(signal.SIGTERM)
        copy.wait_end()
        shutil.rmtree(copy.data)
        os.mkdir(copy.data)
        copy.start()
        votes(leader, copy, *servers)


def test_rolling_replacement():
    """All servers are replaced by new ones, one after the other, under writes; nothing is lost (S64)."""
    with Cluster("127.72.5") as c:
        servers = c.servers(3, raftd=dict(QUICK, snapshot_threshold=300, snapshot_interval="500ms", trailing_logs=100))
        leader = c.formed(servers)
        client = c.client("c1", 99, servers[0])
        wait_for("the client node knows the servers", lambda: client.kv_get("none") is None)
        for i in range(200):
            leader.kv_put("big/%d" % i, "x" * 5000)
        writer = Writer([client], pause=0.01)
        writer.start()
        now = list(servers)
        for i in range(3):
            new = c.add("m%d" % (i + 1), 10 + i, retry_join=[n.addr for n in now], raftd=dict(QUICK)).start()
            votes(now[-1], new, *now)
            # Each in its turn, the leader among them.
            leaves(now[0])
            now = now[1:] + [new]
            c.leader(now)
            votes(now[-1], *now)
        writer.stop()
        assert len(writer.acked) > 50, len(writer.acked)
        for n in now:
            writer.check(n)
            assert len(n.get("/v1/kv/big/?keys").json()) == 200
        assert not [e for e in writer.errors if "may have been" not in e[2]], writer.errors[:3]


def test_all_leave_and_return():
    """All servers leave, then all start again: the same cluster, no file edited by hand (S65)."""
    with Cluster("127.72.6") as c:
        servers = c.servers(3, raftd=QUICK)
        leader = c.formed(servers)
        for n in servers:
            n.set_common(retry_join=[x.addr for x in servers])
        cluster = leader.stats("raft")["cluster_id"]
        leader.kv_put("k", "v")
        order = [n for n in servers if n is not leader] + [leader]
        for i, n in enumerate(order):
            leaves(n)
            if i < 2:
                wait_for("it is out", lambda n=n: n.name not in peers(leader))
        for n in order:
            n.start()
        c.formed(servers, timeout=60)
        for n in servers:
            assert n.stats("raft")["cluster_id"] == cluster and n.kv_get("k") == b"v"


def test_moved():
    """A server with a new address keeps its seat; the others learn the address; nobody is elected (S71)."""
    with Cluster("127.72.7", gossipd=BOTH_LOCAL) as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        mover = next(n for n in servers if n is not leader)
        seen_everywhere(servers)
        was, term = peers(leader)[mover.name], leader.term()
        mover.stop()
        seen_dead(mover, *[n for n in servers if n is not mover])
        mover.addr = c.net + ".33"
        mover.set_common(bind=mover.addr)
        mover.write("rpcd.conf", rpcd_conf(mover.addr))
        mover.start()
        wait_for("the address is followed", lambda: peers(leader)[mover.name]["Address"] == mover.addr + ":8300", MOVE)
        now = peers(leader)[mover.name]
        assert now["ID"] == was["ID"] and now["Voter"] and len(peers(leader)) == 3
        leader.kv_put("k", "v")
        assert wait_for("it reads", lambda: mover.kv_get("k") == b"v")
        assert leader.is_leader() and leader.term() == term
        in_log(leader, "Server %s moved to %s:8300" % (mover.name, mover.addr))


def test_scale():
    """1 -> 3 -> 5 -> 3 -> 1 under writes: nothing is lost at any step, and the tolerance shown is right (S73)."""
    with Cluster("127.72.8") as c:
        first = c.add("n1", 1, raftd=dict(QUICK, bootstrap=True)).start()
        c.formed([first])
        writer = Writer([first], pause=0.005)
        writer.start()
        now = [first]

        def settled(tolerance):
            c.leader(now)
            votes(first, *now)
            wait_for("healthy, %d may fail" % tolerance, lambda: (lambda h: h["Healthy"] and
                     h["FailureTolerance"] == tolerance)(first.get("/v1/operator/autopilot/health").json()))
            acked = dict(writer.acked)
            have = {e["Key"] for e in first.get("/v1/kv/w/?recurse").json()}
            assert set(acked) <= have, sorted(set(acked) - have)[:3]

        for number, tolerance in ((2, None), (3, 1), (4, None), (5, 2)):
            now.append(c.add("n%d" % number, number, retry_join=[first.addr], raftd=dict(QUICK)).start())
            votes(first, *now)
            if tolerance is not None:
                settled(tolerance)
        for tolerance in (None, 1, None, 0):
            gone = now.pop()
            leaves(gone)
            votes(first, *now)
            if tolerance is not None:
                settled(tolerance)
        writer.stop().check(first)
        assert len(writer.acked) > 200 and len(peers(first)) == 1


def test_only_voter_stays():
    """It is not removed by force, nor remembered as removed: when there is another one it may leave and come back."""
    with Cluster("127.72.11") as c:
        first = c.add("n1", 1, raftd=dict(QUICK, bootstrap=True)).start()
        c.formed([first])
        for _ in range(2):
            r = first.ctl("raft", "remove-peer", "--force", "n1", check=False)
            assert r.returncode == 1 and "is the only voter" in r.stderr, r
        second = c.add("n2", 2, retry_join=[first.addr], raftd=dict(QUICK)).start()
        votes(first, first, second)
        wait_for("it may leave", lambda: first.ctl("leave", check=False).returncode == 0)
        assert first.wait_end() == [0, 0, 0]
        votes(second, second)
        first.set_common(retry_join=[second.addr])
        first.start()
        votes(second, first, second)


def test_power_returns():
    """Three of three lose power, two return and elect; of five, two return and say whom they wait for (S75)."""
    with Cluster("127.72.9") as c:
        servers = c.servers(5)
        leader = c.formed(servers)
        leader.kv_put("k", "v")
        for n in servers:
            n.signal(signal.SIGKILL)
        for n in servers:
            n.wait_end()
        two, third, rest = servers[:2], servers[2], servers[3:]
        for n in two:
            n.start()
        for n in two:
            in_log(n, "2 of 5 voters are present, and 3 are needed; waiting for ")
            line = next(x for x in n.log("raftd").splitlines() if "3 are needed; waiting for" in x)
            assert all("%s (%s:8300, " % (m.name, m.addr) in line for m in [third] + rest), line
        third.start("gossipd")
        wait_for("gossip has it", lambda: two[0].members().get(third.name) == 1)
        third.start("raftd", "rpcd")
        now = c.leader(two + [third])
        wait_for("what was acknowledged is there", lambda: now.kv_get("k") == b"v")
        for n in rest:
            n.start()
        c.formed(servers)


def test_retention_changes():
    """trailing_logs goes up and down by SIGHUP under writes, while a follower comes and goes: no gap, nobody stuck (S54)."""
    with Cluster("127.72.10") as c:
        base = dict(QUICK, bootstrap_expect=3, snapshot_threshold=100, snapshot_interval="100ms")
        servers = c.servers(3, raftd=dict(base, trailing_logs=5000))
        leader = c.formed(servers)
        lagging = next(n for n in servers if n is not leader)
        writer = Writer([leader], pause=0.001)
        writer.start()
        for keep in (10, 3000, 0, 200):
            lagging.signal(signal.SIGSTOP, "raftd")
            for n in servers:
                n.write("raftd.conf", dict(base, trailing_logs=keep))
            for n in servers:
                if n is not lagging:
                    told = n.log("raftd").count("configuration reloaded")
                    n.signal(signal.SIGHUP, "raftd")
                    wait_for("it is reloaded", lambda n=n, told=told: n.log("raftd").count("configuration reloaded") > told)
            at = int(leader.stats("raft")["last_log_index"])
            wait_for("entries are written", lambda: int(leader.stats("raft")["last_log_index"]) > at + 300, timeout=60)
            lagging.signal(signal.SIGCONT, "raftd")
            lagging.signal(signal.SIGHUP, "raftd")
            caught_up(leader, lagging)
        writer.stop()
        for n in servers:
            writer.check(n)
        # What cannot change without a restart is named.
        leader.write("raftd.conf", dict(base, election_timeout="400ms"))
        leader.signal(signal.SIGHUP, "raftd")
        in_log(leader, "election_timeout")


main(test_transfer, test_remove_peer, test_replaced_at_once, test_cloned, test_rolling_replacement, test_all_leave_and_return,
     test_moved, test_scale, test_only_voter_stays, test_power_returns, test_retention_changes)

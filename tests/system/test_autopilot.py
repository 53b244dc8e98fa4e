#!/usr/bin/env python3
"""Autopilot: its configuration at every kind of node, health, stabilisation time, and the cleanup of dead servers (S63)."""
import calendar
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import smalldisk  # noqa: E402
from cluster import Cluster, Writer, main, skip  # noqa: E402
from waiting import Told, need, wait_for  # noqa: E402

CONFIGURATION = "/v1/operator/autopilot/configuration"
HEALTH = "/v1/operator/autopilot/health"
CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever
QUICK = dict(CALM, dead_server_grace="1s", server_stabilization_time="0s")


def voters(node):
    return {s["Node"] for s in node.get("/v1/operator/raft/configuration").json()["Servers"] if s["Voter"]}


def health(node):
    r = node.get(HEALTH).ok(200, 429)
    h = r.json()
    assert h["Healthy"] == (r.status == 200) == all(s["Healthy"] for s in h["Servers"]), h
    return h


def of(h, name):
    return Told((s["Name"], s) for s in h["Servers"])[name]


def all_well(leader, servers):
    """The leader's health of all as it is to be, when no answer happens to be late just now."""
    h = health(leader)
    need(h["Healthy"] and h["FailureTolerance"] == 1 and len(h["Servers"]) == 3, h)
    for n in servers:
        s = of(h, n.name)
        need(s["Voter"] and s["SerfStatus"] == "alive" and s["LastTerm"] == leader.term(), s)
        assert s["Leader"] == (n is leader) and s["Address"] == n.addr + ":8300" and s["Version"], s
    said = leader.ctl("raft", "autopilot", "health").stdout
    need(said.splitlines()[-1] == "Healthy; 1 more may fail.", said)
    return h


def one_is_away(client, victim):
    h = health(client)
    need(not of(h, victim.name)["Healthy"] and of(h, victim.name)["SerfStatus"] == "alive", h)
    need(h["FailureTolerance"] == 0 and of(h, victim.name)["Reason"] == "no raft link to it is up", h)
    need([s.get("Reason") for s in h["Servers"] if s["Name"] != victim.name] == [None, None], h)
    r = client.ctl("raft", "autopilot", "health", check=False)
    need(r.returncode == 1 and r.stdout.splitlines()[-2:] == [
        victim.name + " is not healthy: no raft link to it is up.", "Not healthy; 0 more may fail."], r)
    state = client.get("/v1/operator/autopilot/state").json()
    need(state["Healthy"] is False, state)
    assert len(state["Voters"]) == 3 and [s["Status"] for s in state["Servers"].values()].count("leader") == 1, state
    return True


def wall_clock():
    """As autopilot writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_configuration():
    with Cluster("127.71.1") as c:
        servers = c.servers(3, raftd={"max_trailing_logs": 300})
        client = c.client("c1", 9, servers[0])
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        client.up()
        # The first leader wrote down what raftd.conf says; all nodes show the same.
        wait_for("the record is there", lambda: leader.get(CONFIGURATION).json()["CreateIndex"] > 0)
        first = leader.get(CONFIGURATION).json()
        assert first["MaxTrailingLogs"] == 300 and first["CleanupDeadServers"] is True, first
        assert follower.get(CONFIGURATION).json() == client.get(CONFIGURATION).json() == first
        # PUT replaces the whole, at any node; CAS.
        at = first["ModifyIndex"]
        assert client.put(CONFIGURATION + "?cas=%d" % (at + 1), {"MinQuorum": 5}).body == b"false"
        assert client.put(CONFIGURATION + "?cas=%d" % at, {"MinQuorum": 5}).body == b"true"
        now = follower.get(CONFIGURATION).json()
        assert now["MinQuorum"] == 5 and now["MaxTrailingLogs"] == 0 and now["CreateIndex"] == first["CreateIndex"], now
        r = follower.put(CONFIGURATION, {"ServerStabilizationTime": "-1s"})
        assert r.status == 400 and "ServerStabilizationTime must be between" in r.text, r
        # A restart, and a change of leader, write no second one.
        for n in servers:
            n.stop("raftd")
            n.start("raftd")
            c.formed(servers)
        assert client.get(CONFIGURATION).json() == now
        # clusterctl keeps what is not named.
        out = client.ctl("raft", "autopilot", "set", "cleanup_dead_servers=false", "LastContactThreshold=1s").stdout
        assert out == "Autopilot configuration changed.\n", out
        now = leader.get(CONFIGURATION).json()
        assert now["MinQuorum"] == 5 and now["LastContactThreshold"] == "1s" and now["CleanupDeadServers"] is False, now
        lines = {line[:24].strip(): line[25:] for line in follower.ctl("raft", "autopilot").stdout.splitlines()}
        assert lines["LastContactThreshold"] == "1s" and lines["MinQuorum"] == "5", lines
        for bad, why in (("MinQuorum=99", "MinQuorum must not be above 15"), ("Nonsense=1", 'there is no "Nonsense"'),
                         ("MinQuorum", "is not NAME=VALUE"), ("MinQuorum=x", "is no value for MinQuorum"),
                         ("ModifyIndex=1", 'there is no "ModifyIndex"')):
            r = client.ctl("raft", "autopilot", "set", bad, check=False)
            assert r.returncode in (1, 2) and why in r.stderr, r


def test_health():
    with Cluster("127.71.2") as c:
        servers = c.servers(3, raftd=dict(CALM, cleanup_dead_servers=False, last_contact_threshold="1s"))
        client = c.client("c1", 9, servers[0])
        leader = c.formed(servers)
        victim = next(n for n in servers if n is not leader)
        client.up()
        wait_for("all are healthy", lambda: health(client)["Healthy"])
        h = wait_for("the leader says so", lambda: all_well(leader, servers))
        since = of(h, victim.name)["StableSince"]
        wait_for("the next second", lambda: wall_clock() > since)
        # One stops answering, though gossip still has it.
        victim.kill("raftd")
        wait_for("it is seen", lambda: one_is_away(client, victim))
        victim.start("raftd")
        wait_for("it is healthy again", lambda: health(client)["Healthy"] and
                 of(health(client), victim.name)["StableSince"] > since)
        # Without a quorum nobody can say.
        for n in servers:
            if n is not leader:
                n.kill("raftd")
        wait_for("no leader", lambda: leader.get(HEALTH).status == 500)


def test_newcomers_wait():
    """ServerStabilizationTime holds for servers that are added, not for a cluster that is being made."""
    with Cluster("127.71.3") as c:
        servers = c.servers(3, raftd=dict(CALM, server_stabilization_time="4s"))
        leader = c.formed(servers)
        wait_for("the record is there", lambda: leader.get(CONFIGURATION).json()["ServerStabilizationTime"] == "4s")
        # Its own health has been looked at since it leads.
        wait_for("the leader is no novice", lambda: seconds(wall_clock()) -
                 seconds(of(health(leader), leader.name)["StableSince"]) > 5)
        new = c.add("n4", 4, retry_join=[leader.addr]).start()
        in_log = lambda text: text in leader.log("raftd")  # noqa: E731
        wait_for("it is added", lambda: in_log("Added peer %s:8300" % new.addr))
        wait_for("it has caught up", lambda: in_log("peer %s:8300 has caught up" % new.addr))
        assert table(leader)[0]["n4"] == ("learner", "false")
        wait_for("it is healthy", lambda: of(health(leader), "n4")["Healthy"])
        wait_for("it votes", lambda: "n4" in voters(leader) and in_log("Promoted peer %s:8300" % new.addr))

        def logged(text):                               # when, for the first time
            return seconds(next(line for line in leader.log("raftd").splitlines() if text in line))
        waited = logged("Promoted peer %s:8300" % new.addr) - logged("peer %s:8300 has caught up" % new.addr)
        assert waited > 3.0, "it votes though it was healthy for an instant only: %.1f s" % waited


def seconds(stamp):
    """Of a line of a log, or as in an answer of the API: to the second."""
    return calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float("0" + stamp[19:23].rstrip("Z"))


def test_one_after_another():
    """Five servers die one by one: five, four, three voters, then no fewer; the writer never stops (S63)."""
    with Cluster("127.71.4") as c:
        servers = c.servers(5, raftd=dict(QUICK))
        leader = c.formed(servers)
        writer = Writer([leader], pause=0.02)
        writer.start()
        rest = [n for n in servers if n is not leader]
        for left in (4, 3):
            dead = rest.pop()
            dead.kill()
            wait_for("%s is cleaned up" % dead.name, lambda: dead.name not in voters(leader), timeout=60)
            assert len(voters(leader)) == left
            assert "Removing server %s (%s:8300), which failed" % (dead.name, dead.addr) in leader.log("raftd")
        dead = rest.pop()
        dead.kill()
        wait_for("the third is not removed", lambda: "not removing %s, which failed: 2 voters would be left, and 3 are kept"
                 % dead.name in leader.log("raftd"), timeout=60)
        assert voters(leader) == {leader.name, dead.name, rest[0].name}
        leader.kv_put("still", "here")
        writer.stop().check(leader)
        assert not writer.errors and not writer.unknown, (writer.errors[:3], writer.unknown[:3])
        # MinQuorum lets it go further, if that is what is wanted.
        leader.ctl("raft", "autopilot", "set", "MinQuorum=2")
        wait_for("now it goes", lambda: voters(leader) == {leader.name, rest[0].name}, timeout=60)
        # All come back: they are added again.
        for n in servers:
            if not n.running("raftd"):
                n.start()
        c.formed(servers, timeout=60)
        assert leader.kv_get("still") == b"here"


def test_in_pairs():
    """Two of five at once, then two of the three that are left: the pair is cleaned up, the quorum never is (S63)."""
    with Cluster("127.71.5") as c:
        servers = c.servers(5, raftd=dict(QUICK))
        leader = c.formed(servers)
        rest = [n for n in servers if n is not leader]
        pair, others = rest[:2], rest[2:]
        for n in pair:
            n.kill()
        wait_for("both are cleaned up", lambda: voters(leader) == {leader.name} | {n.name for n in others}, timeout=60)
        leader.kv_put("a", "1")
        for n in others:
            n.kill()
        wait_for("no quorum", lambda: leader.stats("raft")["leader"] == "")
        stale = {s["Node"] for s in leader.get("/v1/operator/raft/configuration?stale").json()["Servers"]}
        assert stale == {leader.name} | {n.name for n in others}, "whoever is needed for a quorum was removed: %s" % stale
        # One of them is enough, and then the first pair has a place again.
        others[0].start()
        leader = c.leader([leader, others[0]])
        wait_for("writes work", lambda: leader.put("/v1/kv/b", "2").body == b"true")
        for n in pair + others[1:]:
            n.start()
        c.formed(servers, timeout=60)
        assert servers[0].kv_get("a") == b"1" and servers[0].kv_get("b") == b"2"


def settles(node, name, reason):
    """The leader, asked on node, comes to judge this server so; None: healthy.  clusterctl says the same."""
    def judged():
        h = health(node)
        return of(h, name).get("Reason") == reason and h["FailureTolerance"] == (1 if reason is None else 0)
    wait_for("%s: %s" % (name, reason or "healthy"), judged)
    if reason is not None:
        r = node.ctl("raft", "autopilot", "health", check=False)
        assert r.returncode == 1 and "%s is not healthy: %s." % (name, reason) in r.stdout.splitlines(), r
        assert r.stdout.splitlines()[-1] == "Not healthy; 0 more may fail.", r


def test_full_disk():
    """A server whose disk takes no more is not healthy, also while it follows."""
    if smalldisk.missing():
        skip(smalldisk.missing())
    with Cluster("127.71.6") as c:
        join = ["%s.1" % c.net]
        servers = [c.add("n%d" % i, i, retry_join=join, raftd=dict(CALM, bootstrap_expect=3, disk_reserve="8M"))
                   for i in (1, 2, 3)]
        disks = {n: smalldisk.SmallDisk(n.data, "64M") for n in servers}
        try:
            for n in servers:
                n.start()
            leader = c.formed(servers)
            victim = next(n for n in servers if n is not leader)
            settles(leader, victim.name, None)
            disks[victim].fill(leave=64 << 10)
            settles(leader, victim.name, "its disk is full")
            disks[victim].free()
            settles(leader, victim.name, None)
        finally:
            for n in servers:
                n.kill()
            for d in disks.values():
                d.close()


def test_daemons_beside():
    """A server is not healthy while the rpcd or gossipd beside its raftd is dead or frozen; it keeps its vote."""
    with Cluster("127.71.7") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        victim = next(n for n in servers if n is not leader)
        for name in (victim.name, leader.name):
            settles(leader, name, None)
        for sig, reason in ((signal.SIGSTOP, "its rpcd does not answer"), (signal.SIGKILL, "its rpcd does not run")):
            victim.signal(sig, "rpcd")
            settles(leader, victim.name, reason)
        victim.wait_end("rpcd")
        victim.start("rpcd")
        settles(leader, victim.name, None)
        # Of itself the leader sees what nobody else can tell it.
        for sig, reason in ((signal.SIGSTOP, "its gossipd does not answer"), (signal.SIGKILL, "its gossipd does not run")):
            leader.signal(sig, "gossipd")
            settles(leader, leader.name, reason)
            assert leader.is_leader() and len(voters(leader)) == 3
        leader.wait_end("gossipd")
        leader.start("gossipd")
        settles(leader, leader.name, None)


def test_gossipd_restarts():
    """A restart of the leader's gossipd is over before it counts."""
    with Cluster("127.71.11") as c:
        leader = c.formed(c.servers(3, raftd=dict(CALM)))
        settles(leader, leader.name, None)
        for _ in range(2):
            told = leader.log("raftd").count("no connection to gossipd")
            before = time.monotonic()
            leader.kill("gossipd")
            wait_for("raftd knows", lambda n=told: leader.log("raftd").count("no connection to gossipd") > n)
            looks = 0
            while looks < 8:
                own = of(health(leader), leader.name)
                if time.monotonic() - before > 4:       # it might be too long by now
                    break
                assert own["Healthy"] and not own.get("Reason"), own
                looks += 1
                time.sleep(0.25)                        # looks, not a wait: autopilot has one every 0.5 s
            leader.start("gossipd")
            wait_for("gossipd is back", lambda: leader.stats("raftd")["gossip"] == "connected")
            settles(leader, leader.name, None)


def table(node, *args, check=True):
    """clusterctl raft list-peers: node -> (state, voter), and what it said besides."""
    r = node.ctl("raft", "list-peers", *args, check=check)
    rows = [line.split() for line in r.stdout.splitlines()[1:]]
    return Told((row[0], (row[3], row[4])) for row in rows), r.stderr


def contact(shown, node):
    """Last contact and last index of a server in the table of raft autopilot health."""
    return " ".join(next(x for x in shown.stdout.splitlines() if x.startswith(node.name + " ")).split()[-2:])


def test_without_a_leader():
    """Whoever asks gets the sentence of the log: who is here, how many are needed, for whom it waits."""
    with Cluster("127.71.8") as c:
        servers = c.servers(3, raftd=dict(cleanup_dead_servers=False))
        client = c.client("c1", 9, servers[0])
        leader = c.formed(servers)
        client.up()
        assert sorted(table(leader)[0].values()) == [("follower", "true"), ("follower", "true"), ("leader", "true")]
        assert "why_no_leader" not in leader.stats("raft")
        rest = [n for n in servers if n is not leader]
        rest[0].kill()
        rest[1].kill("raftd")
        wait_for("it is seen", lambda: leader.members()[rest[0].name] == 4 and leader.stats("raft")["leader"] == "")
        said = "1 of 3 voters are present, and 2 are needed; waiting for "
        parts = ["%s (%s:8300, failed)" % (rest[0].name, rest[0].addr),
                 "%s (%s:8300, alive in gossip, but its raftd does not answer)" % (rest[1].name, rest[1].addr)]
        wait_for("info has it", lambda: leader.stats("raft")["why_no_leader"].startswith(said))
        assert all(p in leader.stats("raft")["why_no_leader"] for p in parts), leader.stats("raft")
        for node in (leader, client):
            peers, err = table(node, "--stale")
            if node is leader:
                assert peers == {leader.name: ("follower", "true"), rest[0].name: ("failed", "true"),
                                 rest[1].name: ("unreachable", "true")}, peers
                assert said in err and all(p in err for p in parts), err
            r = leader.get(HEALTH + "?stale")
            assert r.status == 429 and said in r.json()["Reason"] and r.json()["FailureTolerance"] == 0, r
        assert of(r.json(), rest[0].name)["Reason"].startswith("gossip reports it failed"), r
        assert of(r.json(), rest[1].name)["Reason"] == "no raft link to it is up", r
        assert {of(r.json(), n.name)["LastContact"] for n in rest} == {"-1ns"}, r   # nobody knows
        assert not of(r.json(), leader.name)["LastContact"].startswith("-"), r      # it led itself a moment ago
        r = leader.ctl("raft", "autopilot", "health", check=False)
        assert r.returncode == 1 and said in r.stdout and r.stdout.endswith("Not healthy; 0 more may fail.\n"), r
        assert {contact(r, n) for n in rest} == {"unknown unknown"} and "unknown" not in contact(r, leader), r.stdout
        r = leader.ctl("raft", "list-peers", check=False)
        assert r.returncode == 1 and "No cluster leader" in r.stderr and said in r.stderr, r
        assert said in leader.ctl("info", "raft").stdout
        rest[1].start("raftd")
        now = c.leader([leader, rest[1]])
        wait_for("there is one", lambda: "why_no_leader" not in leader.stats("raft"))
        r = wait_for("the leader says what it knows", lambda: (lambda r: r if "Reason" not in r.json() else None)(
            now.get(HEALTH)))
        assert of(r.json(), rest[0].name)["LastContact"] == "-1ns", r
        r = now.ctl("raft", "autopilot", "health", check=False)
        assert r.returncode == 1 and contact(r, rest[0]) == "never unknown", r.stdout


def test_removed():
    """A server that was removed for good does not show itself as a voter."""
    with Cluster("127.71.9") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        victim = next(n for n in servers if n is not leader)
        wait_for("it has the configuration", lambda: len(table(victim, "--stale")[0]) == 3)
        victim.kill("raftd")                # it does not hear of it
        wait_for("the quorum stays", lambda: leader.ctl("raft", "remove-peer", victim.name, check=False).returncode == 0)
        assert victim.name not in table(leader)[0]
        victim.start("raftd")
        wait_for("it knows", lambda: table(victim, "--stale")[0][victim.name] == ("removed", "false"))
        assert "was removed for good" in table(victim, "--stale")[1]
        assert victim.stats("raft")["suffrage"] == "none"
        assert "was removed for good" in victim.stats("raft")["why_no_leader"]


def test_frozen_raftd():
    """info tells a raftd that is stopped from one that does not run; the same of gossipd."""
    with Cluster("127.71.10") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        node = next(n for n in servers if n is not leader)
        for daemon, section in (("raftd", "raft"), ("gossipd", "serf_lan")):
            node.signal(signal.SIGSTOP, daemon)
            r = node.ctl("info", section, check=False)
            assert r.returncode == 1 and daemon + " runs there, but does not answer" in r.stderr, r
            assert node.stats("rpcd")[daemon] == "silent"
            node.kill(daemon)
            wait_for("its end is known", lambda: node.stats("rpcd")[daemon] == "away")
            r = node.ctl("info", section, check=False)
            assert r.returncode == 1 and daemon + " does not run there" in r.stderr, r
            node.start(daemon)
            wait_for("it is back", lambda: node.stats("rpcd")[daemon] == "connected")
            assert node.ctl("info", section).stderr == ""


main(test_configuration, test_health, test_newcomers_wait, test_one_after_another, test_in_pairs, test_full_disk,
     test_daemons_beside, test_gossipd_restarts, test_without_a_leader, test_removed, test_frozen_raftd)

#!/usr/bin/env python3
"""User events and queries in a cluster of three servers, a client and a second datacenter: every node lists each event
once, restarted nodes hear nothing old, filters, other datacenters, leader changes, and clusterctl's handlers."""
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.15.0")
CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever


def fire(node, name, payload="", query=""):
    return node.put("/v1/event/fire/" + name + query, payload).ok().json()


def listed(node, name=None):
    return node.get("/v1/event/list" + ("?name=" + name if name else "")).json()


def ids(node, name=None):
    return [e["ID"] for e in listed(node, name)]


class Ctl:
    """clusterctl in the background; lines() is what it has printed."""

    def __init__(self, node, *args):
        self.node = node
        self.out = open(os.path.join(node.dir, "ctl-%d.out" % id(self)), "w+")
        self.err = open(os.path.join(node.dir, "ctl-%d.err" % id(self)), "w+")
        self.proc = subprocess.Popen([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", node.addr + ":8500", *args],
                                     stdout=self.out, stderr=self.err, stdin=subprocess.DEVNULL)

    def text(self, which="out"):
        f = self.out if which == "out" else self.err
        f.flush()
        with open(f.name, errors="replace") as copy:
            return copy.read()

    def lines(self):
        return self.text().splitlines()

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.proc.terminate()
        self.proc.wait()
        self.out.close()
        self.err.close()


def everywhere_once(c, nodes):
    """Fired at every node; each node lists each event exactly once, with the ID that the firing node answered."""
    fired = {}
    for i in range(8):
        for n in nodes:
            name = "burst-%s-%d" % (n.name, i)
            fired[name] = fire(n, name, "p%d" % i)
    for n in nodes:
        wait_for(n.name + " lists all", lambda: len([e for e in listed(n) if e["Name"] in fired]) >= len(fired))
        mine = [e for e in listed(n) if e["Name"] in fired]
        assert len(mine) == len(fired) and {e["Name"]: e["ID"] for e in mine} == {k: v["ID"] for k, v in fired.items()}
        assert all(e["LTime"] > 0 and base64.b64decode(e["Payload"])[:1] == b"p" for e in mine), n.name


def blocking(c, nodes):
    """A waiting list is answered when the event comes, at another node, and its index is that of the event."""
    a, b = nodes[0], nodes[-1]
    index = a.get("/v1/event/list?name=block").index
    assert index == 1
    got = []
    t = threading.Thread(target=lambda: got.append(a.get("/v1/event/list?name=block&index=1&wait=60s", timeout=90)))
    t.start()
    wait_for("the list waits", lambda: int(a.stats("rpcd")["http_under_way"]) == 2)
    fire(b, "other")                                    # news, but not for this list
    event = fire(b, "block", "x")
    t.join(90)
    assert not t.is_alive() and [e["ID"] for e in got[0].json()] == [event["ID"]], got
    half = event["ID"].replace("-", "")
    assert got[0].index == int(half[:16], 16) ^ int(half[16:], 16)


def filters(c, nodes):
    servers, client = nodes[:3], nodes[3]
    for n, tags in ((servers[1], ["v1"]), (servers[2], ["v2", "canary"])):
        r = n.put("/v1/agent/service/register", {"Name": "api", "Tags": tags})
        assert r.status == 200, r
    # What somebody wrote into the catalog about a node is not registered there.
    assert servers[0].put("/v1/catalog/register", {"Node": servers[0].name, "Address": servers[0].addr, "SkipNodeUpdate": True,
                                                   "Service": {"Service": "api", "Tags": ["canary"]}}).status == 200
    expect = {
        fire(client, "to-c", query="?node=%5Ec")["ID"]: [client],
        fire(servers[0], "to-api", query="?service=api")["ID"]: [servers[1], servers[2]],
        fire(servers[0], "to-canary", query="?service=%5Eapi$&tag=can")["ID"]: [servers[2]],
        fire(servers[0], "to-nobody", query="?node=%5Enobody$")["ID"]: [],
        fire(servers[0], "to-both", query="?service=api&node=n2")["ID"]: [servers[1]],
    }
    last = fire(client, "after-filters")["ID"]
    for n in nodes:
        mine = {last} | {event for event, to in expect.items() if n in to}
        wait_for(n.name + " has its own", lambda: mine <= set(ids(n)))
        assert not set(ids(n)) & (set(expect) - mine), (n.name, listed(n))
    to_c = [e for e in listed(client) if e["Name"] == "to-c"][0]
    assert to_c["NodeFilter"] == "^c" and to_c["Payload"] is None and to_c["ServiceFilter"] == ""
    assert [e["Name"] for e in client.get("/v1/event/list?node=%5C%5E").json()] == ["to-c"]


def datacenters(c, nodes, remote):
    event = fire(nodes[3], "far", "x", "?dc=dc2")       # by the client: over a server here and one there
    wait_for("dc2 lists it", lambda: event["ID"] in ids(remote))
    mark = fire(nodes[3], "near")["ID"]
    for n in nodes:
        wait_for("near", lambda: mark in ids(n))
        assert event["ID"] not in ids(n)
    assert mark not in ids(remote)
    r = nodes[0].put("/v1/event/fire/x?dc=nowhere")
    assert (r.status, r.text) == (500, "No path to datacenter"), r
    p = nodes[3].ctl("event", "fire", "--dc", "dc2", "--node", "^m1$", "far2", "-", input="from stdin")
    wait_for("dc2 lists the second", lambda: [
        e["ID"] for e in listed(remote, "far2") if e["NodeFilter"] == "^m1$"] == [p.stdout.split()[-1]])


def limits(c, nodes):
    r = nodes[3].put("/v1/event/fire/x", "a" * 513)
    assert (r.status, r.text) == (500, "user event exceeds configured limit of 512 bytes before encoding"), r
    p = nodes[3].ctl("event", "fire", "x", "a" * 600, check=False)
    assert p.returncode == 1 and "exceeds configured limit" in p.stderr, p


def hears_again(node, returned, name):
    """Fires until it is heard: what is fired before the returned one has joined is old for it."""
    wait_for(returned.name + " hears again", lambda: (fire(node, name), listed(returned, name))[-1], interval=0.3)


def restarts(c, nodes):
    """Nothing old is delivered to a node that starts again; an rpcd that starts alone keeps its list."""
    n3 = nodes[2]
    old = fire(nodes[0], "before")["ID"]
    wait_for("n3 has it", lambda: old in ids(n3))
    listing = ids(n3)
    n3.kill("rpcd")
    n3.start("rpcd").up()
    wait_for("the list is back", lambda: ids(n3) == listing)
    n3.kill("gossipd")                                  # alone: what it hears again is no news
    n3.start("gossipd").up()
    hears_again(nodes[0], n3, "between")
    now = ids(n3)                                       # once: what was fired last may still come
    assert len(now) == len(set(now)) and old in now, now
    n3.kill()
    missed = fire(nodes[0], "missed")["ID"]
    rest = [n for n in nodes if n is not n3]
    wait_for("it is passed on no more", lambda: all(
        missed in ids(n) and n.stats("serf_lan")["event_queue"] == "0" for n in rest))
    n3.start()
    n3.up()
    hears_again(nodes[0], n3, "after")
    assert old not in ids(n3) and missed not in ids(n3), listed(n3)
    # Pushes and pulls carry recent events for a while: still nothing comes.
    for i in range(3):
        mark = fire(nodes[1], "mark-%d" % i)["ID"]
        wait_for("mark", lambda: mark in ids(n3))
    assert old not in ids(n3), listed(n3)


def heard_by_all(node, name, watchers):
    """Fires until all watchers have begun to watch."""
    wait_for("all watch", lambda: (fire(node, name, "ready"), all(w.text() for w in watchers))[-1], interval=0.3)


def watching(c, nodes):
    """event watch sees what comes, once, also over a restart of rpcd; --exec gets bytes and environment."""
    n = nodes[3]
    fire(n, "earlier", "not for the watchers")
    script = 'printf "%s|%s|%s|%s|" "$SERF_EVENT" "$SERF_USER_EVENT" "$SERF_SELF_NAME" "$SERF_TAG_ROLE"; cat'
    with Ctl(n, "event", "watch") as text, Ctl(n, "--json", "event", "watch", "--name", "^deploy$") as lines, \
            Ctl(n, "event", "watch", "--name", "deploy", "--exec", script) as handler:
        heard_by_all(nodes[0], "deploy", (text, lines, handler))
        event = fire(nodes[0], "deploy", "v1\x1b[2J")
        wait_for("the event", lambda: all("v1" in w.text() for w in (text, handler)) and event["ID"] in lines.text())
        said = [line for line in text.lines() if "v1" in line]
        assert len(said) == 1 and said[0].startswith("deploy (ltime ") and said[0].endswith("): v1\\x1b[2J"), text.text()
        assert [json.loads(line)["ID"] for line in lines.lines()].count(event["ID"]) == 1, lines.text()
        wait_for("the newline", lambda: handler.text().endswith("\n"))
        assert handler.text().count("user|deploy|c1|node|v1\x1b[2J\n") == 1, handler.text()
        n.kill("rpcd")
        wait_for("they notice", lambda: all("trying again" in w.text("err") for w in (text, lines, handler)))
        n.start("rpcd").up()
        wait_for("they are back", lambda: "connected again" in text.text("err") and
                 "connected again" in lines.text("err") and "connected again" in handler.text("err"))
        fire(nodes[0], "deploy", "v2")
        wait_for("the second", lambda: handler.text().count("v2") == 1 and text.text().count("v2") == 1)
        assert text.text().count("v1") == 1 and handler.text().count("v1") == 1, (text.text(), handler.text())
        assert "earlier" not in text.text() + handler.text()
    p = n.ctl("event", "list", "--name", "deploy")
    assert p.stdout.count("): v1\\x1b[2J\n") == 1 and p.stdout.count("): v2\n") == 1, p.stdout


def hostile_names(c, nodes):
    """Whoever is in the pool may fire what the API would refuse: lists, terminals and handlers bear it."""
    n, name = nodes[3], "evil\n\x1b[2J\x00;$(touch pwned)\u202e'\""
    with Ctl(n, "event", "watch", "--name", "^evil") as text, \
            Ctl(n, "event", "watch", "--name", "^evil", "--exec", 'printf "%s" "$SERF_USER_EVENT" | wc -l; cat') as handler:
        heard_by_all(n, "evil", (text, handler))
        with Conn(os.path.join(nodes[0].run, "gossipd.sock")) as gossipd:
            assert gossipd.call(MSG.GOSSIP_FIRE, [0, name, b"\xff\x00", False], 10)[0] == 0
        wait_for("it is told", lambda: text.text().endswith("): \\xff\\x00\n") and "\ufffd\x00" in handler.text())
        safe = "evil\\x0a\\x1b[2J\\x00;$(touch pwned)\\xe2\\x80\\xae'\" (ltime "
        assert text.lines()[-1].startswith(safe), text.text()
        assert "\n0\n\ufffd\x00" in handler.text(), handler.text()
    assert safe in n.ctl("event", "list").stdout
    assert [e["Name"] for e in listed(n) if e["Name"].startswith("evil\n")] == [name]


def queries(c, nodes):
    script = 'read -r q; echo "$SERF_QUERY_NAME $q from $SERF_SELF_NAME"'
    with Ctl(nodes[1], "query", "answer", "load", "--exec", script) as by_exec, \
            Ctl(nodes[3], "query", "answer", "load", "--text", "42") as by_text:
        wait_for("they answer", lambda: all("Answering" in w.text("err") for w in (by_exec, by_text)))
        # Gossip is best effort: a query that missed a member is asked again.
        def asked(*args):
            return nodes[0].ctl("query", *args).stdout

        wait_for("all answer", lambda: all(part in asked("--timeout", "2s", "load", "now") for part in (
            "Response from 'n2': load now from n2\\x0a\n", "Response from 'c1': 42\n",
            "\nTotal Acks: 4\nTotal Responses: 2\n")))
        wait_for("the client answers", lambda: json.loads(
            nodes[0].ctl("--json", "query", "--timeout", "1s", "--no-ack", "--tag", "role=^cl", "load").stdout) == {
                "Acks": [], "Responses": [{"From": "c1", "Payload": base64.b64encode(b"42").decode()}], "Alive": 4})
        wait_for("two of them", lambda: all(part in asked("--timeout", "1s", "--node", "n2", "--node", "n3", "--relay", "1",
                                                           "load") for part in ("Total Acks: 2\n", "Total Responses: 1\n")))
        wait_for("they say so", lambda: "Answered 'n1' with" in by_exec.text() and
                 "Answered 'n1' with 2 bytes" in by_text.text())
    for wrong in (["query", "load", "--timeout", "x"], ["query"], ["query", "answer", "load"]):
        assert nodes[0].ctl(*wrong, check=False).returncode == 2, wrong
    p = nodes[0].ctl("query", "_serf_conflict", "x", check=False)
    assert p.returncode == 1 and "_serf_" in p.stderr, p
    # A client that goes takes its question back, however long it would have taken.
    before = int(nodes[0].stats("rpcd")["http_cancelled"])
    with Ctl(nodes[0], "query", "--timeout", "1h", "long"):
        wait_for("it waits", lambda: int(nodes[0].stats("rpcd")["http_under_way"]) == 2)
    wait_for("its end", lambda: int(nodes[0].stats("rpcd")["http_cancelled"]) == before + 1 and
             int(nodes[0].stats("rpcd")["http_under_way"]) == 1)


def watched_connections(node):
    """How many of rpcd's HTTP connections the kernel probes when they are silent (timer 2 of /proc/net/tcp)."""
    here = "%08X:%04X" % (struct.unpack("=I", socket.inet_aton(node.addr))[0], 8500)
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table]
    return sum(row[1] == here and row[3] == "01" and row[5].startswith("02:") for row in rows)


def monitoring(c, nodes):
    """The live logs of three daemons: why a member is suspected, over a restart of gossipd; each client its level."""
    n1, n3, client = nodes[0], nodes[2], nodes[3]
    with Ctl(n1, "monitor", "--level", "debug") as all_of_it, Ctl(n1, "monitor", "--daemon", "gossipd") as gossip, \
            Ctl(client, "--json", "monitor", "--level", "warn") as warnings:
        wait_for("they stream", lambda: int(n1.stats("rpcd")["http_under_way"]) == 3 and
                 int(client.stats("rpcd")["http_under_way"]) == 2)
        n3.kill("raftd")
        wait_for("raftd's log", lambda: " raftd [DEBUG] net: raft link to n3" in all_of_it.text())
        n3.start("raftd").up()
        wait_for("another leader", lambda: c.leader(nodes[:3]).ctl("raft", "transfer-leader"))
        wait_for("rpcd's log", lambda: " rpcd [INFO] agent: New leader elected: " in all_of_it.text())
        n3.kill("gossipd")
        wait_for("why n3 is suspected", lambda: "memberlist: Suspect n3" in gossip.text() and
                 "serf: EventMemberFailed: n3 " in gossip.text(), 60)
        wait_for("the same among all", lambda: " gossipd [INFO] serf: EventMemberFailed: n3 " in all_of_it.text())
        n3.start("gossipd").up()
        wait_for("n3 is back", lambda: "EventMemberJoin: n3 " in gossip.text(), 60)
        n1.kill("gossipd")
        n1.start("gossipd").up()
        wait_for("it sees n3", lambda: n1.members()["n3"] == 1)
        before = len(gossip.text())
        n3.kill("gossipd")
        wait_for("the new gossipd is heard", lambda: "serf: EventMemberFailed: n3 " in gossip.text()[before:])
        n3.start("gossipd").up()
        wait_for("n3 is back again", lambda: "serf: EventMemberJoin: n3 " in gossip.text()[before:])
        assert all(line.split(" ")[1] == "gossipd" for line in gossip.lines()), gossip.text()
        assert all(json.loads(line)["@level"] in ("warn", "err") for line in warnings.lines()), warnings.text()
        assert "DEBUG" not in n1.log("raftd") and "[DEBUG]" not in n1.log("gossipd")
        wait_for("hosts that vanish would be noticed", lambda: watched_connections(n1) == 2)
    wait_for("nothing is left behind", lambda: int(n1.stats("rpcd")["http_under_way"]) == 1)
    p = n1.ctl("monitor", "--level", "loud", check=False)
    assert p.returncode == 1 and "Unknown log level: loud" in p.stderr, p
    p = client.ctl("monitor", "--daemon", "raftd", check=False)
    assert p.returncode == 1 and "raftd runs on servers" in p.stderr, p
    monitors = [Ctl(n1, "monitor") for _ in range(8)]
    wait_for("eight of them", lambda: int(n1.stats("rpcd")["http_under_way"]) == 9)
    p = n1.ctl("monitor", check=False)
    assert p.returncode == 1 and "too many clients" in p.stderr, p
    n1.stop("rpcd")                                     # ends the streams, and all is well
    for m in monitors:
        assert m.proc.wait(60) == 1 and "has ended the stream" in m.text("err"), m.text("err")
        m.__exit__()
    n1.start("rpcd").up()


def said(node, leader):
    return node.log("rpcd").count("New leader elected: " + leader.name)


def leader_changes(c, nodes):
    """Every node hears of a new leader once per election; also when the new leader's gossipd was away, and missed events,
    and another one came back meanwhile, for which everything before is old."""
    servers = nodes[:3]
    old = c.leader(servers)
    new, third = [n for n in servers if n is not old]
    before = {n.name: said(n, new) for n in nodes}
    old.ctl("raft", "transfer-leader", new.name)
    wait_for(new.name + " leads", lambda: c.leader(servers) is new)
    for n in nodes:
        wait_for(n.name + " was told", lambda: said(n, new) == before[n.name] + 1)
    third.kill("gossipd")
    before = {n.name: said(n, third) for n in nodes}
    new.ctl("raft", "transfer-leader", third.name)
    wait_for(third.name + " leads", lambda: c.leader(servers) is third)
    others = [n for n in nodes if n is not third]
    missed = fire(old, "missed")["ID"]
    for n in others:
        wait_for(n.name + " heard it", lambda: missed in ids(n))
    new.kill("gossipd")
    new.start("gossipd").up()
    wait_for(new.name + " is back", lambda: [n for n, status in new.members().items() if status == 1 and n == old.name])
    third.start("gossipd").up()
    for n in nodes:
        wait_for(n.name + " was told late", lambda: said(n, third) == before[n.name] + 1)
    third.kill("rpcd")                                  # who starts again does not announce it again
    third.start("rpcd").up()
    mark = fire(nodes[0], "after-elections")["ID"]
    for n in nodes:
        wait_for("mark", lambda: mark in ids(n))
        assert said(n, third) == before[n.name] + 1, n.name
        assert not [e for e in listed(n) if e["Name"].startswith("consul:")], listed(n)


def test_events():
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=dict(CALM))
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        client.up()
        remote = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=[servers[0].addr])[0]
        c.formed([remote])
        nodes = servers + [client]
        wait_for("dc2 known to all of dc1", lambda: all(
            "dc2" in n.get("/v1/catalog/datacenters").json() for n in servers))
        wait_for("all see all", lambda: all(sorted(n.members()) == ["c1", "n1", "n2", "n3"] and
                                            set(n.members().values()) == {1} for n in nodes))
        for part in (everywhere_once, blocking, filters, limits, restarts, watching, hostile_names, queries,
                     monitoring, leader_changes):
            part(c, nodes)
            print("     " + part.__name__, flush=True)
        datacenters(c, nodes, remote)


main(test_events)

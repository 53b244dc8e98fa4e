#!/usr/bin/env python3
"""Network coordinates between real daemons: probes bring them, and everybody can ask for them."""
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.12.0")
LAN, WAN = 0, 1
# Many probes, and 3 s of silence until a member is failed.
TIMING = {"profile": "local", "lan.probe_interval": "50ms", "lan.probe_timeout": "40ms", "lan.suspicion_mult": 60,
          "lan.stream_timeout": "10s"}
ERR_INVAL, ERR_PERM = 5, 9


def sock(node):
    return os.path.join(node.run, "gossipd.sock")


def ask(node, kind, body, timeout=20):
    with Conn(sock(node)) as c:
        return c.call(kind, body, timeout)


def coords(node, *names, pool=LAN):
    """[(name, coordinate)] in the order of the answer."""
    err, text, entries = ask(node, MSG.GOSSIP_COORDS, [pool, list(names)])
    assert err == 0, (err, text)
    return [(e[0], e[1:]) for e in entries]


def rtt(a, b):
    """The estimate in seconds, as Serf computes it."""
    raw = math.dist(a[3], b[3]) + a[2] + b[2]
    adjusted = raw + a[1] + b[1]
    return adjusted if adjusted > 0 else raw


def start(cluster, count, **kw):
    nodes = [cluster.add("g%d" % (i + 1), i + 1, server=False, **kw).start("gossipd") for i in range(count)]
    for n in nodes:
        wait_for(n.name + " answers", lambda: os.path.exists(sock(n)) and ask(n, MSG.INFO, []))
    return nodes


def join(nodes):
    err, text, contacted = ask(nodes[0], MSG.GOSSIP_JOIN, [LAN, [n.addr for n in nodes[1:]]])
    assert (err, contacted) == (0, len(nodes) - 1), (err, text)


def probes_bring_coordinates():
    """Three members: each learns the others', its own moves, and estimates are what loopback is."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = start(cl, 3)
        for n in nodes:
            assert coords(n) == [(n.name, [1.5, 0, 1e-5, [0] * 8])], coords(n)
        join(nodes)
        for n in nodes:
            wait_for(n.name + " knows all", lambda: {c[0] for c in coords(n)} == {"g1", "g2", "g3"})
            assert coords(n)[0][0] == n.name, "our own is first"
            wait_for(n.name + " moved", lambda: any(coords(n)[0][1][3]))
            wait_for(n.name + " is surer than at first", lambda: coords(n)[0][1][0] < 1.5)
        # Loopback is far below the 40 ms after which an answer is late.
        wait_for("the estimate settles", lambda: 0 < rtt(*[c[1] for c in coords(nodes[0], "g2")]) < 0.04)
        assert [c[0] for c in coords(nodes[0], "g3", "nobody", "g1")] == ["g1", "g3"]
        err, text, entries = ask(nodes[0], MSG.GOSSIP_COORDS, [WAN, []])
        assert (err, entries) == (ERR_INVAL, []) and "client" in text, (err, text, entries)


def who_goes_is_forgotten():
    """A failed member keeps its coordinate, one that is pruned does not."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = start(cl, 2)
        g1, g2 = nodes
        join(nodes)
        wait_for("g1 knows g2", lambda: len(coords(g1, "g2")) == 2)
        g2.kill("gossipd")
        wait_for("g2 fails", lambda: "EventMemberFailed: g2" in g1.log("gossipd"))
        assert len(coords(g1, "g2")) == 2
        assert ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["g2", True]) == [0, ""]
        wait_for("g2 is forgotten", lambda: len(coords(g1, "g2")) == 1)


def switched_off():
    """A node with coordinates = false says so, tells none, and is a member like any other."""
    with Cluster(NET, gossipd=TIMING) as cl:
        on = start(cl, 2)
        off = cl.add("g3", 3, server=False, gossipd={"coordinates": False}).start("gossipd")
        wait_for("g3 answers", lambda: os.path.exists(sock(off)) and ask(off, MSG.INFO, []))
        join(on + [off])
        for n in on:
            wait_for(n.name + " knows the other", lambda: len(coords(n)) == 2)
        err, text, entries = ask(off, MSG.GOSSIP_COORDS, [LAN, []])
        assert (err, entries) == (ERR_PERM, []) and "coordinates = true" in text, (err, text)
        before = int(ask(on[0], MSG.INFO, [])["gossipd"]["probes"])
        wait_for("another pass of probes", lambda: int(ask(on[0], MSG.INFO, [])["gossipd"]["probes"]) > before + 4)
        assert {c[0] for c in coords(on[0])} == {"g1", "g2"}
        wait_for("nobody is failed", lambda: ask(on[0], MSG.INFO, [])["serf_lan"]["failed"] == "0")


def vec(coord):
    """As MSG_GOSSIP_COORDS has it, from JSON."""
    return [coord["Error"], coord["Adjustment"], coord["Height"], coord["Vec"]]


def local(node, name, query=""):
    told = node.get("/v1/agent/coordinate/" + name + query).json()
    assert told["Node"] == name, told
    return vec(told["Coord"])


def told_by_clusterctl(node, a, b, *options, query=""):
    """clusterctl's estimate is that of the coordinates.  They move, so it is asked until they stood still meanwhile."""
    def agree():
        before = local(node, a, query), local(node, b, query)
        got = json.loads(node.ctl("--json", "rtt", *options).stdout)
        if before != (local(node, a, query), local(node, b, query)):
            return None
        assert abs(got["Nanoseconds"] - rtt(*before) * 1e9) <= 1, (got, before)
        return got
    return wait_for("rtt of %s and %s" % (a, b), agree)


def people_ask():
    """The HTTP API and clusterctl rtt, on a server and a client."""
    with Cluster(NET) as cl:
        n1 = cl.servers(1)[0]
        c1 = cl.client("c1", 2, n1)
        cl.formed([n1])
        c1.up()
        for node, other in ((n1, "c1"), (c1, "n1")):
            wait_for(node.name + " has probed " + other, lambda: local(node, other))
            assert [e["Node"] for e in node.get("/v1/agent/coordinate").json()] == [node.name, other]
            assert len(node.get("/v1/agent/self").json()["Coord"]["Vec"]) == 8
            told_by_clusterctl(node, "n1", "c1", "n1", "c1")
            got = told_by_clusterctl(node, other, node.name, other)      # the second is this node
            assert (got["From"], got["To"], got["Pool"]) == (other, node.name, "LAN"), got
            text = node.ctl("rtt", "n1", "c1").stdout
            assert re.fullmatch(r"Estimated n1 <-> c1 rtt: \d+\.\d{3} ms \(using LAN coordinates\)\n", text), text
            p = node.ctl("rtt", other, "n9", check=False)
            assert p.returncode == 1 and 'no coordinate of "n9" is known' in p.stderr, p
            assert "clusterctl members)" in p.stderr, p
            p = node.ctl("rtt", node.name, check=False)
            assert p.returncode == 2 and "this node itself" in p.stderr, p
            r = node.get("/v1/agent/coordinate/n9")
            assert r.status == 404 and "n9" in r.text, r
        assert [e["Node"] for e in n1.get("/v1/agent/coordinate?wan=1").json()] == ["n1.dc1"]
        r = c1.get("/v1/agent/coordinate?wan=1")
        assert r.status == 400 and "only servers are in the WAN pool" in r.text, r
        n1.kill("gossipd")
        wait_for("n1 says so", lambda: n1.get("/v1/agent/coordinate").status == 500)
        p = n1.ctl("rtt", "c1", "n9", check=False)          # of members the servers may know by now
        assert p.returncode == 1 and "gossipd" in p.stderr, p
        assert n1.get("/v1/agent/self").json()["Coord"] is None


def known_to_the_servers_only():
    """Nodes of the catalog that are no members, asked for at a client; and one that knows nothing by itself."""
    with Cluster(NET) as cl:
        n1 = cl.servers(1)[0]
        c1 = cl.client("c1", 2, n1, gossipd={"profile": "local", "coordinates": False})
        cl.formed([n1])
        c1.up()
        for name, x in (("x1", 0.01), ("x2", 0.03)):
            assert n1.put("/v1/catalog/register", {"Node": name, "Address": "192.0.2.1"}).status == 200
            coord = {"Vec": [x, 0, 0, 0, 0, 0, 0, 0], "Error": 0.1, "Adjustment": 0, "Height": 0.0001}
            assert n1.put("/v1/coordinate/update", {"Node": name, "Coord": coord}).status == 200
        for node in (n1, c1):
            wait_for(node.name + " tells", lambda: node.ctl("rtt", "x1", "x2", check=False).stdout ==
                     "Estimated x1 <-> x2 rtt: 20.200 ms (using LAN coordinates)\n")
        wait_for("n1 reports itself", lambda: c1.ctl("rtt", "x1", "n1", check=False).returncode == 0, 60)
        p = c1.ctl("rtt", "x1", check=False)
        assert p.returncode == 1 and "coordinates = true" in p.stderr, p


def across_datacenters():
    """Servers of two datacenters: estimates of the WAN pool."""
    with Cluster(NET, gossipd={"profile": "local", "profile_wan": "local"}) as cl:
        a = cl.servers(1, prefix="a")[0]
        b = cl.servers(1, prefix="b", first=11, dc="dc2")[0]
        cl.formed([a])
        cl.formed([b])
        a.ctl("join", "--wan", b.addr)
        for node, other in ((a, "b1.dc2"), (b, "a1.dc1")):
            wait_for(node.name + " has probed " + other, lambda: local(node, other, "?wan=1"))
        got = told_by_clusterctl(a, "b1.dc2", "a1.dc1", "--wan", "b1.dc2", query="?wan=1")
        assert (got["From"], got["To"], got["Pool"]) == ("b1.dc2", "a1.dc1", "WAN"), got
        assert "using WAN coordinates" in b.ctl("rtt", "--wan", "a1.dc1", "b1.dc2").stdout
        p = a.ctl("rtt", "b1.dc2", check=False)                         # not in the LAN pool
        assert p.returncode == 1 and "b1.dc2" in p.stderr, p
        c1 = cl.client("c1", 2, a).up()                                 # in no WAN pool: the servers tell
        wait_for("c1 is told", lambda: "using WAN coordinates" in c1.ctl(
            "rtt", "--wan", "a1.dc1", "b1.dc2", check=False).stdout)


if __name__ == "__main__":
    main(probes_bring_coordinates, who_goes_is_forgotten, switched_off, people_ask, known_to_the_servers_only,
         across_datacenters)

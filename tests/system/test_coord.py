#!/usr/bin/env python3
"""Network coordinates between real daemons: probes bring them, and everybody can ask for them."""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, wait_for  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402

NET = os.environ.get("TV_NET", "127.12.0")
LAN, WAN = 0, 1
TIMING = {"profile": "local", "lan.probe_interval": "50ms", "lan.probe_timeout": "40ms"}
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
        assert ask(on[0], MSG.INFO, [])["serf_lan"]["failed"] == "0"


if __name__ == "__main__":
    main(probes_bring_coordinates, who_goes_is_forgotten, switched_off)

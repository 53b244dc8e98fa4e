#!/usr/bin/env python3
"""gossipd alone: pools of real daemons that form, fail, come back, leave and are told from strangers."""
import os
import re
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from gossipkit import (ALIVE, ERR_INVAL, ERR_NOENT, ERR_UNREACH, FAIL, FAILED, JOIN, LEAVE, LEFT, REAP,  # noqa: E402
                       TIMING, UPDATE, WAN, agree, ask, hushed, join, member, members, pool_of, shows, sock, start, statuses)
from tvframe import MSG, REPLY, Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.4.0")


def life_of_a_pool():
    """Five members: join, kill -9, restart, leave, force-leave, watch, tags."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 5)
        g1, g2, g3, g4, g5 = nodes
        status, tags = members(g2)["g1"]
        assert tags["role"] == "client" and tags["dc"] == "dc1" and len(tags["id"]) == 36, tags
        assert "raft_port" not in tags, tags
        assert "EventMemberJoin: g3 %s" % g3.addr in g1.log("gossipd")

        watcher = Conn(sock(g1))
        watcher.send(MSG.GOSSIP_WATCH, [])
        watcher.wait(lambda f: f.type == MSG.GOSSIP_SYNCED)

        def seen(event, name):
            return member(watcher.wait(lambda f: f.type == MSG.GOSSIP_MEMBER and f.body[1] == event and
                                       f.body[2][0] == name, 90).body)

        g5.kill("gossipd")
        assert seen(FAIL, "g5")[4] == FAILED
        shows(nodes[:4], "g5", FAILED)
        start(g5)                               # remembers the others, and nobody told it to join
        assert seen(JOIN, "g5")[4] == ALIVE
        shows(nodes, "g5", ALIVE)
        for n in nodes:
            wait_for(n.name + " knows all again", lambda: list(statuses(n).values()) == [ALIVE] * 5)

        assert ask(g2, MSG.GOSSIP_TAGS, [{"expect": "3"}]) == [0, ""]
        assert seen(UPDATE, "g2")[5]["expect"] == "3"
        assert ask(g2, MSG.GOSSIP_TAGS, [{"expect": ""}]) == [0, ""]
        wait_for("the tag goes", lambda: "expect" not in members(g3)["g2"][1])
        err, text = ask(g2, MSG.GOSSIP_TAGS, [{"big": "x" * 500}])
        assert err != 0 and "512" in text, (err, text)

        assert ask(g4, MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        assert g4.wait_end("gossipd") == [0]
        assert seen(LEAVE, "g4")[4] == LEFT
        shows(nodes[:3] + [g5], "g4", LEFT)
        # Gossip alone brings the intent, so one that missed it shows a failure until its next exchange: no more than one.
        assert sum("EventMemberFailed: g4" in n.log("gossipd") for n in nodes) <= 1
        hushed(nodes[:3] + [g5])
        start(g4)                               # who left does not come back by itself
        wait_for("g4 runs", lambda: statuses(g4))
        assert list(statuses(g4)) == ["g4"]
        assert join(g4, g1.addr)[::2] == [0, 1]
        shows(nodes, "g4", ALIVE)

        g3.kill("gossipd")
        shows([g1, g2, g4, g5], "g3", FAILED)
        assert ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["g3", False]) == [0, ""]
        shows([g1, g2, g4, g5], "g3", LEFT)
        assert ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["g3", True]) == [0, ""]
        for n in (g1, g2, g4, g5):              # gossip alone brings it, so one that missed it is asked again
            wait_for("%s forgets g3" % n.name, lambda: "g3" not in statuses(n) or
                     ask(n, MSG.GOSSIP_FORCE_LEAVE, ["g3", True]) == [ERR_NOENT, ""], interval=1)
        assert seen(REAP, "g3")
        err, text = ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["nobody", False])
        assert err == ERR_NOENT and "nobody" in text, (err, text)
        err, text = ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["g1", False])
        assert err == ERR_INVAL, (err, text)
        watcher.close()

        info = ask(g1, MSG.INFO, [])
        assert info["serf_lan"]["members"] == "4" and info["serf_lan"]["encrypted"] == "true", info
        assert int(info["gossipd"]["packets_in"]) > 0 and "serf_wan" not in info
        assert info["gossipd"]["packets_dropped_key"] == "0", info["gossipd"]

        g2.stop("gossipd")                      # SIGTERM: no leave
        shows([g1, g4, g5], "g2", FAILED)


def joins_that_fail():
    """Errors say what was wrong; joining oneself works, as clients of the API expect."""
    with Cluster(NET, gossipd=TIMING) as cl:
        g1 = start(cl.add("g1", 1, server=False))
        wait_for("g1 answers", lambda: statuses(g1))
        err, text, contacted = join(g1, NET + ".99")
        assert (err, contacted) == (ERR_UNREACH, 0) and NET + ".99:8301" in text, (err, text)
        assert join(g1, "not an address")[0] == ERR_INVAL
        assert join(g1)[0] == ERR_INVAL
        assert join(g1, NET + ".2", pool=WAN)[0] == ERR_INVAL
        assert join(g1, g1.addr)[::2] == [0, 1]
        with Conn(sock(g1)) as c:               # an unknown question closes the channel, and only that one
            c.send(999, [], 7)
            try:
                c.wait(lambda f: False, 30)
                raise AssertionError("still open")
            except Exception as e:              # noqa: BLE001
                assert type(e).__name__ == "Closed", e
        assert statuses(g1) == {"g1": ALIVE}


def keys():
    """A wrong key, no key, another datacenter: none gets in, and the pool goes on."""
    with Cluster(NET, gossipd=TIMING) as cl, Cluster(NET, gossipd=TIMING) as strangers, \
            Cluster(NET, keys=False, gossipd=TIMING) as plain:
        nodes = pool_of(cl, 2)
        wrong = start(strangers.add("w", 7, server=False))
        clear = start(plain.add("c", 8, server=False))
        far = start(cl.add("far", 9, server=False, dc="dc9"))
        for n in (wrong, clear, far):
            wait_for(n.name + " answers", lambda: statuses(n))
            assert join(n, nodes[0].addr)[0] != 0, n.name
            assert join(nodes[1], n.addr)[0] != 0, n.name
            assert list(statuses(n)) == [n.name]
        for n in nodes:
            assert set(statuses(n)) == {"g1", "g2"}
        agree(nodes)
        # It names one of those whom the exchange brought.
        for n, others, theirs, ours in ((far, "g[12]", "dc1", "dc9"), (nodes[0], "far", "dc9", "dc1")):
            assert re.search('%s is in datacenter "%s", this node in "%s"' % (others, theirs, ours), n.log("gossipd")), n.name
        assert re.search('g[12] is in datacenter "dc1", this node in "dc9"', ask(far, MSG.INFO, [])["serf_lan"]["refused"])
        assert ask(nodes[0], MSG.INFO, [])["serf_lan"]["refused"] == ""         # it is not alone
        # A datagram in clear is counted and dropped.
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.sendto(bytes([0]) + b"\x82\xa4Node\xa2g1\xa5SeqNo\x01", (nodes[0].addr, 8301))
        wait_for("it is counted", lambda: int(ask(nodes[0], MSG.INFO, [])["gossipd"]["packets_dropped_key"]) >= 1)
        s.close()


def flooding():
    """Two datacenters: one join between two servers brings all servers into the WAN pool; clients stay out."""
    with Cluster(NET, gossipd=TIMING) as cl:
        east = [start(cl.add("e%d" % i, i, dc="east", retry_join=[NET + ".1"])) for i in (1, 2, 3)]
        west = [start(cl.add("w%d" % i, 10 + i, dc="west", retry_join=[NET + ".11"])) for i in (1, 2)]
        client = start(cl.add("c", 4, server=False, dc="east", retry_join=[NET + ".1"]))
        for n in east + west + [client]:
            size = 4 if n.dc == "east" else 2
            wait_for(n.name + " is in its LAN", lambda: list(statuses(n).values()) == [ALIVE] * size)
        assert join(east[1], west[0].addr, pool=WAN)[::2] == [0, 1]
        names = {"e1.east", "e2.east", "e3.east", "w1.west", "w2.west"}
        for n in east + west:
            wait_for(n.name + " knows the WAN", lambda: statuses(n, WAN) == {x: ALIVE for x in names})
        assert statuses(client, WAN) == {}
        assert members(east[0], WAN)["w1.west"][1]["dc"] == "west"
        assert members(client)["e1"][1]["raft_port"] == "8300"
        assert ask(west[1], MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        shows(east, "w2.west", LEFT, pool=WAN)
        west[0].kill("gossipd")
        shows(east, "w1.west", FAILED, pool=WAN)
        assert ask(east[0], MSG.GOSSIP_FORCE_LEAVE, ["w1.west", False]) == [0, ""]
        shows(east, "w1.west", LEFT, pool=WAN)


def stopped_for_a_while():
    """A stopped process (S141) is failed for the others, and accuses nobody when it wakes up."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 4)
        nodes[3].signal(signal.SIGSTOP, "gossipd")
        shows(nodes[:3], "g4", FAILED)
        nodes[3].signal(signal.SIGCONT, "gossipd")
        shows(nodes, "g4", ALIVE)
        log = nodes[3].log("gossipd")
        assert "was suspended for" in log and "EventMemberFailed" not in log, log


def restart_remembers():
    """The first list after a restart is whole: nobody vanishes because gossipd was away."""
    with Cluster(NET, gossipd={**TIMING, "lan.gossip_to_the_dead": "1s"}) as cl:
        g1, g2, g3, g4 = pool_of(cl, 4)
        g3.kill("gossipd")
        shows([g1, g2, g4], "g3", FAILED)
        assert ask(g4, MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        shows([g1, g2], "g4", LEFT)
        # SWIM forgets the dead; a new member then does not hear of g3 any more.
        g5 = start(cl.add("g5", 5, server=False))
        wait_for("g5 answers", lambda: statuses(g5))
        wait_for("g3 is forgotten by probing", lambda: join(g5, g1.addr)[0] == 0 and "g3" not in statuses(g5))
        # Whoever g1 asks when it is back has to know g5 by then, which only g1 was told of by itself.
        shows([g1, g2, g5], "g5", ALIVE)
        shows([g5], "g2", ALIVE)
        before = members(g1)
        for how in (g1.stop, g1.kill):
            how("gossipd")
            start(g1)
            wait_for("g1 answers", lambda: os.path.exists(sock(g1)) and Conn(sock(g1)).close() is None)
            now = members(g1)
            assert now == before, (now, before)
        for n in (g2, g5):
            n.kill("gossipd")
        g1.kill("gossipd")
        start(g1)
        wait_for("g1 answers", lambda: os.path.exists(sock(g1)) and Conn(sock(g1)).close() is None)
        assert statuses(g1) == {"g1": ALIVE, "g2": FAILED, "g3": FAILED, "g4": LEFT, "g5": FAILED}
        start(g2)
        shows([g1], "g2", ALIVE)


def hostile_streams():
    """Idle and endless streams cost a descriptor for a while, and nothing else (S175)."""
    with Cluster(NET, gossipd=dict(TIMING, limits={"streams": 8, "streams_per_source": 4})) as cl:
        nodes = pool_of(cl, 2)
        g1 = nodes[0]
        idle = []
        for _ in range(30):
            s = socket.create_connection((g1.addr, 8301))
            s.sendall(b"\x0a\x00\x00")
            idle.append(s)
        time_limit = time.monotonic() + 60
        for s in idle:
            s.settimeout(max(0.1, time_limit - time.monotonic()))
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
            s.close()
        s = socket.create_connection((g1.addr, 8301))
        s.sendall(b"\x0a\xff\xff\xff\xff" + bytes(1000))
        s.settimeout(60)
        while s.recv(4096):
            pass
        s.close()
        info = ask(g1, MSG.INFO, [])["gossipd"]
        assert int(info["streams_dropped"]) >= 31, info
        agree(nodes)
        assert join(nodes[1], g1.addr)[::2] == [0, 1]


assert REPLY == 1
main(life_of_a_pool, joins_that_fail, keys, flooding, stopped_for_a_while, restart_remembers, hostile_streams)

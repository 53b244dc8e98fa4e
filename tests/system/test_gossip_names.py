#!/usr/bin/env python3
"""gossipd: names that two claim, names that are to be forgotten, and addresses of other kinds."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from gossipkit import (ALIVE, ERR_NOENT, FAILED, TIMING, WAN, agree, ask, info, join, listing, pool_of,  # noqa: E402
                       shows, start, statuses, up)
from tap import Tap  # noqa: E402
from tvframe import MSG  # noqa: E402
from waiting import Told, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.7.0")
QUICK = {**TIMING, "lan.push_pull_interval": "1s"}


def pruned_stays_pruned():
    """Neither one that slept through it, nor one that restarts with its old memory, brings it back; only itself does."""
    with Cluster(NET, gossipd=QUICK) as cl:
        nodes = pool_of(cl, 5)
        g1, g2, g3, g4, g5 = nodes
        g5.kill("gossipd")
        shows(nodes[:4], "g5", FAILED)
        g4.kill("gossipd")                      # its snapshot holds g5
        shows(nodes[:3], "g4", FAILED)
        assert ask(g1, MSG.GOSSIP_FORCE_LEAVE, ["g5", True]) == [0, ""]
        for n in (g1, g2, g3):
            wait_for(n.name + " forgets g5", lambda: "g5" not in statuses(n))
        assert "g5\n" in open(os.path.join(g4.data, "gossipd", "lan.snapshot")).read()
        start(g4)
        agree([g1, g2, g3, g4])                 # g4 learns it by the first exchange, and nobody learns from g4
        for n in (g1, g2, g3, g4):
            assert "g5" not in statuses(n)
        assert ask(g4, MSG.GOSSIP_FORCE_LEAVE, ["g5", True])[0] == ERR_NOENT
        g1.kill("gossipd")                      # who asked for it restarts, too
        start(g1)
        agree([g1, g2, g3, g4])
        start(g5)                               # and it may come back by itself
        agree(nodes)


def one_name_twice():
    """S128: the members vote; both addresses are in both logs, and the newcomer gives way."""
    with Cluster(NET, gossipd=QUICK) as cl:
        nodes = pool_of(cl, 4)
        g1, g2 = nodes[:2]
        # Another node with its name, its own identity, and an address of its own.
        twin = cl.add("twin", 9, server=False, node_name="g2")
        up(twin)
        join(twin, g1.addr)
        twin.expect_end("gossipd", 1, timeout=120)             # two votes, should the answers to the first get lost
        here, there = "%s:8301" % g2.addr, "%s:8301" % twin.addr
        for n in (g2, twin):
            wait_for("both are in the log of " + n.name, lambda: all(
                any(addr in line for line in n.log("gossipd").splitlines() if "onflict" in line) for addr in (here, there)))
        assert "EventMemberFailed: g2" not in g1.log("gossipd")
        agree(nodes)
        for n in nodes:
            assert listing(n)["g2"][0] == g2.addr
        assert int(info(g1)["gossipd"]["name_conflicts"]) >= 1


def version_six():
    """A pool on IPv6: join, failure, return, leave."""
    if not os.path.exists("/proc/net/if_inet6") or "00000000000000000000000000000001" not in open("/proc/net/if_inet6").read():
        print("SKIP: no IPv6 loopback", flush=True)
        return
    base = 20000 + 10 * int(NET.split(".")[-2])
    ports = [str(base + i) for i in range(3)]
    with Cluster(NET, gossipd=dict(QUICK, peer_ports=ports)) as cl:
        nodes = [up(cl.add("v%d" % i, i + 1, server=False, bind="::1", lan_port=base + i)) for i in range(3)]
        err, text, contacted = join(nodes[0], *["[::1]:%d" % (base + i) for i in (1, 2)])
        assert (err, contacted) == (0, 2), (err, text)
        agree(nodes)
        assert {m[0] for m in listing(nodes[1]).values()} == {"::1"}
        assert "EventMemberJoin: v1 ::1" in nodes[0].log("gossipd")
        nodes[2].kill("gossipd")
        shows(nodes[:2], "v2", FAILED)
        start(nodes[2])
        agree(nodes)                            # by its snapshot: addresses are read back
        assert ask(nodes[1], MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        agree_without = {"v0": ALIVE, "v2": ALIVE}
        wait_for("it has left", lambda: {k: v for k, v in statuses(nodes[0]).items() if k != "v1"} == agree_without and
                 statuses(nodes[0])["v1"] == 3)


def another_address_in_the_wan():
    """advertise_wan: the servers of the datacenter bring each other into the WAN pool by that address."""
    with Cluster(NET, gossipd=TIMING) as cl:
        tap = Tap(NET + ".201", NET + ".1", port=8302)
        try:
            e1 = up(cl.add("e1", 1, advertise_wan=NET + ".201"))
            e2 = up(cl.add("e2", 2, retry_join=[e1.addr]))
            for n in (e1, e2):
                wait_for(n.name + " knows the WAN",
                         lambda: statuses(n, WAN) == {"e1.dc1": ALIVE, "e2.dc1": ALIVE})
            assert listing(e2)["e1"][0] == e1.addr and listing(e2)["e1"][2]["wan_addr"] == NET + ".201"
            assert "wan_addr" not in listing(e1)["e2"][2]
            assert listing(e2, WAN)["e1.dc1"][0] == NET + ".201"
            wait_for("it is used", lambda: tap.datagrams)
        finally:
            tap.close()


def what_operators_see():
    """Sections under their names in info, agent/self and metrics; and who suspected whom, in the logs."""
    names = {"members", "failed", "left", "event_time", "member_time", "query_time", "health_score", "encrypted",
             "intent_queue", "event_queue", "query_queue", "coordinate_resets"}
    with Cluster(NET, gossipd=QUICK) as cl:
        n1 = cl.servers(1)[0]
        cl.formed()
        others = [up(cl.add("c%d" % i, i, server=False, retry_join=[n1.addr])) for i in (2, 3, 4)]
        agree([n1] + others)
        stats = n1.get("/v1/agent/self").json()["Stats"]
        for pool in ("serf_lan", "serf_wan"):
            assert names <= set(stats[pool]), names - set(stats[pool])
            assert "\n%s:\n" % pool in "\n" + n1.ctl("info").stdout
        assert stats["serf_lan"]["members"] == "4" and stats["serf_wan"]["members"] == "1", stats
        gauges = Told((g["Name"], g["Value"]) for g in n1.get("/v1/agent/metrics").json()["Gauges"])
        assert gauges["triumvir.serf_lan.members"] == 4 and gauges["triumvir.serf_wan.members"] == 1, gauges
        assert gauges["triumvir.gossipd.packets_in"] > 0 and gauges["triumvir.rpcd.http_requests"] > 0
        others[2].kill("gossipd")
        shows([n1] + others[:2], "c4", FAILED)
        logs = [n.log("gossipd") for n in [n1] + others[:2]]
        assert any("Suspect c4 has failed, no acks received" in log for log in logs), logs
        assert any("Suspect c4: " in log and "reported failed by" in log for log in logs), logs
        assert any("Marking c4 as failed" in log for log in logs), logs
        wait_for("metrics say so", lambda: Told((g["Name"], g["Value"]) for g in n1.get("/v1/agent/metrics").json()["Gauges"])[
            "triumvir.serf_lan.failed"] == 1)


main(pruned_stays_pruned, one_name_twice, version_six, another_address_in_the_wan,
     what_operators_see)

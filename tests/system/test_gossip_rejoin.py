#!/usr/bin/env python3
"""gossipd finds its pool again: after restarts, after an hour without a network, with memories that are gone or damaged."""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from gossipkit import (ALIVE, FAILED, LEFT, TIMING, agree, ask, hushed, info, join, listing, pool_of,  # noqa: E402
                       shows, start, statuses, up)
from tvframe import MSG  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.5.0")
# Nothing but the rejoin brings them together again.
ALONE = {**TIMING, "reconnect_interval": "1h", "lan.push_pull_interval": "2s"}
UNSUSPECTED = {"lan.probe_interval": "30s", "lan.probe_timeout": "15s"}     # a member that is late is not accused


def snapshot(node, pool="lan"):
    return os.path.join(node.data, "gossipd", pool + ".snapshot")


def forget(node):
    """It starts as a fresh node of the same name."""
    shutil.rmtree(os.path.join(node.data, "gossipd"))


def incarnation(node):
    return int(info(node)["serf_lan"]["incarnation"])


def first_start_without_a_network():
    """S74: retry_join goes on for ever, with growing waits, until somebody is there."""
    with Cluster(NET, gossipd=ALONE) as cl:
        g1 = up(cl.add("g1", 1, server=False, retry_join=[NET + ".2"], retry_interval="4s"))
        tried = wait_for("five rounds fail", lambda: (lambda t: t if len(t) >= 5 else None)(
            [int(x) for x in re.findall(r"retrying in about (\d+) s", g1.log("gossipd"))]), 60)
        assert tried[0] <= 2 and max(tried) <= 5 and sum(tried[2:]) > sum(tried[:2]), tried
        g2 = up(cl.add("g2", 2, server=False))
        agree([g1, g2])
        wait_for("g1 says so", lambda: "retry_join: joined the LAN pool" in g1.log("gossipd"))


def restarted_alone():
    """Those known before are asked for ever: the living ones, and the failed ones too (S74)."""
    with Cluster(NET, gossipd=ALONE) as cl:
        g1, g2, g3 = pool_of(cl, 3, retry_interval="2s")
        for n in (g2, g3):
            n.kill("gossipd")
        shows([g1], "g3", FAILED)
        shows([g1], "g2", FAILED)
        g1.stop("gossipd")
        start(g1)
        wait_for("a round is over", lambda: "known before the restart answered; still trying" in g1.log("gossipd"))
        assert statuses(g1) == {"g1": ALIVE, "g2": FAILED, "g3": FAILED}
        forget(g3)                              # it will not ask by itself
        start(g3)
        wait_for("they meet", lambda: statuses(g3) == {"g1": ALIVE, "g3": ALIVE} and statuses(g1)["g3"] == ALIVE)
        wait_for("g1 says so", lambda: "rejoined the LAN pool" in g1.log("gossipd"))


def forgotten_while_alone():
    """A member whose time as failed is over is not shown any more, but still leads back to the pool; after a restart too."""
    with Cluster(NET, gossipd=dict(ALONE, reconnect_timeout="1s", reap_interval="100ms")) as cl:
        g1, g2 = pool_of(cl, 2, retry_interval="1s")
        for life in range(2):
            g2.kill("gossipd")
            wait_for("g2 is forgotten", lambda: statuses(g1) == {"g1": ALIVE})
            if life > 0:
                g1.kill("gossipd")
                up(g1)
                assert statuses(g1) == {"g1": ALIVE}
            forget(g2)
            start(g2)
            agree([g1, g2])


def incarnation_and_clocks():
    """A restarted member stands above its last life, also after it left; nothing has to be refuted."""
    with Cluster(NET, gossipd={**ALONE, **UNSUSPECTED}) as cl:
        nodes = pool_of(cl, 3)
        g1, g2, g3 = nodes
        for i in range(5):
            assert ask(g2, MSG.GOSSIP_TAGS, [{"expect": str(i)}]) == [0, ""]
        before = incarnation(g2)
        clock = int(info(g2)["serf_lan"]["member_time"])
        assert before >= 6
        wait_for("it is on disk", lambda: "incarnation: %d\n" % before in open(snapshot(g2)).read())
        g2.kill("gossipd")
        start(g2)
        agree(nodes)
        assert incarnation(g2) == before + 1, (incarnation(g2), before)
        assert int(info(g2)["serf_lan"]["member_time"]) >= clock
        assert "Refuting" not in g2.log("gossipd"), g2.log("gossipd")
        assert ask(g2, MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        assert g2.wait_end("gossipd") == [0]
        shows([g1, g3], "g2", LEFT)
        hushed([g1, g3])
        before += 1
        up(g2)
        assert incarnation(g2) == before + 1
        assert statuses(g2) == {"g2": ALIVE}
        assert join(g2, g1.addr)[::2] == [0, 1]
        agree(nodes)


def damaged_memory():
    """Lines that do not read are named, an unfinished one is cut off, and the rest is used."""
    with Cluster(NET, gossipd=ALONE) as cl:
        nodes = pool_of(cl, 3)
        g1 = nodes[0]
        wait_for("its memory is on disk", lambda: all(" %s\n" % n.name in open(snapshot(g1)).read() for n in nodes))
        g1.kill("gossipd")
        shows(nodes[1:], "g1", FAILED)
        with open(snapshot(g1)) as f:
            lines = f.read().splitlines()
        lines.insert(1, "member: alive \x1b[31m nonsense")
        with open(snapshot(g1), "w") as f:
            f.write("\n".join(lines) + "\nmember: alive 1 2 - - 127.0.0.1:1 unfinis")
        start(g1)
        agree(nodes)
        log = g1.log("gossipd")
        assert "lan.snapshot:2: malformed line skipped" in log and "\x1b" not in log, log
        assert "unfinis" not in open(snapshot(g1)).read()


def full_disk():
    """Gossip goes on without a disk that takes writes; what was missed is told by others after the restart."""
    with Cluster(NET, gossipd=ALONE) as cl:
        nodes = pool_of(cl, 2)
        g1, g2 = nodes
        g1.kill("gossipd")
        g1.wrap = ["prlimit", "--fsize=900"]    # room for two members
        start(g1)
        agree(nodes)
        for i in (3, 4):
            nodes.append(up(cl.add("g%d" % i, i, server=False)))
            assert join(nodes[-1], g1.addr)[::2] == [0, 1]
        agree(nodes)
        wait_for("it is counted, again and again", lambda: int(info(g1)["gossipd"]["snapshot_errors"]) >= 3)
        assert os.path.getsize(snapshot(g1)) <= 900
        wait_for("no attempt leaves anything", lambda: not [
            f for f in os.listdir(os.path.dirname(snapshot(g1))) if "compact" in f])
        g1.kill("gossipd")
        g1.wrap = []
        start(g1)
        agree(nodes)
        wait_for("all is written", lambda: " g4\n" in open(snapshot(g1)).read())
        assert info(g1)["gossipd"]["snapshot_errors"] == "0"


def returns_elsewhere():
    """S127: who left returns at once under its name at another address, with its memory and without."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 3)
        g1, g2, g3 = nodes
        for last, memory in ((12, True), (22, False)):
            assert ask(g2, MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
            assert g2.wait_end("gossipd") == [0]
            shows([g1, g3], "g2", LEFT)         # at once, as a rule; whoever missed it would rightly see two of a name
            if not memory:
                forget(g2)
            g2.addr = "%s.%d" % (NET, last)
            conf = os.path.join(g2.conf, "cluster.conf")
            with open(conf) as f:
                text = re.sub(r'bind = ".*"', 'bind = "%s"' % g2.addr, f.read())
            with open(conf, "w") as f:
                f.write(text)
            up(g2)
            assert join(g2, g1.addr)[::2] == [0, 1]
            agree(nodes)
            for n in nodes:
                wait_for(n.name + " knows where", lambda: listing(n)["g2"][0] == g2.addr)
        for n in (g1, g3):
            assert "Name conflict" not in n.log("gossipd"), n.log("gossipd")


main(first_start_without_a_network, restarted_alone, forgotten_while_alone, incarnation_and_clocks, damaged_memory,
     full_disk, returns_elsewhere)

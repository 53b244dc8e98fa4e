#!/usr/bin/env python3
"""Two nodes go by one name (S128): the pool decides, both addresses are in the logs of both, and without a decision nobody ends."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from gossipkit import (ALIVE, FAILED, LEFT, TIMING, agree, ask, hushed, info, join, pool_of, shows, start, statuses,  # noqa: E402
                       up)
from tvframe import MSG  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.5.1")
LOSES = 120         # seconds: two votes 30 s apart, should the answers to the first get lost


def logged(node, *texts):
    """One line that has all of these."""
    wait_for("%s logs %s" % (node.name, texts), lambda: any(all(t in line for t in texts)
             for line in node.log("gossipd").splitlines()))


def second(cl, name, last, **kw):
    """Another node of that name."""
    return cl.add("another-" + name, last, server=False, node_name=name, **kw)


def the_newcomer_gives_way():
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 4)
        g2 = nodes[1]
        late = start(second(cl, "g2", 9, retry_join=[nodes[0].addr]))
        late.expect_end("gossipd", 1, timeout=LOSES)
        for n in (nodes[0], g2, late):
            logged(n, "Name conflict", g2.addr + ":8301", late.addr + ":8301")
        logged(late, "Minority in name conflict resolution", g2.addr, late.addr)
        assert "stopping without leaving" in late.log("gossipd")
        agree(nodes)
        assert all(n.running("gossipd") for n in nodes)


def restarted_it_gives_way_again():
    """The name is free for the newcomer once its owner has left."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 3)
        late = second(cl, "g2", 9, retry_join=[nodes[0].addr])
        for _ in range(2):
            start(late)
            late.expect_end("gossipd", 1, timeout=LOSES)
        agree(nodes)
        # Its leave has to be later than what was claimed of its name, so all of that must have been heard.
        hushed(nodes)
        wait_for("g2 has heard it", lambda: member_time(nodes[1]) >= max(member_time(n) for n in nodes))
        assert ask(nodes[1], MSG.GOSSIP_LEAVE, [], timeout=30) == [0, ""]
        assert nodes[1].wait_end("gossipd") == [0]
        shows([nodes[0], nodes[2]], "g2", LEFT)     # whoever missed it would still vote for the old one
        up(late)
        late.name = "g2"
        agree([nodes[0], late, nodes[2]])


def member_time(node):
    return int(info(node)["serf_lan"]["member_time"])


def nobody_can_tell():
    """Serf's agents would both end; here the old one goes on, whoever claims its name."""
    with Cluster(NET, gossipd=TIMING) as cl:
        g1 = pool_of(cl, 1)[0]
        late = up(second(cl, "g1", 9))
        join(late, g1.addr)
        for n in (g1, late):
            logged(n, "Name conflict not resolved", g1.addr, late.addr)
            assert n.running("gossipd")
        assert statuses(g1) == {"g1": ALIVE}


def case_twin_gives_way():
    """Names are compared without case: n2 is refused while N2 lives, told to both, and the pool goes on as it was."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 3)
        owner = nodes[1]
        late = start(cl.add("another-g2", 9, server=False, node_name="G2", retry_join=[nodes[0].addr]))
        late.expect_end("gossipd", 1, timeout=LOSES)
        logged(nodes[0], "Name conflict: g2 is at %s:8301" % owner.addr, "claimed by %s:8301 (as G2: names are compared "
               "without case)" % late.addr)
        logged(owner, "Name conflict: our own name g2", "%s:8301 (as G2" % late.addr)
        logged(late, "Name conflict: our own name G2", "%s:8301 (as g2" % owner.addr)
        logged(late, "Minority in name conflict resolution", owner.addr, late.addr)
        logged(late, "another node by our name G2 (as g2: names are compared without case): stopping without leaving")
        agree(nodes)
        assert all(n.running("gossipd") and statuses(n) == {"g1": ALIVE, "g2": ALIVE, "g3": ALIVE} for n in nodes)


def renamed_by_case_in_peace():
    """A dead twin is none: the machine comes back with its name in other letters, at another address, with the id it had."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 3)
        nodes[1].kill("gossipd")
        wait_for("g2 has failed", lambda: all(statuses(n)["g2"] == FAILED for n in (nodes[0], nodes[2])), 60)
        back = up(cl.add("G2", 9, server=False, retry_join=[nodes[0].addr]))
        wait_for("G2 is in", lambda: all(statuses(n).get("G2") == ALIVE for n in (nodes[0], nodes[2], back)))
        assert back.running("gossipd") and "Name conflict" not in back.log("gossipd")


def longer_each_time():
    """What loses again and again, as systemd starts it again, waits longer each time; out of the pool, and SIGTERM ends it."""
    with Cluster(NET, gossipd=TIMING) as cl:
        nodes = pool_of(cl, 3)
        late = second(cl, "g2", 9, retry_join=[nodes[0].addr])
        for pause in (0, 2, 4):
            start(late)
            wait_for("it has lost", lambda: late.log("gossipd").count("stopping without leaving") > 0)
            if pause:
                logged(late, "ending in %d s, so that a start after that asks the pool again" % pause)
            late.expect_end("gossipd", 1, timeout=LOSES)
            os.rename(late.log_path("gossipd"), late.log_path("gossipd") + ".%d" % pause)
        start(late)
        logged(late, "ending in 8 s")
        late.stop("gossipd")
        agree(nodes)


main(case_twin_gives_way, renamed_by_case_in_peace, longer_each_time, the_newcomer_gives_way, restarted_it_gives_way_again, nobody_can_tell)

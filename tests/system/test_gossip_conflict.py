#!/usr/bin/env python3
"""Two nodes go by one name (S128): the pool decides, both addresses are in the logs of both, and without a decision nobody ends."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from gossipkit import (ALIVE, LEFT, TIMING, agree, ask, hushed, info, join, pool_of, shows, start, statuses,  # noqa: E402
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


main(the_newcomer_gives_way, restarted_it_gives_way_again, nobody_can_tell)

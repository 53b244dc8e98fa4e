#!/usr/bin/env python3
"""Names that differ only by case: another spelling is another member wherever one of the two is Serf's agent."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Agent, Ours, Pool, namespace  # noqa: E402
from cluster import main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.111.0").rpartition(".")[0]


def side_by_side():
    """An agent N2 comes to our n2, one of ours, N3, to an agent n3, and two agents to each other; all tables show all of them."""
    net = NET + ".1"
    with Pool(net, False, label="twins", count=7) as pool:
        o1 = pool.add(Ours(pool, "n1", net + ".1")).start()
        o2 = pool.add(Ours(pool, "n2", net + ".2")).start(join=o1)
        s2 = pool.add(Agent(pool, "N2", net + ".102")).start(join=o1)
        s3 = pool.add(Agent(pool, "n3", net + ".103")).start(join=o1)
        pool.up(o1, o2, s2, s3)
        pool.agree("an agent beside one of ours")
        o3 = pool.add(Ours(pool, "N3", net + ".3")).start(join=o1)
        s4 = pool.add(Agent(pool, "n4", net + ".104")).start(join=s3)
        s5 = pool.add(Agent(pool, "N4", net + ".105")).start(join=s3)
        pool.up(o3, s4, s5)
        pool.agree("one of ours beside an agent, and two agents")
        # An agent that returns still finds its place, and so does one of ours.
        s2.kill()
        o3.kill()
        pool.down(s2, o3)
        pool.agree("both are seen dead", pool.limits.detect())
        s2.start(join=o1)
        o3.start(join=o1)
        pool.up(s2, o3)
        pool.agree("both are back", pool.limits.heal())
        for m in (o1, o2, o3):
            assert "Name conflict" not in m.log() and m.stats()["name_conflicts"] == "0", m.log()[-2000:]
        # Two of ours are one too many, and the agents beside them stay out of it: they know both, so nobody but ours decides.
        late = Ours(pool, "N1", net + ".9").start(join=o2)
        wait_for("it is a conflict", lambda: "Name conflict: our own name N1" in late.log())
        wait_for("it gives way", lambda: not late.running(), 120)
        late.node.may_end("gossipd", 1)
        assert "another node by our name N1 (as n1: names are compared without case)" in late.log(), late.log()[-2000:]
        assert all(m.running() for m in (o1, o2, o3, s2, s3, s4, s5))


if __name__ == "__main__":
    namespace()
    main(side_by_side)

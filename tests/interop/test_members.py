#!/usr/bin/env python3
"""Pools of five nodes of ours and five of Serf's agents: every tool at every node shows the same members, whatever
happens to them.  Two pools live at the same time: one in clear, one with a shared 32-byte key."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Pool, namespace, together  # noqa: E402
from cluster import main  # noqa: E402

NET = os.environ.get("TV_NET", "127.101.0").rpartition(".")[0]


def form(pool):
    """Serf's agents join our pool, a node of ours joins a pool of theirs, and then the two pools become one."""
    o = pool.ours(4)
    for m in o:
        m.start(join=o[0])
    s = pool.agents(5)
    for m, to in zip(s[:3], o):
        m.start(join=to)
    pool.up(*o, *s[:3])
    pool.agree("agents in a pool of ours")
    s[3].start()
    s[4].start(join=s[3])
    o5 = pool.ours(1, first=5)[0].start().up()
    s[3].up()
    o5.join(s[3])
    o.append(o5)
    pool.up(*s[3:], o5)
    those = [s[3], s[4], o5]
    pool.agree("one of ours in a pool of agents", members=those,
               expected={m.name: pool.expected[m.name] for m in those})
    s[4].join(o[0])
    pool.agree("two pools become one")
    return o, s


def tags(pool, o, s):
    s[0].set_tags(kind="db", nr="", zone="a" * 200)
    o[0].set_tags(color="blue", zone="b" * 200)
    pool.agree("tags set on both sides")
    s[0].set_tags(zone="")
    o[0].set_tags(zone="", color="green")
    pool.agree("tags changed and removed")


def leave_and_return(pool, o, s):
    together(o[1].leave, s[1].leave)
    pool.down(o[1], s[1], status="left")
    pool.agree("graceful leaves")
    o[1].start()
    s[1].start(join=o[0])
    pool.up(o[1], s[1])
    pool.agree("both return")


def kill_and_return(pool, o, s):
    o[2].kill()
    s[2].kill()
    pool.down(o[2], s[2])
    pool.agree("kills", pool.limits.detect())
    o[2].start()
    s[2].start()                                # both remember whom to join
    pool.up(o[2], s[2])
    pool.agree("both return by themselves")


def leave_and_move(pool, o, s):
    together(o[3].leave, s[3].leave)
    o[3].move("%s.54" % pool.net)
    s[3].move("%s.154" % pool.net)
    o[3].start()
    s[3].start(join=o[0])
    pool.up(o[3], s[3])
    pool.agree("left, and at once back at new addresses", pool.limits.forget())


def pruned(pool, what, *members):
    """That a member is pruned is no part of the deployed full exchange; our nodes tell those who missed it, with the next one
    that they have with them.

    Whoever returns before the last copy of the prune has arrived may be forgotten by an agent for good: Serf's agent sees it
    join, takes the copy for news of this life, waits 6 s and erases the member ("EventMemberReap (forced)"), while its
    memberlist goes on to see it alive, so that no join follows.  Ours keep such a member (check_swim_news
    `late_prune_of_an_earlier_life`).  The promise begins when nobody sends the prune any more."""
    pool.gone(*members)
    pool.agree(what, 2 * pool.limits.spread())
    pool.settled()


def force_leave(pool, o, s):
    o[4].kill()
    s[4].kill()
    pool.down(o[4], s[4])
    pool.agree("kills", pool.limits.detect())
    o[0].force_leave("s5")
    s[0].force_leave("o5")
    pool.down(o[4], s[4], status="left")
    pool.agree("force-leave from the other side")
    o[0].force_leave("o5", prune=True)
    s[0].force_leave("s5", prune=True)
    pruned(pool, "pruned from the own side", o[4], s[4])


def prune_failed(pool, o, s):
    """Pruned while still failed, each from the other side; the force-leave of one that lives does nothing."""
    s[4].start(join=o[1])
    pool.up(s[4])
    pool.agree("an agent that was pruned returns")
    o[4].start()
    pool.up(o[4])
    pool.agree("one of ours that was pruned returns by itself")
    o[0].force_leave("s1")
    s[0].force_leave("o1")
    o[4].kill()
    s[4].kill()
    pool.down(o[4], s[4])
    pool.agree("force-leave of the living did nothing, and kills are seen", pool.limits.detect())
    o[1].force_leave("s5", prune=True)
    s[1].force_leave("o5", prune=True)
    pruned(pool, "pruned from the other side", o[4], s[4])


STEPS = (tags, leave_and_return, kill_and_return, leave_and_move, force_leave, prune_failed)


def life(net, encrypted):
    with Pool(net, encrypted, label="encrypted" if encrypted else "plain") as pool:
        o, s = form(pool)
        for step in STEPS:
            step(pool, o, s)
        pool.clean()


def crash_and_move(net):
    """A failed name is free for another address only when it was forgotten, which the profile `local` does sooner."""
    with Pool(net, True, label="crash and move", profile="local", count=4) as pool:
        o, s = pool.formed(pool.ours(2), pool.agents(2))
        o[1].kill()
        s[1].kill()
        pool.down(o[1], s[1])
        pool.agree("kills", pool.limits.detect())
        o[1].move(net + ".52")
        s[1].move(net + ".152")
        o[1].start()
        s[1].start(join=o[0])
        pool.up(o[1], s[1])
        pool.agree("back at new addresses after a crash", pool.limits.forget())
        pool.clean()


def five_and_five():
    together(lambda: life(NET + ".1", False), lambda: life(NET + ".2", True), lambda: crash_and_move(NET + ".3"))


if __name__ == "__main__":
    namespace()
    main(five_and_five)

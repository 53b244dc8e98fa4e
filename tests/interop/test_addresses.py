#!/usr/bin/env python3
"""Members at other ports than ours, and at IPv6 addresses."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Ours, Pool, namespace, together  # noqa: E402
from cluster import main, skip  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.103.0").rpartition(".")[0]
SERF_PORT = 7946


def pair(label, net, ours, serf, encrypted, **kw):
    """Joins both ways, a tag, a restart, a leave: with each of the two as the one who asks."""
    with Pool(net, encrypted, label=label, count=3, gossipd=kw) as pool:
        o = pool.add(Ours(pool, "o1", ours)).start().up()
        s = pool.agent(1, serf, port=SERF_PORT)
        s.start(join=o)
        pool.up(o, s)
        pool.agree("an agent joins")
        s.leave()
        pool.down(s, status="left")
        pool.agree("it leaves")
        s.start().up()
        wait_for("it is alone or back", lambda: "s1" in s.table())
        o.join(s)
        pool.up(s)
        pool.agree("and is joined")
        o.set_tags(a="b")
        s.set_tags(nr="7")
        pool.agree("tags")
        s.kill()
        pool.down(s)
        pool.agree("killed", pool.limits.detect())
        s.start()
        pool.up(s)
        pool.agree("it returns", pool.limits.heal())
        pool.clean()


def ipv6():
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def other_ports():
    ports = {"peer_ports": [str(SERF_PORT)]}
    jobs = [lambda: pair("port", NET + ".1", NET + ".1.1", NET + ".1.101", False, **ports),
            lambda: pair("port, encrypted", NET + ".2", NET + ".2.1", NET + ".2.101", True, **ports)]
    if ipv6():
        jobs.append(lambda: pair("IPv6", NET + ".4", "::1", "::1", True, **ports))
    else:
        print("SKIP: no IPv6 here", flush=True)
    together(*jobs)


def walled_port():
    """Without the setting the join fails and says what is missing; the agent can still join us."""
    with Pool(NET + ".3", label="walled", count=2) as pool:
        o = pool.ours(1)[0].start().up()
        s = pool.agent(1, port=SERF_PORT).start().up()
        p = o.ctl("join", s.where, check=False)
        if p.returncode == 0:
            skip("this kernel has no rules for ports")
        assert "peer_ports" in p.stderr, p.stderr
        assert "add it to peer_ports" in o.log(), o.log()
        s.join(o)
        pool.up(o, s)
        pool.agree("joined from the other side")


if __name__ == "__main__":
    namespace()
    main(other_ports, walled_port)

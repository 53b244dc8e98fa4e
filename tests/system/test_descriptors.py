#!/usr/bin/env python3
"""Few descriptors: daemons say so at the start, strangers' connections take no more than leave some for operators, files and
the other daemons, and no loop spins for those that it cannot accept."""
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

PORTS = (8500, 8400, 8300, 8301)


def limited(c, limit, **rpcd):
    """A server whose processes may have so many descriptors."""
    return c.add("n1", 1, raftd={"bootstrap": True}, rpcd=rpcd, wrap=["prlimit", "--nofile=%d:%d" % (limit, limit)]).start()


def warnings(node, daemon):
    return re.findall(r"\[WARN\] %s: (.* let this process use \d+ descriptors, and it may have \d+ .*)" % daemon, node.log(daemon))


def used(node, daemon):
    return len(os.listdir("/proc/%d/fd" % node.pid(daemon)))


def cpu(node, daemon):
    """Seconds of processor time until now."""
    with open("/proc/%d/stat" % node.pid(daemon)) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Strangers:
    """Connections that stay open and say nothing."""

    def __init__(self, addr, count):
        self.sockets = []
        for port in PORTS:
            for _ in range(count):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex((addr, port))
                self.sockets.append(s)

    def close(self):
        for s in self.sockets:
            s.close()


def crowded(limit):
    with Cluster("127.248.%d" % (limit // 64)) as c:
        node = limited(c, limit)
        c.formed([node])
        strangers = Strangers(node.addr, 300)
        wait_for("rpcd refuses or evicts", lambda: sum(int(v) for k, v in node.stats("rpcd", unix=True).items()
                                                     if k in ("http_conns_refused_busy", "http_conns_evicted")) > 0)
        before = {d: cpu(node, d) for d in node.daemons}
        for i in range(50):
            p = node.ctl("--addr", "unix:" + os.path.join(node.run, "rpcd.sock"), "kv", "put", "k%d" % i, "v")
            assert p.returncode == 0
            assert {d for d in node.daemons if used(node, d) >= limit} == set()
        lines = sum(len(node.log(d).splitlines()) for d in node.daemons)
        assert lines < 200, lines
        # A loop that spins has all of a processor; 50 writes take each daemon less than a tenth of that.
        spent = {d: cpu(node, d) - before[d] for d in node.daemons}
        assert max(spent.values()) < 5, spent
        strangers.close()
        wait_for("the port serves again", lambda: node.get("/v1/kv/k1").ok().status == 200)
        node.stop()


def test_128():
    crowded(128)


def test_256():
    crowded(256)


def test_told_at_the_start():
    """Once, with the keys and the remedy; not where all fit."""
    with Cluster("127.248.9") as c:
        node = limited(c, 512)
        c.formed([node])
        (line,) = warnings(node, "rpcd")
        assert line.startswith("limits.http_max_conns, limits.rpc_max_conns and limits.links_max let") and "LimitNOFILE=" in line, line
        node.signal(1)
        wait_for("it is reloaded", lambda: "configuration reloaded" in node.log("rpcd"))
        assert len(warnings(node, "rpcd")) == 1
        node.stop()
    with Cluster("127.248.10") as c:
        limits = {"limits.http_max_conns": 50, "limits.rpc_max_conns": 20, "limits.links_max": 20}
        node = limited(c, 1024, **limits)
        c.formed([node])
        assert not any(warnings(node, d) for d in node.daemons), node.log("rpcd")
        node.stop()


if __name__ == "__main__":
    main(test_128, test_256, test_told_at_the_start)

#!/usr/bin/env python3
"""Strangers at the ports between nodes, and servers that somebody invented: peers get through, and nobody is ended."""
import os
import socket
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import serfwire as w  # noqa: E402
from cluster import Cluster, main, moved, wait_for  # noqa: E402

NET = moved("127.13.1")
INVENTED = 300
CALM = {"election_timeout": "2s"}


def number(node, section, name):
    return int(node.stats(section)[name])


class Inventor(threading.Thread):
    """Gossips servers that do not exist to some nodes, alive again and again, however often they are found dead."""

    def __init__(self, nodes, addrs, pause=0.2):
        super().__init__(daemon=True)
        self.nodes, self.addrs, self.pause = nodes, addrs, pause
        self.ids = [str(uuid.uuid4()) for _ in addrs]
        self.halt = threading.Event()

    def say(self, incarnation):
        nodes = [w.node("i%d" % i, addr, incarnation, meta=b"\xff" + w.mapping(
            role="server", dc="dc1", id=self.ids[i], rpc_port="8400", port="8300", vsn="2"))
            for i, addr in enumerate(self.addrs)]
        for n in self.nodes:
            w.talk(n.addr, w.push_pull(nodes))

    def run(self):
        incarnation = 1
        while not self.halt.is_set():
            try:
                self.say(incarnation)
            except OSError:
                pass
            incarnation += 1
            self.halt.wait(self.pause)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.halt.set()
        self.join(30)


def known(node):
    return sum(1 for name in node.members() if name.startswith("i"))


def addresses(count, first=20):
    """Where nobody listens."""
    net = NET.rsplit(".", 1)[0]
    return ["%s.%d.%d" % (net, 100 + i // 200, first + i % 200) for i in range(count)]


def test_invented_servers():
    """More servers than there are places for links: a client reads on, and dials none of them while it has a real one."""
    with Cluster(NET, keys=False) as cl:
        servers = cl.servers(3, raftd=CALM)
        cl.formed(servers)
        client = cl.client("c1", 9, servers[0], rpcd={"limits.links_max": 32}).up()
        fresh = cl.client("c2", 10, servers[0], rpcd={"limits.links_max": 16, "rpc_hold_timeout": "30s"}).up()
        servers[0].kv_put("k", b"v")
        assert client.kv_get("k") == b"v"
        with Inventor([client, fresh], addresses(INVENTED)):
            wait_for("the inventions are listed", lambda: known(client) == known(fresh) == INVENTED)
            dialled = number(client, "rpcd", "links_dialled")
            for _ in range(300):
                assert client.kv_get("k") == b"v"
            assert number(client, "rpcd", "links_dialled") == dialled
            # Every server that it may have proven ends and returns: it looks among all there are, and finds one.
            for daemon in ("rpcd",):
                for s in servers:
                    s.kill(daemon)
            assert client.get("/v1/kv/k", timeout=60).status == 500
            for s in servers:
                s.start("rpcd")
            wait_for("the client reads again", lambda: client.kv_get("k") == b"v")
            wait_for("the other one too", lambda: fresh.kv_get("k") == b"v")
            dialled = number(fresh, "rpcd", "links_dialled")
            for _ in range(300):
                assert fresh.kv_get("k") == b"v"
            assert number(fresh, "rpcd", "links_dialled") == dialled
        for n in (client, fresh):
            assert n.running("rpcd") and number(n, "rpcd", "links_unproven") <= 8


def test_invented_under_load():
    """Reads of many clients at a node whose own server is away, while the inventions fill its links (the default limit)."""
    with Cluster(NET, keys=False) as cl:
        server = cl.servers(1, raftd=CALM)[0]
        cl.formed([server])
        server.kv_put("k", b"v")
        client = cl.client("c1", 9, server, rpcd={"rpc_hold_timeout": "1s"}).up()
        server.kill("rpcd")
        with Inventor([client], addresses(INVENTED)):
            wait_for("the inventions are listed", lambda: known(client) == INVENTED)

            def read():
                for _ in range(3):
                    client.get("/v1/kv/k", timeout=60)
            readers = [threading.Thread(target=read) for _ in range(100)]
            for r in readers:
                r.start()
            for r in readers:
                r.join()
            assert client.running("rpcd")
            assert number(client, "rpcd", "links_dialled") >= INVENTED / 2
            server.start("rpcd")
            wait_for("the client reads again", lambda: client.kv_get("k") == b"v")


if __name__ == "__main__":
    main(test_invented_servers, test_invented_under_load)

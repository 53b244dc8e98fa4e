#!/usr/bin/env python3
"""Strangers at the ports between nodes, and servers that somebody invented: peers get through, and nobody is ended."""
import contextlib
import os
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import serfwire as w  # noqa: E402
from cluster import Cluster, main, moved  # noqa: E402
from flood import Flood  # noqa: E402
from waiting import wait_for  # noqa: E402

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


def sources(count):
    return ["%s.%d" % (NET, 100 + i) for i in range(count)]


def test_raft_port():
    """Silent strangers in crowds at the raft port of all servers, while one of them starts again: it is a follower soon."""
    with Cluster(NET) as cl, contextlib.ExitStack() as floods:
        servers = cl.servers(3, raftd=dict(CALM, links_max=16))
        leader = cl.formed(servers)
        back = next(s for s in servers if s is not leader)
        leader.kv_put("before", b"1")
        back.stop()
        all_of_them = [floods.enter_context(Flood(s.addr, 8300, 100, sources(5))) for s in servers if s is not back]
        all_of_them += [floods.enter_context(Flood(s.addr, 8300, 64, sources(64), b"TVn1")) for s in servers if s is not back]
        wait_for("every place is taken", lambda: number(leader, "raftd", "links_evicted") > 100)
        assert leader.is_leader()
        leader.kv_put("meanwhile", b"2")
        term = leader.term()
        back.start()
        wait_for("it follows", lambda: back.kv_get("meanwhile", "?stale") == b"2")
        wait_for("it votes", lambda: back.stats("raft")["state"] == "Follower" and back.kv_get("before") == b"1")
        assert leader.is_leader() and leader.term() == term, "the servers elected anew"
        assert all(f.closed > 0 and len(f.socks) > 0 for f in all_of_them)
        assert number(leader, "raftd", "links_accepted") <= 2 and number(leader, "raftd", "links_refused") == 0
        floods.close()
        wait_for("the strangers are gone", lambda: number(leader, "raftd", "links_unproven") == 0)


def test_rpc_port():
    """The same at 8400, with more of them than links are allowed: a client that comes meanwhile reads and writes."""
    with Cluster(NET) as cl:
        server = cl.servers(1, raftd=CALM, rpcd={"limits.rpc_max_conns": 8})[0]
        cl.formed([server])
        with Flood(server.addr, 8400, 300, sources(6)) as silent, Flood(server.addr, 8400, 100, sources(100), b"T") as slow:
            wait_for("every place is taken", lambda: number(server, "rpcd", "peers_evicted") > 100)
            client = cl.client("c1", 9, server).up()
            for i in range(20):
                wait_for("a write", lambda: client.put("/v1/kv/k%d" % i, b"v").body == b"true")
                assert client.kv_get("k%d" % i) == b"v"
            assert silent.closed > 0 and slow.closed > 0
            assert number(server, "rpcd", "peers_unproven") <= 256 and number(server, "rpcd", "peers_refused") == 0
        wait_for("the strangers are gone", lambda: number(server, "rpcd", "peers_unproven") == 0)


def test_gossip_port():
    """Four addresses that hold all the streams they may have, with and without a byte: nodes join meanwhile."""
    for say in (b"", b"\x0a\x00\x00"):     # a sealed message begins
        with Cluster(NET) as cl:
            server = cl.servers(1, raftd=CALM)[0]
            cl.formed([server])
            with Flood(server.addr, 8301, 160, sources(4), say) as lan, Flood(server.addr, 8302, 160, sources(4), say):
                wait_for("every place is taken", lambda: number(server, "gossipd", "streams_unread") >= 128 and
                         number(server, "gossipd", "streams_evicted") > 100)
                clients = [cl.client("c%d" % i, 10 + i, server) for i in range(4)]
                for c in clients:
                    wait_for(c.name + " is a member", lambda: c.members().get(server.name) == 1)
                wait_for("all are listed", lambda: sum(server.members().get(c.name) == 1 for c in clients) == 4)
                assert lan.closed > 0 and len(lan.socks) > 0


if __name__ == "__main__":
    main(test_invented_servers, test_invented_under_load, test_raft_port, test_rpc_port, test_gossip_port)

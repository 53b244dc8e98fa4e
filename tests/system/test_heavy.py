#!/usr/bin/env python3
"""Many large reads at once: a server looks at its links between them, so that they cost nobody the leadership, and makes its
answers no faster than rpcd takes them, so that none is lost."""
import http.client
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402

NET = os.environ.get("TV_NET", "127.43.1")
WRITERS, KEYS = 8, 1000                 # an answer takes raftd some 10 ms
READERS = 120                           # fewer than rpcd takes of one address
TIMES = {"election_timeout": "1s", "heartbeat_interval": "250ms"}


def fill(node):
    def write(k):
        conn = http.client.HTTPConnection(node.addr, 8500)
        for i in range(KEYS):
            conn.request("PUT", "/v1/kv/small/%d/%05d" % (k, i), b"x" * 100)
            assert conn.getresponse().read() == b"true"
        conn.close()
    writers = [threading.Thread(target=write, args=(k,)) for k in range(WRITERS)]
    for t in writers:
        t.start()
    for t in writers:
        t.join()
    for i in range(4):
        node.kv_put("large/%d" % i, b"y" * 500000)


def crowd(node, path, size):
    """Everybody reads the same at the same time, and all of it."""
    got = []

    def read():
        r = node.get(path, timeout=120)
        got.append((r.status, len(r.body) > size))
    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for t in readers:
        t.start()
    for t in readers:
        t.join()
    assert got == [(200, True)] * READERS, (path, len(got), set(got))


def heavy_reads():
    with Cluster(NET) as c:
        nodes = c.servers(3, raftd=TIMES)
        leader = c.formed(nodes)
        follower = next(n for n in nodes if n is not leader)
        fill(leader)
        term = leader.term()
        for node in leader, follower:
            crowd(node, "/v1/kv/large/?recurse", 4 * 500000)
            crowd(node, "/v1/kv/small/?recurse", WRITERS * KEYS * 100)
            crowd(node, "/v1/kv/small/?recurse&stale", WRITERS * KEYS * 100)
        assert leader.is_leader() and {n.term() for n in nodes} == {term}
        for n in nodes:
            assert "does not read" not in n.log("raftd"), n.name


if __name__ == "__main__":
    main(heavy_reads)

#!/usr/bin/env python3
"""Many large reads at once: a server looks at its links between them, so that they cost nobody the leadership, and makes its
answers no faster than rpcd takes them, so that none is lost."""
import http.client
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tvframe  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from raftcluster import MSG, OP, READ_DEFAULT, READ_STALE  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.43.1")
WRITERS, KEYS = 8, 1000                 # an answer takes raftd some 10 ms
READERS = 120                           # fewer than rpcd takes of one address
# What a busy machine takes from a daemon moves no leader; what a turn of raftd's loop may take is looked at on its channel.
STEADY = {"election_timeout": "4s"}
LISTS = 150                             # of 8000 names: 13 MB, fewer than raftd makes before they are taken


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


def in_the_midst(node, mode):
    """Many reads in one piece, and a question once the first is answered: is that one answered before the last of them?"""
    raw = tvframe.pack([OP.KV_KEYS, "", mode, 0, 0, 0, "", ["small/", ""]])
    with tvframe.Conn(os.path.join(node.run, "raftd.sock"), role="test") as conn:
        conn.send_raw(b"".join(tvframe.HEAD.pack(len(raw), MSG.OP, 0, i) + raw for i in range(1, LISTS + 1)))
        order = [conn.wait(lambda f: f.flags & tvframe.REPLY)]
        conn.send(MSG.INFO, [], LISTS + 1)
        while len(order) <= LISTS:
            order.append(conn.wait(lambda f: f.flags & tvframe.REPLY))
    assert all(f.id > LISTS or (f.body[0] == 0 and len(f.body[5][0]) == WRITERS * KEYS) for f in order)
    return order[-1].id <= LISTS


def heavy_reads():
    with Cluster(NET) as c:
        nodes = c.servers(3, raftd=STEADY)
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
            assert "bytes are queued; closing" not in n.log("raftd"), n.name
        for node in leader, follower:
            for mode in READ_DEFAULT, READ_STALE:
                wait_for("%s answers others between reads" % node.name, lambda: in_the_midst(node, mode))


if __name__ == "__main__":
    main(heavy_reads)

"""Questions to gossipd.sock, and pools of gossipd alone, for the system tests of gossip."""
import os
import socket

from tvframe import MSG, Conn
from waiting import NotYet, Told, wait_for

LAN, WAN = 0, 1
ALIVE, LEAVING, LEFT, FAILED = 1, 2, 3, 4
JOIN, UPDATE, LEAVE, FAIL, REAP = range(5)
# A busy machine may be late: exchanges get more than the second of the profile.
TIMING = {"profile": "local", "profile_wan": "local", "reconnect_interval": "1s", "flood_interval": "1s",
          "snapshot_interval": "50ms", "lan.stream_timeout": "5s", "wan.stream_timeout": "5s"}
ERR_INVAL, ERR_NOENT, ERR_UNREACH = 5, 6, 19


def sock(node):
    return os.path.join(node.run, "gossipd.sock")


def ask(node, kind, body, timeout=20):
    with Conn(sock(node)) as c:
        return c.call(kind, body, timeout)


def info(node):
    return ask(node, MSG.INFO, [])


def member(raw):
    """[pool, event, name, addr, status, tags] of one MSG_GOSSIP_MEMBER."""
    pool, event, m = raw
    return pool, event, m[0], socket.inet_ntop(socket.AF_INET if len(m[1]) == 4 else socket.AF_INET6, m[1]), m[3], m[4]


def listing(node, pool=LAN):
    """name -> (address, status, tags), as a fresh watcher is told."""
    out = Told()
    with Conn(sock(node)) as c:
        c.send(MSG.GOSSIP_WATCH, [])
        for f in c.frames(10):
            if f.type == MSG.GOSSIP_SYNCED:
                return out
            p, _, name, addr, status, tags = member(f.body)
            if p == pool:
                out[name] = (addr, status, tags)
    raise NotYet("no MSG_GOSSIP_SYNCED")


def members(node, pool=LAN):
    """name -> (status, tags)."""
    return Told((name, (status, tags)) for name, (_, status, tags) in listing(node, pool).items())


def statuses(node, pool=LAN):
    return Told((name, status) for name, (_, status, _) in listing(node, pool).items())


def start(node):
    node.start("gossipd")
    return node


def up(node):
    """Started, and answering."""
    start(node)
    wait_for(node.name + " answers", lambda: os.path.exists(sock(node)) and Conn(sock(node)).close() is None)
    return node


def join(node, *addrs, pool=LAN):
    return ask(node, MSG.GOSSIP_JOIN, [pool, list(addrs)])


def shows(nodes, about, status, timeout=90, pool=LAN):
    for n in nodes:
        wait_for("%s shows %s as %s" % (n.name, about, status),
                 lambda: statuses(n, pool).get(about) == status, timeout)


def hushed(nodes):
    """Waits until these have passed on all news of members: who has left or is failed is told them, too, for a while."""
    for n in nodes:
        wait_for(n.name + " has told all", lambda: [info(n)["serf_lan"][q] for q in ("member_queue", "intent_queue")] ==
                 ["0", "0"])


def pool_of(cluster, count, first=1, prefix="g", **kw):
    nodes = [start(cluster.add("%s%d" % (prefix, i + 1), first + i, server=False, **kw)) for i in range(count)]
    for n in nodes:
        wait_for(n.name + " answers", lambda: os.path.exists(sock(n)) and statuses(n))
    err, text, contacted = join(nodes[0], *[n.addr for n in nodes[1:]]) if count > 1 else (0, "", 0)
    assert (err, contacted) == (0, count - 1), (err, text, contacted)
    agree(nodes)
    return nodes


def agree(nodes, timeout=90):
    """All show exactly these, alive."""
    want = {n.name: ALIVE for n in nodes}
    for n in nodes:
        wait_for(n.name + " knows all", lambda: statuses(n) == want, timeout)

#!/usr/bin/env python3
"""What strangers and liars send to gossipd: it drops, counts, says so now and then, and the pool goes on (S167-S178).

After each attack the pool is whole, takes new members, and has neither grown nor filled its log.
"""
import os
import random
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import serfwire as w  # noqa: E402
from cluster import SANITIZERS, Cluster, main  # noqa: E402
from crowd import cpu  # noqa: E402
from gossipkit import ALIVE, FAILED, TIMING, agree, info, join, pool_of, start, statuses  # noqa: E402
from tap import Tap  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.6.0")
CALM = {**TIMING, "lan.push_pull_interval": "2s"}
GROWTH = 48 << 20                               # memory that an attack may leave behind, allocator's habits included
LINES = 120                                     # log lines of one attack and its aftermath
REFUSAL_MAX = 200                               # bytes of a sealed refusal; the state of four members is longer


def rss(node):
    with open("/proc/%d/status" % node.pid("gossipd")) as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) << 10


def counted(node, *names):
    """Sum of the counters of that name."""
    stats = info(node)["gossipd"]
    return sum(int(stats[n]) for n in names)


class Watch:
    """Looks at a pool before and after an attack."""

    def __init__(self, nodes, victim=None, lines=LINES, growth=GROWTH):
        self.nodes, self.victim, self.lines, self.growth = nodes, victim or nodes[0], lines, growth

    def __enter__(self):
        self.rss = rss(self.victim)
        self.log = {n.name: len(n.log("gossipd").splitlines()) for n in self.nodes}
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        for n in self.nodes:
            assert n.running("gossipd"), n.log("gossipd")[-2000:]
            wait_for(n.name + " shows the pool whole",
                     lambda: all(statuses(n).get(x.name) == ALIVE for x in self.nodes), 60)
        assert join(self.nodes[-1], self.victim.addr)[::2] == [0, 1]
        grown = rss(self.victim) - self.rss
        assert SANITIZERS or grown < self.growth, "grown by %d KiB" % (grown >> 10)
        for n in self.nodes:
            lines = n.log("gossipd").splitlines()[self.log[n.name]:]
            assert len(lines) < self.lines, "%d lines, last ones:\n%s" % (len(lines), "\n".join(lines[-20:]))


def plain_pool(cl, count=3, **kw):
    return pool_of(cl, count, **kw)


def lengths_that_lie():
    """S167, S168: counts and lengths are not believed before the bytes are there."""
    huge = [1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1]
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        with Watch(nodes):
            for n in huge:
                assert w.talk(g1.addr, w.push_pull([], count=n)) == b""
                assert w.talk(g1.addr, w.push_pull([], state_len=n)) == b""
                assert w.talk(g1.addr, w.push_pull([w.node("x", NET + ".99")], count=n, state_len=n)) == b""
                assert w.talk(g1.addr, w.message(w.USER, UserMsgLen=n)) == b""
                assert w.talk(g1.addr, w.message(w.USER, UserMsgLen=n) + bytes(100)) == b""
            assert w.talk(g1.addr, bytes([w.ENCRYPT]) + struct.pack(">I", 0xFFFFFFFF) + bytes(1000), end=False) != b"x"
            for head in (b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"):
                assert w.talk(g1.addr, bytes([w.PUSH_PULL]) + head) == b""
                w.send(g1.addr, *[bytes([kind]) + head for kind in range(14)])
            assert counted(g1, "streams_dropped") >= 5 * len(huge)
        assert "x" not in statuses(g1)


def bombs_and_boxes():
    """S169, S170: what expands without measure, and boxes in boxes."""
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        zeros = w.lzw(bytes(4 << 20))           # 1 : 700
        with Watch(nodes):
            w.send(g1.addr, w.compressed(zeros[:60000]))
            for _ in range(8):
                w.talk(g1.addr, w.compressed(w.lzw(bytes([w.PUSH_PULL]) + bytes(4 << 20))))
            long = w.lzw(w.push_pull([w.node("n%d" % i, NET + ".99") for i in range(10)], count=10)) + zeros * 20
            w.talk(g1.addr, w.compressed(long))
            for depth in range(5, 40):          # four boxes inside each other are read
                inner = w.alive("boxed", NET + ".99")
                box, more = inner, inner
                for _ in range(depth):
                    box, more = w.compressed(w.lzw(box)), w.compound([more])
                w.send(g1.addr, box, more)
                w.talk(g1.addr, box)
        assert counted(g1, "packets_dropped_format", "dropped_message") >= 70
        assert "boxed" not in statuses(g1)


def malformed_packets():
    """S171, S172, S173: compounds that lie, msgpack that is none, each truncation, unknown types, no bytes at all."""
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        whole = [w.alive("half", NET + ".99"), w.suspect("g2", 1, "g3"), w.dead("g2", 1, "g3"), w.ping("g1"),
                 w.message(w.INDIRECT, SeqNo=1, Target=w.ip(NET + ".2"), Port=8301, Node="g2", Nack=True),
                 w.message(w.ACK, SeqNo=1, Payload=b"x"), w.message(w.NACK, SeqNo=1)]
        with Watch(nodes):
            for m in whole:
                w.send(g1.addr, *[m[:i] for i in range(len(m))])
                w.send(g1.addr, *[m[:i] + bytes([m[i] ^ 0xFF]) + m[i + 1:] for i in range(1, len(m)) if m[0] != w.ALIVE])
            state = w.push_pull([w.node("g2", NET + ".2"), w.node("g3", NET + ".3")])
            for i in range(0, len(state), 3):
                w.talk(g1.addr, state[:i])
            for kind in range(256):
                w.send(g1.addr, bytes([kind]), bytes([kind]) + b"\x80", bytes([kind]) + b"\xc1" * 50)
            for body in (b"\x00", b"\x01", b"\x01\x00\x00", b"\x01\xff\xff\x00", b"\xff" * 40, b"\x05" + bytes(10),
                         b"\x02\x00\x01\x00\x01\x00"):
                w.send(g1.addr, bytes([w.COMPOUND]) + body)
            for odd in (b"\x81\xa4Node\x05", b"\x82\xa4Node\xa1a\xa4Node\xa1b", b"\x91" * 2000, b"\x81\xa1k" * 2000,
                        w.mapping(Node="odd", Addr=b"", Port=-1, Incarnation=1, Vsn=w.VSN),
                        w.mapping(Node="odd", Addr=bytes(5), Port=8301, Incarnation=1, Vsn=w.VSN),
                        w.mapping(Node="odd", Addr=bytes([1, 2, 3, 4]), Port=70000, Incarnation=1, Vsn=w.VSN),
                        w.mapping(Node="odd", Addr=bytes([1, 2, 3, 4]), Port=1, Incarnation=-1, Vsn=w.VSN),
                        w.mapping(Node="odd", Addr=bytes([1, 2, 3, 4]), Port=1, Incarnation=1 << 40, Vsn=w.VSN),
                        w.mapping(Node="odd", Addr=bytes([1, 2, 3, 4]), Port=1, Incarnation=1, Vsn=bytes([0, 255, 0, 0, 0, 0])),
                        w.mapping(Node="odd", Addr=bytes([1, 2, 3, 4]), Port=1, Incarnation=1, Meta=bytes(600), Vsn=w.VSN)):
                w.send(g1.addr, bytes([w.ALIVE]) + odd)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"", (g1.addr, 8301))
            wait_for("they are counted", lambda: counted(g1, "packets_dropped_format", "dropped_message") > 500)
        assert not {"half", "odd"} & set(statuses(g1)), statuses(g1)


def sealed_things():
    """S174: other keys, cut and changed seals, plaintext, and replays of what was said before: none has an effect."""
    with Cluster(NET, gossipd=CALM) as cl:
        tap = Tap(NET + ".201", NET + ".1")
        try:
            g1 = start(cl.add("g1", 1, server=False, advertise=NET + ".201"))
            nodes = [g1] + [start(cl.add("g%d" % i, i, server=False, retry_join=[NET + ".201"])) for i in (2, 3, 4)]
            agree(nodes)
            g4 = nodes.pop()
            g4.kill("gossipd")                  # accusations, a death and a refutation are on record then
            wait_for("g4 is failed", lambda: statuses(g1)["g4"] == FAILED)
            start(g4)
            nodes.append(g4)
            agree(nodes)
            wait_for("some streams are on record", lambda: sum(len(s) > 50 for s in tap.streams) >= 4)
            datagrams, streams = list(tap.datagrams), [bytes(s) for s in tap.streams]
            with Watch(nodes):
                bad = counted(g1, "packets_dropped_key", "packets_dropped_format")
                for d in datagrams[:200]:       # cut, lengthened, a byte changed, anywhere
                    at = random.randrange(1, len(d))
                    w.send(g1.addr, d[:at], d + b"x", d[:at] + bytes([d[at] ^ 1]) + d[at + 1:])
                    bad += 3
                    wait_for("each is counted", lambda: counted(g1, "packets_dropped_key", "packets_dropped_format") >= bad)
                for s in streams[:20]:
                    for at in (1, 5, 20, len(s) // 2, len(s) - 1):
                        if 0 < at < len(s):
                            w.talk(g1.addr, s[:at])
                            answer = w.talk(g1.addr, s[:at] + bytes([s[at] ^ 1]) + s[at + 1:])
                            assert len(answer) < REFUSAL_MAX, answer
                w.send(g1.addr, w.alive("clear", NET + ".99"), w.dead("g2", 100, "g3"), w.ping("g1"))
                answer = w.talk(g1.addr, w.push_pull([w.node("clear", NET + ".99")]))
                assert len(answer) < REFUSAL_MAX, answer
            assert "clear" not in statuses(g1)
            with Watch(nodes):                  # all that was ever said, again, three times over, to everybody
                clock = int(info(g1)["serf_lan"]["member_time"])
                for _ in range(3):
                    for n in nodes:
                        for d in datagrams:
                            w.send(n.addr, d)
                        for s in streams:
                            if s:
                                w.talk(n.addr, s)
                agree(nodes)
                assert int(info(g1)["serf_lan"]["member_time"]) < clock + 50
        finally:
            tap.close()


def idle_streams():
    """S175: 10,000 connections that say nothing, or a byte now and then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    at_once = min(5000, hard - 200)
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        with Watch(nodes):
            done, held = 0, []
            while done < 10000:
                s = socket.socket()
                s.bind(("%s.%d" % (NET, 100 + done % 100), 0))
                s.setblocking(False)
                try:
                    s.connect((g1.addr, 8301))
                except BlockingIOError:
                    pass
                held.append(s)
                done += 1
                if len(held) >= at_once:
                    self_heal(nodes, held, done)
            self_heal(nodes, held, done)
            wait_for("all of them are gone", lambda: counted(g1, "streams_open") <= 2)
            assert len(os.listdir("/proc/%d/fd" % g1.pid("gossipd"))) < 40
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def self_heal(nodes, held, done):
    """They trickle; while they are open the pool is whole.  Of those done so far all but a few are refused."""
    for s in held:
        try:
            s.send(b"\x06")
            s.send(b"\x83")
        except OSError:
            pass
    agree(nodes)
    # The newest push out the oldest; the system may hold some back until it knocks again.
    wait_for("most are closed", lambda: counted(nodes[0], "streams_dropped") >= 0.8 * done)
    for s in held:
        s.close()
    held.clear()


def large_streams():
    """Streams that fill slowly up to their limit, many at a time: together they are limited, too."""
    with Cluster(NET, gossipd=CALM) as cl:
        nodes = pool_of(cl, 3)
        g1 = nodes[0]
        chunk = bytes(1 << 16)
        with Watch(nodes, growth=160 << 20):
            held, most = [], 0
            for i in range(60):
                s = socket.socket()
                s.bind(("%s.%d" % (NET, 100 + i), 0))
                s.settimeout(5)
                s.connect((g1.addr, 8301))
                s.sendall(bytes([w.ENCRYPT]) + struct.pack(">I", 18 << 20))
                held.append(s)
            before = rss(g1)
            for _ in range(200):                # 12 MB each, 750 MB in all
                for s in list(held):
                    try:
                        s.sendall(chunk)
                    except OSError:
                        held.remove(s)
                        s.close()
                most = max(most, rss(g1))
            for s in held:
                s.close()
            assert SANITIZERS or most - before < 200 << 20, "grown by %d MiB" % ((most - before) >> 20)


def incarnations_at_the_end():
    """S176: accused with the highest numbers, a member speaks up all the same."""
    last = (1 << 32) - 1
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        with Watch(nodes):
            for n in (last, last - 1, 1 << 31, (1 << 31) + (1 << 20), (1 << 31) - 1):
                for to in nodes:
                    w.send(to.addr, w.suspect("g2", n, "g3"), w.dead("g2", n, "g3"), w.dead("g2", n, "g2"),
                           w.alive("g2", NET + ".2", n), w.alive("fresh%d" % n, NET + ".99", n))
                    w.talk(to.addr, w.push_pull([w.node("g2", NET + ".2", n, state) for state in (2, 3, 0)]))
                agree_on(nodes)
        assert counted(nodes[0], "dropped_incarnation") >= 10


def agree_on(nodes):
    for n in nodes:
        wait_for(n.name + " shows all alive", lambda: all(statuses(n).get(x.name) == ALIVE for x in nodes), 60)


def invented_members():
    """S177: a million of them, one after the other: capped, counted, and gone when their time is over."""
    limits = {"members": 1000, "intents": 256, "queue": 256}
    with Cluster(NET, keys=False, gossipd=dict(CALM, limits=limits, reconnect_timeout="2s", reap_interval="200ms")) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        with Watch(nodes, lines=6000):          # a line for each that joins, fails and is forgotten
            began = cpu(g1.pid("gossipd"))
            assert w.talk(g1.addr, w.push_pull([w.node("many%d" % i, NET + ".99") for i in range(50000)])) == b""
            for batch in range(1000):
                w.talk(g1.addr, w.push_pull([w.node("i%d-%d" % (batch, i), NET + ".99", port=9) for i in range(1000)]))
            spent = cpu(g1.pid("gossipd")) - began
            assert spent < 60, "%.1f s on a processor" % spent
            stats = info(g1)
            assert int(stats["serf_lan"]["members"]) <= 1000, stats["serf_lan"]
            assert int(stats["gossipd"]["dropped_member_limit"]) >= 900000, stats["gossipd"]
            state = b"\x02" + b"\x86" + w.raw("LTime") + b"\x01" + w.raw("EventLTime") + b"\x01" + w.raw("QueryLTime") + \
                b"\x01" + w.raw("Events") + b"\xc0" + w.raw("LeftMembers") + b"\x90" + w.raw("StatusLTimes") + \
                b"\xdf" + struct.pack(">I", 300000) + b"".join(w.raw("s%d" % i) + b"\x05" for i in range(300000))
            began = cpu(g1.pid("gossipd"))
            w.talk(g1.addr, w.push_pull([], state=state), timeout=60)
            spent = cpu(g1.pid("gossipd")) - began
            assert spent < 10, "a state of unknown members takes too long: %.1f s on a processor" % spent
            assert counted(g1, "dropped_intent_limit") > 250000
            agree_on(nodes)


def claimed_deaths():
    """S177: somebody says that all are dead, again and again.  They are not, and raft does not mind."""
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        servers = cl.servers(3, raftd={"election_timeout": "2s"})       # a busy machine does not move it
        leader = cl.formed()
        term = leader.term()
        for second in range(10):
            for to in servers:
                for about in servers:
                    n = int(info(about)["serf_lan"]["incarnation"])
                    w.send(to.addr, w.suspect(about.name, n, "nobody"), w.dead(about.name, n, servers[0].name),
                           w.dead(about.name, n, about.name))
                    w.talk(to.addr, w.push_pull([w.node(x.name, x.addr, n, 2) for x in servers]))
            leader.kv_put("s177/%d" % second, "x")
        for n in servers:
            wait_for(n.name + " shows all alive", lambda: all(statuses(n).get(x.name) == ALIVE for x in servers), 60)
        cl.formed()
        assert leader.is_leader() and leader.term() == term, "the claims moved raft"
        assert counted(servers[1], "dropped_accusation", "refutations") > 0


NAMES = [b"line\nbreak", b"nul\0byte", b"\x1b[2J\x1b[31mred", b"\x7f", b"x" * 10240, b"", b"tab\there", b"\r"]
ODD = [b"\xff\xfe\xfd", "ü".encode(), b"../../etc/passwd", b"a b", b"%s%n", b"\xe2\x80\xae drawkcab", b"\xc2\x9b31m", b"a" * 255,
       b"\"quoted\\", b"<script>"]


def names_and_tags():
    """S178: odd names are refused or escaped, in logs, in JSON and in tables."""
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        n1 = cl.servers(1)[0]
        cl.formed()
        tags = b"\xff" + w.mapping(role="\x1b[31m\n\0", dc="dc1", odd=b"\xff\xfe", long="y" * 300)
        for i, name in enumerate(NAMES + ODD):
            w.send(n1.addr, w.alive(name, "%s.%d" % (NET, 100 + i), meta=tags))
            w.talk(n1.addr, w.push_pull([w.node(name, "%s.%d" % (NET, 100 + i), 2, meta=tags)]))
            w.send(n1.addr, bytes([w.USER, w.SERF_JOIN]) + w.mapping(LTime=5 + i, Node=name))
        wait_for("the odd ones are in", lambda: int(info(n1)["serf_lan"]["members"]) == 1 + len(ODD))
        shown = wait_for("the API shows them", lambda: [shown for shown in [n1.get("/v1/agent/members").json()]
                                                        if len(shown) == 1 + len(ODD)])[0]
        assert "../../etc/passwd" in [m["Name"] for m in shown]
        table = n1.ctl("members", "--detailed", check=False).stdout + n1.ctl("members").stdout + n1.ctl("info").stdout
        assert "drawkcab" in table and "\\x1b[31m" in table, table
        assert not [c for c in table if ord(c) < 32 and c not in "\n\t"] and "\x9b" not in table and "\u202e" not in table, table
        for daemon in ("gossipd", "raftd", "rpcd"):
            with open(n1.log_path(daemon), "rb") as f:
                log = f.read()
            assert not [b for b in log if b < 32 and b != 10] and b"\xc2\x9b" not in log, log[-3000:]
        assert n1.running("gossipd") and n1.running("raftd") and n1.running("rpcd")
        n1.kv_put("s178", "x")


def flood():
    """As much as a socket takes, for some seconds: garbage, pings and old news.  It passes."""
    with Cluster(NET, keys=False, gossipd=CALM) as cl:
        nodes = plain_pool(cl)
        g1 = nodes[0]
        kinds = [b"\xff" * 1000, w.ping("g1"), w.alive("g2", NET + ".2", 1), w.suspect("g2", 0, "g3"),
                 w.compound([w.ping("g1")] * 40), bytes([w.USER, w.SERF_JOIN]) + w.mapping(LTime=1, Node="g2")]
        with Watch(nodes):
            sent, stop = 0, time.monotonic() + 4        # and as long as it takes to send some
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind((NET + ".66", 0))
                s.connect((g1.addr, 8301))
                while time.monotonic() < stop or sent <= 1000:
                    for k in kinds:
                        try:
                            s.send(k)
                            sent += 1
                        except OSError:
                            pass
            agree(nodes)


if __name__ == "__main__":
    main(lengths_that_lie, bombs_and_boxes, malformed_packets, sealed_things, idle_streams, large_streams,
         incarnations_at_the_end, invented_members, claimed_deaths, names_and_tags, flood)

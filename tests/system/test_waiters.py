#!/usr/bin/env python3
"""Many blocking queries at once: abandoned ones leave nothing (S110), those for one service are evaluated once (S109), a busy
object gives each waiter its newest state and no more (S111), and a leader may die while thousands wait (S113). And each on the
wire: while it waits its connection is folded, which no client may notice."""
import gzip
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, CALM, Cluster, main, rpcd_conf  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.27.4")
with open(os.path.join(BUILD, "config.h")) as f:        # their shadow and quarantine are no memory of ours
    SANITIZED = "#define TV_SANITIZERS 1" in f.read()
MANY = {"limits.http_max_conns_per_client": 10000, "limits.http_max_conns": 10000}


class Waiters:
    """tests/bench/bench_wait: see there for its commands."""

    def __init__(self, nodes, keys):
        self.nodes = nodes
        self.proc = subprocess.Popen([os.path.join(BUILD, "tests/bench/bench_wait"), "-k", str(keys)] +
                                     [n.addr + ":8500" for n in nodes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, words):
        self.proc.stdin.write(words + "\n")
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def wait(self, count):
        self.tell("wait")
        # Beside them each node counts the request that asks.
        wait_for("%d wait" % count, lambda: sum(int(n.stats("rpcd")["http_under_way"]) - 1 for n in self.nodes) >= count)

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait(60) == 0


def sockets(pid):
    """How many it has open.  Its files do not count: a log that grows is one more."""
    count = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            count += os.readlink("/proc/%d/fd/%s" % (pid, fd)).startswith("socket:")
        except FileNotFoundError:
            pass                        # closed meanwhile
    return count


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def abandoned():
    """S110: waits that go away, half of them with a reset, leave nothing; memory goes back once the daemons are quiet."""
    with Cluster(NET) as c:
        node = c.servers(1, rpcd=MANY)[0]
        c.formed([node])
        pids = [node.pid(d) for d in ("raftd", "rpcd")]
        w = Waiters([node], 100)
        w.tell("fill")
        base, memory = sum(sockets(p) for p in pids), sum(rss_kib(p) for p in pids)
        for _ in range(6):
            w.tell("open 2000")
            w.wait(2000)
            w.tell("drop")
            wait_for("nobody waits", lambda: int(node.stats("rpcd")["http_under_way"]) == 1 and
                     node.stats("raftd")["watches"] == "0")
            wait_for("descriptors are back", lambda: sum(sockets(p) for p in pids) <= base)
        w.close()
        wait_for("memory is back", lambda: SANITIZED or sum(rss_kib(p) for p in pids) < memory + 4096, 90, 1)


def memory(pids):
    """Bytes of memory of their own, once they stay the same.  A share of the libraries' pages would change with who else runs."""
    last = [None]

    def steady():
        now = 0
        for p in pids:
            with open("/proc/%d/smaps_rollup" % p) as f:
                now += next(int(line.split()[1]) for line in f if line.startswith("Anonymous:"))
        before, last[0] = last[0], now
        return before is not None and abs(now - before) < 32
    wait_for("memory is steady", steady, 60, 0.5)
    return last[0] * 1024


def price():
    """A waiting query costs raftd and rpcd together at most 1.6 KB, its connection included, each for a key of its own."""
    count = min(9000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000)     # many: other growth shall not count
    with Cluster(NET) as c:
        node = c.servers(1, rpcd=MANY)[0]
        c.formed([node])
        pids = [node.pid(d) for d in ("raftd", "rpcd")]
        w = Waiters([node], count)
        w.tell("fill")
        bare = memory(pids)
        w.tell("open %d" % count)
        w.wait(count)
        parked(node, count)
        each = (memory(pids) - bare) / count
        print("     %d bytes per waiting query" % each, flush=True)
        assert each <= 1638 or SANITIZED, each
        got = w.tell("wake %d 64" % count)
        assert got["answers"] == count and got["errors"] == 0, got
        w.close()


def ask(node, path):
    s = socket.create_connection((node.addr, 8500), 30)
    s.sendall(("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path).encode())
    return s


def body(s):
    data = b""
    while piece := s.recv(1 << 20):
        data += piece
    s.close()
    assert data.startswith(b"HTTP/1.1 200"), data[:200]
    return data.split(b"\r\n\r\n", 1)[1]


def one_evaluation():
    """S109: fifty waiters for a service of a thousand instances are one watch; one flap is one evaluation, and all get it."""
    with Cluster(NET) as c:
        node = c.servers(1, rpcd=MANY)[0]
        c.formed([node])
        for i in range(1000):
            assert node.put("/v1/catalog/register", {
                "Node": "m%d" % i, "Address": "10.0.%d.%d" % (i // 250, i % 250), "Service": {"Service": "web", "Port": 80},
                "Check": {"CheckID": "c", "Name": "c", "ServiceID": "web", "Status": "passing"}}).status == 200
        index = node.get("/v1/health/service/web").index
        calls = int(node.stats("rpcd")["calls_joined"])
        waiting = [ask(node, "/v1/health/service/web?index=%d&wait=60s" % index) for _ in range(50)]
        wait_for("all wait", lambda: int(node.stats("rpcd")["http_under_way"]) == 51)
        assert int(node.stats("rpcd")["calls_joined"]) == calls + 49
        wait_for("it is watched", lambda: node.stats("raftd")["watches"] == "1")
        local = int(node.stats("rpcd")["calls"])
        assert node.put("/v1/catalog/register", {
            "Node": "m7", "Address": "10.0.0.7", "Check": {"CheckID": "c", "Name": "c", "ServiceID": "web", "Status": "critical"},
            "SkipNodeUpdate": True}).status == 200
        answers = {body(s) for s in waiting}
        assert len(answers) == 1
        rows = json.loads(answers.pop())
        assert len(rows) == 1000
        assert [r["Node"]["Node"] for r in rows if any(k["Status"] == "critical" for k in r["Checks"])] == ["m7"]
        assert int(node.stats("rpcd")["calls"]) - local < 20, "each waiter asked anew"


def busy_object():
    """S111: a value that changes all the time: each waiter sees growing indexes, no more answers than changes, and the last."""
    with Cluster(NET) as c:
        node = c.servers(1, rpcd=MANY)[0]
        c.formed([node])
        node.kv_put("busy", "start")
        first = node.get("/v1/kv/busy").index
        changes, seen, errors = 400, [[] for _ in range(20)], []

        def follow(mine):
            index = first
            while not mine or mine[-1][1] != b"last":
                r = node.get("/v1/kv/busy?raw&index=%d&wait=30s" % index)
                if r.status != 200 or r.index <= index:
                    errors.append((index, r))
                    return
                index = r.index
                mine.append((index, r.body))
        threads = [threading.Thread(target=follow, args=(s,)) for s in seen]
        for t in threads:
            t.start()
        for i in range(changes - 1):
            node.kv_put("busy", str(i))
        node.kv_put("busy", "last")
        for t in threads:
            t.join(90)
            assert not t.is_alive(), "a waiter missed the last change"
        assert not errors, errors[:3]
        assert all(len(s) <= changes for s in seen)


def leader_dies():
    """S113: thousands wait at the survivors; none is disturbed, and the next write wakes them."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    with Cluster(NET) as c:
        servers = c.servers(3, rpcd=MANY, raftd=CALM)
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        w = Waiters(others, 3000)
        w.tell("fill")
        w.tell("open 6000")
        w.wait(6000)
        before = sum(int(n.stats("rpcd")["http_requests"]) for n in others)
        leader.signal(signal.SIGKILL)
        c.leader(others)
        wait_for("it takes writes", lambda: others[0].put("/v1/kv/other", "x").status == 200)
        assert sum(int(n.stats("rpcd")["http_under_way"]) for n in others) >= 6000
        assert sum(int(n.stats("rpcd")["http_requests"]) for n in others) - before < 3000, "waiters were sent away"
        got = w.tell("wake 3000 16")
        assert got["answers"] == 6000 and got["errors"] == 0, got
        w.close()


# -- on the wire --

class Raw:
    """One connection, as bytes. Receives whole answers by their Content-Length."""

    def __init__(self, node, rcvbuf=0):
        self.s = socket.socket()
        if rcvbuf:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.s.settimeout(30)
        self.s.connect((node.addr, 8500))
        self.data = b""

    def ask(self, path, *headers, version="1.1", method="GET"):
        self.s.sendall(line(path, *headers, version=version, method=method))

    def answer(self, body=True):
        """(status, {header in lower case: value}, body, head as it came)"""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        first, *rest = head.decode().split("\r\n")
        headers = {k.lower(): v for k, v in (r.split(": ", 1) for r in rest)}
        n = int(headers["content-length"]) if body else 0
        while len(self.data) < n:
            self.more()
        text, self.data = self.data[:n], self.data[n:]
        return int(first.split()[1]), headers, text, head

    def more(self):
        got = self.s.recv(1 << 20)
        assert got, "closed after %r" % self.data[:200]
        self.data += got

    def closed(self):
        assert self.data == b"" and self.s.recv(1) == b""
        self.s.close()

    def silent(self):
        p = select.poll()           # descriptors may be high
        p.register(self.s, select.POLLIN)
        return not self.data and not p.poll(0)

    def reset(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()


def line(path, *headers, version="1.1", method="GET"):
    return ("%s %s HTTP/%s\r\n%s\r\n\r\n" % (method, path, version, "\r\n".join(("Host: x",) + headers))).encode()


def waiting(node):
    """Connections that are parked; asked for over the unix socket, which has limits of its own."""
    return int(node.get("/v1/agent/self", unix=True).json()["Stats"]["rpcd"]["http_conns_waiting"])


def wait_of(node, key, query=""):
    """A path that waits for the next change of this key."""
    return "/v1/kv/%s?index=%d&wait=60s%s" % (key, node.get("/v1/kv/" + key).index, query)


def parked(node, count, what="they are parked"):
    wait_for(what, lambda: waiting(node) == count)


def same_connection(n):
    """Waits and plain requests take turns on one connection; both roads give the same head, but for the date."""
    heads = []
    r = Raw(n)
    for i in range(4):
        r.ask(wait_of(n, "a"))
        parked(n, 1)
        n.kv_put("a", "same %d" % i)
        status, headers, text, head = r.answer()
        assert status == 200 and json.loads(text)[0]["Key"] == "a"
        assert int(headers["x-consul-index"]) == n.get("/v1/kv/a").index and waiting(n) == 0
        r.ask("/v1/kv/a?index=1")
        again = r.answer()
        assert again[2] == text
        heads.append([[h for h in x.split(b"\r\n") if not h.startswith((b"Date: ", b"X-Consul-LastContact"))] for x in (head, again[3])])
        r.ask("/v1/kv/a", "Content-Length: 3")      # a body that nobody wants is no part of the next request
        r.s.sendall(b"xyz")
        assert r.answer()[2] == text
    assert all(ours == theirs for ours, theirs in heads), heads
    r.ask(wait_of(n, "a"), "Connection: close")
    parked(n, 1)
    n.kv_put("a", "last")
    status, headers, text, head = r.answer()
    assert status == 200 and headers["connection"] == "close"
    r.closed()
    r = Raw(n)
    r.ask("/v1/kv/none?index=%d&wait=1s" % n.get("/v1/kv/none").index)      # time is up
    assert r.answer()[0] == 404
    r.ask("/v1/status/leader")
    assert r.answer()[0] == 200
    r.s.close()


def others_with_an_index(n):
    """What takes ?index but is no read of the router waits, or streams, by itself."""
    r = Raw(n)
    r.ask("/v1/snapshot?index=5&wait=1s", "Connection: close")
    data = b""
    while piece := r.s.recv(1 << 20):
        data += piece
    assert data.startswith(b"HTTP/1.1 200") and b"application/x-gzip" in data.split(b"\r\n\r\n")[0], data[:300]
    r = Raw(n)
    assert n.put("/v1/event/fire/before", b"x").status == 200
    wait_for("the event", lambda: len(n.get("/v1/event/list").json()) == 1)
    r.ask("/v1/event/list?index=%s&wait=60s" % n.get("/v1/event/list").headers["X-Consul-Index"])
    wait_for("it waits", lambda: int(n.stats("rpcd")["http_under_way"]) > 1)
    assert n.put("/v1/event/fire/now", b"x").status == 200
    assert [e["Name"] for e in json.loads(r.answer()[2])] == ["before", "now"]
    for path in ("/v1/operator/autopilot/configuration?index=99&wait=1s", "/v1/operator/raft/configuration?index=99&wait=1s",
                 "/v1/coordinate/nodes?index=99&wait=1s", "/v1/session/list?index=99&wait=1s",
                 "/v1/catalog/nodes?index=9999&wait=1s&filter=Node==x",
                 "/v1/kv/none?recurse&index=9999&wait=1s", "/v1/health/state/any?index=9999&wait=1s&near=_agent"):
        r.ask(path)
        assert r.answer()[0] in (200, 404), path
    r.s.close()


def pipelined(n):
    """What is sent behind a blocking query, at once or while it waits, is answered after it."""
    for late in (False, True):
        n.kv_put("b", "before")
        n.kv_put("other", "o")
        r, blocking, rest = Raw(n), line(wait_of(n, "b")), line("/v1/kv/other?raw") + line("/v1/kv/none")
        if late:
            r.s.sendall(blocking)
            parked(n, 1)
            r.s.sendall(rest)
        else:
            under_way = int(n.stats("rpcd")["http_under_way"])
            r.s.sendall(blocking + rest)
            wait_for("it waits", lambda: int(n.stats("rpcd")["http_under_way"]) > under_way)
            parked(n, 1)
        assert r.silent()
        n.kv_put("b", "after")
        assert [r.answer()[0], r.answer()[2], r.answer()[0]] == [200, b"o", 404]
        r.ask(wait_of(n, "b"))
        wait_for("it waits again", lambda: int(n.stats("rpcd")["http_under_way"]) > 1)
        n.kv_put("b", "later")
        assert r.answer()[0] == 200
        r.s.close()
    # behind a body in chunks as well
    r = Raw(n)
    r.s.sendall(b"PUT /v1/kv/b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n")
    assert r.answer()[2] == b"true"
    r.ask(wait_of(n, "b"))
    parked(n, 1)
    n.kv_put("b", "d")
    assert r.answer()[0] == 200
    r.s.close()


def vanished(n):
    """Closed, reset, half closed, and reset with a request behind: none stays."""
    wait_for("others have gone", lambda: int(n.stats("rpcd")["http_conns"]) == 1)
    cancelled = int(n.stats("rpcd")["http_cancelled"])
    conns = [Raw(n) for _ in range(4)]
    for r in conns:
        r.ask(wait_of(n, "a"))
    parked(n, 4)
    conns[3].ask("/v1/status/leader")
    conns[0].s.close()
    conns[1].reset()
    conns[2].s.shutdown(socket.SHUT_WR)
    conns[3].reset()
    parked(n, 0, "all have gone")
    wait_for("their connections too", lambda: int(n.stats("rpcd")["http_conns"]) == 1)
    assert int(n.stats("rpcd")["http_cancelled"]) == cancelled + 4
    wait_for("raftd has heard it", lambda: n.stats("raftd")["watches"] == "0")
    conns[2].closed()


def other_dialects(n):
    """HTTP/1.0 with and without keep-alive; HEAD, which the API does not have; packed, raw and pretty beside each other."""
    old, kept, head = Raw(n), Raw(n), Raw(n)
    path = wait_of(n, "a")
    old.ask(path, version="1.0")
    kept.ask(path, "Connection: keep-alive", version="1.0")
    head.ask(path, method="HEAD")
    assert head.answer(body=False)[0] == 405
    head.ask(path)
    variants = {q + e: Raw(n) for q in ("", "&raw", "&pretty") for e in ("", "gzip")}
    for name, r in variants.items():
        r.ask(path + name.replace("gzip", ""), *(["Accept-Encoding: gzip"] if "gzip" in name else []))
    parked(n, 9)
    n.kv_put("a", "x" * 3000)
    status, headers, text, _ = old.answer()
    assert status == 200 and headers["connection"] == "close"
    old.closed()
    status, headers, text, _ = kept.answer()
    assert status == 200 and headers["connection"] == "Keep-Alive"
    kept.ask("/v1/status/leader", "Connection: keep-alive", version="1.0")
    assert kept.answer()[0] == 200
    assert head.answer()[2] == text
    for name, r in variants.items():
        status, headers, body, _ = r.answer()
        assert (headers.get("content-encoding") == "gzip") == ("gzip" in name), (name, headers)
        body = gzip.decompress(body) if "gzip" in name else body
        if "raw" in name:
            assert body == b"x" * 3000
        else:
            assert json.loads(body) == json.loads(text) and (b"\n" in body) == ("pretty" in name), name
    for r in [kept, head] + list(variants.values()):
        r.s.close()


def slow_readers(n):
    """An answer that does not fit into the socket is sent as it is read; who hardly reads is cut."""
    for i in range(30):
        n.kv_put("big/%d" % i, os.urandom(150000).hex())
    path = "/v1/kv/big?recurse&wait=60s&index=%d" % n.get("/v1/kv/big?keys").index
    readers = [Raw(n), Raw(n, 65536), Raw(n, 16384)]
    for r in readers:
        r.ask(path)
    parked(n, 3)
    n.kv_put("big/x", "y")
    parked(n, 0)
    bodies = set()
    for r in readers:
        status, _, text, _ = r.answer()
        assert status == 200
        bodies.add(text)
        if r is readers[0]:         # the others may have been too slow for the idle timeout
            r.ask("/v1/status/leader")
            assert r.answer()[0] == 200
        r.s.close()
    assert len(bodies) == 1 and len(json.loads(bodies.pop())) == 31

    deaf = Raw(n, 4096)
    deaf.ask(wait_of(n, "big/1"))
    parked(n, 1)
    cut = int(n.stats("rpcd")["http_conns_timed_out"])
    n.kv_put("big/1", os.urandom(100000).hex())

    def gave_up():      # a byte now and then earns no further time
        try:
            deaf.s.recv(100)
        except ConnectionResetError:
            pass
        return int(n.stats("rpcd")["http_conns_timed_out"]) > cut
    wait_for("it is cut", gave_up, 90, 0.2)
    deaf.s.close()


def on_the_wire():
    with Cluster(NET) as c:
        n = c.servers(1, rpcd={"http_idle_timeout": "10s"})[0]
        c.formed([n])
        n.kv_put("a", "first")
        for test in (same_connection, others_with_an_index, pipelined, vanished, other_dialects, slow_readers):
            test(n)
            print("     " + test.__name__, flush=True)


def crowded():
    """The limits per client and in all count those that wait; a thousand of them outlive a reload, and a stop answers them."""
    limits = {"limits.http_max_conns_per_client": 1100, "limits.http_max_conns": 1010}
    with Cluster(NET) as c:
        n = c.servers(1, rpcd=limits)[0]
        c.formed([n])
        n.kv_put("a", "1")
        path = wait_of(n, "a")
        conns = [Raw(n) for _ in range(1000)]
        for r in conns:
            r.ask(path)
        parked(n, 1000)
        extra = []                                      # ten more than there may be: they take the places of the first ten
        for _ in range(20):
            extra.append(Raw(n))
            extra[-1].ask("/v1/status/leader")
            assert extra[-1].answer()[0] == 200
        assert waiting(n) == 1000 and all(r.silent() for r in conns)
        for r in extra[:10]:
            r.closed()
        for r in extra[10:]:
            r.s.close()
        limits["limits.http_max_conns_per_client"] = 1000
        n.write("rpcd.conf", rpcd_conf(n.addr, **limits))
        n.signal(signal.SIGHUP, "rpcd")
        wait_for("those that wait count", lambda: n.get("/v1/status/leader").status == 429)
        assert waiting(n) == 1000
        for r in conns[:10]:
            r.s.close()
        parked(n, 990, "ten have gone")
        n.signal(signal.SIGTERM, "rpcd")
        assert n.wait_end("rpcd") == [0]
        for r in conns[10:]:
            status, headers, text, _ = r.answer()
            assert (status, text, headers["connection"]) == (500, b"rpcd is stopping", "close"), (status, headers, text)
            r.closed()


if __name__ == "__main__":
    main(abandoned, price, one_evaluation, busy_object, leader_dies, on_the_wire, crowded)

#!/usr/bin/env python3
"""Many blocking queries at once: abandoned ones leave nothing (S110), those for one service are evaluated once (S109), a busy
object gives each waiter its newest state and no more (S111), and a leader may die while thousands wait (S113)."""
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main, wait_for  # noqa: E402

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
        wait_for("%d wait" % count, lambda: sum(int(n.stats("rpcd")["http_under_way"]) for n in self.nodes) >= count)

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait(20) == 0


def files(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


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
        base, memory = sum(files(p) for p in pids), sum(rss_kib(p) for p in pids)
        for _ in range(6):
            w.tell("open 2000")
            w.wait(2000)
            w.tell("drop")
            wait_for("nobody waits", lambda: int(node.stats("rpcd")["http_under_way"]) == 1 and
                     node.stats("raftd")["watches"] == "0")
            wait_for("descriptors are back", lambda: sum(files(p) for p in pids) <= base)
        w.close()
        wait_for("memory is back", lambda: SANITIZED or sum(rss_kib(p) for p in pids) < memory + 4096, 90, 1)


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
        wait_for("all wait", lambda: int(node.stats("rpcd")["http_under_way"]) > 50)
        assert int(node.stats("rpcd")["calls_joined"]) == calls + 49
        assert node.stats("raftd")["watches"] == "1"
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
            t.join(40)
            assert not t.is_alive(), "a waiter missed the last change"
        assert not errors, errors[:3]
        assert all(len(s) <= changes for s in seen)


def leader_dies():
    """S113: thousands wait at the survivors; none is disturbed, and the next write wakes them."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    with Cluster(NET) as c:
        servers = c.servers(3, rpcd=MANY)
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
        assert sum(int(n.stats("rpcd")["http_requests"]) for n in others) - before < 500, "waiters were sent away"
        got = w.tell("wake 3000 16")
        assert got["answers"] == 6000 and got["errors"] == 0, got
        w.close()


if __name__ == "__main__":
    main(abandoned, one_evaluation, busy_object, leader_dies)

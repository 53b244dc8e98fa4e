"""A pool of thousands of members around one real gossip daemon: tests/bench/bench_pool plays all the others.

Everything is on loopback: the daemon at 127.N.0.1, the others at 127.N.1.1, 127.N.1.2 and so on, all with one port.
Standard library only.
"""
import json
import os
import subprocess

from cluster import BUILD
from tvframe import MSG, Conn
from waiting import wait_for

LAN_PORT, CROWD_PORT = 12301, 12302     # the latter is our wan_port: the sandbox allows connections to it


class Crowd:
    """bench_pool, and what it says.  count: members without the daemon; key: path of cluster.key, or None."""

    def __init__(self, name, addr, count, key=None, compress=False):
        net = addr.split(".")[1]
        args = [os.path.join(BUILD, "tests/bench/bench_pool"), "-a", "%s:%d" % (addr, LAN_PORT), "-g", name,
                "-m", net, "-p", str(CROWD_PORT), "-n", str(count)]
        args += (["-k", key] if key else []) + (["-z"] if compress else [])
        self.first = "127.%s.1.1:%d" % (net, CROWD_PORT)
        self.proc = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("stats")               # it listens by now

    def ask(self, what):
        """"stats" or "exchange"; see bench_pool.c."""
        self.proc.stdin.write(what + "\n")
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(60)


def call(node, kind, body):
    with Conn(os.path.join(node.run, "gossipd.sock")) as c:
        return c.call(kind, body, 30)


def info(node):
    return call(node, MSG.INFO, [])


def start(cluster, count, key=True, compress=False):
    """(node, crowd): a gossipd that runs alone so far, and count - 1 others."""
    node = cluster.add("one", 1, server=False, gossipd={"compress": compress}, lan_port=LAN_PORT, wan_port=CROWD_PORT)
    node.start("gossipd")
    wait_for("gossipd answers", lambda: os.path.exists(os.path.join(node.run, "gossipd.sock")) and info(node))
    return node, Crowd(node.name, node.addr, count - 1, cluster.keys + "/cluster.key" if key else None, compress)


def join(node, crowd):
    """gossipd joins through one of the others."""
    answer = call(node, MSG.GOSSIP_JOIN, [0, [crowd.first]])
    assert answer == [0, "", 1], answer


def check(node, count):
    """All are shown and none as failed, and gossipd found nothing wrong with what they say."""
    i = info(node)
    assert i["serf_lan"]["members"] == str(count) and i["serf_lan"]["failed"] == "0", i["serf_lan"]
    for counter in ("packets_dropped_key", "packets_dropped_format", "dropped_message", "dropped_coordinate"):
        assert i["gossipd"][counter] == "0", (counter, i["gossipd"][counter])


def cpu(pid):
    """Seconds on a processor, all threads, to the nanosecond."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def memory(pid):
    """(resident, proportional, highest resident) in MiB."""
    with open("/proc/%d/smaps_rollup" % pid) as f:
        maps = dict(line.split(":", 1) for line in f if ":" in line)
    with open("/proc/%d/status" % pid) as f:
        status = dict(line.split(":", 1) for line in f)
    return tuple(int(text.split()[0]) / 1024 for text in (maps["Rss"], maps["Pss"], status["VmHWM"]))

"""A follower that was away, and one that is slow, while 64 clients write as fast as they can: what others notice."""
import os
import subprocess
import sys
import threading
import time

import benchlib
from benchlib import Ours, load, progress, pss_kib
from waiting import wait_for


class Load(threading.Thread):
    """64 writers for so many seconds; .report afterwards."""

    def __init__(self, leader, seconds, clients=64):
        super().__init__()
        self.args = ("bench_http", "put", clients, [leader.addr + ":8500"], seconds)
        self.start()

    def run(self):
        self.report = load(*self.args)


def applied(node):
    return int(node.stats("raft")["applied_index"])


def leader_mib(leader):
    return pss_kib(leader.pid("raftd")) / 1024


def row(what, report, mib, more=""):
    print("| %s | %.0f | %.2f | %.2f | %.1f | %s |" % (
        what, report["rate"], report["p50_us"] / 1000, report["p99_us"] / 1000, mib, more), flush=True)


def away(c, leader, follower, seconds, what):
    follower.kill("raftd")
    progress(what + ": away for %d s of writes" % seconds)
    gone = Load(leader, seconds)
    gone.join()
    row(what + ", while it is away", gone.report, leader_mib(leader))
    back = Load(leader, 30 if seconds > 3 else 15)
    time.sleep(2)                       # past the generator's warm-up, at full rate
    began, missing = time.monotonic(), applied(leader)
    follower.start("raftd")
    missing -= wait_for("it is back", lambda: applied(follower))
    wait_for("it has converged", lambda: applied(leader) - applied(follower) < 5000, 120, 0.02)
    took, mib = time.monotonic() - began, leader_mib(leader)
    progress("%s: converged after %.1f s; until the load ends" % (what, took))
    back.join()
    progress("")
    how = "by snapshot" if "installed the snapshot" in follower.log("raftd") else "by log"
    row(what + ", back again", back.report, mib, "%d entries missing, converged after %.1f s %s" % (missing, took, how))


def return_of_a_follower(raftd, seconds, what):
    c = Ours(raftd=raftd)
    try:
        leader = c.cluster.leader(c.servers)
        follower = next(n for n in c.servers if n is not leader)
        all_there = Load(leader, 8)
        all_there.join()
        row("all three there", all_there.report, leader_mib(leader))
        away(c, leader, follower, seconds, what)
    finally:
        c.close()


def limit_bytes(node, rate):
    """What goes to the node's raft port passes at `rate` bytes/s; in a network namespace of our own only."""
    for words in ("qdisc add dev lo root handle 1: htb default 1",
                  "class add dev lo parent 1: classid 1:1 htb rate 100gbit",
                  "class add dev lo parent 1: classid 1:2 htb rate %dbit burst 3000" % (rate * 8),
                  "filter add dev lo parent 1: protocol ip u32 match ip dst %s/32 match ip dport 8300 0xffff "
                  "flowid 1:2" % node.addr):
        subprocess.run(["tc"] + words.split(), check=True)


def slow_follower(seconds):
    c = Ours()
    try:
        leader = c.cluster.leader(c.servers)
        follower = next(n for n in c.servers if n is not leader)
        fast = Load(leader, seconds)
        fast.join()
        row("all three fast", fast.report, leader_mib(leader))
        limit_bytes(follower, 1000)
        slow = Load(leader, seconds)
        slow.join()
        row("one follower reads 1 KB/s", slow.report, leader_mib(leader),
            "it lags by %d entries" % (applied(leader) - applied(follower)))
        subprocess.run("tc qdisc del dev lo root".split(), check=True)
        began = time.monotonic()
        wait_for("it has converged", lambda: applied(leader) - applied(follower) < 100, 120, 0.02)
        print("\nThe link is fast again: converged after %.1f s." % (time.monotonic() - began), flush=True)
    finally:
        c.close()


HEAD = ("\n| writes of 64 clients | ops/s | p50 ms | p99 ms | leader's raftd MiB | |\n"
        "| --- | --- | --- | --- | --- | --- |")


def run(short):
    print(HEAD, flush=True)
    return_of_a_follower({"trailing_logs": 10000000, "snapshot_threshold": 10000000}, 2 if short else 5, "one follower")
    return_of_a_follower({"snapshot_interval": "1s"}, 3 if short else 8, "one follower, log cut")
    # The slow one needs rules of the network that concern nobody else.
    p = subprocess.run(["unshare", "--net", sys.executable, os.path.abspath(__file__), "slow", str(3 if short else 8)],
                       env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    if p.returncode != 0:
        print("\nThe slow follower was not measured: network namespaces and tc (iproute2) need root.")


if __name__ == "__main__" and sys.argv[1:2] == ["slow"]:
    subprocess.run("ip link set lo mtu 1500 up".split(), check=True)
    print(HEAD, flush=True)
    slow_follower(float(sys.argv[2]))

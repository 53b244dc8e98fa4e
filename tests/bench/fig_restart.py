"""How long a server takes to start with 10 MB, 100 MB and 1 GB of state: it must not depend on the size."""
import os
import statistics
import threading
import time

from benchlib import Ours, progress
from waiting import wait_for

VALUE = 256 << 10


def fill(leader, first, last):
    """Writes values number first .. last-1."""
    at, lock = [first], threading.Lock()

    def work():
        while True:
            with lock:
                number, at[0] = at[0], at[0] + 1
            if number >= last:
                return
            leader.kv_put("big/%06d" % number, os.urandom(VALUE), timeout=60)
            progress("writing state: %d of %d MB" % (number * VALUE >> 20, last * VALUE >> 20))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    progress("")


def folder_mb(path):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files) >> 20


def restart(c, node, how):
    """Seconds until its raftd serves everything that it had."""
    applied = int(node.stats("raft")["applied_index"])
    getattr(node, how)("raftd")
    began = time.monotonic()
    node.start("raftd")
    wait_for("its state is there", lambda: int(node.stats("raft")["applied_index"]) >= applied, 120, 0.002)
    took = time.monotonic() - began
    c.cluster.formed(c.servers)
    wait_for("it follows", lambda: node.stats("raft")["leader"] != "")
    return took


def run(short):
    print("\n| state | on disk | started after a stop: s | after kill -9: s |\n| --- | --- | --- | --- |", flush=True)
    c = Ours()
    try:
        have = 0
        for mb in (10, 100) if short else (10, 100, 1000):
            count = (mb << 20) // VALUE
            leader = c.cluster.leader(c.servers)
            fill(leader, have, count)
            have = count
            node = next(n for n in c.servers if n is not leader)
            wait_for("the follower has it", lambda: node.stats("raft")["applied_index"] ==
                     leader.stats("raft")["applied_index"], 120)
            times = {how: statistics.median(restart(c, node, how) for _ in range(1 if short else 5))
                     for how in ("stop", "kill")}
            print("| %d MB | %d MB | %.2f | %.2f |" % (mb, folder_mb(os.path.join(node.data, "raftd")), times["stop"],
                                                      times["kill"]), flush=True)
    finally:
        c.close()

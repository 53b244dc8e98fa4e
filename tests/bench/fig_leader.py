"""How long writes pause when the leader goes: killed, told to hand over, stopped in order."""
import http.client
import signal
import statistics
import threading
import time

from benchlib import Ours, progress
from waiting import wait_for


class Writer(threading.Thread):
    """Writes one key after the other over a kept connection, and remembers when each was acknowledged or refused."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.acked, self.refused, self.halt = node, [], [], threading.Event()

    def run(self):
        conn, number = None, 0
        while not self.halt.is_set():
            number += 1
            try:
                conn = conn or http.client.HTTPConnection(self.node.addr, 8500, timeout=15)
                conn.request("PUT", "/v1/kv/pause", body=b"%d" % number)
                answer = conn.getresponse()
                text = answer.read()
                if answer.status == 200 and text == b"true":
                    self.acked.append(time.monotonic())
                else:
                    self.refused.append((time.monotonic(), answer.status, text.decode().strip()))
            except (OSError, http.client.HTTPException) as e:
                self.refused.append((time.monotonic(), 0, repr(e)))
                conn = None

    def longest_pause(self, since):
        """ms without an acknowledged write, at most, after that moment (the last before it counts as the begin)."""
        first = next(i for i, t in enumerate(self.acked) if t >= since)
        times = [self.acked[first - 1] if first > 0 else since] + self.acked[first:]
        return max(b - a for a, b in zip(times, times[1:])) * 1000

    def stop(self):
        self.halt.set()
        self.join(20)


def killed(c, leader):
    leader.signal(signal.SIGKILL)


def stopped(c, leader):
    leader.signal(signal.SIGTERM)


def raftd_stopped(c, leader):
    leader.signal(signal.SIGTERM, "raftd")


def raftd_killed(c, leader):
    leader.signal(signal.SIGKILL, "raftd")


def transferred(c, leader):
    next(n for n in c.servers if n is not leader).ctl("raft", "transfer-leader")


def once(c, what):
    """(ms of the pause, refusals) as a client of another server sees it."""
    leader = c.cluster.formed(c.servers)
    other = next(n for n in c.servers if n is not leader)
    w = Writer(other)
    w.start()
    wait_for("writes flow", lambda: len(w.acked) > 100)
    began = time.monotonic()
    what(c, leader)
    new = wait_for("a new leader", lambda: next((n for n in c.servers if n is not leader and n.running("raftd") and
                                                 n.is_leader()), None), interval=0.02)
    seen = len(w.acked)
    wait_for("writes flow again", lambda: len(w.acked) > seen + 100)
    w.stop()
    gone = [d for d in leader.daemons if d in leader.procs and what is not transferred and
            (what not in (raftd_stopped, raftd_killed) or d == "raftd")]
    if gone:
        leader.wait_end(*gone)
        leader.start(*gone)
    wait_for("it follows again", lambda: leader.stats("raft")["leader"] == new.stats("raft")["leader"] != "")
    wait_for("it has everything", lambda: leader.stats("raft")["applied_index"] == new.stats("raft")["applied_index"])
    return w.longest_pause(began), [r for r in w.refused if r[0] >= began]


def run(short):
    print("\n| what happens to the leader | runs | longest pause of writes: median ms | worst ms | "
          "writes refused or unknown |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    c = Ours()
    try:
        for title, what, runs in (("killed (all three daemons)", killed, 30), ("told to hand over", transferred, 20),
                                  ("stopped in order (all three)", stopped, 20),
                                  ("raftd stopped in order", raftd_stopped, 20)):
            pauses, refused = [], []
            for i in range(max(3, runs // 10) if short else runs):
                progress("leader %s, %d of %d" % (title, i + 1, runs))
                pause, bad = once(c, what)
                pauses.append(pause)
                refused += bad
            progress("")
            print("| %s | %d | %.0f | %.0f | %d%s |" % (
                title, len(pauses), statistics.median(pauses), max(pauses), len(refused),
                " (%s)" % "; ".join(sorted({"%d %s" % r[1:] for r in refused}))[:200] if refused else ""), flush=True)
    finally:
        c.close()


if __name__ == "__main__":
    import sys
    run("--short" in sys.argv)

"""Latency with one server of three gone, as clients of the other two see it, beside what it was before (S162)."""
import statistics

from benchlib import Ours, load, progress
from waiting import wait_for

MODES = (("write", "put"), ("read", "get"), ("stale read", "stale"))
CLIENTS = (1, 16)


def measure(at, seconds, runs, label):
    """{(mode, place, clients): (p50, p99) in us}, medians of the runs."""
    seen = {}
    for i in range(runs):
        for place, target in at.items():
            for name, mode in MODES:
                for clients in CLIENTS:
                    progress("%s, run %d of %d: %s at the %s, %d clients" % (label, i + 1, runs, name, place, clients))
                    r = load("bench_http", mode, clients, [target], seconds, keys=1000)
                    assert r["errors"] == 0, r
                    seen.setdefault((name, place, clients), []).append((r["p50_us"], r["p99_us"]))
    progress("")
    return {k: tuple(statistics.median(x) for x in zip(*v)) for k, v in seen.items()}


def settled(c, rest):
    """These two agree on a leader and have all; (leader, follower)."""
    leader = c.cluster.leader(rest)
    follower = next(n for n in rest if n is not leader)
    wait_for("the other one follows", lambda: follower.stats("raft")["leader"] == leader.stats("raft")["leader"] != "")
    wait_for("a write through each", lambda: all(n.kv_put("loss", b"1") is None for n in rest))
    return leader, follower


def places(leader, follower):
    return {"leader": leader.addr + ":8500", "follower": follower.addr + ":8500"}


def run(short):
    seconds, runs = (1, 1) if short else (2, 3)
    c = Ours()
    try:
        load("bench_http", "fill", 16, [c.places()["leader"]], keys=1000)
        print("\n| | | clients | with three: p50, p99 us | a follower is dead | ratio | the leader died | ratio |\n"
              "| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
        leader = c.cluster.formed(c.servers)
        follower, victim = [n for n in c.servers if n is not leader]
        before = measure(places(leader, follower), seconds, runs, "with three")
        victim.kill()
        after = measure(places(*settled(c, [leader, follower])), seconds, runs, "a follower is dead")
        victim.start()
        leader = c.cluster.formed(c.servers)
        rest = [n for n in c.servers if n is not leader]
        leader.kill()
        died = measure(places(*settled(c, rest)), seconds, runs, "the leader died")
        for key, (p50, p99) in before.items():
            def shown(now):
                return "%.0f, %.0f | %.2f, %.2f" % (now[0], now[1], now[0] / p50, now[1] / p99)
            print("| %s | %s | %d | %.0f, %.0f | %s | %s |" % (*key, p50, p99, shown(after[key]), shown(died[key])), flush=True)
    finally:
        c.close()


if __name__ == "__main__":
    import sys
    run("--short" in sys.argv)

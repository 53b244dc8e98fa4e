"""Three idle servers: processor time and memory; memory under load that goes on for minutes."""
import glob
import time

from benchlib import Ours, load, progress, pss_kib
import threading


def cpu_ns(pid):
    """Processor time of all threads, to the nanosecond."""
    return sum(int(open(f).read().split()[0]) for f in glob.glob("/proc/%d/task/*/schedstat" % pid))


def idle(c, seconds):
    time.sleep(5)
    pids = {(n.name, d): n.pid(d) for n in c.servers for d in n.daemons}
    before, began = {k: cpu_ns(p) for k, p in pids.items()}, time.monotonic()
    progress("idle for %d s" % seconds)
    time.sleep(seconds)
    took = time.monotonic() - began
    share = {k: (cpu_ns(p) - before[k]) / took / 1e7 for k, p in pids.items()}
    progress("")
    leader = c.cluster.leader(c.servers)
    print("\n| idle for %d s | gossipd | raftd | rpcd | together: CPU | together: PSS |\n"
          "| --- | --- | --- | --- | --- | --- |" % seconds)
    for n in c.servers:
        mine = [(share[n.name, d], pss_kib(n.pid(d)) / 1024) for d in n.daemons]
        print("| %s | %s | %.3f %% | %.1f MiB |" % ("leader" if n is leader else "follower",
              " | ".join("%.3f %%, %.1f MiB" % m for m in mine), sum(m[0] for m in mine), sum(m[1] for m in mine)),
              flush=True)


def slope(samples):
    """Least squares: MiB per minute of (seconds, MiB)."""
    n, sx, sy = len(samples), sum(x for x, _ in samples), sum(y for _, y in samples)
    sxx, sxy = sum(x * x for x, _ in samples), sum(x * y for x, y in samples)
    return 60 * (n * sxy - sx * sy) / (n * sxx - sx * sx)


def steady(c, seconds):
    """Writes and reads at the same time; 100,000 keys, so that the state does not grow once all are there."""
    places = c.places()
    load("bench_http", "fill", 64, [places["leader"]])
    halt, samples = [], {n.name: [] for n in c.servers}

    def work(mode, place):
        while not halt:
            load("bench_http", mode, 32, [places[place]], 10)
    threads = [threading.Thread(target=work, args=a) for a in (("put", "leader"), ("get", "follower"))]
    for t in threads:
        t.start()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(5)
        at = time.monotonic() - began
        progress("load for %d of %d s" % (at, seconds))
        for n in c.servers:
            samples[n.name].append((at, sum(pss_kib(n.pid(d)) for d in n.daemons) / 1024))
    halt.append(True)
    for t in threads:
        t.join()
    progress("")
    print("\n| PSS of three daemons under load, MiB | after 30 s | half time | at the end (%d s) | highest | "
          "slope of the second half, MiB/min |\n| --- | --- | --- | --- | --- | --- |" % seconds)
    leader = c.cluster.leader(c.servers)
    for n in c.servers:
        s = samples[n.name]
        later = [x for x in s if x[0] > seconds / 2]
        print("| %s | %.1f | %.1f | %.1f | %.1f | %+.2f |" % (
            "leader" if n is leader else "follower", next(y for x, y in s if x >= min(30, seconds / 3)), later[0][1],
            s[-1][1], max(y for _, y in s), slope(later)), flush=True)


def run(short):
    c = Ours()
    try:
        idle(c, 10 if short else 60)
        steady(c, 20 if short else 180)
    finally:
        c.close()

"""What the machine and the libraries allow, and where a request's time goes."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from benchlib import Ours, generator, load, progress


def group_commit():
    """bench_store's own words about the log, on the disk where servers keep theirs."""
    folder = tempfile.mkdtemp(prefix="tv-limits-", dir="/var/tmp")
    try:
        progress("bare group commit")
        p = subprocess.run([generator("bench_store"), "-n", "20000", folder], capture_output=True, text=True)
        progress("")
        print("\nThe log and the state alone (bench_store):\n\n```\n%s\n```" % (p.stdout.strip() or p.stderr.strip()),
              flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def count_calls(pid, seconds):
    """name -> system calls of a process in that time."""
    with tempfile.NamedTemporaryFile("r") as out:
        p = subprocess.Popen(["strace", "-c", "-f", "-o", out.name, "-p", str(pid)], stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        p.send_signal(signal.SIGINT)
        p.wait()
        rows = re.finditer(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", out.read(), re.M)
        return {m[2]: int(m[1]) for m in rows
                if m[2] != "total"}


def system_calls(c, mode, clients, seconds):
    """Calls of one process at a time, per operation of the cluster meanwhile."""
    leader = c.cluster.leader(c.servers)
    follower = next(n for n in c.servers if n is not leader)
    key = "http_requests"
    for who, node in (("leader", leader), ("follower", follower)):
        for daemon in ("raftd", "rpcd"):
            if mode == "get" and who == "follower":
                continue
            result = {}
            t = threading.Thread(target=lambda: result.update(
                load("bench_http", mode, clients, [leader.addr + ":8500"], seconds + 2)))
            t.start()
            time.sleep(1.2)
            before = int(leader.stats("rpcd")[key])
            calls = count_calls(node.pid(daemon), seconds)
            done = max(1, int(leader.stats("rpcd")[key]) - before)
            t.join()
            top = sorted(((n / done, name) for name, n in calls.items() if n / done >= 0.005), reverse=True)
            print("| %s, %d clients | %s %s | %.2f | %s |" % (
                "write" if mode == "put" else "read", clients, who, daemon, sum(calls.values()) / done,
                ", ".join("%s %.2f" % (name, n) for n, name in top[:7])), flush=True)


def where_time_goes(c, mode, seconds):
    """The hottest functions of all daemons together, by perf."""
    places = c.places()
    t = threading.Thread(target=lambda: load("bench_http", mode, 64, [places["leader"]], seconds + 2))
    t.start()
    time.sleep(1.2)
    pids = ",".join(str(n.pid(d)) for n in c.servers for d in n.daemons)
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        subprocess.run(["perf", "record", "-q", "-F", "997", "-o", data, "-p", pids, "--", "sleep", str(seconds)],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        t.join()
        by_dso = subprocess.run(["perf", "report", "-i", data, "--stdio", "-q", "--sort", "comm,dso",
                                 "--percent-limit", "1"], capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*([\d.]+)%\s+(\S+)\s+(\S+)", by_dso, re.M)
    print("\n| share of processor time, %s at 64 clients | process | where |\n| --- | --- | --- |" %
          ("writes" if mode == "put" else "reads"))
    for share, comm, dso in rows:
        print("| %s %% | %s | %s |" % (share, comm, "kernel" if "kernel" in dso else dso), flush=True)


def run(short):
    group_commit()
    c = Ours()
    try:
        load("bench_http", "fill", 64, [c.places()["leader"]], keys=100000)
        if shutil.which("strace"):
            print("\n| system calls per operation (while being traced) | process | all | which |\n"
                  "| --- | --- | --- | --- |")
            for mode in ("put", "get"):
                system_calls(c, mode, 64, 2)
        if shutil.which("perf"):
            for mode in ("put", "get"):
                where_time_goes(c, mode, 2 if short else 5)
    finally:
        c.close()

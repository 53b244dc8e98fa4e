#!/usr/bin/env python3
"""Recorded HTTP cases played against the leader, a follower and the client node of one cluster.

Areas that must pass whole are named in AREAS; single cases of other areas in CASES.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import TOP, Cluster, main, wait_for  # noqa: E402

AREAS = ("kv/*", "session/*", "status/*")
RUN = os.path.join(TOP, "tests", "conformance", "run")


def play(url, follower, pattern):
    p = subprocess.run([sys.executable, RUN, "--url", url, "--follower-url", follower, "--only", pattern],
                       capture_output=True, text=True, timeout=600)
    print("     %-10s at %s: %s" % (pattern, url, (p.stdout.strip().splitlines() or [p.stderr.strip()])[-1]))
    assert p.returncode == 0, p.stdout[-6000:] + p.stderr[-2000:]


def test_recorded_cases():
    with Cluster("127.60.31") as c:
        servers = c.servers(3)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        wait_for("every node is in the catalog with its check", lambda: all(
            [k["Status"] for k in n.get("/v1/health/node/" + n.name).json() if k["CheckID"] == "serfHealth"] ==
            ["passing"] for n in servers + [client]))
        failures = []
        for node in (leader, follower, client):
            for area in AREAS:
                try:
                    play(node.url, follower.url, area)
                except AssertionError as e:
                    failures.append("%s at %s:\n%s" % (area, node.name, e))
        assert not failures, "\n".join(failures)


main(test_recorded_cases)

#!/usr/bin/env python3
"""Recorded HTTP cases played against the leader, a follower and the client node of one cluster.

Areas that must pass are named in AREAS.  Cases in EXCLUDED wait for something that is not built yet; each says
for what.  They are played too: one that passes must leave the list.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import TOP, Cluster, main, wait_for  # noqa: E402

AREAS = ("kv", "session", "status", "catalog", "health", "agent", "cross", "coordinate", "event", "snapshot", "operator")
EXCLUDED = {
    # pattern of case names: what has to come first
    "agent/self": "DelegateCur: gossip announces delegate version 5, the recording has 4",
    "agent/host": "facts about the machine",
    "agent/service-.*": "services at the agent",
    "agent/services-.*": "services at the agent",
    "agent/health-.*": "services at the agent",
    "agent/deregister-critical-minimum": "services at the agent",
    "agent/node-maintenance-.*": "maintenance mode",
    "agent/check-register-tcp": "the check process (TCP, HTTP)",
    "agent/check-http-passing": "the check process",
    "agent/check-pass-not-ttl": "the check process",
    "cross/cached-health": "X-Cache and Age: the agent cache; until then every answer is fresh",
    "cross/cached-background-refresh": "the agent cache",
    "cross/options-query": "prepared queries",
    "cross/method-patch": "services at the agent",
    "cross/max-body-txn": "transactions",
    "cross/follower-txn": "transactions",
    "operator/keyring-off": "the cluster of this test is encrypted",
}
# Recorded at a server, about itself: its tags, its membership of the WAN pool.
OF_SERVERS = ("agent/self-member-tags", "agent/members", "agent/members-wan", "coordinate/datacenters",
              "operator/raft-configuration", "operator/autopilot-state")
RUN = os.path.join(TOP, "tests", "conformance", "run")


def play(url, follower, pattern):
    p = subprocess.run([sys.executable, RUN, "--url", url, "--follower-url", follower, "--only", pattern],
                       capture_output=True, text=True, timeout=600)
    print("     %s at %s: %s" % (pattern.strip("^$").split("(")[0], url, last_line(p)))
    return p


def last_line(p):
    return (p.stdout.strip().splitlines() or [p.stderr.strip()])[-1]


def area_pattern(area, server):
    names = tuple(EXCLUDED) if server else tuple(EXCLUDED) + OF_SERVERS
    out = [name.split("/", 1)[1] for name in names if name.startswith(area + "/")]
    return "^%s/%s" % (area, "(?!(?:%s)$)" % "|".join(out) if out else "")


def test_recorded_cases():
    with Cluster("127.60.31") as c:
        servers = c.servers(3, raftd={"election_timeout": "2s"})       # a busy machine moves no leader
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        wait_for("every node is in the catalog with its check", lambda: all(
            [k["Status"] for k in n.get("/v1/health/node/" + n.name).json() if k["CheckID"] == "serfHealth"] ==
            ["passing"] for n in servers + [client]))
        failures = []
        for node in (leader, follower, client):
            for area in AREAS:
                p = play(node.url, follower.url, area_pattern(area, node.server))
                if p.returncode != 0:
                    failures.append("%s at %s:\n%s%s" % (area, node.name, p.stdout[-6000:], p.stderr[-2000:]))
        for name, reason in EXCLUDED.items():
            if not last_line(play(leader.url, follower.url, "^%s$" % name)).startswith("0 passed"):
                failures.append("%s passes now: take it out of EXCLUDED (%s)" % (name, reason))
        assert not failures, "\n".join(failures)


main(test_recorded_cases)

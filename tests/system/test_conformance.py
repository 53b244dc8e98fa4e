#!/usr/bin/env python3
"""Recorded cases of HTTP and DNS: each one is played and passes, or is excluded here with the reason, and fails.

They are played against the leader, a follower and the client node of one cluster.  Those that are excluded wait for
something that is not built yet, or show what this cluster is not.  They are played, too: one that passes must leave the list.
Those that need access control are test_conformance_acl's.
"""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main, moved  # noqa: E402
from recorded import (EXCLUDED, FOLDER, IN_CLEAR, LAST, OF_SERVERS, RUN_DNS, expect_failures, expect_passes,  # noqa: E402
                      needs_acl, recorded)
from waiting import wait_for  # noqa: E402

# Excluded because of one value: with our value in its place they pass.  (case, step, where in what is expected, ours)
BUT = [("agent/self", 0, ("body", "Member", "DelegateCur"), 5)]
# Recorded at a server, about itself: a client node is in no NS record.
OF_SERVERS_DNS = {"zone/soa", "zone/ns", "zone/ns-below", "zone/edns", "p-domains/zone", "p-ttl/zone", "p-recursor/own-domain",
                  "service/catalog-service"}

# Recorded as Consul's library has it; here the RFCs hold (doc/decisions/rpcd.md, "The process that speaks DNS").
BY_RFC = {"edns/version": "BADVERS is the answer to another version of EDNS (RFC 6891, 6.1.3)",
          "wire/opcodes": "NOTIFY is not implemented: no secondary of another zone is here (RFC 1996)"}


def excluded(names):
    """{name: reason} of those that the list names; each of its patterns names some."""
    out = {}
    for pattern, reason in EXCLUDED.items():
        found = [n for n in names if re.fullmatch(pattern, n)]
        assert found, "EXCLUDED: no case is called " + pattern
        out.update({n: reason for n in found})
    for name in OF_SERVERS | IN_CLEAR | LAST:
        assert name in names, "no case is called " + name
    return out


def with_our_values(folder):
    """Cases of BUT, each with the one value that differs replaced, in files below the folder.  Returns their names."""
    for name, step, where, ours in BUT:
        area, case = name.split("/")[0], copy.deepcopy(recorded()[name])
        place = case["steps"][step]["expect"]
        for key in where[:-1]:
            place = place[key]
        assert place[where[-1]] != ours, name
        place[where[-1]] = ours
        with open(os.path.join(folder, name.replace("/", "-") + ".json"), "w") as f:
            json.dump({"area": area, "cases": [case]}, f)
    return {b[0] for b in BUT}


def started(c):
    """Three servers, a client node and one that will leave."""
    servers = c.servers(3, raftd=CALM)
    clients = [c.client("c1", 4, servers[0]), c.client("c2", 5, servers[0])]
    leader = c.formed(servers)
    wait_for("every node is in the catalog with its check", lambda: all(
        [k["Status"] for k in n.get("/v1/health/node/" + n.name).json() if k["CheckID"] == "serfHealth"] ==
        ["passing"] for n in servers + clients))
    return leader, next(n for n in servers if n is not leader), clients


def test_recorded_cases():
    names = {n: case for n, case in recorded().items() if not needs_acl(case)}
    out = excluded(names)
    common = set(names) - set(out) - IN_CLEAR - LAST
    failures = []
    with Cluster("127.60.31") as c:
        leader, follower, (client, _) = started(c)
        for where, node in (("the leader", leader), ("a follower", follower), ("a client", client)):
            more = ("--follower-url", follower.url, "--encrypt-url", node.url)
            expect_passes(failures, where, node.url, common if node.server else common - OF_SERVERS, *more)
        expect_failures(failures, "the leader", leader.url, out, "--follower-url", follower.url, "--encrypt-url", leader.url)
        expect_failures(failures, "the leader, encrypted", leader.url, dict.fromkeys(IN_CLEAR, "the cluster is encrypted"))
        expect_failures(failures, "a client", client.url, dict.fromkeys(OF_SERVERS, "it is of servers"))
        with tempfile.TemporaryDirectory() as folder:
            for where, node in (("the leader", leader), ("a follower", follower)):
                expect_passes(failures, where + ", but for one value", node.url, with_our_values(folder), "--cases", folder)
    assert not failures, "\n".join(failures)


def test_in_clear():
    failures = []
    with Cluster("127.60.93", keys=False) as c:
        server, = c.servers(1)
        c.formed([server])
        expect_passes(failures, "a server without encryption", server.url, IN_CLEAR)
    assert not failures, "\n".join(failures)


def test_agents_that_end():
    """At a client and at a server that is not the last one: all their daemons end, with status 0."""
    failures = []
    with Cluster("127.60.94") as c:
        leader, follower, (_, client) = started(c)
        for node in (client, follower):
            expect_passes(failures, node.name, leader.url, LAST, "--disposable-url", node.url)
            assert not any(node.wait_end()), node.name
    assert not failures, "\n".join(failures)


def dns_cases():
    """Names of the DNS cases: {profile, None for the default options: {name}}."""
    out = {}
    for file in sorted(os.listdir(os.path.join(FOLDER, "dns"))):
        with open(os.path.join(FOLDER, "dns", file), encoding="utf-8") as f:
            doc = json.load(f)
        out.setdefault(doc.get("profile"), set()).update("%s/%s" % (doc["area"], c["name"]) for c in doc["cases"])
    return out


def dns_options(profile, recursor):
    """What run-dns prints as Consul's configuration, as keys of rpcd.conf."""
    if profile is None:
        return {}
    p = subprocess.run([sys.executable, RUN_DNS, "--print-config", profile, "--recursor", recursor], capture_output=True, text=True,
                       check=True, timeout=60)
    out = {}

    def flat(prefix, block):
        for key, value in block.items():
            if isinstance(value, dict) and key != "service_ttl":
                flat(prefix + key + ".", value)
            else:
                out[prefix + key] = "%ds" % value if prefix.endswith(".soa.") else value
    flat("", json.loads(p.stdout))
    return out


def play_dns(node, profile, recursor):
    """Plays all DNS cases of a profile at a node: the names of those that pass, {name: why} of the others, and the end of it."""
    p = subprocess.run([sys.executable, RUN_DNS, "--http", node.url, "--dns", node.addr + ":8600", "--recursor", recursor, "-v"] +
                       (["--profile", profile] if profile else []), capture_output=True, text=True, timeout=900)
    why = {m.group(1): m.group(0) for m in re.finditer(r"^FAIL (\S+)\n(?:  .*\n)*", p.stdout, re.M)}
    return set(re.findall(r"^ok   (\S+)$", p.stdout, re.M)), why, p.stdout[-1000:] + p.stderr


def test_dns():
    """Every profile of options, at a server and at a client node."""
    failures = []
    for last, (profile, names) in enumerate(sorted(dns_cases().items(), key=str)):
        net = "127.137.%d" % (last + 1)
        recursor = moved(net) + ".9:8653"
        with Cluster(net) as c:
            conf = dns_options(profile, recursor)
            server, = c.servers(1, rpcd=conf)
            client = c.client("c1", 4, server, rpcd=conf)
            c.formed([server])
            client.up()
            for where, node in (("the server", server), ("the client", client)):
                passed, why, said = play_dns(node, profile, recursor)
                out = ((OF_SERVERS_DNS if node is client else set()) | set(BY_RFC)) & names
                print("     profile %s at %s: %d of %d" % (profile, where, len(passed), len(names)), flush=True)
                failures += ["at %s %s" % (where, why.get(n, n + ": " + said)) for n in sorted(names - out - passed)]
                failures += ["at %s %s passes: take it out of the list" % (where, n) for n in sorted(out & passed)]
    assert not failures, "\n".join(failures)


def test_dns_uncached():
    """Every profile at a server that asks for each answer anew: `use_cache` off, as Consul has it."""
    failures = []
    for last, (profile, names) in enumerate(sorted(dns_cases().items(), key=str)):
        net = "127.137.%d" % (last + 101)
        recursor = moved(net) + ".9:8653"
        with Cluster(net) as c:
            server, = c.servers(1, rpcd=dict(dns_options(profile, recursor), **{"dns_config.use_cache": False}))
            c.formed([server])
            passed, why, said = play_dns(server, profile, recursor)
            print("     profile %s: %d of %d" % (profile, len(passed), len(names)), flush=True)
            failures += [why.get(n, n + ": " + said) for n in sorted(names - set(BY_RFC) - passed)]
            assert server.stats("rpcd")["dns_cached"] == "0"
    assert not failures, "\n".join(failures)


main(test_recorded_cases, test_in_clear, test_agents_that_end, test_dns, test_dns_uncached)

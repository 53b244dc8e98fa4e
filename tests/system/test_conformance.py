#!/usr/bin/env python3
"""Recorded cases of HTTP and DNS: each one is played and passes, or is excluded here with the reason, and fails.

They are played against the leader, a follower and the client node of one cluster.  Those that are excluded wait for
something that is not built yet, or show what this cluster is not.  They are played, too: one that passes must leave the list.
"""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, TOP, Cluster, main, moved  # noqa: E402
from waiting import wait_for  # noqa: E402

FOLDER = os.path.join(TOP, "tests", "conformance")
RUN, RUN_DNS = os.path.join(FOLDER, "run"), os.path.join(FOLDER, "run-dns")
ENTRIES = "configuration entries are not built yet"
EXCLUDED = {
    # pattern of names of cases: why they fail
    "acl/.*": "access control cannot be switched on yet",
    "auth/.*": "access control, and with it auth methods, is not built yet",
    "agent/self": "Member.DelegateCur: gossip announces delegate version 5, the recording has 4; see BUT",
    "config/.*": ENTRIES,
    "connect/.*": "the certificate authority is not built yet",
    "intention/.*": "intentions are not built yet",
    "proxy/acl-.*": "access control is not built yet",
    "proxy/catalog-connect-no-name": ENTRIES + ", and health/ingress and catalog/gateway-services with them",
    "proxy/proxy-defaults-merge": ENTRIES,
    "proxy/(block-)?gateway-services-.*": ENTRIES,
    "proxy/health-ingress": ENTRIES,
}
# Named by a pattern above, and pass already.
PASS = {"acl/anonymous-status", "acl/token-update-mismatch"}
# Excluded because of one value: with our value in its place they pass.  (case, step, where in what is expected, ours)
BUT = [("agent/self", 0, ("body", "Member", "DelegateCur"), 5)]
# Recorded at a server, about itself: a client node is in no NS record.
OF_SERVERS_DNS = {"zone/soa", "zone/ns", "zone/ns-below", "zone/edns", "p-domains/zone", "p-ttl/zone", "p-recursor/own-domain",
                  "service/catalog-service"}
# Recorded at a server, about itself (its tags, its membership of the WAN pool, its logs): a client node answers otherwise.
OF_SERVERS = {"agent/self-member-tags", "agent/members", "agent/members-wan", "coordinate/datacenters",
              "operator/raft-configuration", "operator/autopilot-state"}
# Recorded of a cluster without encryption.
IN_CLEAR = {"operator/keyring-off"}
# These end their agent.
LAST = {"agent/leave"}


def recorded():
    """Names of all cases, and what their files say: {name: case}."""
    cases = {}
    for file in sorted(os.listdir(os.path.join(FOLDER, "cases"))):
        with open(os.path.join(FOLDER, "cases", file), encoding="utf-8") as f:
            doc = json.load(f)
        for case in doc["cases"]:
            name = "%s/%s" % (doc.get("area", file[:-5]), case["name"])
            assert name not in cases, "two cases are called " + name
            cases[name] = dict(case, needs=case.get("needs", doc.get("needs")))
    return cases


def excluded(names):
    """{name: reason} of those that the list names; each of its patterns names some."""
    out = {}
    for pattern, reason in EXCLUDED.items():
        found = [n for n in names if re.fullmatch(pattern, n)]
        assert found, "EXCLUDED: no case is called " + pattern
        out.update({n: reason for n in found if n not in PASS})
    for name in PASS | OF_SERVERS | IN_CLEAR | LAST:
        assert name in names, "no case is called " + name
    return out


def play(url, names, *more):
    """Plays the cases of these names: {name: "pass", "FAIL" or "skip"}, and {name: what was printed of it}."""
    chosen = "^(?:%s)$" % "|".join(map(re.escape, sorted(names)))
    p = subprocess.run([sys.executable, RUN, "--url", url, "-v", "--only", chosen, *more], capture_output=True, text=True,
                       timeout=900)
    lines = {m.group(2): m.group(0) for m in re.finditer(r"^(pass|FAIL|skip) (\S+?):? .*$", p.stdout, re.M)}
    assert set(lines) == set(names), "played %d of %d cases at %s: %s%s" % (
        len(lines), len(names), url, p.stdout[-2000:], p.stderr[-2000:])
    return {n: line[:4] for n, line in lines.items()}, lines


def expect_passes(failures, where, url, names, *more):
    """Area by area: what one leaves behind is not the other's."""
    for area in sorted({n.split("/")[0] for n in names}):
        ours = {n for n in names if n.startswith(area + "/")}
        states, lines = play(url, ours, *more)
        print("     %s at %s: %d played" % (area, where, len(ours)), flush=True)
        failures += ["at %s: %s" % (where, lines[n]) for n in sorted(ours) if states[n] != "pass"]


def expect_failures(failures, where, url, reasons, *more):
    states, lines = play(url, set(reasons), *more)
    print("     %d excluded ones at %s" % (len(reasons), where), flush=True)
    for name, reason in sorted(reasons.items()):
        if states[name] != "FAIL":
            failures.append("at %s %s: take it out of the list (%s)" % (where, lines[name], reason))


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
    names = recorded()
    out = excluded(names)
    common = set(names) - set(out) - IN_CLEAR - LAST
    failures = []
    with Cluster("127.60.31") as c:
        leader, follower, (client, _) = started(c)
        for where, node in (("the leader", leader), ("a follower", follower), ("a client", client)):
            more = ("--follower-url", follower.url, "--acl-url", leader.url, "--acl-token", "none", "--encrypt-url", node.url)
            expect_passes(failures, where, node.url, common if node.server else common - OF_SERVERS, *more)
        more = ("--follower-url", follower.url, "--acl-url", leader.url, "--encrypt-url", leader.url)
        fresh = {n: r for n, r in out.items() if names[n]["needs"] == "acl-fresh"}
        expect_failures(failures, "the leader", leader.url, {n: r for n, r in out.items() if n not in fresh},
                        "--acl-token", "none", *more)
        expect_failures(failures, "the leader without a token", leader.url, fresh, *more)
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
                out = OF_SERVERS_DNS & names if node is client else set()
                print("     profile %s at %s: %d of %d" % (profile, where, len(passed), len(names)), flush=True)
                failures += ["at %s %s" % (where, why.get(n, n + ": " + said)) for n in sorted(names - out - passed)]
                failures += ["at %s %s passes: take it out of the list" % (where, n) for n in sorted(out & passed)]
    assert not failures, "\n".join(failures)


main(test_recorded_cases, test_in_clear, test_agents_that_end, test_dns)

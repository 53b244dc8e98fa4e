"""Recorded cases of HTTP: what there are, and playing some of them at a node.  Standard library only."""
import json
import os
import re
import subprocess
import sys

from cluster import TOP

FOLDER = os.path.join(TOP, "tests", "conformance")
RUN, RUN_DNS = os.path.join(FOLDER, "run"), os.path.join(FOLDER, "run-dns")
ENTRIES = "configuration entries are not built yet"
EXCLUDED = {
    # pattern of names of cases: why they fail
    "agent/self": "Member.DelegateCur: gossip announces delegate version 5, the recording has 4; see BUT",
    "config/.*": ENTRIES,
    "connect/.*": "the certificate authority is not built yet",
    "intention/.*": "intentions are not built yet",
    "proxy/catalog-connect-no-name": ENTRIES + ", and health/ingress and catalog/gateway-services with them",
    "proxy/proxy-defaults-merge": ENTRIES,
    "proxy/(block-)?gateway-services-.*": ENTRIES,
    "proxy/health-ingress": ENTRIES,
}
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


def bearer_login():
    """Configuration of an auth method, and a bearer token that it takes until the year 2100: of a recorded case."""
    with open(os.path.join(FOLDER, "cases", "auth.json"), encoding="utf-8") as f:
        case = next(c for c in json.load(f)["cases"] if c["name"] == "login-service")
    bodies = [s["json"] for s in case["steps"] if "json" in s]
    return bodies[0]["Config"], next(b["BearerToken"] for b in bodies if "BearerToken" in b)


def needs_acl(case):
    return (case["needs"] or "").startswith("acl")


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

#!/usr/bin/env python3
"""Recorded cases with access control on: those about it at the leader, a follower and a client node, and all others with a
management token where nothing is allowed by default, and without one where everything is.

What is listed here waits for something, or shows what is otherwise with access control.  It is played, too: a case that passes
must leave the list.
"""
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, auth, bootstrap, leads  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from recorded import EXCLUDED, IN_CLEAR, LAST, expect_failures, expect_passes, needs_acl, recorded  # noqa: E402
from waiting import wait_for  # noqa: E402

ALLOW = dict(ON, **{"acl.default_policy": "allow"})
OFF = {"cross/acl-endpoints-off": "access control is on"}
DENIED = dict(OFF, **{"cross/headers-.*-read": "X-Consul-Default-ACL-Policy is deny here, as test_acl_default wants it"})
# The resource acl is not among what is allowed by default, and whoever has the whole state has all tokens.
ALLOWED = dict(OFF, **{"snapshot/.*": "a snapshot needs acl:write, which no default gives"})


def listed(names, lists):
    """{name: reason} of those that a pattern names; each pattern names some."""
    out = {}
    for pattern, reason in lists.items():
        found = [n for n in names if re.fullmatch(pattern, n)]
        assert found, "no case is called " + pattern
        out.update(dict.fromkeys(found, reason))
    return out


def about_it():
    """Cases about access control, but for those of areas that are not built."""
    cases = {n: c for n, c in recorded().items() if needs_acl(c)}
    unbuilt = {p.split("/")[0] for p in EXCLUDED if p.endswith("/.*")}
    return {n: c for n, c in cases.items() if n.split("/")[0] not in unbuilt}


def other():
    """All others that are played without it, too."""
    names = {n: c for n, c in recorded().items() if not needs_acl(c)}
    return set(names) - {n for n in names for p in EXCLUDED if re.fullmatch(p, n)} - IN_CLEAR - LAST


def play_at(failures, net, which):
    """A fresh cluster, whose first token the runner makes."""
    names = about_it()
    with Cluster(net) as c:
        servers = c.servers(3, raftd=dict(CALM, session_ttl_min="10s"), **ON)
        client = c.client("c1", 4, servers[0], **ON)
        wait_for("access control holds", lambda: servers[0].get("/v1/acl/tokens").ok(401, 403).status == 403)
        leader = leads(servers)
        node = {"the leader": leader, "a follower": next(s for s in servers if s is not leader), "a client": client}[which]
        wait_for("%s answers" % which, lambda: node.get("/v1/acl/tokens").ok(401, 403).status == 403)
        first = {n for n, case in names.items() if case["needs"] == "acl-fresh"}
        assert first
        expect_passes(failures, which, node.url, first, "--acl-url", node.url)
        index = re.search(r"reset index: (\d+)", node.put("/v1/acl/bootstrap").ok(403).text).group(1)
        for s in servers:       # the runner keeps its token for itself
            path = os.path.join(s.data, "raftd", "acl-bootstrap-reset")
            with open(path, "w") as f:
                f.write(index)
        more = ("--acl-url", node.url, "--acl-token", bootstrap(node)["SecretID"])
        expect_passes(failures, which, node.url, set(names) - first, *more)


def together(failures, *calls):
    """Calls of these functions at the same time; what one raises is one of the failures."""
    def call(fn, *args):
        try:
            fn(failures, *args)
        except Exception as e:  # noqa: BLE001 - of a thread; it fails the test
            failures.append("%r: %r" % (args, e))
    threads = [threading.Thread(target=call, args=c) for c in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, "\n".join(failures)


def test_about_access_control():
    """At each kind of node, at the same time: some wait for a token to expire."""
    together([], *[(play_at, "127.242.%d" % (i + 1), which) for i, which in enumerate(("the leader", "a follower", "a client"))])


def play_others(failures, net, conf, lists, with_token):
    with Cluster(net) as c:
        server, = c.servers(1, raftd={"session_ttl_min": "10s"}, **conf)
        secret = bootstrap(server)["SecretID"]
        wait_for("the catalog has the node", lambda: server.get("/v1/catalog/nodes", headers=auth(secret)).json())
        # Where all is denied by default a node needs a token to tell its coordinate.
        server.put("/v1/agent/token/agent", {"Token": secret}, headers=auth(secret)).ok()
        wait_for("it has told its coordinate", lambda: server.get("/v1/coordinate/nodes", headers=auth(secret)).json())
        names = other()
        out = listed(names, lists)
        more = ("--follower-url", server.url, "--encrypt-url", server.url) + (("--token", secret) if with_token else ())
        where = "a server, default %s" % conf.get("acl.default_policy", "deny")
        expect_passes(failures, where, server.url, names - set(out), *more)
        expect_failures(failures, where, server.url, out, *more)


def test_all_others():
    """Everything else, twice at the same time: with all rights, and where nobody needs one."""
    together([], (play_others, "127.242.4", ON, DENIED, True), (play_others, "127.242.5", ALLOW, ALLOWED, False))


main(test_about_access_control, test_all_others)

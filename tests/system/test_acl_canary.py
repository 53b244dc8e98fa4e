#!/usr/bin/env python3
"""Rights that come and go: what a token may not see any more is nowhere, by no interface, longer than the bound, and what it may see
is everywhere as soon."""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, auth, formed  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from dnsask import A, PTR, SRV, count  # noqa: E402
from waiting import wait_for  # noqa: E402

ADDRESS = "10.66.0.1"
SEES = "".join('%s_prefix "" { policy = "read" }\n' % r for r in ("node", "service", "key", "query", "session"))
SEES_NOT = 'agent_prefix "" { policy = "read" }\n'
NO_NODES = "".join('%s_prefix "" { policy = "read" }\n' % r for r in ("service", "key", "query", "session"))
BOUND = 10                      # seconds; rights of the agents are kept for one


class Waiter(threading.Thread):
    """A blocking query, asked again and again; `seen` is what the last answer told."""

    def __init__(self, node, path, secret):
        super().__init__(daemon=True)
        self.node, self.path, self.secret = node, path, secret
        self.seen, self.halt = None, False
        self.start()

    def run(self):
        index = 0
        while not self.halt:
            a = self.node.get("%s?index=%d&wait=60s" % (self.path, index), headers=auth(self.secret), timeout=90)
            self.seen = "canary" in a.text
            index = a.index if a.status == 200 else 0
            if a.status != 200:
                time.sleep(0.05)        # between refusals


class World:
    def __init__(self, c):
        keys = dict(ON, **{"acl.default_policy": "deny", "acl.primary_datacenter": "dc1"})
        rpcd = {"acl.token_ttl": "1s"}
        self.server = c.add("n1", 1, raftd={"bootstrap": True}, rpcd=rpcd, **keys).start()
        self.acl, _ = formed(c, [self.server])
        self.client = c.client("c1", 4, self.server, rpcd=rpcd, **keys)
        self.other = c.add("m1", 5, dc="dc2", raftd={"bootstrap": True}, rpcd=rpcd, retry_join_wan=[self.server.addr], **keys).start()
        self.acl.http("PUT", "/v1/catalog/register", {
            "Node": "canary-node", "Address": ADDRESS, "Service": {"Service": "canary", "Port": 80}}).ok()
        self.acl.http("PUT", "/v1/kv/canary/key", b"canary").ok()
        self.acl.http("POST", "/v1/query", {"Name": "canary-query", "Service": {"Service": "canary"}}).ok()
        self.policy = self.acl.policy(SEES)
        self.make_token()
        self.waiters = []

    def make_token(self):
        self.token = self.acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": self.policy["ID"]}]})
        self.secret = self.token["SecretID"]
        for node in (self.server, self.client):
            wait_for("%s takes its default token" % node.name, lambda n=node: n.put(
                "/v1/agent/token/default", {"Token": self.secret}, headers=auth(self.acl.secret)).ok())

    def http(self, node, path, dc=""):
        def ask():
            a = node.get(path + dc, headers=auth(self.secret)).ok(200, 403, 404)
            # The answer of a query names its service, which is no secret of the catalog.
            return a.status == 200 and (ADDRESS in a.text or ("canary" in a.text and "/query/" not in path))
        return ask

    def txn(self, node):
        def ask():
            a = node.put("/v1/txn", [{"KV": {"Verb": "get", "Key": "canary/key"}}], headers=auth(self.secret)).ok(200, 403, 409)
            return a.status == 200 and len(json.loads(a.body)["Results"] or []) > 0
        return ask

    def ctl(self, node, *args):
        def ask():
            p = node.ctl("--token", self.secret, *args, check=False)
            return "canary" in p.stdout or ADDRESS in p.stdout
        return ask

    def interfaces(self, nodes=True):
        """(name, does it show?) of each way to see it."""
        for node in (self.server, self.client):
            for path in ("/v1/catalog/service/canary", "/v1/health/service/canary", "/v1/catalog/nodes", "/v1/catalog/services",
                         "/v1/catalog/node/canary-node", "/v1/kv/canary/key", "/v1/kv/?keys", "/v1/kv/canary/?recurse",
                         "/v1/query/canary-query/execute", "/v1/internal/ui/services"):
                for mode in ("", "?stale", "?cached"):
                    if mode and path.startswith("/v1/kv/?"):
                        continue
                    if mode == "?cached" and not path.startswith(("/v1/catalog/service/", "/v1/health", "/v1/catalog/nodes", "/v1/query")):
                        continue
                    yield "%s %s%s" % (node.name, path, mode), self.http(node, path.replace("?recurse", "?recurse" + mode.replace("?", "&"))
                                                                       if "?" in path else path + mode)
            yield "%s txn" % node.name, self.txn(node)
            for name, qtype in (("canary.service.consul", A), ("canary.service.consul", SRV), ("canary-node.node.consul", A),
                                ("1.0.66.10.in-addr.arpa", PTR), ("canary-query.query.consul", A)):
                for tcp in (False, True):
                    yield "%s DNS %s %d %s" % (node.name, name, qtype, "tcp" if tcp else "udp"), \
                        lambda n=node, q=name, t=qtype, s=tcp: count(n, q, t, s) > 0
            yield "%s clusterctl catalog" % node.name, self.ctl(node, "catalog", "nodes")
            yield "%s clusterctl kv" % node.name, self.ctl(node, "kv", "list")
        for path in ("/v1/health/service/canary?dc=dc1", "/v1/kv/canary/key?dc=dc1"):
            yield "m1 " + path, self.http(self.other, path)
        for w in self.waiters:
            yield "%s waits for %s" % (w.node.name, w.path), lambda x=w: x.seen

    def listen(self):
        for node in (self.server, self.client):
            for path in ("/v1/health/service/canary", "/v1/catalog/nodes", "/v1/kv/canary/key"):
                self.waiters.append(Waiter(node, path, self.secret))

    def expect(self, shown, only=None):
        """Within the bound each of them shows it, or none does."""
        end = time.monotonic() + BOUND
        left = [(n, f) for n, f in self.interfaces() if only is None or only(n)]
        asked = len(left)
        while left and time.monotonic() < end:
            left = [(n, f) for n, f in left if bool(f()) != shown]
        assert not left, "%d s after rights %s, %d of %d ways %s it: %s" % (
            BOUND, "came" if shown else "went", len(left), asked, "do not show" if shown else "still show",
            ", ".join(n for n, _ in left))

    def close(self):
        for w in self.waiters:
            w.halt = True


def test_policy_changes():
    """By a policy that is changed: all goes, comes back, and node read alone goes and comes back."""
    with Cluster("127.247.1") as c:
        w = World(c)
        wait_for("all show it", lambda: all(f() for _, f in w.interfaces()))
        w.listen()
        for rules in (SEES_NOT, NO_NODES, SEES_NOT):
            w.acl.change_policy(w.policy, rules)
            # A key, and what names a service without its node, may be seen without node read.
            w.expect(False, None if rules == SEES_NOT else lambda n: "kv" not in n and "txn" not in n and "/catalog/services" not in n and
                     "/ui/services" not in n)
            w.acl.change_policy(w.policy, SEES)
            w.expect(True)
        w.close()


def test_token_goes():
    """By a token that is deleted, and by another one in its place."""
    with Cluster("127.247.2") as c:
        w = World(c)
        wait_for("all show it", lambda: all(f() for _, f in w.interfaces()))
        for _ in range(2):
            w.acl.delete(w.token)
            w.expect(False)
            w.make_token()
            w.expect(True)


if __name__ == "__main__":
    main(test_policy_changes, test_token_goes)

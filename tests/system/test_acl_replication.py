#!/usr/bin/env python3
"""Access control in two datacenters: policies, roles and global tokens of the primary one come to the other one and go again, also
across partitions, while the primary is away, and over a change of leaders there; local tokens stay where they were made."""
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import bootstrapped  # noqa: E402
from cluster import Cluster, main, skip  # noqa: E402
import netns  # noqa: E402
from hub import Hub  # noqa: E402
from oprows import OPS, RECORDS, Asker, args, fields, holds  # noqa: E402
from raftcluster import ERR, MSG  # noqa: E402
from tvframe import Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

REPLICATION = "5f8d1a52-0c3b-4f0e-9b8e-6a3c41d7e011"
FAILED = 4                      # status of a member
TOKENS = 1000
LARGE = 5000                    # tokens, in whose copying the network is cut
BATCH = 256                     # records that are written together: what of them may come twice
ACL = {"acl.enabled": True, "acl.default_policy": "deny", "acl.primary_datacenter": "dc1"}


def h(secret):
    return {"X-Consul-Token": secret}


def send(node, method, path, body, secret, *statuses):
    return node.http(method, "/v1/acl/" + path, None if body is None else json.dumps(body).encode(),
                     headers=h(secret)).ok(*(statuses or (200,)))


def token(node, secret, **fields):
    return send(node, "PUT", "token", fields, secret).json()


def reads(node, secret, key="a"):
    """Status of reading a key that is not there: 404 for who may."""
    return node.get("/v1/kv/" + key, headers=h(secret)).status


def status(node):
    """{} while access control has not begun."""
    a = node.get("/v1/acl/replication").ok(200, 401)
    return a.json() if a.status == 200 else {}


def figures(node, root):
    """What its rpcd tells of itself; it remembers for a second that a token was unknown."""
    wait_for("rpcd knows the token", lambda: node.get("/v1/agent/self", headers=h(root)).status == 200)
    return node.stats("rpcd", headers=h(root))


def term_of(node, root):
    return int(node.stats("raft", headers=h(root))["term"])


def wan(node, root):
    return {m["Name"]: m["Status"] for m in node.get("/v1/agent/members?wan=1", headers=h(root)).json()}


def two(c, count=1):
    """A primary datacenter of one server and another one of `count`; (primary, others, a token with all rights)."""
    first = c.servers(1, dc="dc1", **ACL)[0]
    root = bootstrapped(first)
    token(first, root, SecretID=REPLICATION, Description="replication", Policies=[{"Name": "global-management"}])
    others = c.servers(count, dc="dc2", first=11, prefix="m", retry_join_wan=[first.addr],
                       rpcd={"acl.tokens.replication": REPLICATION}, **ACL)
    wait_for("the first tokens are in dc2", lambda: all(
        status(n).get("ReplicatedTokenIndex", 0) > 0 and reads(n, root) == 404 for n in others), 60)
    return first, others, root


def tokens_in(node, root):
    return {t["AccessorID"]: t for t in send(node, "GET", "tokens", None, root).json()}


def same(first, node, root):
    """Is all of it equal, but for what is local, for indexes, and for when each datacenter got its anonymous token?"""
    def plain(list_, key):
        return {t[key]: {k: v for k, v in t.items() if not k.endswith("Index") and k != "CreateTime"} for t in list_ if not t.get("Local")}
    return all(plain(send(first, "GET", path, None, root).json(), key) == plain(send(node, "GET", path, None, root).json(), key)
               for path, key in (("policies", "ID"), ("roles", "ID"), ("tokens", "AccessorID")))


def test_flow():
    """What is made, changed and deleted at the primary; what is written in the other datacenter; local tokens; how long it takes."""
    with Cluster("127.235.1") as c:
        first, (m1,), root = two(c)
        a = m1.put("/v1/acl/bootstrap")
        assert a.status == 403 and 'primary datacenter, which is "dc1"' in a.text, a
        assert status(first)["Enabled"] is False
        policy = send(first, "PUT", "policy", {"Name": "reads", "Rules": 'key_prefix "" { policy = "read" }'}, root).json()
        role = send(first, "PUT", "role", {"Name": "readers", "Policies": [{"Name": "reads"}]}, root).json()
        made = token(first, root, Roles=[{"Name": "readers"}])
        wait_for("a token with a role", lambda: reads(m1, made["SecretID"]) == 404)
        far = send(m1, "GET", "token/" + made["AccessorID"], None, root).json()
        assert far["SecretID"] == made["SecretID"] and far["Roles"] == made["Roles"] and far["Hash"] == made["Hash"], far

        # Written in dc2, it is written in dc1; and comes back.
        b = token(m1, root, Description="by way of dc2", Policies=[{"ID": policy["ID"]}])
        assert send(first, "GET", "token/" + b["AccessorID"], None, root).json()["SecretID"] == b["SecretID"]
        wait_for("it comes back", lambda: reads(m1, b["SecretID"]) == 404)
        copy = send(m1, "PUT", "token/%s/clone" % b["AccessorID"], {}, root).json()
        wait_for("a clone", lambda: reads(m1, copy["SecretID"]) == 404)
        send(m1, "DELETE", "token/" + b["AccessorID"], None, root)
        assert reads(first, b["SecretID"]) == 403
        wait_for("it goes again", lambda: reads(m1, b["SecretID"]) == 403)
        second = send(m1, "PUT", "policy", {"Name": "nothing", "Rules": ""}, root).json()
        assert send(first, "GET", "policy/name/nothing", None, root).json()["ID"] == second["ID"]

        # Local ones (S146).
        near = token(m1, root, Local=True, Policies=[{"ID": policy["ID"]}])
        assert reads(m1, near["SecretID"]) == 404 and reads(first, near["SecretID"]) == 403
        assert first.get("/v1/kv/a?dc=dc2", headers=h(near["SecretID"])).status == 404
        assert m1.get("/v1/kv/a?dc=dc1", headers=h(near["SecretID"])).status == 403
        own = token(first, root, Local=True, Policies=[{"ID": policy["ID"]}])

        # Changes and deletions.
        send(first, "PUT", "policy/" + policy["ID"], {"ID": policy["ID"], "Name": "writes", "Rules": 'key_prefix "" { policy = "write" }'}, root)
        wait_for("a policy changes", lambda: m1.put("/v1/kv/b", b"1", headers=h(made["SecretID"])).status == 200)
        assert send(m1, "GET", "role/" + role["ID"], None, root).json()["Policies"][0]["Name"] == "writes"
        send(first, "DELETE", "role/" + role["ID"], None, root)
        wait_for("a role goes", lambda: reads(m1, made["SecretID"], "b") == 403)
        assert reads(m1, near["SecretID"]) == 404, "the local token stays"
        # Names change hands.
        send(first, "PUT", "policy/" + second["ID"], {"ID": second["ID"], "Name": "third", "Rules": ""}, root)
        send(first, "PUT", "policy/" + policy["ID"], {"ID": policy["ID"], "Name": "nothing", "Rules": ""}, root)
        send(first, "PUT", "policy/" + second["ID"], {"ID": second["ID"], "Name": "writes", "Rules": ""}, root)
        wait_for("names change hands", lambda: same(first, m1, root))
        assert send(m1, "GET", "policy/name/writes", None, root).json()["ID"] == second["ID"]
        assert reads(m1, own["SecretID"]) == 403, "a local token of dc1 is none in dc2"

        took = []
        for _ in range(20):
            t = token(first, root, Policies=[{"Name": "global-management"}])
            begun = time.monotonic()
            wait_for("a fresh token", lambda: reads(m1, t["SecretID"]) == 404)
            took.append(time.monotonic() - begun)
        took.sort()
        print("# a fresh token is known in the other datacenter after %.0f ms (median; at most %.0f)" % (
            took[10] * 1000, took[-1] * 1000), flush=True)
        s = status(m1)
        assert s["Enabled"] and s["Running"] and s["SourceDatacenter"] == "dc1" and s["ReplicationType"] == "tokens", s
        assert s["ReplicatedIndex"] > 0 and s["ReplicatedTokenIndex"] > 0 and not s["LastSuccess"].startswith("0001"), s
        info = figures(m1, root)
        assert info["acl_replication_running"] == "1" and int(info["acl_replication_copied"]) > 20, info


def test_primary_away():
    """The other datacenter decides alone while the primary is away, and catches up; a change of leaders goes on from there."""
    with Cluster("127.235.2") as c:
        first, others, root = two(c, 3)
        for i in range(TOKENS):
            token(first, root, Description="token %d" % i, Policies=[{"Name": "global-management"}])
        wait_for("they are in dc2", lambda: len(tokens_in(others[0], root)) == TOKENS + 3, 60)
        assert same(first, others[0], root)
        leader = next(n for n in others if figures(n, root)["acl_replication_running"] == "1")
        before = status(leader)["ReplicatedTokenIndex"]
        first.kill()
        assert all(reads(n, root) == 404 for n in others), "known tokens hold without the primary"
        near = token(leader, root, Local=True, Policies=[{"Name": "global-management"}])
        assert reads(leader, near["SecretID"]) == 404
        a = leader.http("PUT", "/v1/acl/token", b"{}", headers=h(root))
        assert a.status == 500, a
        first.start()
        wait_for("dc1 is back", lambda: reads(first, root) == 404, 60)
        gone = [t for t in tokens_in(first, root).values() if t["Description"].startswith("token 1")][:50]
        for t in gone:
            send(first, "DELETE", "token/" + t["AccessorID"], None, root)
        wait_for("it catches up", lambda: len(tokens_in(leader, root)) == TOKENS + 3 + 1 - len(gone), 90)
        assert reads(leader, near["SecretID"]) == 404
        leader.kill()
        rest = [n for n in others if n is not leader]
        made = token(first, root, Policies=[{"Name": "global-management"}])
        wait_for("the next leader goes on", lambda: all(reads(n, made["SecretID"]) == 404 for n in rest), 90)
        assert status(rest[0])["ReplicatedTokenIndex"] > before
        new = next(n for n in rest if figures(n, root)["acl_replication_running"] == "1")
        assert int(figures(new, root)["acl_replication_copied"]) < 20, "it did not begin anew"
        leader.start()


class Apart:
    """Two datacenters of one and `count` servers, each server in a network namespace of its own: what is cut between them is lost
    packets, no connection is closed, and the test reaches all of them still."""

    def __init__(self, net, count):
        self.hub, self.cluster, self.held = Hub(net), Cluster(net), []
        try:
            self.first = self.add("n1", 1, "dc1", raftd={"bootstrap_expect": 1})
            self.root = bootstrapped(self.first)
            token(self.first, self.root, SecretID=REPLICATION, Description="replication", Policies=[{"Name": "global-management"}])
            self.others = [self.add("m%d" % (i + 1), 11 + i, "dc2", raftd={"bootstrap_expect": count}, retry_join=[net + ".11"],
                                    retry_join_wan=[self.first.addr], rpcd={"acl.tokens.replication": REPLICATION})
                           for i in range(count)]
            wait_for("the first tokens are in dc2", lambda: all(
                status(n).get("ReplicatedTokenIndex", 0) > 0 and reads(n, self.root) == 404 for n in self.others))
            self.find()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def add(self, name, last, dc, **kw):
        return self.cluster.add(name, last, dc=dc, wrap=self.hub.place(last).wrap, **kw, **ACL).start()

    def find(self):
        """The one that copies."""
        self.leader = wait_for("one copies", lambda: next(
            (n for n in self.others if figures(n, self.root)["acl_replication_running"] == "1"), None))
        return self.leader

    def there(self):
        """From the primary to the others."""
        return [(self.first, n) for n in self.others]

    def back(self):
        return [(n, self.first) for n in self.others]

    def cut(self, pairs):
        self.held = Hub.ways(pairs)
        self.hub.hold("cut", self.held)

    def heal(self):
        self.hub.release("cut", self.held)
        self.held = []

    def figure(self, name):
        return int(figures(self.leader, self.root)["acl_replication_" + name])

    def noticed(self):
        """The one that copies says what is wrong, and for how long nothing came."""
        failures, age = self.figure("failures"), self.figure("age_s")
        wait_for("it is told", lambda: self.figure("failures") > failures and self.figure("age_s") > age and
                 status(self.leader).get("LastErrorMessage"))

    def whole(self):
        """All is in dc2, on each server, and its figures say so; seconds that it took."""
        begun = time.monotonic()
        wait_for("it is all there", lambda: all(same(self.first, n, self.root) for n in self.others), 90)
        took = time.monotonic() - begun
        wait_for("the lag is gone", lambda: self.figure("behind") == 0 and self.figure("age_s") <= took + 5)
        return took

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        try:
            self.cluster.__exit__(kind, *rest)
        finally:
            self.hub.close()


def apart(net, count):
    why = netns.impossible()
    if why:
        skip("a partition " + why)
    return Apart(net, count)


def test_partition():
    """No packet goes between the datacenters: the other one decides alone with what it had, also for a token that was deleted in the
    primary one meanwhile; after the heal it has everything, and its lag, which grew, falls."""
    with apart("10.79.1", 3) as p:
        first, root, leader = p.first, p.root, p.leader
        reading = 'key_prefix "" { policy = "read" }'
        policy = send(first, "PUT", "policy", {"Name": "reads", "Rules": reading}, root).json()
        role = send(first, "PUT", "role", {"Name": "readers", "Policies": [{"Name": "reads"}]}, root).json()
        gone = send(first, "PUT", "role", {"Name": "leavers", "Policies": [{"Name": "reads"}]}, root).json()
        stays, leaves = token(first, root, Roles=[{"ID": role["ID"]}]), token(first, root, Roles=[{"ID": gone["ID"]}])
        doomed = token(first, root, Policies=[{"ID": policy["ID"]}])
        near = token(leader, root, Local=True, Policies=[{"Name": "global-management"}])
        wait_for("all of it is in dc2", lambda: all(
            reads(n, t["SecretID"]) == 404 for n in p.others for t in (stays, leaves, doomed, near)))
        term = term_of(leader, root)
        p.cut(p.there() + p.back())
        send(first, "DELETE", "token/" + doomed["AccessorID"], None, root)
        send(first, "DELETE", "role/" + gone["ID"], None, root)
        send(first, "PUT", "policy/" + policy["ID"], dict(policy, Rules='key_prefix "" { policy = "write" }'), root)
        send(first, "PUT", "policy", {"Name": "news", "Rules": reading}, root)
        send(first, "PUT", "role", {"Name": "newcomers", "Policies": [{"Name": "news"}]}, root)
        fresh = [token(first, root, Roles=[{"Name": "newcomers"}]) for _ in range(50)]
        assert reads(first, doomed["SecretID"]) == 403 and reads(first, fresh[0]["SecretID"]) == 404
        p.noticed()
        for n in p.others:
            for t in (root, stays["SecretID"], leaves["SecretID"], doomed["SecretID"], near["SecretID"]):
                assert reads(n, t) == 404, "what dc2 knows holds"
            assert n.put("/v1/kv/b", b"1", headers=h(stays["SecretID"])).status == 403, "as before the cut"
            assert reads(n, fresh[0]["SecretID"]) == 403, "what dc2 cannot know does not"
            assert n.put("/v1/kv/b", b"1", headers=h(near["SecretID"])).status == 200
        here = token(leader, near["SecretID"], Local=True, Policies=[{"ID": policy["ID"]}])
        assert all(reads(n, here["SecretID"]) == 404 for n in p.others), "local tokens are made without the primary"
        a = leader.http("PUT", "/v1/acl/token", b"{}", headers=h(root))
        assert a.status == 500, a       # a global one is made there
        assert all(reads(first, t["SecretID"]) == 403 for t in (near, here))
        assert term_of(leader, root) == term, "dc2 has its leader still"
        wait_for("dc2 sees no server of dc1", lambda: wan(leader, root)["n1.dc1"] == FAILED)
        p.heal()
        print("# all is there %.1f s after the heal" % p.whole(), flush=True)
        assert "it has servers again" in leader.log("rpcd"), "it tried as soon as that was known"
        for n in p.others:
            assert [reads(n, t["SecretID"], "b") for t in (doomed, leaves, stays, near, here)] == [403, 403, 200, 200, 200]
            assert all(reads(n, t["SecretID"], "b") == 200 for t in fresh)
            assert n.put("/v1/kv/b", b"2", headers=h(stays["SecretID"])).status == 200
        assert all(reads(first, t["SecretID"]) == 403 for t in (near, here)), "local tokens stayed local"
        made = token(leader, root, Policies=[{"ID": policy["ID"]}])
        assert reads(first, made["SecretID"]) == 404, "by way of dc2 again"
        p.whole()


def test_partition_one_way():
    """Only what one of the two says is lost, whichever: the same."""
    with apart("10.79.2", 1) as p:
        for lost, what in ((p.there(), "dc2 does not hear dc1"), (p.back(), "dc1 does not hear dc2")):
            doomed = token(p.first, p.root, Policies=[{"Name": "global-management"}])
            wait_for("it is copied", lambda: reads(p.leader, doomed["SecretID"]) == 404)
            p.cut(lost)
            send(p.first, "DELETE", "token/" + doomed["AccessorID"], None, p.root)
            fresh = token(p.first, p.root, Policies=[{"Name": "global-management"}])
            near = token(p.leader, doomed["SecretID"], Local=True, Policies=[{"Name": "global-management"}])
            p.noticed()
            assert reads(p.leader, doomed["SecretID"]) == 404 and reads(p.leader, fresh["SecretID"]) == 403, "dc2 knows what it knew"
            p.leader.put("/v1/kv/b", b"1", headers=h(near["SecretID"])).ok()
            p.heal()
            print("# %s: all is there %.1f s after the heal" % (what, p.whole()), flush=True)
            assert [reads(p.leader, t["SecretID"]) for t in (doomed, fresh, near)] == [403, 404, 404]
            assert reads(p.first, near["SecretID"]) == 403, "the local token stayed local"


def test_partition_in_the_middle():
    """Cut in the middle of copying thousands of tokens, twice: it goes on where it was, and what it had does not come again."""
    with apart("10.79.3", 1) as p:
        p.cut(p.there() + p.back())

        def make(n):
            for i in range(n):
                token(p.first, p.root, Description="token %d" % i, Policies=[{"Name": "global-management"}])
        threads = [threading.Thread(target=make, args=(LARGE // 10,)) for _ in range(10)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        p.noticed()
        base, had = p.figure("copied"), len(tokens_in(p.leader, p.root))
        for _ in range(2):
            before = len(tokens_in(p.leader, p.root))
            Hub.cut_after(Hub.ways(p.there()), 700)
            p.heal()
            wait_for("some are there", lambda: len(tokens_in(p.leader, p.root)) > before)
            p.cut(p.there() + p.back())
            Hub.mend_after()
            p.noticed()
            assert before < len(tokens_in(p.leader, p.root)) < had + LARGE, "cut in the middle"
        p.heal()
        print("# all is there %.1f s after the heal" % p.whole(), flush=True)
        assert len(tokens_in(p.leader, p.root)) == had + LARGE
        assert LARGE <= p.figure("copied") - base <= LARGE + 2 * BATCH, "it began anew"


def test_fresh_tokens():
    """Tokens that were copied a moment ago, each shown for the first time by many at once, at servers and at a client node: none is refused."""
    with Cluster("127.235.4") as c:
        first, others, root = two(c, 3)
        client = c.client("c1", 14, others[0], dc="dc2", **ACL)
        wait_for("the client knows the token", lambda: client.get("/v1/agent/self", headers=h(root)).status == 200)
        rules = 'key_prefix "" { policy = "read" } agent_prefix "" { policy = "read" }'
        send(first, "PUT", "policy", {"Name": "reads", "Rules": rules}, root)
        leader = wait_for("a leader", lambda: others[0].get("/v1/status/leader").json())
        asked = [n for n in others if not leader.startswith(n.addr + ":")] + [client]
        leads = next(n for n in others if leader.startswith(n.addr + ":"))
        refused = []

        def ask(node, secret):
            for path, status in (("/v1/kv/a", 404), ("/v1/kv/a?stale", 404), ("/v1/agent/self", 200)):
                said = node.get(path, headers=h(secret))
                if said.status != status:
                    refused.append((node.name, path, repr(said)))

        for _ in range(10):
            made = token(first, root, Policies=[{"Name": "reads"}])["SecretID"]
            wait_for("it is copied", lambda: reads(leads, made) == 404)
            threads = [threading.Thread(target=ask, args=(asked[i % len(asked)], made)) for i in range(100)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        assert not refused, "%d of 3,000 were refused: %r" % (len(refused), refused[:3])


def test_first_token():
    """The token that was known first is known again by itself; one that is no token of the primary brings nothing."""
    with Cluster("127.235.3") as c:
        first = c.servers(1, dc="dc1", **ACL)[0]
        root = bootstrapped(first)
        m1 = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=[first.addr],
                       rpcd={"acl.tokens.replication": REPLICATION}, **ACL)[0]
        wait_for("an error is shown", lambda: "ACL not found" in status(m1).get("LastErrorMessage", ""), 60)
        assert reads(m1, root) == 403
        token(first, root, SecretID=REPLICATION, Policies=[{"Name": "global-management"}])
        wait_for("it begins", lambda: reads(m1, root) == 404, 60)
        # Without the replication token nothing flows any more.
        send(first, "DELETE", "token/" + send(first, "GET", "token/self", None, REPLICATION).json()["AccessorID"], None, root)
        made = token(first, root, Policies=[{"Name": "global-management"}])
        wait_for("it ends", lambda: int(figures(m1, root)["acl_replication_failures"]) > 1 and
                 "ACL not found" in status(m1).get("LastErrorMessage", ""), 60)
        assert reads(m1, made["SecretID"]) == 403 and reads(m1, root) == 404


def test_stored_token_of_a_query():
    """A query stored with a token is carried out with it in the other datacenter, too, which is shown a proof and no secret: for
    whoever may know the query's name, and for that query alone."""
    with Cluster("127.235.6") as c:
        first, (m1,), root = two(c)
        for name in ("web", "db"):
            body = {"Node": "far", "Address": "10.0.0.9", "Service": {"Service": name}}
            m1.put("/v1/catalog/register", json.dumps(body).encode(), headers=h(root)).ok(200)
        rules = 'service "web" { policy = "read" } node_prefix "" { policy = "read" }'
        send(first, "PUT", "policy", {"Name": "web", "Rules": rules}, root)
        stored = token(first, root, Policies=[{"Name": "web"}])
        near = token(first, root, Policies=[{"Name": "web"}], Local=True)

        def query(name, service, secret):
            body = {"Name": name, "Token": secret, "Service": {"Service": service, "Failover": {"Datacenters": ["dc2"]}}}
            first.http("POST", "/v1/query", json.dumps(body).encode(), headers=h(root)).ok(200)

        def found(name, secret=""):
            return [n["Node"]["Node"] for n in first.get("/v1/query/%s/execute" % name, headers=h(secret)).ok(200).json()["Nodes"]]

        query("plain", "web", "")
        query("own", "web", stored["SecretID"])
        query("other", "db", stored["SecretID"])
        query("local", "web", near["SecretID"])
        wait_for("the token is in dc2", lambda: stored["AccessorID"] in tokens_in(m1, root))
        assert found("plain") == [] and found("plain", root) == ["far"]
        assert found("own") == ["far"] and found("own", root) == ["far"]
        assert found("other") == [] and found("other", root) == [], "it gives no more than the stored token"
        assert found("local") == [] and found("local", root) == ["far"], "a local token is nothing elsewhere: who asks counts"

        # What a taken-over rpcd sees of it, and what it can do with that.
        here, there = Asker(first), Asker(m1)
        seen = fields("prepared_found", here.op("QUERY_EXECUTE", Name="own").value)
        assert seen["Accessor"] == stored["AccessorID"] and len(seen["Proof"]) == 32
        assert not holds(here.op("QUERY_EXECUTE", Name="own"), stored["SecretID"])
        given = fields("prepared_query", seen["Query"])

        def remote(query=given, accessor=seen["Accessor"], proof=seen["Proof"]):
            said = there.op("QUERY_REMOTE", Query=query, Accessor=accessor, Proof=proof)
            assert said.err == 0, said
            return len(fields("prepared_found", said.value)["Nodes"])

        rest = dict(zip([f[0] for f in RECORDS["prepared_service"]], given["Service"]))
        assert remote() == 1
        for proof in (b"", bytes(32), seen["Proof"][:-1], seen["Proof"] + b"x", seen["Proof"][::-1]):
            assert remote(proof=proof) == 0
        for accessor in ("", "x", near["AccessorID"], "00000000-0000-0000-0000-000000000002"):
            assert remote(accessor=accessor) == 0
        assert remote(query=dict(given, Service=dict(rest, Service="db"))) == 0
        assert remote(query=dict(given, Service=dict(rest, OnlyPassing=True))) == 0, "another query has another proof"
        here.close()
        there.close()

        send(first, "DELETE", "token/" + stored["AccessorID"], None, root)
        wait_for("the token is gone in dc2", lambda: stored["AccessorID"] not in tokens_in(m1, root))
        there = Asker(m1)
        assert remote() == 0, "a proof ends with its token"
        there.close()


def test_own_alone():
    """What the rpcd of the same server alone may ask is done for no other node, whatever it names as the first token."""
    stranger = "0f0f0f0f-0000-4000-8000-000000000001"
    with Cluster("127.241.11", keys=False) as c:
        node = c.servers(1, dc="dc2", **ACL)[0]
        wait_for("access control holds", lambda: status(node).get("Enabled"))
        own = [r for r in OPS.values() if "OP_OWN" in r.traits]
        assert {r.name for r in own} == {"ACL_REPL_DIFF_FIRST", "ACL_REPL_APPLY_FIRST"}, own
        given = {"ACL_REPL_DIFF_FIRST": {"Kind": 1, "Whole": True, "Asker": stranger},
                 "ACL_REPL_APPLY_FIRST": {"Asker": stranger, "Source": "dc1", "Kind": 3, "Delete": [stranger]}}
        with Conn((node.addr, 8400), role="rpcd") as link:
            for row in own:
                for kind in (MSG.OP, MSG.OP_FINAL, MSG.OP_DC):
                    asked = [row.code, "dc2" if kind == MSG.OP_DC else "", 0, 0, 0, 0, "", args(row.args, **given[row.name])]
                    err, text = link.call(kind, asked)[:2]
                    assert (err, text) == (ERR.EPERM, "Permission denied: this is for the rpcd of the same server"), (row.name, kind, err, text)
        # Nobody was the first: its own rpcd may ask the same.
        asker = Asker(node)
        said = [asker.op(row.name, **given[row.name]) for row in own]
        assert all(s.err == 0 for s in said), said
        asker.close()


main(test_flow, test_primary_away, test_partition, test_partition_one_way, test_partition_in_the_middle, test_fresh_tokens, test_first_token,
     test_own_alone, test_stored_token_of_a_query)

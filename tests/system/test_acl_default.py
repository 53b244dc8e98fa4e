#!/usr/bin/env python3
"""Prepared queries with a token of their own, lists of keys that need a right, and a default that allows: over HTTP."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import DENIED, NOT_FOUND, ON, READ_ALL, auth, formed, writes  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

QUERIES = 'query_prefix "" { policy = "%s" }\n'
WEB = 'service "web" { policy = "read" } node_prefix "" { policy = "read" }\n'


def ask(node, secret, path, method="GET", body=None):
    return node.http(method, path, body, headers=auth(secret))


def nodes_of(answer):
    return [n["Node"]["Node"] for n in answer.ok(200).json()["Nodes"]]


def test_queries_with_a_token():
    """It is used whoever asks, shown to managers alone, never part of an execution's answer, and gone when its token is."""
    with Cluster("127.243.1") as c:
        servers = c.servers(3, raftd=CALM, **ON)
        client = c.client("c1", 4, servers[0], **ON)
        acl, _ = formed(c, servers)
        acl.http("PUT", "/v1/catalog/register", {"Node": "far", "Address": "10.0.0.9", "Service": {"Service": "web"}}).ok()
        stored, reader = acl.make(WEB), acl.token(QUERIES % "read")
        editor, service = acl.token(QUERIES % "write"), acl.token(WEB)
        wait_for("the client answers", lambda: client.get("/v1/kv/x", headers=auth(acl.secret)).ok(404))

        def create(token, secret, name):
            r = ask(servers[0], secret, "/v1/query", "POST", {"Name": name, "Token": token, "Service": {"Service": "web"}})
            return r.ok(200).json()["ID"]
        plain, own = create("", acl.secret, "plain"), create(stored["SecretID"], acl.secret, "own")
        for n in servers + [client]:
            for query in (own, "own"):
                a = ask(n, None, "/v1/query/%s/execute" % query)
                assert nodes_of(a) == ["far"] and stored["SecretID"] not in a.text, (n.name, a)
            assert nodes_of(ask(n, None, "/v1/query/plain/execute")) == []
            for secret in (None, acl.secret):
                assert ask(n, secret, "/v1/kv/x").headers["X-Consul-Default-ACL-Policy"] == "deny", n.name
            assert nodes_of(ask(n, service, "/v1/query/plain/execute")) == ["far"]
            for path in ("/v1/query", "/v1/query/" + own, "/v1/query/own/explain"):
                a = ask(n, reader, path).ok(200)
                assert stored["SecretID"] not in a.text and "\\u003chidden\\u003e" in a.text, (n.name, path, a)
                a = ask(n, acl.secret, path).ok(200)
                assert stored["SecretID"] in a.text, (n.name, path, a)
            assert ask(n, service, "/v1/query").ok(200).json() == []
            assert ask(n, service, "/v1/query/" + own).status in (403, 404)
            assert ask(n, service, "/v1/query/own/explain").status in (403, 404)
        # What was hidden is not the token.
        hidden = ask(servers[0], editor, "/v1/query/" + own).ok(200).json()[0]["Token"]
        assert hidden == "<hidden>"
        r = ask(servers[0], editor, "/v1/query/" + own, "PUT", {"Name": "own", "Token": hidden, "Service": {"Service": "web"}})
        assert r.status == 500 and "Bad Token" in r.text, r
        assert acl.ask("GET", "/v1/query/" + own)[0]["Token"] == stored["SecretID"]
        # Others' names, and the id of another one's query.
        narrow = acl.token('query "mine" { policy = "write" }')
        for method, path, body in (("POST", "/v1/query", {"Name": "theirs", "Service": {"Service": "web"}}),
                                   ("PUT", "/v1/query/" + own, {"Name": "mine", "Service": {"Service": "web"}}),
                                   ("DELETE", "/v1/query/" + own, None)):
            r = ask(servers[0], narrow, path, method, body)
            assert (r.status, r.text) == (403, DENIED), (method, path, r)
        assert ask(servers[0], narrow, "/v1/query", "POST", {"Name": "mine", "Service": {"Service": "web"}}).status == 200
        acl.delete(stored)
        for n in servers + [client]:
            a = ask(n, service, "/v1/query/own/execute")
            assert (a.status, a.text) == (403, NOT_FOUND) or nodes_of(a) == [], (n.name, a)
        assert nodes_of(ask(client, service, "/v1/query/%s/execute" % plain)) == ["far"]


def test_lists_of_keys():
    """With enable_key_list_policy the prefix itself needs `list`; without it, lists are filtered."""
    with Cluster("127.243.2") as c:
        server, = c.servers(1, **dict(ON, **{"acl.enable_key_list_policy": True}))
        acl, _ = formed(c, [server])
        for key in ("a/b", "a/c/d", "z"):
            acl.http("PUT", "/v1/kv/" + key, b"1").ok()
        reads, lists = (acl.token('key_prefix "a/" { policy = "%s" }' % p) for p in ("read", "list"))
        for query in ("recurse", "keys", "keys&separator=/"):
            assert ask(server, reads, "/v1/kv/a/?" + query).status == 403
            assert len(ask(server, lists, "/v1/kv/a/?" + query).ok(200).json()) == 2
            assert ask(server, lists, "/v1/kv/?" + query).status == 403
            assert ask(server, lists, "/v1/kv/a?" + query).status == 403
            assert ask(server, None, "/v1/kv/a/?" + query).status == 403
        assert ask(server, reads, "/v1/kv/a/b").status == 200


def test_allowed_by_default():
    """What no rule covers is allowed without a token, tokens take away, and the resource acl is never among it."""
    with Cluster("127.243.3") as c:
        server, = c.servers(1, **dict(ON, **{"acl.default_policy": "allow"}))
        acl, _ = formed(c, [server])
        server.kv_put("a/b", "1")
        server.kv_put("secret/b", "1")
        assert server.kv_get("a/b") == b"1"
        assert server.get("/v1/kv/a/b").headers["X-Consul-Default-ACL-Policy"] == "allow"
        denied = acl.token('key_prefix "secret/" { policy = "deny" }')
        assert ask(server, denied, "/v1/kv/secret/b").status == 403
        assert ask(server, denied, "/v1/kv/secret/b", "PUT", b"2").status == 403
        assert [e["Key"] for e in ask(server, denied, "/v1/kv/?recurse").ok(200).json()] == ["a/b"]
        assert ask(server, denied, "/v1/kv/?recurse", "DELETE").status == 403
        assert ask(server, denied, "/v1/kv/a/b", "PUT", b"2").status == 200
        assert ask(server, "11111111-2222-4333-8444-555555555551", "/v1/kv/a/b").status == 403
        for method, path in (("GET", "/v1/acl/tokens"), ("GET", "/v1/acl/policies"), ("GET", "/v1/acl/roles"), ("PUT", "/v1/acl/token"),
                             ("PUT", "/v1/acl/policy"), ("GET", "/v1/snapshot"), ("PUT", "/v1/snapshot")):
            for secret in (None, denied):
                r = ask(server, secret, path, method, b"{}" if method == "PUT" else None)
                assert r.status == 403, (method, path, secret, r)


def test_what_indexes_tell():
    """An answer from which all was left out has the index of the table, as Consul's has; the state of a key that may not be read
    is told neither by a status, nor by a text, nor by a header."""
    with Cluster("127.243.4") as c:
        server, = c.servers(1, **ON)
        acl, _ = formed(c, [server])
        acl.http("PUT", "/v1/kv/hidden/there", b"1").ok()
        secret = acl.token(writes("own"))

        def told(r):
            return r.status, r.text, {k: v for k, v in r.headers.items() if k.lower() not in ("date",)}
        for query in ("", "?raw", "?consistent", "?stale"):
            there, gone = (told(ask(server, secret, "/v1/kv/hidden/%s%s" % (k, query))) for k in ("there", "gone"))
            assert there == gone, (query, there, gone)
        for method, body in (("PUT", b"x"), ("DELETE", None)):
            there, gone = (told(ask(server, secret, "/v1/kv/hidden/" + k, method, body)) for k in ("there", "gone"))
            assert there == gone, (method, there, gone)
        one = {"KV": {"Verb": "check-not-exists", "Key": "hidden/there"}}
        other = {"KV": {"Verb": "check-not-exists", "Key": "hidden/gone"}}
        there, gone = (told(ask(server, secret, "/v1/txn", "PUT", [o])) for o in (one, other))
        assert there == gone, (there, gone)
        assert acl.token(READ_ALL)


main(test_queries_with_a_token, test_lists_of_keys, test_allowed_by_default, test_what_indexes_tell)

#!/usr/bin/env python3
"""Random policies and requests at a real server, against a plain evaluator: keys, catalog, health, sessions, prepared queries,
transactions.  The evaluator has no tables: for each name it goes through all rules.

TV_ACL_SETS: how many policies (1,000; the full run has 10,000).  TV_ACL_SEED: of the random numbers; it is printed.
"""
import base64
import http.client
import json
import os
import random
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, auth, formed  # noqa: E402
from cluster import Cluster, main  # noqa: E402

SETS = int(os.environ.get("TV_ACL_SETS", "1000"))
ASKS = 10                       # of each
NAMED = ("key", "node", "query", "service", "session")
PLAIN = ("acl", "operator")
RANK = {"read": 1, "list": 2, "write": 3, "deny": 4}    # which of two rules about the same prevails
GIVES = {"deny": 0, "read": 1, "list": 2, "write": 3}
KEYS = ("a", "a/", "a/b", "a/b/c", "ab", "abc", "b", "b/a", "ba", "c/d/e")
NODES = ("a", "ab", "b", "ba")
SERVICES = ("a", "ab", "abc", "b")
QUERIES = ("a", "ab", "b", "bb")


# -- the evaluator --------------------------------------------------------------------------------------

def access(rules, resource, name, exact=True):
    """What these rules give to this name: the exact rule, else that of the longest prefix, else nothing."""
    def prevailing(prefix, of):
        same = [r["policy"] for r in rules if (r["resource"], r["prefix"], r["name"]) == (resource, prefix, of)]
        return max(same, key=RANK.get) if same else None
    found = prevailing(False, name) if exact else None
    for n in range(len(name), -1, -1):
        found = found or prevailing(True, name[:n])
    return found or "deny"


class Model:
    def __init__(self, rules):
        self.rules = rules

    def may(self, resource, name, need):
        return GIVES[access(self.rules, resource, name)] >= GIVES[need]

    def read(self, resource, name):
        return self.may(resource, name, "read")

    def write(self, resource, name):
        return self.may(resource, name, "write")

    def writes_below(self, prefix):
        below = [r["name"] for r in self.rules if r["resource"] == "key" and r["name"].startswith(prefix)]
        return access(self.rules, "key", prefix, exact=False) == "write" and all(
            access([r for r in self.rules if (r["name"], r["prefix"]) == (n, p)], "key", n, exact=not p) == "write"
            for n in below for p in (False, True) if any((r["name"], r["prefix"]) == (n, p) and r["resource"] == "key"
                                                         for r in self.rules))


# -- policies -------------------------------------------------------------------------------------------

def random_rule(rng, few):
    resource = rng.choice(few)
    if resource in PLAIN:
        return {"resource": resource, "prefix": True, "name": "", "policy": rng.choice(("deny", "read", "write"))}
    name = rng.choice(KEYS if resource == "key" else NODES)[:rng.choice((0, 0, 1, 1, 2, 9))]
    return {"resource": resource, "prefix": rng.random() < 0.7, "name": name,
            "policy": rng.choice(("deny", "read", "read", "write", "write") + (("list",) if resource == "key" else ()))}


def text_of(rules):
    return "\n".join('%s = "%s"' % (r["resource"], r["policy"]) if r["resource"] in PLAIN else
                     '%s%s %s { policy = "%s" }' % (r["resource"], "_prefix" if r["prefix"] else "", json.dumps(r["name"]), r["policy"])
                     for r in rules)


def random_policies(rng):
    """Texts of two policies, and the rules that they have together: of a resource without names the last one counts."""
    few = rng.sample(NAMED + PLAIN, rng.choice((2, 3, 5)))
    texts, together = [], []
    for _ in range(2):
        own = [random_rule(rng, few) for _ in range(rng.choice((0, 1, 3, 6, 12)))]
        last = {r["resource"]: r for r in own if r["resource"] in PLAIN}
        texts.append(text_of(own))
        together += [r for r in own if r["resource"] not in PLAIN or last[r["resource"]] is r]
    return texts, together


# -- requests: each returns (what was asked, what came, what should) -------------------------------------

class World:
    """A server with everything that is asked about, two policies that change, and a token of both."""

    def __init__(self, node, acl):
        self.node, self.acl = node, acl
        self.conn = http.client.HTTPConnection(node.addr, 8500, timeout=60)
        self.policies = [acl.policy("") for _ in range(2)]
        self.secret = acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": p["ID"]} for p in self.policies]})["SecretID"]
        for key in KEYS:
            self.put_key(key)
        for n in NODES:
            self.manage("PUT", "/v1/catalog/register", {"Node": n, "Address": "10.0.0.1", "Check": {
                "CheckID": "of-node", "Name": "x", "Status": "passing"}})
            for s in SERVICES:
                self.register(n, s)
        self.sessions = {n: self.manage("PUT", "/v1/session/create", {"Node": n, "NodeChecks": []})["ID"] for n in NODES}
        for q in QUERIES:
            self.manage("POST", "/v1/query", {"Name": q, "Service": {"Service": "a"}})

    def ask(self, secret, method, path, body=None):
        self.conn.request(method, path, body=json.dumps(body) if isinstance(body, (dict, list)) else body, headers=auth(secret))
        r = self.conn.getresponse()
        text = r.read()
        return r.status, json.loads(text) if text[:1] in (b"[", b"{", b'"', b"t", b"f", b"n") else text.decode()

    def manage(self, method, path, body=None):
        status, value = self.ask(self.acl.secret, method, path, body)
        assert status == 200, (method, path, status, value)
        return value

    def put_key(self, key):
        self.manage("PUT", "/v1/kv/" + key, b"v")

    def register(self, node, service, secret=None):
        body = {"Node": node, "Address": "10.0.0.1", "SkipNodeUpdate": True, "Service": {"ID": service, "Service": service},
                "Check": {"CheckID": "of-" + service, "Name": "x", "Status": "passing", "ServiceID": service}}
        return self.ask(secret or self.acl.secret, "PUT", "/v1/catalog/register", body)


def same(value):
    return sorted(value, key=repr)


def ask_key(w, m, rng):
    key = rng.choice(KEYS)
    status, _ = w.ask(w.secret, "GET", "/v1/kv/" + key)
    return "get " + key, status, 200 if m.read("key", key) else 403


def ask_keys(w, m, rng):
    prefix, how = rng.choice(("", "a", "a/", "ab", "b", "c")), rng.choice(("recurse", "keys"))
    status, value = w.ask(w.secret, "GET", "/v1/kv/%s?%s" % (prefix, how))
    got = same(e["Key"] if how == "recurse" else e for e in value) if status == 200 else status
    want = same(k for k in KEYS if k.startswith(prefix) and m.read("key", k))
    return "%s of %r" % (how, prefix), got, want or ([] if (how, prefix) == ("keys", "") else 404)


def put_key(w, m, rng):
    key = rng.choice(KEYS)
    status, _ = w.ask(w.secret, "PUT", "/v1/kv/" + key, b"v")
    return "put " + key, status, 200 if m.write("key", key) else 403


def delete_keys(w, m, rng):
    prefix = rng.choice(("", "a", "a/", "a/b", "ab", "b", "c/"))
    status, _ = w.ask(w.secret, "DELETE", "/v1/kv/%s?recurse" % prefix)
    if status == 200:
        for key in KEYS:
            w.put_key(key)
    return "delete all below %r" % prefix, status, 200 if m.writes_below(prefix) else 403


def ask_nodes(w, m, _rng):
    _, value = w.ask(w.secret, "GET", "/v1/catalog/nodes")
    return "nodes", same(n["Node"] for n in value), same(n for n in NODES + (w.node.name,) if m.read("node", n))


def ask_services(w, m, _rng):
    _, value = w.ask(w.secret, "GET", "/v1/catalog/services")
    return "services", same(value), same(s for s in SERVICES + ("consul",) if m.read("service", s))


def ask_service(w, m, rng):
    service, how = rng.choice(SERVICES), rng.choice(("catalog", "health"))
    _, value = w.ask(w.secret, "GET", "/v1/%s/service/%s" % (how, service))
    got = same((e["Node"], None) if how == "catalog" else (e["Node"]["Node"], same(c["CheckID"] for c in e["Checks"])) for e in value)
    want = [n for n in NODES if m.read("node", n) and m.read("service", service)]
    return "%s/service/%s" % (how, service), got, same((n, None if how == "catalog" else ["of-" + service, "of-node"]) for n in want)


def ask_node(w, m, rng):
    node, how = rng.choice(NODES), rng.choice(("catalog/node", "health/node"))
    _, value = w.ask(w.secret, "GET", "/v1/%s/%s" % (how, node))
    seen = [s for s in SERVICES if m.read("service", s)] if m.read("node", node) else []
    if how == "health/node":
        got, want = same(c["CheckID"] for c in value), ["of-" + s for s in seen] + (["of-node"] if m.read("node", node) else [])
    else:
        got, want = same(value["Services"]) if value else None, seen if m.read("node", node) else None
    return "%s/%s" % (how, node), got, same(want) if want is not None else None


def ask_state(w, m, _rng):
    _, value = w.ask(w.secret, "GET", "/v1/health/state/any")
    got = same((c["Node"], c["ServiceName"]) for c in value if c["Node"] in NODES)
    return "health/state/any", got, same((n, s) for n in NODES for s in SERVICES + ("",) if m.read("node", n) and (
        s == "" or m.read("service", s)))


def ask_sessions(w, m, _rng):
    _, value = w.ask(w.secret, "GET", "/v1/session/list")
    return "sessions", same(s["Node"] for s in value), same(n for n in NODES if m.read("session", n))


def change_session(w, m, rng):
    node = rng.choice(NODES)
    if rng.random() < 0.5:
        status, _ = w.ask(w.secret, "PUT", "/v1/session/renew/" + w.sessions[node])
        return "renew the session of " + node, status, 200 if m.write("session", node) else 403
    status, value = w.ask(w.secret, "PUT", "/v1/session/create", {"Node": node, "NodeChecks": []})
    if status == 200:
        w.manage("PUT", "/v1/session/destroy/" + value["ID"])
    return "make a session of " + node, status, 200 if m.write("session", node) else 403


def ask_queries(w, m, _rng):
    """Whoever may write access control sees all of them, as in Consul."""
    _, value = w.ask(w.secret, "GET", "/v1/query")
    return "queries", same(q["Name"] for q in value), same(q for q in QUERIES if m.write("acl", "") or m.read("query", q))


def execute(w, m, rng):
    name = rng.choice(QUERIES)
    status, value = w.ask(w.secret, "GET", "/v1/query/%s/execute" % name)
    got = same(e["Node"]["Node"] for e in value["Nodes"]) if status == 200 else status
    return "execute " + name, got, same(n for n in NODES if m.read("node", n) and m.read("service", "a"))


def register(w, m, rng):
    node, service = rng.choice(NODES), rng.choice(SERVICES)
    status, _ = w.register(node, service, w.secret)
    return "register %s on %s" % (service, node), status, 200 if m.write("service", service) else 403


def deregister(w, m, rng):
    node, service, check = rng.choice(NODES), rng.choice(SERVICES), rng.random() < 0.5
    body = {"Node": node, "CheckID": "of-" + service} if check else {"Node": node, "ServiceID": service}
    status, _ = w.ask(w.secret, "PUT", "/v1/catalog/deregister", body)
    if status == 200:
        w.register(node, service)
    return "deregister %r" % body, status, 200 if m.write("node", node) or m.write("service", service) else 403


def transaction(w, m, rng):
    """Reads that may not be seen are left out; one write that is refused refuses all."""
    ops, refused, seen = [], [], []
    writes = rng.random() < 0.5
    for i in range(rng.choice((1, 2, 4))):
        kind = rng.choice(("get", "check-index") + (("set",) * 3 if writes else ()) + ("node", "service"))
        key, node, service = rng.choice(KEYS), rng.choice(NODES), rng.choice(SERVICES)
        if kind == "node":
            ops.append({"Node": {"Verb": "get", "Node": {"Node": node}}})
            seen += ["node " + node] if m.read("node", node) else []
        elif kind == "service":
            ops.append({"Service": {"Verb": "get", "Node": node, "Service": {"ID": service}}})
            seen += ["service " + service] if m.read("service", service) else []
        elif kind == "get":
            ops.append({"KV": {"Verb": "get", "Key": key}})
            seen += [key] if m.read("key", key) else []
        elif kind == "set":
            ops.append({"KV": {"Verb": "set", "Key": key, "Value": base64.b64encode(b"v").decode()}})
            seen += [key] if m.read("key", key) else []
            refused += [] if m.write("key", key) else [i]
        else:
            index = w.manage("GET", "/v1/kv/" + urllib.parse.quote(key))[0]["ModifyIndex"]
            if writes:          # it may be another one by then
                continue
            ops.append({"KV": {"Verb": "check-index", "Key": key, "Index": index}})
            seen += [key] if m.read("key", key) else []
            refused += [] if m.read("key", key) else [i]
    if not ops:
        return "nothing", 0, 0
    status, value = w.ask(w.secret, "PUT", "/v1/txn", ops)
    if status == 409:
        return "txn %r" % ops, len(value["Errors"]), len(refused)
    results = value["Results"] or [] if status == 200 else []
    got = [r["KV"]["Key"] if "KV" in r else "node " + r["Node"]["Node"] if "Node" in r else "service " + r["Service"]["Service"]
           for r in results]
    return "txn %r" % ops, (status, got), (200, seen) if not refused else (409, [])


def ask_plain(w, m, rng):
    path, resource = rng.choice((("/v1/acl/tokens", "acl"), ("/v1/operator/raft/configuration", "operator"),
                                 ("/v1/acl/policies", "acl")))
    status, _ = w.ask(w.secret, "GET", path)
    return path, status, 200 if m.read(resource, "") else 403


REQUESTS = (ask_key, ask_keys, ask_keys, put_key, delete_keys, ask_nodes, ask_services, ask_service, ask_node, ask_state, ask_sessions,
            change_session, ask_queries, execute, register, deregister, transaction, transaction, ask_plain)


def test_model():
    """Every answer is what the evaluator says."""
    seed = int(os.environ.get("TV_ACL_SEED") or random.randrange(1 << 32))
    print("     %d sets of policies, TV_ACL_SEED=%d" % (SETS, seed), flush=True)
    rng = random.Random(seed)
    counts = {}
    with Cluster("127.243.10") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        w = World(node, acl)
        for _ in range(SETS):
            texts, rules = random_policies(rng)
            for p, text in zip(w.policies, texts):
                w.manage("PUT", "/v1/acl/policy/" + p["ID"], {"Name": p["Name"], "Rules": text})
            model = Model(rules)
            for _ in range(ASKS):
                request = rng.choice(REQUESTS)
                what, got, want = request(w, model, rng)
                assert got == want, "seed %d: %s: %r instead of %r with the policies\n%s" % (seed, what, got, want, "\n--\n".join(texts))
                kinds = counts.setdefault(request.__name__, [0, 0])
                kinds[want in (403, 404, [], None) or want == (409, [])] += 1
        w.conn.close()
    print("     asked, and refused or empty: %r" % counts, flush=True)


main(test_model)

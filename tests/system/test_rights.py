#!/usr/bin/env python3
"""Rights to what others have, over HTTP: at the moment of the write, under other spellings of a name, by ids, and for names that are too long."""
import copy
import http.client
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import DENIED, ON, auth, formed, writes  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from namedfields import judged, undecided  # noqa: E402
from oprows import Asker, holds  # noqa: E402
from raftcluster import ERR, KV_SET  # noqa: E402
from waiting import wait_for  # noqa: E402

ROUNDS = int(os.environ.get("TV_RIGHTS_ROUNDS", "25"))      # of the owner's life, for each kind of theft
THIEVES = 5


def ask(node, secret, method, path, body=None):
    return node.http(method, path, body, headers=auth(secret))


# -- at the moment of the write ------------------------------------------------------------------------

class Thief(threading.Thread):
    """Sends one request again and again; counts what came of it."""

    def __init__(self, node, secret, make):
        super().__init__(daemon=True)
        self.node, self.secret, self.make = node, secret, make
        self.ended = threading.Event()
        self.seen = {}

    def run(self):
        conn = http.client.HTTPConnection(self.node.addr, 8500, timeout=30)
        for n in range(1 << 30):
            if self.ended.is_set():
                break
            conn.request("PUT", "/v1/catalog/register", body=json.dumps(self.make(n)), headers=auth(self.secret))
            r = conn.getresponse()
            r.read()
            self.seen[r.status] = self.seen.get(r.status, 0) + 1
        conn.close()


def steal_check(n):
    return {"Node": "ext", "SkipNodeUpdate": True, "Check": {"CheckID": "stolen-%d" % n, "Name": "x", "Status": "critical",
                                                             "ServiceID": "v", "ServiceName": "mine"}}


def steal_id(_n):
    return {"Node": "ext", "SkipNodeUpdate": True, "Service": {"ID": "v", "Service": "mine", "Port": 666}}


def owner_lives(servers, secret, rounds):
    """The victim's service is registered and removed; how often it was not what its owner had registered."""
    hit = 0
    for i in range(rounds):
        node = servers[i % len(servers)]
        ask(node, secret, "PUT", "/v1/catalog/register", {"Node": "ext", "SkipNodeUpdate": True, "Service": {
            "ID": "v", "Service": "victim", "Port": 80}}).ok(200)
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            found = ask(node, secret, "GET", "/v1/health/service/victim?consistent").ok(200).json()
            good = [e for e in found if e["Service"]["Port"] == 80 and not [c for c in e["Checks"] if c["CheckID"].startswith("stolen")]]
            if len(good) != 1:
                hit += 1
                break
        ask(node, secret, "PUT", "/v1/catalog/deregister", {"Node": "ext", "ServiceID": "v"}).ok(200)
    return hit


def test_at_the_moment_of_the_write():
    """A service that is removed and registered again is nobody else's in between: neither its checks nor its id."""
    with Cluster("127.241.20") as c:
        servers = c.servers(3, **ON)
        acl, _ = formed(c, servers)
        acl.http("PUT", "/v1/catalog/register", {"Node": "ext", "Address": "10.0.0.9"}).ok()
        read = 'node_prefix "" { policy = "read" }\n'
        owner, thief = acl.token(read + 'service "victim" { policy = "write" }'), acl.token(read + 'service "mine" { policy = "write" }')
        for make in (steal_check, steal_id):
            # Under a service that is there both are refused; a check of none is nobody's.
            thieves = [Thief(servers[i % 3], thief, make) for i in range(THIEVES)]
            for t in thieves:
                t.start()
            if make is steal_check:
                hit = owner_lives(servers, owner, ROUNDS)
            else:
                hit = rounds_of_one_id(servers, owner, acl)
            for t in thieves:
                t.ended.set()
            for t in thieves:
                t.join(60)
            seen = {}
            for t in thieves:
                for status, n in t.seen.items():
                    seen[status] = seen.get(status, 0) + n
            print("     %s: %r, the owner's was hit %d times" % (make.__name__, seen, hit), flush=True)
            assert hit == 0, (make.__name__, seen, hit)
            assert sum(seen.values()) > 100 and set(seen) <= {200, 403, 500}, seen
            acl.http("PUT", "/v1/catalog/deregister", {"Node": "ext", "ServiceID": "v"}).ok(200)
        raft = {name: sum(int(s.stats("raftd").get(name, 0)) for s in servers) for name in ("requests_judged_again", "requests_given_up")}
        print("     %r" % raft, flush=True)
        assert raft["requests_judged_again"] > 0, raft


def rounds_of_one_id(servers, owner, acl):
    """Here the thief may have the id while it is free.  From when the owner has it it stays the owner's."""
    hit = had = 0
    while had < ROUNDS:
        node = servers[had % 3]
        r = ask(node, owner, "PUT", "/v1/catalog/register", {"Node": "ext", "SkipNodeUpdate": True, "Service": {
            "ID": "v", "Service": "victim", "Port": 80}}).ok(200, 403)
        if r.status == 200:
            had += 1
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                found = ask(node, owner, "GET", "/v1/catalog/service/victim?consistent").ok(200).json()
                if [e["ServicePort"] for e in found] != [80]:
                    hit += 1
                    break
        acl.http("PUT", "/v1/catalog/deregister", {"Node": "ext", "ServiceID": "v"}).ok(200)
    return hit


# -- other spellings -----------------------------------------------------------------------------------

ALL_BUT = "\n".join('%s_prefix "" { policy = "write" }' % r for r in ("node", "service", "session")) + """
node "db" { policy = "deny" }
service "pay" { policy = "deny" }
session "db" { policy = "deny" }
"""


def catalog(acl):
    return [(n["Node"], n["Address"]) for n in acl.ask("GET", "/v1/catalog/nodes?consistent")], \
        acl.ask("GET", "/v1/catalog/node/db?consistent"), acl.ask("GET", "/v1/session/list?consistent")


def test_other_spellings():
    """A rule for a name holds for each spelling of it: what is there under it is judged by its own."""
    with Cluster("127.241.21") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        acl.http("PUT", "/v1/catalog/register", {"Node": "db", "Address": "10.0.0.1", "Service": {"ID": "p1", "Service": "pay", "Port": 1},
                                                 "Check": {"CheckID": "alive", "Name": "alive", "Status": "passing"}}).ok()
        acl.http("PUT", "/v1/catalog/register", {"Node": "other", "Address": "10.0.0.2", "Service": {"ID": "s", "Service": "shop"}}).ok()
        proxy = {"ID": "px", "Service": "px", "Kind": "connect-proxy", "Port": 9, "Proxy": {"DestinationServiceName": "pay"}}
        acl.http("PUT", "/v1/catalog/register", {"Node": "other", "Address": "10.0.0.2", "SkipNodeUpdate": True, "Service": proxy}).ok()
        acl.http("PUT", "/v1/coordinate/update", {"Node": "db", "Segment": "", "Coord": {
            "Vec": [0.1] * 8, "Error": 0.5, "Adjustment": 0.0, "Height": 0.001}}).ok()
        wait_for("the coordinate", lambda: acl.http("GET", "/v1/coordinate/node/db").json())
        session = acl.ask("PUT", "/v1/session/create", {"Node": "DB", "NodeChecks": []})["ID"]
        secret, before = acl.token(ALL_BUT), catalog(acl)
        register, deregister = "/v1/catalog/register", "/v1/catalog/deregister"

        def txn(**op):
            return "/v1/txn", [op]
        refused = [
            (deregister, {"Node": name, **more}) for name in ("db", "DB", "Db")
            for more in ({}, {"ServiceID": "p1"}, {"ServiceID": "P1"}, {"CheckID": "alive"}, {"CheckID": "ALIVE"})
        ] + [
            (register, {"Node": name, "Address": "6.6.6.6", **more}) for name in ("db", "DB")
            for more in ({}, {"Service": {"ID": "mine", "Service": "mine"}})
        ] + [
            (register, {"Node": "DB", "SkipNodeUpdate": True, "Check": {"CheckID": "new", "Name": "new", "Status": "critical"}}),
            (register, {"Node": "DB", "SkipNodeUpdate": True, "Check": {"CheckID": "ALIVE", "Name": "x", "Status": "critical"}}),
            (register, {"Node": "DB", "SkipNodeUpdate": True, "Service": {"ID": "P1", "Service": "mine"}}),
            (register, {"Node": "DB", "SkipNodeUpdate": True, "Check": {"CheckID": "n", "Name": "n", "ServiceID": "P1"}}),
        ] + [
            (register, {"Node": "other", "Address": "10.0.0.2", "SkipNodeUpdate": True, "Service": {"ID": "x", "Service": name, "Port": 666}})
            for name in ("pay", "PAY", "Pay")
        ] + [
            (register, {"Node": "other", "SkipNodeUpdate": True, "Service": {
                "ID": "y", "Service": "y", "Kind": "connect-proxy", "Port": 9, "Proxy": {"DestinationServiceName": name}}}) for name in ("pay", "PAY")
        ] + [
            txn(Node={"Verb": "delete", "Node": {"Node": "DB"}}),
            txn(Node={"Verb": "set", "Node": {"Node": "DB", "Address": "6.6.6.6"}}),
            txn(Service={"Verb": "set", "Node": "other", "Service": {"ID": "x", "Service": "PAY", "Port": 666}}),
            txn(Service={"Verb": "delete", "Node": "DB", "Service": {"ID": "P1"}}),
            txn(Check={"Verb": "delete", "Check": {"Node": "DB", "CheckID": "ALIVE"}}),
            txn(Check={"Verb": "set", "Check": {"Node": "DB", "CheckID": "new", "Name": "new", "Status": "critical"}}),
            ("/v1/session/create", {"Node": "db", "NodeChecks": []}), ("/v1/session/create", {"Node": "DB", "NodeChecks": []}),
            ("/v1/session/destroy/" + session, None), ("/v1/session/renew/" + session, None),
            ("/v1/coordinate/update", {"Node": "DB", "Segment": "", "Coord": {"Vec": [0.9] * 8, "Error": 0.5, "Adjustment": 0.0, "Height": 0.001}}),
        ]
        for path, body in refused:
            r = ask(node, secret, "PUT", path, body)
            assert r.status == (409 if path == "/v1/txn" else 403) and DENIED in r.text, (path, body, r)
            assert catalog(acl) == before, (path, body)
        # What means nothing that is denied goes as ever, in any spelling.
        for body in ({"Node": "Other", "Address": "10.0.0.2", "Service": {"ID": "z", "Service": "SHOP"}}, {"Node": "new", "Address": "10.0.0.3"},
                     {"Node": "DB", "SkipNodeUpdate": True, "Service": {"ID": "mine", "Service": "mine"}}):
            assert ask(node, secret, "PUT", register, body).ok(200).json() is True, body
        for path in ("/v1/catalog/node/%s", "/v1/health/node/%s", "/v1/internal/ui/node/%s", "/v1/coordinate/node/%s"):
            for name in ("db", "DB"):
                r = ask(node, secret, "GET", path % name)
                assert "10.0.0.1" not in r.text and "alive" not in r.text and "Vec" not in r.text, (path, name, r)
        for path in ("/v1/catalog/connect/%s", "/v1/health/connect/%s", "/v1/catalog/service/%s", "/v1/health/service/%s",
                     "/v1/health/checks/%s"):
            for name in ("pay", "PAY"):
                assert ask(node, secret, "GET", path % name).ok(200).json() == [], (path, name)
        assert ask(node, secret, "GET", "/v1/session/list").ok(200).json() == []
        assert ask(node, secret, "GET", "/v1/session/node/DB").ok(200).json() == []
        assert ask(node, secret, "GET", "/v1/session/info/" + session).ok(200).json() == []
        # Who may read "db" finds it as "DB": names have no case.
        reader = acl.token('node "db" { policy = "read" } session "db" { policy = "read" }')
        assert ask(node, reader, "GET", "/v1/catalog/node/DB").ok(200).json()["Node"]["Node"] == "db"
        assert ask(node, reader, "GET", "/v1/coordinate/node/DB").ok(200).json()[0]["Node"] == "db"


# -- each field that names something -------------------------------------------------------------------

def with_field(given, path, value):
    """The same with another value at "Service.ID"; of lists in the first element."""
    out = copy.deepcopy(given)
    at = out
    *way, last = path.split(".")
    for step in way:
        at = at.setdefault(step, {})
        at = at[0] if isinstance(at, list) else at
    at[last] = value
    return out


def catalog_of(acl, name, node_id):
    """A node, with services of this name and of the others' there, each with checks."""
    acl.http("PUT", "/v1/catalog/register", {
        "ID": node_id, "Node": name + "-node", "Address": "10.0.0.1", "Check": {"CheckID": "of-node", "Name": "x", "Status": "passing"}}).ok()
    for service in ("own", "alien"):
        acl.http("PUT", "/v1/catalog/register", {
            "Node": name + "-node", "Address": "10.0.0.1", "SkipNodeUpdate": True, "Service": {"ID": service + "-id", "Service": service + "-web"},
            "Check": {"CheckID": service + "-check", "Name": "x", "Status": "passing", "ServiceID": service + "-id"}}).ok()


def cases(ids):
    """(operation, what is allowed, {path: another one's object}).  What takes away comes last."""
    coord = {"Vec": [0.2] * 8, "Error": 0.5, "Adjustment": 0.0, "Height": 0.001}
    on_theirs = {"Node": "alien-node", "SkipNodeUpdate": True}
    service, check = {"ID": "own-id", "Service": "own-web"}, {"CheckID": "own-check", "Name": "x", "Status": "passing", "ServiceID": "own-id"}
    proxy = {"ID": "own-proxy", "Service": "own-proxy", "Kind": "connect-proxy", "Port": 9, "Proxy": {"DestinationServiceName": "own-web"}}
    theirs = {"Check.CheckID": ("alien-check", "of-node"), "Check.ServiceID": ("alien-id",)}

    def txn(**op):
        return {"Ops": [op]}
    yield "KV_APPLY", {"Verb": KV_SET, "Key": "own/k", "Value": b"v"}, {"Key": ("alien/k", "alien", "ow")}
    yield "CATALOG_REGISTER", {"Node": "own-node", "Address": "10.0.0.2", "ID": ids["own"]}, {
        "Node": ("alien-node", "ALIEN-node"), "ID": (ids["alien"], ids["alien"].upper())}
    yield "CATALOG_REGISTER", dict(on_theirs, Service=service, Check=check), dict(
        theirs, **{"Service.ID": ("alien-id", "ALIEN-id"), "Service.Service": ("alien-web", "ALIEN-web")})
    yield "CATALOG_REGISTER", dict(on_theirs, Checks=[check]), {
        "Checks.CheckID": ("alien-check", "of-node", "OF-NODE"), "Checks.ServiceID": ("alien-id", "")}
    yield "CATALOG_REGISTER", dict(on_theirs, Service=proxy), {"Service.Proxy.DestinationServiceName": ("alien-web",)}
    yield "COORDINATE_UPDATE", {"Node": "own-node", "Coord": coord}, {"Node": ("alien-node",)}
    yield "SESSION_CREATE", {"Node": "own-node", "NodeChecks": []}, {"Node": ("alien-node", "ALIEN-node")}
    yield "SESSION_RENEW", {"ID": ids["own session"]}, {"ID": (ids["alien session"],)}
    yield "QUERY_CREATE", {"Name": "own-new", "Service": {"Service": "x"}}, {"Name": ("alien-new",)}
    yield "QUERY_UPDATE", {"ID": ids["own query"], "Name": "own-q", "Service": {"Service": "x"}}, {
        "ID": (ids["alien query"],), "Name": ("alien-new",)}
    yield "TXN_APPLY", txn(KV={"Verb": "set", "Key": "own/k", "Value": b"v"}), {"Ops.KV.Key": ("alien/k",)}
    yield "TXN_APPLY", txn(Node={"Verb": "set", "Node": {"ID": ids["own"], "Node": "own-node", "Address": "10.0.0.3"}}), {
        "Ops.Node.Node.Node": ("alien-node", "ALIEN-node"), "Ops.Node.Node.ID": (ids["alien"],)}
    yield "TXN_APPLY", txn(Service={"Verb": "set", "Node": "alien-node", "Service": service}), {
        "Ops.Service.Service.ID": ("alien-id",), "Ops.Service.Service.Service": ("alien-web",)}
    yield "TXN_APPLY", txn(Service={"Verb": "set", "Node": "alien-node", "Service": proxy}), {
        "Ops.Service.Service.Proxy.DestinationServiceName": ("alien-web",)}
    yield "TXN_APPLY", txn(Check={"Verb": "set", "Check": dict(check, Node="alien-node")}), {
        "Ops.Check.Check.CheckID": ("alien-check", "of-node"), "Ops.Check.Check.ServiceID": ("alien-id", "")}
    yield "TXN_APPLY", txn(Check={"Verb": "delete", "Check": {"Node": "alien-node", "CheckID": "own-check"}}), {
        "Ops.Check.Check.CheckID": ("alien-check", "of-node")}
    yield "TXN_APPLY", txn(Service={"Verb": "delete", "Node": "alien-node", "Service": service}), {"Ops.Service.Service.ID": ("alien-id",)}
    yield "CATALOG_DEREGISTER", {"Node": "own-node", "CheckID": "own-check"}, {"Node": ("alien-node",)}
    yield "CATALOG_REGISTER", dict(on_theirs, Service=service, Check=check), {}
    yield "CATALOG_DEREGISTER", {"Node": "alien-node", "CheckID": "own-check"}, {"CheckID": ("alien-check", "of-node", "ALIEN-check")}
    yield "CATALOG_DEREGISTER", {"Node": "alien-node", "ServiceID": "own-id"}, {"ServiceID": ("alien-id", "ALIEN-id")}
    yield "SESSION_DESTROY", {"ID": ids["own session"]}, {"ID": (ids["alien session"],)}
    yield "QUERY_DELETE", {"ID": ids["own query"]}, {"ID": (ids["alien query"],)}


REFUSED_OTHERWISE = {("QUERY_CREATE", "ID")}        # it has to be empty


def test_each_field_that_names():
    """With the right to what is called own: the request that names its own objects goes, and the same with another one's in one field does not."""
    assert not undecided(), "no decision was made in lib/namedfields.py on " + ", ".join(undecided())
    with Cluster("127.241.24") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        ids = {"own": "11111111-2222-4333-8444-00000000000a", "alien": "11111111-2222-4333-8444-00000000000b"}
        for who in ("own", "alien"):
            catalog_of(acl, who, ids[who])
            ids[who + " session"] = acl.ask("PUT", "/v1/session/create", {"Node": who + "-node", "NodeChecks": [], "TTL": "3600s"})["ID"]
            ids[who + " query"] = acl.ask("POST", "/v1/query", {"Name": who + "-q", "Service": {"Service": "x"}})["ID"]
        secret, asker, done = acl.token(writes("own")), Asker(node), set(REFUSED_OTHERWISE)

        def picture():
            return [acl.ask("GET", path + "?consistent") for path in (
                "/v1/internal/ui/nodes", "/v1/catalog/node/own-node", "/v1/catalog/node/alien-node", "/v1/health/state/any", "/v1/session/list",
                "/v1/query")] + [acl.ask("GET", "/v1/kv/?keys")]
        acl.http("PUT", "/v1/kv/own/k", b"v").ok()
        for op, given, others in cases(ids):
            before = picture()
            for path, values in others.items():
                done.add((op, path))
                for value in values:
                    said = asker.op(op, secret, **with_field(given, path, value))
                    refused = said.err == ERR.EPERM or (op == "TXN_APPLY" and holds(said, DENIED))
                    assert refused and picture() == before, (op, path, value, said)
            said = asker.op(op, secret, **given)
            assert said.err == 0 and not holds(said, DENIED), (op, given, said)
        assert not judged() - done, "no case for %r" % sorted(judged() - done)
        asker.close()


# -- checks of no service ------------------------------------------------------------------------------

def test_checks_of_no_service():
    """Who may write the node learns what is wrong; others are refused, whatever name they give it."""
    with Cluster("127.241.22") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        acl.http("PUT", "/v1/catalog/register", {"Node": "N", "Address": "10.0.0.1"}).ok()
        body = {"Node": "N", "SkipNodeUpdate": True, "Check": {"CheckID": "c", "Name": "c", "ServiceID": "none", "ServiceName": "mine"}}
        for secret in (acl.secret, acl.token('node "N" { policy = "write" }')):
            r = ask(node, secret, "PUT", "/v1/catalog/register", body)
            assert r.status == 500 and r.text == 'failed inserting check: Missing service registration on node "N"', r
        r = ask(node, acl.token('service "mine" { policy = "write" }'), "PUT", "/v1/catalog/register", body)
        assert r.status == 403 and DENIED in r.text, r
        # In one transaction it comes with its service.
        both = [{"Service": {"Verb": "set", "Node": "n", "Service": {"ID": "S", "Service": "mine"}}},
                {"Check": {"Verb": "set", "Check": {"Node": "N", "CheckID": "c", "Name": "c", "Status": "passing", "ServiceID": "s"}}}]
        mine = acl.token('service "mine" { policy = "write" }')
        assert ask(node, mine, "PUT", "/v1/txn", both[1:]).status == 409
        ask(node, mine, "PUT", "/v1/txn", both).ok(200)
        assert [x["ServiceName"] for x in acl.ask("GET", "/v1/health/checks/mine")] == ["mine"]


# -- names that are too long ---------------------------------------------------------------------------

def test_long_names():
    """What no name can be is not there."""
    with Cluster("127.241.23") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        acl.http("POST", "/v1/query", {"Name": "wide", "Template": {"Type": "name_prefix_match", "Regexp": "^wide(.*)$"},
                                       "Service": {"Service": "${name.full}" * 40}}).ok(200)
        for n in (1000, 1025, 8300, 9000, 12000):
            name = "x" * n
            for path in ("/v1/health/service/%s", "/v1/health/connect/%s", "/v1/catalog/service/%s", "/v1/catalog/connect/%s",
                         "/v1/health/node/%s", "/v1/health/checks/%s", "/v1/session/node/%s", "/v1/health/service/web?near=%s",
                         "/v1/health/state/%s"):
                r = acl.http("GET", path % name)
                assert r.status == 200 and r.json() == [], (path, n, r.status, r.text[:200])
            assert acl.http("GET", "/v1/catalog/node/" + name).ok(200).json() is None, n
            assert acl.http("GET", "/v1/coordinate/node/" + name).status == 404, n
            for path in ("/v1/session/info/%s", "/v1/query/%s", "/v1/query/%s/execute", "/v1/query/%s/explain"):
                assert "cannot be read" not in acl.http("GET", path % name).text, (path, n)
        r = acl.http("GET", "/v1/query/wide%s/execute" % ("y" * 240))
        assert r.status == 200 and r.json()["Nodes"] == [], r


main(test_other_spellings, test_each_field_that_names, test_checks_of_no_service, test_long_names, test_at_the_moment_of_the_write)

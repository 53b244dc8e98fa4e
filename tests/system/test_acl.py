#!/usr/bin/env python3
"""Access control where the data is: every operation with every kind of token, asked for straight at raftd as a taken-over rpcd
would; the list of operations comes from the header, and one that has no row here fails."""
import json
import os
import pwd
import subprocess
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import inject  # noqa: E402
from aclkit import DENIED, MANAGEMENT, NOT_FOUND, ON, READ_ALL, auth, formed, servers_with_clock, writes  # noqa: E402
from clockfault import ClockFault, missing  # noqa: E402
from cluster import Cluster, main, skip  # noqa: E402
from oprows import OPS, Asker, holds  # noqa: E402
from raftcluster import ERR, KV_SET, MSG  # noqa: E402
from tvframe import Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

NOBODY = str(uuid.UUID(int=77, version=4))
# What the tokens that may write have a right to is called "own...", what is there is called "alien...".
ALIEN_NODE = {"Node": "alien-node", "Address": "10.0.0.9", "Service": {"ID": "alien-web", "Service": "alien-web", "Port": 80},
              "Check": {"CheckID": "alien-check", "Name": "alien-check", "Status": "passing", "ServiceID": "alien-web"}}
# Nobody has the other half.
KEYS = {"JWTValidationPubKeys": ["-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAy5i5Oyth9lgKGwU5iOVQ4i9J5SO8/p6H2GNwtQ8h4pg=\n-----END PUBLIC KEY-----\n"]}


def populate(acl):
    """One of everything; the ids that were made."""
    n = acl.node
    acl.http("PUT", "/v1/kv/alien/key", b"alien-value").ok()
    acl.http("PUT", "/v1/catalog/register", ALIEN_NODE).ok()
    acl.http("PUT", "/v1/catalog/register", {"Node": "alien-node", "Address": "10.0.0.9", "SkipNodeUpdate": True, "Service": {
        "ID": "alien-proxy", "Service": "alien-proxy", "Kind": "connect-proxy", "Port": 81,
        "Proxy": {"DestinationServiceName": "alien-web"}}}).ok()
    session = acl.ask("PUT", "/v1/session/create", {"Node": "alien-node", "NodeChecks": [], "TTL": "3600s"})["ID"]
    query = acl.ask("POST", "/v1/query", {"Name": "alien-query", "Service": {"Service": "alien-web"}})["ID"]
    coordinate = {"Vec": [0.1] * 8, "Error": 0.5, "Adjustment": 0.0, "Height": 0.001}
    acl.http("PUT", "/v1/coordinate/update", {"Node": "alien-node", "Segment": "", "Coord": coordinate}).ok()
    wait_for("the coordinate", lambda: acl.http("GET", "/v1/coordinate/node/alien-node").json())
    policy = acl.policy('key "alien" { policy = "read" }', name="alien-policy")
    role = acl.ask("PUT", "/v1/acl/role", {"Name": "alien-role", "Policies": [{"Name": "alien-policy"}]})
    token = acl.ask("PUT", "/v1/acl/token", {"Description": "alien", "Roles": [{"Name": "alien-role"}]})
    method = acl.ask("PUT", "/v1/acl/auth-method", {"Name": "alien-method", "Type": "jwt", "Config": KEYS})
    binding = acl.ask("PUT", "/v1/acl/binding-rule",
                      {"AuthMethod": "alien-method", "BindType": "service", "BindName": "alien"})["ID"]
    assert n.get("/v1/kv/alien/key").status == 403
    return {"binding": binding, "method index": method["CreateIndex"],
            "session": session, "query": query, "policy": policy["ID"], "role": role["ID"], "token": token["AccessorID"],
            "secret": token["SecretID"]}


def questions(ids):
    """{operation: the fields of its arguments}, each about what is alien.  In this order, what destroys last."""
    kv, name = {"Key": "alien/key"}, {"Name": "alien-web"}
    node, coord = {"Name": "alien-node"}, {"Vec": [0.2] * 8, "Error": 0.5, "Adjustment": 0.0, "Height": 0.001}
    service = {"Service": "alien-web"}
    query = {"ID": ids["query"], "Name": "alien-query", "Service": service}
    peer = {"ID": NOBODY, "Address": ""}
    snapshot = {"Server": "", "ID": "", "Offset": 0, "Data": b""}
    txn_set = {"Ops": [{"KV": {"Verb": "set", "Key": "alien/txn", "Value": b"x"}}]}
    return {
        "KV_GET": kv, "KV_LIST": {"Key": "alien"}, "KV_KEYS": {"Key": "alien"},
        "SESSION_INFO": {"ID": ids["session"]}, "SESSION_NODE": {"Node": "alien-node"}, "SESSION_LIST": {},
        "CATALOG_NODES": {}, "CATALOG_SERVICES": {}, "CATALOG_SERVICE": name, "CATALOG_NODE": node, "CATALOG_CONNECT": name,
        "NODE_DUMP": {}, "SERVICE_DUMP": {}, "CATALOG_ADDRESS": {"Name": "10.0.0.9"},
        "HEALTH_NODE": node, "HEALTH_CHECKS": name, "HEALTH_SERVICE": name, "HEALTH_STATE": {"Name": "any"}, "HEALTH_CONNECT": name,
        "RAFT_CONFIGURATION": {}, "AUTOPILOT_READ": {}, "AUTOPILOT_HEALTH": {}, "STATUS_LEADER": {}, "STATUS_PEERS": {},
        "COORDINATE_NODES": {}, "COORDINATE_NODE": {"Node": "alien-node"},
        "TXN_READ": {"Ops": [{"KV": {"Verb": "get", "Key": "alien/key"}}, {"Node": {"Verb": "get", "Node": {"Node": "alien-node"}}},
                             {"Service": {"Verb": "get", "Node": "alien-node", "Service": {"ID": "alien-web"}}},
                             {"Check": {"Verb": "get", "Check": {"Node": "alien-node", "CheckID": "alien-check"}}},
                             {"KV": {"Verb": "get-tree", "Key": "alien"}}]},
        "QUERY_GET": {"ID": ids["query"]}, "QUERY_LIST": {}, "QUERY_EXPLAIN": {"Name": "alien-query"},
        "QUERY_EXECUTE": {"Name": "alien-query"}, "QUERY_REMOTE": {"Query": {"Service": service}},
        "ACL_TOKEN_GET": {"AccessorID": ids["token"]}, "ACL_TOKEN_SELF": {"SecretID": NOBODY}, "ACL_TOKEN_LIST": {},
        "ACL_POLICY_GET": {"Name": "alien-policy"}, "ACL_POLICY_LIST": {},
        "ACL_ROLE_GET": {"Name": "alien-role"}, "ACL_ROLE_LIST": {},
        "ACL_METHOD_GET": {"Name": "alien-method"}, "ACL_METHOD_LIST": {}, "ACL_BINDING_GET": {"ID": ids["binding"]},
        "ACL_BINDING_LIST": {},
        "ACL_TRANSLATE": {"Rules": 'key "alien" { policy = "read" }'}, "ACL_REPLICATION": {}, "ACL_RESOLVE": {"SecretID": NOBODY},
        "ACL_REPL_LIST": {"Kind": 1, "Limit": 100}, "ACL_REPL_FETCH": {"Kind": 1, "IDs": [ids["policy"]]},
        "ACL_REPL_DIFF": {"Kind": 3, "Whole": True}, "ACL_REPL_DIFF_FIRST": {"Kind": 3, "Whole": True, "Asker": NOBODY},
        "SNAPSHOT_SAVE": snapshot, "SNAPSHOT_READ": dict(snapshot, ID=NOBODY), "SNAPSHOT_END": dict(snapshot, ID=NOBODY),
        "RESTORE_OPEN": snapshot, "RESTORE_WRITE": dict(snapshot, ID=NOBODY, Data=b"x"),
        "RESTORE_APPLY": dict(snapshot, ID=NOBODY), "RESTORE_STATUS": snapshot,
        "KV_APPLY": dict(kv, Verb=KV_SET, Value=b"stolen"),
        "SESSION_CREATE": {"Node": "alien-node"}, "SESSION_RENEW": {"ID": ids["session"]},
        "CATALOG_REGISTER": {"Node": "alien-node", "Address": "10.0.0.10"},
        "COORDINATE_UPDATE": {"Node": "alien-node", "Coord": coord},
        "TXN_APPLY": txn_set,
        "QUERY_CREATE": {"Name": "alien-more", "Service": service}, "QUERY_UPDATE": query,
        "AUTOPILOT_SET": {"Config": {"MinQuorum": 3}}, "RAFT_REMOVE": peer, "RAFT_TRANSFER": peer,
        "ACL_BOOTSTRAP": {},
        "ACL_TOKEN_SET": {"Token": {"Description": "stolen", "Policies": [{"ID": ids["policy"]}]}},
        "ACL_TOKEN_CLONE": {"Source": ids["token"], "Token": {}},
        "ACL_POLICY_SET": {"Policy": {"Name": "stolen", "Rules": 'acl = "write"'}},
        "ACL_ROLE_SET": {"Role": {"Name": "stolen"}},
        "ACL_METHOD_SET": {"Method": {"Name": "stolen", "Type": "jwt", "Config": json.dumps(KEYS)}},
        "ACL_BINDING_SET": {"Binding": {"AuthMethod": "alien-method", "BindType": "service", "BindName": "stolen"}},
        # With what the leader alone has to say: a token with all rights, and whose token is to go.
        "ACL_LOGIN": {"AuthMethod": "alien-method", "BearerToken": "a.b.c", "Method": ids["method index"],
                      "Token": {"AccessorID": NOBODY, "SecretID": NOBODY, "Policies": [{"ID": MANAGEMENT}]}},
        "ACL_LOGOUT": {"SecretID": NOBODY, "AccessorID": ids["token"]},
        "ACL_REPL_APPLY": {"Kind": 3, "Delete": [ids["token"]]},
        "ACL_REPL_APPLY_FIRST": {"Kind": 3, "Delete": [ids["token"]], "Asker": NOBODY},
        "SESSION_DESTROY": {"ID": ids["session"]},
        "CATALOG_DEREGISTER": {"Node": "alien-node", "ServiceID": "alien-web"},
        "QUERY_DELETE": {"ID": ids["query"]},
        "ACL_BINDING_DELETE": {"ID": ids["binding"]}, "ACL_METHOD_DELETE": {"Name": "alien-method"},
        "ACL_TOKEN_DELETE": {"AccessorID": ids["token"]}, "ACL_ROLE_DELETE": {"ID": ids["role"]},
        "ACL_POLICY_DELETE": {"ID": ids["policy"]},
    }


# What nobody needs a right for says why in its row; here is what comes of it without one.  True: it is answered.
FOR_ANYBODY = {
    "STATUS_LEADER": True, "STATUS_PEERS": True, "ACL_REPLICATION": True, "ACL_TOKEN_SELF": True,
    "ACL_REPL_DIFF_FIRST": NOT_FOUND,           # it was not known first
    "ACL_REPL_APPLY_FIRST": True,               # and refused: this is the primary datacenter, which copies nothing
    "ACL_RESOLVE": NOT_FOUND,                   # the secret that is asked about is nobody's
    "TXN_READ": "filtered", "QUERY_EXECUTE": "filtered", "QUERY_REMOTE": "filtered",
    "TXN_APPLY": "errors",                      # an error for each of its operations that is refused
    "ACL_BOOTSTRAP": DENIED,
    "ACL_LOGIN": "fails", "ACL_LOGOUT": NOT_FOUND,
}
# Whoever knows the name of a query may have it carried out, and is told what it looks for, as in Consul; not what it finds.
MARKER = {"QUERY_EXECUTE": "alien-node", "QUERY_REMOTE": "alien-node"}
# A query is found by its name by whoever may read it, and no other one tells that it is there.
HIDDEN = {"QUERY_EXPLAIN"}
# Whoever may read all of access control still has no right to the whole state.
NOT_FOR_READERS = {"SNAPSHOT_SAVE", "SNAPSHOT_READ", "SNAPSHOT_END"}


def dump(asker, manager):
    """All of the state, as the manager sees it; without indexes that move by themselves."""
    out = {}
    for name, given in (("KV_LIST", {"Key": ""}), ("SESSION_LIST", {}), ("NODE_DUMP", {}), ("QUERY_LIST", {}),
                        ("COORDINATE_NODES", {}), ("ACL_TOKEN_LIST", {}), ("ACL_POLICY_LIST", {}), ("ACL_ROLE_LIST", {}), ("ACL_METHOD_LIST", {}),
                        ("ACL_BINDING_LIST", {}), ("AUTOPILOT_READ", {}),
                        ("RAFT_CONFIGURATION", {})):
        said = asker.op(name, manager, **given)
        assert said.err == 0, (name, said)
        out[name] = said.value
    out["COORDINATE_NODES"] = [c for c in out["COORDINATE_NODES"] if c[0] == "alien-node"]
    return out


def is_refused_to_all(row):
    """raftd does nothing of the kind for an rpcd, whatever the token."""
    return row.kind in ("VIEW", "GOSSIP", "GOSSIP_SERVER") or "OP_INTERNAL" in row.traits


def expect(row, kind):
    """What a token of this kind gets: "served", "filtered", "errors" or a text of refusal."""
    unknown = kind in ("expired", "deleted")
    if is_refused_to_all(row):
        return "internal operation"
    if row.scope == "NONE":
        want = FOR_ANYBODY[row.name]
        if want in ("filtered", "errors") and unknown:
            return NOT_FOUND
        if want == "filtered" and kind in ("reader", "manager"):
            return "served"
        if row.name in ("TXN_APPLY",) and kind == "manager":
            return "served"
        return "served" if want is True else want
    if unknown:
        return NOT_FOUND
    if kind == "manager":
        return "served"
    right = (row.access.split(", ") + [""])[1]
    reads = row.scope == "FILTER" or right in ("READ", "LIST")
    if kind == "reader" and reads and row.name not in NOT_FOR_READERS:
        return "served"
    if row.name in HIDDEN:
        return DENIED
    return "filtered" if row.scope == "FILTER" or right == "LIST" else DENIED


def check(row, kind, said, want):
    text = "%s with the token %r: %r, expected %s" % (row.name, kind, said, want)
    if want == "served":
        if said.err != 0:       # the rest of what is wrong with it is not access control's
            assert said.err not in (ERR.EPERM, ERR.EDISABLED) and not holds(said, DENIED), text
        elif row.kind == "READ" and row.scope != "NONE" and not row.name.startswith(("AUTOPILOT", "ACL_TRANSLATE", "ACL_REPL_LIST", "ACL_REPL_DIFF")):
            assert holds(said, "alien"), text
        return
    assert not holds(said, MARKER.get(row.name, "alien")), text
    if want == "filtered":
        assert said.err == 0, text
    elif want == "fails":
        assert said.err != 0, text
    elif want == "errors":
        assert said.err == 0 and holds(said, DENIED), text
    else:
        assert said.err == ERR.EPERM and said.text.startswith(want), text


def recovery(asker, kind, secret):
    """A recovery is no row of OPS, and refused to a manager too: there is a leader."""
    for look in (True, False):
        err, text, _ = asker.conn.call(MSG.RAFT_RECOVER, [look, secret])
        may = kind == "manager" or (kind == "reader" and look)
        assert ("Permission denied" in text) != may and err != 0, (kind, look, err, text)


def test_every_operation():
    """Each row of OPS, asked for at raftd with no token, a reader's, another one's, an expired, a deleted one and a manager's."""
    if missing():
        skip(missing())
    with Cluster("127.241.1") as c:
        clock = ClockFault(os.path.join(c.dir, "clock"))
        node, = servers_with_clock(c, clock, 1, **ON)
        acl, _ = formed(c, [node])
        ids = populate(acl)
        deleted = acl.make(READ_ALL)
        acl.delete(deleted)
        clock.jump(-61)
        expired = acl.token(READ_ALL, 'acl = "write"', ExpirationTTL="60s")
        clock.jump(0)
        tokens = {"none": "", "unknown": NOBODY, "deleted": deleted["SecretID"], "expired": expired,
                  "writer": acl.token(writes("own")), "reader": acl.token(READ_ALL), "manager": acl.secret}
        asked = questions(ids)
        asker = Asker(node)
        undecided = [r.name for r in OPS.values() if r.name not in asked and not is_refused_to_all(r)]
        assert not undecided, "no decision was made here on " + ", ".join(undecided)
        before = dump(asker, acl.secret)
        for kind, secret in tokens.items():
            for row in sorted(OPS.values(), key=lambda r: list(asked).index(r.name) if r.name in asked else -1):
                want = expect(row, "deleted" if kind == "unknown" else kind)
                said = asker.op(row.name, secret, **asked.get(row.name, {}))
                check(row, kind, said, want)
            recovery(asker, kind, secret)
            if kind != "manager":
                after = dump(asker, acl.secret)
                for name, was in before.items():
                    assert after[name] == was, "%s of %s changed: %r is now %r" % (name, kind, was, after[name])
        after = dump(asker, acl.secret)
        assert before["KV_LIST"] != after["KV_LIST"] and before["QUERY_LIST"] != after["QUERY_LIST"], "the manager wrote nothing"
        asker.close()
        clock.close()


def test_from_inside():
    """The running rpcd itself, in its sandbox, is made to ask all of that: without a token, and with a reader's.  What it gets is
    what is anybody's or the reader's, and the state stays what it was."""
    if inject.missing():
        skip(inject.missing())
    with Cluster("127.241.12") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        ids = populate(acl)
        tokens = {"none": "", "reader": acl.token(READ_ALL)}
        asked = questions(ids)
        outside = Asker(node)
        before = dump(outside, acl.secret)
        taken = Asker(node, inject.HeldSocket(node.pid("rpcd"), os.path.join(node.run, "raftd.sock")))
        for kind, secret in tokens.items():
            for row in (r for r in OPS.values() if r.name in asked):
                check(row, kind, taken.op(row.name, secret, **asked[row.name]), expect(row, kind))
            recovery(taken, kind, secret)
            after = dump(outside, acl.secret)
            assert after == before, [n for n, was in before.items() if after[n] != was]
        # With a manager's token it can do what that may: the way in was not what stopped it.
        assert taken.op("KV_APPLY", acl.secret, **asked["KV_APPLY"]).err == 0
        assert dump(outside, acl.secret)["KV_LIST"] != before["KV_LIST"]
        taken.close()
        outside.close()
        assert node.running("rpcd") and acl.http("GET", "/v1/kv/alien/key").ok(200)


class TakenOver:
    """raftd.sock, as whoever has taken over rpcd: under its user."""

    def __init__(self, node):
        user = pwd.getpwnam("_rpcd")
        os.setegid(user.pw_gid)
        os.seteuid(user.pw_uid)
        try:
            self.conn = Conn(os.path.join(node.run, "raftd.sock"), role="rpcd")
        finally:
            os.seteuid(0)
            os.setegid(0)

    def leave(self, secret, force=True):
        err, text = self.conn.call(MSG.RAFT_LEAVE, [force, secret])
        return err, text


def voters(acl):
    return {s["Node"] for s in acl.ask("GET", "/v1/operator/raft/configuration")["Servers"] if s["Voter"]}


def test_leave():
    """A server that rpcd was taken over of stays, by force too, unless a token with agent:write on it is shown; root's clusterctl needs none."""
    with Cluster("127.241.10") as c:
        servers = c.servers(3, **ON)
        acl, leader = formed(c, servers)
        first, second = [n for n in servers if n is not leader]
        acl.node = leader
        deleted = acl.make('agent "%s" { policy = "write" }' % first.name)
        acl.delete(deleted)
        tokens = {"none": "", "unknown": NOBODY, "deleted": deleted["SecretID"], "reader": acl.token(READ_ALL),
                  "another's": acl.token('agent "%s" { policy = "write" }' % second.name), "long": "x" * 300}
        taken = TakenOver(first)
        for kind, secret in tokens.items():
            err, text = taken.leave(secret)
            want = NOT_FOUND if kind in ("unknown", "deleted", "long") else DENIED + ": Missing agent:write on " + first.name
            assert err == ERR.EPERM and text.startswith(want), (kind, err, text)
            assert len(voters(acl)) == 3, kind
        # rpcd passes on the token of whoever asks it, and what raftd says to it.
        r = first.put("/v1/agent/leave", headers=auth(tokens["reader"]))
        assert r.status == 403, r
        r = first.put("/v1/agent/leave", unix=True)
        assert r.status == 403 and b"root leaves by clusterctl leave" in r.body, r
        assert len(voters(acl)) == 3 and first.running("raftd")
        own = acl.token('agent "%s" { policy = "write" }' % first.name)
        wait_for("it leaves by its token", lambda: first.put("/v1/agent/leave", headers=auth(own)).status == 200)
        assert first.wait_end() == [0, 0, 0]
        assert voters(acl) == {leader.name, second.name}
        # Root on the socket, without a token.
        ctl = [os.path.join(c.build, "ctl", "clusterctl"), "--addr", "unix:" + os.path.join(second.run, "rpcd.sock"), "leave"]
        refused = subprocess.run(ctl, capture_output=True, text=True, timeout=60, env=dict(os.environ, CONSUL_HTTP_TOKEN=tokens["reader"]))
        assert refused.returncode == 77 and DENIED in refused.stderr, refused
        wait_for("root's leave", lambda: subprocess.run(ctl, capture_output=True, text=True, timeout=60).stdout ==
                 "Graceful leave complete.\n")
        assert second.wait_end() == [0, 0, 0]
        assert voters(acl) == {leader.name}
        # What raftd has done already needs nothing more, so that gossip can be left, too.
        taken = TakenOver(leader)
        assert taken.leave("")[0] == ERR.EPERM
        assert taken.leave(acl.secret) == (0, "") and taken.leave("") == (0, "")


main(test_every_operation, test_leave, test_from_inside)

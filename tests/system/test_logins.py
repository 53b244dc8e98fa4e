#!/usr/bin/env python3
"""Logins over whole clusters: through every node, over the loss of a leader, and what becomes of their tokens everywhere when they are
given up or their method goes.  The bearer token is found in no file afterwards."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import DENIED, NOT_FOUND, ON, auth, formed  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from oprows import OPS, args, fields  # noqa: E402
from recorded import bearer_login  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import AGAIN, wait_for  # noqa: E402


CONFIG, BEARER = bearer_login()


def login(node, method="m", bearer=BEARER):
    return node.http("POST", "/v1/acl/login", {"AuthMethod": method, "BearerToken": bearer})


def login_at_last(node):
    """Whoever asks while nobody leads is told so, and asks again."""
    def asked():
        try:
            a = login(node)
        except AGAIN:
            return None
        assert a.status in (200, 500), a
        return a.json() if a.status == 200 else None
    return wait_for("a login at " + node.name, asked)["SecretID"]


def myself(node, secret):
    return node.get("/v1/acl/token/self", headers=auth(secret)).status


def expect(nodes, secrets, status):
    """Each node answers this to each token: reads are linearizable, so at once."""
    for node in nodes:
        for secret in secrets:
            assert myself(node, secret) == status, (node.name, myself(node, secret))


def with_methods(c):
    servers = c.servers(3, raftd=CALM, **ON)
    client = c.client("c1", 4, servers[0], **ON)
    acl, leader = formed(c, servers)
    for name in ("m", "n"):
        acl.ask("PUT", "/v1/acl/auth-method", {"Name": name, "Type": "jwt", "Config": CONFIG})
        acl.ask("PUT", "/v1/acl/binding-rule", {"AuthMethod": name, "BindType": "service", "BindName": "${value.name}"})
    wait_for("the client sees the method", lambda: login(client).status == 200)
    return acl, leader, servers + [client]


def test_everywhere():
    with Cluster("127.60.101") as c:
        acl, leader, nodes = with_methods(c)
        tokens = {n.name: login(n).ok(200).json()["SecretID"] for n in nodes}
        expect(nodes, tokens.values(), 200)
        # A service identity may register its service, and no other one.
        one = tokens["c1"]
        nodes[0].put("/v1/catalog/register", {"Node": "x", "Address": "10.0.0.1"}, headers=auth(one)).ok(403)
        # Given up at one node, unknown at all.
        assert nodes[-1].http("POST", "/v1/acl/logout", headers=auth(one)).ok(200).json() is True
        expect(nodes, [one], 403)
        again = nodes[0].http("POST", "/v1/acl/logout", headers=auth(one)).ok(403)
        assert again.body.decode().startswith(NOT_FOUND), again
        plain = acl.token('key "a" { policy = "read" }')
        refused = nodes[0].http("POST", "/v1/acl/logout", headers=auth(plain)).ok(403)
        assert refused.body.decode().startswith(DENIED), refused
        # With its method go all that are left of it, and no other one.
        other = login(nodes[1], "n").ok(200).json()["SecretID"]
        follower = next(n for n in nodes if n.server and n is not leader)
        assert follower.delete("/v1/acl/auth-method/M", headers=auth(acl.secret)).ok(200).json() is True
        expect(nodes, tokens.values(), 403)
        expect(nodes, [other, plain], 200)
        assert login(nodes[2]).status == 403
        for daemon in ("rpcd", "raftd", "gossipd"):
            for n in nodes:
                assert BEARER not in n.log(daemon) and one not in n.log(daemon), (n.name, daemon)
        found = subprocess.run(["grep", "-rlaF", BEARER.split(".")[2], c.dir], capture_output=True, text=True)
        assert found.returncode == 1, found.stdout


def test_over_a_lost_leader():
    with Cluster("127.60.102") as c:
        acl, leader, nodes = with_methods(c)
        before = login(nodes[-1]).ok(200).json()["SecretID"]
        leader.kill("raftd")
        rest = [n for n in nodes if n is not leader]
        after = [login_at_last(n) for n in rest]
        expect(rest, [before] + after, 200)
        leader.start("raftd")
        wait_for("it is back", lambda: myself(leader, before) == 200)
        expect(nodes, [before] + after + [login_at_last(leader)], 200)
        # A cluster that was stopped altogether has them still.
        for n in nodes:
            if n.server:
                n.stop("raftd")
        for n in nodes:
            if n.server:
                n.start("raftd")
        wait_for("they are back", lambda: myself(nodes[-1], before) == 200)
        expect(nodes, [before] + after, 200)
        listed = acl.ask("GET", "/v1/acl/tokens?authmethod=m")
        assert len(listed) >= len(rest) + 2 and all(t["AuthMethod"] == "m" for t in listed), listed


def test_method_of_many():
    """With a method of thousands of tokens all are unknown at once; they go in several entries, over a change of leaders too, and a
    method of its name can then be made, whose they are not."""
    many = 5000
    with Cluster("127.60.105") as c:
        servers = c.servers(3, raftd=CALM, **ON)
        acl, leader = formed(c, servers)
        for name in ("m", "n"):
            acl.ask("PUT", "/v1/acl/auth-method", {"Name": name, "Type": "jwt", "Config": CONFIG})
            acl.ask("PUT", "/v1/acl/binding-rule", {"AuthMethod": name, "BindType": "service", "BindName": "${value.name}"})
        other = login(leader, "n").ok(200).json()["SecretID"]
        code, given = OPS["ACL_LOGIN"].code, args("acl_login", AuthMethod="m", BearerToken=BEARER)
        with Conn(os.path.join(leader.run, "raftd.sock")) as conn:
            for i in range(1, many + 1):
                conn.send(MSG.OP, [code, "", 0, 0, 0, 0, "", given], i)
            answers = [conn.wait(lambda f: f.type == MSG.OP, 60).body for _ in range(many)]
        assert all(a[0] == 0 for a in answers), [a for a in answers if a[0] != 0][:3]
        secrets = [fields("acl_token", a[5])["SecretID"] for a in answers]
        some = [secrets[i] for i in range(0, many, many // 20)]
        expect(servers, some, 200)
        assert leader.delete("/v1/acl/auth-method/m", headers=auth(acl.secret)).ok(200).json() is True
        expect(servers, some, 403)
        leader.kill("raftd")
        rest = [s for s in servers if s is not leader]
        acl.node = rest[0]

        def made_anew():
            try:
                a = acl.http("PUT", "/v1/acl/auth-method", {"Name": "m", "Type": "jwt", "Config": CONFIG})
            except AGAIN:
                return False
            assert a.status == 200 or any(text in a.body for text in (
                b"No cluster leader", b"may have been applied", b"still being removed")), a
            return a.status == 200
        wait_for("another one of its name", made_anew)
        leader.start("raftd")
        wait_for("it is back", lambda: myself(leader, other) == 200)
        expect(servers, some, 403)
        expect(servers, [other], 200)
        assert acl.ask("GET", "/v1/acl/tokens?authmethod=m") == []


def test_stopped_under_way():
    """A raftd that stops while it looks at logins ends well; that no memory of theirs is lost says test_leaks."""
    with Cluster("127.60.103") as c:
        node = c.servers(1, raftd=CALM, **ON)[0]
        acl, _ = formed(c, [node])
        acl.ask("PUT", "/v1/acl/auth-method", {"Name": "m", "Type": "jwt", "Config": CONFIG})
        acl.ask("PUT", "/v1/acl/binding-rule", {"AuthMethod": "m", "BindType": "service", "BindName": "${value.name}"})
        wait_for("a login", lambda: login(node).status == 200)
        code, given = OPS["ACL_LOGIN"].code, args("acl_login", AuthMethod="m", BearerToken=BEARER)
        with Conn(os.path.join(node.run, "raftd.sock")) as conn:
            for i in range(1, 501):
                conn.send(MSG.OP, [code, "", 0, 0, 0, 0, "", given], i)
            # The first one is done, so the others are under way, one behind the other in one thread.
            assert conn.wait(lambda f: f.id == 1, 20).body[0] == 0
            node.stop("raftd")


main(test_everywhere, test_over_a_lost_leader, test_method_of_many, test_stopped_under_way)

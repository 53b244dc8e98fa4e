#!/usr/bin/env python3
"""No leak and no invalid access from start to stop: a server and a client under valgrind, used, then stopped.

valgrind does not know the system calls of the sandbox, so this one runs with sandbox = "best-effort"; the walls
themselves are tested in test_walls.py.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, formed  # noqa: E402
from cluster import SANITIZERS, TOP, Cluster, main, skip  # noqa: E402
from oprows import OPS, args  # noqa: E402
from recorded import bearer_login  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

VALGRIND = ["valgrind", "-q", "--vgdb=no", "--leak-check=full", "--show-leak-kinds=definite,indirect",
            "--errors-for-leak-kinds=definite,indirect", "--error-exitcode=99",
            "--suppressions=" + os.path.join(TOP, "tests", "valgrind.supp")]


def test_nothing_leaks():
    if shutil.which("valgrind") is None:
        skip("needs valgrind")
    if SANITIZERS:
        skip("valgrind and AddressSanitizer exclude each other")
    # Who is that slow is not dead: gossip is as patient as between machines.
    with Cluster("127.60.52", wrap=VALGRIND, gossipd={"profile": "lan"}) as c:
        server = c.add("n1", 1, raftd={"bootstrap": True}, sandbox="best-effort").start()
        client = c.add("c1", 2, server=False, retry_join=[server.addr], sandbox="best-effort").start()
        c.formed([server], timeout=90)
        wait_for("client is up", lambda: client.kv_get("none") is None, 90)
        for i in range(50):
            client.kv_put("k/%d" % i, "x" * i)
        session = wait_for("a session, once the node is in the catalog",
                           lambda: client.put("/v1/session/create", b"{}").json()["ID"])
        assert client.put("/v1/kv/lock?acquire=" + session, b"v").body == b"true"
        index = server.get("/v1/kv/k/1").index
        assert server.get("/v1/kv/k/1?index=%d&wait=200ms" % index).status == 200
        assert server.get("/v1/kv/?recurse").status == 200
        assert server.get("/v1/agent/self").status == 200
        assert client.get("/v1/catalog/nodes").status == 200
        client.delete("/v1/kv/k/?recurse")
        server.get("/v1/nothing/here")
        for node in (client, server):
            node.stop()         # asserts exit status 0: valgrind's own is 99


def test_logins_under_way():
    """What a server has in memory of logins, which hold bearer tokens, goes though it stops while it looks at them."""
    if shutil.which("valgrind") is None:
        skip("needs valgrind")
    if SANITIZERS:
        skip("valgrind and AddressSanitizer exclude each other")
    config, bearer = bearer_login()
    with Cluster("127.60.104", wrap=VALGRIND, gossipd={"profile": "lan"}) as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, sandbox="best-effort", **ON).start()
        acl, _ = formed(c, [node], timeout=90)
        acl.ask("PUT", "/v1/acl/auth-method", {"Name": "m", "Type": "jwt", "Config": config})
        acl.ask("PUT", "/v1/acl/binding-rule", {"AuthMethod": "m", "BindType": "service", "BindName": "${value.name}"})
        code, given = OPS["ACL_LOGIN"].code, args("acl_login", AuthMethod="m", BearerToken=bearer)
        with Conn(os.path.join(node.run, "raftd.sock")) as conn:
            for i in range(1, 201):
                conn.send(MSG.OP, [code, "", 0, 0, 0, 0, "", given], i)
            # The first one is done, so the others are under way, one behind the other in one thread.
            assert conn.wait(lambda f: f.id == 1, 60).body[0] == 0
            node.stop("raftd")


main(test_nothing_leaks, test_logins_under_way)

#!/usr/bin/env python3
"""The first token with a secret that the operator chose: by raftd.conf, by the API, by clusterctl."""
import os
import re
import subprocess
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, Acl, auth  # noqa: E402
from cluster import BUILD, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NEW = "/v1/acl/bootstrap"
KEY = "acl.tokens.initial_management"
MADE = "the token of acl.tokens.initial_management was made"


def own(node, secret):
    """What this secret stands for, or None."""
    a = node.get("/v1/acl/token/self", headers=auth(secret))
    return a.ok().json() if a.status not in (401, 403) else None


def tokens(acl):
    return sorted((t["AccessorID"], t["CreateIndex"]) for t in acl.ask("GET", "/v1/acl/tokens"))


def test_configured():
    """It is there as soon as access control holds, once: not again after a restart, nor when it was deleted."""
    with Cluster("127.152.1") as c:
        secret = str(uuid.uuid4())
        node = c.add("n1", 1, raftd={"bootstrap": True, KEY: secret}, **ON).start()
        first = wait_for("the token is there", lambda: own(node, secret))
        assert first["Description"] == "Initial Management Token" and not first["Local"], first
        assert [p["Name"] for p in first["Policies"]] == ["global-management"], first
        assert node.put(NEW).status == 403 and secret not in node.log("raftd")
        acl = Acl(node, secret)
        before = tokens(acl)
        node.stop("raftd")
        node.start("raftd")
        c.leader([node])
        wait_for("the same tokens", lambda: tokens(acl) == before)
        other = Acl(node, acl.token("acl = \"write\""))
        other.http("DELETE", "/v1/acl/token/" + first["AccessorID"]).ok()
        node.stop("raftd")
        node.start("raftd")
        wait_for("it is told", lambda: KEY + " is no token's secret, and makes none" in node.log("raftd"))
        assert own(node, secret) is None and node.log("raftd").count(MADE) == 1


def test_too_late():
    """Access control held before, and somebody has made the first token by hand; or not yet."""
    with Cluster("127.152.2") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, **ON).start()
        wait_for("access control holds", lambda: node.get("/v1/acl/tokens").status == 403)
        node.stop("raftd")
        secret = str(uuid.uuid4())
        os.unlink(os.path.join(node.conf, "raftd.conf"))    # which others may read
        node.write("raftd.conf", {"bootstrap": True, KEY: secret})
        node.start("raftd")
        wait_for("the token is there", lambda: own(node, secret))
        node.stop("raftd")
        node.write("raftd.conf", {"bootstrap": True, KEY: str(uuid.uuid4())})
        node.start("raftd")
        wait_for("it is told", lambda: "makes none: the first token was made at index" in node.log("raftd"))
        assert len(tokens(Acl(node, secret))) == 2


def test_asked_for():
    with Cluster("127.152.3") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, **ON).start()
        wait_for("access control holds", lambda: node.get("/v1/acl/tokens").status == 403)
        for bad in ("secret", "", 7, "00000000-0000-0000-0000-000000000009"):
            refused = node.put(NEW, {"BootstrapSecret": bad} if bad != "" else b"{")
            assert refused.status == 400, refused
        secret, second = str(uuid.uuid4()), str(uuid.uuid4())
        made = node.put(NEW, {"BootstrapSecret": secret}).ok().json()
        assert made["SecretID"] == made["ID"] == secret, made
        acl = Acl(node, secret)
        again = node.put(NEW, {"BootstrapSecret": second})
        index = re.search(r"reset index: (\d+)", again.ok(403).text).group(1)
        # A reset: with the secret of another token it is refused; and by clusterctl, from a file.
        other = acl.token('node_prefix "" { policy = "read" }')
        reset = os.path.join(node.data, "raftd", "acl-bootstrap-reset")
        for path, text in ((reset, index + "\n"), (os.path.join(c.dir, "secret"), second + "\n")):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644 if path == reset else 0o600), "w") as f:
                f.write(text)
        refused = node.put(NEW, {"BootstrapSecret": other})
        assert refused.status == 500 and "SecretID is already in use" in refused.text, refused
        said = node.ctl("acl", "bootstrap", os.path.join(c.dir, "secret"))
        assert second in said.stdout and "older" not in said.stderr, said
        assert own(node, secret) is None and own(node, second)["SecretID"] == second
        assert own(node, other) is not None


def test_bad_secret():
    with Cluster("127.152.4") as c:
        for bad in ("secret", "00000000-0000-0000-0000-000000000001"):
            node = c.add("n1", 1, raftd={"bootstrap": True, KEY: bad})
            said = subprocess.run([os.path.join(BUILD, "raftd", "raftd"), "-n", "-c", node.conf], capture_output=True, text=True)
            assert said.returncode != 0 and KEY + ": a random UUID is expected" in said.stderr and bad not in said.stderr, said


def test_three_servers():
    """All of them have it: one token comes of it."""
    with Cluster("127.152.5") as c:
        secret = str(uuid.uuid4())
        servers = c.servers(3, raftd={KEY: secret}, **ON)
        wait_for("the token is there", lambda: own(servers[0], secret))
        acl = Acl(servers[1], secret)
        leader = c.leader(servers)
        before = wait_for("its answer", lambda: tokens(acl))
        leader.kill("raftd")
        left = [s for s in servers if s is not leader]
        c.leader(left)
        acl = Acl(left[0], secret)
        assert wait_for("its answer", lambda: tokens(acl)) == before
        assert sum(s.log("raftd").count(MADE) for s in servers) == 1
        assert left[0].put(NEW).status == 403


main(test_configured, test_too_late, test_asked_for, test_bad_secret, test_three_servers)

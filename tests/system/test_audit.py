#!/usr/bin/env python3
"""The audit trail: who did what, without a line lost by rotation, without a secret, and without a wait for a disk."""
import http.client
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import smalldisk  # noqa: E402
from cluster import Cluster, main, rpcd_conf, skip  # noqa: E402
from waiting import need, wait_for  # noqa: E402

SECRET = "5ec3e7aa-1111-4222-8333-444444444444"
NAME = "audit.log"
LOCAL = "127.0.0.1"     # this client


def one(c, env=None, **rpcd):
    keys = {"audit.to": "file"}
    keys.update(rpcd)
    node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd=keys, env=env).start()
    c.formed([node])
    return node


def path(node, name=NAME):
    return os.path.join(node.data, "rpcd", name)


def lines(node, *names):
    """The lines of these files in turn, each a whole object."""
    found = []
    for name in names or (NAME,):
        try:
            with open(path(node, name), "rb") as f:
                text = f.read()
        except FileNotFoundError:
            continue
        assert text == b"" or text.endswith(b"\n"), text[-100:]
        assert all(b == 10 or 32 <= b < 127 for b in text)
        found += [json.loads(line) for line in text.splitlines()]
    return found


def having(node, *names, **fields):
    return [line for line in lines(node, *names) if all(line.get(k) == v for k, v in fields.items())]


def the_line(node, **fields):
    """Waits for it; there is one."""
    wait_for("a line with %s" % fields, lambda: having(node, **fields))
    found = having(node, **fields)
    assert len(found) == 1, found
    return found[0]


def stat(node, name):
    return int(node.stats("rpcd")[name])


def test_lines():
    """What was asked, by whom, and what came of it."""
    with Cluster("127.171.1") as c:
        node = one(c)
        node.kv_put("app/a", "v")
        line = the_line(node, operation="KVS.Apply", name="app/a")
        want = {"node": "n1", "client": LOCAL, "method": "PUT", "path": "/v1/kv/", "resource": "key", "datacenter": "dc1",
                "outcome": "ok", "status": 200, "accessor": "anonymous"}
        assert {k: line.get(k) for k in want} == want, line
        assert line["index"] >= node.get("/v1/kv/app/a").json()[0]["ModifyIndex"], line
        node.put("/v1/kv/root", "v", unix=True).ok()
        line = the_line(node, operation="KVS.Apply", name="root")
        assert line["uid"] == os.geteuid() and "client" not in line, line
        assert line["accessor"] == ("agent-master" if os.geteuid() == 0 else "anonymous")
        # Check-and-set that did nothing.
        assert node.put("/v1/kv/app/a?cas=1", "w").ok().text.strip() == "false"
        the_line(node, name="app/a", outcome="failed")
        node.put("/v1/txn", json.dumps([{"KV": {"Verb": "set", "Key": "t/%d" % i, "Value": ""}} for i in range(12)])).ok()
        line = the_line(node, operation="Txn.Apply")
        assert line["operations"] == 12 and line["names"] == ["key:t/%d" % i for i in range(8)], line
        node.put("/v1/agent/service/register", json.dumps({"Name": "web", "ID": "web-1"})).ok()
        assert the_line(node, operation="agent/service/register")["name"] == "web-1"
        node.put("/v1/agent/service/deregister/web-1").ok()
        assert the_line(node, operation="agent/service/deregister")["resource"] == "service"
        node.put("/v1/event/fire/deploy", "payload").ok()
        assert the_line(node, operation="Event.Fire")["name"] == "deploy"
        sid = node.put("/v1/session/create").ok().json()["ID"]
        assert the_line(node, operation="Session.Create")["names"] == ["id:" + sid]
        node.put("/v1/agent/reload", unix=True).ok()
        the_line(node, operation="agent/reload", outcome="ok")
        node.get("/v1/snapshot", unix=True).ok()
        assert the_line(node, operation="Snapshot.Save")["resource"] == "state"
        # None of the reads, and nothing that no endpoint takes.
        assert not having(node, operation="KVS.Get") and not having(node, status=404)
        assert stat(node, "audit_lines") >= len(lines(node)) and stat(node, "audit_lines_lost") == 0
        assert oct(os.stat(path(node)).st_mode & 0o777) == "0o600"


def leave_from(node, source):
    conn = http.client.HTTPConnection(node.addr, 8500, timeout=60, source_address=(source, 0))
    conn.request("PUT", "/v1/agent/leave")
    assert conn.getresponse().status == 403
    conn.close()


def test_denied():
    """A request that is refused is told, also one that only reads; and a flood of them is bounded."""
    with Cluster("127.171.2") as c:
        node = one(c, http_admin=False)
        assert node.put("/v1/agent/leave").status == 403
        line = the_line(node, operation="agent/leave")
        assert line["outcome"] == "denied" and line["status"] == 403 and line["client"] == LOCAL, line
        assert node.get("/v1/operator/keyring", headers={"Host": "elsewhere.example"}).status == 403
        the_line(node, operation="Internal.KeyringOperation" if having(node, operation="Internal.KeyringOperation")
                 else "operator/keyring", outcome="denied")

        def flood():
            for _ in range(500):
                assert node.put("/v1/agent/leave").status == 403

        before = len(having(node, outcome="denied"))
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(50):
            node.kv_put("during/%d" % i, "v")
            # Others who are denied meanwhile are told.
            leave_from(node, "127.171.2.%d" % (100 + i))
        for t in threads:
            t.join()
        node.kv_put("after", "v")
        the_line(node, name="after")
        # Each of them is there, or counted.
        wait_for("2000 denials", lambda: len(having(node, outcome="denied")) - before +
                 sum(line["lines"] for line in having(node, operation="audit/lost")) == 2050)
        clients = {line["client"] for line in having(node, outcome="denied")}
        assert clients >= {"127.171.2.%d" % (100 + i) for i in range(50)}, clients
        assert stat(node, "audit_denials_counted") > 0
        assert len([line for line in lines(node) if line.get("name", "").startswith("during/")]) == 50
        # Off by the next reload.
        node.write("rpcd.conf", rpcd_conf(node.addr, http_admin=False, **{"audit.to": "file", "audit.denials": False}))
        node.put("/v1/agent/reload", unix=True).ok()
        known = len(having(node, outcome="denied"))
        assert node.put("/v1/agent/leave").status == 403
        node.kv_put("later", "v")
        the_line(node, name="later")
        assert len(having(node, outcome="denied")) == known


def test_reads_on_demand():
    with Cluster("127.171.3") as c:
        node = one(c, **{"audit.reads": True})
        node.kv_put("a", "v")
        index = node.get("/v1/kv/a").ok(200).index
        the_line(node, operation="KVS.Get", name="a")
        # A blocking query is one line, at its end.
        node.get("/v1/kv/b?wait=100ms&index=%d" % index).ok(404)
        line = the_line(node, operation="KVS.Get", name="b")
        assert line["outcome"] == "failed" and line["status"] == 404, line


def test_default_is_off():
    """Nothing is written and nothing is logged while nobody asked for it; to the log where access control holds."""
    with Cluster("127.171.4") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        node.kv_put("a", "v")
        assert stat(node, "audit_lines") == 0 and not os.path.exists(path(node)) and "audit" not in node.log("rpcd")
        node.set_common(**{"acl.enabled": True})
        node.stop("rpcd")
        node.start("rpcd").up()
        wait_for("a write", lambda: node.put("/v1/kv/b", "v").status in (200, 403))
        line = wait_for("a line in the log", lambda: [x for x in node.log("rpcd").splitlines() if "[INFO] audit: {" in x and "KVS.Apply" in x])[0]
        assert json.loads(line[line.index("{"):])["name"] == "b", line


def test_rotation():
    """Renamed while writes go on, with SIGHUP and without: each write is in one of the files, once."""
    with Cluster("127.171.5") as c:
        node = one(c)
        names, done = [NAME], 0
        for turn in range(6):
            for i in range(done, done + 100):
                node.kv_put("r/%d" % i, "v")
                if i == done + 50:
                    names.insert(0, "old.%d.log" % turn)
                    os.rename(path(node), path(node, names[0]))
                    if turn % 2 == 0:
                        node.signal(signal.SIGHUP, "rpcd")
            done += 100
        want = ["r/%d" % i for i in range(done)]
        told = wait_for("all lines", lambda: (lambda t: t if len(t) >= done else None)(
            [line["name"] for line in lines(node, *reversed(names[:-1]), NAME) if line.get("name", "").startswith("r/")]))
        assert sorted(told) == sorted(want), set(want) ^ set(told)
        assert having(node, name="r/%d" % (done - 1)), "the newest line is in an old file"
        # A configuration that is wrong does not keep it from being rotated.
        node.write("rpcd.conf", {"audit.to": "nowhere"})
        os.rename(path(node), path(node, "wrong.log"))
        node.signal(signal.SIGHUP, "rpcd")
        node.kv_put("wrong", "v")
        the_line(node, name="wrong")


def test_no_secret():
    """Wherever a token may stand, the trail does not have it."""
    with Cluster("127.171.6") as c:
        node = one(c, **{"audit.reads": True})
        head = {"X-Consul-Token": SECRET}
        for method, target in (("PUT", "/v1/kv/a"), ("GET", "/v1/kv/a"), ("GET", "/v1/acl/token/" + SECRET), ("PUT", "/v1/acl/token/" + SECRET),
                               ("DELETE", "/v1/acl/token/" + SECRET), ("PUT", "/v1/acl/token/" + SECRET + "/clone"),
                               ("GET", "/v1/acl/rules/translate/" + SECRET), ("GET", "/v1/acl/token/self"), ("PUT", "/v1/acl/bootstrap"),
                               ("PUT", "/v1/kv/" + SECRET), ("PUT", "/v1/session/create"), ("GET", "/v1/acl/info/" + SECRET),
                               ("PUT", "/v1/txn"), ("PUT", "/v1/agent/service/register")):
            body = {"/v1/txn": json.dumps([{"KV": {"Verb": "set", "Key": "a", "Value": ""}}]),
                    "/v1/agent/service/register": json.dumps({"Name": "web", "Token": SECRET})}.get(target, "{}" if method == "PUT" else None)
            for query, headers in (("", head), ("?token=" + SECRET, {}), ("", {"Authorization": "Bearer " + SECRET})):
                node.http(method, target + query, body, headers=headers)
        node.kv_put("last", "v")
        the_line(node, name="last")
        text = open(path(node)).read()
        assert SECRET not in text and SECRET[:18] not in text
        assert having(node, name=SECRET[:8] + "...") and having(node, accessor="unknown"), text[:2000]


def test_full_disk():
    """Requests go on, lines are kept until there is space, and none is half."""
    reason = smalldisk.missing()
    if reason:
        skip(reason)
    with Cluster("127.171.7") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd={"audit.to": "file"})
        os.makedirs(os.path.join(node.data, "rpcd"), exist_ok=True)
        disk = smalldisk.SmallDisk(os.path.join(node.data, "rpcd"), "256k")
        try:
            node.start()
            c.formed([node])
            node.kv_put("before", "v")
            the_line(node, name="before")
            disk.fill(0)
            count = 0
            while stat(node, "audit_failures") == 0:
                node.kv_put("full/%d" % count, "v")
                count += 1
                assert count < 5000
            for i in range(50):
                node.kv_put("full/%d" % count, "v")
                count += 1
            assert "No space left on device; lines are kept in memory" in node.log("rpcd")
            disk.free()
            wait_for("all lines", lambda: len([x for x in lines(node) if x.get("name", "").startswith("full/")]) >= count)
            assert [x["name"] for x in lines(node) if x.get("name", "").startswith("full/")] == ["full/%d" % i for i in range(count)]
            assert stat(node, "audit_lines_lost") == 0
            node.stop("rpcd")
        finally:
            c.close()
            disk.close()


def test_hanging_disk():
    """Requests do not wait for it.  What does not fit in memory is missing, and the trail says how much; rpcd ends all the same."""
    if diskfault.missing():
        skip(diskfault.missing())
    with Cluster("127.171.8") as c:
        disk = diskfault.DiskFault(os.path.join(c.dir, "disk"))
        node = one(c, env=disk.env)
        node.kv_put("before", "v")
        the_line(node, name="before")
        disk.hang(kind="trail", what="write")
        node.kv_put("hangs", "v")
        wait_for("the thread hangs", lambda: disk.hanging("trail"))
        long_name, sent = "x" * 400 + "/", 0
        while stat(node, "audit_lines_lost") == 0:
            for _ in range(100):
                node.kv_put(long_name + str(sent), "v", timeout=5)
                sent += 1
            assert sent < 20000
        lost = stat(node, "audit_lines_lost")
        disk.clear()
        line = wait_for("the line about them", lambda: having(node, operation="audit/lost"))[0]
        assert line["lines"] >= lost, (line, lost)
        wait_for("a warning", lambda: "lines of the audit trail are missing" in node.log("rpcd"))
        kept = len([x for x in lines(node) if x.get("name", "").startswith(long_name)])
        assert kept + sum(x["lines"] for x in having(node, operation="audit/lost")) == sent
        disk.hang(kind="trail", what="write")
        node.kv_put("never", "v")
        wait_for("the thread hangs", lambda: disk.hanging("trail"))
        node.stop("rpcd")
        need("the disk does not take the end of the audit trail" in node.log("rpcd"), "a word about it")
        disk.clear()


if __name__ == "__main__":
    main(test_lines, test_denied, test_reads_on_demand, test_default_is_off, test_rotation, test_no_secret, test_full_disk, test_hanging_disk)

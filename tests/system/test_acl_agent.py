#!/usr/bin/env python3
"""Access control at an agent: its own endpoints, its tokens, root on the socket, and what holds while no server answers."""
import collections
import json
import os
import selectors
import shutil
import socket
import stat
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import dnsask  # noqa: E402
from aclkit import DENIED, NOT_FOUND, ON, Acl, auth  # noqa: E402
from cluster import Cluster, main, rpcd_conf  # noqa: E402
from waiting import wait_for  # noqa: E402

STRANGER = "0f0f0f0f-0000-4000-8000-000000000001"
# Method, path, the rules that it needs, and its body.
NEEDS = [
    ("GET", "/v1/agent/self", 'agent "c1" { policy = "read" }', None),
    ("GET", "/v1/agent/metrics", 'agent_prefix "" { policy = "read" }', None),
    ("GET", "/v1/agent/host", 'operator = "read"', None),
    ("GET", "/v1/agent/dns/web.service.consul", 'agent "c1" { policy = "read" }', None),
    ("PUT", "/v1/agent/reload", 'agent "c1" { policy = "write" }', None),
    ("PUT", "/v1/agent/join/%s", 'agent "c1" { policy = "write" }', None),
    ("PUT", "/v1/agent/force-leave/nobody", 'operator = "write"', None),
    ("PUT", "/v1/agent/token/replication", 'agent "c1" { policy = "write" }', {"Token": ""}),
    ("PUT", "/v1/agent/maintenance?enable=false", 'node "c1" { policy = "write" }', None),
    ("PUT", "/v1/agent/service/register", 'service "web" { policy = "write" }', {"Name": "web"}),
    ("PUT", "/v1/agent/check/register", 'node "c1" { policy = "write" }', {"Name": "k", "TTL": "1h"}),
    ("PUT", "/v1/event/fire/deploy", 'event "deploy" { policy = "write" }', "x"),
    ("PUT", "/v1/agent/query/uptime?timeout=1s", 'event "uptime" { policy = "write" }', "x"),
    ("GET", "/v1/operator/keyring", 'keyring = "read"', None),
]


def started(c, rpcd=None, **keys):
    """A server and an agent that knows nothing of access control but what it hears: both, and who administers."""
    server = c.add("n1", 1, raftd={"bootstrap": True}, **ON).start()
    acl = Acl(server)
    client = c.client("c1", 4, server, rpcd=rpcd, **keys)
    wait_for("the agent has heard of access control", lambda: client.get("/v1/agent/self").status == 403 and
             client.get("/v1/agent/self", headers=auth(acl.secret)).status == 200)
    return server, client, acl


def configure(node, mode=0o640, **keys):
    """mode: as the manual wants it, the daemon's group may read it, for a reload."""
    path = os.path.join(node.conf, "rpcd.conf")
    node.write("rpcd.conf", rpcd_conf(node.addr, **keys))
    shutil.chown(path, group="_rpcd" if mode & 0o070 else "root")
    os.chmod(path, mode)


def resolved(node, name):
    """Does DNS have an address of it?"""
    question = b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(question, (node.addr, 8600))
        return s.recv(4096)[7] > 0


def said(answer):
    return answer.status, answer.body.decode()


def test_endpoints():
    """Over TCP and the socket alike: nothing without the right, all with it; and no stranger."""
    with Cluster("127.149.1") as c:
        server, client, acl = started(c)
        tokens = [acl.token(rules) for _, _, rules, _ in NEEDS]
        none = acl.token('key "x" { policy = "read" }')
        for unix in (False, True):
            for (method, path, _, body), token in zip(NEEDS, tokens):
                path = path % server.addr if "%s" in path else path
                r = client.http(method, path, body, headers=auth(none), unix=unix)
                assert r.status == 403 and DENIED in r.body.decode(), (path, r)
                r = client.http(method, path, body, headers=auth(STRANGER), unix=unix)
                want = 500 if "fire" in path else 403
                assert said(r) == (want, NOT_FOUND), (path, r)
                r = client.http(method, path, body, headers=auth(token), unix=unix)
                assert r.status == 200 or (r.status == 500 and b"No node found" in r.body), (path, r)
        # Lists are for everybody, and show what he may see.
        for path in ("members", "services", "checks"):
            assert client.get("/v1/agent/" + path, headers=auth(none)).json() in ([], {}), path
        web = tokens[9]
        assert list(client.get("/v1/agent/services", headers=auth(web)).json()) == ["web"]
        assert client.get("/v1/event/list", headers=auth(none)).json() == []
        listed = wait_for("the event", lambda: client.get("/v1/event/list", headers=auth(tokens[11])).json())
        assert {e["Name"] for e in listed} == {"deploy"}
        one = acl.token('node "n1" { policy = "read" }')
        assert [m["Name"] for m in client.get("/v1/agent/members", headers=auth(one)).json()] == ["n1"]
        # The keyring is judged again by the server: a stranger with rights at no server has none there.
        assert said(client.get("/v1/operator/keyring?local-only", headers=auth(none))) == (403, DENIED)
        for text in (server.log("rpcd"), client.log("rpcd")):
            assert not [t for t in tokens + [acl.secret, none] if t in text]


def test_changes_show():
    """A policy that changes, and a token that goes: after token_ttl at an agent; nothing of before from its memory."""
    with Cluster("127.149.2") as c:
        server, client, acl = started(c, rpcd={"acl.token_ttl": "1s"})
        acl.ask("PUT", "/v1/catalog/register", {"Node": "x", "Address": "10.0.0.1", "Service": {"Service": "db"}})
        policy = acl.policy('service_prefix "" { policy = "read" }\nnode_prefix "" { policy = "read" }')
        token = acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": policy["ID"]}]})
        mine = auth(token["SecretID"])

        def cached():
            return client.get("/v1/health/service/db?cached", headers=mine)
        assert len(cached().ok().json()) == 1
        wait_for("it comes from memory", lambda: cached().headers.get("X-Cache") == "HIT")
        acl.change_policy(policy, 'service_prefix "" { policy = "read" }')
        wait_for("no node, no instance", lambda: cached().ok().json() == [])
        assert client.get("/v1/agent/members", headers=mine).json() == []
        acl.delete(token)
        wait_for("the token is none any more", lambda: said(cached()) == (403, NOT_FOUND))
        wait_for("for the agent neither", lambda: said(client.get("/v1/agent/members", headers=mine)) == (403, NOT_FOUND))


def test_agent_tokens():
    """The agent's own work and that of clients without a token: by rpcd.conf, by a request, and over a restart."""
    with Cluster("127.149.3") as c:
        server, client, acl = started(c, rpcd={"acl.enable_token_persistence": True})
        own = acl.token('node "c1" { policy = "write" }\nservice_prefix "" { policy = "write" }')
        reads = acl.token('node_prefix "" { policy = "read" }\nservice_prefix "" { policy = "read" }')

        def in_catalog(name):
            return acl.ask("GET", "/v1/catalog/service/" + name)
        # With a token of its own nothing else is needed; that of a check of the node is the agent's.
        web = acl.token('service "web" { policy = "write" }\nnode "c1" { policy = "write" }')
        client.put("/v1/agent/service/register", {"Name": "web"}, headers=auth(web)).ok()
        wait_for("web is in the catalog", lambda: in_catalog("web"))
        assert not resolved(client, "web.service.consul")         # which DNS keeps in its memory
        for kind, token in (("agent", own), ("acl_token", reads)):
            client.put("/v1/agent/token/" + kind, {"Token": token}, headers=auth(acl.secret)).ok()
        wait_for("DNS has the default token", lambda: resolved(client, "web.service.consul"))
        path = os.path.join(client.data, "rpcd", "tokens.json")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert [e["Node"] for e in client.get("/v1/catalog/service/web").json()] == ["c1"]       # the default token
        assert {m["Name"] for m in client.get("/v1/agent/members").json()} == {"n1", "c1"}
        assert said(client.put("/v1/agent/reload")) == (403, DENIED)
        client.stop("rpcd")
        client.start("rpcd")
        wait_for("they are kept", lambda: {m["Name"] for m in client.get("/v1/agent/members").ok().json()} == {"n1", "c1"})
        # rpcd.conf with a token: not for others' eyes.
        client.stop("rpcd")
        os.unlink(path)
        configure(client, 0o644, **{"acl.tokens.default": reads})
        client.start("rpcd").expect_end("rpcd", 1)
        log = client.log("rpcd")
        assert "rpcd.conf:" in log and "acl.tokens.default: others can read it here (mode 0644)" in log, log[-600:]
        assert reads not in log
        configure(client, **{"acl.tokens.default": reads, "acl.tokens.agent_master": "m" * 20})
        client.start("rpcd")
        wait_for("the one of the file", lambda: {m["Name"] for m in client.get("/v1/agent/members").ok().json()} == {"n1", "c1"})
        assert client.get("/v1/agent/self", headers=auth("m" * 20)).status == 200
        assert said(client.put("/v1/agent/token/bogus", {"Token": "x"}, headers=auth("m" * 20))) == (404, 'Token "bogus" is unknown')
        assert reads not in client.log("rpcd")


def test_down():
    """Without servers: each policy, root on the socket and agent_master; and a start then."""
    with Cluster("127.149.4") as c:
        server, client, acl = started(c, rpcd={"acl.token_ttl": "1s"})
        known = acl.token('agent "c1" { policy = "read" }')
        assert client.get("/v1/agent/metrics", headers=auth(known)).status == 200
        server.stop("rpcd", "raftd")

        def metrics(token):
            return client.get("/v1/agent/metrics", headers=auth(token)).status
        for policy, of_known, of_other in (("extend-cache", 200, 403), ("async-cache", 200, 403), ("deny", 403, 403),
                                           ("allow", 200, 200), ("extend-cache", 200, 403)):
            configure(client, **{"acl.down_policy": policy, "acl.token_ttl": "1s", "acl.tokens.agent_master": "m" * 20})
            assert client.put("/v1/agent/reload", unix=True).status == 200          # root, without a token
            wait_for(policy, lambda: (metrics(known), metrics(STRANGER)) == (of_known, of_other))
            assert metrics("m" * 20) == 200
        assert client.put("/v1/agent/force-leave/nobody", unix=True).status == 403   # which is not this node's
        stats = client.stats("rpcd", headers=auth("m" * 20))
        assert stats["acl_enabled"] == "1" and stats["acl_down"] == "1" and int(stats["acl_by_down_policy"]) > 0, stats
        # A start without servers opens nothing: the agent remembers.
        client.stop("rpcd")
        client.start("rpcd")
        wait_for("it answers", lambda: metrics("m" * 20) == 200)
        assert metrics(known) == 403 and metrics(None) == 403
        assert said(client.put("/v1/agent/service/register", {"Name": "web"}))[0] == 403
        server.start("raftd", "rpcd")
        wait_for("servers are back", lambda: metrics(known) == 200)
        wait_for("and know no stranger", lambda: said(client.get("/v1/agent/metrics", headers=auth(STRANGER))) == (403, NOT_FOUND))


def test_root_with_a_token():
    """Root on the socket has never less with a token that no server can judge than without one; and `status` says why."""
    with Cluster("127.149.13") as c:
        server, client, acl = started(c)
        sock = ("--addr", "unix:" + os.path.join(client.run, "rpcd.sock"))
        path = os.path.join(c.dir, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(acl.secret + "\n")

        def ctl(*args, addr=sock, token=path):
            return client.ctl(*addr, "--token-file", token, *args, check=False)

        def lines(p):
            return {x["Check"]: (x["Status"], x["Text"]) for x in json.loads(p.stdout)["Checks"]}
        assert ctl("status").returncode == 0
        weak = acl.token('key "x" { policy = "read" }')
        with open(os.open(path + "-weak", os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(weak + "\n")
        # A token that was judged has its own rights; a refusal is no missing answer.
        told = lines(ctl("--json", "status", token=path + "-weak"))
        assert told["node"][0] == "unknown" and told["node"][1].endswith(" refuses: Permission denied"), told
        server.stop("rpcd", "raftd")
        client.stop("rpcd")
        client.start("rpcd")
        for secret in (acl.secret, STRANGER):
            wait_for("root is answered", lambda: client.get("/v1/agent/self", headers=auth(secret), unix=True).status == 200)
            assert client.get("/v1/agent/self", headers=auth(secret)).status == 403           # but nobody over TCP
            names = {m["Name"] for m in client.get("/v1/agent/members", headers=auth(secret), unix=True).ok().json()}
            assert names == {"n1", "c1"}, names
            assert client.put("/v1/agent/reload", headers=auth(secret), unix=True).status == 200
            assert client.put("/v1/agent/force-leave/nobody", headers=auth(secret), unix=True).status == 403
        for args in (("info",), ("reload",), ("join", server.addr), ("members",)):
            p = ctl(*args)
            assert p.returncode == 0 and "n1" in p.stdout if args == ("members",) else p.returncode == 0, p
        told = lines(ctl("--json", "status"))
        assert told["node"][0] == "well" and told["members"][0] == "well", told
        assert told["acl"][0] == "unknown" and told["acl"][1].startswith("no server says what tokens may do: "), told
        assert told["leader"][0] == "unknown" and told["leader"][1].startswith("no server could judge the token: "), told
        server.start("raftd", "rpcd")
        wait_for("servers are back", lambda: "acl" not in lines(ctl("--json", "status")))


def test_what_is_hidden_is_told():
    """Lists that leave something out say so, to whoever shows a token; the tool says it, too; so does what explains DNS."""
    with Cluster("127.149.15") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, **ON).start()
        acl = Acl(node)
        acl.ask("PUT", "/v1/catalog/register", {"Node": "x", "Address": "10.0.0.1", "Service": {"Service": "web"}})
        acl.http("PUT", "/v1/agent/service/register", {"Name": "web", "Check": {"TTL": "1h"}}).ok()
        header = "X-Consul-Results-Filtered-By-ACLs"
        none = acl.token('key "x" { policy = "read" }')
        for path in ("services", "checks", "members"):
            path = "/v1/agent/" + path
            assert node.get(path, headers=auth(none)).headers.get(header) == "true", path
            assert header not in acl.http("GET", path).headers and header not in node.get(path).headers, path
        # Lists of the servers as well.
        acl.http("PUT", "/v1/kv/x", b"1").ok()
        acl.http("PUT", "/v1/kv/y", b"1").ok()
        acl.ask("PUT", "/v1/session/create", {"Name": "s"})
        acl.ask("POST", "/v1/query", {"Name": "q", "Service": {"Service": "web"}})
        for path in ("catalog/nodes", "catalog/services", "catalog/service/web", "catalog/node/x", "catalog/node-services/x",
                     "health/service/web", "health/service/web?cached", "health/node/n1", "health/checks/web", "health/state/any",
                     "session/list", "query", "kv/?keys", "kv/?recurse"):
            got = acl.http("GET", "/v1/" + path).ok()
            assert header not in got.headers, path
            got = node.get("/v1/" + path, headers=auth(none))
            assert got.headers.get(header) == "true", (path, got, got.headers)
            assert header not in node.get("/v1/" + path).headers, path
        p = node.ctl("members")
        assert "Nothing is shown to the anonymous token" in p.stderr, p
        path = os.path.join(c.dir, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(none + "\n")
        for words in ("members", "catalog nodes", "catalog services", "kv list"):
            p = node.ctl("--token-file", path, *words.split())
            assert "Some are hidden by access control" in p.stderr, p

        def why(name):
            return acl.ask("GET", "/v1/agent/dns/" + name)["Why"]
        unset = "acl.tokens.default is not set, and the anonymous token lacks "
        assert why("web.service.consul").endswith(unset + 'service "web" { policy = "read" }'), why("web.service.consul")
        assert why("x.node.consul").endswith(unset + 'node "x" { policy = "read" }'), why("x.node.consul")
        weak = acl.make('service_prefix "" { policy = "read" }')
        acl.http("PUT", "/v1/agent/token/default", {"Token": weak["SecretID"]}).ok()
        wait_for("the next rule", lambda: why("web.service.consul").endswith(
            'acl.tokens.default lacks node_prefix "" { policy = "read" }'))
        acl.delete(weak)
        wait_for("it is told as unknown", lambda: why("web.service.consul").endswith("acl.tokens.default is unknown"))
        wait_for("DNS names the token", lambda: dnsask.ask(node, "x.node.consul")[0] == dnsask.SERVFAIL and
                 "[WARN] dns: ACL not found: acl.tokens.default is no token of this cluster" in node.log("rpcd"))


def test_off():
    """Without access control all is as ever, and the tokens of the agent cannot be set."""
    with Cluster("127.149.5") as c:
        server = c.add("n1", 1, raftd={"bootstrap": True}).start().up()
        c.leader()
        client = c.client("c1", 4, server).up()
        for node in (server, client):
            assert node.get("/v1/agent/members", headers=auth(STRANGER)).status == 200
            assert said(node.put("/v1/agent/token/default", {"Token": "x"})) == (401, "ACL support disabled")
            assert node.stats("rpcd")["acl_enabled"] == "0"
            assert not os.path.exists(os.path.join(node.data, "rpcd", "access-control"))
            node.put("/v1/event/fire/deploy", b"x").ok()


class Flood:
    """Connections that ask with an invented token each time, as fast as they are answered."""

    def __init__(self, node, sources, each):
        self.node, self.statuses, self.end = node, collections.Counter(), threading.Event()
        self.selector = selectors.DefaultSelector()
        for source in sources:
            for _ in range(each):
                s = socket.create_connection((node.addr, 8500), timeout=60, source_address=(source, 0))
                s.setblocking(False)
                self.ask(s)
                self.selector.register(s, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @staticmethod
    def ask(s):
        s.sendall(b"GET /v1/agent/self HTTP/1.1\r\nHost: x\r\nX-Consul-Token: %s\r\n\r\n" % str(uuid.uuid4()).encode())

    def run(self):
        while not self.end.is_set():
            for key, _ in self.selector.select(0.1):
                try:
                    head = key.fileobj.recv(65536)
                    self.statuses[head[9:12]] += 1
                    self.ask(key.fileobj)
                except OSError:
                    self.selector.unregister(key.fileobj)

    def stop(self):
        self.end.set()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def test_invented_tokens():
    """A flood of invented tokens at an agent: a token that was known a second ago is never refused for want of room."""
    with Cluster("127.149.21") as c:
        server, client, acl = started(c, rpcd={"acl.token_ttl": "1s"})
        good = acl.token('agent_prefix "" { policy = "read" }')
        wait_for("it is known", lambda: client.get("/v1/agent/self", headers=auth(good)).status == 200)
        flood = Flood(client, ["127.149.21.%d" % (101 + i) for i in range(3)], 180)
        try:
            wait_for("the flood is answered", lambda: sum(flood.statuses.values()) > 540)
            for _ in range(200):
                answer = client.get("/v1/agent/self", headers=auth(good))
                assert answer.status == 200, (answer, flood.statuses)
        finally:
            flood.stop()
        assert flood.statuses[b"503"] > 0 and int(client.stats("rpcd", headers=auth(acl.secret))["acl_busy"]) > 0, flood.statuses
        # Rights that are gone do not go on for long.
        accessor = server.get("/v1/acl/token/self", headers=auth(good)).json()["AccessorID"]
        acl.ask("DELETE", "/v1/acl/token/" + accessor)
        wait_for("it is none's", lambda: client.get("/v1/agent/self", headers=auth(good)).status == 403)


main(test_endpoints, test_changes_show, test_agent_tokens, test_down, test_root_with_a_token, test_what_is_hidden_is_told,
     test_off, test_invented_tokens)

#!/usr/bin/env python3
"""Limits that an operator sets: rates of requests, paths and networks that are shut, tokens in clear."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, READ_ALL, auth, formed  # noqa: E402
from cluster import BUILD, CALM, Cluster, main, rpcd_conf, skip  # noqa: E402
from netns import FarSide  # noqa: E402
from tlskit import tls  # noqa: E402
from waiting import need, wait_for  # noqa: E402

RATES = "limits.request_limits."
CLEAR = "A token over plain HTTP is refused"


def rates(mode="enforcing", **keys):
    return {RATES + k: v for k, v in dict(keys, mode=mode).items()}


def statuses(node, count, method="GET", path="/v1/kv/a", **kw):
    """How many answers had each status."""
    found = {}
    for _ in range(count):
        s = node.http(method, path, b"x" if method == "PUT" else None, **kw).status
        found[s] = found.get(s, 0) + 1
    return found


def info(node):
    return {k: int(v) for k, v in node.self_told(unix=True)["Stats"]["rpcd"].items() if v.isdigit()}


def reload(node, keys):
    node.write("rpcd.conf", keys)
    node.http("PUT", "/v1/agent/reload", unix=True).ok(200)


def validate(node):
    return subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "validate", node.conf], capture_output=True, text=True)


def test_rates():
    """A client gets its burst and then its rate; what it is refused takes nothing from others, root and status endpoints are not
    limited, a reload changes rates and modes at once, and counters and log tell."""
    with Cluster("127.252.1") as c:
        plain = rpcd_conf("127.252.1.1")
        server, = c.servers(1, raftd=CALM, rpcd=rates(source_read_rate=0.5, write_rate=0.2))
        c.formed([server])
        server.http("PUT", "/v1/kv/a", b"x", unix=True).ok(200)
        reload(server, dict(plain, **rates(source_read_rate=1, write_rate=0.4)))
        got = statuses(server, 60)
        assert 10 <= got[200] <= 20 and got[200] + got[429] == 60, got
        r = server.get("/v1/kv/a")
        assert r.status == 429 and r.text == "rate limit exceeded for this client address, try again later (" + RATES + \
            "source_read_rate of this node)", r
        assert r.headers["Retry-After"] == "1", r.headers
        assert server.get("/v1/status/leader").status == 200
        assert server.get("/v1/operator/raft/configuration").status == 200
        if os.geteuid() == 0:
            assert statuses(server, 50, unix=True) == {200: 50}
        got = statuses(server, 10, "PUT")
        assert 4 <= got[200] <= 6 and got[503] == 10 - got[200], got
        r = server.put("/v1/kv/a", b"x")
        assert r.status == 503 and "can only be performed by the leader" in r.text and r.headers["Retry-After"] in ("1", "2", "3"), r
        told = info(server)
        assert told["limit_source_reads_exceeded"] >= 40 and told["limit_writes_exceeded"] >= 5, told
        assert told["limit_refused"] >= 45, told
        log = server.log("rpcd")
        assert "is beyond limits.request_limits.source_read_rate: refused" in log
        assert log.count("source_read_rate: refused") <= 7, "the log floods"
        # Waiting for the time that was told is enough.
        wait_for("a read is served again", lambda: server.get("/v1/kv/a").status == 200, 10, 0.5)

        reload(server, dict(plain, **rates("permissive", source_read_rate=1, write_rate=0.4)))
        before = info(server)["limit_refused"]
        assert statuses(server, 40) == {200: 40} and statuses(server, 20, "PUT") == {200: 20}
        assert info(server)["limit_refused"] == before
        assert info(server)["limit_source_reads_exceeded"] > told["limit_source_reads_exceeded"]
        assert "served (mode permissive)" in server.log("rpcd")
        reload(server, plain)
        assert statuses(server, 40) == {200: 40}


def test_follower_and_client():
    """A write too many is 429 where another server could take it; each node counts its own clients."""
    with Cluster("127.252.2") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        for n in servers + [client]:
            n.up()
            reload(n, dict(rpcd_conf(n.addr), **rates(write_rate=0.2)))
        follower = next(n for n in servers if n is not leader)
        for n, refusal in ((client, 429), (follower, 429), (leader, 503)):
            got = statuses(n, 8, "PUT")
            assert 2 <= got[200] <= 4 and got[200] + got[refusal] == 8, (n.name, got)
        r = client.put("/v1/kv/a", b"x")
        assert (r.status, r.text) == (429, "rate limit exceeded, try again later or against a different server"), r


def test_tokens_have_rates():
    """Of a token, from wherever and however it is shown; and a blocking query counts once."""
    with Cluster("127.252.3") as c:
        server, = c.servers(1, raftd=CALM, **ON)
        acl, _ = formed(c, [server])
        one, two = acl.token(READ_ALL), acl.token(READ_ALL)
        acl.http("PUT", "/v1/kv/a", b"x").ok()
        reload(server, dict(rpcd_conf(server.addr), **rates(token_read_rate=0.5)))
        index = int(server.get("/v1/kv/a", headers=auth(one)).headers["X-Consul-Index"])
        for _ in range(2):
            server.get("/v1/kv/a?index=%d&wait=1s" % index, headers=auth(one)).ok(200)
        got = statuses(server, 4, path="/v1/kv/a?token=" + one)
        assert got[200] >= 2, got
        got = statuses(server, 10, headers={"Authorization": "Bearer " + one})
        assert got.get(429, 0) >= 7, got
        assert statuses(server, 4, headers=auth(two)) == {200: 4}
        assert set(statuses(server, 20)) == {404} or set(statuses(server, 20)) == {403}
        for secret in (one, two, acl.secret):
            assert secret not in server.log("rpcd")


def test_wrong_values():
    """They are named with file and line, and a reload with them changes nothing."""
    with Cluster("127.252.4") as c:
        server, = c.servers(1, raftd=CALM)
        c.formed([server])
        for keys, says in (
                (rates(read_rate=0), "read_rate: 0 is out of range (0.001 to 1000000)"),
                (rates(token_write_rate="5"), 'token_write_rate: "5" is not a rate (write 100, 0.5, or -1 for no limit'),
                (rates("strict"), 'mode: "strict" is not one of disabled, permissive, enforcing'),
                ({"http_config.block_endpoints": ["v1/acl"]}, 'http_config.block_endpoints: "v1/acl" is no path'),
                ({"http_config.allow_write_http_from": ["10.0.0.0/33"]}, 'allow_write_http_from: "10.0.0.0/33" is not a network')):
            server.write("rpcd.conf", dict(rpcd_conf(server.addr), **keys))
            v = validate(server)
            assert v.returncode == 1 and says in v.stderr and "/rpcd.conf:" in v.stderr, v
            r = server.http("PUT", "/v1/agent/reload", unix=True)
            assert r.status == 500 and says in r.text, r
        assert statuses(server, 5, "PUT") == {200: 5}


def test_shut():
    """Paths that are blocked, and writes from some networks alone: over TCP, by a reload, and not over the unix socket."""
    with Cluster("127.252.5") as c:
        server, = c.servers(1, raftd=CALM)
        c.formed([server])
        server.kv_put("a", "1")
        shut = {"http_config.block_endpoints": ["/v1/acl", "/v1/kv/secret/"], "http_config.allow_write_http_from": ["10.0.0.0/8"]}
        reload(server, dict(rpcd_conf(server.addr), **shut))
        for path in ("/v1/acl/policies", "/v1/kv/secret/x", "/v1/kv/secret%2Fx", "/v1/kv/secret/x?raw"):
            r = server.get(path)
            assert (r.status, r.text) == (403, "Endpoint is blocked by agent configuration"), (path, r)
        r = server.put("/v1/kv/a", b"2")
        assert (r.status, r.text) == (403, "Access is restricted"), r
        r = server.put("/v1/kv/a", b"2", headers={"X-Forwarded-For": "10.1.2.3", "Forwarded": "for=10.1.2.3"})
        assert r.status == 403, r
        assert server.kv_get("a") == b"1"
        assert server.http("PUT", "/v1/kv/a", b"3", unix=True).status == 200
        assert server.http("GET", "/v1/kv/secret/x", unix=True).status == 404
        assert info(server)["http_refused_by_http_config"] >= 6
        reload(server, dict(rpcd_conf(server.addr), **{"http_config.allow_write_http_from": ["10.0.0.0/8", "127.0.0.0/8"]}))
        server.kv_put("a", "4")


def test_tokens_in_clear():
    """At an address that other machines reach a token is refused, in each spelling, whatever proxies say; the log names the client
    once a minute, without the token; loopback and the unix socket take it; the key lets it pass, by a reload."""
    reason = FarSide.impossible()
    if reason:
        skip("test_tokens_in_clear: it " + reason)
    far = FarSide(52)
    try:
        with Cluster("127.252.6") as c:
            away = far.address(1, False)
            keys = {"http_addresses": ["127.252.6.1", away], "http_allow_remote": True, "http_allow_plaintext_tokens": False}
            server, = c.servers(1, raftd=CALM, rpcd=keys, **ON)
            acl, _ = formed(c, [server])
            token = acl.make(READ_ALL)
            secret = token["SecretID"]
            acl.http("PUT", "/v1/kv/a", b"1").ok()

            class There:
                addr, run = away, server.run
                http, get = type(server).http, type(server).get
            there = There()
            for headers, query in ((auth(secret), ""), ({"Authorization": "Bearer " + secret}, ""), ({}, "?token=" + secret),
                                   (dict(auth(secret), **{"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1",
                                                          "Forwarded": "for=127.0.0.1;proto=https"}), "")):
                for path in ("/v1/kv/a", "/v1/none", "/v1/status/leader"):
                    r = there.get(path + query, headers=headers)
                    assert r.status == 403 and r.text.startswith(CLEAR) and "HTTPS" in r.text and \
                        "http_allow_plaintext_tokens = true" in r.text, (path, headers, query, r)
            for none in ("", "anonymous"):
                r = there.get("/v1/kv/a", headers={"X-Consul-Token": none})
                assert not r.text.startswith(CLEAR), r
            r = there.http("PUT", "/v1/acl/bootstrap")
            assert r.status == 403 and "has a secret in its body or its answer" in r.text, r
            assert there.get("/v1/status/leader").status == 200
            assert server.get("/v1/kv/a", headers=auth(secret)).status == 200
            assert server.http("GET", "/v1/kv/a", headers=auth(secret), unix=True).status == 200
            log = server.log("rpcd")
            assert log.count("sent a token as plaintext over the network: refused") == 1, log
            assert secret not in log and acl.secret not in log
            assert info_with(server, acl)["http_refused_secrets_in_clear"] == 13
            # Whose it is stands in the trail, whichever way it was shown: one for each spelling.
            burnt = '"path":"/v1/kv/","resource":"key","name":"a","datacenter":"dc1","outcome":"denied","status":403,"accessor":"%s"'
            wait_for("the trail tells whose it was",
                     lambda: server.log("rpcd").count(burnt % token["AccessorID"]) == 4)
            # It is told of before anybody tries.
            v = validate(server)
            assert v.returncode == 0 and "http_addresses: %s is reached by other machines in plaintext" % away in v.stderr, v
            reload_as_root(server, acl, dict(rpcd_conf("127.252.6.1"), **dict(keys, http_allow_plaintext_tokens=True)))
            assert there.get("/v1/kv/a", headers=auth(secret)).status == 200
            assert "sends its token as plaintext over the network" in server.log("rpcd")
    finally:
        far.close()


def test_tokens_over_https():
    """Over TLS a token is taken at an address that other machines reach, without http_allow_remote, over HTTP/1.1 and HTTP/2; and
    what holds for all holds there: rates count each stream, paths are shut."""
    reason = FarSide.impossible()
    if reason:
        skip("test_tokens_over_https: it " + reason)
    far = FarSide(53)
    try:
        with Cluster("127.252.8") as c:
            away, folder = far.address(1, False), os.path.join(c.dir, "tls")
            os.mkdir(folder)
            tls(folder, "ca", "create")
            tls(folder, "cert", "create", "--server", "--additional-ipaddress", away)
            cert, key, ca = (os.path.join(folder, n) for n in ("dc1-server-consul-0.pem", "dc1-server-consul-0-key.pem",
                                                               "consul-agent-ca.pem"))
            if os.geteuid() == 0:
                shutil.chown(key, "root", "_keys")
            os.chmod(key, 0o640)
            keys = {"https_port": 8501, "https_addresses": [away], "tls.https.cert_file": cert, "tls.https.key_file": key}
            server, = c.servers(1, raftd=CALM, rpcd=keys, **ON)
            acl, _ = formed(c, [server])
            secret = acl.token(READ_ALL)
            acl.http("PUT", "/v1/kv/a", b"1").ok()

            def curl(*args):
                p = subprocess.run(["curl", "-sS", "--cacert", ca, *args], capture_output=True, text=True, timeout=60)
                assert p.returncode == 0, p
                return p.stdout

            def status(path, *args):
                return int(curl("-o", "/dev/null", "-w", "%{http_code}", *args, "https://%s:8501%s" % (away, path)))
            for version in ("--http1.1", "--http2"):
                assert status("/v1/kv/a", version, "-H", "X-Consul-Token: " + secret) == 200, version
                assert status("/v1/kv/a", version, "-H", "Authorization: Bearer " + secret) == 200, version
                assert status("/v1/kv/a?token=" + secret, version) == 200, version
                assert status("/v1/acl/token/self", version, "-H", "X-Consul-Token: " + secret) == 200, version
            assert "as plaintext" not in server.log("rpcd") and "reached by other machines" not in server.log("rpcd")
            v = validate(server)
            assert v.returncode == 0 and "plaintext" not in v.stderr, v

            more = dict(rates(source_read_rate=0.5), **{"http_config.block_endpoints": ["/v1/catalog"]})
            reload_as_root(server, acl, rpcd_conf(server.addr, **dict(keys, **more)))
            assert status("/v1/catalog/nodes", "--http2", "-H", "X-Consul-Token: " + secret) == 403
            out = os.path.join(c.dir, "out")
            got = curl("--http2", "--parallel", "-H", "X-Consul-Token: " + secret, "-o", out, "-w", "%{http_code} ",
                       "https://%s:8501/v1/kv/a?x=[1-30]" % away).split()
            assert set(got) == {"200", "429"} and got.count("429") >= 20, got
    finally:
        far.close()


def test_top():
    """Clients, tokens by AccessorID, endpoints and keys by prefix, with what they used; no secret; for those who have operator:read."""
    with Cluster("127.252.7") as c:
        server, = c.servers(1, raftd=CALM, **ON)
        client = c.client("c1", 4, server, **ON)
        acl, _ = formed(c, [server])
        token = acl.make(READ_ALL)
        wait_for("the client answers", lambda: client.get("/v1/kv/x", headers=auth(acl.secret)).ok(404))
        for _ in range(5):
            client.put("/v1/kv/from/client", b"y" * 500, headers=auth(acl.secret)).ok(200)
        for i in range(4):
            acl.http("PUT", "/v1/kv/shop/cart/%d" % i, b"x" * 1000).ok()
        for _ in range(20):
            server.get("/v1/kv/shop/cart/1", headers=auth(token["SecretID"])).ok(200)
        for _ in range(9):
            assert server.get("/v1/kv/lone", headers=auth("11111111-2222-4333-8444-555555555555")).status == 403

        def rows(kind):
            return {r["Name"]: r for r in acl.ask("GET", "/v1/agent/top")[kind]}
        # A server judges these tokens, and rpcd has to ask it whose they are.
        wait_for("the token has its name", lambda: token["AccessorID"] in rows("Tokens"))
        r = rows("Tokens")[token["AccessorID"]]
        assert (r["Requests"], r["Refused"], r["BytesIn"]) == (20, 0, 0) and r["BytesOut"] > 20 * 1300, r
        wait_for("what is no token is told", lambda: rows("Tokens").get("(no-token)", {}).get("Refused") == 9)
        r = rows("Keys")["shop/cart/"]
        assert (r["Requests"], r["BytesIn"]) == (24, 4000), r
        assert rows("Endpoints")["PUT /v1/kv/:name"]["BytesIn"] == 4000
        r = rows("Clients")["127.0.0.1"]
        assert r["Requests"] >= 33 and r["Refused"] >= 9, r
        (r,) = rows("Nodes").values()           # all of loopback come from one address
        assert r["Requests"] >= 6 and r["BytesIn"] > 2500, r
        assert "from/client" not in rows("Keys")
        size = len(acl.http("GET", "/v1/snapshot").ok(200).body)
        assert rows("Endpoints")["GET /v1/snapshot"]["BytesOut"] == size, (rows("Endpoints"), size)
        text = acl.http("GET", "/v1/agent/top").text
        assert token["SecretID"] not in text and acl.secret not in text
        assert server.get("/v1/agent/top").status == 403
        assert server.get("/v1/agent/top", headers=auth(acl.token('key_prefix "" { policy = "write" }'))).status == 403
        assert server.get("/v1/agent/top", headers=auth(acl.token('operator = "read"'))).status == 200
        shown = server.ctl("--token", acl.secret, "top")
        for word in ("Clients", "Tokens", "Endpoints", "Keys", "Nodes", "shop/cart/", token["AccessorID"], "GET /v1/kv/:name"):
            assert word in shown.stdout, shown.stdout
        shown = server.ctl("--token", acl.secret, "top", "keys")
        assert "shop/cart/" in shown.stdout and "Clients" not in shown.stdout
        shown = json.loads(server.ctl("--token", acl.secret, "--json", "top", "--for", "100ms").stdout)
        assert shown["Keys"] == [] and [r["Requests"] for r in shown["Endpoints"] if r["Name"] == "GET /v1/agent/top"] == [1], shown
        assert server.ctl("top", "nobody", check=False).returncode == 2
        assert server.ctl("top", "--for", "5 days", check=False).returncode == 2


def info_with(node, acl):
    stats = node.http("GET", "/v1/agent/self", headers=auth(acl.secret), unix=True).ok(200).json()["Stats"]["rpcd"]
    return {k: int(v) for k, v in stats.items() if v.isdigit()}


def reload_as_root(node, acl, keys):
    node.write("rpcd.conf", keys)
    r = node.http("PUT", "/v1/agent/reload", headers=auth(acl.secret), unix=True)
    need(r.status == 200, r)


main(test_rates, test_follower_and_client, test_tokens_have_rates, test_wrong_values, test_shut, test_tokens_in_clear, test_tokens_over_https,
     test_top)

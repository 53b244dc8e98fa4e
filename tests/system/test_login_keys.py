#!/usr/bin/env python3
"""Auth methods whose keys are fetched: JWKSURL and OIDCDiscoveryURL, by a process of raftd's own; issuers that rotate, hang, lie and are
gone; and what strangers can make us ask of them."""
import os
import pwd
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, auth, formed  # noqa: E402
from cluster import BUILD, CALM, Cluster, main, skip  # noqa: E402
from inject import inside, missing  # noqa: E402
from issuer import Issuer, Key, authority  # noqa: E402
from waiting import AGAIN, wait_for  # noqa: E402

MAPPED = {"BoundAudiences": ["triumvir"], "ClaimMappings": {"name": "name"}}
UNSIGNED = "error verifying token: failed to verify id token signature"


def set_method(acl, config, name="m", **more):
    return acl.http("PUT", "/v1/acl/auth-method", dict({"Name": name, "Type": "jwt", "Config": dict(MAPPED, **config)}, **more))


def with_rule(acl, name="m"):
    acl.ask("PUT", "/v1/acl/binding-rule", {"AuthMethod": name, "BindType": "service", "BindName": "${value.name}"})


def login(node, bearer, method="m"):
    return node.http("POST", "/v1/acl/login", {"AuthMethod": method, "BearerToken": bearer})


def token(key, **more):
    return key.token(dict({"aud": "triumvir", "name": "web"}, **more.pop("claims", {})), **more)


def refused(answer, text, status=500):
    assert answer.status == status and text in answer.body.decode(), answer


def figures(acl, node):
    return {k: v for k, v in node.stats("raftd", headers=auth(acl.secret)).items() if k.startswith(("key_", "helper_"))}


def fetchers():
    """Processes "raftd: fetch" that are at work: the children of those that start them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            with open("/proc/%s/net/dev" % pid, "rb"):
                same = os.readlink("/proc/%s/ns/net" % pid) == os.readlink("/proc/self/ns/net")
        except OSError:
            continue
        if name == "raftd: fetch" and same:
            found.append((int(pid), int(rest.split()[1])))
    pids = {pid for pid, _ in found}
    return [pid for pid, parent in found if parent in pids]


def test_keys_of_an_issuer():
    with Cluster("127.60.211") as c, Issuer(c.dir) as issuer:
        servers = c.servers(3, raftd=CALM, **ON)
        client = c.client("c1", 4, servers[0], **ON)
        acl, leader = formed(c, servers)
        one, two = Key(c.dir, "one"), Key(c.dir, "two", "RS256")
        issuer.publish(one, more=[{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}])
        made = set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca}).ok(200).json()
        assert made["Config"]["JWKSURL"] == issuer.url + "/keys", made
        with_rule(acl)
        wait_for("the client knows the method", lambda: login(client, token(one)).status == 200)
        for node in servers + [client]:
            secret = login(node, token(one)).ok(200).json()["SecretID"]
            assert node.get("/v1/acl/token/self", headers=auth(secret)).status == 200
        asked = len(issuer.asked)
        assert asked == 1, issuer.asked
        refused(login(client, token(two, kid="one")), UNSIGNED)
        # Keys that are rotated: what an unknown name asks for is there soon.
        issuer.publish(two)
        wait_for("the new key", lambda: login(client, token(two)).status == 200)
        refused(login(leader, token(one)), UNSIGNED)
        # What strangers bring makes nobody ask for more.
        asked, began = len(issuer.asked), time.monotonic()
        for i in range(60):
            refused(login(leader, token(one, kid="stranger-%d" % i)), UNSIGNED)
        allowed = 1 + (time.monotonic() - began) / 5
        assert len(issuer.asked) - asked <= allowed, (issuer.asked[asked:], allowed)
        refused(login(leader, "no.token.at-all"), "error verifying token: oidc: malformed jwt: ")
        # Keys that are known serve on when nobody answers any more; nothing new is learnt.
        issuer.stop()
        login(client, token(two)).ok(200)
        wait_for("nobody is there", lambda: "fetching keys Get " in login(client, token(one)).body.decode())
        login(client, token(two)).ok(200)
        seen = figures(acl, leader)
        assert int(seen["key_sets"]) == 1 and int(seen["key_fetches"]) >= 3 and int(seen["key_fetch_failures"]) >= 1, seen
        assert "/keys" in seen["key_fetch_last"], seen


def test_methods_that_are_refused():
    with Cluster("127.60.212") as c, Issuer(c.dir) as issuer:
        servers = c.servers(1, **ON)
        acl, leader = formed(c, servers)
        key, other = Key(c.dir, "one"), authority(c.dir, "other")[0]
        with open(other, encoding="utf-8") as f:
            other = f.read()
        issuer.publish(key)
        issuer.paths["/text"] = b"<html>"
        issuer.paths["/list"] = b"[]"
        issuer.paths["/unusable"] = b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"x"}]}'
        issuer.paths["/deep"] = b'{"keys":' + b"[" * 100000
        issuer.endless("/endless")
        issuer.leads("/here", "/there")
        issuer.leads("/there", "/keys")
        issuer.leads("/loop", "/loop")
        issuer.leads("/clear", "http://localhost:%d/keys" % issuer.port)
        issuer.leads("/file", "file:///etc/hostname")

        def jwks(path, ca=None):
            return set_method(acl, {"JWKSURL": issuer.url + path, "JWKSCACert": ca or issuer.ca})

        start = "Invalid Auth Method: error checking JWKSURL: "
        for path, text in {"/nothing": "it answers with status 404", "/text": "what it answers is no JSON object",
                           "/list": "what it answers is no JSON object", "/unusable": "none of its keys can be used: ",
                           "/deep": "what it answers is no JSON object", "/endless": "it answers with more than 1048576 bytes",
                           "/loop": "redirects", "/clear": "rotocol", "/file": "rotocol"}.items():
            answer = jwks(path)
            refused(answer, start)
            refused(answer, text)
        assert issuer.asked.count("/loop") == 4, issuer.asked
        refused(jwks("/keys", other), start)
        refused(set_method(acl, {"JWKSURL": issuer.url + "/keys"}), start)          # the system's authorities do not know it
        refused(set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": "x"}), "error checking JWKSCACert: ")
        refused(set_method(acl, {"JWKSURL": "http://127.0.0.1:1/"}), start + "Get http://127.0.0.1:1/: ")
        refused(set_method(acl, {"JWKSURL": "https://no-such-host.invalid/keys"}), start)
        # What is wrong in itself is told without a question to anybody.
        asked = len(issuer.asked)
        refused(set_method(acl, {"JWKSURL": issuer.url + "/keys"}, MaxTokenTTL="1s"), "MaxTokenTTL")
        refused(set_method(acl, {"JWKSURL": issuer.url + "/keys", "Zoo": 1}), "invalid keys: Zoo")
        assert len(issuer.asked) == asked, issuer.asked
        assert acl.ask("GET", "/v1/acl/auth-methods") == []
        for path in ("/keys", "/here"):
            jwks(path).ok(200)
        # A document that a method has had once is asked for again when the method is written again.
        asked = issuer.asked.count("/keys")
        jwks("/keys").ok(200)
        assert issuer.asked.count("/keys") == asked + 1


def test_discovery():
    with Cluster("127.60.213") as c, Issuer(c.dir) as issuer:
        servers = c.servers(3, raftd=CALM, **ON)
        acl, leader = formed(c, servers)
        one, two = Key(c.dir, "one"), Key(c.dir, "two", "RS256")
        issuer.publish(one, two)
        config = {"OIDCDiscoveryURL": issuer.url, "OIDCDiscoveryCACert": issuer.ca}
        start = "Invalid Auth Method: error checking OIDCDiscoveryURL: "
        refused(set_method(acl, config), start)                                    # there is no document
        issuer.discoverable("https://somebody.else/")
        refused(set_method(acl, config), 'issuer did not match the issuer returned by provider, expected "%s" got "https://somebody.else/"'
                % issuer.url)
        issuer.discoverable(keys="/nothing")
        refused(set_method(acl, config), start)
        issuer.discoverable(jwks_uri="file:///etc/hostname")
        refused(set_method(acl, config), start)
        issuer.discoverable(id_token_signing_alg_values_supported=["RS256", "HS256"])
        set_method(acl, config).ok(200)
        with_rule(acl)
        ours = {"iss": issuer.url}
        login(leader, token(two, claims=ours)).ok(200)
        refused(login(leader, token(one, claims=ours)), 'unsupported algorithm, expected ["RS256"] got "ES256"')
        refused(login(leader, token(two)), "id token issued by a different provider")
        refused(login(leader, token(two, claims=dict(ours, aud="x"))), "aud claim does not match any bound audience")
        refused(login(leader, token(two, claims=dict(ours, exp=1600000000))), "oidc: token is expired (Token Expiry: 2020-09-13 12:26:40 +0000")
        set_method(acl, dict(config, JWTSupportedAlgs=["ES256"])).ok(200)
        login(leader, token(one, claims=ours)).ok(200)
        refused(login(leader, token(two, claims=ours)), 'unsupported algorithm, expected ["ES256"] got "RS256"')
        # Another leader has fetched nothing yet.
        leader.kill("raftd")
        rest = [n for n in servers if n is not leader]

        def asked():
            try:
                return login(rest[0], token(one, claims=ours)).status == 200
            except AGAIN:
                return False
        wait_for("a login by the next leader", asked)


def test_an_issuer_that_hangs():
    with Cluster("127.60.214") as c, Issuer(c.dir) as issuer:
        servers = c.servers(1, **ON)
        acl, leader = formed(c, servers)
        key = Key(c.dir, "one")
        issuer.publish(key)
        issuer.publish(key, path="/other")
        for name, path in (("m", "/keys"), ("n", "/other")):
            set_method(acl, {"JWKSURL": issuer.url + path, "JWKSCACert": issuer.ca}, name).ok(200)
            with_rule(acl, name)
        # raftd starts again, and has no keys.
        leader.stop("raftd")
        leader.start("raftd")
        wait_for("it leads", lambda: login(leader, token(key), "n").status == 200)
        issuer.hangs("/keys")
        answers = []
        waiting = [threading.Thread(target=lambda: answers.append(login(leader, token(key)))) for _ in range(20)]
        for t in waiting:
            t.start()
        pid = wait_for("a process that fetches", fetchers)[0]
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        if os.geteuid() == 0:
            assert status["Uid"].split() == [str(pwd.getpwnam("_fetch").pw_uid)] * 4, status["Uid"]
            assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0
        wait_for("its walls", lambda: "Seccomp:\t2" in open("/proc/%d/status" % pid, encoding="utf-8").read())
        # Everybody else is served meanwhile, and all those who wait have one process.
        began = time.monotonic()
        for i in range(20):
            acl.ask("PUT", "/v1/kv/a%d" % i, b"1")
            login(leader, token(key), "n").ok(200)
        assert time.monotonic() - began < 8 and not answers, (time.monotonic() - began, answers)
        assert len(fetchers()) == 1 and issuer.asked.count("/keys") == 2, (fetchers(), issuer.asked)
        for t in waiting:
            t.join()
        assert len(answers) == 20
        for answer in answers:
            refused(answer, "error verifying token: fetching keys Get %s/keys: no whole answer in time" % issuer.url)
        wait_for("it has ended", lambda: not fetchers())
        # So it is remembered for a moment, and asked again later.
        asked = issuer.asked.count("/keys")
        refused(login(leader, token(key)), "no whole answer in time")
        issuer.publish(key)
        wait_for("a login", lambda: login(leader, token(key)).status == 200)
        assert issuer.asked.count("/keys") >= asked + 1
        # A process that is killed is no answer, and the next one is another.
        issuer.hangs("/keys")
        answers.clear()
        t = threading.Thread(target=lambda: answers.append(set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca})))
        t.start()
        os.kill(wait_for("a process that fetches", fetchers)[0], 9)
        t.join()
        refused(answers[0], "has ended without an answer")
        issuer.publish(key)
        set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca}).ok(200)
        # And a server that ends does not wait for it.
        issuer.hangs("/keys")
        t = threading.Thread(target=lambda: set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca}))
        t.start()
        wait_for("a process that fetches", fetchers)
        began = time.monotonic()
        leader.stop("raftd")
        wait_for("nothing is left of it", lambda: not fetchers())
        assert time.monotonic() - began < 5
        t.join()


def test_who_does_not_wait():
    """rpcd dies while logins and methods wait for keys; and a process that is frozen is given up, and killed."""
    with Cluster("127.60.217") as c, Issuer(c.dir) as issuer:
        servers = c.servers(1, **ON)
        acl, leader = formed(c, servers)
        key = Key(c.dir, "one")
        issuer.publish(key)
        config = {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca}
        set_method(acl, config).ok(200)
        with_rule(acl)
        leader.stop("raftd")
        leader.start("raftd")
        wait_for("it leads", lambda: acl.http("GET", "/v1/kv/a").status == 404)
        issuer.hangs("/keys")

        def ask(what, *args):
            try:
                answers.append(what(*args))
            except OSError:
                pass                        # its rpcd has died
        answers = []
        asking = [threading.Thread(target=ask, args=(login, leader, token(key))) for _ in range(4)]
        asking.append(threading.Thread(target=ask, args=(set_method, acl, config)))
        for t in asking:
            t.start()
        wait_for("all wait", lambda: figures(acl, leader)["key_fetch_waiting"] == "5")
        pid = leader.pid("raftd")
        leader.kill("rpcd")
        for t in asking:
            t.join()
        leader.start("rpcd")
        wait_for("nobody waits", lambda: figures(acl, leader)["key_fetch_waiting"] == "0")
        assert leader.pid("raftd") == pid and not answers, answers
        # Frozen: raftd does not wait for it, and it does not stay.
        t = threading.Thread(target=ask, args=(set_method, acl, config))
        t.start()
        os.kill(wait_for("a process that fetches", fetchers)[0], signal.SIGSTOP)
        t.join()
        refused(answers[0], "the process that was to fetch them does not answer")
        seen = figures(acl, leader)
        assert seen["key_fetch_stuck"] == "1" and seen["helper_fetch"].startswith("one did not answer"), seen
        wait_for("it was killed", lambda: not fetchers())
        issuer.publish(key)
        set_method(acl, config).ok(200)
        login(leader, token(key)).ok(200)


def test_walls():
    """From inside of it: the process that reads what issuers say may make connections to them, and nothing else."""
    if missing() is not None:
        skip(missing())
    with Cluster("127.60.215") as c, Issuer(c.dir) as issuer:
        servers = c.servers(1, **ON)
        acl, leader = formed(c, servers)
        issuer.hangs("/keys")
        t = threading.Thread(target=lambda: set_method(acl, {"JWKSURL": issuer.url + "/keys", "JWKSCACert": issuer.ca}))
        t.start()
        pid = wait_for("a process that fetches", lambda: issuer.asked and fetchers())[0]
        raftd, uid = leader.pid("raftd"), pwd.getpwnam("_raftd").pw_uid

        def c_open(path, flags=0):
            return "openat", -100, path.encode() + b"\0", flags, 0o600

        tries = {
            "open raftd's folder": c_open(leader.data + "/raftd"),
            "open the server key": c_open(c.keys + "/server.key"),
            "open /etc/passwd": c_open("/etc/passwd"),
            "write a file": c_open("/tmp/tv-fetch-%d" % os.getpid(), os.O_WRONLY | os.O_CREAT),
            "write where certificates are": c_open("/etc/ssl/tv-fetch", os.O_WRONLY | os.O_CREAT),
            "run a program": ("execve", b"/bin/true\0", 0, 0),
            "fork": ("fork",),
            "vfork": ("vfork",),
            "trace raftd": ("ptrace", 16, raftd, 0, 0),
            "signal raftd": ("kill", raftd, 9),
            "become root": ("setuid", 0),
            "become raftd": ("setresuid", uid, uid, uid),
            "open a unix socket": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
            "open a raw socket": ("socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
            "open a packet socket": ("socket", socket.AF_PACKET, socket.SOCK_RAW, 0),
        }
        failed = [n for n, result in zip(tries, inside(pid, *tries.values())) if result >= 0]
        assert not failed, "raftd: fetch may: " + "; ".join(failed)
        assert sorted(os.listdir("/proc/%d/fd" % pid), key=int)[:3] == ["0", "1", "2"]
        open_files = {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}
        assert not any(f.startswith((leader.data, c.keys)) for f in open_files), open_files
        t.join()


def test_without_the_program():
    """A server that has no raftd-fetch, or no user for it, serves all but such methods, and says so."""
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as alone:
        os.chmod(alone, 0o755)
        for name in ("ctl/clusterctl", "gossipd/gossipd", "raftd/raftd", "rpcd/rpcd", "rpcd/rpcd-check", "rpcd/rpcd-dns"):
            os.makedirs(os.path.dirname(os.path.join(alone, name)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, name), os.path.join(alone, name))
        with Cluster("127.60.216", build=alone) as c:
            acl, leader = formed(c, c.servers(1, **ON))
            refused(set_method(acl, {"JWKSURL": "http://127.0.0.1:1/"}), "error checking JWKSURL: raftd-fetch did not start with raftd")
            assert "[WARN] fetch: " in leader.log("raftd") and "raftd-fetch" in leader.log("raftd")


main(test_keys_of_an_issuer, test_methods_that_are_refused, test_discovery, test_an_issuer_that_hangs, test_who_does_not_wait,
     test_walls, test_without_the_program)

#!/usr/bin/env python3
"""clusterctl acl against servers with access control on and default deny: what a person does from the first token on, that
what `acl explain` says is what the servers do, and that no secret is where it should not be."""
import base64
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main, moved  # noqa: E402
from waiting import wait_for  # noqa: E402

ON = {"acl.enabled": True, "acl.default_policy": "deny"}
RULES = """# what the deployment does
key_prefix "app/" {
  policy = "write"
}
key "app/secret" { policy = "deny" }
key_prefix "shared/" { policy = "read" }
service "web" { policy = "write" }
node_prefix "" { policy = "read" }
"""


class Shell:
    """Calls of clusterctl with the token of a file, against one node."""

    def __init__(self, node, token=None):
        self.node, self.token = node, token

    def __call__(self, *words, status=0, **kw):
        p = self.node.ctl(*(["--token-file", self.token] if self.token else []), *words, check=False, **kw)
        assert p.returncode == status, "clusterctl %s: %d\n%s%s" % (" ".join(words), p.returncode, p.stdout, p.stderr)
        return p

    def json(self, *words, **kw):
        return json.loads(self("--json", *words, **kw).stdout)


def in_file(path):
    with open(path) as f:
        return f.read()


def to_file(path, text, mode=0o600):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def started(c, **keys):
    """A server that leads, with access control on, and a file with the secret of its first token."""
    node = c.add("n1", 1, raftd={"bootstrap": True}, **dict(ON, **keys)).start()
    path = os.path.join(c.dir, "first")
    wait_for("the first token", lambda: node.ctl("acl", "bootstrap", "--out", path, check=False).returncode == 0)
    return node, Shell(node, path)


def test_first_token():
    with Cluster("127.147.1") as c:
        node, admin = started(c)
        secret = in_file(admin.token).strip()
        assert stat.S_IMODE(os.stat(admin.token).st_mode) == 0o600 and len(secret) == 36, secret
        assert admin("acl", "token", "self", "--show-secret").stdout.count(secret) == 1
        # What is there is not written over, and no token is made then.
        assert "File exists" in Shell(node)("acl", "bootstrap", "--out", admin.token, status=1).stderr
        p = Shell(node)("acl", "bootstrap", "--out", admin.token + "2", status=77)
        index = re.search(r"echo (\d+) > \S+/raftd/acl-bootstrap-reset", p.stderr).group(1)
        assert not os.path.exists(admin.token + "2")
        reset = to_file(os.path.join(node.data, "raftd", "acl-bootstrap-reset"), index + "\n", 0o644)
        Shell(node)("acl", "bootstrap", "--out", admin.token + "2")
        wait_for("the file of the reset goes", lambda: not os.path.exists(reset))
        again = Shell(node, admin.token + "2")
        assert {t["Description"] for t in again.json("acl", "token", "list")} >= {"Anonymous Token"}
        # The token of before went with the reset.
        p = admin("acl", "token", "list", status=77)
        assert "of --token-file is not known here" in p.stderr and secret not in p.stderr, p


def explained(shell, accessor, about, access):
    """Whether `acl explain` says that it is allowed; both of its ways say the same."""
    p = shell.node.ctl("--token-file", shell.token, "--json", "acl", "explain", "--accessor", accessor, about, access, check=False)
    told = json.loads(p.stdout)
    assert p.returncode == (0 if told["Allowed"] else 1), p
    text = shell("acl", "explain", "--accessor", accessor, about, access, status=p.returncode).stdout
    assert text.startswith("%s: %s %s" % ("allowed" if told["Allowed"] else "not allowed", about, access)), text
    return told["Allowed"], told


def test_what_explain_says_is_so():
    """For each key and access: the servers do what it says, at a server and at a client; and its advice helps."""
    with Cluster("127.147.2") as c:
        node, admin = started(c)
        client = c.client("c1", 2, node, **ON)
        admin("acl", "policy", "create", "app", "--rules", "@" + to_file(os.path.join(c.dir, "rules"), RULES, 0o644))
        admin("acl", "role", "create", "deploy", "--policy-name", "app")
        path = os.path.join(c.dir, "deploy")
        admin("acl", "token", "create", "--role-name", "deploy", "--description", "deployment", "--out", path)
        deploy = Shell(node, path)
        accessor = deploy.json("acl", "token", "self")["AccessorID"]
        header = {"X-Consul-Token": in_file(path).strip()}
        wait_for("the client answers", lambda: client.get("/v1/status/leader").ok().json())
        for key in ("app/x", "app/secret", "app/secret2", "shared/x", "sharedx", "other"):
            for where in (node, client):
                write = where.put("/v1/kv/" + key, b"v", headers=header).ok(200, 403).status == 200
                read = where.get("/v1/kv/" + key, headers=header).ok(200, 404, 403).status != 403
                assert explained(admin, accessor, "key:" + key, "write")[0] == write, (where.name, key)
                assert explained(admin, accessor, "key:" + key, "read")[0] == read, (where.name, key)
        told = explained(admin, accessor, "key:app/x", "write")[1]
        assert told["Rule"]["Of"] == dict(told["Rule"]["Of"], Kind="policy", Name="app", Role="deploy"), told
        assert told["Rule"]["Line"] == 2 and told["Rule"]["Text"] == 'key_prefix "app/" { policy = "write" }', told
        text = admin("acl", "explain", "--accessor", accessor, "key:app/x", "write").stdout
        assert "line 2 of policy app, by role deploy" in text, text
        # A deny of the same name is not outweighed: no rule is advised.
        assert "Missing" not in explained(admin, accessor, "key:app/secret", "read")[1]
        # What it advises helps, until it is taken away.
        missing = explained(admin, accessor, "key:other", "write")[1]["Missing"]
        admin("acl", "policy", "create", "more", "--rules", missing)
        admin("acl", "token", "update", "--merge", "--policy-name", "more", accessor)
        assert explained(admin, accessor, "key:other", "write")[0]
        deploy("kv", "put", "other", "v")
        admin("acl", "token", "update", "--clear", "policies", accessor)
        p = deploy("kv", "put", "other", "v", status=77)
        assert "Permission denied" in p.stderr and "accessor %s (deployment)" % accessor in p.stderr, p
        assert "`clusterctl acl explain " in p.stderr and header["X-Consul-Token"] not in p.stderr, p
        # Rules of later versions of Consul: kept as they were written, and operator stands for them where they are missing.
        for name, rules, may in (("mesh", 'operator = "read"\nmesh = "write"\n', ("write", "read")),
                                 ("peering", '{"operator":"write","peering":"deny"}', ("write", None))):
            admin("acl", "policy", "create", name, "--rules", rules)
            assert admin.json("acl", "policy", "read", name)["Rules"] == rules
            admin("acl", "token", "update", "--clear", "policies", "--policy-name", name, accessor)
            for about, most in zip(("mesh", "peering"), may):
                for access in ("read", "write"):
                    allowed, told = explained(admin, accessor, about, access)
                    assert allowed == (most == "write" or most == access), (name, about, access, told)
        # Who may not read tokens is told how they are explained; who shows none, that it counts as anonymous.
        assert 'acl = "read"' in deploy("acl", "explain", "key:app/x", "read", status=77).stderr
        assert "No token was shown" in Shell(node)("kv", "put", "app/x", "v", status=77).stderr


def test_tokens():
    with Cluster("127.147.3") as c:
        node, admin = started(c)
        admin("acl", "policy", "create", "app", "--description", "for it", "--rules", "-", input=RULES)
        assert admin("acl", "policy", "read", "--text", "app").stdout == RULES
        table = [line.split() for line in admin("acl", "policy", "read", "app").stdout.splitlines()]
        assert ["key", "app/", "prefix", "write", "2"] in table and ["key", "app/secret", "exact", "deny", "5"] in table, table
        assert ["node", "all", "read", "8"] in table, table
        local = admin.json("acl", "token", "create", "--local", "--service-identity", "web")
        assert local["Local"] is True and local["ServiceIdentities"] == [{"ServiceName": "web"}], local
        made = admin.json("acl", "token", "create", "--policy-name", "app", "--service-identity", "web:dc1,dc2", "--service-identity",
                          "api", "--node-identity", "n1:dc1", "--ttl", "1h", "--description", "a")
        accessor, secret = made["AccessorID"], made["SecretID"]
        assert made["ServiceIdentities"] == [{"ServiceName": "api"}, {"ServiceName": "web", "Datacenters": ["dc1", "dc2"]}], made
        assert made["Local"] is False and made["ExpirationTime"] and made["Policies"][0]["Name"] == "app", made
        # The secret is shown when it is asked for, and never else.
        for words in (["token", "read", accessor], ["token", "list"], ["token", "update", "--description", "b", accessor]):
            for json_too in ([], ["--json"]):
                p = admin(*json_too, "acl", *words)
                assert accessor in p.stdout and secret not in p.stdout + p.stderr, p
        assert secret in admin("acl", "token", "read", "--show-secret", accessor).stdout
        kept = admin.json("acl", "token", "read", accessor)
        assert kept["Description"] == "b" and kept["Policies"] == made["Policies"] and kept["NodeIdentities"] == made["NodeIdentities"], kept
        admin("acl", "token", "update", "--clear", "service-identities", "--node-identity", "n2:dc1", accessor)
        kept = admin.json("acl", "token", "read", accessor)
        assert "ServiceIdentities" not in kept and kept["NodeIdentities"] == [{"NodeName": "n2", "Datacenter": "dc1"}], kept
        clone = admin.json("acl", "token", "clone", "--description", "c", accessor)
        assert clone["AccessorID"] != accessor and clone["Policies"] == made["Policies"], clone
        of_app = [t["AccessorID"] for t in admin.json("acl", "token", "list", "--policy", "app")]
        assert sorted(of_app) == sorted([accessor, clone["AccessorID"]]), of_app
        # A secret of one's own choice.
        own = "11111111-2222-4333-8444-555555555555"
        admin("acl", "token", "create", "--policy-name", "app", "--secret-file", to_file(os.path.join(c.dir, "own"), own + "\n"))
        Shell(node, os.path.join(c.dir, "own"))("kv", "put", "app/own", "1")
        # Renamed, and gone: what is left of it.
        admin("acl", "policy", "update", "--name", "app2", "app")
        assert admin("acl", "policy", "read", "--text", "app2").stdout == RULES
        admin("acl", "policy", "delete", "app2")
        assert "Policies" not in admin.json("acl", "token", "read", accessor)
        admin("acl", "token", "delete", accessor)
        p = admin("acl", "token", "read", accessor, status=1)
        assert "there is no token \"%s\"\n`clusterctl acl token list`" % accessor in p.stderr, p
        # Roles likewise.
        admin("acl", "role", "create", "r", "--service-identity", "web")
        admin("acl", "role", "update", "--name", "s", "--description", "d", "r")
        role = admin.json("acl", "role", "read", "s")
        assert (role["Name"], role["Description"], role["ServiceIdentities"]) == ("s", "d", [{"ServiceName": "web"}]), role
        assert "there is no role \"r\"" in admin("acl", "role", "read", "r", status=1).stderr
        admin("acl", "role", "delete", "s")
        assert 'key_prefix "a"' in admin("acl", "translate", "-", input='key "a" { policy = "read" }').stdout
        assert "Failed to parse rules" in admin("acl", "translate", "-", input="key {", status=1).stderr
        assert "Enabled:" in admin("acl", "replication").stdout


def test_where_tokens_come_from():
    with Cluster("127.147.4") as c:
        node, admin = started(c)
        secret = in_file(admin.token).strip()
        public = to_file(os.path.join(c.dir, "public"), secret, 0o644)
        p = Shell(node, public)("kv", "put", "a", "1", status=1)
        assert "is accessible to others (mode 0644): chmod 600 " + public in p.stderr and secret not in p.stderr, p
        Shell(node, "-")("kv", "put", "a", "-", input=secret + "\nvalue")
        assert admin("kv", "get", "a").stdout == "value"
        p = Shell(node)("--token", secret, "kv", "get", "a")
        assert p.stdout == "value" and "can see a token on the command line" in p.stderr, p
        for name, value in (("TRIUMVIR_TOKEN", secret), ("CONSUL_HTTP_TOKEN", secret), ("CONSUL_HTTP_TOKEN_FILE", admin.token)):
            os.environ[name] = value
            try:
                assert Shell(node)("kv", "get", "a").stdout == "value", name
                assert "Permission denied" in Shell(node)("--token", "", "kv", "put", "a", "2", status=77).stderr
            finally:
                del os.environ[name]
        # It is not among the words of a process that waits.
        p = node.ctl_start("--token", secret, "lock", "jobs/x", "sleep", "600")
        try:
            wait_for("the secret is overwritten", lambda: "lock" in cmdline(p.pid) and secret not in cmdline(p.pid))
            held = wait_for("the lock is held", lambda: "jobs/x" in admin("kv", "list", "jobs/x").stdout)
            assert held and secret not in cmdline(p.pid)
        finally:
            p.terminate()
            p.wait(60)


def cmdline(pid):
    with open("/proc/%d/cmdline" % pid, "rb") as f:
        return f.read().replace(b"\0", b" ").decode()


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(key, claims):
    """A JWT with RS256, by openssl."""
    text = b64(json.dumps({"alg": "RS256", "typ": "JWT"}).encode()) + "." + b64(json.dumps(claims).encode())
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text.encode(), check=True, capture_output=True)
    return text + "." + b64(made.stdout)


def test_logins():
    with Cluster("127.147.5") as c:
        node, admin = started(c)
        key = os.path.join(c.dir, "key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        public = subprocess.run(["openssl", "rsa", "-in", key, "-pubout"], check=True, capture_output=True, text=True).stdout
        config = {"JWTValidationPubKeys": [public], "BoundIssuer": "ci", "ClaimMappings": {"project": "project"}}
        admin("acl", "auth-method", "create", "ci", "--type", "jwt", "--max-token-ttl", "1h", "--config", "-",
              input=json.dumps(config))
        assert admin.json("acl", "auth-method", "read", "ci")["Config"]["BoundIssuer"] == "ci"
        admin("acl", "auth-method", "update", "--description", "builds", "ci")
        kept = admin.json("acl", "auth-method", "read", "ci")
        assert kept["Description"] == "builds" and kept["MaxTokenTTL"] in ("1h", "1h0m0s") and kept["Config"] == config, kept
        admin("acl", "policy", "create", "app", "--rules", RULES)
        admin("acl", "role", "create", "deploy-web", "--policy-name", "app")
        rule = admin.json("acl", "binding-rule", "create", "--method", "ci", "--bind-type", "role", "--bind-name",
                          "deploy-${value.project}", "--selector", 'value.project != ""')["ID"]
        admin("acl", "binding-rule", "update", "--description", "d", rule)
        assert [r["Description"] for r in admin.json("acl", "binding-rule", "list", "--method", "ci")] == ["d"]
        now = int(time.time())
        jwt = to_file(os.path.join(c.dir, "jwt"), signed(key, {"iss": "ci", "iat": now, "exp": now + 300, "project": "web"}))
        path = os.path.join(c.dir, "login")
        p = Shell(node)("acl", "login", "--method", "ci", "--bearer-token-file", jwt, "--meta", "job=7", "--out", path)
        assert in_file(path).strip() not in p.stdout + p.stderr and "ci" in p.stdout, p
        login = Shell(node, path)
        login("kv", "put", "app/x", "1")
        made = login.json("acl", "token", "self")
        assert made["AuthMethod"] == "ci" and '{"job":"7"}' in made["Description"], made
        assert [t["AccessorID"] for t in admin.json("acl", "token", "list", "--method", "ci")] == [made["AccessorID"]]
        login("acl", "logout")
        assert "is not known here" in login("kv", "put", "app/x", "2", status=77).stderr
        os.chmod(jwt, 0o644)
        assert "accessible to others" in Shell(node)("acl", "login", "--method", "ci", "--bearer-token-file", jwt, status=1).stderr
        admin("acl", "binding-rule", "delete", rule)
        admin("acl", "auth-method", "delete", "ci")
        assert admin.json("acl", "auth-method", "list") == []


def test_for_developers():
    """clusterctl dev --acl: the line that it prints gives every right, and without it there is none."""
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as where:
        os.chmod(where, 0o755)          # started by root it runs as nobody
        for name in ("ctl/clusterctl", "gossipd/gossipd", "gossipd/gossipd-names", "raftd/raftd", "raftd/raftd-fetch", "rpcd/rpcd", "rpcd/rpcd-check",
                     "rpcd/rpcd-dns"):
            shutil.copy(os.path.join(BUILD, name), where)
        ctl, address = os.path.join(where, "clusterctl"), moved("127.147.6") + ".1"
        p = subprocess.Popen([ctl, "dev", "--acl", "--bind", address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             env=dict(os.environ, TMPDIR=where), text=True)
        try:
            text = ""
            while "Stop with" not in text:
                line = p.stdout.readline()
                assert line, "ended: " + text
                text += line
            name, _, secret = re.search(r"^  export (\S+)$", text, re.M).group(1).partition("=")
            calls = [ctl, "--addr", address + ":8500", "kv", "put", "a", "1"]
            plain = subprocess.run(calls, capture_output=True, text=True, timeout=60)
            assert plain.returncode == 77 and "Permission denied" in plain.stderr, plain
            subprocess.run(calls, check=True, timeout=60, env=dict(os.environ, **{name: secret}))
            for line in re.findall(r"^ +(?:try  +)?(curl .*)$", text, re.M):
                done = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True, timeout=60,
                                      env=dict(os.environ, **{name: secret}))
            assert done.stdout == "hello", done
        finally:
            p.terminate()
            p.communicate(timeout=60)
        assert p.returncode == 0 and not glob.glob(os.path.join(where, "triumvir-dev.*")), p.returncode


main(test_first_token, test_what_explain_says_is_so, test_tokens, test_where_tokens_come_from, test_logins, test_for_developers)

#!/usr/bin/env python3
"""clusterctl: exit status 2 for a wrong call, 1 for what did not work, a sentence that helps, and what commands do."""
import base64
import fnmatch
import glob
import http.client
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, CALM, TOP, Cluster, main, moved  # noqa: E402
from smalldisk import SmallDisk  # noqa: E402
from waiting import wait_for  # noqa: E402


def ctl(*args):
    p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), *args], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, timeout=60)
    return p.returncode, p.stdout, p.stderr


def expect(status, says, *args):
    rc, out, err = ctl(*args)
    assert rc == status and says in (out if rc == 0 else err), (args, rc, out, err)


def test_wrong_calls():
    expect(2, "usage: clusterctl")
    expect(2, 'no command "nonsense"', "nonsense")
    expect(2, "--addr needs a value", "--addr")
    expect(2, "no command", "--addrx", "members")
    expect(2, "write HOST:PORT or unix:PATH", "--addr", "unix:relative", "members")
    expect(2, "usage: clusterctl members", "members", "extra")
    expect(2, 'unknown option "--bogus"', "members", "--bogus")
    expect(2, "--dc needs a value", "catalog", "nodes", "--dc")
    for command in ("join", "force-leave", "rtt", "kv", "event", "query", "catalog", "raft"):
        expect(2, "usage: clusterctl " + command, command)
        expect(0, "usage: clusterctl " + command, command, "--help")
    expect(2, '--cas: "x" is not a number', "kv", "put", "--cas", "x", "a", "b")
    expect(2, "usage: clusterctl event", "event", "fire")
    expect(2, "usage: clusterctl event", "event", "list", "--exec", "x")
    expect(2, "--name:", "event", "watch", "--name", "(")
    expect(2, "is no length of time", "query", "--timeout", "5", "x")
    expect(2, "needs a value", "query", "x", "--node")
    expect(2, "usage: clusterctl query", "query", "answer", "x", "--text", "a", "--exec", "b")
    expect(2, "usage: clusterctl version", "version", "extra")
    # An option of another verb is not passed over: who types --dry-run relies on it.
    expect(2, "raft remove-peer has no option --dry-run", "raft", "remove-peer", "--dry-run", "n1")
    expect(2, "raft transfer-leader has no option --yes", "raft", "transfer-leader", "--yes")
    expect(2, "raft recover has no option --force", "raft", "recover", "--force")
    expect(2, "raft autopilot set NAME=VALUE...", "raft", "autopilot", "set")
    expect(2, "snapshot inspect has no option --yes", "snapshot", "inspect", "--yes", "x")
    expect(2, "snapshot restore has no option --stale", "snapshot", "restore", "--stale", "x")
    expect(2, "kv get has no option --recurse", "kv", "get", "--recurse", "x")
    expect(2, "kv put has no option --stale", "kv", "put", "x", "y", "--stale")
    expect(2, "catalog datacenters has no option --dc", "catalog", "datacenters", "--dc", "x")
    expect(2, "keyring remove has no option --keep-old", "keyring", "remove", "--keep-old", "x")
    expect(0, "usage: clusterctl raft", "raft", "recover", "--help")


def test_nobody_there():
    expect(69, "no answer from unix:/nowhere: No such file or directory", "--addr", "unix:/nowhere", "members")
    expect(69, "Is rpcd running there?", "--addr", "127.60.51.99:1", "info")
    expect(1, "/nowhere: No such file or directory", "validate", "/nowhere")
    for addr in "::1", "[::1]", "[::1]:8500", "127.60.54.99":
        expect(69, "port 8500", "--addr", addr, "members")
    expect(1, "/nowhere: No such file or directory", "keygen", "/nowhere")
    for verb in "inspect", "restore":
        expect(1, "/tmp: failed to read snapshot file: Is a directory", "snapshot", verb, "/tmp")
        expect(1, "/nowhere: No such file or directory", "snapshot", verb, "/nowhere")


def test_answer_that_breaks_off():
    """What began and did not end is told from nobody being there."""
    listening = socket.create_server(("127.0.0.1", 0))
    addr = "127.0.0.1:%d" % listening.getsockname()[1]

    def answer():
        for body in (b"[{", b"x" * 200000):
            s = listening.accept()[0]
            s.recv(65536)
            try:
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + body)
            except OSError:
                pass
            s.close()
    t = threading.Thread(target=answer, daemon=True)
    t.start()
    rc, _, err = ctl("--addr", addr, "members")
    assert rc == 69 and "the answer of %s was cut short" % addr in err and "Is rpcd" not in err, (rc, err)
    with tempfile.TemporaryDirectory() as folder:
        rc, _, err = ctl("--addr", addr, "snapshot", "save", os.path.join(folder, "x"))
        assert rc == 69 and "snapshot save: the answer of %s was cut short" % addr in err, (rc, err)
        assert os.listdir(folder) == []
    t.join()
    listening.close()


def test_keys_are_never_overwritten():
    with tempfile.TemporaryDirectory() as folder:
        expect(0, "server.key belongs on servers only", "keygen", folder)
        expect(1, "never overwritten", "keygen", folder)


def test_public_half():
    """server.pub is made from server.key at any time, and one of an older version is told apart."""
    with tempfile.TemporaryDirectory() as folder:
        pub = folder + "/server.pub"
        expect(1, "server.key: No such file", "keygen", "--pub", folder)
        expect(0, "server.key belongs on servers only", "keygen", folder)
        with open(folder + "/cluster.conf", "w") as f:
            f.write('server = true\nbind = "127.0.0.1"\n')
        with open(pub) as f:
            made = f.read()
        os.remove(pub)
        expect(0, "Wrote " + pub, "keygen", "--pub", folder)
        with open(pub) as f:
            assert f.read() == made
        assert os.stat(pub).st_mode & 0o777 == 0o644
        expect(0, "is valid (server node)", "validate", folder)
        with open(folder + "/server.key", "w") as f:        # a secret and its X25519 public half, which server.pub was
            f.write("dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\n")
        with open(pub, "w") as f:
            f.write("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\n")
        expect(1, "server.pub: was made by an older version: make it anew with clusterctl keygen --pub", "validate", folder)
        expect(0, "Wrote " + pub, "keygen", "--pub", folder)
        expect(0, "is valid (server node)", "validate", folder)


def test_validate_reads_the_keys():
    with tempfile.TemporaryDirectory() as folder:
        expect(0, "server.key belongs on servers only", "keygen", folder)
        with open(folder + "/cluster.conf", "w") as f:
            f.write('server = true\nbind = "127.0.0.1"\n')
        expect(0, "is valid (server node)", "validate", folder)
        key = folder + "/cluster.key"
        os.chmod(key, 0o666)
        expect(1, "cluster.key", "validate", folder)
        os.chmod(key, 0o600)
        with open(key, "w") as f:
            f.write("too short\n")
        expect(1, "cluster.key", "validate", folder)
        os.remove(key)
        os.symlink(folder + "/server.key", key)
        expect(1, "cluster.key", "validate", folder)


def test_on_a_server():
    with Cluster("127.60.51") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        at = ("--addr", node.addr + ":8500")
        expect(1, "Is a directory", *at, "kv", "put", "a", "@/")
        expect(1, "No such file", *at, "kv", "put", "a", "@/nowhere")
        expect(1, 'no key "a"', *at, "kv", "get", "a")
        expect(0, "", *at, "kv", "put", "a", "b")
        expect(1, "the condition did not hold", *at, "kv", "put", "--cas", "1", "a", "c")
        expect(1, "No path to datacenter", *at, "kv", "get", "--dc", "dc9", "a")
        with open(os.path.join(node.dir, "big"), "wb") as f:
            f.write(b"x" * 600000)
        expect(1, "the value has 600000 bytes, and limits.kv_max_value_size in rpcd.conf(5) allows 524288", *at, "kv", "put", "a",
               "@" + os.path.join(node.dir, "big"))
        assert set(json.loads(ctl("--json", "version")[1])) == {"Version"}
        rc, out, _ = ctl("--json", "validate", node.conf)
        assert rc == 0 and json.loads(out) == {"Folder": node.conf, "Server": True, "Valid": True}, out
        expect(1, 'no section "nosuch" on this node\n', *at, "info", "nosuch")
        expect(1, "clusterctl: join: nobody: ", *at, "join", "nobody")
        expect(1, "Failed to resolve nobody: ", *at, "join", "nobody")
        away = "dial tcp 127.60.51.99:8301: connect: connection refused"
        expect(1, "clusterctl: join: 127.60.51.99: %s\n" % away, *at, "join", "127.60.51.99")
        a = node.put("/v1/agent/join/127.60.51.99")
        assert (a.status, a.text) == (500, "1 error occurred:\n\t* Failed to join 127.60.51.99: %s\n\n" % away), a
        expect(1, "No node found", *at, "force-leave", "nobody")
        expect(1, 'no server "nobody"', *at, "raft", "remove-peer", "nobody")
        expect(1, 'no server "nobody"', *at, "raft", "transfer-leader", "nobody")
        expect(1, "no other voter can lead", *at, "raft", "transfer-leader")
        expect(1, "is the leader already", *at, "raft", "transfer-leader", node.name)
        expect(1, "quorum would be lost", *at, "raft", "remove-peer", node.name)
        expect(0, "reloaded", *at, "reload")
        expect(0, "", *at, "kv", "put", "a", "--", "--help")        # behind "--" it is a value
        assert node.kv_get("a") == b"--help"
        expect(2, "is no value for MaxTrailingLogs", *at, "raft", "autopilot", "set", "MaxTrailingLogs=18446744073709551616")
        expect(1, "No path to datacenter", *at, "snapshot", "save", "--dc", "nowhere", os.path.join(node.dir, "x"))
        node.kill("raftd")
        wait_for("raftd's end is known", lambda: node.stats("rpcd")["raftd"] == "away")
        expect(1, 'no section "raft" on this node; raftd does not run there', *at, "info", "raft")
        expect(1, "raftd is not running on this node", *at, "leave")


def test_hints():
    """Who comes from Consul, or mistypes, is told the word; nothing is asked or changed for it."""
    nowhere = ("--addr", "unix:/nowhere")
    for says, *args in (
            ('did you mean "members"?', "memebers"), ('did you mean "snapshot"?', "snapshto", "save", "x"),
            ('did you mean "delete"?', "kv", "delte", "x"), ('did you mean "list-peers"?', "raft", "list-peer"),
            ("Did you mean --detailed?", "members", "--detail"), ("Did you mean --recurse?", "kv", "delete", "--recurs", "x"),
            ("is here: clusterctl raft list-peers", "operator", "raft", "list-peers"),
            ("is here: clusterctl raft autopilot get", "operator", "autopilot", "get-config"),
            ("is here: clusterctl keyring list", "keyring", "-list"), ("is here: clusterctl event fire", "event", "-name=x"),
            ('"-http-addr" is written --addr', "-http-addr=127.0.0.1:8500", "members"),
            ('"--http-addr" is written --addr', "members", "--http-addr", "x"), ('"-wan" is written --wan', "members", "-wan"),
            ('"-recurse" is written --recurse', "kv", "delete", "-recurse", "x"),
            ("is here: clusterctl acl login", "login", "-method=x"),
            ('"-policy-name" is written --policy-name', "acl", "token", "create", "-policy-name=x"),
            ('unknown option "-name=foo"', "services", "register", "-name=foo"), ('unknown option "-k"', "kv", "put", "-k", "v"),
            ("no equivalent in this version", "connect", "ca")):
        expect(2, says, *nowhere, *args)
    # a number, and what stands behind "--", is an argument
    expect(69, "no answer from unix:/nowhere", *nowhere, "kv", "put", "a", "-1")
    expect(69, "no answer from unix:/nowhere", *nowhere, "kv", "put", "a", "--", "-recurse")


def test_help():
    """--help says no less than the complaint after a wrong call, for each command that `help` lists."""
    _, out, _ = ctl("help")
    names = re.findall(r"^  ([a-z-]+) ", out, re.M)
    assert {"kv", "raft", "keyring", "dev", "version"} <= set(names), names
    for name in names:
        rc, told, _ = ctl(name, "--help")
        assert rc == 0 and ctl("help", name)[1] == told, name
        rc, _, wrong = ctl("--addr", "unix:/nowhere", name, "--no-such-option")
        assert rc == 2, (name, wrong)
        usage = wrong[wrong.index("usage: "):] if "usage: " in wrong else ""
        assert usage and usage in told and len(told) > len(usage), (name, told, wrong)
        described = told.replace(usage, "", 1)
        for option in set(re.findall(r"--[a-z-]+", usage)):
            assert option in described, (name, option, told)


def completed(*words):
    """What bash offers behind these words, the last of which is begun."""
    script = """. "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _clusterctl; printf '%s\\n' "${COMPREPLY[@]}" """
    env = dict(os.environ, PATH=os.path.join(BUILD, "ctl") + ":" + os.environ["PATH"], TRIUMVIR_ADDR="unix:/nowhere")
    return subprocess.run(["bash", "-c", script, "bash", os.path.join(TOP, "etc", "clusterctl.bash"), "clusterctl", *words],
                          capture_output=True, text=True, check=True, timeout=60, cwd=TOP, env=env).stdout.split()


def test_completion():
    commands = re.findall(r"^  ([a-z-]+) ", ctl("help")[1], re.M)
    assert completed("") == ["--addr", "--ca-file", "--ca-path", "--client-cert", "--client-key", "--tls-server-name", "--token-file", "--token", "--timeout", "--json"] + commands
    for words, offered in ((["ke"], ["keyring", "keygen"]), (["--addr", "x", "raft", "re"], ["remove-peer", "recover"]),
                           (["kv", "get", "--"], ["--stale", "--dc"]), (["monitor", "--level", "w"], ["warn"]),
                           (["help", "snapshot", "i"], ["inspect"]), (["snapshot", "restore", "READ"], ["README.md"]),
                           (["acl", "explain", "--default-policy", ""], ["allow", "deny"]), (["acl", "tok"], ["token"]),
                           (["validate", "rpc"], ["rpcd"]), (["force-leave", ""], ["--prune"])):
        assert completed(*words) == offered, (words, completed(*words))


def entries(node, prefix, query=""):
    """key -> (value, flags), by way of the HTTP API."""
    r = node.get("/v1/kv/%s?recurse%s" % (prefix, query))
    return {} if r.status == 404 else {e["Key"]: (base64.b64decode(e["Value"] or ""), e["Flags"]) for e in r.json()}


def test_effects():
    """What the commands change is seen through the HTTP API, and what they show is what that tells."""
    with Cluster("127.60.57") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])

        def said(*args, status=0):
            p = node.ctl(*args, check=False)
            assert p.returncode == status, (args, p)
            return p.stdout
        # put: value, flags, condition, the slash in front
        said("kv", "put", "--flags", "42", "e/a", "one")
        assert entries(node, "e/") == {"e/a": (b"one", 42)}
        at = node.get("/v1/kv/e/a").json()[0]["ModifyIndex"]
        said("kv", "put", "--cas", str(at), "--flags", "18446744073709551615", "e/a", "two")
        said("kv", "put", "--cas", str(at), "e/a", "three", status=1)
        assert entries(node, "e/") == {"e/a": (b"two", 2**64 - 1)}
        p = node.ctl("kv", "put", "/e/b", "b")
        assert 'taken as "e/b"' in p.stderr and entries(node, "e/")["e/b"] == (b"b", 0), p
        assert said("kv", "get", "/e/b") == "b"
        for key in ("e//b", "e/../b", "./e"):
            p = node.ctl("kv", "put", key, "x", check=False)
            assert p.returncode == 1 and "cannot be a key" in p.stderr and "301" not in p.stderr, p
        # list and keys, with and without a separator
        for key in ("e/d/1", "e/d/2", "e-other", "f"):
            node.kv_put(key, b"x")
        for verb in ("list", "keys"):
            for prefix, separator in (("", None), ("e/", None), ("e/", "/"), ("e", "-"), ("nothing", None)):
                query = "?keys" + ("" if separator is None else "&separator=" + separator)
                r = node.get("/v1/kv/" + prefix + query)
                expected = r.json() if r.status == 200 else []
                extra = [] if separator is None else ["--separator", separator]
                assert said("kv", verb, *extra, prefix).splitlines() == expected, (verb, prefix, separator)
                assert json.loads(said("--json", "kv", verb, *extra, prefix)) == expected
        assert said("kv", "list", "--separator", "/", "e/").splitlines() == ["e/a", "e/b", "e/d/"]
        assert said("kv", "list", "--stale", "f") == "f\n"
        # delete: one, only when unchanged, all below; what is beside it stays
        at = node.get("/v1/kv/e/b").json()[0]["ModifyIndex"]
        said("kv", "delete", "--cas", str(at - 1), "e/b", status=1)
        assert "e/b" in entries(node, "e/")
        said("kv", "delete", "--cas", str(at), "e/b")
        said("kv", "delete", "e/d/")                                    # no such key: nothing happens
        assert set(entries(node, "e")) == {"e/a", "e/d/1", "e/d/2", "e-other"}
        said("kv", "delete", "/e/a")
        assert set(entries(node, "e")) == {"e/d/1", "e/d/2", "e-other"}
        said("kv", "delete", "--recurse", "e/")
        assert set(entries(node, "")) == {"e-other", "f"}
        for name in ("p/1", "p/2", "p"):
            said("kv", "put", name, "x")
        said("kv", "delete", "--parts", "p/1", status=1)
        assert set(entries(node, "p")) == {"p/1", "p/2", "p"}
        said("kv", "delete", "--recurse", "--parts", "p/")
        assert set(entries(node, "")) == {"e-other", "f", "p"}
        said("kv", "delete", "p")
        # the catalog
        for n, s in (("x1", "web"), ("x2", "web"), ("x1", "db")):
            assert node.put("/v1/catalog/register", {"Node": n, "Address": "10.0.0." + n[1], "Service": {
                "ID": s, "Service": s, "Address": "10.1.0." + n[1], "Port": 80}}).body == b"true"
        assert set(said("catalog", "services").split()) == set(node.get("/v1/catalog/services").json()) == {
            "consul", "web", "db"}
        assert json.loads(said("--json", "catalog", "services")) == node.get("/v1/catalog/services").json()
        rows = [line.split() for line in said("catalog", "nodes").splitlines()]
        assert rows[0] == ["Node", "ID", "Address", "DC"]
        assert {(r[0], r[-2], r[-1]) for r in rows[1:]} == {
            (n["Node"], n["Address"], n["Datacenter"]) for n in node.get("/v1/catalog/nodes").json()}
        rows = [line.split() for line in said("catalog", "service", "web").splitlines()]
        assert rows[1:] == [[s["Node"], s["Address"], s["ServiceID"], s["ServiceAddress"]]
                            for s in node.get("/v1/catalog/service/web").json()], rows
        assert said("catalog", "datacenters").split() == node.get("/v1/catalog/datacenters").json()
        # the version is the daemons' own
        version = said("version")
        assert version == "clusterctl %s\n" % node.stats("rpcd")["version"] and said("--version") == version


def test_keys_move():
    """What `kv export` shows, `kv import` writes: values of all bytes and lengths, flags, below a prefix too."""
    with Cluster("127.127.4") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        values = {"m/%04d" % i: bytes((i * k) % 256 for k in range(i % 700)) for i in range(3000)}
        values.update({"m/long": os.urandom(512 << 10), "m/\u00e4 <\"&>": b"x", "m/": b"", "other": b"1"})
        keys = list(values)
        for at in range(0, len(keys), 64):
            ops = [{"KV": {"Verb": "set", "Key": k, "Value": base64.b64encode(values[k]).decode(), "Flags": 2**64 - 1 - at}}
                   for k in keys[at:at + 64] if k != "m/long"]
            node.put("/v1/txn", json.dumps(ops)).ok()
        node.put("/v1/kv/m/long?flags=7", values["m/long"]).ok()
        before = entries(node, "")
        assert before["m/0063"][1] == 2**64 - 1 and len(before) == len(values)
        path = os.path.join(c.dir, "export.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(node.ctl("kv", "export").stdout)
        with open(path, encoding="utf-8") as f:
            exported = json.load(f)
        assert {e["key"]: (base64.b64decode(e["value"]), e["flags"]) for e in exported} == before
        assert [e["key"] for e in json.loads(node.ctl("kv", "export", "m/00").stdout)] == ["m/%04d" % i for i in range(100)]
        assert json.loads(node.ctl("kv", "export", "nothing").stdout) == []
        node.http("DELETE", "/v1/kv/?recurse").ok()
        assert node.ctl("kv", "import", path).stdout == "Imported %d keys\n" % len(values)
        assert entries(node, "") == before
        # From standard input, below a prefix; what the API shows is taken as well.
        got = node.get("/v1/kv/m/00?recurse").body
        assert node.ctl("--json", "kv", "import", "--prefix", "copy/", "-", input=got.decode()).stdout == '{"Imported": 100}\n'
        assert entries(node, "copy/") == {"copy/" + k: v for k, v in before.items() if k.startswith("m/00")}
        assert node.ctl("kv", "import", '[{"key":"direct","flags":3,"value":"eA=="}]').stdout == "Imported 1 keys\n"
        assert entries(node, "direct") == {"direct": (b"x", 3)}
        # A fault is told with its entry, and so is how far it has come.
        many = [{"key": "f/%d" % i, "flags": 0, "value": ""} for i in range(100)]
        many[80]["key"] = "x" * (512 << 10)
        p = node.ctl("kv", "import", "-", input=json.dumps(many), check=False)
        assert p.returncode == 1 and 'entry 81 ("xxx' in p.stderr and "80 entries before that were written" in p.stderr, p.stderr[-300:]
        assert len(entries(node, "f/")) == 80
        many[80] = {"key": "f/80", "value": "?"}
        p = node.ctl("kv", "import", "-", input=json.dumps(many), check=False)
        assert p.returncode == 1 and 'entry 81 ("f/80"): illegal base64' in p.stderr, p.stderr


def test_services():
    with Cluster("127.60.144") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])

        def said(*args, status=0, input=None):
            p = node.ctl(*args, check=False, input=input)
            assert p.returncode == status, (args, p)
            return p.stdout if status == 0 else p.stderr

        def local():
            return node.get("/v1/agent/services").ok().json()

        assert said("services", "register", "--id", "web1", "--port", "80", "--address", "10.5.0.1", "--tag", "a", "--tag", "b",
                    "--meta", "k=v=w", "--meta", "x=", "--ttl", "1h", "web") == "Registered service: web\n"
        web = local()["web1"]
        assert (web["Service"], web["Port"], web["Address"], web["Tags"], web["Meta"]) == \
            ("web", 80, "10.5.0.1", ["a", "b"], {"k": "v=w", "x": ""}), web
        assert [k["CheckID"] for k in node.get("/v1/agent/checks").json().values()] == ["service:web1"]
        # one from standard input, several as Consul's files have them, what is refused after what was not
        assert said("services", "register", "-", input='{"name": "one", "tags": ["t"]}') == "Registered service: one\n"
        path = os.path.join(node.dir, "services.json")
        with open(path, "w") as f:
            json.dump({"services": [{"name": "db", "port": 1}, {"id": "db2", "name": "db"}, {"port": 3}, {"name": "never"}]}, f)
        assert "Missing service name" in said("services", "register", "@" + path, status=1)
        assert set(local()) == {"web1", "one", "db", "db2"}
        with open(path, "w") as f:
            f.write('{"service":\n{"name": "x",}}')
        assert path + ":2: " in said("services", "register", "@" + path, status=1)
        assert "takes none of these options" in said("services", "register", "--port", "1", "@" + path, status=2)
        assert "--meta needs KEY=VALUE" in said("services", "register", "--meta", "k", "x", status=2)
        # how they are
        rows = [line.split() for line in said("services", "list").splitlines()]
        assert rows[0] == ["ID", "Service", "Address", "Port", "Status", "Tags"]
        assert ["web1", "web", "10.5.0.1", "80", "critical", "a,b"] in rows and ["one", "one", "0", "passing", "t"] in rows, rows
        assert node.put("/v1/agent/check/warn/service:web1").status == 200
        assert ["web1", "web", "10.5.0.1", "80", "warning", "a,b"] in [r.split() for r in said("services", "list").splitlines()]
        assert json.loads(said("--json", "services", "list")) == local()
        said("services", "register", "--id", "web1", "--replace-existing-checks", "web")
        assert node.get("/v1/agent/checks").json() == {} and local()["web1"]["Port"] == 0
        assert said("services", "deregister", "db2") == "Deregistered service: db2\n"
        assert set(local()) == {"web1", "one", "db"}
        assert "no service with the ID \"db2\"" in said("services", "deregister", "db2", status=1)


def test_maintenance():
    with Cluster("127.60.60") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        assert node.ctl("maint", "status").stdout == "Nothing is under maintenance.\n"
        node.ctl("services", "register", "web")
        p = node.ctl("maint", "enable", "--service", "web", "--reason", "new version")
        assert p.stdout == 'Service "web" is under maintenance\n', p
        assert node.ctl("maint", "enable").stdout == "The node is under maintenance\n"
        lines = [line.split(None, 2) for line in node.ctl("maint", "status").stdout.splitlines()[1:]]
        assert sorted(line[:2] for line in lines) == [["node", "n1"], ["service", "web"]], lines
        assert ["service", "web", "new version"] in lines, lines
        assert node.get("/v1/health/service/web?passing").json() == []
        node.ctl("maint", "disable", "--service", "web")
        node.ctl("maint", "disable")
        assert json.loads(node.ctl("maint", "status", "--json").stdout) == []
        assert len(node.get("/v1/health/service/web?passing").json()) == 1
        p = node.ctl("maint", "enable", "--service", "none", check=False)
        assert p.returncode == 1 and 'No service registered with ID "none"' in p.stderr, p


def test_secrets_and_contradictions():
    with Cluster("127.60.58") as c:
        servers = c.servers(2, raftd=CALM)
        leader = c.formed(servers)
        wait_for("both answer", lambda: all(
            p["NumNodes"] == 2 for p in leader.get("/v1/operator/keyring").json()))
        told = leader.get("/v1/operator/keyring").json()
        secrets = {k for p in told for k in p["Keys"]}
        assert secrets
        hidden = leader.ctl("--json", "keyring", "list").stdout
        assert not any(k in hidden for k in secrets), hidden
        pools = json.loads(hidden)
        assert [sorted(p["Keys"].values()) for p in pools] == [sorted(p["Keys"].values()) for p in told]
        ids = {k for p in pools for k in p["Keys"]}
        assert all(re.fullmatch("[0-9a-f]+", k) for k in ids) and all(
            k in leader.ctl("keyring", "list").stdout for k in ids), ids
        assert {k for p in json.loads(leader.ctl("--json", "keyring", "list", "--show-keys").stdout)
                for k in p["Keys"]} == secrets
        # of a node that lives it is not said that it has left
        alive = next(n for n in servers if n is not leader)
        p = leader.ctl("force-leave", alive.name)
        assert "has left" not in p.stdout + p.stderr and "is not known to have failed" in p.stderr, p
        wait_for("it objects", lambda: leader.members()[alive.name] == 1)
        alive.kill()
        wait_for("it has failed", lambda: leader.members()[alive.name] == 4)
        p = leader.ctl("force-leave", alive.name)
        assert "has left" in p.stdout and "objects" not in p.stderr, p


def test_errors_in_json():
    """With --json what goes wrong is an object on standard error, by which programs can tell failures apart."""
    with Cluster("127.161.2") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, **{"acl.enabled": True, "acl.default_policy": "deny"}).start()
        wait_for("access control holds", lambda: node.get("/v1/kv/a").status == 403)
        rc, out, err = ctl("--addr", node.addr + ":8500", "--json", "kv", "get", "a")
        told = json.loads(err)
        assert (rc, out, told["Reason"], told["ExitStatus"]) == (77, "", "denied", 77) and "Permission denied" in told["Error"], err
    with Cluster("127.161.1") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        at = ("--addr", node.addr + ":8500", "--json")
        for args, reason, text, status in (
                (("kv", "get", "nothing"), "not found", 'kv get: no key "nothing"', 1),
                (("kv", "put", "--cas", "5", "a", "b"), "condition", "the condition did not hold", 1),
                (("kv", "get", "--dc", "dc9", "a"), "failed", "No path to datacenter", 1),
                (("kv", "get"), "usage", "usage: clusterctl", 2), (("nonsense",), "usage", "no command", 2)):
            rc, out, err = ctl(*at, *args)
            told = json.loads(err)
            assert (rc, out, told["Reason"], told["ExitStatus"]) == (status, "", reason, status) and text in told["Error"], (args, out, err)
            assert err.count("\n") == 1 and err.endswith("\n"), err
        rc, out, err = ctl(*at, "kv", "put", "a", "b")
        assert (rc, err) == (0, ""), err
        rc, out, err = ctl("--addr", "127.161.1.99:8500", "--json", "members")
        assert rc == json.loads(err)["ExitStatus"] == 69 and json.loads(err)["Reason"] == "no answer", err
        rc, out, err = ctl("--addr", "/wrong", "--json", "members")
        assert rc == 2 and json.loads(err)["Reason"] == "usage", err


def test_reload():
    """All daemons of the node, if all files are right; who cannot reload all is told so."""
    with Cluster("127.60.67") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        client = c.client("c1", 2, node).up()

        def reloaded(n):
            return [n.log(d).count("configuration reloaded") for d in n.daemons]

        def sock(n):
            return ("--addr", "unix:" + os.path.join(n.run, "rpcd.sock"))
        if os.geteuid() == 0:
            expect(0, "gossipd and raftd have been told to", *sock(node), "reload")
            wait_for("all have", lambda: reloaded(node) == [1, 1, 1])
            expect(0, "gossipd has been told to", *sock(client), "reload")
            wait_for("all have", lambda: reloaded(client) == [1, 1])
            for d in ("raftd", "gossipd", "rpcd"):
                path = os.path.join(node.conf, d + ".conf")
                with open(path) as f:
                    good = f.read()
                with open(path, "a") as f:
                    f.write("\nno_such_key = 1\n")
                rc, _, err = ctl(*sock(node), "reload")
                assert rc == 1 and path + ":" in err and "no_such_key" in err and err.endswith("nothing was reloaded\n"), err
                with open(path, "w") as f:
                    f.write(good)
            assert reloaded(node) == [1, 1, 1]
            node.kill("raftd")
            expect(1, "raftd was not reloaded: ", *sock(node), "reload")
            wait_for("the others have", lambda: reloaded(node) == [2, 1, 2])
        expect(0, "gossipd and raftd are reloaded by root", "--addr", client.addr + ":8500", "reload")


def test_for_who_comes_from_consul():
    """Keys of Consul in cluster.conf are said to belong where there is such a key; what is set for Consul's command line, and not used, is told."""
    with Cluster("127.60.68") as c:
        node = c.add("n1", 1)
        keys = {f: set(open(os.path.join(TOP, "man", f + ".5")).read().replace(".It Ic ", ".It Cm ").split()) for f in
                ("cluster.conf", "gossipd.conf", "raftd.conf", "rpcd.conf")}
        path = os.path.join(node.conf, "cluster.conf")
        with open(path) as f:
            good = f.read()
        for key, says in (("bind_addr", "bind in cluster.conf"), ("client_addr", "http_addresses, and dns_addresses, in rpcd.conf"),
                          ("bootstrap_expect", "belongs in raftd.conf"), ("primary_datacenter", "acl.primary_datacenter in cluster.conf"),
                          ("encrypt", "clusterctl keygen"), ("ui_config.enabled", "/ui/"), ("ports.http", "http_port, https_port and dns_port in rpcd.conf"),
                          ("acl.tokens.master", "belong in rpcd.conf"), ("tls.defaults.ca_file", "keygen"), ("cert_file", "tls.https or tls.defaults of rpcd.conf"),
                          ("telemetry.statsd_address", "/v1/agent/metrics"), ("services", "services.d(5)"), ("ae_interval", "sync_interval in rpcd.conf")):
            block, _, last = key.rpartition(".")
            line = '%s = "x"' % last
            for b in reversed(block.split(".") if block else []):
                line = "%s {\n%s\n}" % (b, line)
            with open(path, "w") as f:
                f.write(good + line + "\n")
            rc, _, err = ctl("validate", node.conf)
            assert rc == 1 and "unknown key" in err and says in err, (key, rc, err)
            name, _, file = says.partition(" in ")
            if file.endswith(".conf") and not name.startswith("belong"):
                assert name.split(",")[0].split()[0] in keys[file], says
        with open(path, "w") as f:
            f.write(good)
        for name, why in (("CONSUL_HTTP_AUTH", "knows tokens"), ("CONSUL_PARTITION", "no namespaces"), ("CONSUL_NAMESPACE", "no namespaces")):
            for value, told in (("true", True), ("false", False), ("", False)):
                p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", "127.60.68.1:8500", "members"], capture_output=True, text=True, timeout=60,
                                   env=dict(os.environ, **{name: value}))
                assert ("%s is set, and not used: " % name in p.stderr and why in p.stderr) == told, p


def test_administration_over_tcp():
    """By default clusterctl takes the socket; over TCP it repeats who may."""
    with Cluster("127.60.59") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd={"http_admin": False}).start()
        c.formed([node])
        sock = ("--addr", "unix:" + os.path.join(node.run, "rpcd.sock"))
        expect(77, "set http_admin = true in rpcd.conf", "--addr", node.addr + ":8500", "reload")
        expect(77, node.run + "/rpcd.sock", "--addr", node.addr + ":8500", "keyring", "list")
        expect(0, "reloaded", *sock, "reload")
        expect(0, "LAN", *sock, "keyring", "list")
        expect(0, "n1", "--addr", node.addr + ":8500", "members")


def told_in_the_manual():
    """Is a name of `info` explained?  Whole names, patterns with *, and endings (`_left`) of the name before them."""
    with open(os.path.join(TOP, "doc", "operations.md")) as f:
        text = f.read().split("\n## What `info` shows\n")[1].split("\n## ")[0]
    words = set(re.findall(r"[a-z0-9_*]+", text))
    patterns = [w for w in words if "*" in w]
    endings = tuple(w for w in words if w.startswith("_") and "*" not in w)
    return lambda name: name in words or name.endswith(endings) or any(fnmatch.fnmatchcase(name, p) for p in patterns)


def test_every_number_is_explained():
    told = told_in_the_manual()
    assert told("applied_index") and not told("nothing_of_this_name")
    with Cluster("127.60.55") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        stats = node.get("/v1/agent/self").json()["Stats"]
        assert {"raft", "raftd", "state", "serf_lan", "serf_wan", "keyring", "gossipd", "rpcd"} <= set(stats), list(stats)
        names = {section + ": " + name for section, values in stats.items() for name in values if not told(name)}
        gauges = {g["Name"] for g in node.get("/v1/agent/metrics").json()["Gauges"]}
        names |= {g for g in gauges if g.startswith("triumvir.") and not told(g.split(".")[-1])} - {"triumvir.members.lan", "triumvir.members.wan"}
        assert not names, "doc/operations.md does not say what these are: " + ", ".join(sorted(names))


def test_examples_in_etc():
    """What the shipped files have as comments is right without the sign, each line by itself."""
    tried = 0
    for name in "cluster.conf", "gossipd.conf", "raftd.conf", "rpcd.conf":
        with open(os.path.join(TOP, "etc", name)) as f:
            examples = [m.group(1) for m in (re.match(r"# ?([a-z_.]+ *[={].*)", line) for line in f) if m]
        for example in examples:
            with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as where:
                os.chmod(where, 0o755)
                if re.match("bind|advertise", example):     # beyond loopback only with keys
                    expect(0, "", "keygen", where)
                for conf in {name, "cluster.conf"}:
                    with open(os.path.join(where, conf), "w") as f:
                        f.write(example + "\n" if conf == name else "")
                if "acl" in example:            # tokens: of the daemon alone
                    os.chmod(os.path.join(where, name), 0o640)
                    if os.geteuid() == 0:
                        shutil.chown(os.path.join(where, name), "root", "_" + name.partition(".")[0])
                rc, out, err = ctl("validate", where)
                assert rc == 0, (name, example, out, err)
            tried += 1
    assert tried >= 15, tried


def runs_for_developers(where, address, at, command, write=False):
    """clusterctl dev at this address: what it prints works, and its end leaves nothing."""
    env = dict(os.environ, TMPDIR=where)
    p = subprocess.Popen(command + [os.path.join(where, "clusterctl"), "dev", "--bind", address, "--datacenter", "dc7"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, text=True)
    try:
        text = ""
        while "Stop with" not in text:
            line = p.stdout.readline()
            assert line, "ended: " + text
            text += line
        assert "HTTP API   http://%s\n" % at in text, text
        quoted = "'" if at.startswith("[") else ""
        assert "curl %shttp://%s/v1/kv/greeting?raw%s\n" % (quoted, at, quoted) in text, text
        admin = shlex.split(re.search(r"admin +(.*)", text).group(1))
        there = ["nsenter", "--net", "--target", str(p.pid)] if command else []
        member = re.compile(r"^dev +%s:8301 +alive +server .* dc7$" % re.escape(at.rpartition(":")[0]), re.M)
        wait_for("gossipd tells of it", lambda: member.search(subprocess.run(
            there + [os.path.join(where, admin[0])] + admin[1:], capture_output=True, text=True, timeout=60).stdout))
        assert glob.glob(os.path.join(where, "triumvir-dev.*"))
        if write:
            kv = http.client.HTTPConnection(at, timeout=60)
            kv.request("PUT", "/v1/kv/greeting", b"hello")
            assert kv.getresponse().read() == b"true"
    finally:
        p.terminate()
        p.communicate(timeout=60)
    assert p.returncode == 0 and not glob.glob(os.path.join(where, "triumvir-dev.*")), p.returncode


def test_for_developers():
    expect(2, '"localhost" is neither an IPv4 nor an IPv6 address', "dev", "--bind", "localhost")
    expect(2, '"[::1]" is neither', "dev", "--bind", "[::1]")
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as where:
        os.chmod(where, 0o755)          # started by root it runs as nobody
        for name in ("ctl/clusterctl", "gossipd/gossipd", "gossipd/gossipd-names", "raftd/raftd", "raftd/raftd-fetch", "rpcd/rpcd", "rpcd/rpcd-check",
                     "rpcd/rpcd-dns"):
            shutil.copy(os.path.join(BUILD, name), where)
        address = moved("127.60.56") + ".1"
        runs_for_developers(where, address, address + ":8500", [])
        own_net = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]
        if os.geteuid() == 0 and subprocess.run(own_net + ["grep", "-q", "lo$", "/proc/net/if_inet6"]).returncode == 0:
            runs_for_developers(where, "::1", "[::1]:8500", own_net)
        if os.geteuid() == 0:           # a folder without room is refused at once, and as much as is asked for is enough
            small = os.path.join(where, "small")
            os.mkdir(small)
            disk = SmallDisk(small, "47M")
            p = subprocess.run([os.path.join(where, "clusterctl"), "dev", "--bind", address], env=dict(os.environ, TMPDIR=small),
                               capture_output=True, text=True, timeout=60)
            assert p.returncode == 1 and "a server needs 48 MiB to write: set TMPDIR to a folder with more room" in p.stderr, p
            assert not os.listdir(small)
            disk.close()
            disk = SmallDisk(small, "49M")
            for name in os.listdir(where):
                if os.path.isfile(os.path.join(where, name)):
                    os.symlink(os.path.join(where, name), os.path.join(small, name))
            runs_for_developers(small, address, address + ":8500", [], write=True)
            disk.close()


def test_waiting_shows_on_a_terminal():
    """Who looks at a terminal is told within seconds whom the command waits for; the answer follows on a clean line."""
    with Cluster("127.60.54") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        node.kv_put("a", "b")
        node.signal(signal.SIGSTOP, "rpcd")
        terminal, theirs = pty.openpty()
        p = subprocess.Popen([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", node.addr + ":8500", "kv", "get", "a"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        shown = b""
        while b"waiting for an answer from %s:8500, for " % node.addr.encode() not in shown:
            shown += os.read(terminal, 4096)
        node.signal(signal.SIGCONT, "rpcd")
        out, _ = p.communicate(timeout=60)
        os.close(terminal)
        assert p.returncode == 0 and out == b"b", (p.returncode, out, shown)


main(test_wrong_calls, test_nobody_there, test_answer_that_breaks_off, test_keys_are_never_overwritten, test_public_half,
     test_validate_reads_the_keys, test_on_a_server, test_every_number_is_explained, test_examples_in_etc, test_for_developers,
     test_waiting_shows_on_a_terminal, test_hints, test_help, test_completion, test_effects, test_keys_move, test_services, test_secrets_and_contradictions,
     test_maintenance, test_errors_in_json, test_reload, test_for_who_comes_from_consul, test_administration_over_tcp)

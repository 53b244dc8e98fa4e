#!/usr/bin/env python3
"""Names are data: each field that holds a name, with odd names, through each interface that takes or shows it.

What no name needs, control characters, is refused where it comes in, with the name of the field; all else is legal, comes back
unchanged by HTTP and escaped by the tool, and can be removed.  What old versions took can still be shown and removed.
"""
import json
import os
import socket
import sys
from urllib.parse import quote

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, rpcd_conf  # noqa: E402
from oprows import OPS, args  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import wait_for  # noqa: E402

CONTROLS = ("a\0b", "a\tb", "a\nb", "\x1b[31m", "a\x7f", "a\x85b")
ODD = ("a b", "ä", "a\u00a0b", "\u202ea", "日本", "a/b", "a?b&c=d#e", "a%00b", "\"'<x>&", "a\\x00b", "a.b", "-a", "@a", "{a}", "*", "a:b;c,d")


def base(kind):
    return {
        "service": {"Name": "s", "ID": "s", "Tags": ["t"], "Meta": {"k": "v"}, "Check": {"CheckID": "c", "TTL": "60s"}},
        "check": {"Name": "c", "CheckID": "c", "TTL": "60s"},
        "catalog": {"Node": "ext", "Address": "192.0.2.1", "NodeMeta": {"k": "v"},
                    "Service": {"Service": "s", "ID": "s", "Tags": ["t"], "Meta": {"k": "v"}},
                    "Check": {"CheckID": "c", "Name": "c", "Node": "ext"}},
        "session": {"Name": "s", "NodeChecks": []},
        "query": {"Name": "q", "Service": {"Service": "s", "Tags": ["t"], "NodeMeta": {"k": "v"}}},
        "txn kv": {"KV": {"Verb": "set", "Key": "k", "Value": ""}},
        "txn node": {"Node": {"Verb": "set", "Node": {"Node": "ext", "Address": "192.0.2.1"}}},
        "txn service": {"Service": {"Verb": "set", "Node": "ext", "Service": {"ID": "s", "Service": "s", "Tags": ["t"]}}},
        "txn check": {"Check": {"Verb": "set", "Check": {"Node": "ext", "CheckID": "c", "Name": "c"}}},
    }[kind]


# Interface, field: a path in its body; "*" is the key of a map, "0" the first of a list.
FIELDS = [(kind, path) for kind, paths in {
    "service": ("Name", "ID", "Tags.0", "Check.CheckID", "Check.Name"),
    "check": ("Name", "CheckID"),
    "catalog": ("Node", "NodeMeta.*", "Service.Service", "Service.ID", "Service.Tags.0", "Service.Meta.*", "Check.CheckID", "Check.Name"),
    "session": ("Name",),
    "query": ("Name", "Service.Service", "Service.Tags.0", "Service.NodeMeta.*"),
    "txn kv": ("KV.Key",),
    "txn node": ("Node.Node.Node",),
    "txn service": ("Service.Service.ID", "Service.Service.Service", "Service.Service.Tags.0"),
    "txn check": ("Check.Check.CheckID", "Check.Check.Name"),
}.items() for path in paths]


def filled(kind, path, name):
    body = at = base(kind)
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step) if step.isdigit() else step]
    if last == "*":
        at.clear()
        at[name] = "v"
    else:
        at[int(last) if last.isdigit() else last] = name
    return body


def send(n, kind, body):
    path = {"service": "/v1/agent/service/register", "check": "/v1/agent/check/register", "catalog": "/v1/catalog/register",
            "session": "/v1/session/create", "query": "/v1/query"}.get(kind, "/v1/txn")
    text = json.dumps([body] if path == "/v1/txn" else body).encode()
    return n.http("POST" if kind == "query" else "PUT", path, text)


def texts_of(value):
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in [k] + texts_of(v)]
    if isinstance(value, list):
        return [t for v in value for t in texts_of(v)]
    return [value]


def refused(n):
    for kind, path in FIELDS:
        for name in CONTROLS:
            a = send(n, kind, filled(kind, path, name))
            what = path.replace(".0", "").replace(".*", "")
            if "*" not in path or name != "a\0b":        # no reader of JSON here takes such a key
                assert what in a.text and "control characters" in a.text, (kind, path, name, a)
            assert a.status == 400, (kind, path, name, a)
    seen = json.dumps([n.get(p).json() for p in ("/v1/agent/services", "/v1/agent/checks", "/v1/catalog/nodes", "/v1/session/list",
                                              "/v1/query")] + [n.get("/v1/kv/?keys").text])
    assert "ext" not in seen and "u0000" not in seen, seen
    # What is no name may have them.
    for kind, path in (("check", "Notes"), ("catalog", "Check.Output"), ("catalog", "Check.Notes")):
        assert send(n, kind, filled(kind, path, "a\tb\nc")).ok(), (kind, path)
    n.put("/v1/agent/check/deregister/c").ok()
    n.put("/v1/catalog/deregister", b'{"Node":"ext"}').ok()


def taken(n):
    for name in ODD:
        # A service of this node, by all that shows it, to its end.
        send(n, "service", {"Name": name, "ID": name, "Tags": [name], "Check": {"CheckID": name, "Name": name, "TTL": "60s"}}).ok()
        services = n.get("/v1/agent/services").json()
        assert services[name]["Service"] == name and services[name]["Tags"] == [name], (name, services)
        assert n.get("/v1/agent/checks").json()[name]["ServiceID"] == name
        wait_for("in the catalog", lambda: name in n.get("/v1/catalog/services").json())
        if "\u00a0" not in name and "\u202e" not in name:       # as in Consul, not in a path
            for path in "/v1/health/service/", "/v1/catalog/service/":
                got = n.get(path + quote(name, safe="")).json()
                assert len(got) == 1 and texts_of(got).count(name) >= 3, (name, got)
            assert n.get("/v1/agent/service/" + quote(name, safe="")).json()["ID"] == name
        listed = n.ctl("services", "list").stdout
        assert name.replace("\u202e", "\\xe2\\x80\\xae") in listed, (name, listed)
        assert json.loads(n.ctl("services", "list", "--json").stdout)[name]["ID"] == name
        got = json.loads(n.ctl("catalog", "services", "--json").stdout)
        assert name in texts_of(got), (name, got)
        n.ctl("services", "deregister", "--", name)
        assert name not in n.get("/v1/agent/services").json()
        # Nodes, sessions, queries and keys.
        body = {"Node": name, "Address": "192.0.2.1", "NodeMeta": {name: name}, "Service": {"Service": name, "ID": name}}
        send(n, "catalog", body).ok()
        assert [x for x in n.get("/v1/catalog/nodes").json() if x["Node"] == name and x["Meta"] == {name: name}], name
        n.put("/v1/catalog/deregister", json.dumps({"Node": name}).encode()).ok()
        sid = send(n, "session", {"Name": name, "NodeChecks": []}).ok().json()["ID"]
        assert n.get("/v1/session/info/" + sid).json()[0]["Name"] == name
        n.put("/v1/session/destroy/" + sid).ok()
        qid = send(n, "query", {"Name": name, "Service": {"Service": name}}).ok().json()["ID"]
        assert n.get("/v1/query/" + qid).json()[0]["Name"] == name
        n.delete("/v1/query/" + qid).ok()
        for verb, more in ("set", {"Value": ""}), ("get", {}), ("delete", {}):
            got = n.put("/v1/txn", json.dumps([{"KV": dict(more, Verb=verb, Key=name)}]).encode()).ok().json()
            assert verb == "delete" or got["Results"][0]["KV"]["Key"] == name, got
    assert not [k for k in n.get("/v1/catalog/services").json() if k != "consul"]


def unprintable_paths(n):
    n.put("/v1/txn", json.dumps([{"KV": {"Verb": "set", "Key": "a\u00a0b", "Value": "djE="}}]).encode()).ok()
    a = n.get("/v1/kv/a%c2%a0b")
    assert a.status == 400 and a.body == b"" and "disable_http_unprintable_char_filter" in a.headers["X-Consul-Reason"], a
    p = n.ctl("kv", "get", "a\u00a0b", check=False)
    assert p.returncode == 1 and "cannot be printed" in p.stderr, p
    n.write("rpcd.conf", rpcd_conf(n.addr, disable_http_unprintable_char_filter=True))
    n.ctl("reload")
    wait_for("it is taken", lambda: n.get("/v1/kv/a%c2%a0b?raw").body == b"v1")
    assert n.ctl("kv", "get", "a\u00a0b").stdout.strip() == "v1"
    assert n.get("/v1/kv/a%00%09%7fb").status == 404
    n.delete("/v1/kv/a%c2%a0b").ok()


def values(n):
    """What stands beside names: numbers of 64 bits, targets of checks as Go takes them."""
    big = 2 ** 64 - 1
    n.put("/v1/txn", json.dumps([{"KV": {"Verb": "set", "Key": "big", "Flags": big, "Value": ""}}]).encode()).ok()
    assert n.get("/v1/kv/big").json()[0]["Flags"] == big
    n.put("/v1/kv/with%20blank", b"v").ok()
    api = "http://[%s]:8500" % n.addr
    checks = {"brackets": {"HTTP": api + "/v1/status/leader"}, "blank": {"HTTP": api + "/v1/kv/with blank?raw"},
              "tcp": {"TCP": "[%s]:8500" % n.addr}}
    for name, check in checks.items():
        n.put("/v1/agent/check/register", json.dumps(dict(check, Name=name, Interval="1s")).encode()).ok()
    wait_for("all pass", lambda: {c["Status"] for c in n.get("/v1/agent/checks").json().values()} == {"passing"})
    for name in checks:
        n.put("/v1/agent/check/deregister/" + name).ok()


def stored_before(n):
    """Names that an older version, which took them, has left in the state."""
    with Conn(os.path.join(n.run, "raftd.sock")) as conn:
        body = args("catalog_register", Node="old\0node", Address="192.0.2.1", Service={"ID": "a\0b\x1b", "Service": "a\0b\x1b"})
        got = conn.call(MSG.OP, [OPS["CATALOG_REGISTER"].code, "", 0, 0, 0, 0, "", body])
        assert got[0] == 0, got
    assert "a\0b\x1b" in n.get("/v1/catalog/services").json()
    shown = n.ctl("catalog", "services").stdout
    assert "a\\x00b\\x1b" in shown and "\0" not in shown, shown
    assert "a\\x00b\x1b" in json.loads(n.ctl("catalog", "services", "--json").stdout)
    assert "old\\x00node" in n.ctl("catalog", "nodes").stdout
    n.put("/v1/catalog/deregister", json.dumps({"Node": "old\0node"}).encode()).ok()
    assert "old" not in n.ctl("catalog", "nodes").stdout


def told(n):
    for name in "web.json", "web.hcl", "./web":
        p = n.ctl("services", "register", name, check=False)
        assert p.returncode == 2 and "looks like a file" in p.stderr and "@" + name in p.stderr, p
    for head in "X-Consul-Token: a\r\nX-Consul-Token: b", "Authorization: Bearer a\r\nAuthorization: Bearer b":
        assert raw(n, "GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % head).startswith("HTTP/1.1 400 "), head
    assert raw(n, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith("HTTP/1.1 200 ")


def raw(n, text):
    with socket.create_connection((n.addr, 8500), timeout=30) as s:
        s.sendall(text.encode())
        return s.recv(4096).decode()


def all_of_it():
    with Cluster("127.60.199") as c:
        n = c.servers(1)[0]
        c.formed()
        refused(n)
        taken(n)
        values(n)
        stored_before(n)
        told(n)
        unprintable_paths(n)


main(all_of_it)

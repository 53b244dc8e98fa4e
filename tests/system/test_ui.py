#!/usr/bin/env python3
"""/v1/internal/ui/: nodes with what is on them and summaries of services, as Consul's pages read them."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.145.0")
UI = "/v1/internal/ui/"
SUMMARY = {"Name", "Datacenter", "Tags", "Nodes", "ExternalSources", "InstanceCount", "ChecksPassing", "ChecksWarning", "ChecksCritical",
           "GatewayConfig", "TransparentProxy", "ConnectNative", "ConnectedWithProxy", "ConnectedWithGateway"}


def register(n, node, *services, **kw):
    for service, checks in services or ((None, ()),):
        body = dict({"Node": node, "Address": "10.0.0.1"}, **kw)
        if service:
            body["Service"] = service
            body["Checks"] = [dict({"Node": node, "ServiceID": service.get("ID", service["Service"])}, **c) for c in checks]
        n.put("/v1/catalog/register", body).ok()


def fill(n):
    register(n, "x1", ({"ID": "web1", "Service": "web", "Tags": ["b", "a"], "Port": 80, "Meta": {"external-source": "nomad"}},
                       [{"CheckID": "w1", "Name": "w", "Status": "passing"}, {"CheckID": "w2", "Name": "w", "Status": "warning"}]),
             ({"ID": "web2", "Service": "web", "Tags": ["a"]}, [{"CheckID": "w3", "Name": "w", "Status": "critical"}]),
             NodeMeta={"rack": "r1"}, TaggedAddresses={"lan": "10.0.0.1"})
    n.put("/v1/catalog/register", {"Node": "x1", "Address": "10.0.0.1", "NodeMeta": {"rack": "r1"}, "TaggedAddresses": {"lan": "10.0.0.1"},
                                   "Check": {"CheckID": "disk", "Name": "disk", "Status": "passing"}}).ok()
    register(n, "x2", ({"ID": "web", "Service": "web", "Meta": {"external-source": "k8s"}}, ()), Address="10.0.0.2")
    register(n, "x2", ({"Service": "web-proxy", "Kind": "connect-proxy", "Port": 1, "Proxy": {"DestinationServiceName": "web"}},
                       [{"CheckID": "p", "Name": "p", "Status": "critical"}]), Address="10.0.0.2")
    register(n, "x2", ({"Service": "native", "Connect": {"Native": True}}, ()), Address="10.0.0.2")
    register(n, "empty", Address="10.0.0.3")


def nodes(n):
    r = n.get(UI + "nodes").ok()
    assert r.index > 0 and r.headers["X-Consul-KnownLeader"] == "true", r.headers
    dump = {x["Node"]: x for x in r.json()}
    assert list(dump) == ["empty", "n1", "x1", "x2"], list(dump)
    x1 = dump["x1"]
    assert set(x1) == {"ID", "Node", "Address", "TaggedAddresses", "Meta", "Services", "Checks"}, x1
    assert (x1["Address"], x1["Meta"], x1["TaggedAddresses"]) == ("10.0.0.1", {"rack": "r1"}, {"lan": "10.0.0.1"}), x1
    assert [s["ID"] for s in x1["Services"]] == ["web1", "web2"] and x1["Services"][0]["Tags"] == ["b", "a"], x1
    assert sorted(c["CheckID"] for c in x1["Checks"]) == ["disk", "w1", "w2", "w3"], x1
    assert x1["Services"] == n.get("/v1/catalog/node-services/x1").json()["Services"]
    assert x1["Checks"] == n.get("/v1/health/node/x1").json()
    assert (dump["empty"]["Services"], dump["empty"]["Checks"], dump["empty"]["Meta"]) == ([], [], None), dump["empty"]
    for text, names in (('Node == "x2"', ["x2"]), ("Meta.rack == r1", ["x1"]), ('Services.Service == "web"', ["x1", "x2"]),
                        ('Checks.Status == "critical" and Node != "x2"', ["x1"]), ("Node == nobody", [])):
        found = n.get(UI + "nodes?filter=" + text.replace(" ", "%20").replace('"', "%22")).json()
        assert [x["Node"] for x in found] == names, (text, found)
    r = n.get(UI + "nodes?filter=Nothing==1")
    assert r.status == 500 and "is not valid" in r.text, r
    assert n.get(UI + "node/x1").json() == x1 and n.get(UI + "node/X1").json() == x1
    r = n.get(UI + "node/nobody")
    assert (r.status, r.body) == (404, b"") and r.index > 0, r
    r = n.get(UI + "node/")
    assert (r.status, r.text) == (400, "Missing node name"), r


def services(n):
    listed = n.get(UI + "services").ok().json()
    assert [s["Name"] for s in listed] == ["consul", "native", "web", "web-proxy"], listed
    web = listed[2]
    assert set(web) == SUMMARY, web
    assert (web["InstanceCount"], web["Nodes"], web["Tags"], web["Datacenter"]) == (3, ["x1", "x2"], ["a", "b"], "dc1"), web
    # disk counts once, although two instances are on that node; the proxy's check counts for what it stands before.
    assert (web["ChecksPassing"], web["ChecksWarning"], web["ChecksCritical"]) == (2, 1, 2), web
    assert (web["ExternalSources"], web["ConnectedWithProxy"], web["TransparentProxy"], web["GatewayConfig"]) == (["k8s", "nomad"], True, False, {}), web
    proxy = listed[3]
    assert set(proxy) == SUMMARY | {"Kind"} and proxy["Kind"] == "connect-proxy" and proxy["ChecksCritical"] == 1, proxy
    assert (proxy["Tags"], proxy["ExternalSources"], proxy["ConnectedWithProxy"]) == (None, None, False), proxy
    assert listed[1]["ConnectNative"] is True and web["ConnectNative"] is False
    found = n.get(UI + "services?filter=Node.Node==x1").json()
    assert [(s["Name"], s["InstanceCount"], s["ConnectedWithProxy"]) for s in found] == [("web", 2, False)], found
    register(n, "x2", ({"Service": "web-proxy", "Kind": "connect-proxy", "Port": 1,
                        "Proxy": {"DestinationServiceName": "later", "Mode": "transparent"}}, ()), Address="10.0.0.2")
    later = {s["Name"]: s for s in n.get(UI + "services").json()}["later"]
    assert (later["InstanceCount"], later["Nodes"], later["Datacenter"]) == (0, None, "") and later["TransparentProxy"] is True, later


def blocking(n):
    """Each waits for a change of a node, a service or a check."""
    for path in "nodes", "services", "node/x1":
        for what in ({"Service": {"Service": "new-" + path.replace("/", "")}}, {"Check": {"CheckID": path, "Name": "c", "Status": "warning"}}):
            index = n.get(UI + path).index
            got = []
            t = threading.Thread(target=lambda p=path, i=index: got.append(n.get(UI + p + "?index=%d&wait=60s" % i, timeout=90)))
            t.start()
            wait_for("it waits", lambda: int(n.stats("rpcd")["http_under_way"]) >= 2)
            n.put("/v1/catalog/register", dict({"Node": "x1", "Address": "10.0.0.1"}, **what)).ok()
            t.join(90)
            assert not t.is_alive() and got[0].index > index, (path, what, got)


def test_ui():
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        other = c.add("m1", 20, dc="dc2", raftd={"bootstrap": True}, retry_join_wan=[n.addr]).start()
        c.formed([n])
        c.formed([other])
        wait_for("n1 is in the catalog", lambda: any(x["Node"] == "n1" for x in n.get("/v1/catalog/nodes").json()))
        fill(n)
        for part in nodes, services, blocking:
            part(n)
            print("     " + part.__name__, flush=True)
        wait_for("dc2 is known", lambda: sorted(n.get("/v1/catalog/datacenters").json()) == ["dc1", "dc2"])
        far = wait_for("dc2 answers", lambda: n.get(UI + "nodes?dc=dc2").json())
        assert [x["Node"] for x in far] == ["m1"], far
        assert [x["Node"] for x in other.get(UI + "nodes?dc=dc1").json()] == ["empty", "n1", "x1", "x2"]


if __name__ == "__main__":
    main(test_ui)

#!/usr/bin/env python3
"""translate_wan_addrs over HTTP: what another datacenter has is shown with the addresses that it is reached by from here."""
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

LAN, WAN = ("10.1.1.1", "10.1.1.2", 80), ("192.0.2.1", "192.0.2.2", 8080)
HEADER = "X-Consul-Translate-Addresses"


def register(node, **of_node):
    node.put("/v1/catalog/register", dict({
        "Node": "far", "Address": LAN[0], "TaggedAddresses": {"lan": LAN[0], "wan": WAN[0]},
        "Service": {"Service": "web", "Address": LAN[1], "Port": LAN[2], "TaggedAddresses": {
            "lan": {"Address": LAN[1], "Port": LAN[2]}, "wan": {"Address": WAN[1], "Port": WAN[2]}}}}, **of_node)).ok()


def flat(entry):
    return entry["Address"], entry["ServiceAddress"], entry["ServicePort"]


def pair(node, service):
    return node["Address"], service["Address"], service["Port"]


def of_node(entry):
    return pair(entry["Node"], entry["Services"]["web"])


def of_list(entry):
    return pair(entry["Node"], entry["Services"][0])


def one(entries):
    assert len(entries) == 1, entries
    return entries[0]


def instance(entries):
    return pair(one(entries)["Node"], one(entries)["Service"])


# Paths, and what is shown there: a node's address, a service's, its port.
SHOWN = {
    "/v1/catalog/service/web": lambda v: flat(one(v)),
    "/v1/catalog/node/far": of_node,
    "/v1/catalog/node-services/far": of_list,
    "/v1/health/service/web": instance,
    "/v1/health/service/web?passing": instance,
    "/v1/query/there/execute": lambda v: instance(v["Nodes"]),
}
CACHED = ["/v1/catalog/service/web", "/v1/health/service/web", "/v1/health/service/web?passing", "/v1/query/there/execute"]


def with_query(path, *words):
    return path + ("&" if "?" in path else "?") + "&".join(words)


def shown(node, path, *words):
    """The addresses, and whether the header says that they may be translated."""
    answer = node.get(with_query(path, *words)).ok(200)
    assert answer.headers.get(HEADER) in (None, "true"), answer.headers
    return SHOWN[path](answer.json()), answer.headers.get(HEADER) == "true"


def nodes_of(node, query):
    return {n["Node"]: n["Address"] for n in node.get("/v1/catalog/nodes" + query).ok(200).json()}


def switch(node, on):
    node.write("rpcd.conf", {"http_addresses": [node.addr], "http_admin": True, "translate_wan_addrs": on})
    node.signal(signal.SIGHUP, "rpcd")
    wait_for("it is taken up", lambda: (node.get("/v1/status/leader").headers.get(HEADER) == "true") == on)


def pair_of_datacenters(c):
    here, = c.servers(1)
    there, = c.servers(1, dc="dc2", first=11, prefix="d", retry_join_wan=["%s.1" % c.net])
    c.formed([here])
    c.formed([there])
    for node in (here, there):
        register(node)
        node.http("POST", "/v1/query", json.dumps({"Name": "there", "Service": {"Service": "web"}}).encode()).ok()
    wait_for("the other datacenter answers", lambda: here.get("/v1/catalog/nodes?dc=dc2").status == 200)
    return here, there


def expect(node, there, header):
    """Of dc2 these addresses, of dc1 always those that were registered; all with the header, or none."""
    for path in SHOWN:
        assert shown(node, path, "dc=dc2") == (there, header), (path, shown(node, path, "dc=dc2"))
        assert shown(node, path) == shown(node, path, "dc=dc1") == (LAN, header), (path, shown(node, path))
    for path in CACHED:
        for _ in range(2):
            assert shown(node, path, "dc=dc2", "cached") == (there, header), (path, shown(node, path, "dc=dc2", "cached"))
            assert shown(node, path, "cached") == (LAN, header), path
    assert nodes_of(node, "?dc=dc2")["far"] == there[0] and nodes_of(node, "")["far"] == LAN[0]
    dump = {n["Node"]: n["Address"] for n in node.get("/v1/internal/ui/nodes?dc=dc2").ok(200).json()}
    assert dump["far"] == LAN[0], dump


def test_endpoints():
    """Each endpoint, from the servers and from the cache, before and after a reload; not for who asks in dc2 itself."""
    with Cluster("127.146.9") as c:
        here, there = pair_of_datacenters(c)
        expect(here, LAN, False)
        switch(here, True)
        expect(here, WAN, True)
        assert shown(there, "/v1/health/service/web") == (LAN, False)
        assert shown(there, "/v1/health/service/web", "dc=dc1") == (LAN, False)        # it decides for itself
        found = here.get("/v1/health/service/web?dc=dc2&filter=Service.Address==%22" + LAN[1] + "%22").ok(200).json()
        assert instance(found) == WAN, found                                           # a filter sees what was registered
        switch(here, False)
        expect(here, LAN, False)


def test_failover():
    """A query's answer is translated by where it was carried out in the end, also from the cache."""
    with Cluster("127.146.10") as c:
        here, there = pair_of_datacenters(c)
        switch(here, True)
        register(there, Node="far2", Service={"Service": "gone", "Port": 81})
        body = {"Name": "over", "Service": {"Service": "gone", "Failover": {"Datacenters": ["dc2"]}}}
        here.http("POST", "/v1/query", json.dumps(body).encode()).ok()
        for query in ("", "?cached", "?cached"):
            got = here.get("/v1/query/over/execute" + query).ok(200).json()
            assert got["Datacenter"] == "dc2" and instance(got["Nodes"]) == (WAN[0], "", 81), got
        register(here, Node="near", Service={"Service": "gone", "Port": 82})
        got = here.get("/v1/query/over/execute").ok(200).json()
        assert got["Datacenter"] == "dc1" and instance(got["Nodes"]) == (LAN[0], "", 82), got


def test_waits():
    """Who waits for a change gets it translated as it is set when the change comes; many waiters, and from the cache."""
    with Cluster("127.146.11") as c:
        here, there = pair_of_datacenters(c)
        switch(here, True)
        for extra in ([], ["cached"]):
            path = "/v1/health/service/web"
            index = here.get(with_query(path, "dc=dc2", *extra)).ok(200).headers["X-Consul-Index"]
            got, before = [], int(here.stats("rpcd")["http_under_way"])
            ask = with_query(path, "dc=dc2", "index=" + index, "wait=60s", *extra)
            waiters = [threading.Thread(target=lambda: got.append(here.get(ask, timeout=60))) for _ in range(5)]
            for w in waiters:
                w.start()
            wait_for("all of them wait", lambda: int(here.stats("rpcd")["http_under_way"]) == before + 5)
            far = "192.0.2.%d" % (7 + len(extra))
            register(there, TaggedAddresses={"wan": far})
            for w in waiters:
                w.join()
            for answer in got:
                assert instance(answer.ok(200).json())[0] == far and answer.headers[HEADER] == "true", answer.text


main(test_endpoints, test_failover, test_waits)

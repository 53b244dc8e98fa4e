#!/usr/bin/env python3
"""Network coordinates in the cluster: they arrive by themselves, sort answers, and go with their node."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import Told, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.60.81")
COORD = {"Error": 0.1, "Adjustment": 0, "Height": 0.0001}


def at(x):
    return dict(COORD, Vec=[x, 0, 0, 0, 0, 0, 0, 0])


def coordinates(node):
    return Told((c["Node"], c["Coord"]) for c in node.get("/v1/coordinate/nodes").json())


def register(node, name, address, dc="dc1"):
    body = {"Node": name, "Address": address, "Datacenter": dc, "Service": {"ID": "w", "Service": "web"},
            "Check": {"CheckID": "alive", "Name": "alive", "Status": "passing", "ServiceID": "w"}}
    r = node.put("/v1/catalog/register", body)
    assert r.status == 200 and r.body == b"true", repr(r)


def report(node, name, x, dc=""):
    r = node.put("/v1/coordinate/update" + dc, {"Node": name, "Coord": at(x)})
    assert r.status == 200 and r.body == b"", repr(r)


def near(node, path, place):
    """The order of the entries of external nodes (those of this test)."""
    out = []
    for e in node.get("%s%snear=%s" % (path, "&" if "?" in path else "?", place)).json():
        name = e["Node"]["Node"] if isinstance(e["Node"], dict) else e["Node"]
        if name.startswith("x-"):
            out.append(name)
    return out


def test_arrive_sort_and_go():
    with Cluster(NET) as c:
        servers = c.servers(3)
        client = c.client("c1", 4, servers[0])
        quiet = c.client("c2", 5, servers[0], rpcd={"disable_coordinates": True})
        c.formed(servers)
        quiet.up()
        nodes = servers + [client]
        names = {n.name for n in nodes}
        wait_for("every node's coordinate at every node",
                 lambda: all(set(coordinates(n)) == names for n in nodes), 120)
        for coord in coordinates(client).values():
            assert len(coord["Vec"]) == 8 and 0 < coord["Error"] <= 1.5 and coord["Height"] > 0, coord
        r = quiet.get("/v1/coordinate/nodes")
        assert r.status == 401 and r.text == "Coordinate support disabled", repr(r)
        assert quiet.stats("rpcd")["coordinates_sent"] == "0"
        assert client.get("/v1/coordinate/node/" + quiet.name).status == 404

        # More reports follow, and a waiting reader is woken.
        index = client.get("/v1/coordinate/nodes").index
        r = client.get("/v1/coordinate/nodes?index=%d&wait=50s" % index, timeout=70)
        assert r.index > index

        # External nodes are where they are said to be; every list is sorted, at server and client.
        for i, name in enumerate(("x-a", "x-b", "x-c", "x-d")):
            register(client, name, "10.9.0.%d" % (i + 1))
        for name, x in (("x-b", 1.0), ("x-c", 3.0), ("x-d", 1.5)):
            report(client, name, x)
        wait_for("the reports are stored", lambda: {"x-b", "x-c", "x-d"} <= set(coordinates(client)))
        lists = ("/v1/catalog/nodes", "/v1/catalog/service/web", "/v1/health/service/web?passing",
                 "/v1/health/checks/web", "/v1/health/state/passing")
        for node in (client, servers[0], servers[1], servers[2]):
            for path in lists:
                assert near(node, path, "x-c") == ["x-c", "x-d", "x-b", "x-a"], path
                assert near(node, path, "X-B") == ["x-b", "x-d", "x-c", "x-a"], path
                assert near(node, path, "x-a") == ["x-a", "x-b", "x-c", "x-d"], path
                assert near(node, path, "nobody") == ["x-a", "x-b", "x-c", "x-d"], path
                assert near(node, path, "_agent") == ["x-b", "x-d", "x-c", "x-a"], path
        lines = client.ctl("catalog", "nodes", "--near", "x-c", "--dc", "dc1").stdout.splitlines()
        assert [n.split()[0] for n in lines if n.startswith("x-")] == ["x-c", "x-d", "x-b", "x-a"], lines
        lines = client.ctl("catalog", "service", "web", "--near", "x-b").stdout.splitlines()
        assert [n.split()[0] for n in lines] == ["Node", "x-b", "x-d", "x-c", "x-a"], lines
        first = [n["Node"] for n in client.get("/v1/catalog/nodes?near=_agent").json()][:4]
        assert set(first) == names, first
        # _ip: the node that has the asker's address, from which we reach all of 127.0.0.0/8.
        register(client, "x-me", "127.0.0.1")
        report(client, "x-me", 2.9)
        wait_for("the asker's coordinate", lambda: "x-me" in coordinates(client))
        for node in (client, servers[0]):
            assert near(node, "/v1/catalog/service/web", "_ip") == ["x-me", "x-c", "x-d", "x-b", "x-a"]

        # What goes takes its coordinate with it; what comes back starts without.
        assert client.put("/v1/catalog/deregister", {"Node": "x-c"}).body == b"true"
        wait_for("it is gone everywhere", lambda: not any("x-c" in coordinates(n) for n in nodes))
        assert client.get("/v1/coordinate/node/x-c").status == 404
        register(client, "x-c", "10.9.0.3")
        assert client.get("/v1/coordinate/node/x-c").status == 404

        # A new leader goes on.
        leader = c.leader(servers)
        leader.stop()
        rest = [n for n in servers if n is not leader]
        c.leader(rest)
        report(client, "x-c", 0.5)
        wait_for("a report to the new leader is stored", lambda: coordinates(client)["x-c"]["Vec"][0] == 0.5)
        leader.start()
        wait_for("the restarted server has it", lambda: coordinates(leader)["x-c"]["Vec"][0] == 0.5)


def test_what_no_node_has_is_refused():
    """S138, at the API."""
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        c.formed([n])
        register(n, "x-a", "10.9.0.1")
        report(n, "x-a", 0.25)
        wait_for("a good one is stored", lambda: "x-a" in coordinates(n))
        bad = [at(1e9), at(-11), dict(at(0), Vec=[1, 2]), dict(at(0), Vec=[0] * 9), dict(at(0), Height=-1),
               dict(at(0), Error=-0.5), dict(at(0), Adjustment=3600), dict(at(0), Height=7200), dict(COORD, Vec=None)]
        for coord in bad:
            r = n.put("/v1/coordinate/update", {"Node": "x-a", "Coord": coord})
            assert r.status == 500 and r.text == "incompatible coordinate", (coord, r)
        for text in ('{"Node":"x-a","Coord":{"Vec":[NaN,0,0,0,0,0,0,0]}}',
                     '{"Node":"x-a","Coord":{"Vec":[1e999]}}', "{"):
            r = n.put("/v1/coordinate/update", text)
            assert r.status == 400 and r.text.startswith("Request decode failed: "), (text, r)
        report(n, "x-a", 0.75)
        wait_for("the next good one is", lambda: coordinates(n)["x-a"]["Vec"][0] == 0.75)
        # Far more reports than a period takes: bounded, and the newest of a node counts.
        for i in range(700):
            report(n, "nobody-%d" % i, 1)
        for i in range(50):
            report(n, "x-a", i / 100)
        wait_for("the newest one is stored", lambda: coordinates(n)["x-a"]["Vec"][0] == 0.49)
        assert "nobody-1" not in coordinates(n)


def test_two_datacenters():
    with Cluster(NET) as c:
        here = c.servers(1)[0]
        there = c.servers(2, dc="dc2", first=11, prefix="m", retry_join_wan=[here.addr])
        client = c.client("c1", 4, here)
        c.formed([here])
        c.formed(there)

        def wan(n):
            return {d["Datacenter"]: {k["Node"] for k in d["Coordinates"]}
                    for d in n.get("/v1/coordinate/datacenters").json()}
        everybody = {"dc1": {"n1"}, "dc2": {"m1", "m2"}}
        for n in [here, client] + there:
            wait_for("WAN coordinates at " + n.name, lambda: wan(n) == everybody, 120)
        assert [d["AreaID"] for d in here.get("/v1/coordinate/datacenters").json()] == ["wan", "wan"]
        assert here.get("/v1/catalog/datacenters").json() == ["dc1", "dc2"]
        assert there[0].get("/v1/catalog/datacenters").json() == ["dc2", "dc1"]
        wait_for("LAN coordinates of the other datacenter",
                 lambda: {k["Node"] for k in client.get("/v1/coordinate/nodes?dc=dc2").json()} == {"m1", "m2"}, 120)
        # Reports travel to another datacenter; sorting there is by its own map only.
        for name in ("x-a", "x-b"):
            register(client, name, "10.9.0.1", "dc2")

        def arrived():
            # As nodes do, again and again: a report that a leader has not stored yet is lost with its leadership.
            for name, x in (("x-a", 2.0), ("x-b", 1.0)):
                report(client, name, x, "?dc=dc2")
            return {"x-a", "x-b"} <= {k["Node"] for k in there[0].get("/v1/coordinate/nodes").json()}
        wait_for("reports arrived there", arrived)
        assert near(there[0], "/v1/catalog/service/web", "x-b") == ["x-b", "x-a"]
        assert near(client, "/v1/catalog/service/web?dc=dc2", "x-b") == ["x-a", "x-b"]
        # One server there fails: the other answers.
        there[1].kill("rpcd")
        for i in range(20):
            assert client.get("/v1/catalog/nodes?dc=dc2").status == 200


main(test_arrive_sort_and_go, test_what_no_node_has_is_refused, test_two_datacenters)

#!/usr/bin/env python3
"""Alias checks and sidecars: as well as what they stand for, here and elsewhere."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402


def service(node, name, **keys):
    node.put("/v1/agent/service/register", json.dumps(dict({"Name": name}, **keys))).ok()


def check(node, name, **keys):
    node.put("/v1/agent/check/register", json.dumps(dict({"Name": name}, **keys))).ok()


def ttl(node, verb, name, note=""):
    node.put("/v1/agent/check/%s/%s?note=%s" % (verb, name, note)).ok()


def drop(node, kind, name):
    node.put("/v1/agent/%s/deregister/%s" % (kind, name)).ok()


def wait_state(node, name, status, output):
    def look():
        c = node.get("/v1/agent/checks").json().get(name)
        return c is not None and (c["Status"], c["Output"]) == (status, output)
    try:
        wait_for("%s is %s: %s" % (name, status, output), look)
    except AssertionError as e:
        raise AssertionError("%s; it is %s" % (e, node.get("/v1/agent/checks").json().get(name)))


def in_catalog(node, of, name):
    return {c["CheckID"]: c["Status"] for c in node.get("/v1/health/node/" + of.name).json()}.get(name)


def here():
    with Cluster("127.97.1") as c:
        node = c.servers(1)[0]
        c.formed([node])
        check(node, "a", AliasService="web")
        check(node, "whole", AliasNode=node.name)
        wait_state(node, "a", "critical", "Service web could not be found on node ")
        wait_state(node, "whole", "passing", "All checks passing.")
        service(node, "web")
        wait_state(node, "a", "passing", "No checks found.")
        service(node, "web", Checks=[{"TTL": "1h", "Status": "passing", "Name": "one"}, {"TTL": "1h", "Status": "passing"}])
        wait_state(node, "a", "passing", "All checks passing.")
        ttl(node, "warn", "service:web:2", "tired")
        wait_state(node, "a", "warning", "Aliased check \"Service 'web' check\" failing: tired")
        ttl(node, "fail", "service:web:1", "dead")
        wait_state(node, "a", "critical", "Aliased check \"one\" failing: dead")
        wait_for("the catalog knows", lambda: in_catalog(node, node, "a") == "critical")
        # A check of the node counts as well, an alias of the node does not: it comes back, though "whole" never counts "a".
        check(node, "b", AliasService="web")
        ttl(node, "pass", "service:web:1")
        ttl(node, "pass", "service:web:2")
        for name in ("a", "b"):
            wait_state(node, name, "passing", "All checks passing.")
        check(node, "disk", TTL="1h")
        ttl(node, "warn", "disk", "full")
        for name in ("a", "whole"):
            wait_state(node, name, "warning", 'Aliased check "disk" failing: full')
        drop(node, "check", "disk")
        for name in ("a", "whole"):
            wait_state(node, name, "passing", "All checks passing.")
        # Chains, and the end of what is stood for.
        service(node, "front", Check={"AliasService": "web"})
        check(node, "far", AliasService="front")
        wait_state(node, "far", "passing", "All checks passing.")
        ttl(node, "fail", "service:web:1", "x")
        wait_state(node, "far", "critical", "Aliased check \"Service 'front' check\" failing: Aliased check \"one\" failing: x")
        drop(node, "service", "web")
        wait_state(node, "a", "critical", "Service web could not be found on node ")
        # They are there after a restart, and go with their service.
        node.stop("rpcd")
        node.start("rpcd")
        node.up()
        wait_state(node, "a", "critical", "Service web could not be found on node ")
        service(node, "web")
        wait_state(node, "far", "passing", "All checks passing.")
        assert int(node.stats("rpcd")["checks_alias"]) == 5
        drop(node, "service", "front")
        assert "service:front" not in node.get("/v1/agent/checks").json()
        assert int(node.stats("rpcd")["checks_alias"]) == 4
        # Two that stand for each other end somewhere.
        service(node, "x", Checks=[{"AliasService": "y"}])
        service(node, "y", Checks=[{"AliasService": "x"}, {"TTL": "1h", "CheckID": "t"}])
        wait_for("both are critical", lambda: [node.get("/v1/agent/checks").json()["service:" + i]["Status"]
                                               for i in ("x", "y:1")] == ["critical"] * 2)


def elsewhere():
    with Cluster("127.97.2") as c:
        server = c.servers(1)[0]
        a, b = (c.client("c%d" % n, 10 + n, server) for n in (1, 2))
        c.formed([server])
        check(a, "web", AliasNode=b.name, AliasService="web")
        check(a, "node", AliasNode=b.name)
        check(a, "nobody", AliasNode="no-such-node")
        wait_state(a, "nobody", "critical", "Node no-such-node could not be found")
        wait_state(a, "node", "passing", "All checks passing.")
        wait_state(a, "web", "critical", "Service web could not be found on node c2")
        service(b, "web", Check={"TTL": "1h", "Status": "passing"})
        wait_state(a, "web", "passing", "All checks passing.")
        ttl(b, "fail", "service:web", "dead")
        wait_state(a, "web", "critical", "Aliased check \"Service 'web' check\" failing: dead")
        wait_state(a, "node", "passing", "All checks passing.")
        ttl(b, "pass", "service:web")
        wait_state(a, "web", "passing", "All checks passing.")
        # A second one for the same node asks nothing more.
        check(a, "again", AliasNode=b.name, AliasService="web")
        wait_state(a, "again", "passing", "All checks passing.")
        drop(b, "service", "web")
        wait_state(a, "again", "critical", "Service web could not be found on node c2")
        service(b, "web")
        wait_state(a, "again", "passing", "All checks passing.")
        # The node itself.
        b.kill(*b.daemons)
        wait_for("its failure shows", lambda: a.get("/v1/agent/checks").json()["node"]["Status"] == "critical")
        b.start()
        b.up()
        wait_state(a, "node", "passing", "All checks passing.")
        # A server that is away changes nothing at once, and all goes on when it is back.
        server.stop("raftd")
        server.start("raftd")
        c.formed([server])
        ttl_of_b = {"TTL": "1h", "Status": "critical", "Name": "n"}
        check(b, "n", **ttl_of_b)
        wait_state(a, "node", "critical", 'Aliased check "n" failing: ')


def sidecars():
    with Cluster("127.97.3") as c:
        node = c.servers(1)[0]
        c.formed([node])

        def services():
            return node.get("/v1/agent/services").json()
        service(node, "web", Port=80, Connect={"SidecarService": {}})
        service(node, "api", Port=81, Connect={"SidecarService": {}})
        assert services()["web-sidecar-proxy"]["Port"] == 21000 and services()["api-sidecar-proxy"]["Port"] == 21001
        # Registered again without, it stays; removed alone, it has gone, and its port is free.
        service(node, "web", Port=80)
        assert "web-sidecar-proxy" in services()
        drop(node, "service", "web-sidecar-proxy")
        assert set(services()) == {"web", "api", "api-sidecar-proxy"}
        service(node, "db", Connect={"SidecarService": {}})
        assert services()["db-sidecar-proxy"]["Port"] == 21000
        # What a user registered under such an id is the user's.
        service(node, "web-sidecar-proxy", Port=1, Kind="connect-proxy", Proxy={"DestinationServiceName": "web"})
        drop(node, "service", "web")
        assert "web-sidecar-proxy" in services()
        # After a restart it still is the sidecar of its service.
        node.stop("rpcd")
        node.start("rpcd")
        node.up()
        service(node, "api", Port=81, Connect={"SidecarService": {}})
        assert services()["api-sidecar-proxy"]["Port"] == 21001
        drop(node, "service", "api")
        assert set(services()) == {"db", "db-sidecar-proxy", "web-sidecar-proxy"}
        wait_for("the catalog has let them go", lambda: set(node.get("/v1/catalog/services").json()) ==
                 {"consul", "db", "db-sidecar-proxy", "web-sidecar-proxy"})
        # All ports are taken.
        for port in range(21001, 21256):
            service(node, "p%d" % port, Port=port)
        answer = node.put("/v1/agent/service/register", json.dumps({"Name": "more", "Connect": {"SidecarService": {}}}))
        assert answer.status == 400 and answer.text == (
            "Invalid SidecarService: no port provided for sidecar_service and none left in the configured range "
            "[21000, 21255]"), answer
        assert "more" not in services()
        answer = node.put("/v1/agent/service/register", json.dumps(
            {"Name": "more", "Connect": {"SidecarService": {"Meta": {"consul-x": "y"}, "Port": 1}}}))
        assert answer.status == 500 and answer.text.startswith("Bad request: Invalid SidecarService: Invalid Service Meta"), answer


if __name__ == "__main__":
    main(here, elsewhere, sidecars)

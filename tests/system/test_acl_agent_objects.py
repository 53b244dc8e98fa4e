#!/usr/bin/env python3
"""The agent's endpoints and each field of theirs that names something: the right to one object, and the id of another's."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, Acl, auth  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

MISSING = "Permission denied: Missing service:write on victim"
OF_NODE = "Permission denied: Missing node:write on n1"
DENIED = "Permission denied"
RESERVED = ("serfHealth", "SERFHEALTH", "_node_maintenance", "_service_maintenance:vid", "_Service_Maintenance:")


def service(**more):
    return dict({"Name": "mine", "ID": "mid"}, **more)


def check(**more):
    return dict({"CheckID": "own", "Name": "own", "TTL": "600s"}, **more)


REGISTER, CHECK = "/v1/agent/service/register", "/v1/agent/check/register"
# Endpoint, the field that names another's object, the request, and what is said to a token with service:write on "mine" alone.
# A field is the right to the object that it names, in whatever request it stands.
TABLE = [
    (REGISTER, "Name", REGISTER, {"Name": "victim", "ID": "x"}, MISSING),
    (REGISTER, "ID", REGISTER, service(ID="vid"), MISSING),
    (REGISTER, "Proxy.DestinationServiceName", REGISTER,
     service(Kind="connect-proxy", Port=1, Proxy={"DestinationServiceName": "victim"}), MISSING),
    (REGISTER, "Check.CheckID", REGISTER, service(Check=check(CheckID="service:vid")), MISSING),
    (REGISTER, "Check.ID", REGISTER, service(Check={"ID": "service:vid", "TTL": "600s"}), MISSING),
    (REGISTER, "Checks.CheckID, of the node", REGISTER, service(Checks=[check(), check(CheckID="nodechk")]), OF_NODE),
    (REGISTER, "Checks.CheckID, made of the ID", REGISTER, service(ID="two:1", Check={"TTL": "600s"}),
     "Permission denied: Missing service:write on two"),
    (REGISTER, "Checks.ServiceID", REGISTER, service(Checks=[check(ServiceID="vid", CheckID="service:vid")]), MISSING),
    (REGISTER, "Connect.SidecarService.Name", REGISTER, service(Connect={"SidecarService": {"Name": "victim"}}), MISSING),
    (REGISTER, "Connect.SidecarService, its ID", REGISTER, service(ID="vic", Connect={"SidecarService": {"Name": "mine"}}), MISSING),
    (REGISTER, "Connect.SidecarService.Proxy.DestinationServiceName", REGISTER,
     service(Connect={"SidecarService": {"Name": "mine", "Proxy": {"DestinationServiceName": "victim"}}}), MISSING),
    (REGISTER, "Connect.SidecarService.Checks.CheckID", REGISTER,
     service(Connect={"SidecarService": {"Name": "mine", "Checks": [check(CheckID="service:vid")]}}), MISSING),
    (REGISTER, "Connect.SidecarService.Check.CheckID", REGISTER,
     service(Connect={"SidecarService": {"Name": "mine", "Check": check(CheckID="nodechk")}}), OF_NODE),
    (CHECK, "ServiceID", CHECK, check(ServiceID="vid"), MISSING),
    (CHECK, "ServiceID, none", CHECK, check(), OF_NODE),
    (CHECK, "CheckID", CHECK, check(CheckID="service:vid", ServiceID="mid"), MISSING),
    (CHECK, "CheckID, of the node", CHECK, check(CheckID="nodechk", ServiceID="mid"), OF_NODE),
    (CHECK, "Name", CHECK, {"Name": "service:vid", "TTL": "1s", "ServiceID": "mid"}, MISSING),
    ("/v1/agent/service/deregister/", "path", "/v1/agent/service/deregister/vid", None, MISSING),
    ("/v1/agent/service/maintenance/", "path", "/v1/agent/service/maintenance/vid?enable=true", None, MISSING),
    ("/v1/agent/maintenance", "this node", "/v1/agent/maintenance?enable=true", None, DENIED),
    ("/v1/agent/check/deregister/", "path", "/v1/agent/check/deregister/service:vid", None, MISSING),
    ("/v1/agent/check/deregister/", "path, of the node", "/v1/agent/check/deregister/nodechk", None, OF_NODE),
    ("/v1/agent/check/deregister/", "path, maintenance", "/v1/agent/check/deregister/_service_maintenance:mnt", None, MISSING),
    ("/v1/agent/check/pass/", "path", "/v1/agent/check/pass/service:vid", None, MISSING),
    ("/v1/agent/check/warn/", "path", "/v1/agent/check/warn/service:vid", None, MISSING),
    ("/v1/agent/check/fail/", "path", "/v1/agent/check/fail/nodechk", None, OF_NODE),
    ("/v1/agent/check/update/", "path", "/v1/agent/check/update/service:vid", {"Status": "critical"}, MISSING),
]


def prepared(c):
    """A server whose agent has services and checks of others, and a token for "mine", whose service is there."""
    node = c.add("n1", 1, raftd={"bootstrap": True}, **ON).start()
    acl = Acl(node)
    all_of_it = acl.token('node_prefix "" { policy = "write" }\nservice_prefix "" { policy = "write" }')
    own = auth(acl.token('service "mine" { policy = "write" }'))
    every = auth(all_of_it)
    passing = {"TTL": "600s", "Status": "passing"}
    for body in ({"Name": "victim", "ID": "vid", "Check": passing}, {"Name": "victim", "ID": "mnt"},
                 {"Name": "two", "Checks": [passing, passing]}, {"Name": "victim", "ID": "vic-sidecar-proxy"}):
        node.put(REGISTER, body, headers=every).ok()
    # The first of two checks of "two" has an id that a service "two:1" would give its only one.
    assert "service:two:1" in node.get("/v1/agent/checks", headers=every).json()
    node.put(CHECK, dict(passing, Name="nodechk"), headers=every).ok()
    node.put("/v1/agent/service/maintenance/mnt?enable=true", headers=every).ok()
    node.put(REGISTER, service(), headers=own).ok()
    return node, acl, every, own


def everything(node, every):
    return [node.get("/v1/agent/" + of, headers=every).json() for of in ("services", "checks")]


def test_objects_of_others():
    """Each row is refused, with the sentence that names what is missing; nothing changes, and owners' reports pass."""
    with Cluster("127.149.6") as c:
        node, acl, every, own = prepared(c)
        before = everything(node, every)
        for endpoint, field, path, body, said in TABLE:
            assert path.startswith(endpoint)
            r = node.put(path, body, headers=own)
            assert (r.status, r.body.decode()) == (403, said), (endpoint, field, r)
            assert everything(node, every) == before, (endpoint, field)
        for path in ("/v1/agent/check/pass/service:vid", "/v1/agent/check/fail/nodechk"):
            node.put(path, headers=every).ok()
        # What is its own it may change, in all the same ways.
        mine = service(Check=check(), Connect={"SidecarService": {"Name": "mine", "Proxy": {"DestinationServiceName": "mine"}}})
        node.put(REGISTER, mine, headers=own).ok()
        node.put(REGISTER, mine, headers=own).ok()
        node.put(CHECK, check(ServiceID="mid"), headers=own).ok()
        node.put("/v1/agent/check/pass/own", headers=own).ok()
        node.put("/v1/agent/service/deregister/mid", headers=own).ok()
        wait_for("the service and its sidecar are gone", lambda: set(node.get("/v1/agent/services", headers=every).json()) ==
                 {"vid", "mnt", "two", "vic-sidecar-proxy"})


def test_every_endpoint_is_there():
    """An endpoint of the agent that writes by a name has rows above: a new one without fails here."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "rpcd", "api")
    named = set()
    for name in ("v1/agent_services.c", "v1/agent_checks.c"):
        with open(os.path.join(source, name)) as f:
            named |= {line.split('"')[1] for line in f if '"PUT", ACCESS_' in line}
    assert named == {endpoint for endpoint, _, _, _, _ in TABLE}, named ^ {endpoint for endpoint, _, _, _, _ in TABLE}


def test_reserved_ids():
    """Of whoever has all rights: a client gives no check an id of the cluster or of maintenance, in any way that there is."""
    with Cluster("127.149.7") as c:
        node, acl, every, own = prepared(c)
        before = everything(node, every)
        for name in RESERVED:
            for path, body in ((CHECK, check(CheckID=name)), (CHECK, {"Name": name, "TTL": "1s"}),
                               (REGISTER, service(Check=check(CheckID=name))), (REGISTER, service(Checks=[check(ID=name, CheckID="")])),
                               (REGISTER, service(Connect={"SidecarService": {"Checks": [check(CheckID=name)]}}))):
                r = node.put(path, body, headers=every)
                assert r.status == 400 and ('Check ID "%s" is reserved' % name).encode() in r.body, (path, body, r)
        assert everything(node, every) == before
        services = os.path.join(node.conf, "services.d")
        os.makedirs(services, exist_ok=True)
        with open(os.path.join(services, "x.conf"), "w") as f:
            f.write('check { id = "serfHealth"\nname = "x"\nttl = "10s" }\n')
        p = node.ctl("validate", node.conf, check=False)
        assert p.returncode != 0 and 'Check ID "serfHealth" is reserved' in p.stdout + p.stderr, p
        r = node.put("/v1/agent/reload", headers=auth(acl.secret))
        assert r.status == 500 and b'Check ID "serfHealth" is reserved' in r.body, r


def test_case_twins():
    """Two ids that differ by case alone are one in the catalog: the second is refused, and judged like the first."""
    with Cluster("127.149.8") as c:
        node, acl, every, own = prepared(c)
        for path, body in ((REGISTER, service(ID="VID")), (REGISTER, service(Check=check(CheckID="SERVICE:VID"))),
                           (CHECK, check(CheckID="NodeChk", ServiceID="mid"))):
            r = node.put(path, body, headers=every)
            assert r.status == 400 and b"IDs are compared without case" in r.body, (body, r)
        assert node.put("/v1/agent/service/deregister/VID", headers=own).status == 200     # there is none of this id
        assert "vid" in node.get("/v1/agent/services", headers=every).json()
        assert [e["ServiceID"] for e in acl.ask("GET", "/v1/catalog/service/victim")].count("vid") == 1


def test_tenants():
    """Over HTTP: a header, a parameter or a field that names a tenant is refused, and nothing is written."""
    with Cluster("127.149.14") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        r = node.put("/v1/kv/k?ns=team-a", b"secret")
        assert (r.status, r.body) == (400, b'Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature'), r
        for name in ("X-Consul-Namespace", "x-consul-partition"):
            assert node.put("/v1/kv/k", b"secret", headers={name: "team-a"}).status == 400
        assert node.put("/v1/catalog/register", {"Node": "x", "Address": "10.0.0.1", "Partition": "p"}).status == 400
        assert node.get("/v1/kv/k?ns=team-b&raw").status == 400 and node.get("/v1/kv/k").status == 404
        node.put("/v1/kv/k?ns=default", b"open", headers={"X-Consul-Namespace": "", "X-Consul-Partition": "default"}).ok()
        assert node.get("/v1/kv/k?ns=&raw").body == b"open"
        services = os.path.join(node.conf, "services.d")
        os.makedirs(services, exist_ok=True)
        with open(os.path.join(services, "x.conf"), "w") as f:
            f.write('service { name = "x"\nnamespace = "team-a" }\n')
        p = node.ctl("validate", node.conf, check=False)
        assert p.returncode != 0 and "Namespaces are a Consul Enterprise feature" in p.stdout + p.stderr, p


main(test_tenants, test_objects_of_others, test_every_endpoint_is_there, test_reserved_ids, test_case_twins)

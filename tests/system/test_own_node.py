#!/usr/bin/env python3
"""What an agent tells of its node.  node_meta and tagged_addresses of cluster.conf: the catalog, DNS and the agent say them,
they follow a reload, and the leader's passes leave them alone."""
import http.client
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import signal  # noqa: E402

from aclkit import ON, Acl, auth  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from dnsask import exchange, question  # noqa: E402
from waiting import wait_for  # noqa: E402

SOON = {"sync_interval": "1s"}
OFTEN = dict(CALM, bootstrap=True, reconcile_interval="1s")
SEGMENT = {"consul-network-segment": ""}
TXT = 16


def entry(at, name, **kw):
    answer = at.get("/v1/catalog/node/" + name, **kw).ok().json()
    return answer["Node"] if answer else {"Meta": None, "TaggedAddresses": None}


def addresses(ip, **others):
    return dict({"lan": ip, "lan_ipv4": ip, "wan": ip, "wan_ipv4": ip}, **others)


def nodes(at, query):
    return sorted(n["Node"] for n in at.get("/v1/catalog/nodes?" + query).ok().json())


def passes(leader):
    return int(leader.stats("raftd")["catalog_passes"])


def compared(node):
    return int(node.stats("rpcd")["sync_comparisons"])


def test_as_configured():
    with Cluster("127.151.1") as c:
        server = c.add("n1", 1, raftd=OFTEN, rpcd=SOON).start()
        client = c.add("c1", 2, server=False, retry_join=[server.addr], rpcd=SOON, **{
            "node_meta.rack": "r1", "node_meta.rfc1035-note": "a=b", "tagged_addresses.wan": "203.0.113.7",
            "tagged_addresses.vpn": "10.9.0.2"}).start()
        c.formed([server])
        meta = dict(SEGMENT, rack="r1", **{"rfc1035-note": "a=b"})
        tagged = addresses(client.addr, wan="203.0.113.7", vpn="10.9.0.2")
        wait_for("the catalog has it", lambda: entry(server, "c1")["Meta"] == meta)
        node = entry(server, "c1")
        assert node["TaggedAddresses"] == tagged and node["Address"] == client.addr, node
        assert client.self_told()["Meta"] == meta and server.self_told()["Meta"] == SEGMENT
        assert entry(server, "n1")["TaggedAddresses"] == addresses(server.addr)
        assert nodes(server, "node-meta=rack:r1") == ["c1"] and nodes(server, "node-meta=rack:r2") == []
        assert nodes(client, "filter=Meta.rack==r1") == ["c1"]
        assert nodes(client, "filter=TaggedAddresses.vpn==%2210.9.0.2%22") == ["c1"]
        text = exchange(server, question("c1.node.consul", TXT))
        assert b"rack=r1" in text and b"\x03a=b" in text and b"rfc1035" not in text, text
        # Neither undoes what the other wrote: nothing is written any more.
        index, enough = node["ModifyIndex"], (passes(server) + 3, compared(client) + 3)
        wait_for("passes and comparisons", lambda: passes(server) >= enough[0] and compared(client) >= enough[1])
        assert entry(server, "c1")["ModifyIndex"] == index

        client.set_common(**{"node_meta.rack": "r2", "node_meta.rfc1035-note": None, "tagged_addresses.vpn": None})
        client.signal(signal.SIGHUP, "rpcd")
        wait_for("the reload has reached the catalog", lambda: entry(server, "c1")["Meta"] == dict(SEGMENT, rack="r2"))
        assert entry(server, "c1")["TaggedAddresses"] == addresses(client.addr, wan="203.0.113.7")
        assert client.self_told()["Meta"] == dict(SEGMENT, rack="r2")

        # The leader's own writes: of a member that fails and comes back, at another address too.
        client.kill("gossipd")
        health = "/v1/health/node/c1"
        wait_for("it failed", lambda: [x["Status"] for x in server.get(health).ok().json()] == ["critical"])
        client.kill("rpcd")
        client.addr = c.net + ".3"
        client.set_common(bind=client.addr)
        client.write("rpcd.conf", {"http_addresses": [client.addr], "http_admin": True, **SOON})
        client.start()
        wait_for("it is there again", lambda: [x["Status"] for x in server.get(health).ok().json()] == ["passing"])
        wait_for("its addresses are the new ones", lambda: entry(server, "c1")["TaggedAddresses"] == addresses(
            client.addr, wan="203.0.113.7"))
        node = entry(server, "c1")
        assert node["Address"] == client.addr and node["Meta"] == dict(SEGMENT, rack="r2"), node

        client.set_common(**{"node_meta.rack": None, "tagged_addresses.wan": None})
        client.signal(signal.SIGHUP, "rpcd")
        wait_for("all of it has gone", lambda: entry(server, "c1")["Meta"] == SEGMENT)
        assert entry(server, "c1")["TaggedAddresses"] == addresses(client.addr)


def test_bad_file():
    """A reload with a bad pair changes nothing, and says where it is."""
    with Cluster("127.151.2") as c:
        node = c.add("n1", 1, raftd=OFTEN, rpcd=SOON, **{"node_meta.rack": "r1"}).start()
        c.formed([node])
        wait_for("the catalog has it", lambda: entry(node, "n1")["Meta"] == dict(SEGMENT, rack="r1"))
        node.set_common(**{"node_meta.consul-x": "y"})
        said = node.put("/v1/agent/reload")
        assert said.status == 500 and "node_meta: \"consul-x\": Key prefix 'consul-' is reserved" in said.text, said
        assert node.self_told()["Meta"] == dict(SEGMENT, rack="r1")


def test_self_while_it_is_reloaded():
    """/v1/agent/self waits for gossipd; what it says of the configuration is of the moment when it answers."""
    with Cluster("127.151.5") as c:
        node = c.add("n1", 1, raftd=OFTEN, rpcd=SOON, **{"node_meta.rack": "r1" * 200}).start()
        c.formed([node])
        node.signal(signal.SIGSTOP, "gossipd")
        told = http.client.HTTPConnection(node.addr, 8500, timeout=60)
        told.request("GET", "/v1/agent/self")
        assert node.get("/v1/status/leader").status == 200      # it came later: the other one has begun
        for i in range(20):
            node.set_common(**{"node_meta.rack": "r2-%02d" % i + "x" * 400})
            node.signal(signal.SIGHUP, "rpcd")
            wait_for("the reload is done", lambda: node.log("rpcd").count("configuration reloaded") > i)
        node.signal(signal.SIGCONT, "gossipd")
        meta = json.loads(told.getresponse().read())["Meta"]
        assert meta == dict(SEGMENT, rack="r2-19" + "x" * 400), meta


def test_without_the_right():
    """The agent's token may not write the node: `status` says what is missing, and with it the catalog follows."""
    with Cluster("127.151.3") as c:
        node = c.add("n1", 1, raftd=OFTEN, rpcd=SOON, **dict(ON, **{"node_meta.rack": "r1"})).start()
        acl = Acl(node)
        sock = "unix:" + os.path.join(node.run, "rpcd.sock")

        def lines():
            told = json.loads(node.ctl("--addr", sock, "--json", "status", check=False).stdout)
            return [x["Text"] for x in told["Checks"] if x["Check"] == "node" and x["Status"] == "not well"]
        may = acl.make('node "n1" { policy = "read" }')
        acl.http("PUT", "/v1/agent/token/agent", {"Token": may["SecretID"]}).ok()
        wait_for("status says it", lambda: any('acl.tokens.agent lacks node "n1" { policy = "write" }' in t for t in lines()))
        assert "Node info update blocked by ACLs" in node.log("rpcd")
        acl.http("PUT", "/v1/agent/token/agent", {"Token": acl.token('node "n1" { policy = "write" }')}).ok()
        wait_for("the catalog has it", lambda: entry(node, "n1", headers=auth(acl.secret))["Meta"] == dict(SEGMENT, rack="r1"))
        wait_for("all is well", lambda: lines() == [])


def test_self():
    """What programs for Consul look for in /v1/agent/self, of a server and of a client; and the version, which anybody sees."""
    with Cluster("127.151.4") as c:
        server = c.add("n1", 1, raftd=OFTEN, **ON).start()
        client = c.add("c1", 2, server=False, retry_join=[server.addr], **ON).start()
        acl = Acl(server)
        show = auth(acl.secret)

        def stats(node):
            return wait_for("it answers", lambda: node.get("/v1/agent/self", headers=show).json())
        wait_for("the client knows the server", lambda: stats(client)["Stats"]["consul"].get("known_servers") == "1")
        client.put("/v1/agent/service/register", {"Name": "web", "Checks": [
            {"Name": "a", "TTL": "1h"}, {"Name": "b", "TCP": "127.0.0.1:1", "Interval": "1h"}]}, headers=show).ok()
        told = stats(client)
        assert told["Stats"]["agent"] == {"check_monitors": "0", "check_ttls": "1", "checks": "2", "services": "1"}, told
        assert told["Stats"]["consul"] == {"acl": "enabled", "known_servers": "1", "server": "false"}, told
        assert told["DebugConfig"]["SerfAdvertiseAddrLAN"] == "tcp://%s:8301" % client.addr, told
        assert told["DebugConfig"]["TaggedAddresses"] == addresses(client.addr), told
        told = stats(server)["Stats"]
        assert told["consul"] == {"acl": "enabled", "bootstrap": "true", "known_datacenters": "1", "leader": "true",
                                  "leader_addr": server.addr + ":8300", "server": "true"}, told
        assert told["raft"]["protocol_version"] == "3" and told["runtime"]["os"] == "linux", told
        assert all(isinstance(v, str) for section in told.values() for v in section.values())
        version = client.get("/v1/agent/version").ok().json()
        assert version["HumanVersion"].startswith("1.10.0+triumvir.") and sorted(version) == ["BuildDate", "FIPS", "HumanVersion", "SHA"]


main(test_as_configured, test_bad_file, test_self_while_it_is_reloaded, test_without_the_right, test_self)

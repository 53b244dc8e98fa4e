#!/usr/bin/env python3
"""clusterctl dns: what it explains is what DNS answers, at a server and at a client; and what it says of what is left out."""
import json
import os
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

TYPES = {"A": 1, "NS": 2, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "ANY": 255}
RCODES = {"NOERROR": 0, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}


def wire(name):
    return b"".join(bytes([len(x)]) + x for x in name.encode().split(b".") if x) + b"\0"


def exactly(s, n):
    out = b""
    while len(out) < n:
        part = s.recv(n - len(out))
        if not part:
            raise ConnectionError("the connection ended")
        out += part
    return out


def asked(node, name, kind, tcp=False, size=None):
    """(rcode, counts of the three sections without OPT, bytes without OPT, TTLs of the answers) of DNS itself."""
    packet = struct.pack("!6H", 77, 0x100, 1, 0, 0, 1 if size else 0) + wire(name) + struct.pack("!2H", TYPES[kind], 1)
    if size:
        packet += b"\0" + struct.pack("!2HIH", 41, size, 0, 0)
    if tcp:
        with socket.create_connection((node.addr, 8600), 10) as s:
            s.sendall(struct.pack("!H", len(packet)) + packet)
            reply = exactly(s, struct.unpack("!H", exactly(s, 2))[0])
    else:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(10)
            s.connect((node.addr, 8600))
            s.send(packet)
            reply = s.recv(65535)
    answer, authority, additional = struct.unpack("!3H", reply[6:12])
    return reply[3] & 15, [answer, authority, additional - bool(size and reply[3] & 15 != 5)], len(reply)


def explained(node, *words):
    return json.loads(node.ctl("--json", "dns", *words).stdout)


def same(node, name, kind, tcp=False, size=None):
    """Both say the same; returns the explanation."""
    words = ["--type", kind] + (["--tcp"] if tcp else []) + (["--size", str(size)] if size else []) + [name]
    e = explained(node, *words)
    rcode, counts, length = asked(node, name, kind, tcp, size)
    assert RCODES[e["Rcode"]] == rcode, (words, e, rcode)
    sections = [[r["Section"] for r in e["Records"]].count(s) for s in ("answer", "authority", "additional")]
    assert sections == counts, (words, e, counts)
    assert e["Bytes"] in (0, length), (words, e["Bytes"], length)
    return e


def register(node, name, address, service=None, status="passing", **more):
    body = dict({"Node": name, "Address": address}, **more)
    if service:
        body["Service"] = service
        body["Check"] = {"Name": "alive", "CheckID": "alive", "ServiceID": service["ID"], "Status": status}
    node.put("/v1/catalog/register", body).ok()


def fill(node):
    for i, status in enumerate(("passing", "warning", "critical", "passing", "passing", "passing")):
        register(node, "web%d" % i, "10.1.1.%d" % (i + 1), {"Service": "web", "ID": "w%d" % i, "Port": 80,
                                                            "Tags": ["v%d" % (i % 2)]}, status)
    register(node, "six", "2001:db8::1", {"Service": "v6", "ID": "v6", "Port": 1})
    register(node, "named", "10.1.1.9", {"Service": "named", "ID": "named", "Port": 1, "Address": "www.example.net"})
    register(node, "sick", "10.1.1.10", {"Service": "sick", "ID": "sick", "Port": 1}, "critical", NodeMeta={"rack": "r1"})
    node.put("/v1/catalog/register", {"Node": "sick", "Address": "10.1.1.10", "SkipNodeUpdate": True,
                                      "Check": {"Name": "disk", "CheckID": "disk", "Status": "critical"}}).ok()
    node.put("/v1/catalog/register", {"Node": "bare", "Address": "10.1.1.11"}).ok()
    node.http("POST", "/v1/query", body={"Name": "best", "Service": {"Service": "web", "OnlyPassing": True}, "DNS": {"TTL": "8s"}}).ok()


NAMES = [("web.service.consul", "A"), ("web.service.consul", "AAAA"), ("web.service.consul", "SRV"), ("web.service.consul", "MX"),
         ("WEB.service.Consul", "A"), ("v1.web.service.consul", "A"), ("_web._v0.service.consul", "SRV"), ("v9.web.service.consul", "A"),
         ("v6.service.consul", "AAAA"), ("v6.service.consul", "A"), ("named.service.consul", "A"), ("named.service.consul", "SRV"),
         ("sick.service.consul", "A"), ("sick.node.consul", "A"), ("sick.node.consul", "TXT"), ("sick.node.consul", "MX"),
         ("nobody.node.consul", "A"), ("nothing.service.consul", "A"), ("web.service.dc9.consul", "A"), ("web.connect.consul", "A"),
         ("web.ingress.consul", "A"), ("best.query.consul", "A"), ("_best._tcp.query.consul", "SRV"), ("worst.query.consul", "A"),
         ("consul", "SOA"), ("consul", "NS"), ("consul", "A"), ("a.b.consul", "A"), ("0a000001.addr.consul", "A"), ("0a.addr.consul", "A"), ("www.example.net", "A"),
         ("1.1.1.10.in-addr.arpa", "PTR"), ("9.9.9.9.in-addr.arpa", "PTR")]


def test_same():
    """The same rcode, sections and bytes as the answer of DNS, for every kind of name, over UDP, with EDNS and over TCP."""
    with Cluster("127.138.21") as c:
        servers = c.servers(1)
        client = c.client("c1", 4, servers[0])
        c.formed(servers + [client])
        fill(servers[0])
        for node in servers + [client]:
            wait_for("the last one is found", lambda: explained(node, "bare.node.consul")["Rcode"] == "NOERROR")
            for name, kind in NAMES:
                same(node, name, kind)
                same(node, name, kind, size=1232)
                same(node, name, kind, tcp=True)


def reasons(e):
    return {i["ID"]: i["Reason"] for i in e["Instances"]}


def test_reasons():
    """Why an instance is left out, which key sets a TTL, and what a reload changes."""
    with Cluster("127.138.22") as c:
        node, = c.servers(1)
        c.formed([node])
        fill(node)
        e = same(node, "web.service.consul", "A", tcp=True)
        assert [i["Answered"] for i in e["Instances"]] == [True, True, False, True, True, True], e
        assert reasons(e)["w2"] == 'the check "alive" of the service is critical', e
        e = same(node, "web.service.consul", "A")
        left = [i["Reason"] for i in e["Instances"] if not i["Answered"]]
        assert len(left) == 3 and sum("udp_answer_limit answers (3)" in r for r in left) == 2, e
        e = same(node, "v1.web.service.consul", "A", tcp=True)
        assert reasons(e)["w0"] == "it has not the tag v1" and reasons(e)["w3"] == "", e
        e = same(node, "v9.web.service.consul", "A")
        assert e["Why"] == "no instance of the service web has the tag v9" and len(e["Instances"]) == 6, e
        e = same(node, "v6.service.consul", "A")
        assert reasons(e) == {"v6": "it has no address for type A"}, e
        e = same(node, "sick.service.consul", "A")
        assert "of the service is critical" in reasons(e)["sick"] or "of the node is critical" in reasons(e)["sick"], e
        assert "for its health" in e["Why"], e
        assert "no node nobody" in explained(node, "nobody.node.consul")["Why"]
        assert "`clusterctl query list`" in explained(node, "worst.query.consul")["Why"]
        assert "no datacenter dc9" in explained(node, "web.service.dc9.consul")["Why"]
        assert "`recursors` in rpcd.conf" in explained(node, "www.example.net")["Why"]
        e = same(node, "_best._tcp.query.consul", "SRV", tcp=True)
        assert e["Records"][0]["Type"] == "SRV" and e["Records"][0]["TTLFrom"] == "the prepared query", e
        e = same(node, "best.query.consul", "A", tcp=True)
        assert {r["TTL"] for r in e["Records"]} == {8} and e["Records"][0]["TTLFrom"] == "the prepared query", e
        keys = {"dns_config.service_ttl": {"w*": "10s"}, "dns_config.only_passing": True, "dns_config.node_ttl": "3s",
                "recursors": ["192.0.2.1"]}
        node.write("rpcd.conf", dict({"http_addresses": [node.addr], "http_admin": True}, **keys))
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("the keys are read again", lambda: explained(node, "web.service.consul")["Records"][0]["TTL"] == 10)
        e = explained(node, "--tcp", "web.service.consul")
        assert e["Records"][0]["TTLFrom"] == 'dns_config.service_ttl "w*"', e
        assert reasons(e)["w1"] == 'the check "alive" of the service is warning, and dns_config.only_passing is on', e
        e = explained(node, "web1.node.consul")
        assert (e["Records"][0]["TTL"], e["Records"][0]["TTLFrom"]) == (3, "dns_config.node_ttl"), e
        e = explained(node, "www.example.net")
        assert e["Forwarded"] and "192.0.2.1 port 53" in e["Why"], e


def test_away():
    """At a client: answers from its cache; without a server they have an age, and what is on dead nodes is left out."""
    with Cluster("127.138.24") as c:
        server, = c.servers(1)
        client, other = c.client("c1", 4, server), c.client("c2", 5, server)
        c.formed([server, client, other])
        for n in client, other:
            n.put("/v1/agent/service/register", {"Name": "app", "ID": "on-" + n.name, "Port": 80}).ok()

        def cached():
            e = explained(client, "--tcp", "app.service.consul")
            return e if e["Sources"][0]["Cached"] and sum(i["Answered"] for i in e["Instances"]) == 2 else None
        e = wait_for("the cache answers", cached)
        assert e["Sources"][0]["From"].startswith("the cache of this node"), e
        server.kill()
        other.kill()

        def alone():
            e = explained(client, "--tcp", "app.service.consul")
            return e if [i["Answered"] for i in e["Instances"]] == [True, False] else None
        e = wait_for("what is on the dead node is left out", alone)
        assert e["Sources"][0]["Cached"] and e["Sources"][0]["AgeMs"] > 0, e
        assert reasons(e)["on-c2"].startswith("gossip takes its node for dead"), e
        assert [r["Data"] for r in e["Records"]] == [client.addr], e
        same(client, "app.service.consul", "A", tcp=True)
        assert "s old" in client.ctl("dns", "app.service.consul").stdout


def test_shown():
    """For people: a head, what was looked up, two tables; and what is wrong with a question."""
    with Cluster("127.138.23") as c:
        node, = c.servers(1, rpcd={"dns_port": 0})
        c.formed([node])
        fill(node)
        out = node.ctl("dns", "--tcp", "web.service.consul").stdout
        lines = out.splitlines()
        assert lines[0].startswith("web.service.consul. A over TCP: NOERROR, 5 records, "), out
        assert "  it means: service web, datacenter dc1" in lines and "dns_port is 0" in out, out
        assert any(x.startswith("  looked up: service web in dc1: this server") and "6 instances" in x for x in lines), out
        assert sum(x.startswith("answer ") for x in lines) == 5 and sum(x.rstrip().endswith(" yes") for x in lines) == 5, out
        assert any("w2" in x and x.endswith('no: the check "alive" of the service is critical') for x in lines), out
        for words, says in ((["x..y"], "no name of DNS"), (["--type", "bogus", "x"], "A, AAAA, SRV"), (["--from", "me", "x"], "no IP address"),
                            (["--size", "70000", "x"], "0 to 65535")):
            p = node.ctl("dns", *words, check=False)
            assert p.returncode == 1 and says in p.stderr, (words, p)
        assert node.ctl("dns", check=False).returncode == 2


main(test_same, test_reasons, test_away, test_shown)

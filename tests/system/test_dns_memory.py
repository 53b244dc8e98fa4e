#!/usr/bin/env python3
"""DNS from memory: as new as the servers know, without questions to them, and without them."""
import os
import random
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from dnsask import A, NOERROR, NOWHERE, PTR, SERVFAIL, dns, dns_pid, question  # noqa: E402
from waiting import wait_for  # noqa: E402


SOON = {"rpc_hold_timeout": "1s"}
GONE, BACK = "names are answered from memory", "names are answered from what they know"


def found(*addresses):
    return NOERROR, set(addresses)


def register(node, service, name, address, **more):
    node.put("/v1/catalog/register", dict({"Node": name, "Address": address, "Service": {"Service": service}}, **more)).ok()


def numbers(node):
    return {k: int(v) for k, v in node.stats("rpcd").items() if k.startswith(("dns_", "cache_", "calls"))}


def settled(node):
    """Its counters after the process that speaks DNS has told of all that it did."""
    seen = numbers(node)["dns_answers"]
    dns(node, "settled.invalid")
    wait_for("what DNS did is told", lambda: numbers(node)["dns_answers"] > seen)
    return numbers(node)


def test_follows():
    """At a client each change shows, and questions cost the servers nothing."""
    with Cluster("127.146.1") as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server)
        c.formed([server])
        client.up()
        register(server, "web", "web1", "10.1.1.1", NodeMeta={"rack": "7"})
        wait_for("it is found", lambda: dns(client, "web.service.consul") == found("10.1.1.1"))
        wait_for("its node is, too", lambda: dns(client, "web1.node.consul") == found("10.1.1.1"))
        names = "web.service.consul", "web1.node.consul", "WEB.service.dc1.consul"
        for name in names:
            assert dns(client, name) == found("10.1.1.1"), name
        before = settled(client)
        for _ in range(100):
            for name in names:
                assert dns(client, name) == found("10.1.1.1"), name
        after = settled(client)
        assert after["dns_cached"] - before["dns_cached"] >= 300, (before, after)
        assert after["dns_lookups"] == before["dns_lookups"], (before, after)
        assert after["cache_fetches"] - before["cache_fetches"] < 10, (before, after)
        assert after["dns_stale"] == 0 and after["dns_follows"] >= 3, after

        register(server, "web", "web2", "10.1.1.2")
        wait_for("another instance shows", lambda: dns(client, names[0]) == found("10.1.1.1", "10.1.1.2"))
        register(server, "web", "web1", "10.1.1.9")
        wait_for("another address shows", lambda: dns(client, names[0]) == found("10.1.1.9", "10.1.1.2") and
                 dns(client, names[1]) == found("10.1.1.9"))
        server.put("/v1/catalog/register", {"Node": "web2", "Address": "10.1.1.2", "Check": {
            "Name": "alive", "Status": "critical"}}).ok()
        wait_for("what is critical goes", lambda: dns(client, names[0]) == found("10.1.1.9"))
        server.put("/v1/catalog/deregister", {"Node": "web1"}).ok()
        wait_for("what is gone goes", lambda: dns(client, names[0]) == NOWHERE and dns(client, names[1]) == NOWHERE)
        register(server, "web", "web1", "10.1.1.1")
        wait_for("and comes back", lambda: dns(client, names[0]) == found("10.1.1.1") and dns(client, names[1]) == found("10.1.1.1"))


def test_writer():
    """Who writes by way of a node sees it there with the next question, whatever was asked before."""
    with Cluster("127.146.2") as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server)
        c.formed([server])
        client.up()
        for node in (server, client):
            for i in range(100):
                name, address = "s%d-%s" % (i, node.name), "10.2.%d.%d" % (node is client, i)
                assert dns(node, name + ".service.consul") == NOWHERE and dns(node, "n-%s.node.consul" % name) == NOWHERE
                register(node, name, "n-" + name, address)
                assert dns(node, name + ".service.consul") == found(address), name
                assert dns(node, "n-%s.node.consul" % name) == found(address), name
                node.put("/v1/catalog/deregister", {"Node": "n-" + name}).ok()
                assert dns(node, name + ".service.consul") == NOWHERE, name


def test_unknown_names():
    """Floods of names that there are not cost the servers nothing, and one that is registered then is found."""
    with Cluster("127.146.3") as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server)
        c.formed([server])
        client.up()
        register(server, "web", "web1", "10.1.1.1", Service={"Service": "web", "Tags": ["Blue"]})
        wait_for("it is found", lambda: dns(client, "blue.web.service.consul") == found("10.1.1.1"))
        forms = "x%d.service.consul", "x%d.node.consul", "x%d.web.service.consul", "x%d.x.service.consul"
        for form in forms:
            for i in range(3):
                assert dns(client, form % i) == NOWHERE
        before = settled(client)
        rng = random.Random(4)
        for i in range(2000):
            assert dns(client, rng.choice(forms) % rng.getrandbits(60)) == NOWHERE
        after = settled(client)
        assert after["dns_denied"] - before["dns_denied"] >= 2000, (before, after)
        assert after["dns_lookups"] - before["dns_lookups"] < 10, (before, after)
        assert after["cache_fetches"] - before["cache_fetches"] < 20, (before, after)
        assert after["cache_entries"] < 20, after
        register(server, "new", "new1", "10.1.1.3", Service={"Service": "New", "Tags": ["Red"]})
        wait_for("a new one is found", lambda: dns(client, "new.service.consul") == found("10.1.1.3") and
                 dns(client, "new1.node.consul") == found("10.1.1.3") and dns(client, "red.new.service.consul") == found("10.1.1.3"))
        register(server, "web", "web1", "10.1.1.1", Service={"Service": "web", "Tags": ["Green"]})
        wait_for("and a new tag", lambda: dns(client, "green.web.service.consul") == found("10.1.1.1") and
                 dns(client, "blue.web.service.consul") == NOWHERE)
        # Where there is no list it is asked each time, and what is kept has a bound.
        for i in range(5000):
            assert dns(client, "x%d.query.consul" % i) == NOWHERE
        # Nor is what was asked for of these followed at a server, where a service of that name could come.
        entries = settled(client)["cache_entries"]
        for i in range(50):
            assert dns(client, "x%d.connect.consul" % i) == NOWHERE
        wait_for("the cache is given them back", lambda: numbers(client)["cache_entries"] <= entries)
        after = settled(client)
        assert after["dns_facts"] < 5000 and dns(client, "web.service.consul") == found("10.1.1.1"), after


def test_no_server():
    """Servers go one by one and come back: names go on, but for nodes that died since, and follow again."""
    with Cluster("127.146.4") as c:
        servers = c.servers(3, raftd=CALM, rpcd=SOON)
        client = c.client("c1", 4, servers[0], rpcd=SOON)
        other = c.client("c2", 5, servers[0], rpcd=SOON)
        leader = c.formed(servers)
        client.up()
        other.up()
        for node in (client, other):
            node.put("/v1/agent/service/register", {"Name": "web"}).ok()
        register(leader, "web", "outside", "10.1.1.1")
        leader.http("POST", "/v1/query", {"Name": "q", "Service": {"Service": "web"}}).ok()
        whole = found(client.addr, other.addr, "10.1.1.1")
        names = "web.service.consul", "q.query.consul"
        wait_for("all is known", lambda: all(dns(client, n) == whole for n in names))
        wait_for("nodes are", lambda: dns(client, "c2.node.consul") == found(other.addr) and
                 dns(client, "outside.node.consul") == found("10.1.1.1"))
        wait_for("and an address", lambda: dns(client, "1.1.1.10.in-addr.arpa", PTR) == (NOERROR, 1))
        wait_for("and what there is not", lambda: dns(client, "no.service.consul") == NOWHERE and
                 dns(client, "no.node.consul") == NOWHERE and numbers(client)["dns_follows"] == 5)

        rest = [s for s in servers if s is not leader]
        rest[0].kill()
        register(leader, "web", "outside", "10.1.1.2")
        whole = found(client.addr, other.addr, "10.1.1.2")
        wait_for("with one server less it follows", lambda: all(dns(client, n) == whole for n in names))
        leader.kill()
        assert dns(client, names[0]) == whole, dns(client, names[0])
        rest[1].kill()
        assert dns(client, names[0]) == whole, dns(client, names[0])
        wait_for("no server is reached", lambda: dns(client, names[0]) == whole and numbers(client)["dns_stale"] > 0)
        assert all(dns(client, n) == whole for n in names)
        assert dns(client, "c2.node.consul") == found(other.addr)
        assert dns(client, "1.1.1.10.in-addr.arpa", PTR)[0] == NOERROR
        assert dns(client, "no9.service.consul") == NOWHERE and dns(client, "no9.node.consul") == NOWHERE
        wait_for("it is logged", lambda: client.log("rpcd").count(GONE) == 1)

        other.kill()
        wait_for("a dead node goes", lambda: all(dns(client, n) == found(client.addr, "10.1.1.2") for n in names))
        assert dns(client, "c2.node.consul") == found(other.addr), "nodes are found in any state"
        assert numbers(client)["dns_dead_left_out"] > 0
        other.start()
        wait_for("and comes back", lambda: all(dns(client, n) == whole for n in names))
        assert client.log("rpcd").count(GONE) == 1 and BACK not in client.log("rpcd")

        for s in servers:
            s.start()
        leader = c.formed(servers)
        register(leader, "web", "outside", "10.1.1.3")
        whole = found(client.addr, other.addr, "10.1.1.3")
        wait_for("they are followed again", lambda: all(dns(client, n) == whole for n in names))
        wait_for("it is logged", lambda: client.log("rpcd").count(BACK) == 1)
        wait_for("nothing is old", lambda: numbers(client)["cache_entries_lost"] == 0)
        before = settled(client)
        for n in names:
            assert dns(client, n) == whole
        assert settled(client)["dns_stale"] == before["dns_stale"]
        assert client.log("rpcd").count(GONE) == 1


def test_max_stale():
    """Beyond max_stale, or cache_max_age, no old answer is given."""
    for key in ("max_stale", "cache_max_age"):
        with Cluster("127.146.5") as c:
            server, = c.servers(1)
            client = c.client("c1", 4, server, rpcd=dict(SOON, **{"dns_config." + key: "3s"}))
            c.formed([server])
            client.up()
            register(server, "web", "web1", "10.1.1.1")
            wait_for("it is found", lambda: dns(client, "web.service.consul") == found("10.1.1.1"))
            server.kill()
            assert dns(client, "web.service.consul") == found("10.1.1.1")
            wait_for(key + " is over", lambda: dns(client, "web.service.consul") == (SERVFAIL, set()))
            server.start()
            c.formed([server])
            wait_for("it is found again", lambda: dns(client, "web.service.consul") == found("10.1.1.1"))


def test_ends():
    """Follows end with the process, with the setting, and when nobody asks: then nothing goes to the servers."""
    with Cluster("127.146.6") as c:
        server, = c.servers(1)
        client = c.client("c1", 4, server, rpcd={"cache_ttl": "2s"})
        c.formed([server])
        client.up()
        conf = {"http_addresses": [client.addr], "http_admin": True, "cache_ttl": "2s"}
        for i in range(10):
            register(server, "s%d" % i, "w%d" % i, "10.1.1.%d" % i)
        names = ["s%d.service.consul" % i for i in range(10)]

        def all_found():
            return all(dns(client, n, timeout=5)[0] == NOERROR for n in names)
        wait_for("all are found", lambda: all_found() and numbers(client)["dns_follows"] == 10)
        os.kill(dns_pid(client), signal.SIGKILL)
        wait_for("follows end with the process", lambda: numbers(client)["dns_process_deaths"] == 1 and
                 numbers(client)["dns_follows"] == 0)
        wait_for("another one follows", lambda: numbers(client)["dns_processes"] == 1 and all_found() and
                 numbers(client)["dns_follows"] == 10)
        register(server, "s0", "w0", "10.1.1.100")
        wait_for("a change shows", lambda: dns(client, names[0]) == found("10.1.1.100"))
        fetched = numbers(client)["cache_expired"]
        # What is used stays for longer than cache_ttl, although rpcd is not asked for it.
        wait_for("the others end", lambda: dns(client, names[0]) and numbers(client)["cache_expired"] >= fetched + 9)
        assert numbers(client)["dns_follows"] == 1 and numbers(client)["cache_entries"] == 1
        wait_for("that one, too", lambda: numbers(client)["cache_entries"] == 0 and numbers(client)["dns_follows"] == 0)
        wait_for("no question is left", lambda: numbers(client)["calls_under_way"] == 0 and server.stats("raftd")["watches"] == "0")
        wait_for("nor a fact", lambda: settled(client)["dns_facts"] == 0)

        assert all_found()
        client.write("rpcd.conf", dict(conf, **{"dns_config.use_cache": False}))
        client.signal(signal.SIGHUP, "rpcd")
        wait_for("the setting ends them", lambda: numbers(client)["dns_follows"] == 0)
        assert all_found()
        before = settled(client)
        assert all_found()
        after = settled(client)
        assert after["dns_cached"] == before["dns_cached"] and after["dns_lookups"] == before["dns_lookups"] + 10, (before, after)
        client.write("rpcd.conf", conf)
        client.signal(signal.SIGHUP, "rpcd")
        wait_for("and begins them", lambda: all_found() and numbers(client)["dns_follows"] == 10)


def test_datacenters():
    """Names of another datacenter are followed there, and outlive it."""
    with Cluster("127.146.7") as c:
        one, = c.servers(1)
        two, = c.servers(1, dc="dc2", first=11, prefix="d", retry_join_wan=["%s.1" % c.net])
        client = c.client("c1", 4, one, rpcd=SOON)
        c.formed([one])
        c.formed([two])
        client.up()
        register(two, "web", "far", "10.1.1.1")
        wait_for("it is found", lambda: dns(client, "web.service.dc2.consul") == found("10.1.1.1"))
        assert dns(client, "web.service.consul") == NOWHERE and dns(client, "web.service.dc9.consul") == NOWHERE
        register(two, "web", "far", "10.1.1.2")
        wait_for("a change there shows", lambda: dns(client, "web.service.dc2.consul") == found("10.1.1.2"))
        two.kill()
        wait_for("it is away", lambda: dns(client, "web.service.dc2.consul") == found("10.1.1.2") and
                 numbers(client)["dns_stale"] > 0)
        assert dns(client, "web.service.dc2.consul") == found("10.1.1.2")
        two.start()
        c.formed([two])
        register(two, "web", "far", "10.1.1.3")
        wait_for("it is back", lambda: dns(client, "web.service.dc2.consul") == found("10.1.1.3"))


def test_wan_addresses():
    """With translate_wan_addrs, what is of another datacenter has its WAN addresses, by each kind of name; it is live."""
    with Cluster("127.146.8") as c:
        one, = c.servers(1)
        two, = c.servers(1, dc="dc2", first=11, prefix="d", retry_join_wan=["%s.1" % c.net])
        c.formed([one])
        c.formed([two])
        for node in (one, two):
            node.put("/v1/catalog/register", {
                "Node": "far", "Address": "10.1.1.1", "TaggedAddresses": {"lan": "10.1.1.1", "wan": "192.0.2.1"},
                "Service": {"Service": "web", "Port": 80}}).ok()
            node.put("/v1/catalog/register", {
                "Node": "own", "Address": "10.1.1.2", "TaggedAddresses": {"wan": "192.0.2.2"},
                "Service": {"Service": "db", "Address": "10.1.1.3", "Port": 80, "TaggedAddresses": {
                    "lan": {"Address": "10.1.1.3", "Port": 80}, "wan": {"Address": "192.0.2.3", "Port": 8080}}}}).ok()
            node.put("/v1/catalog/register", {"Node": "none", "Address": "10.1.1.4", "Service": {"Service": "none"}}).ok()
            node.http("POST", "/v1/query", {"Name": "there", "Service": {"Service": "web"}}).ok()
        one.http("POST", "/v1/query", {"Name": "over", "Service": {"Service": "gone", "Failover": {"Datacenters": ["dc2"]}}}).ok()
        two.put("/v1/catalog/register", {"Node": "far", "Address": "10.1.1.1", "SkipNodeUpdate": True,
                                         "Service": {"Service": "gone"}}).ok()
        lan = {"web.service.dc2": "10.1.1.1", "far.node.dc2": "10.1.1.1", "db.service.dc2": "10.1.1.3", "own.node.dc2": "10.1.1.2",
               "none.service.dc2": "10.1.1.4", "there.query.dc2": "10.1.1.1", "over.query": "10.1.1.1"}
        wan = {"web.service.dc2": "192.0.2.1", "far.node.dc2": "192.0.2.1", "db.service.dc2": "192.0.2.3", "own.node.dc2": "192.0.2.2",
               "none.service.dc2": "10.1.1.4", "there.query.dc2": "192.0.2.1", "over.query": "192.0.2.1"}
        near = {"web.service": "10.1.1.1", "db.service": "10.1.1.3", "own.node.dc1": "10.1.1.2", "there.query": "10.1.1.1"}

        def differ(expected):
            got = {name: dns(one, name + ".consul") for name in expected}
            return {n: got[n] for n in expected if got[n] != found(expected[n])}
        wait_for("without it", lambda: not differ(dict(lan, **near)))
        conf = {"http_addresses": [one.addr], "http_admin": True}
        one.write("rpcd.conf", dict(conf, translate_wan_addrs=True))
        one.signal(signal.SIGHUP, "rpcd")
        wait_for("with it", lambda: not differ({"web.service.dc2": "192.0.2.1"}))
        assert differ(dict(wan, **near)) == {}, differ(dict(wan, **near))
        explained = one.get("/v1/agent/dns/db.service.dc2.consul?type=SRV").text
        assert "8080" in explained, explained
        one.write("rpcd.conf", conf)
        one.signal(signal.SIGHUP, "rpcd")
        wait_for("without it again", lambda: not differ(dict(lan, **near)))


main(test_follows, test_writer, test_unknown_names, test_no_server, test_max_stale, test_ends, test_datacenters, test_wan_addresses)

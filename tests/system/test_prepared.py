#!/usr/bin/env python3
"""Prepared queries over whole clusters: other datacenters when nothing is found here, also while one hangs or is gone; sessions,
restarts, snapshots; leaders that die while queries are made; clusterctl; servers of different versions."""
import http.client
import json
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from oldpeer import STATE, started_with_old  # noqa: E402
from raftcluster import OP, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

MAKERS, EACH = 4, 30                    # threads that make queries, and how many each


def create(node, name, service, **more):
    query = dict({"Name": name, "Service": dict({"Service": service}, **more.pop("of_service", {}))}, **more)
    return node.http("POST", "/v1/query", json.dumps(query).encode()).ok(200).json()["ID"]


def execute(node, name, query=""):
    return node.get("/v1/query/%s/execute%s" % (name, query)).ok(200).json()


def register(node, name, service, status="passing"):
    body = {"Node": name, "Address": "10.9.0.1", "Service": {"Service": service, "Port": 80},
            "Check": {"CheckID": "c-" + service, "ServiceID": service, "Status": status}}
    node.put("/v1/catalog/register", json.dumps(body).encode()).ok(200)


def test_failover():
    """dc1 has none; dc2 and dc3 have one each."""
    with Cluster("127.234.1") as c:
        near = c.servers(1, rpcd={"failover_timeout": "1s"})[0]
        wan = {"retry_join_wan": [near.addr]}
        second = c.servers(1, dc="dc2", first=11, prefix="m", **wan)[0]
        third = c.servers(1, dc="dc3", first=21, prefix="o", **wan)[0]
        client = c.client("c1", 4, near, rpcd={"failover_timeout": "1s"})
        for s in (near, second, third):
            c.formed([s])
        for n in (near, client, second, third):
            wait_for("all datacenters are known to " + n.name, lambda: sorted(
                n.get("/v1/catalog/datacenters").ok(200).json()) == ["dc1", "dc2", "dc3"])
        for s in (second, third):
            register(s, "of-" + s.dc, "web")
        create(near, "named", "web", of_service={"Failover": {"Datacenters": ["dc9", "dc2", "dc3", "dc2"]}})
        create(near, "nearest", "web", of_service={"Failover": {"NearestN": 5}})
        create(near, "one", "web", of_service={"Failover": {"NearestN": 1, "Datacenters": ["dc3", "dc2"]}})
        create(near, "alone", "web")
        create(near, "geo-", "${name.suffix}", Template={"Type": "name_prefix_match"},
               of_service={"Failover": {"Datacenters": ["dc3"]}})
        create(near, "nowhere", "nope", of_service={"Failover": {"NearestN": 2}})

        def outcome(node, name, query=""):
            a = execute(node, name, query)
            return a["Datacenter"], a["Failovers"], [n["Node"]["Node"] for n in a["Nodes"]]

        for n in (near, client):
            assert outcome(n, "named") == ("dc2", 1, ["of-dc2"]), n.name
            assert outcome(n, "named", "?stale") == ("dc2", 1, ["of-dc2"]), n.name
            assert outcome(n, "nearest")[1:] in ((1, ["of-dc2"]), (1, ["of-dc3"])), n.name
            assert outcome(n, "one")[1] == 1, n.name
            assert outcome(n, "alone") == ("dc1", 0, []), n.name
            assert outcome(n, "geo-web") == ("dc3", 1, ["of-dc3"]), n.name
            dc, tries, nodes = outcome(n, "nowhere")
            assert dc in ("dc2", "dc3") and tries == 2 and nodes == [], n.name
            # From elsewhere: what is there is asked first.
            assert n.get("/v1/query/named/execute?dc=dc2").status == 404, n.name
        create(second, "named", "nope", of_service={"Failover": {"Datacenters": ["dc2", "dc3", "dc1"]}})
        assert outcome(near, "named", "?dc=dc2")[1:] == (2, [])

        # One that hangs is passed over after failover_timeout.
        second.signal(signal.SIGSTOP)
        for n in (near, client):
            before = int(n.stats("rpcd")["failover_tries_timed_out"])
            assert outcome(n, "named") == ("dc3", 2, ["of-dc3"]), n.name
            assert int(n.stats("rpcd")["failover_tries_timed_out"]) == before + 1, n.name
            assert outcome(n, "nearest")[2] == ["of-dc3"], n.name
        second.signal(signal.SIGCONT)
        wait_for("dc2 answers again", lambda: outcome(near, "named") == ("dc2", 1, ["of-dc2"]))
        # One that is gone.
        second.kill()
        for n in (near, client):
            wait_for("dc3 answers " + n.name, lambda: outcome(n, "named") == ("dc3", 2, ["of-dc3"]))
        # All of them: then what was found here is the answer.
        third.signal(signal.SIGSTOP)
        for n in (near, client):
            assert outcome(n, "named") == ("dc1", 2, []), n.name
        third.signal(signal.SIGCONT)
        # What is here comes first.
        register(near, "of-dc1", "web")
        for n in (near, client):
            assert outcome(n, "named") == ("dc1", 0, ["of-dc1"]), n.name
        metrics = {g["Name"] for g in near.get("/v1/agent/metrics").json()["Gauges"]}
        assert {"triumvir.rpcd.queries_executed", "triumvir.rpcd.failover_tries",
                "triumvir.state.prepared_queries"} <= {m.replace(" ", "_") for m in metrics}, sorted(metrics)


def test_life():
    """Sessions, blocking reads, restarts, snapshots."""
    with Cluster("127.234.2") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        other = next(s for s in servers if s is not leader)
        session = other.put("/v1/session/create", b'{"NodeChecks": []}').ok(200).json()["ID"]
        bound = create(leader, "bound", "web", Session=session)
        kept = create(other, "kept", "web", of_service={"Near": "_agent"}, DNS={"TTL": "7s"})
        create(leader, "t-", "${name.suffix}", Template={"Type": "name_prefix_match"})
        register(leader, "x", "web")
        index = other.get("/v1/query").ok(200).index
        waiting = []
        waiter = threading.Thread(target=lambda: waiting.append(other.get("/v1/query?index=%d&wait=60s" % index, timeout=90)))
        waiter.start()
        wait_for("it waits", lambda: int(other.stats("rpcd")["calls_under_way"]) > 0)
        leader.put("/v1/session/destroy/" + session).ok(200)
        waiter.join()
        assert {q["Name"] for q in waiting[0].ok(200).json()} == {"kept", "t-"} and waiting[0].index > index
        assert other.get("/v1/query/" + bound).status == 404
        archive = leader.get("/v1/snapshot").ok(200).body
        leader.delete("/v1/query/" + kept).ok(200)
        create(other, "kept", "changed")
        for s in servers:
            s.stop()
        for s in servers:
            s.start()
        leader = c.formed(servers)
        for s in servers:
            assert s.get("/v1/query/kept/explain").ok(200).json()["Query"]["Service"]["Service"] == "changed", s.name
            assert len(execute(s, "t-web")["Nodes"]) == 1, s.name
            assert s.stats("state")["prepared_queries"] == "2", s.name
        leader.put("/v1/snapshot", archive, timeout=120).ok(200)
        for s in servers:
            query = s.get("/v1/query/kept/explain").ok(200).json()["Query"]
            assert query["ID"] == kept and query["DNS"] == {"TTL": "7s"} and query["Service"]["Service"] == "web", s.name
            assert len(execute(s, "kept")["Nodes"]) == 1, s.name
            assert s.get("/v1/query/bound/explain").status == 404, s.name


class Maker(threading.Thread):
    """Makes queries through one node; of those that it was told of, it knows the ids."""

    def __init__(self, node, number):
        super().__init__(daemon=True)
        self.node, self.number, self.made, self.wrong = node, number, {}, []

    def run(self):
        for i in range(EACH):
            name = "q-%d-%d" % (self.number, i)
            for _ in range(1000):
                try:
                    a = self.node.http("POST", "/v1/query", json.dumps({"Name": name, "Service": {"Service": "s"}}).encode())
                except (OSError, http.client.HTTPException):
                    continue
                if a.status == 200:
                    self.made[name] = a.json()["ID"]
                elif "aliases an existing query name" in a.text:
                    self.made[name] = None      # made before, and nobody told us
                else:
                    continue                    # nobody leads just now
                break
            else:
                self.wrong.append(name)


def test_leader_dies():
    with Cluster("127.234.3") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        others = [s for s in servers if s is not leader]
        makers = [Maker(others[i % 2], i) for i in range(MAKERS)]
        for m in makers:
            m.start()
        wait_for("some are made", lambda: sum(len(m.made) for m in makers) >= EACH)
        leader.kill()
        for m in makers:
            m.join()
        leader.start()
        c.formed(servers)
        made = {name: i for m in makers for name, i in m.made.items()}
        assert not any(m.wrong for m in makers) and len(made) == MAKERS * EACH
        for s in servers:
            listed = s.get("/v1/query").ok(200).json()
            assert len(listed) == len(made), s.name
            for q in listed:
                assert made[q["Name"]] in (None, q["ID"]), (s.name, q)
            for name in made:
                assert s.get("/v1/query/%s/explain" % name).status == 200, (s.name, name)


def test_clusterctl():
    with Cluster("127.234.5") as c:
        server, = c.servers(1)
        c.formed([server])
        register(server, "x", "web")
        text = json.dumps({"Name": "q", "Service": {"Service": "web", "Failover": {"NearestN": 2, "Datacenters": ["dc2"]}}})
        made = server.ctl("query", "create", "-", input=text).stdout.strip()
        assert len(made) == 36, made
        path = os.path.join(c.dir, "template.json")
        with open(path, "w") as f:
            f.write('{"Name": "t-", "Template": {"Type": "name_prefix_match"}, "Service": {"Service": "${name.suffix}"}}')
        server.ctl("query", "create", path)
        lines = [line.split() for line in server.ctl("query", "list").stdout.splitlines()]
        assert lines[0] == ["ID", "Name", "Kind", "Service", "Failover", "Session"], lines
        rows = {line[1]: line for line in lines[1:]}
        assert rows["q"][:7] == [made, "q", "query", "web", "nearest", "2,", "dc2"] and rows["t-"][2] == "template", lines
        assert json.loads(server.ctl("query", "show", "q").stdout)["ID"] == made
        assert json.loads(server.ctl("query", "explain", "t-web").stdout)["Service"]["Service"] == "web"
        for name in (made, "q", "t-web"):
            p = server.ctl("query", "execute", "--limit", "1", name)
            assert p.stdout.startswith("Service web, datacenter dc1:\n") and p.stdout.splitlines()[2].split() == [
                "x", "web", "10.9.0.1", "80"], p.stdout
        p = server.ctl("query", "execute", "t-nope")
        assert p.stdout == "Service nope, datacenter dc1: no instance.\n", p.stdout
        assert json.loads(server.ctl("--json", "query", "execute", "q").stdout)["Failovers"] == 0
        server.ctl("query", "update", "q", "-", input=text.replace('"web"', '"db"'))
        assert json.loads(server.ctl("query", "show", made).stdout)["Service"]["Service"] == "db"
        for wrong, sentence in ((["show", "nope"], 'there is no query "nope"'), (["execute", "nope"], "Query not found"),
                                (["delete", "nope"], 'there is no query "nope"')):
            p = server.ctl("query", *wrong, check=False)
            assert p.returncode == 1 and sentence in p.stderr, p.stderr
        p = server.ctl("query", "create", "-", check=False, input='{"Name": "q", "Service": {"Service": "x"}}')
        assert p.returncode == 1 and "aliases an existing query name" in p.stderr, p.stderr
        assert server.ctl("query", "delete", "q").stdout == "Deleted query %s\n" % made
        server.ctl("query", "delete", "t-")
        assert server.get("/v1/query").json() == []


def test_older_server():
    """While a server is there that does not know them, none is made; and it is named."""
    query = [["", "q", "", "", ["", "", False], ["web", [0, None], False, None, "", None, None, None, False], [""], 0, 0]]
    with RaftCluster(3, net="127.234.4", bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c, STATE)
        wait_for("all vote", lambda: leader.servers() == {"n1": True, "n2": True, "n3": True})
        err, text, _, _ = leader.op(OP.QUERY_CREATE, query[0])
        assert err != 0 and "n3 runs a version of raftd that cannot apply this" in text, (err, text)
        err, text, _, value = leader.op(OP.QUERY_LIST, [""])
        assert err == 0 and value == [], (err, text)
        relay.upgrade()
        wait_for("it is carried out", lambda: leader.op(OP.QUERY_CREATE, query[0])[0] == 0)
        c.wait_equal()
        relay.close()


main(test_failover, test_life, test_leader_dies, test_clusterctl, test_older_server)

#!/usr/bin/env python3
"""services.d: definitions in files are read at the start and at a reload, checked before anything changes, and what came from a file
goes with its definition; what was registered over HTTP stays."""
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, CALM, TOP, Cluster, main, rpcd_conf  # noqa: E402
from waiting import wait_for  # noqa: E402

SOON = {"sync_interval": "1s", "check_sync_wait": "5s"}
OWN_FORM = """# our own form
services {
    web {
        port = 80
        tags = [ a, b ]
        meta { version = "1.2" }
        checks {
            alive { ttl = 1h; status = passing }
        }
    }
    api { port = 81 }
}
check { id = disk; name = "Free space"; ttl = 1h; status = warning }
"""
HCL_FORM = """# Consul's
service {
  name = "web", port = 0x50
  tags = ["a", "b"]
  meta { version = "1.2" note = <<-END
    one
      two
    END
  }
  check { ttl = "1h" status = "passing" }
}
service {
  name = "db"
  port = 5432
  tagged_addresses { lan { address = "10.0.0.1" port = 1 } }
  enable_tag_override = true
  weights = { passing = 3, warning = 2 }
  checks = [{ ttl = "1h", status = "passing" }]
  check { id = "db-2" ttl = "1h" status = "warning" }
}
services { name = "cache" port = 010 }
services = [{ name = "queue", port = 1, checks { ttl = "1h" status = "passing" } }]
/* of the node */
checks { id = "load" name = "Load" ttl = "1h" status = "passing" }
"""
CONSUL_FORM = {
    "service": {"name": "db", "port": 5432, "tagged_addresses": {"lan": {"address": "10.0.0.1", "port": 1}},
                "enable_tag_override": True, "weights": {"passing": 3, "warning": 2},
                "checks": [{"ttl": "1h", "status": "passing"}, {"ID": "db-2", "TTL": "1h", "Status": "passing"}]},
    "checks": [{"Name": "load", "TTL": "1h", "Status": "passing", "DeregisterCriticalServiceAfter": "90m"},
               {"id": "of-db", "name": "of db", "service_id": "db", "ttl": "1h", "status": "passing"}]}


def write(node, name, text):
    folder = os.path.join(node.conf, "services.d")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    if text is None:
        os.remove(path)
        return path
    with open(path, "w") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))
    return path


def services(node):
    return node.get("/v1/agent/services").ok().json()


def checks(node):
    return node.get("/v1/agent/checks").ok().json()


def statuses(node):
    return {k: c["Status"] for k, c in checks(node).items()}


def catalog(server, node):
    """What the catalog has of a node: services with their port, checks with their status."""
    there = server.get("/v1/catalog/node/" + node.name).ok().json() or {"Services": {}}
    return ({k: v.get("Port", 0) for k, v in there["Services"].items() if k != "consul"},
            {c["CheckID"]: c["Status"] for c in server.get("/v1/health/node/" + node.name).ok().json()
             if c["CheckID"] != "serfHealth"})


def agrees(server, node):
    return catalog(server, node) == ({k: v["Port"] for k, v in services(node).items()}, statuses(node))


def reload_ok(node):
    r = node.put("/v1/agent/reload")
    assert r.status == 200, r


def update(node, check, status, output="by a test"):
    r = node.put("/v1/agent/check/update/" + check, {"Status": status, "Output": output})
    assert r.status == 200, r


def started(c, files, **rpcd):
    server = c.add("n1", 1, raftd=dict(CALM, bootstrap_expect=1), rpcd=dict(SOON, **rpcd))
    for name, text in files.items():
        write(server, name, text)
    server.start()
    c.formed([server])
    server.up()
    return server


def test_both_forms():
    with Cluster("127.186.1") as c:
        n = started(c, {"a.conf": OWN_FORM, "b.json": CONSUL_FORM, "passed-over.txt": "{", ".hidden.conf": "{"})
        here = services(n)
        assert set(here) == {"web", "api", "db"}
        assert here["web"]["Tags"] == ["a", "b"] and here["web"]["Meta"] == {"version": "1.2"} and here["web"]["Port"] == 80
        assert here["db"]["TaggedAddresses"] == {"lan": {"Address": "10.0.0.1", "Port": 1}}
        assert here["db"]["EnableTagOverride"] and here["db"]["Weights"] == {"Passing": 3, "Warning": 2}
        assert statuses(n) == {"service:web:alive": "passing", "disk": "warning", "service:db:1": "passing", "db-2": "passing",
                               "load": "passing", "of-db": "passing"}
        all_checks = checks(n)
        assert (all_checks["service:web:alive"]["Name"], all_checks["service:web:alive"]["ServiceID"]) == ("alive", "web")
        assert (all_checks["disk"]["Name"], all_checks["disk"]["Type"]) == ("Free space", "")
        assert all_checks["db-2"]["Type"] == "ttl" and all_checks["of-db"]["ServiceName"] == "db"
        wait_for("the catalog agrees", lambda: agrees(n, n))
        assert ("[WARN] rpcd: services.d: passed-over.txt is not read: only files whose names end in .conf, .json or .hcl are" in
                n.log("rpcd"))
        os.rename(os.path.join(n.conf, "services.d", "b.json"), os.path.join(n.conf, "services.d", "b.yaml"))
        told = n.ctl("validate", n.conf)
        assert "b.yaml and others are not read" in told.stdout + told.stderr, told
        os.rename(os.path.join(n.conf, "services.d", "b.yaml"), os.path.join(n.conf, "services.d", "b.json"))
        assert "services.d: added service web (%s/services.d/a.conf:3)" % n.conf in n.log("rpcd")
        assert "services.d: 2 files with 9 services and checks: 9 added, 0 changed, 0 removed" in n.log("rpcd")


def test_hcl():
    """Consul's other form: blocks given again, a list of one that is no list, heredocs; errors have their line."""
    with Cluster("127.186.11") as c:
        n = started(c, {"a.hcl": HCL_FORM})
        here = services(n)
        assert set(here) == {"web", "db", "cache", "queue"}, here
        assert here["web"]["Tags"] == ["a", "b"] and here["web"]["Meta"] == {"note": "one\n  two\n", "version": "1.2"}
        assert (here["web"]["Port"], here["cache"]["Port"], here["db"]["Port"], here["queue"]["Port"]) == (80, 8, 5432, 1)
        assert here["db"]["TaggedAddresses"] == {"lan": {"Address": "10.0.0.1", "Port": 1}}
        assert here["db"]["EnableTagOverride"] and here["db"]["Weights"] == {"Passing": 3, "Warning": 2}
        assert statuses(n) == {"service:web": "passing", "service:db:1": "passing", "db-2": "warning", "service:queue": "passing",
                               "load": "passing"}
        assert "services.d: added service db (%s/services.d/a.hcl:12)" % n.conf in n.log("rpcd")
        for text, where, why in (
                ("service {\n  name = \"x\"\n  prot = 1\n}", "3:", 'unknown key "prot" (did you mean port?)'),
                ("service {\n  name = \"x\"\n  port = \"1\"\n}", "3:", "port: a number is expected, without quotes"),
                ("service {\n  name = \"x\"\n  port = 1\n  port = 2\n}", "4:", 'key "port" is given twice (first on line 3)'),
                ("service \"x\" {\n}", "1:1:", "this block has no name here: write service { name"),
                ("service {\n  name = x\n}", "2:10:", "expected a value"),
                ("service {\n  name = <<E\n x\n}", "2:10:", "heredoc not terminated"),
                ("  {}", "1:", "this is JSON")):
            write(n, "b.hcl", text)
            told = n.ctl("validate", n.conf, check=False)
            assert told.returncode != 0 and "b.hcl:%s" % where in told.stderr + told.stdout and why in told.stderr + told.stdout, told
            r = n.put("/v1/agent/reload")
            assert r.status in (400, 500) and "b.hcl:%s" % where in r.text and why in r.text, r
        write(n, "b.hcl", None)
        assert set(services(n)) == {"web", "db", "cache", "queue"}


def test_reload():
    with Cluster("127.186.2") as c:
        n = started(c, {"a.conf": OWN_FORM})
        assert n.put("/v1/agent/service/register", {"Name": "http", "Port": 1, "Check": {"TTL": "1h"}}).status == 200
        assert n.put("/v1/agent/check/register", {"Name": "of-api", "ServiceID": "api", "TTL": "1h"}).status == 200
        update(n, "service:web:alive", "critical", "broken")
        update(n, "disk", "passing")
        wait_for("the catalog agrees", lambda: agrees(n, n))
        before = n.get("/v1/catalog/service/web").json()[0]["ModifyIndex"]
        # changed, added in a new file, removed with the check that HTTP gave it
        write(n, "a.conf", OWN_FORM.replace("api { port = 81 }", "new { port = 90 }").replace("Free space", "Space"))
        write(n, "b.json", {"services": [{"name": "db", "port": 5}]})
        reload_ok(n)
        assert {k: v["Port"] for k, v in services(n).items()} == {"web": 80, "new": 90, "db": 5, "http": 1}
        assert statuses(n) == {"service:web:alive": "critical", "disk": "passing", "service:http": "critical"}
        assert checks(n)["service:web:alive"]["Output"] == "broken" and checks(n)["disk"]["Name"] == "Space"
        wait_for("the catalog agrees", lambda: agrees(n, n))
        assert n.get("/v1/catalog/service/web").json()[0]["ModifyIndex"] == before
        log = n.log("rpcd")
        for line in ("added service new (%s/services.d/a.conf:11)" % n.conf, "changed check disk", "removed service api",
                     "removed check of-api", "2 files with 5 services and checks: 2 added, 1 changed, 2 removed"):
            assert "services.d: " + line in log, line
        # an error anywhere: all stays as it was, and the answer says where it is
        write(n, "a.conf", "services { web { port = 1 } }")
        bad = write(n, "z.json", '{"service":\n  {"name": "x", "prot": 1}}')
        r = n.put("/v1/agent/reload")
        assert (r.status, r.text) == (500, '%s:2: unknown key "prot" (did you mean port?)' % bad), r
        assert services(n)["web"]["Port"] == 80 and "x" not in services(n)
        p = n.ctl("reload", check=False)
        assert p.returncode == 1 and bad + ":2:" in p.stderr, p
        # SIGHUP does the same
        write(n, "z.json", None)
        n.signal(signal.SIGHUP, "rpcd")
        wait_for("SIGHUP reloads", lambda: services(n)["web"]["Port"] == 1)
        assert set(statuses(n)) == {"service:http"}
        wait_for("the catalog agrees", lambda: agrees(n, n))
        for name in ("a.conf", "b.json"):
            write(n, name, None)
        reload_ok(n)
        assert set(services(n)) == {"http"}
        wait_for("the catalog agrees", lambda: agrees(n, n))


def test_who_wins():
    """The same id in a file and over HTTP: the last registration counts until the next reload or start, which takes the file's."""
    with Cluster("127.186.3") as c:
        n = started(c, {"a.conf": "services { web { port = 1 } }"})
        for again in (lambda: reload_ok(n), lambda: (n.kill("rpcd"), n.start("rpcd"), n.up())):
            assert n.put("/v1/agent/service/register", {"Name": "web", "Port": 2}).status == 200
            assert services(n)["web"]["Port"] == 2
            again()
            assert services(n)["web"]["Port"] == 1
        # in two files: the later one, with a warning
        write(n, "b.json", {"service": {"name": "web", "port": 3}})
        reload_ok(n)
        assert services(n)["web"]["Port"] == 3
        assert "a.conf:1: service web is defined again at %s/services.d/b.json:1, which counts" % n.conf in n.log("rpcd")
        # and when the files go, it goes, at a start too
        write(n, "b.json", None)
        write(n, "a.conf", None)
        n.stop("rpcd")
        n.start("rpcd")
        n.up()
        assert services(n) == {}
        wait_for("the catalog agrees", lambda: agrees(n, n))


def test_restart_keeps_states():
    """A restart makes nothing critical, and writes nothing; a reload of the same files neither (S151)."""
    with Cluster("127.186.4") as c:
        n = started(c, {"a.conf": OWN_FORM, "b.json": CONSUL_FORM}, disable_coordinates=True)
        update(n, "service:db:1", "warning", "slow")
        update(n, "service:web:alive", "passing", "fine")
        wait_for("the catalog agrees", lambda: agrees(n, n))
        before = checks(n)
        index = n.get("/v1/health/service/db").json()[0]["Service"]["ModifyIndex"]
        for how in (n.kill, n.stop):
            # what a state became is saved within a second
            wait_for("the states are saved", lambda: saved(n, "slow"))
            how("rpcd")
            n.start("rpcd")
            n.up()
            assert checks(n) == before
            assert "0 added, 0 changed, 0 removed" in n.log("rpcd").rsplit("services.d: ", 1)[1]
            count = int(n.stats("rpcd")["sync_comparisons"])
            wait_for("two comparisons", lambda: int(n.stats("rpcd")["sync_comparisons"]) >= count + 2)
            assert n.stats("rpcd")["sync_pushes"] == "0"
            assert n.get("/v1/health/service/db").json()[0]["Service"]["ModifyIndex"] == index
        log = n.stats("raft")["applied_index"]
        reload_ok(n)
        n.signal(signal.SIGHUP, "rpcd")
        wait_for("both reloads", lambda: n.log("rpcd").count("0 added, 0 changed, 0 removed") >= 4)
        count = int(n.stats("rpcd")["sync_comparisons"])
        wait_for("two comparisons", lambda: int(n.stats("rpcd")["sync_comparisons"]) >= count + 2)
        assert checks(n) == before and n.stats("rpcd")["sync_pushes"] == "0"
        assert n.stats("raft")["applied_index"] == log, "a reload of the same files wrote something"


def saved(node, text):
    folder = os.path.join(node.data, "rpcd")
    for name in os.listdir(folder):
        if name.startswith("checks."):
            with open(os.path.join(folder, name), "rb") as f:
                if text.encode() in f.read():
                    return True
    return False


BROKEN = [
    ("x.conf", "services { web { port = 80", ":1: the '{' that begins here is not closed"),
    ("x.conf", "service {\n name = web\n port = many }", ":3: port: a whole number is expected"),
    ("x.conf", "service web { port = 1 }", ":1: a block with a name is written services { web { ... } }"),
    ("x.conf", "serivces { web { port = 1 } }", ':1: unknown key "serivces": files of services.d have service, services, check and checks'),
    ("x.conf", "checks {\n disk { ttl = 10 }\n}", ":2: ttl: a time with a unit is expected (500ms, 10s, 1m30s)"),
    ("x.conf", "check { id = a; interval = 1s }", ':1: check "a": Invalid check: TTL must be > 0 for TTL checks'),
    ("x.conf", "check { ttl = 1s }", ":1: this check has neither id nor name"),
    ("x.conf", "check { id = a; args = [ true ]; interval = 1s }", ":1: check \"a\": Scripts are disabled on this agent; to enable, "
     "configure 'enable_script_checks' or 'enable_local_script_checks' to true"),
    ("x.conf", "service { name = a; weights { passing = 0 } }", ':1: service "a": Invalid Weights: Passing must be greater than 0'),
    ("x.conf", "service { name = a; socket_path = /x; port = 1 }", ':1: service "a": it has both socket_path and address or port'),
    ("x.conf", "service {\n name = a\n Name = b }", ':3: key "Name" is given twice (first on line 2, as "name")'),
    ("x.json", '{"service": {"name": "a",\n "port": "80"}}', ":2: port: a number is expected, without quotes"),
    ("x.json", '{"service": {"name": "a",\n "port": 80,}}', ":2:"),
    ("x.json", '{"service": [{"name": "a"}]}', ":1: service: a block is expected, { ... }; several are written services"),
    ("x.json", '{"services": {"a": {"port": 1}}}', ":1: services: a list is expected"),
    ("x.json", '{"service": {"name": "a", "tags": "b"}}', ":1: tags: a list of texts is expected"),
    ("x.json", '{"service": {"name": "a", "enable_tag_overide": true}}', "(did you mean enable_tag_override?)"),
    ("x.json", "# comment\n{}", ":1:"),
]


def test_sidecars():
    """A service in a file brings its sidecar, which keeps its port and goes with it, whoever registered it."""
    def sidecars(n):
        return {k: v["Port"] for k, v in services(n).items() if v.get("Kind") == "connect-proxy"}
    web, api = ({"name": name, "port": 80, "connect": {"sidecar_service": {}}} for name in ("web", "api"))
    with Cluster("127.186.9") as c:
        n = started(c, {"a.json": {"services": [web, api]}, "b.conf": 'check { id = up; alias_service = web }'})
        ports = sidecars(n)
        assert set(ports) == {"web-sidecar-proxy", "api-sidecar-proxy"} and set(ports.values()) == {21000, 21001}
        assert {"service:web-sidecar-proxy:1", "service:web-sidecar-proxy:2", "up"} <= set(checks(n))
        wait_for("the catalog agrees", lambda: agrees(n, n))
        write(n, "a.json", {"services": [{"name": "new", "connect": {"sidecar_service": {}}}, api, web]})
        for again in (lambda: reload_ok(n), lambda: (n.kill("rpcd"), n.start("rpcd"), n.up())):
            again()
            assert sidecars(n) == dict(ports, **{"new-sidecar-proxy": 21002})
        write(n, "a.json", {"service": {"name": "web", "port": 80}})
        reload_ok(n)
        assert sidecars(n) == {}
        assert n.put("/v1/agent/service/register", web).status == 200
        assert sidecars(n) == {"web-sidecar-proxy": 21000}
        reload_ok(n)        # the service is the file's again; a sidecar of it stays as long as it does
        os.remove(os.path.join(n.conf, "services.d", "a.json"))
        reload_ok(n)
        assert services(n) == {} and set(checks(n)) == {"up"}
        wait_for("the catalog agrees", lambda: agrees(n, n))


def test_errors_name_the_place():
    """At a check, at the start and at a reload the same sentence; validate finds it too."""
    with Cluster("127.186.5") as c:
        n = started(c, {})
        ctl = os.path.join(BUILD, "ctl", "clusterctl")
        for name, text, sentence in BROKEN:
            path = write(n, name, text)
            r = n.put("/v1/agent/reload")
            assert r.status == 500 and r.text.startswith(path) and sentence in r.text, (text, r.text)
            p = subprocess.run([ctl, "validate", n.conf], capture_output=True, text=True)
            assert p.returncode == 1 and path in p.stderr and sentence in p.stderr, (text, p.stderr)
            write(n, name, None)
        assert services(n) == {} and checks(n) == {}
        # a check of a service that is not there: only where it is known what is there
        path = write(n, "x.conf", "check { id = a; service_id = none; ttl = 1s }")
        r = n.put("/v1/agent/reload")
        assert (r.status, r.text) == (500, path + ':1: check "a": ServiceID "none" does not exist: define the service, or '
                                      'register it first'), r
        # links: to what is below the folder, as Kubernetes has it, and to a file elsewhere, which the walls refuse
        write(n, "x.conf", None)
        folder = os.path.dirname(path)
        os.makedirs(os.path.join(folder, "..data-1"))
        os.symlink("..data-1", os.path.join(folder, "..data"))
        write(n, "..data-1/inner.conf", "service { name = inner }")
        os.symlink("..data/inner.conf", os.path.join(folder, "link.conf"))
        reload_ok(n)
        assert set(services(n)) == {"inner"}
        elsewhere = os.path.join(c.dir, "elsewhere.conf")
        with open(elsewhere, "w", encoding="utf-8") as f:
            f.write("service { name = outer }")
        os.chmod(elsewhere, 0o644)
        os.symlink(elsewhere, path)
        sentence = "%s: is a link to %s, outside of %s: rpcd's sandbox keeps it from reading that" % (path, elsewhere, n.conf)
        assert n.put("/v1/agent/reload").text.startswith(sentence), n.put("/v1/agent/reload")
        p = subprocess.run([ctl, "validate", n.conf], capture_output=True, text=True)
        assert p.returncode == 1 and sentence in p.stderr, p
        assert set(services(n)) == {"inner"}
        os.unlink(path)
        os.unlink(os.path.join(folder, "link.conf"))
        reload_ok(n)
        # files that others may write, or that rpcd could not read again
        write(n, "x.conf", "service { name = a }")
        os.chmod(path, 0o666)
        assert n.put("/v1/agent/reload").text.startswith(path + ": is writable by others: chmod go-w")
        os.chmod(path, 0o600)
        if os.geteuid() == 0:
            assert n.put("/v1/agent/reload").text == path + ": Permission denied"
            p = subprocess.run([ctl, "validate", n.conf], capture_output=True, text=True)
            assert "the user _rpcd could not read it at a reload: chgrp _rpcd %s && chmod g+r %s" % (path, path) in p.stderr, p
            n.stop("rpcd")
            n.start("rpcd")
            n.expect_end("rpcd", 1)
            assert "could not read it at a reload" in n.log("rpcd")
            os.chmod(path, 0o644)
            n.start("rpcd")
            n.up()
        os.chmod(path, 0o644)
        reload_ok(n)
        assert set(services(n)) == {"a"}


def test_scripts():
    """From files with either key; over HTTP with the general one alone."""
    script = {"check": {"id": "s", "args": ["/bin/true"], "interval": "1s"}}
    with Cluster("127.186.6") as c:
        n = started(c, {"a.json": script}, enable_local_script_checks=True)
        wait_for("the script ran", lambda: statuses(n) == {"s": "passing"})
        r = n.put("/v1/agent/check/register", {"Name": "t", "Args": ["/bin/true"], "Interval": "1s"})
        assert r.status == 500 and "Scripts are disabled on this agent from remote calls" in r.text


def test_scripts_allowed_by_the_same_reload():
    """The key and a check that needs it, added together: a restart is what is missing, and it helps."""
    with Cluster("127.186.12") as c:
        n = started(c, {})
        write(n, "a.json", json.dumps({"check": {"id": "s", "args": ["/bin/true"], "interval": "1s"}}))
        r = n.put("/v1/agent/reload")
        assert r.status == 500 and "to enable, configure" in r.text, r
        n.write("rpcd.conf", rpcd_conf(n.addr, enable_local_script_checks=True))
        r = n.put("/v1/agent/reload")
        assert r.status == 500 and "Scripts are allowed by rpcd.conf, but not by the one that rpcd was started with: restart rpcd" in r.text, r
        n.stop("rpcd")
        n.start("rpcd")
        wait_for("the script ran", lambda: statuses(n) == {"s": "passing"})


def test_scripts_of_before():
    """What was registered over HTTP while it was permitted is kept, but not run where only files may have scripts; until one does."""
    why = "Scripts are disabled on this agent from remote calls; to enable, configure 'enable_script_checks' to true"
    check = {"Args": ["/bin/true"], "Interval": "1s"}

    def again(n, **keys):
        n.stop("rpcd")
        n.write("rpcd.conf", rpcd_conf(n.addr, **dict(SOON, **keys)))
        n.start("rpcd")
        n.up()
    with Cluster("127.186.10") as c:
        n = started(c, {"a.json": {"check": {"id": "file", "args": ["/bin/true"], "interval": "1s"}}}, enable_script_checks=True)
        assert n.put("/v1/agent/check/register", dict(check, Name="lone")).status == 200
        assert n.put("/v1/agent/service/register", {"Name": "web", "Check": check}).status == 200
        remote = {"lone", "service:web"}
        wait_for("all ran", lambda: statuses(n) == dict.fromkeys(remote | {"file"}, "passing"))
        again(n, enable_local_script_checks=True)
        wait_for("the file's runs", lambda: int(n.stats("rpcd")["check_runs"]) > 1)
        assert {k: (v["Status"], v["Output"]) for k, v in checks(n).items() if k in remote} == dict.fromkeys(remote, ("critical", why))
        assert statuses(n)["file"] == "passing" and int(n.stats("rpcd")["checks_run_here"]) == 1
        wait_for("the catalog agrees", lambda: agrees(n, n))
        for name in remote:
            assert "Check is not run: check=%s: %s" % (name, why) in n.log("rpcd")
        # a file takes it over, with nothing else changed
        write(n, "b.json", {"service": {"name": "web", "check": {"args": check["Args"], "interval": "1s"}}})
        reload_ok(n)
        wait_for("it runs", lambda: statuses(n) == {"file": "passing", "service:web": "passing", "lone": "critical"})
        write(n, "b.json", None)
        reload_ok(n)
        assert statuses(n) == {"file": "passing", "lone": "critical"}
        # it was kept
        again(n, enable_script_checks=True)
        wait_for("it runs", lambda: statuses(n) == {"file": "passing", "lone": "passing"})


def test_many():
    """A thousand services in one file, then one less: one line of the log for each, up to a bound; the others are not touched."""
    def text(n):
        return {"services": [{"name": "s%d" % i, "port": 1 + i, "check": {"ttl": "1h", "status": "passing"}} for i in range(n)]}
    with Cluster("127.186.7") as c:
        n = started(c, {"a.json": text(1000)}, disable_coordinates=True)
        assert len(services(n)) == 1000
        assert len(re.findall("services.d: added", n.log("rpcd"))) == 60 and "services.d: and 1940 more" in n.log("rpcd")
        wait_for("the catalog agrees", lambda: agrees(n, n), 60)
        pushes = int(n.stats("rpcd")["sync_pushes"])
        write(n, "a.json", text(999))
        reload_ok(n)
        wait_for("the catalog agrees", lambda: agrees(n, n))
        assert int(n.stats("rpcd")["sync_pushes"]) == pushes + 1
        write(n, "a.json", text(5000))
        r = n.put("/v1/agent/reload")
        assert r.status == 500 and "more than 4096 entries in one block" in r.text, r
        for name in ("b.json", "c.json"):
            write(n, name, {"services": [{"name": name + str(i)} for i in range(2000)]})
        write(n, "a.json", text(999))
        r = n.put("/v1/agent/reload")
        assert r.status == 500 and "there would be 4999 services (limit: 4096, checks_max in rpcd.conf)" in r.text, r
        assert len(services(n)) == 999


def test_examples_of_the_manual():
    """What services.d(5) shows is accepted as it stands."""
    with open(os.path.join(TOP, "man", "services.d.5")) as f:
        blocks = re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", f.read(), re.S | re.M)
    examples = [b.replace("\\(dq", '"').replace("\\e", "\\") for b in blocks]
    examples = [e for e in examples if re.match(r"\s*(#|services?\b|checks?\b|\{)", e)]
    assert len(examples) >= 3, examples
    with Cluster("127.186.8") as c:
        n = started(c, {}, enable_local_script_checks=True)
        for i, e in enumerate(examples):
            form = "json" if e.lstrip().startswith("{") else "hcl" if '  name = "' in e else "conf"
            path = write(n, "example%d.%s" % (i, form), e)
            r = n.put("/v1/agent/reload")
            assert r.status == 200, (e, r)
            assert services(n) or checks(n)
            os.remove(path)


main(test_both_forms, test_hcl, test_reload, test_who_wins, test_restart_keeps_states, test_sidecars, test_errors_name_the_place, test_scripts, test_scripts_allowed_by_the_same_reload, test_scripts_of_before,
     test_many, test_examples_of_the_manual)

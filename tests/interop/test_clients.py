#!/usr/bin/env python3
"""Programs that were written for Consul: both of Debian's Python clients, and curl as Consul's tutorials use it.

python3-consul and python3-consul2 cannot both be installed; TV_PYTHON_CONSUL names folders (separated by ":") in which
more of them are unpacked. Each is imported in a process of its own.
"""
import base64
import http.server
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system", "lib"))
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.108"
DEBIAN = "/usr/lib/python3/dist-packages"
SOON = {"sync_interval": "2s", "check_sync_wait": "50ms"}


def cluster(number, raftd=None):
    """Three servers and two clients: (cluster, servers, clients)."""
    c = Cluster("%s.%d" % (NET, number))
    servers = c.servers(3, raftd=raftd or {}, rpcd=SOON)
    clients = [c.client("c%d" % i, 3 + i, servers[i], rpcd=SOON) for i in (1, 2)]
    c.formed(servers)
    for n in clients:
        n.up()
    return c, servers, clients


class Target(http.server.ThreadingHTTPServer):
    """A service that is checked by HTTP: answers `status`."""
    daemon_threads = True

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"well\n"
            self.send_response(self.server.status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    def __init__(self, addr):
        self.status = 200
        super().__init__((addr, 0), self.Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


# -- the Python clients -----------------------------------------------------------------------------


def python_clients():
    """{name: folder to import it from}"""
    found = {}
    for folder in [DEBIAN] + [f for f in os.environ.get("TV_PYTHON_CONSUL", "").split(":") if f]:
        for name, info in (("python3-consul", "python_consul-"), ("python3-consul2", "python_consul2-")):
            if os.path.isdir(folder) and any(f.startswith(info) for f in os.listdir(folder)):
                found.setdefault(name, folder)
    return found


def connect(folder, node):
    """The client's module, and a Consul of it at this node."""
    sys.path[:0] = [folder] + ([DEBIAN] if folder != DEBIAN else [])      # requests and six are there
    import consul

    c = consul.Consul(host=node.addr, port=8500)
    if consul.__version__ == "0.7.1":
        # It is older than Consul 1.0, which takes changes of an agent by PUT only.
        assert c.agent.service.deregister("nobody") is False         # 405
        plain = c.http.get
        changes = ("/v1/agent/service/deregister/", "/v1/agent/check/")
        c.http.get = lambda callback, path, params=None: (c.http.put if path.startswith(changes) else plain)(
            callback, path, params)
    return consul, c


def in_child(work, folder, node):
    """work(module, client, node) in a process of its own: a module called consul is imported once only."""
    def run():
        try:
            work(*connect(folder, node), node)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)             # what the test opened is not this one's to close
    p = multiprocessing.get_context("fork").Process(target=run)
    p.start()
    try:
        p.join(120)
        assert p.exitcode == 0, "exit status %r" % p.exitcode
    finally:
        if p.is_alive():
            p.kill()
            p.join()


def instances(c, name, **kw):
    return sorted(e["Service"]["ID"] for e in c.health.service(name, **kw)[1])


def registry(consul, c, node):
    """Services and their checks at the agent, and what the catalog and health tell of them."""
    assert c.agent.self()["Config"]["NodeName"] == node.name
    assert node.name in [m["Name"] for m in c.agent.members()]
    register = c.agent.service.register
    ttl = consul.Check.ttl("1h")
    assert register("web", service_id="web1", address="10.0.0.1", port=80, tags=["blue", "v1"], check=ttl)
    assert register("web", service_id="web2", port=81, tags=["green"], check=ttl)
    assert c.agent.services()["web1"]["Tags"] == ["blue", "v1"]
    wait_for("both are there", lambda: instances(c, "web") == ["web1", "web2"])
    assert not instances(c, "web", passing=True)
    index, known = c.health.service("web", passing=True)
    assert known == []
    check = c.agent.check
    for mark, status in ((check.ttl_pass, "passing"), (check.ttl_warn, "warning"), (check.ttl_fail, "critical"),
                         (check.ttl_pass, "passing")):
        assert mark("service:web1", "said so")
        assert c.agent.checks()["service:web1"]["Status"] == status

        def told():
            """By a blocking query, as a watcher does it."""
            nonlocal index
            index, checks = c.health.checks("web", index=index, wait="20s")
            return {k["CheckID"]: (k["Status"], k["Output"]) for k in checks}["service:web1"] == (status, "said so")
        wait_for("health/checks tells " + status, told)
    assert instances(c, "web", passing=True) == ["web1"]
    assert instances(c, "web", tag="green") == ["web2"]
    assert [e["ServiceID"] for e in c.catalog.service("web", tag="blue")[1]] == ["web1"]
    assert c.catalog.services()[1]["web"] in (["blue", "green", "v1"], ["blue", "v1", "green"])
    assert set(c.catalog.node(node.name)[1]["Services"]) - {"consul"} == {"web1", "web2"}
    assert "service:web2" in [k["CheckID"] for k in c.health.state("critical")[1]]
    wait_for("the leader's check of the node, too", lambda: {"serfHealth", "service:web1", "service:web2"} <= {
        k["CheckID"] for k in c.health.node(node.name)[1]})
    # maintenance: of a service, then of the node
    for what in (lambda e: c.agent.service.maintenance("web1", e, "disk"), lambda e: c.agent.maintenance(e, "disk")):
        assert what("true")
        wait_for("maintenance", lambda: instances(c, "web", passing=True) == [])
        assert any(k["Notes"] == "disk" for k in c.agent.checks().values())
        assert what("false")
        wait_for("its end", lambda: instances(c, "web", passing=True) == ["web1"])
    # checks of their own
    assert c.agent.check.register("disk", consul.Check.ttl("1h"), check_id="disk", notes="n")
    assert c.agent.check.register("more", consul.Check.ttl("1h"), service_id="web1", check_id="more")
    wait_for("the node is critical, and with it the service", lambda: instances(c, "web", passing=True) == [])
    assert c.agent.check.deregister("disk") and c.agent.check.deregister("more")
    wait_for("it passes again", lambda: instances(c, "web", passing=True) == ["web1"])
    assert register("web", service_id="web2", port=82, enable_tag_override=True)
    wait_for("another port", lambda: {e["ServicePort"] for e in c.catalog.service("web")[1]} == {80, 82})
    for i in ("web1", "web2"):
        assert c.agent.service.deregister(i)
    wait_for("nothing is left", lambda: c.catalog.service("web")[1] == [])
    # nodes that no agent runs on
    assert c.catalog.register(
        "far", "10.9.0.1", service={"Service": "db", "ID": "db1", "Tags": ["a"], "Port": 5432},
        check={"Node": "far", "CheckID": "c", "Name": "c", "ServiceID": "db1", "Status": "passing"})
    entry, = c.health.service("db", passing=True)[1]
    assert (entry["Node"]["Node"], entry["Service"]["Port"]) == ("far", 5432)
    assert "far" in [n["Node"] for n in c.catalog.nodes(near=node.name)[1]]
    assert c.catalog.deregister("far", service_id="db1")
    assert c.catalog.service("db")[1] == []
    assert c.catalog.deregister("far") and c.catalog.node("far")[1] is None
    assert c.catalog.datacenters() == ["dc1"] and len(c.status.peers()) == 3 and c.status.leader() in c.status.peers()
    assert node.name in [n["Node"] for n in wait_for("coordinates", lambda: c.coordinate.nodes()[1])]


def keys_and_sessions(consul, c, node):
    """Keys, locks that live as long as a session, events and transactions."""
    index, nothing = c.kv.get("a/none")
    assert nothing is None
    assert c.kv.put("a/b", "1", flags=42) and c.kv.put("a/c", "") and c.kv.put("a/d/e", "2")
    index, v = c.kv.get("a/b")
    assert (v["Value"], v["Flags"], v["ModifyIndex"]) == (b"1", 42, int(index))
    assert c.kv.get("a/c")[1]["Value"] is None
    assert c.kv.get("a/", keys=True)[1] == ["a/b", "a/c", "a/d/e"]
    assert c.kv.get("a/", keys=True, separator="/")[1] == ["a/b", "a/c", "a/d/"]
    assert len(c.kv.get("a/", recurse=True)[1]) == 3
    assert c.kv.put("a/b", "x", cas=0) is False and c.kv.put("a/b", "3", cas=index) is True
    assert c.kv.delete("a/b", cas=index) is False
    later = []
    seen, other = c.kv.get("a/c")[0], consul.Consul(host=node.addr)
    watcher = threading.Thread(target=lambda: later.append(other.kv.get("a/c", index=seen, wait="30s")))
    watcher.start()
    assert c.kv.put("a/c", "woken")
    watcher.join(60)
    assert later[0][1]["Value"] == b"woken"
    assert c.kv.delete("a/", recurse=True) and c.kv.get("a/", recurse=True)[1] is None
    # a lock goes with the check that its session needs
    assert c.agent.check.register("alive", consul.Check.ttl("1h"), check_id="alive")
    assert c.agent.check.ttl_pass("alive")
    wait_for("the check is in the catalog", lambda: "alive" in [k["CheckID"] for k in c.health.state("passing")[1]])
    s = c.session.create("mine", checks=["serfHealth", "alive"], lock_delay=0, behavior="release")
    assert c.kv.put("lock", "me", acquire=s) is True
    index, v = c.kv.get("lock")
    assert v["Session"] == s and v["LockIndex"] == 1
    other = c.session.create("other", ttl=60, lock_delay=0, behavior="delete")
    assert c.kv.put("lock", "you", acquire=other) is False
    assert c.session.renew(other)["TTL"] == "60s"
    assert {x["ID"] for x in c.session.list()[1]} >= {s, other} and c.session.info(s)[1]["Name"] == "mine"
    assert {x["ID"] for x in c.session.node(node.name)[1]} == {s, other}
    assert c.agent.check.ttl_fail("alive")
    wait_for("the lock is free", lambda: "Session" not in c.kv.get("lock", index=index, wait="20s")[1])
    assert c.session.info(s)[1] is None
    assert wait_for("the other one gets it", lambda: c.kv.put("lock", "you", acquire=other))
    assert c.session.destroy(other) and c.kv.get("lock")[1] is None
    assert c.agent.check.deregister("alive")
    # events
    assert c.event.fire("deploy", node.name)["Name"] == "deploy"
    wait_for("the event", lambda: {node.name.encode(), base64.b64encode(node.name.encode()).decode()} &
             {e["Payload"] for e in c.event.list(name="deploy")[1]})        # python3-consul2 leaves it encoded
    # transactions, in the client that knows them
    if hasattr(c, "txn"):
        got = c.txn.put([{"KV": {"Verb": "set", "Key": "t/1", "Value": "MQ=="}}, {"KV": {"Verb": "get", "Key": "t/1"}}])
        assert [r["KV"]["Key"] for r in got["Results"]] == ["t/1", "t/1"] and got["Errors"] is None
        try:
            c.txn.put([{"KV": {"Verb": "set", "Key": "t/1", "Value": "Mg=="}},
                       {"KV": {"Verb": "check-not-exists", "Key": "t/1"}}])
            raise AssertionError("it was carried out")
        except consul.ConsulException as e:
            assert "409" in str(e) and "OpIndex" in str(e), e
        assert c.kv.get("t/1")[1]["Value"] == b"1"
    assert c.operator.raft_config()["Servers"]


def python_consul():
    clients = python_clients()
    for missing in sorted({"python3-consul", "python3-consul2"} - set(clients)):
        print("SKIP: %s is not there" % missing, flush=True)
    for number, (name, folder) in enumerate(sorted(clients.items())):
        c, servers, nodes = cluster(1 + number)
        with c:
            for work in (registry, keys_and_sessions):
                for node in (nodes[0], servers[1]):
                    in_child(work, folder, node)
                    print("     %s: %s at %s" % (name, work.__name__, node.name), flush=True)


# -- curl, as in Consul's tutorials -----------------------------------------------------------------


class Curl:
    """Calls of curl in one folder, against one agent."""

    def __init__(self, c, node):
        self.url, self.dir = node.url, os.path.join(c.dir, "curl-" + node.name)
        os.mkdir(self.dir)

    def file(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)
        return "@" + name

    def start(self, *args):
        args = [self.url + a if a.startswith("/v1/") else a for a in args]
        return subprocess.Popen(
            ["curl", "--silent", "--show-error", "--max-time", "60", *args], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.dir)

    def __call__(self, *args):
        """What it prints."""
        p = self.start(*args)
        out, err = p.communicate(timeout=90)
        assert p.returncode == 0, (args, p.returncode, err)
        return out

    def json(self, *args):
        return json.loads(self(*args))

    def put(self, path, data=None):
        return self("--request", "PUT", *(["--data", data] if data is not None else []), path)

    def index(self, path):
        """X-Consul-Index, as `curl -v` or `curl -i` shows it."""
        head = self("--include", path).replace("\r", "").partition("\n\n")[0]
        return next(line.split(": ")[1] for line in head.split("\n") if line.lower().startswith("x-consul-index"))


def tutorial_services(curl, target):
    """Register a service with a check from a file, ask for it, filter, keep a TTL, maintenance."""
    assert curl.put("/v1/agent/service/register", curl.file("web.json", """
        {
          "Name": "web",
          "ID": "web1",
          "Tags": ["rails"],
          "Address": "%s",
          "Port": %d,
          "Meta": { "version": "4.0" },
          "EnableTagOverride": false,
          "Check": {
            "DeregisterCriticalServiceAfter": "90m",
            "HTTP": "http://%s:%d/health",
            "Interval": "1s",
            "Timeout": "10s"
          },
          "Weights": { "Passing": 10, "Warning": 1 }
        }
        """ % (target.server_address * 2))) == ""
    assert curl.put("/v1/agent/service/register?replace-existing-checks=true", curl.file("redis.json", """
        {"Name": "redis", "ID": "redis1", "Port": 6379, "Tags": ["primary", "v1"],
         "Checks": [{"CheckID": "redis-ttl", "Name": "Redis, by hand", "TTL": "30m"}]}
        """)) == ""

    def passing(name):
        return [e["Service"]["ID"] for e in curl.json("/v1/health/service/%s?passing" % name)]
    wait_for("web passes", lambda: passing("web") == ["web1"])
    wait_for("redis is there", lambda: len(curl.json("/v1/catalog/service/redis")) == 1)
    assert passing("redis") == []
    assert curl.json("/v1/health/service/web?passing&tag=rails&pretty")[0]["Service"]["Meta"] == {"version": "4.0"}

    def filtered(path, text):
        return curl.json("--get", path, "--data-urlencode", "filter=" + text)
    rails = 'Service.Meta.version == "4.0" and "rails" in Service.Tags'
    assert [e["Service"]["ID"] for e in filtered("/v1/health/service/web", rails)] == ["web1"]
    assert filtered("/v1/health/service/web", 'Service.Meta.version == "5"') == []
    assert list(filtered("/v1/agent/services", 'Port == 6379 or Tags contains "nothing"')) == ["redis1"]
    assert [k["CheckID"] for k in filtered("/v1/health/state/critical", 'ServiceName == "redis"')] == ["redis-ttl"]
    # A TTL that is kept by the application.
    assert curl.put("/v1/agent/check/pass/redis-ttl?note=fine") == ""
    wait_for("redis passes", lambda: passing("redis") == ["redis1"])
    assert curl.put("/v1/agent/check/update/redis-ttl", '{"Status": "warning", "Output": "slow"}') == ""
    assert curl.json("/v1/agent/checks")["redis-ttl"]["Output"] == "slow"
    wait_for("and does not when it warns", lambda: passing("redis") == [])
    assert curl("/v1/agent/health/service/id/redis1?format=text") == "warning"
    assert curl("--output", "/dev/null", "--write-out", "%{http_code}", "/v1/agent/health/service/name/redis") == "429"
    curl.put("/v1/agent/check/pass/redis-ttl")
    wait_for("redis passes again", lambda: passing("redis") == ["redis1"])
    # The service fails, and comes back.
    watched = curl.index("/v1/health/service/web?passing")
    watch = curl.start("/v1/health/service/web?passing&index=%s&wait=50s" % watched)
    target.status = 500
    assert json.loads(watch.communicate(timeout=90)[0]) == []
    target.status = 200
    wait_for("web passes again", lambda: passing("web") == ["web1"])
    # Maintenance.
    assert curl.put("/v1/agent/service/maintenance/web1?enable=true&reason=For+the+tutorial") == ""
    wait_for("maintenance", lambda: passing("web") == [])
    assert "For the tutorial" in [k["Notes"] for k in curl.json("/v1/health/checks/web")]
    assert curl.put("/v1/agent/service/maintenance/web1?enable=false") == ""
    wait_for("the end of maintenance", lambda: passing("web") == ["web1"])
    for i in ("web1", "redis1"):
        assert curl.put("/v1/agent/service/deregister/" + i) == ""
    for name in ("web", "redis"):
        wait_for("nothing is left", lambda: curl.json("/v1/health/service/" + name) == [])


def tutorial_kv(curl):
    assert curl.put("/v1/kv/redis/config/connections?flags=42", "10").strip() == "true"
    assert curl("/v1/kv/redis/config/connections?raw") == "10"
    entry, = curl.json("/v1/kv/redis/config/connections")
    assert (entry["Value"], entry["Flags"]) == ("MTA=", 42)
    assert curl.put("/v1/kv/redis/config/connections?cas=%d" % entry["ModifyIndex"], "11").strip() == "true"
    assert curl.put("/v1/kv/redis/config/connections?cas=%d" % entry["ModifyIndex"], "12").strip() == "false"
    curl.put("/v1/kv/redis/config/file", curl.file("value", "from a file"))
    assert curl.json("/v1/kv/redis/?keys") == ["redis/config/connections", "redis/config/file"]
    assert curl("--request", "DELETE", "/v1/kv/redis?recurse").strip() == "true"
    assert curl("--output", "/dev/null", "--write-out", "%{http_code}", "/v1/kv/redis/config/file") == "404"


def session(curl, **more):
    body = json.dumps(dict({"Name": "guide"}, **more))
    return curl.json("--request", "PUT", "--data", body, "/v1/session/create")["ID"]


def tutorial_election(one, two):
    """Application leader election with sessions, with two candidates at two agents."""
    key = "/v1/kv/service/election/leader"
    first, second = session(one, LockDelay="0s"), session(two, LockDelay="0s", TTL="60s")
    assert one.put(key + "?acquire=" + first, '{"Node": "one"}').strip() == "true"
    assert two.put(key + "?acquire=" + second, '{"Node": "two"}').strip() == "false"
    entry, = two.json(key)
    assert entry["Session"] == first and entry["LockIndex"] == 1
    # The follower waits for the leader to step down.
    watch = two.start(key + "?index=%d&wait=50s" % entry["ModifyIndex"])
    assert one.put(key + "?release=" + first, '{"Node": "none"}').strip() == "true"
    released, = json.loads(watch.communicate(timeout=90)[0])
    assert "Session" not in released
    assert two.put(key + "?acquire=" + second, '{"Node": "two"}').strip() == "true"
    assert two.json("--request", "PUT", "/v1/session/renew/" + second)[0]["TTL"] == "60s"
    # And now the leader's session ends.
    watch = one.start(key + "?index=%s&wait=50s" % one.index(key))
    assert two.put("/v1/session/destroy/" + second).strip() == "true"
    free, = json.loads(watch.communicate(timeout=90)[0])
    assert "Session" not in free
    assert one.put(key + "?acquire=" + first, '{"Node": "one"}').strip() == "true"
    assert one.json(key)[0]["LockIndex"] == 3
    one.put("/v1/session/destroy/" + first)
    # A lock delay keeps a lock free for a while.
    one("--request", "DELETE", key)
    key += "-" + first
    third = session(one, LockDelay="60s")
    assert one.put(key + "?acquire=" + third, "x").strip() == "true"
    one.put("/v1/session/destroy/" + third)
    assert two.put(key + "?acquire=" + session(two), "y").strip() == "false"
    one("--request", "DELETE", key)


def tutorial_semaphore(one, two):
    """A semaphore of one holder: contenders' keys, and a lock key that is changed by cas."""
    prefix = "/v1/kv/semaphore/"
    a, b = session(one, LockDelay="0s", Behavior="delete"), session(two, LockDelay="0s", Behavior="delete")
    for curl, s in ((one, a), (two, b)):
        assert curl.put(prefix + s + "?acquire=" + s, "contender").strip() == "true"
    assert len(one.json(prefix + "?recurse")) == 2
    assert one.put(prefix + ".lock?cas=0", '{"Limit": 1, "Holders": {"%s": true}}' % a).strip() == "true"
    assert two.put(prefix + ".lock?cas=0", '{"Limit": 1, "Holders": {"%s": true}}' % b).strip() == "false"
    index = two.index(prefix + "?recurse")
    watch = two.start(prefix + "?recurse&index=%s&wait=50s" % index)
    assert one.put("/v1/session/destroy/" + a).strip() == "true"
    left = {e["Key"].rpartition("/")[2]: e for e in json.loads(watch.communicate(timeout=90)[0])}
    assert set(left) == {".lock", b} and left[b]["Session"] == b
    swap = prefix + ".lock?cas=%d" % left[".lock"]["ModifyIndex"]
    assert two.put(swap, '{"Limit": 1, "Holders": {"%s": true}}' % b).strip() == "true"
    assert one.put(swap, '{"Limit": 1, "Holders": {}}').strip() == "false"
    assert b in one("/v1/kv/semaphore/.lock?raw")
    two.put("/v1/session/destroy/" + b)
    assert one.json(prefix + "?keys") == ["semaphore/.lock"]
    one("--request", "DELETE", prefix + ".lock")


def tutorials_with_curl():
    if not shutil.which("curl"):
        print("SKIP: curl is not installed", flush=True)
        return
    c, servers, clients = cluster(6, raftd=CALM)
    with c, Target(NET + ".6.50") as target:
        curls = [Curl(c, n) for n in clients + servers]
        for curl in (curls[0], curls[2]):
            tutorial_services(curl, target)
            tutorial_kv(curl)
        tutorial_election(*curls[:2])
        tutorial_election(curls[3], curls[0])
        tutorial_semaphore(*curls[:2])
        tutorial_semaphore(curls[1], curls[4])


if __name__ == "__main__":
    main(python_consul, tutorials_with_curl)

#!/usr/bin/env python3
"""clusterctl watch: handlers run when something changes, and only then, one at a time, with the input that Consul gives them;
through restarts of the agent and the loss of the leader; and they end with it."""
import base64
import http.server
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.142.0")
# A line of JSON for each run: both indexes, and what came in.
RECORD = "read -r input; printf '{\"consul\":\"%s\",\"own\":\"%s\",\"value\":%s}\\n' \"$CONSUL_INDEX\" \"$TRIUMVIR_INDEX\" \"$input\" >> "


class Watch:
    count = 0

    def __init__(self, node, *args, record=True, command=None):
        Watch.count += 1
        self.out = os.path.join(node.dir, "watch-%d" % Watch.count)
        self.err = open(self.out + ".err", "w+")
        if record:
            args += ("--exec", RECORD.replace("read -r input", "input=$(cat)") + self.out)
        elif command:
            args += ("--exec", command)
        self.proc = subprocess.Popen([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", node.addr + ":8500", "watch", *args],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err)

    def runs(self):
        try:
            with open(self.out) as f:
                lines = f.read().split("\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    def values(self):
        return [r["value"] for r in self.runs()]

    def wait(self, count):
        wait_for("%d runs" % count, lambda: len(self.runs()) >= count)
        return self.runs()

    def errors(self):
        with open(self.err.name) as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        self.proc.send_signal(sig)
        rc = self.proc.wait(30)
        self.err.close()
        return rc

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        if not self.err.closed:
            self.err.close()


def value(entry):
    return None if entry is None else base64.b64decode(entry["Value"] or "").decode()


def keys(n):
    n.kv_put("w/a", "1")
    with Watch(n, "--type", "key", "--key", "w/a") as one, Watch(n, "--type", "keyprefix", "--prefix", "w/") as all_:
        first = one.wait(1)[0]
        assert value(first["value"]) == "1" and first["value"]["Key"] == "w/a", first
        assert first["consul"] == first["own"] == str(first["value"]["ModifyIndex"]), first
        all_.wait(1)
        n.kv_put("w/b", "other")                # wakes the prefix, not the key
        assert [e["Key"] for e in all_.wait(2)[1]["value"]] == ["w/a", "w/b"]
        n.kv_put("w/a", "2")
        assert value(one.wait(2)[1]["value"]) == "2"
        n.delete("/v1/kv/w/a").ok()
        assert one.wait(3)[2]["value"] is None
        # Flags that no integer of jansson's can hold come through as they are.
        n.kv_put("w/a", "3", "?flags=16212958658533785599")
        assert one.wait(4)[3]["value"]["Flags"] == 16212958658533785599
        n.delete("/v1/kv/w/?recurse").ok()
        wait_for("nothing is left", lambda: all_.values()[-1] is None)
        assert one.wait(5)[4]["value"] is None
        assert one.stop() == 0 and all_.stop(signal.SIGINT) == 0
        assert one.errors() == "" and all_.errors() == "", (one.errors(), all_.errors())


def services(n):
    with Watch(n, "--type", "services") as names, Watch(n, "--type", "service", "--service", "db", "--tag", "main", "--passing") as db, \
            Watch(n, "--type", "checks", "--service", "db") as checks, Watch(n, "--type", "checks", "--state", "critical") as bad, \
            Watch(n, "--type", "nodes") as nodes:
        for w in (names, db, checks, bad, nodes):
            w.wait(1)
        assert db.values() == [[]] and checks.values() == [[]] and bad.values() == [[]]
        assert [e["Node"] for e in nodes.values()[0]] == [n.name]
        n.put("/v1/agent/service/register", {"Name": "db", "Tags": ["main"], "Check": {"TTL": "60m", "Status": "passing"}}).ok()
        wait_for("the service is told", lambda: [e["Service"]["Service"] for e in db.values()[-1]] == ["db"])
        wait_for("its name is told", lambda: names.values()[-1].get("db") == ["main"])
        wait_for("its check is told", lambda: [c["Status"] for c in checks.values()[-1]] == ["passing"])
        n.put("/v1/agent/check/fail/service:db").ok()
        wait_for("it is critical", lambda: [c["Status"] for c in checks.values()[-1]] == ["critical"])
        wait_for("it is gone", lambda: db.values()[-1] == [])
        wait_for("it is among the bad", lambda: [c["CheckID"] for c in bad.values()[-1]] == ["service:db"])
        n.put("/v1/agent/service/deregister/db").ok()
        wait_for("its name is gone", lambda: "db" not in names.values()[-1])
        for w in (names, db, checks, bad, nodes):
            seen = w.values()
            assert all(a != b for a, b in zip(seen, seen[1:])), "told twice: %s" % seen
            assert w.stop() == 0


def events(n):
    n.put("/v1/event/fire/before", "x").ok()
    wait_for("the event is heard", lambda: len(n.get("/v1/event/list?name=before").json()) == 1)
    with Watch(n, "--type", "event", "--name", "deploy") as w, Watch(n, "--type", "event") as every:
        first = w.wait(1)[0]["value"], [e["Name"] for e in every.wait(1)[0]["value"]]
        assert first == ([], ["before"]), first
        for i in range(3):
            n.put("/v1/event/fire/deploy", "v%d" % i).ok()
            n.put("/v1/event/fire/noise").ok()
        wait_for("all events", lambda: sum(map(len, w.values())) == 3)
        told = [base64.b64decode(e["Payload"]).decode() for v in w.values() for e in v]
        assert told == ["v0", "v1", "v2"], told
        wait_for("all", lambda: sum(map(len, every.values())) == 7)
        assert len({e["ID"] for v in every.values() for e in v}) == 7


class Hook(http.server.BaseHTTPRequestHandler):
    got, status = [], 200

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Hook.got.append((self.headers["X-Consul-Index"], self.headers["Content-Type"], self.headers.get("X-Consul-Token"), json.loads(body)))
        self.send_response(Hook.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def hooks(n):
    """--http posts, and goes on when nobody takes it."""
    server = http.server.HTTPServer((n.addr, 0), Hook)
    t = threading.Thread(target=server.serve_forever, daemon=True)
    t.start()
    os.environ["CONSUL_HTTP_TOKEN"] = "not-for-others"
    try:
        with Watch(n, "--type", "key", "--key", "hook", "--http", "http://%s:%d/x" % server.server_address, record=False) as w:
            wait_for("the first", lambda: len(Hook.got) == 1)
            Hook.status = 500
            n.kv_put("hook", "1")
            wait_for("its failure is told", lambda: "answered with HTTP status 500" in w.errors())
            Hook.status = 200
            n.kv_put("hook", "2")
            wait_for("the third", lambda: len(Hook.got) == 3)
            assert [value(g[3]) for g in Hook.got] == [None, "1", "2"], Hook.got
            assert all(g[1] == "application/json" and g[2] is None for g in Hook.got), Hook.got
            assert Hook.got[2][0] == str(Hook.got[2][3]["ModifyIndex"])
            server.shutdown()
            server.server_close()
            n.kv_put("hook", "3")
            wait_for("nobody there is told", lambda: "no answer from the URL" in w.errors())
            assert w.proc.poll() is None and w.stop() == 0
    finally:
        del os.environ["CONSUL_HTTP_TOKEN"]


def prints(n):
    """Without a handler it prints what there is, and ends."""
    n.kv_put("p", "x")
    assert value(json.loads(n.ctl("watch", "--type", "key", "--key", "/p").stdout)) == "x"
    assert json.loads(n.ctl("watch", "--type", "key", "--key", "none").stdout) is None
    assert json.loads(n.ctl("watch", "--type", "service", "--service", "none").stdout) == []
    p = n.ctl("watch", "--type", "key", "--key", "p", "--dc", "nowhere", check=False)
    assert p.returncode == 1 and "No path to datacenter" in p.stderr, p


def one_at_a_time(n):
    """While a handler runs changes are taken together, a failing one is told, and a signal ends it with its children."""
    busy, log = os.path.join(n.dir, "busy"), os.path.join(n.dir, "log")
    command = "v=$(cat); echo start >> %s; while [ -e %s ]; do sleep 0.05; done; echo end >> %s; exit 3" % (log, busy, log)

    def logged():
        with open(log) as f:
            return f.read().split()
    open(busy, "w").close()
    n.kv_put("busy", "0")
    with Watch(n, "--type", "key", "--key", "busy", record=False, command=command) as w:
        wait_for("it runs", lambda: os.path.exists(log) and logged() == ["start"])
        for i in range(1, 5):
            n.kv_put("busy", str(i))
        os.remove(busy)
        wait_for("two runs", lambda: logged() == ["start", "end", "start", "end"])
        wait_for("told", lambda: w.errors().count("the command ended with status 3") == 2)
        pids = os.path.join(n.dir, "pids")
        assert w.stop() == 0
    command = "trap '' TERM; echo $$ > %s; (trap '' TERM; sleep 600) & echo $! >> %s; wait" % (pids, pids)
    with Watch(n, "--type", "key", "--key", "busy", record=False, command=command) as w:
        wait_for("both run", lambda: os.path.exists(pids) and len(open(pids).read().split()) == 2)
        assert w.stop() == 0
    for pid in open(pids).read().split():
        wait_for("%s is gone" % pid, lambda: not os.path.exists("/proc/" + pid) or "Z" in open("/proc/%s/stat" % pid).read().split(")")[1].split()[0])


def restarts(c, n):
    """Restarts of rpcd and of raftd, the only leader: nothing runs for them, and what changes afterwards is seen."""
    n.kv_put("r", "0")
    with Watch(n, "--type", "key", "--key", "r") as w:
        w.wait(1)
        n.kill("rpcd")
        wait_for("it is told", lambda: "trying again" in w.errors())
        n.start("rpcd").up()
        wait_for("it is back", lambda: "answered again" in w.errors())
        n.kill("raftd")
        n.start("raftd")
        c.leader()
        n.kv_put("r", "1")
        assert [value(r["value"]) for r in w.wait(2)] == ["0", "1"]
        assert w.stop() == 0


def restored(n):
    """Indexes may go back after a restore of the same state elsewhere: it begins anew, and loses nothing."""
    archive = os.path.join(n.dir, "archive")
    n.kv_put("s", "old")
    n.ctl("snapshot", "save", archive)
    with Watch(n, "--type", "key", "--key", "s") as w:
        w.wait(1)
        n.kv_put("s", "new")
        w.wait(2)
        n.ctl("snapshot", "restore", "--yes", archive)
        assert [value(r["value"]) for r in w.wait(3)] == ["old", "new", "old"]
        n.kv_put("s", "newer")
        assert value(w.wait(4)[3]["value"]) == "newer"


def test_watch():
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        c.formed()
        for part in keys, services, events, hooks, prints, one_at_a_time, restored:
            part(n)
            print("     " + part.__name__, flush=True)
        restarts(c, n)
        print("     restarts", flush=True)


def test_lost_leader():
    """A leader is killed, and the agent that was asked frozen for a while: each change is seen once."""
    with Cluster(NET) as c:
        servers = c.servers(3)
        leader = c.formed()
        n = [s for s in servers if s is not leader][0]
        n.kv_put("l", "0")
        with Watch(n, "--type", "key", "--key", "l") as w, Watch(n, "--type", "nodes") as nodes:
            w.wait(1)
            nodes.wait(1)
            leader.kill()
            rest = [s for s in servers if s is not leader]
            c.leader(rest)
            wait_for("a write", lambda: n.kv_put("l", "1") or True)
            assert [value(r["value"]) for r in w.wait(2)][-1] == "1"
            n.signal(signal.SIGSTOP, "rpcd")
            other = [s for s in rest if s is not n][0]
            wait_for("another write", lambda: other.kv_put("l", "2") or True)
            n.signal(signal.SIGCONT, "rpcd")
            wait_for("it is seen", lambda: value(w.values()[-1]) == "2")
            seen = [value(v) for v in w.values()]
            assert seen == ["0", "1", "2"], seen


if __name__ == "__main__":
    main(test_watch, test_lost_leader)

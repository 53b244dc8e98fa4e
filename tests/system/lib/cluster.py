"""Real daemons on loopback for system tests: start, stop, kill, ask, wait for conditions.

Every process started here is stopped by Cluster.close() (also at exit, also when the test fails), which judges how each
ended (ends.py).
Standard library only.
"""
import atexit
import base64
import fcntl
import grp
import http.client
import json
import os
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import ends
import netns
import preloads
from waiting import AGAIN, PATIENCE, Told, refusal, wait_for

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("TV_BUILD", TOP)
SANITIZERS = ends.sanitizers(BUILD)      # they use memory and time of their own
DAEMONS = ("gossipd", "raftd", "rpcd")
USERS = ("_gossipd", "_names", "_raftd", "_fetch", "_rpcd", "_check", "_dns", "_keys")
# Of raftd, where leadership must not move: it does not on a machine that gives a leader no processor for 300 ms either.
CALM = {"election_timeout": "2s"}


def moved(net):
    """A test's net, or the same one in the range of TV_NET (127.N.M), for runs beside each other."""
    own = os.environ.get("TV_NET")
    return ".".join(own.split(".")[:2] + net.split(".")[2:]) if own else net


def skip(reason):
    """Ends the test as skipped (automake's status 77), with the reason."""
    print("SKIP: " + reason, flush=True)
    sys.exit(77)


USERS_LOCK = "/run/lock/triumvir-test-users"      # tests run beside each other, and their pools in threads


def ensure_users():
    """As root the daemons drop to users of their own; make them as the packages would."""
    if os.geteuid() != 0:
        return
    with open(USERS_LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_users()


def make_users():
    for group in ("triumvir", "_triumvir"):
        try:
            grp.getgrnam(group)
        except KeyError:
            subprocess.run(["groupadd", "--system", group], check=True)
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            subprocess.run(["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent",
                            "--shell", "/usr/sbin/nologin", "--user-group", "--groups", "_triumvir", user], check=True)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def ok(self, *statuses):
        """Itself, if its status is one of these, without any: 200.  NotYet, if it was refused for now."""
        if self.status not in (statuses or (200,)):
            raise refusal(repr(self), self.status >= 500)
        return self

    def json(self):
        """Its body.  NotYet, if it was refused for now, or there is no such thing yet."""
        if self.status not in (200, 429):       # 429: the state of health of a cluster that is not well
            raise refusal(repr(self), self.status == 404 or self.status >= 500)
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def index(self):
        return int(self.headers.get("X-Consul-Index", 0))

    def __repr__(self):
        return "%d %s" % (self.status, self.text[:200])


class UnixHTTPConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def rpcd_conf(addr, **keys):
    """rpcd.conf of a test's node: the whole API at this address, which a network namespace may own."""
    conf = dict({"http_addresses": [addr], "http_admin": True}, **keys)
    if not all(a.startswith("127.") or a == "::1" for a in conf["http_addresses"]):
        conf["http_allow_remote"] = True
        conf.setdefault("http_allow_plaintext_tokens", True)    # nobody listens there; test_limits is about those who do
    return conf


def known_to(build, daemon, keys):
    """Those of these keys that a daemon of another build has in it: an older one refuses a key that it does not know."""
    if build == BUILD:
        return keys
    with open(os.path.join(build, daemon, daemon), "rb") as f:
        program = f.read()
    return {k: v for k, v in keys.items() if k.encode() in program}


class Node:
    """One node: its configuration folder, its daemons, and questions to it."""

    def __init__(self, cluster, name, addr, server=True, dc="dc1", raftd=None, rpcd=None, gossipd=None, wrap=None,
                 env=None, **keys):
        self.cluster, self.name, self.addr, self.server, self.dc = cluster, name, addr, server, dc
        self.wrap = cluster.wrap if wrap is None else wrap
        self.env = dict(cluster.env, **(env or {}))      # of its daemons
        self.dir = os.path.join(cluster.dir, name)
        self.conf = os.path.join(self.dir, "conf")
        self.run = os.path.join(self.dir, "run")
        self.data = os.path.join(self.dir, "data")
        self.procs = {}                 # the last one of each daemon; the cluster knows all that ever ran
        self.stderr = {}                # of a daemon: a descriptor that it logs to instead of the file
        for d in (self.conf, self.run, self.data):
            os.makedirs(d, exist_ok=True)
        common = {"node_name": name, "datacenter": dc, "server": server, "bind": addr, "data_dir": self.data,
                  "run_dir": self.run, "retry_interval": "1s"}
        if cluster.keys:
            common.update(cluster_key=cluster.keys + "/cluster.key", server_pub=cluster.keys + "/server.pub")
            if server:
                common["server_key"] = cluster.keys + "/server.key"
        common.update(keys)
        self.common = common
        self.write("cluster.conf", common)
        self.write("gossipd.conf", dict(cluster.gossipd, **(gossipd or {})))
        self.write("rpcd.conf", known_to(cluster.build, "rpcd", rpcd_conf(addr, **(rpcd or {}))))
        if server:
            self.write("raftd.conf", raftd or {})

    def write(self, file, keys):
        secret = any(k.startswith("acl.tokens.") for k in keys)      # nobody else may read such a file
        with open(os.open(os.path.join(self.conf, file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o644), "w") as f:
            blocks = {}
            for k, v in keys.items():
                block, _, key = k.rpartition(".")
                blocks.setdefault(block, []).append("%s = %s\n" % (key, json.dumps(v)))
            for block, lines in blocks.items():
                f.write("%s {\n%s}\n" % (block, "".join(lines)) if block else "".join(lines))

    def set_common(self, **keys):
        """Changes cluster.conf; a daemon reads it when it starts.  None removes a key."""
        self.common.update(keys)
        self.common = {k: v for k, v in self.common.items() if v is not None}
        self.write("cluster.conf", self.common)

    # -- processes ---------------------------------------------------------

    @property
    def daemons(self):
        return DAEMONS if self.server else ("gossipd", "rpcd")

    def log_path(self, daemon):
        return os.path.join(self.dir, daemon + ".log")

    def log(self, daemon):
        try:
            with open(self.log_path(daemon), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def start(self, *daemons):
        for d in daemons or self.daemons:
            assert d not in self.procs or self.procs[d].poll() is not None, "%s of %s runs" % (d, self.name)
            env = preloads.raftd(self.common["data_dir"], self.env) if d == "raftd" else self.env
            with open(self.log_path(d), "ab") as log:
                self.procs[d] = ends.Daemon(
                    "%s of %s" % (d, self.name), self.log_path(d),
                    self.wrap + [os.path.join(self.cluster.build, d, d), "-c", self.conf], stdin=subprocess.DEVNULL,
                    stdout=log, stderr=self.stderr.get(d, log), start_new_session=True, env=ends.environment(env))
                self.cluster.ran.append(self.procs[d])
        return self

    def signal(self, sig, *daemons):
        for d in daemons or self.daemons:
            if d in self.procs and self.procs[d].poll() is None:
                self.procs[d].send_signal(sig)

    def wait_end(self, *daemons, timeout=PATIENCE):
        """Waits until these daemons ended; returns their exit statuses."""
        return [self.procs[d].wait(timeout) for d in daemons or self.daemons if d in self.procs]

    def may_end(self, daemon, *statuses):
        """From now on this daemon, as it runs now, may end by itself with one of these instead of 0."""
        self.procs[daemon].may_end(*statuses)
        return self

    def expect_end(self, daemon, status, timeout=PATIENCE):
        """Waits until this daemon ends by itself, which has to be with this status."""
        self.may_end(daemon, status)
        got = self.wait_end(daemon, timeout=timeout)
        assert got == [status], "%s of %s ended with %d, not %d:\n%s" % (
            daemon, self.name, got[0], status, self.log(daemon)[-2000:])

    def stop(self, *daemons):
        """SIGTERM, and every one must end with status 0; or has ended as the test said."""
        which = daemons or self.daemons
        self.signal(signal.SIGTERM, *which)
        self.wait_end(*which)
        wrong = [p.complaint() for d, p in self.procs.items() if d in which]
        assert not any(wrong), "\n".join(filter(None, wrong))

    def kill(self, *daemons):
        which = daemons or self.daemons
        self.signal(signal.SIGKILL, *which)
        self.wait_end(*which)

    def pid(self, daemon):
        return self.procs[daemon].pid

    def running(self, daemon):
        return daemon in self.procs and self.procs[daemon].poll() is None

    # -- questions ---------------------------------------------------------

    @property
    def url(self):
        return "http://%s:8500" % self.addr

    def http(self, method, path, body=None, timeout=30, headers=None, unix=False):
        if unix:
            c = UnixHTTPConnection(os.path.join(self.run, "rpcd.sock"), timeout)
        else:
            c = http.client.HTTPConnection(self.addr, 8500, timeout=timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return Answer(r.status, dict(r.getheaders()), r.read())
        finally:
            c.close()

    def get(self, path, **kw):
        return self.http("GET", path, **kw)

    def put(self, path, body=b"", **kw):
        return self.http("PUT", path, body=body, **kw)

    def delete(self, path, **kw):
        return self.http("DELETE", path, **kw)

    def kv_put(self, key, value, query="", **kw):
        """Writes it, or NotYet.  What a cas has not done is no write either."""
        r = self.put("/v1/kv/" + urllib.parse.quote(key) + query, value, **kw).ok()
        assert r.body == b"true", "put %s on %s: %r" % (key, self.name, r)

    def kv_get(self, key, query="", **kw):
        """The value, or None; or NotYet."""
        r = self.get("/v1/kv/" + urllib.parse.quote(key) + query, **kw).ok(200, 404)
        if r.status == 404:
            return None
        v = r.json()[0]["Value"]
        return b"" if v is None else base64.b64decode(v)

    def members(self, wan=False):
        """name -> status number."""
        return Told((m["Name"], m["Status"]) for m in self.get("/v1/agent/members" + ("?wan=1" if wan else "")).json())

    def stats(self, section, **kw):
        """What a daemon tells of itself.  NotYet while that daemon does not answer its rpcd, or has nothing of that name."""
        return Told(Told(self.self_told(**kw)["Stats"])[section])

    def self_told(self, **kw):
        """/v1/agent/self; where access control lets nobody ask who shows no token, as root by the socket."""
        answer = self.get("/v1/agent/self", **kw)
        if answer.status == 403 and os.geteuid() == 0:
            answer = self.http("GET", "/v1/agent/self", unix=True, **kw)
        return answer.json()

    def up(self, timeout=PATIENCE):
        """Waits until all daemons of the node answer."""
        need = {"serf_lan", "rpcd"} | ({"raft"} if self.server else set())
        wait_for(self.name + " answers", lambda: need <= set(self.self_told()["Stats"]), timeout)
        return self

    def is_leader(self):
        return self.stats("raft")["state"] == "Leader"

    def term(self):
        return int(self.stats("raft")["term"])

    def ctl(self, *args, check=True, timeout=60, input=None):
        """Runs clusterctl against this node; returns the CompletedProcess (text).  NotYet with status 1, unless check is
        False: a cluster that settles refuses much."""
        p = subprocess.run([os.path.join(self.cluster.build, "ctl", "clusterctl"), "--addr", self.addr + ":8500"] + list(args),
                           capture_output=True, text=True, timeout=timeout, input=input, env=ends.environment(os.environ))
        ends.clean("clusterctl " + " ".join(args), p.stderr)
        if check and p.returncode != 0:
            raise refusal("clusterctl %s: %d\n%s%s" % (" ".join(args), p.returncode, p.stdout, p.stderr), p.returncode in (1, 69, 77))
        return p

    def ctl_start(self, *args):
        """The same in the background: the Popen."""
        return subprocess.Popen([os.path.join(self.cluster.build, "ctl", "clusterctl"), "--addr", self.addr + ":8500"] + list(args),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


OPEN = []                   # clusters that are not closed yet


class Cluster:
    """A folder, keys, and nodes.  net is the first three numbers of the loopback addresses, e.g. "127.60.1"."""

    def __init__(self, net, keys=True, gossipd=None, wrap=None, env=None, prefix="tv-", build=BUILD):
        ensure_users()
        base = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix=prefix, dir=base)
        os.chmod(self.dir, 0o755)
        self.net, self.nodes, self.keys = moved(net), {}, None
        self.gossipd = gossipd if gossipd is not None else {"profile": "local"}
        self.wrap, self.build = wrap or [], build
        self.env = dict(os.environ, LD_BIND_NOW="1", **(env or {}))      # as the units have it
        self.closed = False
        self.ran = []                   # every daemon that was started
        OPEN.append(self)
        atexit.register(self.close)
        if keys:
            self.keys = os.path.join(self.dir, "keys")
            os.mkdir(self.keys, 0o700)
            subprocess.run([os.path.join(build, "ctl", "clusterctl"), "keygen", self.keys], check=True,
                           stdout=subprocess.DEVNULL)

    def add(self, name, last, **kw):
        self.nodes[name] = Node(self, name, "%s.%d" % (self.net, last), **kw)
        return self.nodes[name]

    def servers(self, count, dc="dc1", first=1, prefix="n", **kw):
        """Configures and starts `count` servers that find each other."""
        raftd = dict({"bootstrap_expect": count}, **kw.pop("raftd", {}))
        join = ["%s.%d" % (self.net, first)]
        out = [self.add("%s%d" % (prefix, i + 1), first + i, dc=dc, raftd=dict(raftd), retry_join=join, **kw)
               for i in range(count)]
        for n in out:
            n.start()
        return out

    def client(self, name, last, join, **kw):
        return self.add(name, last, server=False, retry_join=[join.addr], **kw).start()

    def leader(self, nodes=None, timeout=PATIENCE):
        """Waits for one server among nodes that leads and is ready for writes."""
        nodes = [n for n in (nodes or self.nodes.values()) if n.server]

        def find():
            for n in nodes:
                try:
                    if n.running("raftd") and n.is_leader():
                        return n
                except AGAIN:
                    pass
            return None
        return wait_for("a leader", find, timeout)

    def formed(self, nodes=None, timeout=PATIENCE):
        """Waits until there is a leader, every server is a voter, and the clients that were started answer."""
        nodes = [n for n in (nodes or self.nodes.values()) if n.server]
        clients = [n for n in self.nodes.values() if not n.server and n.running("rpcd")]

        def whole():
            servers = nodes[0].get("/v1/operator/raft/configuration").json()["Servers"]
            return len(servers) == len(nodes) and all(s["Voter"] for s in servers) and any(s["Leader"] for s in servers)
        wait_for("%d voters" % len(nodes), whole, timeout)
        for n in nodes + clients:
            n.up(timeout)
        return self.leader(nodes, timeout)

    def close(self):
        """Stops everything.  How a daemon ended fails the test here, unless the test fails already."""
        if self.closed:
            return
        self.closed = True
        OPEN.remove(self)
        wrong = ends.finish(self.ran)
        failing = sys.exc_info()[0] is not None
        if wrong or failing or getattr(self, "keep", False) or os.environ.get("TV_KEEP"):
            print("logs are kept in " + self.dir, flush=True)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)
        if wrong and failing:
            print("also: " + "\n".join(wrong), flush=True)
        elif wrong:
            raise ends.BadEnd("\n".join(wrong))

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is not None:
            self.keep = True
            for n in self.nodes.values():
                for d in n.daemons:
                    tail = n.log(d).splitlines()[-15:]
                    print("--- %s %s\n%s" % (n.name, d, "\n".join(tail)), flush=True)
        self.close()


class Writer(threading.Thread):
    """A steady writer: PUTs key i = i through the given nodes in turn and remembers what was acknowledged."""

    def __init__(self, nodes, prefix="w", pause=0.0):
        super().__init__(daemon=True)
        self.nodes, self.prefix, self.pause = nodes, prefix, pause
        self.acked, self.unknown, self.errors = {}, [], []
        self.times = []          # monotonic time of each acknowledgement
        self.halt = threading.Event()

    def run(self):
        i = 0
        while not self.halt.is_set():
            node = self.nodes[i % len(self.nodes)]
            key, value = "%s/%06d" % (self.prefix, i), str(i)
            try:
                r = node.put("/v1/kv/" + key, value, timeout=15)
                if r.status == 200 and r.body == b"true":
                    self.acked[key] = value.encode()
                    self.times.append(time.monotonic())
                else:
                    self.errors.append((key, r.status, r.text))
            except (OSError, http.client.HTTPException) as e:
                self.unknown.append((key, repr(e)))
            i += 1
            if self.pause:
                self.halt.wait(self.pause)

    def stop(self):
        self.halt.set()
        self.join(30)
        return self

    def check(self, node):
        """Every acknowledged write is there."""
        r = node.get("/v1/kv/%s/?recurse" % self.prefix).ok(200, 404)
        have = {e["Key"]: base64.b64decode(e["Value"] or "") for e in (r.json() if r.status == 200 else [])}
        lost = [k for k, v in self.acked.items() if have.get(k) != v]
        assert not lost, "%s lost %d of %d acknowledged writes, first %s" % (node.name, len(lost), len(self.acked), lost[0])
        return have


def processor_time():
    """Seconds that this test and what it started and waited for have used."""
    return sum(t for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) for t in resource.getrusage(who)[:2])


def main(*tests):
    """Runs the given functions in order, prints one line for each, and the closing count.  Where that is allowed, with a network
    of its own: whoever else runs the same test, left a daemon behind or shows the demo, has other addresses and ports."""
    netns.enter()
    names = sys.argv[1:]
    passed = failed = 0
    unknown = set(names) - {t.__name__ for t in tests}
    if unknown or not tests:
        print("%s: no case is called %s; there are: %s" % (
            os.path.basename(sys.argv[0]), ", ".join(sorted(unknown)), ", ".join(t.__name__ for t in tests)), file=sys.stderr)
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))       # by way of close(): no daemon stays behind
    for t in tests:
        if names and t.__name__ not in names:
            continue
        start, used = time.monotonic(), processor_time()
        try:
            t()
            passed += 1
            print("ok   %s (%.1f s, %.1f of a processor)" % (t.__name__, time.monotonic() - start, processor_time() - used),
                  flush=True)
        except SystemExit as e:
            if e.code != 77:
                raise
        except Exception as e:  # noqa: BLE001 - the runner reports whatever a test raises
            failed += 1
            import traceback
            traceback.print_exc()
            print("FAIL %s: %s" % (t.__name__, e), flush=True)
    for c in list(OPEN):                # what several cases shared
        try:
            c.close()
        except ends.BadEnd as e:
            failed += 1
            print("FAIL the end of a shared cluster: %s" % e, flush=True)
    print("%d passed, %d failed" % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)

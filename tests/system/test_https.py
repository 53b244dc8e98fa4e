#!/usr/bin/env python3
"""HTTPS: the API over TLS 1.2 and 1.3, with the private key in another process; certificates of clients, resumption, renewal under
load, a signer that is dead or stands still, and whatever strangers send to the port."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main, rpcd_conf, skip  # noqa: E402
from procs import keys_process  # noqa: E402
from recorded import EXCLUDED, IN_CLEAR, LAST, OF_SERVERS, expect_passes, needs_acl, recorded  # noqa: E402
from tlskit import tls  # noqa: E402
from waiting import wait_for  # noqa: E402

PORT = 8501
VERSIONS = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CA = "consul-agent-ca.pem"


def give(path):
    """A key to the process that signs, as an operator does."""
    if os.geteuid() == 0:
        shutil.chown(path, "root", "_keys")
    os.chmod(path, 0o640)


class Site:
    """A server with HTTPS, its folder of certificates, and clients of it."""

    def __init__(self, net, **rpcd):
        self.stack = contextlib.ExitStack()
        self.cluster = self.stack.enter_context(Cluster(net))
        self.dir = os.path.join(self.cluster.dir, "tls")
        os.mkdir(self.dir)
        addr = self.cluster.net + ".1"
        tls(self.dir, "ca", "create")
        tls(self.dir, "cert", "create", "--server", "--additional-ipaddress", addr)
        tls(self.dir, "cert", "create", "--client")
        give(self.path("dc1-server-consul-0-key.pem"))
        for name in ("cert.pem", "key.pem"):
            os.symlink("dc1-server-consul-0%s.pem" % ("-key" if name == "key.pem" else ""), self.path(name))
        keys = {"https_port": PORT, "tls.https.cert_file": self.path("cert.pem"), "tls.https.key_file": self.path("key.pem"),
                "audit.to": "file"}
        self.rpcd = dict(keys, **{k: self.path(v) if k.endswith("ca_file") else v for k, v in rpcd.items()})
        self.node = self.cluster.add("n1", 1, raftd={"bootstrap": True}, rpcd=self.rpcd).start()
        self.cluster.formed([self.node])

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def path(self, name):
        return os.path.join(self.dir, name)

    @property
    def url(self):
        return "https://%s:%d" % (self.node.addr, PORT)

    def context(self, version=None, client=False, ca=CA):
        c = ssl.create_default_context(cafile=self.path(ca))
        if version:
            c.minimum_version = c.maximum_version = version
        if client:
            c.load_cert_chain(self.path("dc1-client-consul-0.pem"), self.path("dc1-client-consul-0-key.pem"))
        return c

    def raw(self):
        return socket.create_connection((self.node.addr, PORT), timeout=60)

    def connect(self, ctx=None, session=None, name=None):
        return (ctx or self.context()).wrap_socket(self.raw(), server_hostname=name or self.node.addr, session=session)

    def reload(self, **rpcd):
        self.rpcd.update({k.replace("__", "."): self.path(v) if k.endswith("ca_file") else v for k, v in rpcd.items()})
        self.node.write("rpcd.conf", rpcd_conf(self.node.addr, **self.rpcd))
        before = self.node.log("rpcd").count("configuration reloaded")
        self.node.signal(signal.SIGHUP, "rpcd")
        wait_for("the reload", lambda: self.node.log("rpcd").count("configuration reloaded") > before)

    def stat(self, name):
        return int(self.node.stats("rpcd")[name])

    def curl(self, *args, check=True):
        p = subprocess.run(["curl", "-sS", "--cacert", self.path(CA), *args], capture_output=True, timeout=60)
        assert not check or p.returncode == 0, (args, p)
        return p


def head_and_body(s):
    """One answer with a Content-Length from a connection that stays."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        if not more:
            raise EOFError(data)
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"\r\ncontent-length: (\d+)", head, re.I).group(1))
    while len(body) < length:
        body += s.recv(65536)
    assert len(body) == length, (head, body)
    return head, body


def ask(s, path="/v1/status/leader", method="GET", body=b"", headers=()):
    head = ["%s %s HTTP/1.1" % (method, path), "Host: x", *headers] + (["Content-Length: %d" % len(body)] if body else [])
    s.sendall("\r\n".join(head + ["", ""]).encode() + body)
    head, body = head_and_body(s)
    return int(head.split()[1]), body


# -- what it is for ----------------------------------------------------------

def test_clients():
    """curl by both versions, kept connections, a long answer, and Python; what was counted; the name must fit."""
    with Site("127.156.1") as site:
        value = os.urandom(300000)
        with open(site.path("value"), "wb") as f:
            f.write(value)
        for option, version in (("--tls-max", "1.2"), ("--tlsv1.3", None)):
            args = [option] + ([version] if version else [])
            site.curl(*args, "-T", site.path("value"), site.url + "/v1/kv/long")
            for spoken, shown in (("--http1.1", b"1.1"), ("--http2", b"2")):
                p = site.curl(*args, spoken, "-w", "%{http_version} %{num_connects} ", site.url + "/v1/kv/long?raw",
                              site.url + "/v1/kv/long?raw", "-o", site.path("a"), "-o", site.path("b"))
                assert p.stdout == shown + b" 1 " + shown + b" 0 ", p
                for name in "ab":
                    with open(site.path(name), "rb") as f:
                        assert f.read() == value
        assert site.curl("--resolve", "other.example:%d:%s" % (PORT, site.node.addr), "https://other.example:%d/" % PORT,
                         check=False).returncode == 60
        with site.connect() as s:
            for i in range(20):
                assert ask(s, "/v1/kv/k%d" % i, "PUT", b"v") == (200, b"true")
                assert ask(s, "/v1/kv/k%d?raw" % i) == (200, b"v")
        # pipelined in one record
        with site.connect() as s:
            s.sendall(b"GET /v1/kv/k1?raw HTTP/1.1\r\nHost: x\r\n\r\n" * 50 + b"GET /v1/kv/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            out = b""
            while more := s.recv(65536):
                out += more
            assert re.findall(rb"HTTP/1.1 (\d+)", out) == [b"200"] * 50 + [b"404"]
        told = site.node.stats("rpcd")
        assert int(told["tls_sessions_1_2"]) >= 2 and int(told["tls_sessions_1_3"]) >= 3, told
        assert int(told["tls_handshakes_full"]) >= 5 and 360 < int(told["tls_certificate_days"]) <= 365, told
        assert site.node.get("/v1/agent/self").json()["DebugConfig"]["HTTPSPort"] == PORT
        gauges = {g["Name"]: g["Value"] for g in site.node.get("/v1/agent/metrics").json()["Gauges"]}
        assert 360 * 86400 < gauges["consul.agent.tls.cert.expiry"] <= 365 * 86400, gauges


def test_waiting_and_streams():
    """A blocking query over TLS is answered by a write over TLS; a monitor and a snapshot stream."""
    with Site("127.156.2") as site:
        with site.connect() as waits, site.connect() as writes:
            ask(writes, "/v1/kv/w", "PUT", b"1")
            writes.sendall(b"GET /v1/kv/w HTTP/1.1\r\nHost: x\r\n\r\n")
            index = re.search(rb"X-Consul-Index: (\d+)", head_and_body(writes)[0], re.I).group(1).decode()
            waits.sendall(("GET /v1/kv/w?wait=60s&index=%s HTTP/1.1\r\nHost: x\r\n\r\n" % index).encode())
            wait_for("it waits", lambda: site.stat("http_conns_waiting") == 1)
            ask(writes, "/v1/kv/w", "PUT", b"2")
            assert json.loads(head_and_body(waits)[1])[0]["Value"] == "Mg=="
        snapshot = site.curl(site.url + "/v1/snapshot").stdout
        assert snapshot[:2] == b"\x1f\x8b", snapshot[:20]
        with open(site.path("snap"), "wb") as f:
            f.write(snapshot)
        site.curl("-T", site.path("snap"), site.url + "/v1/snapshot")
        with site.connect() as s:
            s.sendall(b"GET /v1/agent/monitor?loglevel=debug HTTP/1.1\r\nHost: x\r\n\r\n")
            site.node.signal(signal.SIGHUP, "rpcd")
            seen = b""
            while b"reload" not in seen:
                seen += s.recv(65536)


def test_recorded_cases():
    """Recorded cases of HTTP, over HTTPS, at the leader, a follower and a client node: what a client sees is the same."""
    names = {n for n, case in recorded().items() if not needs_acl(case)}
    names -= {n for n in names if any(re.fullmatch(p, n) for p in EXCLUDED)} | IN_CLEAR | LAST
    failures = []
    with Cluster("127.156.11") as c:
        folder = os.path.join(c.dir, "tls")
        os.mkdir(folder)
        tls(folder, "ca", "create")
        tls(folder, "cert", "create", "--server", *("--additional-ipaddress=%s.%d" % (c.net, i) for i in range(1, 5)))
        cert, key = (os.path.join(folder, "dc1-server-consul-0%s.pem" % part) for part in ("", "-key"))
        give(key)
        rpcd = {"https_port": PORT, "tls.https.cert_file": cert, "tls.https.key_file": key,
                "tls.checks.ca_file": os.path.join(folder, CA)}         # a case checks its agent
        servers = c.servers(3, raftd=CALM, rpcd=rpcd)
        client = c.client("c1", 4, servers[0], rpcd=rpcd)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        wait_for("every node is in the catalog with its check", lambda: all(
            [k["Status"] for k in n.get("/v1/health/node/" + n.name).json() if k["CheckID"] == "serfHealth"] == ["passing"]
            for n in servers + [client]))
        os.environ["SSL_CERT_FILE"] = os.path.join(folder, CA)          # whom the runner trusts
        urls = {n.name: "https://%s:%d" % (n.addr, PORT) for n in servers + [client]}
        for where, node in (("the leader", leader), ("a follower", follower), ("a client", client)):
            expect_passes(failures, where, urls[node.name], names if node.server else names - OF_SERVERS,
                          "--follower-url", urls[follower.name], "--encrypt-url", urls[node.name])
        del os.environ["SSL_CERT_FILE"]
        assert int(client.stats("rpcd")["tls_handshakes_full"]) > 500
    assert not failures, "\n".join(failures)


# -- clients' certificates ---------------------------------------------------

def test_client_certificates():
    """Required, asked for, of another CA; they name themselves in the audit trail, and give no rights."""
    with Site("127.156.3", **{"tls.https.verify_incoming": True, "tls.https.ca_file": CA}) as site:
        for version in VERSIONS:
            with site.connect(site.context(version, client=True)) as s:
                assert ask(s, "/v1/kv/c", "PUT", b"v") == (200, b"true")
            refused(site, site.context(version))
        wait_for("the name", lambda: "client.dc1.consul" in audit(site))
        assert site.stat("tls_client_certificates") == 2 and site.stat("tls_failed_client_certificate") == 2
        assert "a client's certificate was refused" in site.node.log("rpcd")
        site.reload(**{"tls__https__verify_incoming": False, "tls__https__ask_incoming": True})
        for version in VERSIONS:
            with site.connect(site.context(version)) as s:
                assert ask(s)[0] == 200
        # Another CA, by which the client's certificate is worth nothing.
        os.mkdir(site.path("other"))
        tls(site.path("other"), "ca", "create")
        site.reload(tls__https__ca_file="other/" + CA)
        wait_for("the other authorities", lambda: is_refused(site, site.context(client=True)))
        with site.connect() as s:
            assert ask(s)[0] == 200


def audit(site):
    with open(os.path.join(site.node.data, "rpcd", "audit.log")) as f:
        return f.read()


def is_refused(site, ctx):
    """In TLS 1.3 a client learns it with its first answer."""
    try:
        with site.connect(ctx) as s:
            ask(s)
        return False
    except (ssl.SSLError, ConnectionResetError, EOFError):
        return True


def refused(site, ctx):
    assert is_refused(site, ctx)


PYTHON_CONSUL = """
import sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import consul
host, ca, cert, key = sys.argv[1:]
c = consul.Consul(host=host, port=8501, scheme="https", verify=ca, cert=(cert, key))
assert c.kv.put("py", "value") is True
index, found = c.kv.get("py")
assert found["Value"] == b"value", found
assert c.kv.get("py", index=index, wait="100ms")[0] == index
"""
PYTHON_REQUESTS = """
import sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import requests
host, ca, cert, key = sys.argv[1:]
with requests.Session() as s:
    s.trust_env = False         # or REQUESTS_CA_BUNDLE wins
    s.verify, s.cert = ca, (cert, key)
    for i in range(20):
        assert s.put("https://%s:8501/v1/kv/r%d" % (host, i), data=b"x" * 10000).text == "true"
        assert len(s.get("https://%s:8501/v1/kv/r%d?raw" % (host, i)).content) == 10000
try:
    requests.get("https://%s:8501/" % host, cert=(cert, key))
    raise AssertionError("an authority that nobody knows")
except requests.exceptions.SSLError:
    pass
"""
NODE = """
const [host, ca, cert, key] = process.argv.slice(2), fs = require("fs"), https = require("https");
const agent = new https.Agent({ keepAlive: true, maxSockets: 4, ca: fs.readFileSync(ca), cert: fs.readFileSync(cert), key: fs.readFileSync(key) });
const get = n => https.get({ host, port: 8501, path: "/v1/status/leader", agent }, r => {
  if (r.statusCode !== 200) process.exit(3);
  r.resume();
  r.on("end", () => n > 0 ? get(n - 1) : --left > 0 || agent.destroy());
}).on("error", e => { console.error(e); process.exit(4); });
let left = 8;
for (let i = 0; i < 8; i++) get(10);
"""


def installed(name, path):
    """Is there what this client needs?  Where CI has installed them, each is."""
    assert os.path.exists(path) or "CI" not in os.environ, (name, path)
    return os.path.exists(path)


def test_other_clients():
    """Debian's python3-consul and requests with an authority and a client's certificate, node, and wrk: those that are installed."""
    with Site("127.156.12", **{"tls.https.verify_incoming": True, "tls.https.ca_file": CA}) as site:
        files = [site.path(n) for n in (CA, "dc1-client-consul-0.pem", "dc1-client-consul-0-key.pem")]
        for name, command, code, needs in (("c.py", "/usr/bin/python3", PYTHON_CONSUL, "/usr/lib/python3/dist-packages/consul"),
                                           ("r.py", "/usr/bin/python3", PYTHON_REQUESTS, "/usr/lib/python3/dist-packages/requests"),
                                           ("n.js", "node", NODE, shutil.which("node") or "")):
            if not installed(name, needs):
                continue
            with open(site.path(name), "w") as f:
                f.write(code)
            p = subprocess.run([command, site.path(name), site.node.addr, *files], capture_output=True, text=True, timeout=60)
            assert p.returncode == 0, (name, p)
            print("     " + name, flush=True)
        site.reload(**{"tls__https__verify_incoming": False})
        if installed("wrk", shutil.which("wrk") or ""):
            p = subprocess.run(["wrk", "-t1", "-c16", "-d2", site.url + "/v1/status/leader"], capture_output=True, text=True, timeout=60)
            assert p.returncode == 0 and "Socket errors" not in p.stdout and "Non-2xx" not in p.stdout, p
            print("     wrk: %s requests/s" % re.search(r"Requests/sec: *([\d.]+)", p.stdout).group(1), flush=True)


# -- resumption --------------------------------------------------------------

def session_of(site, ctx, name=None):
    with site.connect(ctx, name=name) as s:
        assert not s.session_reused
        ask(s)
        return s.session


def resumes(site, ctx, session, name=None):
    with site.connect(ctx, session, name) as s:
        assert ask(s)[0] == 200
        return s.session_reused


def test_resumption():
    """A session is resumed for its name, across new certificates, and not past another CA or question for a certificate."""
    with Site("127.156.4", **{"tls.https.verify_incoming": True, "tls.https.ca_file": CA}) as site:
        for version in VERSIONS:
            ctx = site.context(version, client=True)
            ctx.check_hostname = False
            assert resumes(site, ctx, session_of(site, ctx, "a.example"), "a.example")
            assert not resumes(site, ctx, session_of(site, ctx, "a.example"), "b.example")
            session = session_of(site, ctx, "a.example")
            site.reload()
            assert resumes(site, ctx, session, "a.example")
            session = session_of(site, ctx, "a.example")
            site.reload(**{"tls__https__verify_incoming": False, "tls__https__ask_incoming": True})
            assert not resumes(site, ctx, session, "a.example")
            site.reload(**{"tls__https__verify_incoming": True, "tls__https__ask_incoming": False})
        resumed = site.stat("tls_handshakes_resumed")
        assert resumed == 4, resumed
        # A file with one CA more: other authorities.
        sessions = [(v, site.context(v, client=True)) for v in VERSIONS]
        sessions = [(ctx, session_of(site, ctx)) for _, ctx in sessions]
        os.mkdir(site.path("other"))
        tls(site.path("other"), "ca", "create")
        with open(site.path(CA), "rb") as a, open(site.path("other/" + CA), "rb") as b, open(site.path("both"), "wb") as out:
            out.write(a.read() + b.read())
        os.rename(site.path("both"), site.path(CA))
        for ctx, session in sessions:
            wait_for("other authorities", lambda: not resumes(site, ctx, session))


# -- renewal, and the signer -------------------------------------------------

class Load:
    """Clients that ask again and again, by new connections and over kept ones; each failure is kept."""

    def __init__(self, site, threads=4):
        self.site, self.done, self.failed, self.running = site, 0, [], True
        self.threads = [threading.Thread(target=self.run, args=(i % 2 == 0,), daemon=True) for i in range(threads)]
        for t in self.threads:
            t.start()

    def run(self, keeps):
        ctx = ssl.create_default_context(cafile=self.site.path("all-cas.pem"))
        s = None
        while self.running:
            try:
                s = s or self.site.connect(ctx)
                assert ask(s)[0] == 200
                self.done += 1
                if not keeps or self.done % 100 == 0:
                    s.close()
                    s = None
            except Exception as e:  # noqa: BLE001 - whatever a client meets
                self.failed.append(repr(e))
                s = None
        if s:
            s.close()

    def stop(self):
        self.running = False
        for t in self.threads:
            t.join(60)


def serial(site):
    with site.connect(ssl.create_default_context(cafile=site.path("all-cas.pem"))) as s:
        return s.getpeercert()["serialNumber"]


def test_renewed_under_load():
    """Certificates are replaced by links that turn, and by SIGHUP, while clients ask: none of them notices."""
    with Site("127.156.5") as site:
        shutil.copy(site.path(CA), site.path("all-cas.pem"))
        load = Load(site)
        seen = {serial(site)}
        for i in range(1, 4):
            tls(site.dir, "cert", "create", "--server", "--additional-ipaddress", site.node.addr)
            give(site.path("dc1-server-consul-%d-key.pem" % i))
            for name, part in (("cert.pem", ""), ("key.pem", "-key")):      # the pair does not fit for a moment
                os.symlink("dc1-server-consul-%d%s.pem" % (i, part), site.path("new"))
                os.rename(site.path("new"), site.path(name))
            if i % 2:
                site.node.signal(signal.SIGHUP, "rpcd")
            wait_for("the new certificate", lambda: serial(site) not in seen)
            seen.add(serial(site))
        # A bad file leaves the last one.
        with open(site.path("bad"), "w") as f:
            f.write("nothing\n")
        os.rename(site.path("bad"), site.path("cert.pem"))
        site.node.signal(signal.SIGHUP, "rpcd")
        wait_for("it is told", lambda: site.node.stats("rpcd")["keys_trouble"] != "")
        assert serial(site) in seen
        wait_for("many requests", lambda: load.done > 2000)
        load.stop()
        assert not load.failed, (load.done, load.failed[:5])


def test_signer_that_stands_still():
    """With "rpcd: keys" frozen what needs no signature goes on, and there is a new one within ten seconds; killed, at once."""
    with Site("127.156.6") as site:
        ctx = site.context()
        with site.connect(ctx) as kept:
            ask(kept)
            pid = wait_for("the signer", lambda: keys_process(site.node))
            os.kill(pid, signal.SIGSTOP)
            frozen = time.monotonic()
            waiting = threading.Thread(target=lambda: is_refused(site, site.context()), daemon=True)
            waiting.start()
            for _ in range(20):
                assert ask(kept)[0] == 200
                assert site.node.get("/v1/status/leader").status == 200
                assert resumes(site, ctx, kept.session)
            wait_for("new sessions", lambda: not is_refused(site, site.context()), 30)
            took = time.monotonic() - frozen
            assert took < 15, took           # ten, and a machine that does much else
            assert keys_process(site.node) != pid
            os.kill(keys_process(site.node), signal.SIGKILL)
            assert not is_refused(site, site.context())
            assert ask(kept)[0] == 200
            waiting.join(60)


# -- strangers ---------------------------------------------------------------

def test_other_protocols():
    """HTTP to the port of HTTPS gets a sentence; TLS to the port of HTTP, and garbage, an end."""
    with Site("127.156.7") as site:
        with site.raw() as s:
            s.sendall(b"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while more := s.recv(4096):
                    answer += more
            assert answer.startswith(b"HTTP/1.0 400 ") and b"Client sent an HTTP request to an HTTPS server." in answer, answer
        with socket.create_connection((site.node.addr, 8500), timeout=60) as s:
            try:
                site.context().wrap_socket(s, server_hostname=site.node.addr)
                raise AssertionError("TLS on the port of HTTP")
            except (ssl.SSLError, ConnectionResetError):
                pass
        for garbage in (b"\0" * 100, b"SSH-2.0-OpenSSH_9\r\n", os.urandom(5000), b"\x16\x03\x01\xff\xff" + b"a" * 100,
                        b"\x16\x03\x01\0\0" * 1000, b"\x15\x03\x01\0\x02\x02\x28"):
            with site.raw() as s, contextlib.suppress(ConnectionResetError, BrokenPipeError):
                s.sendall(garbage)
                while s.recv(4096):
                    pass
        assert not is_refused(site, site.context())
        assert site.stat("tls_failed_not_tls") >= 3


def pump(site, raw, piece, talk):
    """TLS on memory, whose records go over in pieces; talk(object) is tried until it does not want more."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    obj = site.context().wrap_bio(into, out, server_hostname=site.node.addr)
    for step in talk:
        while True:
            try:
                result = step(obj)
                wants = False
            except ssl.SSLWantReadError:
                wants = True
            data = out.read()
            for i in range(0, len(data), piece):
                raw.sendall(data[i:i + piece])
            if not wants:
                break
            into.write(raw.recv(65536))
    return result


def test_records_in_pieces():
    """Handshake and request, each record byte by byte, and in other pieces."""
    with Site("127.156.8") as site:
        for piece in (1, 2, 7, 1000):
            with site.raw() as raw:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                got = pump(site, raw, piece, (lambda o: o.do_handshake(),
                                              lambda o: o.write(b"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n"),
                                              lambda o: o.read(4096)))
                assert got.startswith(b"HTTP/1.1 200"), got


def test_half_open():
    """Handshakes that never go on end after their time, and newcomers are served meanwhile."""
    with Site("127.156.9", **{"limits.http_max_conns": 15000, "limits.http_max_conns_per_client": 15000,
                              "limits.https_handshake_timeout": "3s"}) as site:
        hello = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            site.context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname=site.node.addr).do_handshake()
        hello = hello.read()
        silent = []
        for i in range(10000):
            s = site.raw()
            s.sendall(hello[:(0, 1, 100, len(hello))[i % 4]])
            silent.append(s)
        for _ in range(10):
            assert not is_refused(site, site.context())
        wait_for("all of them are late", lambda: site.stat("https_handshakes_late") >= 10000)
        for s in silent:
            s.close()
        assert not is_refused(site, site.context())


def test_versions_and_suites():
    """tls_min_version and tls_cipher_suites hold, and change by a reload."""
    with Site("127.156.10", **{"tls.https.tls_min_version": "TLSv1_3"}) as site:
        refused(site, site.context(VERSIONS[0]))
        site.reload(tls__https__tls_min_version="TLSv1_2", tls__https__tls_cipher_suites=["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"])
        with site.connect(site.context(VERSIONS[0])) as s:
            assert s.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305", s.cipher()


if __name__ == "__main__":
    if not shutil.which("curl"):
        skip("needs curl(1)")
    main(test_clients, test_waiting_and_streams, test_recorded_cases, test_client_certificates,
         test_other_clients, test_resumption, test_renewed_under_load,
         test_signer_that_stands_still, test_other_protocols, test_records_in_pieces, test_half_open, test_versions_and_suites)

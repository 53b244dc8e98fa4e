#!/usr/bin/env python3
"""HTTP/2 over TLS: clients that speak it, thousands of blocking queries on one connection, and what no client would send."""
import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, SANITIZERS, Cluster, main, skip  # noqa: E402
from h2raw import (CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, H2, HEADERS, NO_ERROR,  # noqa: E402
                   PING, PRIORITY, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, head)
from recorded import EXCLUDED, IN_CLEAR, LAST, OF_SERVERS, expect_passes, needs_acl, recorded  # noqa: E402
from tlskit import tls  # noqa: E402
from waiting import wait_for  # noqa: E402

PORT = 8501


def pss(pid):
    """KiB."""
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))


def with_tls(cluster, nodes):
    """The file of a CA, and rpcd's keys with a certificate for so many nodes."""
    folder = os.path.join(cluster.dir, "tls")
    os.mkdir(folder)
    tls(folder, "ca", "create")
    tls(folder, "cert", "create", "--server", *("--additional-ipaddress=%s.%d" % (cluster.net, i + 1) for i in range(nodes)))
    pair = os.path.join(folder, "dc1-server-consul-0")
    if os.geteuid() == 0:
        shutil.chown(pair + "-key.pem", "root", "_keys")
    os.chmod(pair + "-key.pem", 0o640)
    return os.path.join(folder, "consul-agent-ca.pem"), {
        "https_port": PORT, "tls.https.cert_file": pair + ".pem", "tls.https.key_file": pair + "-key.pem"}


class Site:
    """A server with HTTPS."""

    def __init__(self, net, **rpcd):
        self.stack = contextlib.ExitStack()
        self.cluster = c = self.stack.enter_context(Cluster(net))
        self.ca, keys = with_tls(c, 1)
        self.dir = os.path.dirname(self.ca)
        self.node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd=dict(keys, **rpcd)).start()
        c.formed([self.node])
        self.url = "https://%s:%d" % (self.node.addr, PORT)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def stat(self, name):
        return int(self.node.stats("rpcd")[name])

    def connect(self, **more):
        return H2(self.node.addr, self.ca, PORT, **more)

    def curl(self, *args, path="/v1/status/leader", check=True):
        """(status, body)"""
        p = subprocess.run(["curl", "-sS", "--http2", "--cacert", self.ca, "-w", "\n%{http_version} %{http_code}", *args,
                            self.url + path], capture_output=True, timeout=60)
        assert not check or p.returncode == 0, (args, p)
        body, _, told = p.stdout.rpartition(b"\n")
        version, status = told.decode().split()
        assert not check or version == "2", told
        return int(status), body


# -- what it is for ----------------------------------------------------------

def clients():
    """curl with bodies of each kind, both ways, and what streams; nghttp and h2load."""
    with Site("127.155.1") as site:
        value, longer = os.path.join(site.dir, "value"), os.path.join(site.dir, "longer")
        with open(value, "wb") as f:
            f.write(os.urandom(400000))
        with open(longer, "wb") as f:
            f.truncate(10 << 20)
        with open(value, "rb") as f:
            expected = f.read()
        assert site.curl("-T", value, path="/v1/kv/a") == (200, b"true")
        assert site.curl("-T", value, "-H", "Expect: 100-continue", path="/v1/kv/b") == (200, b"true")
        with open(value, "rb") as f:            # without a length
            p = subprocess.run(["curl", "-sS", "--http2", "--cacert", site.ca, "-T", "-", site.url + "/v1/kv/c"], stdin=f,
                               capture_output=True, timeout=60)
        assert p.stdout == b"true", p
        for key in "abc":
            assert site.curl(path="/v1/kv/%s?raw" % key) == (200, expected)
        assert site.curl("-X", "PUT", "-d", "x", path="/v1/kv/x//a")[0] == 301
        status, told = site.curl("-I", path="/v1/status/leader")
        assert status == 405 and b"content-length: " in told, told
        assert site.curl("--data-binary", "@" + longer, "-X", "PUT", path="/v1/kv/d")[0] == 413
        assert site.curl("-H", "Accept-Encoding: gzip", path="/v1/agent/metrics")[1][:2] == b"\x1f\x8b"
        status, archive = site.curl(path="/v1/snapshot")
        assert status == 200 and archive[:2] == b"\x1f\x8b"
        with open(value, "wb") as f:
            f.write(archive)
        assert site.curl("-T", value, path="/v1/snapshot")[0] == 200
        p = subprocess.Popen(["curl", "-sSN", "--http2", "--cacert", site.ca, site.url + "/v1/agent/monitor?loglevel=debug"],
                             stdout=subprocess.PIPE)
        line = threading.Thread(target=p.stdout.readline, daemon=True)
        line.start()
        site.curl("-T", value, path="/v1/snapshot")
        line.join(60)
        assert not line.is_alive(), "the monitor says nothing"
        p.kill()
        p.wait()
        p.stdout.close()
        wait_for("its stream ends", lambda: site.stat("http2_streams") == 0)
        assert site.stat("http2_requests") > 10 and site.stat("http2_floods") + site.stat("http2_broken") == 0
        for tool in (["nghttp", "-n", site.url + "/v1/kv/a?raw"], ["h2load", "-n", "5000", "-c", "8", "-m", "100",
                                                                  site.url + "/v1/status/leader"]):
            if shutil.which(tool[0]) is None:
                skip(tool[0] + " is not installed (nghttp2-client)")
            p = subprocess.run(tool, capture_output=True, text=True, timeout=120)
            assert p.returncode == 0, p
        assert "5000 succeeded, 0 failed" in p.stdout, p.stdout


def thousands_wait():
    """On one connection: all are answered when the key changes; given up or cut, they leave nothing."""
    many = 3000
    with Site("127.155.2", **{"limits.http2_max_streams_per_client": 4000}) as site:
        n = site.node
        n.put("/v1/kv/w", b"1")
        index = n.get("/v1/kv/w").headers["X-Consul-Index"]

        def ask(h2):
            return [h2.request(("/v1/kv/w?wait=300s&index=%s" % index).encode()) for _ in range(many)]

        def under_way(count):
            wait_for("%d wait" % count, lambda: site.stat("http2_streams") == count)

        with site.connect() as h2:
            assert all(ask(h2))
            under_way(many)
            n.put("/v1/kv/w", b"2")
            ended = set()
            while len(ended) < many:
                kind, flags, stream, _ = h2.until(lambda f: f[0] in (HEADERS, DATA) and f[1] & END_STREAM)
                ended.add(stream)
            index = n.get("/v1/kv/w").headers["X-Consul-Index"]
            given_up = ask(h2)
            under_way(many)
            for stream in given_up[:1000]:
                h2.send(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))
            under_way(many - 1000)
            assert h2.answer(h2.request(b"/v1/status/leader")) is not None       # the connection goes on
        under_way(0)
        wait_for("nobody waits", lambda: site.stat("http_under_way") == 1 and n.stats("raftd")["watches"] == "0")


def price():
    """A blocking query that waits as a stream takes at most 2 KB in raftd and rpcd, over TLS and with its share of the
    connection; when all have gone rpcd gives the memory back."""
    many = 10000
    with Site("127.155.10", **{"limits.http2_max_streams_per_client": many, "limits.http_max_conns": 20000}) as site:
        n = site.node
        keys = ["/v1/kv/w%d" % i for i in range(100)]
        for key in keys:
            n.put(key, b"1")
        paths = [("%s?wait=300s&index=%s" % (key, n.get(key).headers["X-Consul-Index"])).encode() for key in keys]
        pids = [n.pid(d) for d in ("raftd", "rpcd")]
        assert site.curl()[0] == 200            # the first handshake is not what is measured
        before = [pss(p) for p in pids]
        with site.connect() as h2:
            for i in range(many):
                h2.request(paths[i % len(paths)])
            wait_for("all wait", lambda: site.stat("http2_streams") == many)
            each = (sum(pss(p) for p in pids) - sum(before)) * 1024 / many
            print("     %.0f bytes" % each, flush=True)
            assert SANITIZERS or each <= 2048, each
        wait_for("all is given back", lambda: SANITIZERS or pss(pids[1]) < before[1] + 2048)


def connection_that_stops():
    """Stopped, rpcd says so (GOAWAY), and requests under way have their answers."""
    with Site("127.155.3") as site, site.connect() as h2:
        site.node.put("/v1/kv/w", b"1")
        index = site.node.get("/v1/kv/w").headers["X-Consul-Index"]
        stream = h2.request(("/v1/kv/w?wait=300s&index=%s" % index).encode())
        wait_for("it waits", lambda: site.stat("http_conns_waiting") == 1)
        site.node.stop("rpcd")
        assert h2.answer(stream) is not None
        assert h2.goaway() == NO_ERROR


@contextlib.contextmanager
def in_front(node, port):
    """nghttpx: the runner of recorded cases speaks HTTP/1.1 to it, and it speaks HTTP/2 to rpcd."""
    p = subprocess.Popen(["nghttpx", "--conf=/dev/null", "--workers=1", "--insecure", "--accesslog-file=/dev/null", "--no-via",
                          "--errorlog-file=/dev/null", "--no-add-x-forwarded-proto", "--no-location-rewrite",
                          "--backend-read-timeout=20m", "--frontend-read-timeout=20m",
                          "--frontend=%s,%d;no-tls" % (node.addr, port), "--backend=%s,%d;;proto=h2;tls" % (node.addr, PORT)])
    try:
        wait_for("nghttpx listens", lambda: socket.create_connection((node.addr, port)).close() is None)
        yield "http://%s:%d" % (node.addr, port)
    finally:
        p.terminate()
        p.wait()


def recorded_cases():
    """Recorded cases of HTTP, over HTTP/2, at the leader, a follower and a client node: what a client sees is the same."""
    if shutil.which("nghttpx") is None:
        skip("nghttpx is not installed (nghttp2-proxy)")
    names = {n for n, case in recorded().items() if not needs_acl(case)}
    # nghttpx makes one slash of two; clients() has that case.
    names -= {n for n in names if any(re.fullmatch(p, n) for p in EXCLUDED)} | IN_CLEAR | LAST | {"kv/double-slash-in-key"}
    failures = []
    with Cluster("127.155.9") as c:
        rpcd = with_tls(c, 4)[1]
        servers = c.servers(3, raftd=CALM, rpcd=rpcd)
        client = c.client("c1", 4, servers[0], rpcd=rpcd)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        wait_for("every node is in the catalog with its check", lambda: all(
            [k["Status"] for k in n.get("/v1/health/node/" + n.name).json() if k["CheckID"] == "serfHealth"] == ["passing"]
            for n in servers + [client]))
        with contextlib.ExitStack() as stack:
            urls = {n.name: stack.enter_context(in_front(n, 8559)) for n in servers + [client]}
            for where, node in (("the leader", leader), ("a follower", follower), ("a client", client)):
                expect_passes(failures, where, urls[node.name], names if node.server else names - OF_SERVERS,
                              "--follower-url", urls[follower.name], "--encrypt-url", urls[node.name])
        for node in servers + [client]:
            told = node.stats("rpcd")
            assert told["http2_broken"] == told["http2_floods"] == told["http2_rapid_resets"] == "0", told
        assert int(client.stats("rpcd")["http2_requests"]) > 500
    assert not failures, "\n".join(failures)


# -- bounds --------------------------------------------------------------------

def limits():
    """Streams of one client, over all its connections; more at once than was announced."""
    with Site("127.155.4", **{"limits.http2_max_streams_per_client": 20}) as site:
        site.node.put("/v1/kv/w", b"1")
        path = ("/v1/kv/w?wait=300s&index=%s" % site.node.get("/v1/kv/w").headers["X-Consul-Index"]).encode()
        with site.connect() as one, site.connect() as two:
            told = one.until(lambda f: f[0] == SETTINGS and not f[1])[3]
            settings = {struct.unpack(">HI", told[i:i + 6]) for i in range(0, len(told), 6)}
            assert (3, 20) in settings and (6, 16384) in settings, settings
            for _ in range(15):
                one.request(path)
            wait_for("they wait", lambda: site.stat("http2_streams") == 15)
            for _ in range(5):
                two.request(path)
            wait_for("they wait", lambda: site.stat("http2_streams") == 20)
            assert b"too many concurrent connections" in two.answer(two.request(b"/v1/status/leader"))
            for _ in range(5):
                one.request(path)       # these are 429 as well
            over = one.request(path)
            wait_for("all were looked at", lambda: site.stat("http2_requests") >= 26 or site.stat("http2_broken") > 0)
            assert over > 0 and site.stat("http2_streams") == 20
        assert site.curl()[0] == 200


def flood(h2, data, times=100):
    """Up to the end of the connection: closed before, what was not read by then would be dropped."""
    with contextlib.suppress(OSError):
        for _ in range(times):
            h2.send(data)
    h2.until(lambda f: False)


def misuse():
    """Each ends its connection, is counted, and no other client notices."""
    rst = struct.pack(">I", CANCEL)
    floods = {
        "http2_floods": [frame(PING, payload=b"12345678"), frame(SETTINGS), frame(PRIORITY, 0, 9, b"\0\0\0\1\0"),
                         frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")],
    }
    with Site("127.155.5") as site, site.connect() as calm:
        for name, frames in floods.items():
            for one in frames:
                before = site.stat(name)
                with site.connect() as h2:
                    flood(h2, one * 1000)
                wait_for("%r is counted" % one, lambda: site.stat(name) == before + 1)
        with site.connect() as h2:
            stream = h2.request(b"/v1/kv/x", b"PUT", body=True)
            flood(h2, frame(DATA, 0, stream) * 1000)
        wait_for("empty DATA is counted", lambda: site.stat("http2_floods") == 5)
        with site.connect() as h2:
            flood(h2, b"".join(frame(HEADERS, END_HEADERS | END_STREAM, s, head(b"/v1/kv/x")) + frame(RST_STREAM, 0, s, rst)
                               for s in range(1, 40001, 2)), 1)
        wait_for("rapid resets are counted", lambda: site.stat("http2_rapid_resets") == 1)
        with site.connect() as h2:
            h2.send(frame(HEADERS, END_STREAM, 1, head(b"/v1/kv/x")) + frame(CONTINUATION, 0, 1) * 20)
            assert h2.goaway() == ENHANCE_YOUR_CALM
        with site.connect() as h2:
            h2.send(frame(HEADERS, END_STREAM | END_HEADERS, 1,
                          head(b"/v1/kv/x") + field(b"x-bomb", b"v" * 120, b"\x40") + b"\xbe" * 15000))
            assert h2.goaway() == ENHANCE_YOUR_CALM
        assert site.stat("http2_bombs") == 1
        with site.connect() as h2:
            h2.send(frame(DATA, 0, 99, b"x"))
            assert h2.goaway() not in (None, NO_ERROR)
        assert site.stat("http2_broken") == 1
        assert calm.answer(calm.request(b"/v1/status/leader")) is not None
        assert site.stat("http2_conns") == 1


def heads():
    """What HTTP/1.1 refuses is refused: with a sentence, or by resetting the stream; the connection goes on."""
    with Site("127.155.6") as site, site.connect() as h2:
        for more, said in (
                (((b"x-consul-token", b"a"), (b"x-consul-token", b"b")), b"400 Bad Request: a header that may occur once"),
                (((b"host", b"two"),), b"400 Bad Request: Host is not :authority"),
                (tuple((b"x-long", b"v" * 120) for _ in range(120)), b"431 Request Header Fields Too Large"),
                (((b"X-Upper", b"1"),), None), (((b"connection", b"close"),), None),
                (((b"transfer-encoding", b"chunked"),), None), (((b"content-length", b"5"),), None),
                (((b"x", b"a\r\nb"),), None)):
            body = h2.answer(h2.request(b"/v1/status/leader", b"GET", *more))
            assert (body is None) == (said is None) and (body or b"").startswith(said or b""), (more[0], body)
        assert h2.answer(h2.request(b"/v1/status/leader")) is not None


# -- clients that stand still ------------------------------------------------------

def deadlines():
    """An idle client is told; half a head, half a body, a window that never opens, a reader that does not read: all end."""
    with Site("127.155.7", http_idle_timeout="1s") as site:
        n = site.node
        n.put("/v1/kv/long", os.urandom(300000))
        with site.connect() as idle:
            assert idle.goaway() == NO_ERROR
        with site.connect() as h2:
            h2.send(frame(HEADERS, END_STREAM, 1, head(b"/v1/status/leader")))
            assert h2.until(lambda f: False) is None
        with site.connect() as h2:
            stream = h2.request(b"/v1/kv/x", b"PUT", body=True)
            h2.send(frame(DATA, 0, stream, b"half"))
            assert h2.answer(stream) is None                    # reset
        assert n.get("/v1/kv/x").status == 404
        with site.connect(open_windows=False) as h2:
            stream = h2.request(b"/v1/kv/long?raw")
            f = h2.until(lambda f: f[0] == RST_STREAM)
            assert f[2] == stream and sum(len(f[3]) for f in h2.seen if f[0] == DATA) == 65535
        wait_for("all is given back", lambda: site.stat("http2_streams") == 0)
        with site.connect() as h2:
            h2.send(frame(SETTINGS, payload=struct.pack(">HI", 4, (1 << 31) - 1)))
            for _ in range(40):
                h2.request(b"/v1/kv/long?raw")
            wait_for("the reader is given up", lambda: site.stat("http2_conns") == 0)
        assert site.stat("http_conns_timed_out") >= 5 and site.stat("http_under_way") == 1


def streams_refused_for_all():
    """limits.http_max_conns holds for all streams: beyond it they are refused, such that clients try them again."""
    with Site("127.155.8", **{"limits.http_max_conns": 10}) as site, site.connect() as h2:
        site.node.put("/v1/kv/w", b"1")
        path = ("/v1/kv/w?wait=300s&index=%s" % site.node.get("/v1/kv/w").headers["X-Consul-Index"]).encode()
        for _ in range(10):
            h2.request(path)
        refused = h2.request(path)
        f = h2.until(lambda f: f[0] == RST_STREAM)
        assert f[2] == refused and int.from_bytes(f[3], "big") == REFUSED_STREAM
        assert site.stat("http2_refused") == 1


if __name__ == "__main__":
    main(clients, thousands_wait, price, connection_that_stops, recorded_cases, limits, misuse, heads, deadlines,
         streams_refused_for_all)

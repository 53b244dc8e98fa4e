#!/usr/bin/env python3
"""The HTTP transport of one server, at the level of bytes: pipelining, hostile requests, limits, waiting clients."""
import os
import re
import signal
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, rpcd_conf  # noqa: E402
from tlskit import https  # noqa: E402
from waiting import wait_for  # noqa: E402

LIMITS = {"http_idle_timeout": "1s", "limits.http_max_conns_per_client": 8, "limits.body_discard_max": "2M"}


SEALED = None       # connects by TLS in place of plain TCP


def connect(node, unix=False):
    if not unix:
        return SEALED() if SEALED else socket.create_connection((node.addr, 8500), timeout=60)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(os.path.join(node.run, "rpcd.sock"))
    return s


def talk(node, data, more=(), unix=False):
    """Sends bytes, closes nothing, returns all that comes until the other side closes, which it has to."""
    with connect(node, unix) as s:
        try:
            s.sendall(data)
            for part in more:
                s.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass                        # it did not want to read all of it; what it said is there
        out = b""
        try:
            while got := s.recv(65536):
                out += got
        except ConnectionResetError:
            pass
        return out


def statuses(answer):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d\d\d) ", answer)]


def get(path, *headers):
    return ("GET %s HTTP/1.1\r\n%s\r\n\r\n" % (path, "\r\n".join(("Host: x",) + headers))).encode()


def put(path, body, *headers):
    head = ("Host: x", "Content-Length: %d" % len(body)) + headers
    return ("PUT %s HTTP/1.1\r\n%s\r\n\r\n" % (path, "\r\n".join(head))).encode() + body


def test_pipelining(n):
    last = get("/v1/kv/p/2?raw", "Connection: close")
    out = talk(n, put("/v1/kv/p/1", b"one") + put("/v1/kv/p/2", b"two") + get("/v1/kv/p/1?raw") + get("/v1/none") + last)
    assert statuses(out) == [200, 200, 200, 404, 200], out
    assert out.index(b"one") < out.index(b"two"), out
    # byte by byte, all over one connection
    whole = put("/v1/kv/p/3", b"three") + get("/v1/kv/p/3?raw", "Connection: close")
    out = talk(n, b"", [whole[i:i + 1] for i in range(len(whole))])
    assert statuses(out) == [200, 200] and out.endswith(b"three"), out


def test_pipelining_many(n):
    """A hundred requests in one write, of all kinds of bodies, are done in order, wherever the bytes are cut."""
    whole, expected = b"", []
    for i in range(33):
        value = b"v%d" % i
        whole += put("/v1/kv/m/%d" % i, value)
        whole += b"GET /v1/kv/m/%d?raw HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n" % (i, b"b" * (i * 40))
        whole += b"PUT /v1/kv/m/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        whole += b"%x\r\n%s\r\n1;x\r\n!\r\n0\r\nA: b\r\n\r\n" % (len(value), value)
        expected += [200, value, 200]
    whole += get("/v1/kv/m/c?raw", "Connection: close")
    for unix in (False, True):
        out = talk(n, whole, unix=unix)
        assert statuses(out) == [200] * 100 and out.endswith(b"\r\n\r\nv32!"), out
        at = 0
        for value in (b"v%d" % i for i in range(33)):
            at = out.index(b"\r\n\r\n" + value + b"HTTP/1.1", at)
    # cut once, at each byte of the first six
    six = whole[:whole.index(b"PUT /v1/kv/m/2 ")] + get("/v1/kv/m/c?raw", "Connection: close")
    for cut in range(1, len(six)):
        out = talk(n, six[:cut], [six[cut:]])
        assert statuses(out) == [200] * 7 and out.endswith(b"\r\n\r\nv1!"), (cut, out)
    # what waits behind one that waits is served when that is answered, and is not done for a client that has gone
    index = n.get("/v1/kv/m/c").index
    with connect(n) as s:
        s.sendall(get("/v1/kv/m/c?index=%d&wait=60s" % index) + put("/v1/kv/m/behind", b"1") +
                  get("/v1/kv/m/behind?raw", "Connection: close"))
        wait_for("it waits", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 1)
        assert n.kv_get("m/behind") is None
        assert n.put("/v1/kv/m/c", b"now").status == 200
        out = b""
        while got := s.recv(65536):
            out += got
        assert statuses(out) == [200] * 3 and out.endswith(b"\r\n\r\n1"), out
    n.delete("/v1/kv/m/behind")
    with connect(n) as s:
        s.sendall(get("/v1/kv/m/none?index=%d&wait=60s" % n.get("/v1/kv/m/none").index) + put("/v1/kv/m/behind", b"1") * 1000)
        wait_for("it waits", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 1)
    wait_for("it has left", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 0)
    assert n.kv_get("m/behind") is None
    assert int(n.stats("rpcd")["http_carried_bytes"]) == 0


def test_bodies(n):
    chunked = (b"PUT /v1/kv/b/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nTrailer: x\r\n\r\n")
    out = talk(n, chunked + get("/v1/kv/b/c?raw", "Connection: close"))
    assert statuses(out) == [200, 200] and out.endswith(b"abcd"), out
    # too large: read to the end, refused, and the connection goes on
    out = talk(n, put("/v1/kv/b/l", b"x" * 600000) + get("/v1/kv/b/l", "Connection: close"))
    assert statuses(out) == [413, 404], out[:2000]
    # the cap counts bytes, not announcements
    body = b"".join(b"%x\r\n" % 65536 + b"y" * 65536 + b"\r\n" for _ in range(10)) + b"0\r\n\r\n"
    out = talk(n, b"PUT /v1/kv/b/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + body)
    assert statuses(out) == [413] and b"Request body(655360 bytes) too large" in out, out[:2000]
    # no end in sight: nobody reads it for ever
    with socket.create_connection((n.addr, 8500), timeout=60) as s:
        try:
            s.sendall(b"PUT /v1/kv/b/m HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(1024):
                s.sendall(b"10000\r\n" + b"y" * 65536 + b"\r\n")
            raise AssertionError("64 MB were read, and 2 MB is the limit")
        except (ConnectionResetError, BrokenPipeError):
            pass
    # far too large: not even read
    out = talk(n, b"PUT /v1/kv/b/n HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
    assert statuses(out) == [413] and b"99999999999 bytes" in out, out
    # who asks first is told before sending
    out = talk(n, b"PUT /v1/kv/b/n HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\nExpect: 100-continue\r\n\r\n")
    assert statuses(out) == [413], out
    assert n.kv_get("b/l") is None and n.kv_get("b/m") is None and n.kv_get("b/n") is None


def test_malformed(n):
    bad = [
        b"GET /v1/kv/a HTTP/1.1\r\n\r\n",                                              # no Host
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nabc",
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nabc",
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 3x\r\n\r\nabc",
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",                               # TLS
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
        b"\x00" * 1000,
    ]
    for b in bad:
        out = talk(n, b)
        assert all(400 <= s < 500 for s in statuses(out)), (b[:80], out[:300])
    assert n.kv_get("s") is None
    for path in ("/v1/kv/%", "/v1/kv/a%00b", "/v1/kv/a%07"):
        assert statuses(talk(n, get(path, "Connection: close"))) == [400], path
    assert statuses(talk(n, get("/v1/kv/a?index=18446744073709551616", "Connection: close"))) == [400]


def test_slow_and_many(n):
    # an unfinished head or body, and silence, end with the idle timeout
    for start in (b"", b"GET /v1/kv/a HT", b"PUT /v1/kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"):
        out = talk(n, start)
        assert statuses(out) in ([], [408]), out

    def nine():
        socks = [connect(n) for _ in range(9)]
        try:
            for s in socks:
                s.sendall(get("/v1/status/leader"))
            return sorted(sum((statuses(s.recv(4096)) for s in socks), []))
        finally:
            for s in socks:
                s.close()
    # A connection that was closed a moment ago may still count.
    wait_for("eight connections of one address are served, the ninth is not", lambda: nine() == [200] * 8 + [429])
    wait_for("room for new connections", lambda: n.get("/v1/status/leader").status == 200)


def test_browsers(n):
    assert n.get("/v1/status/leader", headers={"Host": "rebound.example.com"}).status == 403
    assert n.get("/v1/status/leader", headers={"Host": "localhost:8500"}).status == 200
    evil = {"Origin": "http://evil.example.com", "Content-Type": "text/plain"}
    assert n.put("/v1/kv/x", b"1", headers=evil).status == 403
    assert n.put("/v1/kv/x", b"1", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    assert n.put("/v1/kv/x", b"1", headers={"X-Consul-Token": "t", **evil}).status == 403
    assert n.kv_get("x") is None
    # a page's image or link does work as well: refused, whatever the method
    for path in ("/v1/kv/x?raw", "/v1/snapshot", "/v1/agent/monitor", "/v1/agent/members", "/v1/kv/x?index=1"):
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, evil):
            assert n.get(path, headers=headers).status == 403, (path, headers)
    for site in ("same-origin", "none"):
        assert n.get("/v1/status/leader", headers={"Sec-Fetch-Site": site}).status == 200, site
    # on both roads: at once, and after a wait outside the library
    assert n.get("/v1/status/leader").headers["X-Content-Type-Options"] == "nosniff"
    n.kv_put("sniff", b"1")
    waited = n.get("/v1/kv/sniff?index=%d&wait=10ms" % n.get("/v1/kv/sniff").index)
    assert waited.status == 200 and waited.headers["X-Content-Type-Options"] == "nosniff", waited.headers
    assert talk(n, get("/v1/kv/sniff?raw", "Connection: close")).count(b"X-Content-Type-Options: nosniff\r\n") == 1
    assert n.get("/v1/none/x").headers["X-Content-Type-Options"] == "nosniff"
    # what is configured, at once and at every address
    common = dict(rpcd_conf(n.addr), **LIMITS)
    n.write("rpcd.conf", dict(common, http_hosts=["agent.example.com"], http_origins=["https://ui.example.com"]))
    n.signal(signal.SIGHUP, "rpcd")
    own = {"Origin": "https://ui.example.com", "Sec-Fetch-Site": "cross-site", "Host": "agent.example.com:8500"}
    wait_for("a configured origin", lambda: n.get("/v1/kv/sniff", headers=own).status == 200)
    assert n.put("/v1/kv/sniff", b"2", headers=own).status == 200
    assert n.put("/v1/kv/sniff", b"2", headers=dict(own, Origin="https://ui.example.com.evil.org")).status == 403
    n.write("rpcd.conf", common)
    n.signal(signal.SIGHUP, "rpcd")
    wait_for("none is configured", lambda: n.get("/v1/kv/sniff", headers=own).status == 403)


def test_client_goes_away(n):
    n.kv_put("w", b"1")
    index = n.get("/v1/kv/w").index
    before = int(n.stats("rpcd")["http_cancelled"])
    socks = [connect(n) for _ in range(5)]
    for s in socks:
        s.sendall(get("/v1/kv/w?index=%d&wait=5m" % index))
    wait_for("five waiting requests", lambda: int(n.stats("rpcd")["http_under_way"]) >= 6)
    wait_for("parked ones", lambda: int(n.stats("rpcd")["http_conns_waiting"]) >= 5)
    socks[0].sendall(get("/v1/kv/w"))       # bytes that nobody will read do not hide the end
    for s in socks:
        s.close()
    wait_for("their end", lambda: int(n.stats("rpcd")["http_cancelled"]) == before + 5 and
             int(n.stats("rpcd")["http_under_way"]) == 1)


def test_unix_socket(n):
    assert n.get("/v1/status/leader", unix=True).status == 200
    if os.geteuid() != 0:
        return
    # even if the modes let a stranger in
    path = os.path.join(n.run, "rpcd.sock")
    os.chmod(path, 0o777)
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setgroups([])
            os.setgid(54321)
            os.setuid(54321)
            code = 0 if n.get("/v1/status/leader", unix=True).status == 403 else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.chmod(path, 0o660)


def test_administration(n):
    """Off by default: TCP serves data, and the socket everything (point of rpcd.conf(5), http_admin)."""
    plain = dict(rpcd_conf(n.addr, http_admin=False), **LIMITS)
    ways = (("GET", "/v1/operator/keyring"), ("PUT", "/v1/agent/reload"), ("GET", "/v1/agent/monitor?loglevel=err"),
            ("GET", "/v1/snapshot"), ("PUT", "/v1/operator/raft/transfer"), ("PUT", "/v1/agent/force-leave/nobody"))
    n.write("rpcd.conf", plain)
    n.signal(signal.SIGHUP, "rpcd")
    refused = wait_for("administration is off", lambda: (lambda a: a.status == 403 and a)(n.put("/v1/agent/force-leave/x")))
    assert "http_admin" in refused.text and os.path.join(n.run, "rpcd.sock") in refused.text, refused
    for method, path in ways:
        a = n.http(method, path)
        assert a.status == 403 and a.text.startswith(method), (method, path, a)
    # reads of the same families, and data, as ever
    for path in ("/v1/operator/raft/configuration", "/v1/operator/autopilot/health", "/v1/agent/members", "/v1/agent/self"):
        assert n.get(path).status == 200, path
    assert n.put("/v1/kv/adm", b"1").status == 200 and n.kv_get("adm") == b"1"
    # a body is not even read
    out = talk(n, b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n")
    assert statuses(out) == [403], out
    # the socket serves all of it, and reads the configuration again
    assert n.http("GET", "/v1/snapshot", unix=True).status == 200
    n.write("rpcd.conf", dict(plain, http_admin=True))
    assert n.http("PUT", "/v1/agent/reload", unix=True).status == 200
    wait_for("administration is on", lambda: n.http("PUT", "/v1/agent/reload").status == 200)


def listens_beyond_loopback():
    """Only when it is asked for; validate says the same as the start, with file, key and remedy."""
    with Cluster("127.60.37") as c:
        n = c.add("n1", 1)
        n.write("rpcd.conf", {"http_addresses": ["0.0.0.0"]})
        n.start("rpcd")
        n.procs["rpcd"].may_end(1)
        assert n.wait_end("rpcd") == [1]
        expected = ("%s/rpcd.conf: http_addresses: 0.0.0.0 is open to other machines, in plaintext, tokens too, and without "
                    "access control any client that reaches it can read and write all data: http_allow_remote = true serves it "
                    "there all the same" % n.conf)
        assert expected in n.log("rpcd"), n.log("rpcd")
        p = n.ctl("validate", n.conf, check=False)
        assert p.returncode == 1 and expected in p.stdout + p.stderr, p


def lines_of_requests():
    """At debug level each is told once, on both roads, when it is over; at info level none."""
    with Cluster("127.60.38") as c:
        n = c.servers(1, log_level="debug")[0]
        quiet = c.client("c1", 2, n)
        c.formed([n])
        wait_for("the client node answers", lambda: quiet.kv_get("line/x") is None)
        n.kv_put("line/a", b"1")
        index = n.get("/v1/kv/line/a?raw&token=s3cret").index
        waiting = [threading.Thread(target=lambda: n.get("/v1/kv/line/a?index=%d&wait=60s&token=s3cret" % index))
                   for _ in range(2)]
        for t in waiting:
            t.start()
        wait_for("they wait", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 2)
        n.kv_put("line/a", b"2")
        for t in waiting:
            t.join()
        n.http("GET", "/v1/peerings", unix=True)
        with socket.create_connection((n.addr, 8500), timeout=20) as s:
            s.sendall(get("/v1/kv/line/gone?index=%d&wait=60s" % 10**9))
            wait_for("it waits", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 1)

        def told(pattern):
            return re.findall(r"^\S+ \[DEBUG\] http: %s$" % pattern, n.log("rpcd"), re.M)
        client = r"127\.[0-9.]+"
        wait_for("a client that left", lambda: len(told(r"GET /v1/kv/line/gone gone \d+ us " + client)) == 1)
        assert len(told(r"PUT /v1/kv/line/a 200 \d+ us " + client)) == 2, n.log("rpcd")
        reads = told(r"GET /v1/kv/line/a 200 (\d+) us " + client)
        assert len(reads) == 3 and all(int(us) > 0 for us in reads), reads
        assert len(told(r"GET /v1/peerings 404 \d+ us rpcd\.sock")) == 1, n.log("rpcd")
        talk(n, b"GET /v1/kv/line/bad HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n")
        assert len(told(r"- - 400 0 us " + client)) == 1, n.log("rpcd")
        assert "s3cret" not in n.log("rpcd")
        assert "line/" not in quiet.log("rpcd")


def test_stop_with_waiting_clients(n):
    answers = []

    def wait():
        answers.append(n.get("/v1/kv/never?index=999999999&wait=60s"))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for t in threads:
        t.start()
    wait_for("waiting requests", lambda: int(n.stats("rpcd")["http_under_way"]) >= 5)
    n.signal(signal.SIGTERM, "rpcd")
    assert n.wait_end("rpcd") == [0]
    for t in threads:
        t.join(60)
    assert [(a.status, a.text) for a in answers] == [(500, "rpcd is stopping")] * 4, answers
    n.start("rpcd")
    assert wait_for("rpcd again", lambda: n.kv_get("p/1")) == b"one"


def sealed():
    """The same over TLS, where a connection ends with close_notify; and HTTPS needs no http_allow_remote."""
    global SEALED
    with Cluster("127.157.1") as c:
        keys, SEALED = https(os.path.join(c.dir, "tls"), c.net + ".1")
        n = c.servers(1, rpcd=dict(LIMITS, **keys))[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        for test in (test_pipelining, test_pipelining_many, test_bodies, test_malformed, test_slow_and_many, test_client_goes_away):
            test(n)
            print("     " + test.__name__, flush=True)
    SEALED = None


def stops_behind_its_answers():
    """Answers that are on their way when rpcd is told to stop arrive whole; so does an upload that was begun."""
    with Cluster("127.60.209") as c:
        n = c.servers(1)[0]
        c.formed([n])
        value = os.urandom(500000)
        for i in range(12):        # more than the buffers of sockets hold
            assert wait_for("a write", lambda: n.put("/v1/kv/big/%d" % i, value).status == 200)
        with connect(n) as reader, connect(n) as writer, connect(n) as waiter:
            reader.sendall(get("/v1/kv/big/?recurse"))
            out = reader.recv(1000)
            writer.sendall(b"PUT /v1/kv/up HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
            waiter.sendall(get("/v1/kv/up?index=999999&wait=60s"))
            wait_for("they are there", lambda: int(n.stats("rpcd")["http_under_way"]) >= 3)
            parts = [out]
            reading = threading.Thread(target=lambda: parts.extend(iter(lambda: reader.recv(1 << 20), b"")))
            n.signal(signal.SIGTERM, "rpcd")
            reading.start()
            wait_for("no newcomers", lambda: refuses(n), interval=0.001)
            writer.sendall(b"67890")
            assert statuses(writer.recv(4096)) == [200]
            reading.join(60)
            out = b"".join(parts)
            head, _, body = out.partition(b"\r\n\r\n")
            assert len(body) == int(re.search(rb"Content-Length: (\d+)", head).group(1)), (len(body), head)
            assert statuses(waiter.recv(4096)) == [500]
        assert n.wait_end("rpcd") == [0]


def refuses(n):
    try:
        connect(n).close()
        return False
    except ConnectionRefusedError:
        return True


def clients_leave_within_their_bodies():
    """What they have sent is given back then, and not when their time is over, two minutes later."""
    with Cluster("127.60.36") as c:
        n = c.servers(1)[0]
        c.formed([n])

        def alone():
            stats = n.stats("rpcd")
            return int(stats["http_conns"]) == 1 and int(stats["http_under_way"]) == 1
        wait_for("only who asks is connected", alone)
        for path in (b"/v1/kv/x", b"/v1/agent/reload", b"/v1/snapshot?dc=nowhere", b"/v1/snapshot"):
            for size in (0, 50, 20000, 300000, 300000, 300000):
                with socket.create_connection((n.addr, 8500), timeout=20) as s:
                    s.sendall(b"PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n" % path + b"x" * size)
        wait_for("their end", alone)


def all_of_it():
    with Cluster("127.60.33") as c:
        n = c.servers(1, rpcd=LIMITS)[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        for test in (test_pipelining, test_pipelining_many, test_bodies, test_malformed, test_slow_and_many, test_browsers,
                     test_client_goes_away, test_unix_socket, test_administration, test_stop_with_waiting_clients):
            test(n)
            print("     " + test.__name__, flush=True)


main(all_of_it, sealed, stops_behind_its_answers, clients_leave_within_their_bodies, listens_beyond_loopback, lines_of_requests)

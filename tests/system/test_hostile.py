#!/usr/bin/env python3
"""What strangers send to rpcd's ports: requests that two readers would understand differently, bytes that trickle, silence."""
import json
import os
import re
import select
import signal
import socket
import ssl
import string
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import SANITIZERS, TOP, Cluster, main  # noqa: E402
from tlskit import https  # noqa: E402
from tvframe import MSG, Closed, Conn  # noqa: E402
from waiting import need, wait_for  # noqa: E402

LIMITS = {"http_idle_timeout": "1s", "link_dial_timeout": "2s"}
PUT = b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: 3\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


SEALED = None       # connects by TLS in place of plain TCP


def connect(node, unix=False, source=None):
    if SEALED and not unix:
        return SEALED()
    if not unix:
        return socket.create_connection((node.addr, 8500), timeout=60, source_address=(source, 0) if source else None)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(os.path.join(node.run, "rpcd.sock"))
    return s


def talk(node, data, unix=False, end=True):
    """Sends bytes and the end of input; returns all that comes until the other side closes."""
    with connect(node, unix) as s:
        out = b""
        try:
            s.sendall(data)
            if end and not (SEALED and not unix):       # TLS has no half of a connection
                s.shutdown(socket.SHUT_WR)
            while True:
                got = s.recv(65536)
                if not got:
                    return out
                out += got
        except (ConnectionResetError, BrokenPipeError):
            return out


def statuses(answer):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d\d\d) ", answer)]


def test_ambiguous_bodies(n):
    bad = {
        "two lengths": LENGTH + b"Content-Length: 4\r\n\r\nabcd",
        "one length twice": LENGTH + LENGTH + b"\r\nabc",
        "list of lengths": b"Content-Length: 3, 3\r\n\r\nabc",
        "sign": b"Content-Length: +3\r\n\r\nabc",
        "hexadecimal": b"Content-Length: 0x3\r\n\r\nabc",
        "both": LENGTH + CHUNKED + b"\r\n0\r\n\r\nabc",
        "both, the other way": CHUNKED + LENGTH + b"\r\n0\r\n\r\nabc",
        "two encodings": CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "two encodings, the other way": b"Transfer-Encoding: identity\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
        "foreign encoding": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "unknown encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "space before the colon": b"Transfer-Encoding : chunked\r\n" + LENGTH + b"\r\n0\r\n\r\n",
        "length with a space": b"Content-Length : 3\r\n\r\nabc",
        "two hosts": b"Host: evil.example.com\r\n" + LENGTH + b"\r\nabc",
    }
    for what, rest in bad.items():
        out = talk(n, PUT + rest)
        assert statuses(out)[:1] == [400] and b"Connection: close" in out, (what, out)
        assert n.kv_get("s") is None, what
    out = talk(n, b"PUT /v1/kv/s HTTP/1.0\r\nHost: x\r\n" + CHUNKED + b"\r\n3\r\nabc\r\n0\r\n\r\n")
    assert statuses(out) == [400] and n.kv_get("s") is None, out
    out = talk(n, b"\x1b[31m /v1/kv/s HTTP/1.1\r\nHost: x\r\n\r\n")
    assert statuses(out) == [400] and b"\x1b" not in out, out
    for fine in (LENGTH + b"\r\nabc", b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):
        assert statuses(talk(n, PUT + fine)) == [200] and n.kv_get("s") == b"abc", fine
        n.delete("/v1/kv/s")


def test_heads(n):
    """What the RFCs say to refuse is refused, and what follows it is no request (S180)."""
    get, hidden = b"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n", b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1"
    fits = b"Content-Length: %d\r\n" % len(hidden)
    bad = {
        "folded coding": PUT + b"Transfer-Encoding:\r\n chunked\r\n" + fits + b"\r\n" + hidden,
        "folded length": PUT + b"Content-Length:\r\n\t%d\r\n\r\n" % len(hidden) + hidden,
        "folded field": get + b"A: b\r\n Content-Length: 3\r\n\r\n" + hidden,
        "fold at the first line": b"GET / HTTP/1.1\r\n Host: x\r\n\r\n",
        "no name": PUT + b": x\r\n" + fits + b"\r\n" + hidden,
        "NUL in a value": PUT + b"A: b\0c\r\n" + fits + b"\r\n" + hidden,
        "NUL in a name": PUT + b"A\0: c\r\n" + fits + b"\r\n" + hidden,
        "escape in a value": get + b"A: \x1b[31m\r\n\r\n",
        "bare CR in a value": PUT + b"A: b\rContent-Length: 0\r\n" + fits + b"\r\n" + hidden,
        "bare LF for a line": PUT + b"A: b\nContent-Length: 0\r\n\r\n" + hidden,
        "bare LF for all lines": b"GET /v1/status/leader HTTP/1.1\nHost: x\n\n" + hidden,
        "bare CR for all lines": b"GET /v1/status/leader HTTP/1.1\rHost: x\r\r" + hidden,
        "CR CR LF": get + b"A: b\r\r\n\r\n" + hidden,
        "no colon": get + b"Transfer-Encoding chunked\r\n\r\n" + hidden,
        "no host": b"GET /v1/status/leader HTTP/1.1\r\n\r\n",
        "no host at all": get[:-9] + b"Host: a b\r\n\r\n",
        "target without a path": b"GET status HTTP/1.1\r\nHost: x\r\n\r\n",
        "two spaces": b"GET  /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n",
        "empty lines": b"\r\n\r\n" + get + b"\r\n",
    }
    before = int(n.stats("rpcd")["http_malformed"])
    for unix in (False, True):
        for what, data in bad.items():
            out = talk(n, data, unix)
            assert statuses(out) == [400] and b"Connection: close" in out and b"400 Bad Request: " in out, (what, unix, out)
            assert n.kv_get("s") is None, what
        # behind a good request as well, and in pieces
        out = talk(n, get + b"\r\n" + bad["folded length"], unix)
        assert statuses(out) == [200, 400] and n.kv_get("s") is None, out
    with connect(n) as s:
        for part in (b"GET /v1/status/leader HT", b"TP/1.1\r\nHost: x\r\nA: b", b"\r\n c\r\n\r\n"):
            s.sendall(part)
            time.sleep(0.05)        # so that it comes alone, most times
        assert statuses(closed(s)) == [400]
    # a unix socket holds few pieces that nobody takes; what follows is the next request
    long_put = b"A: " + b"a" * 400 + b"\r\nContent-Length: 3\r\n\r\nabc"
    with connect(n, True) as s:
        s.sendall(PUT)
        for i in range(len(long_put)):
            s.sendall(long_put[i:i + 1])
        s.sendall(b"DELETE /v1/kv/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert statuses(closed(s)) == [200, 200] and n.kv_get("s") is None
    assert int(n.stats("rpcd")["http_malformed"]) == before + 2 * (len(bad) + 1) + 1
    out = talk(n, b"GET /v1/status/leader HTTP/2.0\r\nHost: x\r\n\r\n")
    assert statuses(out) == [505], out
    # "http://host/path" is a target as well, and its host is what counts
    out = talk(n, b"GET http://localhost/v1/status/leader HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
    assert statuses(out) == [200], out
    out = talk(n, b"GET http://evil.example.com/v1/status/leader HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert statuses(out) == [403], out


def test_streams_keep_their_connection(n):
    """What streams ends where its length or its chunks say so, and what follows is the next request, done in its turn."""
    hidden = b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1"
    last = b"GET /v1/kv/s?raw HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for path in (b"/v1/snapshot", b"/v1/%73napshot", b"/v1/agent/monitor?loglevel=nonsense"):
        out = talk(n, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n" + hidden + last, end=False)
        head, _, rest = out.partition(b"\r\n\r\n")
        rest = rest[int(re.search(rb"Content-Length: (\d+)", head).group(1)):]
        assert b"Connection: close" not in head and statuses(rest) == [200, 200] and rest.endswith(b"\r\n\r\n1"), (path, rest[:300])
        assert rest.startswith(b"HTTP/1.1 200 OK\r\n"), (path, rest[:300])
        n.delete("/v1/kv/s")
    # in HTTP/1.0 the connection ends where it was not to be kept
    out = talk(n, b"GET /v1/snapshot HTTP/1.0\r\n\r\n" + hidden, end=False)
    assert b"Connection: close" in out.partition(b"\r\n\r\n")[0] and n.kv_get("s") is None
    saved = n.get("/v1/snapshot").body
    for framing, body in ((b"Content-Length: %d\r\n" % len(saved), saved),
                          (CHUNKED, b"%x\r\n%s\r\n0\r\nA: dropped\r\n\r\n" % (len(saved), saved))):
        out = talk(n, b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n" + body + hidden + last, end=False)
        assert statuses(out) == [200] * 3 and out.endswith(b"\r\n\r\n1"), out
        n.delete("/v1/kv/s")
    # who leaves a live log has left, whatever was sent behind the request
    for _ in range(5):
        with connect(n) as s:
            s.sendall(b"GET /v1/agent/monitor?loglevel=error HTTP/1.1\r\nHost: x\r\n\r\n" + hidden * 100)
            assert statuses(s.recv(4096)) == [200]
            s.sendall(hidden)
    wait_for("they have left", lambda: int(n.stats("rpcd")["http_conns"]) == 1)
    # a live log has no length: chunks say its end, or, in HTTP/1.0, the connection
    for version, chunked in ((b"1.1", True), (b"1.0", False)):
        with connect(n) as s:
            s.sendall(b"GET /v1/agent/monitor?loglevel=debug HTTP/" + version + b"\r\nHost: x\r\n\r\n")
            out = b""
            while b"/v1/status/leader" not in out:
                n.get("/v1/status/leader")      # each makes a line
                out += s.recv(65536)
            head, _, body = out.partition(b"\r\n\r\n")
            assert (b"Transfer-Encoding: chunked" in head) == chunked and b"Content-Length" not in head, head
            assert bool(re.match(rb"[0-9a-f]+\r\n", body)) == chunked, body[:100]
    wait_for("they have left", lambda: int(n.stats("rpcd")["http_conns"]) == 1)
    for rest in (b"3\nabc\n0\n\n", b"ffffffffffffffff1\r\n", b"3\r\nabc0\r\n\r\n"):
        out = talk(n, b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n" + rest + hidden, end=False)
        assert 200 not in statuses(out) and len(statuses(out)) <= 1 and n.kv_get("s") is None, (rest, out[:300])
    for rest in (b"3\r\nabc\r\n0\r\n\r\n", b"0\r\n" + b"A: b\r\n" * 100 + b"\r\n"):        # no snapshots, but whole
        out = talk(n, b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n" + rest + hidden + last, end=False)
        assert statuses(out)[0] >= 400 and statuses(out)[1:] == [200, 200], (rest, out[:300])
        n.delete("/v1/kv/s")


def test_chunks(n):
    """Sizes that lie, lines that end otherwise, extensions and trailers without end (S181)."""
    bad = {
        "not a number": b"zz\r\nabc\r\n", "overflow": b"10000000000000003\r\nabc\r\n0\r\n\r\n", "sign": b"+3\r\nabc\r\n0\r\n\r\n",
        "prefix": b"0x3\r\nabc\r\n0\r\n\r\n", "space": b"3 \r\nabc\r\n0\r\n\r\n", "bare LF": b"3\nabc\n0\n\n",
        "bare LF behind the data": b"3\r\nabc\n0\r\n\r\n", "longer than it says": b"3\r\nabcd\r\n0\r\n\r\n", "no end": b"3\r\nabc0\r\n\r\n",
        "bare LF in an extension": b"3;a\nabc\r\n0\r\n\r\n", "NUL in an extension": b"3;a\0\r\nabc\r\n0\r\n\r\n",
        "long extension": b"3;" + b"a" * 100000 + b"\r\nabc\r\n0\r\n\r\n", "many extensions": b"1;aaaaaaaaaaaaaaaa\r\nx\r\n" * 10000,
        "long trailer": b"3\r\nabc\r\n0\r\nA: " + b"b" * (1 << 20) + b"\r\n\r\n", "many trailers": b"3\r\nabc\r\n0\r\n" + b"A: b\r\n" * 200000,
        "folded trailer": b"3\r\nabc\r\n0\r\nA: b\r\n c\r\n\r\n",
    }
    for what, rest in bad.items():
        out = talk(n, PUT + CHUNKED + b"\r\n" + rest + PUT + LENGTH + b"\r\nabc")
        assert statuses(out) == [400] and b"Connection: close" in out, (what, out)
        assert n.kv_get("s") is None, what
    out = talk(n, PUT + CHUNKED + b"\r\n3;a=\"b\"\r\nabc\r\n1\r\nd\r\n0;x\r\nContent-Length: 9\r\n\r\n" + b"GET /v1/kv/s?raw HTTP/1.1\r\nHost: x\r\n\r\n")
    assert statuses(out) == [200, 200] and out.endswith(b"abcd"), out
    n.delete("/v1/kv/s")


def json_bodies(n):
    """Nesting, names twice, numbers, surrogates, long strings, unknown fields (S185)."""
    good = b'{"Node":"j","Address":"10.0.0.9"%s}'
    cases = (
        (b"[" * 10000 + b"]" * 10000, 400), (b'{"a":' * 10000 + b"1" + b"}" * 10000, 400),
        (good % (b',"Service":{"Service":"x","Proxy":' + b"[" * 63 + b"]" * 63 + b"}"), 400),
        (good % b',"Service":{"Service":"x","Port":99999999999999999999999999}', 400),
        (good % b',"Service":{"Service":"x","Port":1e400}', 400), (good % b',"Service":{"Service":"x","Port":"1"}', 400),
        (good % b',"NodeMeta":{"a":"\\ud800"}', 400), (good % b',"NodeMeta":{"a":"\\udc00x"}', 400),
        (good % b',"NodeMeta":{"a":"\xff"}', 400), (b'{"Node":"j","Address":', 400), (b"\0" * 100, 400),
        (good % (b',"NodeMeta":{"a":"' + b"x" * (2 << 20) + b'"}'), 413), (good % b',"Unknown":[{"a":1}]', 400),
        (good % b',"Address":"10.0.0.10"', 200),
    )
    for body, status in cases:
        answer = n.put("/v1/catalog/register", body)
        assert answer.status == status, (body[:60], answer.status, answer.body[:200])
    assert n.get("/v1/catalog/node/j").json()["Node"]["Address"] == "10.0.0.10"      # of two names the last, as Consul has it
    assert n.put("/v1/catalog/deregister", b'{"Node":"j"}').status == 200


def paths(n):
    """The bytes of a key are those that were sent, or it is refused (S186)."""
    def raw(method, path, body=b""):
        out = talk(n, b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (method, path, len(body), body))
        return statuses(out)[0], out.split(b"\r\n\r\n", 1)[1]
    for sent, key in ((b"p/a%2Fb", "p/a/b"), (b"p/%252e%252e", "p/%2e%2e"), (b"p/a%2525b", "p/a%25b"), (b"p/a+b%20c", "p/a+b c"),
                      (b"p/%C3%BC\xc3\xbc", "p/\u00fc\u00fc"), (b"p/a%3Fb", "p/a?b")):
        assert raw(b"PUT", b"/v1/kv/" + sent, sent) == (200, b"true"), sent
        assert n.get("/v1/kv/p?keys&recurse").json() == [key], (sent, n.get("/v1/kv/p?keys").body)
        assert raw(b"GET", b"/v1/kv/" + sent + b"?raw") == (200, sent), sent
        assert n.delete("/v1/kv/p?recurse").status == 200
    # dot segments never reach a key, encoded or not; policy sees the path that is used
    for sent in (b"/v1/kv/p/../x", b"/v1/kv/p/%2e%2e/x", b"/v1/kv/p/./x", b"/v1/kv//x", b"/v1/kv/%2e%2e/operator/keyring"):
        assert raw(b"PUT", sent, b"1")[0] == 301, sent
    for sent in (b"/v1/kv/a%00b", b"/v1/kv/a%", b"/v1/kv/a%zz", b"/v1/kv/a%0d%0ab", b"/v1/kv/", b"/v1/kv"):
        assert raw(b"PUT", sent, b"1")[0] in (301, 400), sent
    assert raw(b"PUT", b"/v1/kv/" + b"k" * 100000, b"1")[0] == 414
    assert raw(b"PUT", b"/v1/kv/" + b"k" * 9000, b"1")[0] in (400, 413, 500)
    assert n.get("/v1/kv/?keys").json() == ["ready"], n.get("/v1/kv/?keys").body


def query_values(n):
    """Waits, indexes and numbers at their ends (S187); filters that explode: check_filter, fuzz filter."""
    index = n.get("/v1/kv/ready").index
    for query in ("index=18446744073709551616", "index=-1", "index=+1", "index=0x1", "index=",
                  "wait=99999999999999999999s", "wait=x&index=1", "wait=1&index=1"):
        status = n.get("/v1/kv/ready?" + query).status
        assert status == 400 or (query in ("index=",) and status == 200), (query, status)
    # a wait that is not above zero is the default, as in Consul; of two values the first counts
    for query in ("wait=-1s&index=1", "index=1&index=%d&wait=10m" % index, "wait=1000000000000000000ns&index=1", "wait=1ns&index=%d" % index,
                  "index=18446744073709551615&wait=1ms"):
        assert n.get("/v1/kv/ready?" + query).status == 200, query


def trickle(n, start):
    """Sends start, then a byte now and then; returns when the other side closes, fails if it never does."""
    with connect(n) as s:
        s.sendall(start)
        s.settimeout(0.1)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                s.send(b"a")
                if s.recv(4096) == b"":
                    return
            except socket.timeout:
                pass
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                return
    raise AssertionError("still open: %r" % start[:40])


def test_trickling_requests(n):
    before = int(n.stats("rpcd")["http_conns_timed_out"])
    trickle(n, b"GET /v1/kv/")
    trickle(n, b"GET / HTTP/1.1\r\nX: ")
    trickle(n, b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    assert int(n.stats("rpcd")["http_conns_timed_out"]) >= before + 3
    assert n.kv_get("s") is None


def test_trickling_reader(n):
    """Reads a large answer so slowly that it never ends, but never stops either."""
    for i in range(10):
        n.kv_put("big/%d" % i, os.urandom(20000).hex().encode())
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(20)
        s.connect((n.addr, 8500))
        s.sendall(b"GET /v1/kv/big?recurse HTTP/1.1\r\nHost: x\r\n\r\n" * 100)

        def gave_up():      # rpcd holds no connection but the one that asks

            try:
                s.recv(1000)
            except ConnectionResetError:
                pass
            return int(n.stats("rpcd")["http_conns"]) <= 1
        wait_for("the slow reader's end", gave_up, 90, interval=0.2)


def test_trickling_sealed_reader(n):
    """The same over TLS: records of an answer leave one by one, and are not made for a socket that is full."""
    n.kv_put("big/0", os.urandom(400000))
    with SEALED() as s:
        s.sendall(b"GET /v1/kv/big?recurse HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        first = s.recv(100)
        assert statuses(first) == [200], first
        out = len(first)
        for _ in range(200):
            out += len(s.recv(1000))
        # and who reads on gets all of it, byte for byte
        while out < 50 * 400000:
            got = s.recv(1 << 20)
            assert got
            out += len(got)
        before = int(n.stats("rpcd")["http_conns_timed_out"])
        wait_for("the end of who reads no more", lambda: int(n.stats("rpcd")["http_conns_timed_out"]) > before, 90)


def closed(s):
    """Reads to the end, which is a reset when the other side had not taken all that was sent; returns what came."""
    out = b""
    try:
        while got := s.recv(4096):
            out += got
    except ConnectionResetError:
        pass
    s.close()
    return out


def upload(n, length):
    s = connect(n)
    s.sendall(b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
    return s


def test_upload_that_nobody_takes(n):
    """Clients send all of an archive while raftd hangs, and go, or only end their side: nothing of it stays."""
    def conns():
        return int(n.stats("rpcd")["http_conns"]), int(n.stats("rpcd")["http_under_way"])
    wait_for("only who asks is connected", lambda: conns() == (1, 1))
    ended = []
    n.signal(signal.SIGSTOP, "raftd")
    try:
        for size in (524288 + 1, 524288 + 5000, 524288 + 30000):
            with upload(n, size) as s:
                s.sendall(b"x" * size)
            ended.append(upload(n, size))
            ended[-1].sendall(b"x" * size)
            ended[-1].shutdown(socket.SHUT_WR)
    finally:
        n.signal(signal.SIGCONT, "raftd")
    for s in ended:
        closed(s)
    wait_for("only who asks is connected", lambda: conns() == (1, 1))
    wait_for("no restore is waited for", lambda: n.get("/v1/snapshot/restore").json()["Phase"] in ("none", "failed"))


def test_trickling_upload(n):
    """It is refused while its client waits for room: the rest of it does not get for ever."""
    first = upload(n, 1 << 20)
    first.sendall(b"x")
    wait_for("its place", lambda: n.get("/v1/snapshot/restore").json()["Phase"] == "receiving")
    before = int(n.stats("rpcd")["http_conns_timed_out"])
    n.signal(signal.SIGSTOP, "raftd")
    second = upload(n, 16 << 20)
    second.settimeout(1)
    sent = 0
    while sent < 16 << 20:          # until rpcd takes no more: it keeps half a megabyte
        try:
            sent += second.send(b"x" * 65536)
        except socket.timeout:
            if sent >= 524288:
                break
    assert sent < 16 << 20, sent
    n.signal(signal.SIGCONT, "raftd")
    second.settimeout(0.1)
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            try:
                second.send(b"x")
                assert second.recv(4096) == b"", "an answer before the end"
                break
            except socket.timeout:
                pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    assert time.monotonic() < end, "still open"
    wait_for("the deadlines", lambda: int(n.stats("rpcd")["http_conns_timed_out"]) >= before + 1)
    first.close()
    second.close()


def test_waiting_is_not_slow(n):
    """A blocking query outlives the deadline of its connection, and the connection serves the next request."""
    n.kv_put("w", b"1")
    index = n.get("/v1/kv/w").index
    with socket.create_connection((n.addr, 8500), timeout=60) as s:
        s.sendall(b"GET /v1/kv/w?index=%d&wait=3s HTTP/1.1\r\nHost: x\r\n\r\n" % index)
        assert statuses(s.recv(65536)) == [200]
        s.sendall(b"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n")
        assert statuses(s.recv(65536)) == [200]


def test_silent_peers(n):
    """Who opens a link and says nothing, or only half a frame, is cut; the others are served."""
    before = int(n.stats("rpcd")["peers_silent"])
    socks = [socket.create_connection((n.addr, 8400), timeout=60) for _ in range(20)]
    for s in socks[10:]:
        s.sendall(b"\x04\x00\x00\x00")
    malformed = int(n.stats("rpcd")["peers_malformed"])
    for body in (b"", b"\x90", b"\x94\x09\xa4rpcd\xa1x\xa1y", b"\x94\x01\xa4rpcd\xa1x\xa1y\x00"):
        with socket.create_connection((n.addr, 8400), timeout=60) as s:     # no HELLO, or not of our version
            s.sendall(len(body).to_bytes(4, "little") + b"\x01\x00\x00\x00" + bytes(8) + body)
            assert s.recv(1) == b"", body
    assert int(n.stats("rpcd")["peers_malformed"]) == malformed + 4
    for s in socks:
        assert closed(s) == b""
    wait_for("the count", lambda: int(n.stats("rpcd")["peers_silent"]) == before + 20 and
             n.stats("rpcd")["peers_open"] == "0")


def all_of_it():
    with Cluster("127.60.34", keys=False) as c:
        n = c.servers(1, rpcd=LIMITS)[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        for test in (test_ambiguous_bodies, test_heads, test_streams_keep_their_connection, test_chunks,
                     json_bodies, paths, query_values, test_trickling_requests, test_trickling_reader,
                     test_upload_that_nobody_takes, test_trickling_upload, test_waiting_is_not_slow, test_silent_peers):
            test(n)
            print("     " + test.__name__, flush=True)


def test_cut_bodies(n):
    """A body that ends before its length, by close_notify, by the socket's end alone, or by a reset, is no request."""
    for framing in (b"Content-Length: 10\r\n\r\n12345", CHUNKED + b"\r\n5\r\n12345\r\n"):
        for how in ("said", "ended", "reset"):
            s = connect(n)
            s.sendall(PUT + framing)
            if how == "said":
                s.unwrap().close()
                continue
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
    wait_for("their end", lambda: int(n.stats("rpcd")["http_conns"]) == 1)
    assert n.kv_get("s") is None


def sealed():
    """The corpora of S179 to S187 and the deadlines again, over TLS."""
    global SEALED
    with Cluster("127.157.2", keys=False) as c:
        keys, SEALED = https(os.path.join(c.dir, "tls"), c.net + ".1")
        n = c.servers(1, rpcd=dict(LIMITS, **keys))[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        for test in (test_ambiguous_bodies, test_heads, test_streams_keep_their_connection, test_chunks, paths, query_values,
                     test_cut_bodies, test_trickling_requests, test_trickling_sealed_reader, test_waiting_is_not_slow):
            test(n)
            print("     " + test.__name__, flush=True)
    SEALED = None


def entry_of(node):
    """Its own in the catalog, or NotYet."""
    told = node.get("/v1/catalog/node/" + node.name).json()
    need(told, told)
    return told["Node"]


def large_catalog_entries():
    """Whatever a client says of a node, the leader that compares it with gossip goes on: its memory has bounds too."""
    with Cluster("127.60.35", keys=False) as c:
        n = c.servers(1, raftd={"reconcile_interval": "1s"})[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        letters = string.ascii_letters + string.digits
        meta = {a + b + c: "" for a in letters for b in letters for c in letters[:30]}
        node = {"Node": n.name, "Address": n.addr, "NodeMeta": meta}
        stored = wait_for("its entry", lambda: entry_of(n))
        answer = n.put("/v1/catalog/register", json.dumps(dict(node, ID=stored["ID"]), separators=(",", ":")).encode())
        assert answer.status == 200, answer.body
        # What gossip says comes back, from the leader's comparison of the two.
        wait_for("the member's own entry", lambda: entry_of(n)["Meta"] == stored["Meta"])
        assert n.running("raftd")
        session = {"Node": n.name, "NodeChecks": ["serfHealth"] * 1025}
        answer = n.put("/v1/session/create", json.dumps(session).encode())
        assert answer.status != 200 and b"at most 1024 checks" in answer.body, answer.body


def taken_places():
    """Strangers of many addresses take every place of the HTTP port and sit there: the next one who asks is served (S183)."""
    limits = {"limits.http_max_conns": 60, "limits.http_max_conns_per_client": 20}
    with Cluster("127.60.114") as c:
        n = c.servers(1, rpcd=limits)[0]
        c.formed([n])
        n.kv_put("w", b"1")
        index = n.get("/v1/kv/w").index
        waiters = [connect(n, source="%s.201" % c.net) for _ in range(5)]
        for s in waiters:
            s.sendall(b"GET /v1/kv/w?index=%d&wait=5m HTTP/1.1\r\nHost: x\r\n\r\n" % index)
        wait_for("they wait", lambda: int(n.stats("rpcd")["http_conns_waiting"]) == 5)
        upload = connect(n, source="%s.202" % c.net)    # its handler has begun
        upload.sendall(b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n" + bytes(10))
        wait_for("it is under way", lambda: n.get("/v1/snapshot/restore").json()["Phase"] == "receiving")
        # nothing, half a head, half a body: four addresses with twenty each
        starts = (b"", b"GET /v1/kv/a HT", b"PUT /v1/kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        strangers = []
        for start in starts:
            for i in range(80):
                s = connect(n, source="%s.%d" % (c.net, 210 + i // 20))
                s.sendall(start)
                strangers.append(s)
            for _ in range(10):
                assert n.get("/v1/kv/w?raw", timeout=20).body == b"1", start
            assert int(n.stats("rpcd")["http_conns"]) <= 60
        assert int(n.stats("rpcd")["http_conns_evicted"]) >= 80
        assert n.get("/v1/status/leader", unix=True).status == 200
        upload.sendall(bytes(30))
        assert statuses(upload.recv(65536)) == [500]
        upload.close()
        n.kv_put("w", b"2")
        for s in waiters:           # a request under way was never ended for them
            assert statuses(s.recv(65536)) == [200]
            s.close()
        for s in strangers:
            s.close()


def small_memory():
    """AddressSanitizer keeps what was freed for a while, which would hide what is measured here."""
    return {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


def rss(n, daemon):
    with open("/proc/%d/status" % n.pid(daemon)) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) * 1024


def flood_of_bodies():
    """Hundreds of bodies, each one byte short: memory is bounded by the budget, and others are served."""
    budget = 16 << 20
    limits = {"limits.http_max_conns_per_client": 1000, "limits.bodies_bytes_max": "16M"}
    with Cluster("127.60.115", env=small_memory()) as c:
        n = c.servers(1, rpcd=limits)[0]
        c.formed([n])
        n.kv_put("ready", b"1")
        before, socks = rss(n, "rpcd"), []
        head, size = b"PUT /v1/catalog/register HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1 << 20
        for i in range(600):
            socks.append(connect(n, source="%s.201" % c.net))
            try:
                socks[-1].sendall(head % size + b"x" * (size - 1))
            except (ConnectionResetError, BrokenPipeError):
                pass                # it was refused in the middle
            if i % 60 == 0:
                assert n.put("/v1/kv/other", os.urandom(50000).hex().encode()).body == b"true", i
        def stats(name):
            return int(n.stats("rpcd")[name])
        wait_for("all has been read", lambda: stats("http_bodies_refused") >= 600 - budget // size)
        assert stats("http_bodies_bytes") <= budget + (1 << 20), stats("http_bodies_bytes")
        assert SANITIZERS or rss(n, "rpcd") - before < budget + (24 << 20), (before, rss(n, "rpcd"))
        assert n.put("/v1/kv/other", b"1").body == b"true"
        refused = [s for s in socks if select.select([s], [], [], 0)[0]]
        assert len(refused) >= 600 - budget // size and any(statuses(closed(s)) == [503] for s in refused[-20:])
        for s in socks:
            s.close()
        wait_for("it is given back", lambda: stats("http_bodies_bytes") == 0)


def pipelined_bytes():
    """Bytes behind requests that wait fill their budget: what comes then breaks off or is refused, in each state, and rpcd goes on."""
    behind = b"GET /v1/kv/x HTTP/1.1\r\nHost: x\r\n\r\n" * 500
    limits = {"limits.http_max_conns_per_client": 1000, "limits.bodies_bytes_max": "1M"}
    with Cluster("127.157.3") as c:
        n = c.servers(1, rpcd=limits)[0]
        c.formed([n])
        n.kv_put("w", b"1")
        index, pid = n.get("/v1/kv/w").index, n.pid("rpcd")
        waiters = [connect(n, source="%s.201" % c.net) for _ in range(80)]
        for s in waiters:
            s.sendall(b"GET /v1/kv/w?index=%d&wait=5m HTTP/1.1\r\nHost: x\r\n\r\n" % index + behind)
        wait_for("the budget is full", lambda: len(select.select(waiters, [], [], 0)[0]) >= 80 - (1 << 20) // 16384)
        for _ in range(3):          # a stream: not an answer that ends
            s = connect(n)
            s.sendall(b"GET /v1/agent/monitor HTTP/1.1\r\nHost: x\r\n\r\n" + behind)
            assert statuses(closed(s)) in ([200], [])
        # An answer in the queue: 503, for the client that holds most.
        head, chunk = b"PUT /v1/catalog/register HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n"
        other = connect(n, source="%s.202" % c.net)
        other.sendall(head + chunk * 300)
        wait_for("it is read", lambda: int(n.stats("rpcd")["http_bodies_bytes"]) >= 300000)
        s = connect(n, source="%s.203" % c.net)
        try:
            s.sendall(head + chunk * 900)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert statuses(closed(s)) == [503]
        other.close()
        for s in waiters:
            s.close()
        wait_for("it is given back", lambda: int(n.stats("rpcd")["http_carried_bytes"]) == 0)
        assert n.pid("rpcd") == pid and n.kv_get("w") == b"1"


def unknown_fields():
    """Blocking operations with megabytes that nobody knows keep what is known, in rpcd and in raftd; more than may be is refused."""
    big = b"x" * 1900000
    with Cluster("127.60.116", keys=False, env=small_memory()) as c:
        n = c.servers(1, raftd={"requests_bytes_max": "4M"}, rpcd={"limits.calls_bytes_max": "4M"})[0]
        c.formed([n])
        n.kv_put("u", b"1")
        index = n.get("/v1/kv/u").index

        def ask(args, index=index, op=1):
            return [op, "", 0, index, 60000, 0, "", args]
        before = {d: rss(n, d) for d in ("rpcd", "raftd")}
        with Conn((n.addr, 8400), role="rpcd") as peer, Conn(os.path.join(n.run, "raftd.sock")) as local:
            for i in range(1, 41):
                peer.send(MSG.OP, ask(["u%d" % i, "", big]), i)
                local.send(MSG.OP, ask(["u%d" % i, "", big]), i)
            wait_for("all wait", lambda: int(n.stats("raftd")["watches"]) == 80)
            assert int(n.stats("rpcd")["calls_bytes"]) < 100000, n.stats("rpcd")["calls_bytes"]
            assert int(n.stats("raftd")["requests_bytes"]) < 100000, n.stats("raftd")["requests_bytes"]
            for d, was in before.items():
                assert SANITIZERS or rss(n, d) - was < 32 << 20, (d, was, rss(n, d))
            n.kv_put("u7", b"1")    # and they are what they were
            for conn in (peer, local):
                assert conn.wait(lambda f: f.id == 7, 20).body[0] == 0
            # what is known is kept, up to the budget
            for conn in (peer, local):
                for i in range(50, 54):
                    conn.send(MSG.OP, ask(["", [], {"m%d" % i: "x" * 1900000}], index=1 << 40, op=22), i)
                answers = [conn.wait(lambda f, i=i: f.id == i, 20).body for i in (52, 53)]
                assert all(a[0] != 0 for a in answers), answers
        wait_for("all is given back", lambda: int(n.stats("rpcd")["calls_bytes"]) < 1000 and
                 int(n.stats("raftd")["requests_bytes"]) == 0)
        assert int(n.stats("rpcd")["calls_refused"]) + int(n.stats("raftd")["requests_refused"]) >= 2
        assert n.put("/v1/kv/after", b"1").body == b"true"


def limits_reached():
    """Small limits on what may be under way are reached, by HTTP and on raftd.sock, and others are served when they fall."""
    raftd = {"requests_max": 16, "clients_max": 3}
    with Cluster("127.60.117", keys=False) as c:
        n = c.servers(1, raftd=raftd, rpcd={"limits.calls_pending_max": 16, "limits.http_max_conns": 100})[0]
        c.formed([n])
        n.kv_put("l", b"1")
        index = n.get("/v1/kv/l").index
        path = os.path.join(n.run, "raftd.sock")
        for _ in range(3):
            socks = [connect(n) for _ in range(60)]
            for i, s in enumerate(socks):
                s.sendall(b"GET /v1/kv/l%d?index=%d&wait=5m HTTP/1.1\r\nHost: x\r\n\r\n" % (i, index))
            refused = wait_for("the rest is refused",
                               lambda: len(r := select.select(socks, [], [], 0)[0]) >= 44 and r)
            assert all(statuses(s.recv(65536)) == [503] for s in refused)
            assert n.get("/v1/kv/l").status == 503 and int(n.stats("rpcd")["calls_under_way"]) == 16
            assert int(n.stats("rpcd")["calls_refused"]) >= 45
            for s in socks:
                s.close()
            wait_for("they have gone", lambda: n.get("/v1/kv/l").status == 200)
        refused = int(n.stats("raftd")["requests_refused"])
        with Conn(path) as one, Conn(path) as two:
            third = socket.socket(socket.AF_UNIX)
            third.settimeout(20)
            third.connect(path)
            assert third.recv(1) == b"", "a fourth channel"     # rpcd has the first
            for i in range(1, 21):
                for conn in (one, two):
                    conn.send(MSG.OP, [1, "", 0, index, 60000, 0, "", ["r%d" % i, ""]], i)
            answers = [conn.wait(lambda f: f.type == MSG.OP and f.id == 20, 20).body for conn in (one, two)]
            assert all(a[0] != 0 and "too many requests" in a[1] for a in answers), answers
            assert int(n.stats("raftd")["requests_refused"]) >= refused + 24
        wait_for("they have gone", lambda: n.get("/v1/kv/l").status == 200 and n.stats("raftd")["requests_pending"] == "0")


def operations():
    """(code, name, kind, traits) of each operation."""
    with open(os.path.join(TOP, "common", "record", "ops.h"), encoding="utf-8") as f:
        text = f.read()
    rows = re.findall(r"^\tX\(\s*(\d+),\s*(\w+),\s*\"[^\"]*\",\s*(\w+),[^\n]*\n\s*([^,]*),", text, re.M)
    assert len(rows) > 40, rows
    return [(int(code), name, kind, traits) for code, name, kind, traits in rows]


def newer_versions():
    """Of a peer of a newer version: longer greetings and envelopes are read, an unknown operation is an answer, no more."""
    with Cluster("127.60.118", keys=False) as c:
        n = c.servers(1)[0]
        c.formed([n])
        n.kv_put("v", b"1")
        for target in ((n.addr, 8400), os.path.join(n.run, "raftd.sock")):
            with Conn(target, hello=False) as conn:
                conn.send(MSG.HELLO, [1, "rpcd", "9.9.9", "", 2, ["further"]])      # speaks versions 1 to 2
                assert conn.wait(lambda f: f.type == MSG.HELLO).body[0] == 1
                waiting = [1, "", 0, n.get("/v1/kv/v").index, 60000, 0, "", ["v", ""]]
                conn.send(MSG.OP, waiting, 1000)
                for op in (0, 999, 65535):
                    for further in ([], [{"of": "a newer version"}, 1]):
                        err, text = conn.call(MSG.OP, [op, "", 0, 0, 0, 0, "", []] + further)[:2]
                        assert err == 5 and text == \
                            "unknown operation %d (is this server's version older?)" % op, (target, err, text)
                got = conn.call(MSG.OP, [1, "", 0, 0, 0, 0, "", ["v", ""], {"of": "a newer version"}, 1])
                assert got[0] == 0 and got[5][0][1] == "v", (target, got)
                n.put("/v1/kv/v", os.urandom(8))    # what waited on this channel waits still
                assert conn.wait(lambda f: f.id == 1000, 20).body[0] == 0
                conn.send(MSG.OP, waiting[:7], 2000)    # fewer fields are of no version
                try:
                    conn.wait(lambda f: f.id == 2000, 20)
                    raise AssertionError("answered")
                except Closed:
                    pass
        with Conn(os.path.join(n.run, "raftd.sock")) as conn:
            # Each row of the table is carried out by somebody, or is not raftd's.
            for code, name, kind, traits in operations():
                err, text = conn.call(MSG.OP, [code, "", 0, 0, 0, 0, "", None])[:2]
                if "OP_INTERNAL" in traits or kind in ("VIEW", "GOSSIP", "GOSSIP_SERVER"):
                    assert err == 9 and text == "internal operation", (name, err, text)
                elif name.startswith("ACL_") and err == 21:
                    assert text == "ACL support disabled", (name, err, text)
                else:
                    assert err != 0 and "malformed arguments" in text, (name, err, text)
            # Arguments and token are kept together, inside the request or outside.
            for size in (0, 1, 11, 40, 46, 47, 48, 300):
                for token in (0, 1, 36, 255):
                    got = conn.call(MSG.OP, [1, "", 0, 1 << 40, 20, 0, "t" * token, ["k" * size, ""]])
                    assert got[0] == 0 and got[5] == [], (size, token, got)
            for token in (0, 36, 255):
                n.kv_put("tree/a", b"1")
                got = conn.call(MSG.OP, [4, "", 0, 0, 0, 0, "t" * token, [6, "tree/", 0, b"", 0, "", 0]])
                assert got[0] == 0 and n.kv_get("tree/a") is None, got
        wait_for("all is given back", lambda: n.stats("raftd")["requests_bytes"] == "0")


main(all_of_it, sealed, large_catalog_entries, taken_places, flood_of_bodies, pipelined_bytes,
     unknown_fields, limits_reached, newer_versions)

#!/usr/bin/env python3
"""What strangers send to rpcd's ports: requests that two readers would understand differently, bytes that trickle, silence."""
import json
import os
import re
import signal
import socket
import string
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, wait_for  # noqa: E402

LIMITS = {"http_idle_timeout": "1s", "link_dial_timeout": "2s"}
PUT = b"PUT /v1/kv/s HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: 3\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def talk(node, data):
    """Sends bytes and the end of input; returns all that comes until the other side closes."""
    with socket.create_connection((node.addr, 8500), timeout=60) as s:
        out = b""
        try:
            s.sendall(data)
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


def trickle(n, start):
    """Sends start, then a byte now and then; returns when the other side closes, fails if it never does."""
    with socket.create_connection((n.addr, 8500), timeout=60) as s:
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
            except (ConnectionResetError, BrokenPipeError):
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
    s = socket.create_connection((n.addr, 8500), timeout=60)
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
        for test in (test_ambiguous_bodies, test_trickling_requests, test_trickling_reader, test_upload_that_nobody_takes,
                     test_trickling_upload, test_waiting_is_not_slow, test_silent_peers):
            test(n)
            print("     " + test.__name__, flush=True)


def large_catalog_entries():
    """Whatever a client says of a node, the leader that compares it with gossip goes on: its memory has bounds too."""
    with Cluster("127.60.35", keys=False) as c:
        n = c.servers(1, raftd={"reconcile_interval": "1s"})[0]
        c.formed([n])
        wait_for("a write", lambda: n.put("/v1/kv/ready", b"1").body == b"true")
        letters = string.ascii_letters + string.digits
        meta = {a + b + c: "" for a in letters for b in letters for c in letters[:30]}
        node = {"Node": n.name, "Address": n.addr, "NodeMeta": meta}
        stored = wait_for("its entry", lambda: n.get("/v1/catalog/node/" + n.name).json()["Node"])
        answer = n.put("/v1/catalog/register", json.dumps(dict(node, ID=stored["ID"]), separators=(",", ":")).encode())
        assert answer.status == 200, answer.body
        # What gossip says comes back, from the leader's comparison of the two.
        wait_for("the member's own entry",
                 lambda: n.get("/v1/catalog/node/" + n.name).json()["Node"]["Meta"] == stored["Meta"])
        assert n.running("raftd")
        session = {"Node": n.name, "NodeChecks": ["serfHealth"] * 1025}
        answer = n.put("/v1/session/create", json.dumps(session).encode())
        assert answer.status != 200 and b"at most 1024 checks" in answer.body, answer.body


main(all_of_it, large_catalog_entries)

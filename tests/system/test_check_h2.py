#!/usr/bin/env python3
"""gRPC and H2PING checks: against a health service, over TLS, and against peers that flood, drip and lie."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import h2peer  # noqa: E402
from checking import certificate, one, register, rss_kb, state, the_process, wait_state  # noqa: E402
from cluster import SANITIZERS, Cluster, main, skip  # noqa: E402
from h2peer import NOT_SERVING, SERVING, H2Server  # noqa: E402
from waiting import wait_for  # noqa: E402

RSS_KB_MAX = 64 << 10
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
CLONE_NEWNS = 0x20000
UNAVAILABLE = ("rpc error: code = Unavailable desc = all SubConns are in TransientFailure, latest connection error: "
               "connection error: desc = \"transport: ")


def grpc():
    with Cluster("127.97.11") as c, H2Server("127.97.11.20", h2peer.healthy) as s:
        s.services = {"": SERVING, "web": SERVING, "down": NOT_SERVING, "odd": 3, "strange": 9}
        node = one(c)
        a = s.address
        register(node, "all", GRPC=a)
        register(node, "web", GRPC=a + "/web")
        register(node, "down", GRPC=a + "/down")
        register(node, "odd", GRPC=a + "/odd")
        register(node, "strange", GRPC=a + "/strange")
        register(node, "none", GRPC=a + "/none")
        register(node, "refused", GRPC="127.0.0.1:1")
        register(node, "nowhere", GRPC="no-such-host.invalid:1")
        register(node, "ping", H2PING=a, H2PingUseTLS=False)
        register(node, "ping-refused", H2PING="127.0.0.1:1")
        register(node, "tls-to-plain", GRPC=a, GRPCUseTLS=True, Timeout="1s")
        for name, status, text in (
                ("all", "passing", "gRPC check %s: success" % a),
                ("web", "passing", "gRPC check %s/web: success" % a),
                ("down", "critical", "gRPC %s/down serving status: NOT_SERVING" % a),
                ("odd", "critical", "gRPC %s/odd serving status: SERVICE_UNKNOWN" % a),
                ("strange", "critical", "gRPC %s/strange serving status: 9" % a),
                ("none", "critical", "rpc error: code = NotFound desc = unknown service"),
                ("refused", "critical", UNAVAILABLE + 'Error while dialing dial tcp 127.0.0.1:1: connect: connection refused"'),
                ("ping", "passing", "HTTP2 ping was successful"),
                ("ping-refused", "critical", "Failed to dial to 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")):
            got = wait_state(node, name, status, text)
            assert got[1] == text, got
        wait_state(node, "nowhere", "critical", "dial tcp: lookup no-such-host.invalid: ")
        wait_state(node, "tls-to-plain", "critical", "rpc error: code = ")
        fields, name = s.requests[0]
        assert {k: fields[k] for k in fields if k not in ("grpc-timeout", "user-agent")} == {
            ":method": "POST", ":scheme": "http", ":path": "/grpc.health.v1.Health/Check", ":authority": a,
            "content-type": "application/grpc", "te": "trailers"}, fields
        assert fields["grpc-timeout"] == "2000m" and {name for _, name in s.requests} >= {"", "web", "none"}
        # It follows.
        s.services["web"] = NOT_SERVING
        wait_state(node, "web", "critical", "serving status: NOT_SERVING")
        s.services["web"] = SERVING
        wait_state(node, "web", "passing")


def tls():
    with tempfile.TemporaryDirectory() as folder, Cluster("127.97.12") as c:
        context, names, protocols = certificate(folder, "grpc.example"), [], []
        context.set_alpn_protocols(["h2"])
        context.sni_callback = lambda sock, name, ctx: names.append(name)

        def mode(conn):
            protocols.append(conn.sock.selected_alpn_protocol())
            h2peer.healthy(conn)
        with H2Server("127.97.12.20", mode, tls=context) as s, H2Server("127.97.12.21", h2peer.silent) as silent, \
                H2Server("127.97.12.22", lambda conn: conn.raw(b"\x16\x03\x03\xff\xff" + bytes(1 << 20))) as lies:
            s.services = {"": SERVING}
            node = one(c)
            for kind in ("GRPC", "H2PING"):
                keys = {"GRPCUseTLS": True} if kind == "GRPC" else {}
                register(node, kind + "-unknown", **{kind: s.address}, **keys)
                register(node, kind + "-skip", **{kind: s.address}, TLSSkipVerify=True, **keys)
                register(node, kind + "-named", **{kind: s.address}, TLSSkipVerify=True, TLSServerName="grpc.example", **keys)
                register(node, kind + "-silent", **{kind: silent.address}, Timeout="1s", **keys)
                register(node, kind + "-lies", **{kind: lies.address}, **keys)
            good = {"GRPC": "gRPC check %s: success" % s.address, "H2PING": "HTTP2 ping was successful"}
            for kind, text in good.items():
                wait_state(node, kind + "-unknown", "critical", "x509: ")
                wait_state(node, kind + "-skip", "passing", text)
                wait_state(node, kind + "-named", "passing", text)
                wait_state(node, kind + "-lies", "critical", "tls: ")
            wait_state(node, "GRPC-silent", "critical", "rpc error: code = DeadlineExceeded desc = context deadline exceeded")
            wait_state(node, "H2PING-silent", "critical", "Failed to dial to %s: tls: handshake: i/o timeout" % silent.address)
            assert "grpc.example" in names and set(protocols) == {"h2"}, (names, protocols)


def names():
    """A certificate of an authority that the system trusts is good for its own name, and for no other."""
    if os.geteuid() != 0 or not os.path.exists(AUTHORITIES) or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        skip("the system's authorities cannot be replaced in a mount name space of the test's own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with tempfile.TemporaryDirectory() as folder, Cluster("127.97.14") as c:
        context = certificate(folder, "grpc.example")
        context.set_alpn_protocols(["h2"])
        subprocess.run(["mount", "--bind", folder + "/grpc.example.pem", AUTHORITIES], check=True)
        try:
            with H2Server("127.97.14.20", h2peer.healthy, tls=context) as s:
                s.services = {"": SERVING}
                node = one(c)
                for kind in ("GRPC", "H2PING"):
                    keys = {kind: s.address, "GRPCUseTLS": True}
                    register(node, kind + "-own", TLSServerName="grpc.example", **keys)
                    register(node, kind + "-other", TLSServerName="other.example", **keys)
                    register(node, kind + "-address", **keys)
                for kind in ("GRPC", "H2PING"):
                    wait_state(node, kind + "-own", "passing")
                    for which in ("-other", "-address"):
                        wait_state(node, kind + which, "critical", "The name in the certificate does not match the expected")
        finally:
            subprocess.run(["umount", AUTHORITIES], check=True)


# Of the mode: what a gRPC check says, and what H2PING says.
HOSTILE = {
    "not_grpc": ("rpc error: code = Unimplemented desc = unexpected HTTP status code received from server: 404", None),
    "nonsense": ("rpc error: code = Internal desc = the answer is no HealthCheckResponse", None),
    "resets": ("rpc error: code = Unavailable desc = stream terminated by RST_STREAM with error code: REFUSED_STREAM", None),
    "goes_away": ("server sent GOAWAY: ENHANCE_YOUR_CALM", "server sent GOAWAY: ENHANCE_YOUR_CALM"),
    "http1": ("connection closed: the peer does not speak HTTP/2", "connection closed: the peer does not speak HTTP/2"),
    "silent": ("DeadlineExceeded desc = context deadline exceeded", "HTTP2 ping failed: context deadline exceeded"),
    "closes": ("connection closed: the peer does not speak HTTP/2", "connection closed: the peer does not speak HTTP/2"),
    "drips": ("DeadlineExceeded", None),
    "flood_settings": ("rpc error: ", "HTTP2 ping failed: "),
    "flood_pings": ("rpc error: ", "HTTP2 ping failed: "),
    "flood_windows": ("rpc error: ", "HTTP2 ping failed: "),
    "full_window": ("rpc error: ", "HTTP2 ping failed: "),
    "no_window": ("DeadlineExceeded", None),
    "flood_continuation": ("response headers are longer than 16 KiB", None),
    "flood_empty_continuation": ("rpc error: ", None),
    "bomb": ("response headers are longer than 16 KiB", None),
    "flood_data": ("rpc error: ", None),
    "flood_empty_data": ("rpc error: ", None),
    "pushes": ("rpc error: ", None),
    "huge_frame": ("rpc error: ", "HTTP2 ping failed: "),
}
SENT_MAX = 16 << 20        # for each connection: 256 KiB are read, the rest is in buffers of the kernel


def hostile():
    servers = {}
    try:
        with Cluster("127.97.13") as c:
            node = one(c)
            for i, mode in enumerate(HOSTILE):
                servers[mode] = H2Server("127.97.13.%d" % (30 + i), getattr(h2peer, mode))
                register(node, "g-" + mode, GRPC=servers[mode].address, Interval="5s", Status="passing")
                if HOSTILE[mode][1]:
                    register(node, "p-" + mode, H2PING=servers[mode].address, H2PingUseTLS=False, Interval="5s", Status="passing")
            for mode, (grpc_says, ping_says) in HOSTILE.items():
                print("     %s: %s" % (mode, wait_state(node, "g-" + mode, "critical", grpc_says)[1]), flush=True)
                if ping_says:
                    wait_state(node, "p-" + mode, "critical", ping_says)
            pid, rounds = the_process(node, "network"), {m: s.conns for m, s in servers.items()}
            wait_for("each was asked again", lambda: all(s.conns > rounds[m] for m, s in servers.items()))
            if not SANITIZERS:
                assert rss_kb(pid) < RSS_KB_MAX, "%d KB" % rss_kb(pid)
            for mode, s in servers.items():
                assert s.sent < SENT_MAX * s.conns, "%s: %d bytes to %d connections" % (mode, s.sent, s.conns)
            # Nobody else is worse off, and it is the same process.
            with H2Server("127.97.13.20", h2peer.healthy) as good:
                good.services = {"": SERVING}
                register(node, "good", GRPC=good.address)
                wait_state(node, "good", "passing")
            assert the_process(node, "network") == pid and int(node.stats("rpcd")["check_process_deaths"]) == 0
            for name in json.loads(node.get("/v1/agent/checks").text):
                node.put("/v1/agent/check/deregister/" + name).ok()
            assert state(node, "good") is None
    finally:
        for s in servers.values():
            s.__exit__()


if __name__ == "__main__":
    main(grpc, tls, hostile, names)

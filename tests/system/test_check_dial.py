#!/usr/bin/env python3
"""TCP and UDP checks: addresses in every spelling, TLS behind TCP, and what a datagram brings back."""
import json
import os
import socket
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from checking import certificate, one, register, state, wait_state  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402


def addresses():
    with Cluster("127.127.1") as c, socket.create_server(("127.0.0.1", 0)) as s:
        node, port = one(c), s.getsockname()[1]
        for name, address in (("brackets", "[127.0.0.1]:%d"), ("no host", ":%d"), ("any", "0.0.0.0:%d"), ("mapped", "[::ffff:127.0.0.1]:%d")):
            register(node, name, TCP=address % port)
            wait_state(node, name, "passing", "TCP connect %s: Success" % (address % port))
        # A port by its name, which nobody listens on.
        register(node, "named", TCP="127.127.1.99:discard")
        wait_state(node, "named", "critical", "dial tcp 127.127.1.99:9: connect: connection refused")
        register(node, "unknown", TCP="127.127.1.99:no-such-port")
        wait_state(node, "unknown", "critical", "dial tcp: lookup tcp/no-such-port: unknown port")
        for kind in ("TCP", "UDP", "GRPC", "H2PING"):
            for address, why in (("127.0.0.1", "missing port in address"), ("http://h:80", "too many colons in address"),
                                 ("h:0", "invalid port: it is a number from 1 to 65535"), ("[::1:1", "missing ']' in address")):
                if kind == "GRPC" and "/" in address:
                    continue
                answer = node.put("/v1/agent/check/register", json.dumps({"Name": "x", kind: address, "Interval": "1s"}))
                assert (answer.status, answer.text) == (400, "Invalid check: %s: address %s: %s" % (kind, address, why)), answer
        answer = node.put("/v1/agent/service/register", json.dumps({"Name": "x", "Checks": [{"TCP": "h", "Interval": "1s"}]}))
        assert answer.status == 400 and "TCP: address h: missing port" in answer.text, answer


def tcp_tls():
    with tempfile.TemporaryDirectory() as folder, Cluster("127.127.2") as c, \
            socket.create_server(("127.127.2.20", 0)) as s, socket.create_server(("127.127.2.21", 0)) as silent:
        context, names, protocols = certificate(folder, "tcp.example"), [], []
        context.sni_callback = lambda sock, name, ctx: names.append(name)
        context.set_alpn_protocols(["tcp.example"])

        def serve():
            while True:
                try:
                    conn = s.accept()[0]
                except OSError:
                    return
                try:
                    with context.wrap_socket(conn, server_side=True) as tls:
                        protocols.append(tls.selected_alpn_protocol())
                        tls.recv(1)
                except OSError:
                    conn.close()
        threading.Thread(target=serve, daemon=True).start()
        node, at = one(c), "127.127.2.20:%d" % s.getsockname()[1]
        register(node, "plain", TCP=at)
        register(node, "skip", TCP=at, TCPUseTLS=True, TLSSkipVerify=True)
        register(node, "named", TCP=at, TCPUseTLS=True, TLSSkipVerify=True, TLSServerName="tcp.example")
        register(node, "unknown", TCP=at, TCPUseTLS=True, TLSServerName="tcp.example")
        register(node, "silent", TCP="127.127.2.21:%d" % silent.getsockname()[1], TCPUseTLS=True, Timeout="1s")
        register(node, "refused", TCP="127.127.2.22:1", TCPUseTLS=True)
        for name in ("plain", "skip", "named"):
            wait_state(node, name, "passing", "TCP connect %s: Success" % at)
        wait_state(node, "unknown", "critical", "x509: ")
        wait_state(node, "silent", "critical", "tls: handshake: i/o timeout")
        wait_state(node, "refused", "critical", "dial tcp 127.127.2.22:1: connect: connection refused")
        assert "tcp.example" in names and set(protocols) == {None}, (names, protocols)


def udp():
    with Cluster("127.127.3") as c, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        echo.bind(("127.127.3.20", 0))
        silent.bind(("127.127.3.21", 0))
        asked = []

        def serve():
            while True:
                try:
                    data, peer = echo.recvfrom(100)
                    asked.append(data)
                    echo.sendto(b"", peer)
                except OSError:
                    return
        threading.Thread(target=serve, daemon=True).start()
        node, port = one(c), silent.getsockname()[1]
        answers = "127.127.3.20:%d" % echo.getsockname()[1]
        register(node, "answers", UDP=answers, Timeout="1h")
        register(node, "silent", UDP="127.127.3.21:%d" % port, Timeout="1s")
        register(node, "refused", UDP="127.127.3.22:9", Status="passing")
        register(node, "nowhere", UDP="no-such-host.invalid:9", Status="passing")
        wait_state(node, "answers", "passing", "UDP connect %s: Success" % answers)
        wait_state(node, "silent", "passing", "UDP connect 127.127.3.21:%d: Success" % port)
        wait_state(node, "refused", "critical", "read udp 127.127.3.22:9: connection refused")
        wait_state(node, "nowhere", "critical", "dial udp: lookup no-such-host.invalid: ")
        assert asked and set(asked) == {b""}, asked
        assert node.get("/v1/agent/checks").json()["silent"]["Type"] == "udp"
        # What others run is kept in the catalog as it was registered there.
        definition = {"UDP": "h:1", "TCPUseTLS": True, "DisableRedirects": True, "Interval": "10s"}
        node.put("/v1/catalog/register", json.dumps({"Node": "far", "Address": "10.0.0.9", "Check": {
            "CheckID": "u", "Definition": definition}})).ok()
        kept = node.get("/v1/health/node/far?filter=Definition.UDP==%22h:1%22").json()
        assert [(c["Type"], c["Definition"]) for c in kept] == [("udp", definition)], kept
        # It follows, and comes back.
        silent.close()
        wait_state(node, "silent", "critical", "connection refused")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(("127.127.3.21", port))
            wait_state(node, "silent", "passing")
        # One in services.d.
        os.makedirs(os.path.join(node.conf, "services.d"))
        with open(os.path.join(node.conf, "services.d", "dns.conf"), "w") as f:
            f.write('service { name = dns; check { udp = "%s"; interval = 1s; timeout = 1s } }\n' % answers)
        node.put("/v1/agent/reload").ok()
        wait_for("the service's check passes", lambda: (state(node, "service:dns") or [""])[0] == "passing")


if __name__ == "__main__":
    main(addresses, tcp_tls, udp)

#!/usr/bin/env python3
"""Checks with a client's certificate (tls.checks): servers that ask for one, authorities, files that are renewed."""
import grp
import http.server
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import h2peer  # noqa: E402
from checking import one, register, state, the_process, wait_state  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from h2peer import SERVING, H2Server  # noqa: E402
from procmem import memory  # noqa: E402
from waiting import wait_for  # noqa: E402

KINDS = "HTTP", "GRPC", "H2PING", "TCP"


class Authority:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.file = self.path(name + ".pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                     "/CN=" + name, "-keyout", self.path(name + ".key"), "-out", self.file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def issue(self, name, alt, prefix=""):
        """(certificate, key), which the user of checks may read."""
        at = self.path(prefix + name)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name, "-keyout",
                     at + ".key", "-out", at + ".csr")
        with open(at + ".ext", "w") as f:
            f.write("subjectAltName=%s\n" % alt)
        self.openssl("x509", "-req", "-in", at + ".csr", "-CA", self.file, "-CAkey", self.path(self.name + ".key"), "-CAcreateserial",
                     "-days", "2", "-extfile", at + ".ext", "-out", at + ".pem")
        for_checks(at + ".key")
        return at + ".pem", at + ".key"


def for_checks(path):
    if os.geteuid() == 0:
        os.chown(path, 0, grp.getgrnam("_check").gr_gid)
        os.chmod(path, 0o640)


class Shown:
    """Servers that take clients of an authority only, and know the names that they have shown."""

    def __init__(self, addr, pair, authority):
        self.names, self.context = [], ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*pair)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(authority.file)
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2      # the refusal is a part of the handshake
        self.h2 = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)          # of 1.3: it comes behind it
        self.h2.load_cert_chain(*pair)
        self.h2.verify_mode = ssl.CERT_REQUIRED
        self.h2.load_verify_locations(authority.file)
        self.h2.set_alpn_protocols(["h2"])
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.names.append(name_of(self.connection))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *rest):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def finish_request(self, sock, client):
                try:
                    with outer.context.wrap_socket(sock, server_side=True) as tls:
                        Handler(tls, client, self)
                except OSError:
                    pass

            def handle_error(self, *rest):
                pass
        self.http = Server((addr, 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.health = H2Server(addr, self.healthy, tls=self.h2)
        self.health.services = {"": SERVING}
        at = "%s:%d" % self.http.server_address
        self.targets = {"HTTP": "https://%s/" % at, "TCP": at, "GRPC": self.health.address, "H2PING": self.health.address}

    def healthy(self, conn):
        self.names.append(name_of(conn.sock))
        h2peer.healthy(conn)

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.http.shutdown()
        self.http.server_close()
        self.health.__exit__()


def name_of(sock):
    return dict(pair[0] for pair in sock.getpeercert()["subject"])["commonName"]


def register_all(node, server, suffix=""):
    more = {"GRPC": {"GRPCUseTLS": True}, "TCP": {"TCPUseTLS": True}}
    for kind in KINDS:
        register(node, kind + suffix, **{kind: server.targets[kind]}, **more.get(kind, {}))


def folder_of(base):
    os.chmod(base, 0o755)
    return base


def private(path):
    """The number that is the key."""
    text = subprocess.run(["openssl", "ec", "-in", path, "-text", "-noout"], check=True, capture_output=True, text=True).stdout
    number = bytes.fromhex(text.split("priv:")[1].split("pub:")[0].replace(":", "").replace("\n", "").replace(" ", ""))[-32:]
    return number, number[::-1]         # as in a file, and as OpenSSL has it in memory


def has_memory(pid, texts):
    return any(t in piece for piece in memory(pid) for t in texts)


def client_certificate():
    """With it each kind of check passes, without it none does, and a server of another authority fails with a sentence."""
    with tempfile.TemporaryDirectory() as base, Cluster("127.97.40") as c:
        folder, addr = folder_of(base), "127.97.40.20"
        ours, other = Authority(folder, "ours"), Authority(folder, "other")
        pair = ours.issue("client", "DNS:client.example")
        served, strange = ours.issue("server", "IP:" + addr), other.issue("strange", "IP:" + addr)
        with Shown(addr, served, ours) as s, Shown(addr, strange, ours) as lies:
            node = one(c, **{"tls.checks.cert_file": pair[0], "tls.checks.key_file": pair[1], "tls.checks.ca_file": ours.file})
            register_all(node, s)
            register_all(node, lies, "-lies")
            for kind in KINDS:
                wait_state(node, kind, "passing")
                wait_state(node, kind + "-lies", "critical", "certificate" if kind == "HTTP" else "x509: The certificate is NOT trusted")
            assert set(s.names) == {"client"} and not lies.names, (s.names, lies.names)
            assert "the certificate of checks ends at" in node.log("rpcd")       # it is good for two days
            # The key is in one process alone.
            assert has_memory(the_process(node, "network"), private(pair[1])) and not has_memory(node.pid("rpcd"), private(pair[1]))
            # Without a certificate, by a reload: each is refused, and says by whom.
            node.write("rpcd.conf", {"http_addresses": [node.addr], "http_admin": True, "tls.checks.ca_file": ours.file})
            node.signal(signal.SIGHUP, "rpcd")
            for kind in ("HTTP", "TCP"):
                wait_state(node, kind, "critical", "alert" if kind == "HTTP" else "remote error: tls: handshake failure")
            for kind in ("GRPC", "H2PING"):
                wait_state(node, kind, "critical", "remote error: tls: certificate required")


def renewed():
    """Files that are written anew, replaced by rename, or behind a link that changes are used by the next checks; bad ones are not."""
    with tempfile.TemporaryDirectory() as base, Cluster("127.97.41") as c:
        folder, addr = os.path.join(folder_of(base), "archive"), "127.97.41.20"
        os.mkdir(folder)
        ours, live = Authority(folder, "ours"), os.path.join(base, "live")
        served, other, ca = ours.issue("server", "IP:" + addr), Authority(folder, "other"), os.path.join(folder, "trusted.pem")
        pairs = [ours.issue("client%d" % i, "DNS:client.example") for i in range(6)]
        os.mkdir(live)
        cert, key = os.path.join(live, "cert.pem"), os.path.join(live, "key.pem")

        def put(n, how):
            for from_, to in zip(pairs[n], (cert, key)):
                if how == "write":
                    with open(from_, "rb") as source, open(to, "wb") as f:
                        f.write(source.read())
                elif how == "rename":
                    shutil.copy(from_, to + ".new")
                    if to == key:
                        for_checks(to + ".new")
                    os.rename(to + ".new", to)
                else:       # certbot's
                    os.symlink(os.path.relpath(from_, live), to + ".new")
                    os.rename(to + ".new", to)

        def put_folder(n):
            os.mkdir(live + ".new")
            for from_, to in zip(pairs[n], (cert, key)):
                shutil.copy(from_, os.path.join(live + ".new", os.path.basename(to)))
            for_checks(os.path.join(live + ".new", os.path.basename(key)))
            os.rename(live, live + ".old")
            os.rename(live + ".new", live)

        def trust(authority):
            with open(authority.file, "rb") as source, open(ca, "wb") as f:
                f.write(source.read())
        put(0, "rename")
        trust(ours)
        with Shown(addr, served, ours) as s:
            node = one(c, **{"tls.checks.cert_file": cert, "tls.checks.key_file": key, "tls.checks.ca_file": ca})
            register_all(node, s)

            def shown_by_all(name):
                for kind in KINDS:
                    wait_state(node, kind, "passing")
                wait_for("checks show " + name, lambda: s.names[-3:] == [name] * 3)
            shown_by_all("client0")
            pid = the_process(node, "network")
            for n, how in enumerate(("write", "rename", "link", "link"), 1):
                put(n, how)
                shown_by_all("client%d" % n)
            assert the_process(node, "network") == pid
            put_folder(5)       # beyond its walls
            shown_by_all("client5")
            assert the_process(node, "network") != pid
            pid = the_process(node, "network")
            # Authorities hold for the next check of each kind.
            for authority, becomes in (other, "critical"), (ours, "passing"):
                trust(authority)
                for kind in KINDS:
                    wait_state(node, kind, becomes)
            assert the_process(node, "network") == pid
            # A key that is none: the checks go on with the old one, and the log says it.
            with open(key + ".new", "w") as f:
                f.write("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
            for_checks(key + ".new")
            os.rename(key + ".new", key)
            wait_for("a line about the key", lambda: "there is no private key in it" in node.log("rpcd") and
                     "checks over TLS go on with what was read before" in node.log("rpcd"))
            seen = len(s.names)
            wait_for("checks go on", lambda: len(s.names) > seen + 6)
            assert set(s.names[seen:]) == {"client5"}, s.names[seen:]
            assert {state(node, kind)[0] for kind in KINDS} == {"passing"}


def modes():
    """A key that others can read, or that checks cannot, is a sentence, and rpcd does not start."""
    with tempfile.TemporaryDirectory() as base, Cluster("127.97.42") as c:
        folder = folder_of(base)
        ours = Authority(folder, "ours")
        cert, key = ours.issue("client", "DNS:client.example")
        keys = {"http_addresses": ["127.97.42.1"], "tls.checks.cert_file": cert, "tls.checks.key_file": key}
        node = one(c)
        node.stop("rpcd")
        cases = [(0o644, "others can read or write the key"), (0o660, "others can read or write the key")]
        if os.geteuid() == 0:
            cases.append((0o600, "for the user _check, who runs checks"))
        for mode, sentence in cases:
            os.chmod(key, mode)
            node.write("rpcd.conf", keys)
            node.start("rpcd")
            node.procs["rpcd"].may_end(1)
            assert node.procs["rpcd"].wait(timeout=30) == 1
            assert sentence in node.log("rpcd") and "tls.checks.key_file" in node.log("rpcd"), node.log("rpcd")[-2000:]
        for_checks(key)
        os.chmod(key, 0o640)
        node.start("rpcd")
        wait_for("an answer", lambda: node.get("/v1/status/leader").status == 200)


if __name__ == "__main__":
    main(client_certificate, renewed, modes)

"""TLS for tests: CAs and certificates by clusterctl, servers that speak TLS in rpcd's place or before it, and a listener that
tells whether what came was TLS.  Standard library only."""
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import threading

from cluster import BUILD

HANDSHAKE = 0x16        # the first byte of a TLS connection, RFC 8446, 5.1


def tls(folder, *args):
    """`clusterctl tls` in a folder."""
    p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "tls", *args], cwd=folder, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, (args, p)
    return p.stdout


def https(folder, addr, port=8501):
    """Keys of rpcd.conf for HTTPS with a certificate for addr, and a connector that takes no end without close_notify."""
    os.mkdir(folder)
    tls(folder, "ca", "create")
    tls(folder, "cert", "create", "--server", "--additional-ipaddress", addr)
    cert, key = (os.path.join(folder, "dc1-server-consul-0%s.pem" % kind) for kind in ("", "-key"))
    if os.geteuid() == 0:
        shutil.chown(key, "root", "_keys")
    os.chmod(key, 0o640)
    ctx = ssl.create_default_context(cafile=os.path.join(folder, "consul-agent-ca.pem"))

    def connect(**kw):
        s = socket.create_connection((addr, port), timeout=60, **kw)
        return ctx.wrap_socket(s, server_hostname=addr, suppress_ragged_eofs=False)
    return {"https_port": port, "tls.https.cert_file": cert, "tls.https.key_file": key}, connect


def context(folder, pair, ca=None, version=None):
    """Of a server with DIR/PAIR.pem; ca: the CAs of which its clients need a certificate."""
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain("%s/%s.pem" % (folder, pair), "%s/%s-key.pem" % (folder, pair))
    if version:
        c.minimum_version = c.maximum_version = version
    if ca:
        c.verify_mode = ssl.CERT_REQUIRED
        c.load_verify_locations(ca)
    return c


class Server:
    """HTTP over TLS in rpcd's place: answers as answer(path) says, and keeps what came."""

    def __init__(self, addr, ctx, answer=lambda path: (200, {}, b"[]")):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.asked.append((self.path, dict(self.headers), self.connection.getpeercert()))
                status, headers, body = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Threading(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                raw, peer = self.socket.accept()
                raw.settimeout(30)
                return raw, peer

            def finish_request(self, request, client):
                try:
                    with ctx.wrap_socket(request, server_side=True) as sealed:
                        self.RequestHandlerClass(sealed, client, self)
                except OSError as e:
                    server.failed.append(str(e))

        self.asked, self.failed, self.names = [], [], []
        ctx.sni_callback = lambda _sock, name, _ctx: self.names.append(name)
        self.httpd = Threading(addr, Handler)
        self.port = self.httpd.server_address[1]
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.httpd.shutdown()
        self.httpd.server_close()


class Listener:
    """Takes connections on several ports, keeps the first byte of each, and closes them."""

    def __init__(self, *addrs):
        self.first = []
        self.sockets = [socket.create_server(a, family=socket.AF_INET6 if ":" in a[0] else socket.AF_INET) for a in addrs]
        for s in self.sockets:
            threading.Thread(target=self.take, args=(s,), daemon=True).start()

    def take(self, s):
        while True:
            try:
                conn = s.accept()[0]
            except OSError:
                return
            with conn:
                conn.settimeout(30)
                try:
                    self.first.append(conn.recv(1)[0])
                    conn.shutdown(socket.SHUT_RDWR)
                except (OSError, IndexError):
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.sockets:
            s.shutdown(socket.SHUT_RDWR)
            s.close()


class Proxy:
    """TLS before an rpcd that speaks plain HTTP: what comes sealed goes there in clear, and back."""

    def __init__(self, addr, ctx, target):
        self.ctx, self.target, self.taken, self.refused = ctx, target, 0, []
        self.listening = socket.create_server(addr)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn = self.listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            conn.settimeout(30)
            sealed = self.ctx.wrap_socket(conn, server_side=True)
        except OSError as e:
            self.refused.append(str(e))
            conn.close()
            return
        self.taken += 1
        sealed.settimeout(None)
        plain = socket.create_connection(self.target)
        back = threading.Thread(target=self.pump, args=(plain, sealed), daemon=True)
        back.start()
        self.pump(sealed, plain)
        back.join()
        sealed.close()
        plain.close()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for s in source, sink:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()

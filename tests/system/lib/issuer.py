"""An issuer of tokens: keys, tokens that are signed with them, and a server that publishes the keys, well or badly.

    key = Key(folder, "one")                    # ES256; Key(folder, "two", "RS256")
    with Issuer(folder) as issuer:              # https://localhost:PORT, by an authority of its own: issuer.ca
        issuer.publish(key)
        token = key.token({"iss": issuer.url, ...})

Standard library and the openssl command only.
"""
import base64
import http.server
import json
import os
import ssl
import subprocess
import threading
import time

WELL_KNOWN = "/.well-known/openid-configuration"


def openssl(*args, data=None):
    return subprocess.run(["openssl", *args], input=data, check=True, capture_output=True).stdout


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def integers(der):
    """The two numbers of an ECDSA signature."""
    assert der[0] == 0x30 and der[2] == 2
    end = 4 + der[3]
    assert der[end] == 2
    return [int.from_bytes(n, "big") for n in (der[4:end], der[end + 2:end + 2 + der[end + 1]])]


class Key:
    def __init__(self, folder, name, algorithm="ES256"):
        self.path, self.id, self.algorithm = os.path.join(folder, name + ".key.pem"), name, algorithm
        if algorithm == "ES256":
            how = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        else:
            how = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        openssl("genpkey", *how, "-out", self.path)

    def jwk(self, **more):
        if self.algorithm == "ES256":
            point = openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")[-64:]
            key = {"kty": "EC", "crv": "P-256", "x": b64(point[:32]), "y": b64(point[32:])}
        else:
            n = openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().split("=")[1]
            key = {"kty": "RSA", "n": b64(bytes.fromhex(n)), "e": "AQAB"}
        return dict({"kid": self.id, "use": "sig", "alg": self.algorithm}, **key, **more)

    def token(self, claims, kid=None, **head):
        """Good for an hour from now on, unless the claims say otherwise."""
        now = int(time.time())
        head = dict({"alg": self.algorithm, "kid": kid or self.id}, **head)
        claims = dict({"iat": now, "nbf": now, "exp": now + 3600}, **claims)
        text = ".".join(b64(json.dumps(part).encode()) for part in (head, claims))
        signature = openssl("dgst", "-sha256", "-sign", self.path, data=text.encode())
        if self.algorithm == "ES256":
            signature = b"".join(n.to_bytes(32, "big") for n in integers(signature))
        return text + "." + b64(signature)


def authority(folder, name="authority"):
    """(path of its certificate, path of its key)."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".ca.key")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
            "-days", "2", "-subj", "/CN=" + name, "-addext", "basicConstraints=critical,CA:TRUE")
    return cert, key


class Issuer:
    """paths: {path: bytes, or a function that gets the handler}.  asked: the paths that were asked for, in order."""

    def __init__(self, folder, tls=True):
        self.folder, self.tls = folder, tls
        self.paths, self.asked = {}, []
        self.ends = threading.Event()
        self.ca = None

    def __enter__(self):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                what = outer.paths.get(self.path)
                try:
                    if what is None:
                        self.answer(404, b"there is no such thing")
                    elif callable(what):
                        what(self)
                    else:
                        self.answer(200, what)
                except OSError:
                    pass                    # who asked has left, as it should

            def answer(self, status, body, **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass                        # handshakes that were refused, as they should be

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        if self.tls:
            self.secure()
        self.url = "%s://localhost:%d" % ("https" if self.tls else "http", self.port)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def secure(self):
        cert, key = authority(self.folder)
        mine, request = os.path.join(self.folder, "server.key"), os.path.join(self.folder, "server.csr")
        signed, names = os.path.join(self.folder, "server.pem"), os.path.join(self.folder, "server.ext")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", mine, "-out", request,
                "-subj", "/CN=issuer")
        with open(names, "w", encoding="utf-8") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", request, "-CA", cert, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", names,
                "-out", signed)
        with open(cert, encoding="utf-8") as f:
            self.ca = f.read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed, mine)
        # The handshake is the connection's own thread's.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    def __exit__(self, *args):
        self.stop()

    def stop(self):
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()

    # -- what it answers --

    def publish(self, *keys, path="/keys", more=()):
        self.paths[path] = json.dumps({"keys": [k.jwk() for k in keys] + list(more)}).encode()

    def discoverable(self, issuer=None, keys="/keys", **more):
        document = dict({"issuer": issuer or self.url, "jwks_uri": self.url + keys}, **more)
        self.paths[WELL_KNOWN] = json.dumps(document).encode()

    def hangs(self, path):
        self.paths[path] = lambda handler: self.ends.wait()

    def endless(self, path):
        def answer(handler):
            handler.send_response(200)
            handler.end_headers()
            while not self.ends.is_set():
                handler.wfile.write(b'{"keys":[' + b" " * 65536)
        self.paths[path] = answer

    def leads(self, path, to):
        self.paths[path] = lambda handler: handler.answer(302, b"", Location=to)

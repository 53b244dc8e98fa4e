#!/usr/bin/env python3
"""clusterctl by HTTPS: who asks for TLS never speaks in clear text, each way to be refused has a sentence that helps, and
every verb goes the same road."""
import http.server
import itertools
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, CALM, Cluster, main, moved, skip  # noqa: E402
from waiting import wait_for  # noqa: E402
from tlskit import HANDSHAKE, Listener, Proxy, Server, context, tls  # noqa: E402

CTL = os.path.join(BUILD, "ctl", "clusterctl")
VARIABLES = ("ADDR", "SSL", "SSL_VERIFY", "CACERT", "CAPATH", "CLIENT_CERT", "CLIENT_KEY", "TLS_SERVER_NAME", "TOKEN")


def clean(**env):
    """Our environment without what clusterctl looks at, and with these."""
    known = {"TRIUMVIR_" + v for v in VARIABLES} | {p + v for v in VARIABLES for p in ("CONSUL_", "CONSUL_HTTP_")}
    return {**{k: v for k, v in os.environ.items() if k not in known}, **env}


def ctl(*args, env=None, timeout=60, **kw):
    p = subprocess.run([CTL, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, env=clean(**(env or {})), **kw)
    return p.returncode, p.stdout, p.stderr


def expect(status, says, *args, env=None):
    rc, out, err = ctl(*args, env=env)
    assert rc == status and says in (out if rc == 0 else err), (args, env, rc, out, err)
    return err


class Files:
    """A folder with a CA, and certificates: server, client, cli."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="tv-tls-", dir="/var/tmp")
        tls(self.dir, "ca", "create")
        for kind in "server", "cli":
            tls(self.dir, "cert", "create", "--" + kind)
        self.ca = self.dir + "/consul-agent-ca.pem"
        self.cert, self.key = self.dir + "/dc1-cli-consul-0.pem", self.dir + "/dc1-cli-consul-0-key.pem"
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def context(self, pair="dc1-server-consul-0", **kw):
        return context(self.dir, pair, **kw)


def test_spellings():
    """Each spelling of an address, and what goes with it, by options and by both sorts of variables."""
    with Files() as f:
        host = moved("127.60.218") + ".1"
        answer = lambda path: (200, {}, b'["x"]')      # noqa: E731
        with Server((host, 8501), f.context(), answer) as s, Server((host, 0), f.context(), answer) as other:
            name = {"CONSUL_TLS_SERVER_NAME": "server.dc1.consul"}
            for addr, server in (("https://" + host, s), ("https://%s:%d" % (host, other.port), other), (host, s), ("https://%s/" % host, s),
                                 ("%s:%d" % (host, other.port), other)):
                for env, args in (({"CONSUL_HTTP_ADDR": addr}, ()), ({"TRIUMVIR_ADDR": addr, "CONSUL_HTTP_ADDR": "unix:/nowhere"}, ()), ({}, ("--addr", addr))):
                    was = len(server.asked)
                    expect(0, "x", *args, "catalog", "datacenters", env={**env, **name, "CONSUL_CACERT": f.ca})
                    assert len(server.asked) == was + 1, (addr, env)
            path, headers, _ = s.asked[-1]
            assert path == "/v1/catalog/datacenters" and headers["Host"] == host + ":8501" and s.names[-1] == "server.dc1.consul", s.asked[-1]
            # Truth as Go reads it; also what Consul's client makes of http:// then.
            for true in "1", "t", "T", "TRUE", "true", "True":
                expect(0, "x", "catalog", "datacenters", env={"CONSUL_HTTP_SSL": true, "CONSUL_HTTP_ADDR": "http://%s:8501" % host, "CONSUL_CACERT": f.ca, **name})
            for false in "0", "f", "F", "FALSE", "false", "False":
                rc, _, err = ctl("catalog", "datacenters", env={"CONSUL_HTTP_SSL_VERIFY": false, "CONSUL_HTTP_ADDR": "https://" + host})
                assert rc == 0 and "CONSUL_HTTP_SSL_VERIFY is false: whoever answers is believed" in err, err
            # TRIUMVIR_ goes before CONSUL_, and options before both.
            wrong = {"CONSUL_CACERT": "/nowhere", "CONSUL_TLS_SERVER_NAME": "wrong.example", "CONSUL_HTTP_SSL": "maybe", "CONSUL_HTTP_SSL_VERIFY": "perhaps"}
            expect(0, "x", "catalog", "datacenters", env={**wrong, "TRIUMVIR_ADDR": host, "TRIUMVIR_SSL": "true", "TRIUMVIR_SSL_VERIFY": "true", "TRIUMVIR_CACERT": f.ca,
                                                          "TRIUMVIR_TLS_SERVER_NAME": "localhost"})
            expect(0, "x", "--addr", host, "--ca-file", f.ca, "--tls-server-name", "localhost", "catalog", "datacenters", env={
                k: v for k, v in wrong.items() if "SSL" not in k})
            # A folder of CAs has any names, and other files in it.
            os.makedirs(f.dir + "/cas/below")
            shutil.copy(f.ca, f.dir + "/cas/of any name")
            for file, text in ((f.dir + "/cas/notes", "no certificate"), (f.dir + "/cas/key", "-----BEGIN EC PRIVATE KEY-----")):
                with open(file, "w", encoding="ascii") as out:
                    out.write(text)
            expect(0, "x", "--addr", host, "--ca-path", f.dir + "/cas", "--tls-server-name", "localhost", "catalog", "datacenters")
            expect(0, "x", "--addr", host, "--ca-path", f.dir + "/cas", "--tls-server-name", "localhost", "catalog", "datacenters", env={"CONSUL_CACERT": "/nowhere"})
            # A proxy may have rpcd below a prefix.
            expect(0, "x", "--addr", "https://%s/a/b/" % host, "--ca-file", f.ca, "--tls-server-name", "localhost", "catalog", "datacenters")
            assert s.asked[-1][0] == "/a/b/v1/catalog/datacenters", s.asked[-1]
    for addr in "HTTPS://h", "https:/h", "https://", "https:///x", "https://u@h", "https://h?x", "ftp://h", "h/x", "https://h:", "[::1", "https://[::1]x", "unix:x", "http://a b":
        expect(2, "write HOST:PORT or unix:PATH, or https://HOST:PORT", "--addr", addr, "members")


def test_never_in_clear():
    """Whoever asks for TLS, by what and for which address: what leaves is the beginning of TLS, or nothing with a sentence."""
    host = moved("127.60.219") + ".1"
    with Files() as f, Listener((host, 8500), (host, 8501), ("127.0.0.1", 8500), ("127.0.0.1", 8501)) as heard, \
            tempfile.TemporaryDirectory() as d:
        path = d + "/rpcd.sock"
        local = socket.socket(socket.AF_UNIX)
        local.bind(path)
        local.listen(8)
        local.setblocking(False)
        asks = [({"CONSUL_HTTP_SSL": "true"}, ()), ({"TRIUMVIR_SSL": "1"}, ()), ({}, ("--ca-file", f.ca)), ({}, ("--ca-path", f.dir)),
                ({}, ("--client-cert", f.cert, "--client-key", f.key)), ({}, ("--tls-server-name", "localhost"))]
        files = [({p + v: x}, ()) for p in ("CONSUL_", "TRIUMVIR_") for v, x in (("CACERT", f.ca), ("CAPATH", f.dir), ("TLS_SERVER_NAME", "x"))]
        files.append(({"CONSUL_CLIENT_CERT": f.cert, "CONSUL_CLIENT_KEY": f.key}, ()))
        addrs = [None, host, host + ":8500", "http://" + host, "http://%s:8500/x" % host, "https://" + host, "unix:" + path, "unix://" + path]
        sealed = 0
        for (strong, (env, args)), addr, by in itertools.product([(True, a) for a in asks] + [(False, a) for a in files], addrs, ("option", "variable")):
            before = len(heard.first)
            env, given = dict(env), list(args)
            if addr is not None and by == "option":
                given += ["--addr", addr]
            elif addr is not None:
                env["CONSUL_HTTP_ADDR"] = addr
            if not strong and (addr is None or addr.startswith("unix")):
                continue        # a socket of this machine, which these variables are not about
            rc, out, err = ctl(*given, "--timeout", "20s", "members", env=env)
            assert rc != 0 and out == "", (addr, env, given, rc, out)
            if rc == 2:
                assert "asks for TLS" in err and len(heard.first) == before, (addr, env, given, err)
                assert addr.startswith(("unix", "http://")), (addr, env, given, err)
            else:
                assert rc == 69 and len(heard.first) > before and set(heard.first) == {HANDSHAKE}, (addr, env, given, rc, err, heard.first)
                sealed += 1
            if "SSL" in "".join(env) and addr is not None and addr.startswith("http://"):
                assert rc == 69, (addr, env, err)               # https, as Consul's clients do
        assert sealed > 60, sealed
        try:
            local.accept()
            raise AssertionError("the socket was asked")
        except BlockingIOError:
            pass
        # What is no truth is no silent no.
        for name in "CONSUL_HTTP_SSL", "TRIUMVIR_SSL", "CONSUL_HTTP_SSL_VERIFY", "TRIUMVIR_SSL_VERIFY":
            for value in "yes", "tRue", "2", " 1", "on":
                expect(2, '%s: "%s" is neither true nor false' % (name, value), "--addr", host, "members", env={name: value})
        assert set(heard.first) == {HANDSHAKE}
        # And who says that no TLS is wanted, gets none.
        rc, _, err = ctl("--addr", host, "--timeout", "20s", "members", env={"CONSUL_HTTP_SSL": "false", "CONSUL_CACERT": f.ca})
        assert rc == 69 and heard.first[-1] == ord("G"), (rc, err)


def test_refusals():
    """Each way in which TLS does not come to be is told with what to do about it, and has the status of any network error."""
    with Files() as f, Files() as strange:
        subprocess.run(["openssl", "version"], check=True, capture_output=True) if shutil.which("openssl") else skip("needs openssl(1)")
        for args in (["req", "-new", "-key", "dc1-server-consul-0-key.pem", "-subj", "/CN=server.dc1.consul", "-out", "old.csr"],
                     ["x509", "-req", "-in", "old.csr", "-CA", "consul-agent-ca.pem", "-CAkey", "consul-agent-ca-key.pem", "-set_serial", "7", "-days", "-1", "-out", "old.pem"]):
            subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=f.dir, timeout=60)
        shutil.copy(f.dir + "/dc1-server-consul-0-key.pem", f.dir + "/old-key.pem")
        host = moved("127.60.220") + ".1"
        with Server((host, 0), f.context()) as s, Server((host, 0), f.context("old")) as old, Listener((host, 8500)):
            at = ("--addr", "https://%s:%d" % (host, s.port))
            named = at + ("--tls-server-name", "localhost")
            expect(69, "is of a CA that this machine does not know: name its file with --ca-file or CONSUL_CACERT", *named, "members")
            expect(69, "is of another CA than that of --ca-file", *named, "--ca-file", strange.ca, "members")
            err = expect(69, "is for other names. --tls-server-name or CONSUL_TLS_SERVER_NAME says", *at, "--ca-file", f.ca, "members")
            assert "Is rpcd running" not in err, err
            expect(69, "server.dc2.consul", *at, "--ca-file", f.ca, "--tls-server-name", "server.dc2.consul", "members")
            expect(69, "It is over: make a new one", "--addr", "https://%s:%d" % (host, old.port), "--ca-file", f.ca, "--tls-server-name", "server.dc1.consul", "members")
            rc, out, err = ctl(*at, "--ca-file", f.ca, "status")
            assert rc == 1 and "--tls-server-name" in out + err and "no answer from https://" in out + err, (rc, out, err)
            told = json.loads(ctl("--json", *named, "members")[2])
            assert told["Reason"] == "no answer" and "CONSUL_CACERT" in told["Error"], told
            assert s.asked == [] and old.asked == []
            # The port of the other kind.
            expect(69, "write https:// before the address", "--addr", "%s:%d" % (host, s.port), "members")
        quiet = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
        plain = http.server.ThreadingHTTPServer((host, 0), quiet)
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        expect(69, "HTTPS has one of its own, https_port in rpcd.conf", "--addr", "https://%s:%d" % (host, plain.server_address[1]), "--ca-file", f.ca, "members")
        plain.shutdown()
        plain.server_close()
        # Client certificates, by either version of TLS: none, of another CA, and the right one.
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            with Server((host, 0), f.context(ca=f.ca, version=version)) as s:
                at = ("--addr", "https://%s:%d" % (host, s.port), "--ca-file", f.ca, "--tls-server-name", "localhost")
                expect(69, "If it wants a client certificate (verify_incoming in rpcd.conf)", *at, "members")
                expect(69, "Is the client certificate of the CA that the server's ca_file has", *at, "--client-cert", strange.cert, "--client-key", strange.key, "members")
                assert s.asked == []
                expect(0, "", *at, "--client-cert", f.cert, "--client-key", f.key, "members")
                expect(0, "", *at, "members", env={"CONSUL_CLIENT_CERT": f.cert, "CONSUL_CLIENT_KEY": f.key})
                assert ("DNS", "cli.dc1.consul") in s.asked[-1][2]["subjectAltName"], s.asked
                expect(69, "have to be a certificate and its own key", *at, "--client-cert", f.cert, "--client-key", strange.key, "members")
                expect(69, "have to be a certificate and its own key", *at, "--client-cert", "/nowhere", "--client-key", f.key, "members")
        for args in ("--client-cert", f.cert), ("--client-key", f.key):
            expect(2, "a client certificate is two files", *at, *args, "members")
        for path, why in (("/nowhere", "No such file"), (f.dir, "Is a directory"), (f.key, "no certificate in PEM form"), ("/dev/null", "no certificate in PEM form")):
            expect(1, "--ca-file: %s: %s" % (path, why) if "PEM" not in why else why, *at[:2], "--ca-file", path, "members")
            expect(1, "CONSUL_CACERT: " + path, *at[:2], "members", env={"CONSUL_CACERT": path})
        expect(1, "CONSUL_CAPATH: /nowhere: No such file", *at[:2], "members", env={"CONSUL_CAPATH": "/nowhere"})
        expect(1, "Not a directory", *at[:2], "--ca-path", f.ca, "members")
        os.mkdir(f.dir + "/none")
        expect(1, "has no certificate in PEM form", *at[:2], "--ca-path", f.dir + "/none", "members")
        expect(2, "is no name that a certificate can be for", *at[:2], "--tls-server-name", "a b", "members")


def test_no_way_back():
    """An answer that points elsewhere is not followed: neither to clear text nor with the token."""
    host = moved("127.60.221") + ".1"
    with Files() as f, Listener((host, 8500)) as heard:
        moves = lambda path: (301, {"Location": "http://%s:8500%s" % (host, path)}, b"")       # noqa: E731
        with Server((host, 0), f.context(), moves) as s:
            expect(1, "HTTP status 301", "--addr", "https://%s:%d" % (host, s.port), "--ca-file", f.ca, "--tls-server-name", "localhost", "catalog", "datacenters",
                   env={"CONSUL_HTTP_TOKEN": "secret"})
            assert s.asked[-1][1]["X-Consul-Token"] == "secret" and heard.first == [], heard.first


def test_each_verb():
    """With the variables alone: every kind of question goes by TLS, children find the variables, and nothing is asked in
    clear.  Against rpcd's own port, and one before it that counts what it takes."""
    with Files() as f, Cluster("127.60.222") as c:
        cert, key = (f.dir + "/dc1-server-consul-0" + end for end in (".pem", "-key.pem"))
        os.chmod(f.dir, 0o755)
        if os.geteuid() == 0:
            shutil.chown(key, "root", "_keys")
            os.chmod(key, 0o640)
        node = c.add("n1", 1, raftd={"bootstrap": True, **CALM}, rpcd={
            "http_admin": True, "https_port": 8501, "tls.https.cert_file": cert, "tls.https.key_file": key, "tls.https.ca_file": f.ca,
            "tls.https.verify_incoming": True}).start()
        c.formed([node])
        with Proxy((node.addr, 8502), f.context(ca=f.ca), (node.addr, 8500)) as proxy:
            env = {"CONSUL_HTTP_ADDR": node.addr + ":8502", "CONSUL_HTTP_SSL": "true", "CONSUL_CACERT": f.ca, "CONSUL_CLIENT_CERT": f.cert, "CONSUL_CLIENT_KEY": f.key,
                   "CONSUL_TLS_SERVER_NAME": "server.dc1.consul", "HOME": f.dir}

            def said(*args, status=0):
                before = proxy.taken
                rc, out, err = ctl(*args, env=env)
                assert rc == status and proxy.taken > before and not proxy.refused, (args, rc, out, err, proxy.refused)
                sealed = session()
                args = [a.replace("/first.", "/second.") for a in args]         # files that are never overwritten
                rc, out, err = ctl(*args, env={**env, "CONSUL_HTTP_ADDR": node.addr + ":8501"})
                assert rc == status and session() > sealed, (args, rc, out, err)
                return out

            def session():
                return int(node.stats("rpcd")["tls_client_certificates"])

            assert "n1" in said("members") and "leader" in said("status")
            said("kv", "put", "a", "one")
            assert said("kv", "get", "a").strip() == "one"
            # The child of lock asks by itself, with what it finds in its environment.
            before = proxy.taken
            said("lock", "l/x", CTL, "kv", "put", "b", "two")
            assert said("kv", "get", "b").strip() == "two" and proxy.taken >= before + 3
            seen = f.dir + "/seen"
            watch = subprocess.Popen([CTL, "watch", "--type", "key", "--key", "a", "--exec", "%s kv get b >> %s" % (CTL, seen)], env=clean(**env),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_for("the watch", lambda: os.path.exists(seen) and "two" in open(seen, encoding="ascii").read())
            finally:
                watch.terminate()
                watch.wait()
            archive = f.dir + "/x.snap"
            said("snapshot", "save", archive)
            said("kv", "put", "a", "three")
            said("snapshot", "restore", "--yes", archive)
            assert said("kv", "get", "a").strip() == "one"
            said("debug", "--duration", "1s", "--output", f.dir + "/first.tar.gz")
            said("event", "fire", "hello")
            said("kv", "export")
            monitor = subprocess.Popen([CTL, "monitor", "--level", "debug"], env=clean(**env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                # It shows what comes from when it is there.
                wait_for("a line", lambda: said("event", "fire", "again") and select.select([monitor.stdout], [], [], 1)[0])
                assert "DEBUG" in monitor.stdout.readline()
            finally:
                monitor.terminate()
                monitor.communicate()
            # A wrong CA for each of them: none falls back.
            bad = {**env, "CONSUL_CACERT": "/etc/ssl/certs/ca-certificates.crt"} if os.path.exists("/etc/ssl/certs/ca-certificates.crt") else {**env, "CONSUL_CACERT": "/nowhere"}
            taken = proxy.taken
            for args in (["members"], ["status"], ["kv", "put", "a", "x"], ["lock", "--try", "1s", "l/y", "true"], ["snapshot", "save", f.dir + "/y"], ["monitor"],
                         ["debug", "--duration", "1s", "--output", f.dir + "/e.tar.gz"], ["event", "fire", "x"], ["reload"], ["leave"]):
                for port in 8501, 8502:
                    rc, out, err = ctl(*args, env={**bad, "CONSUL_HTTP_ADDR": "%s:%d" % (node.addr, port)}, timeout=120)
                    assert rc not in (0, 2), (args, rc, out, err)
            assert proxy.taken == taken and node.running("rpcd")


PROGRAMS = ["ctl/clusterctl"] + ["%s/%s" % p for p in (
    ("gossipd", "gossipd"), ("gossipd", "gossipd-names"), ("raftd", "raftd"), ("raftd", "raftd-fetch"), ("rpcd", "rpcd"), ("rpcd", "rpcd-check"),
    ("rpcd", "rpcd-dns"), ("rpcd", "rpcd-keys"), ("rpcd", "rpcd-tls"))]


def test_dev():
    """clusterctl dev --tls: what it prints is typed, and works; the environment of its caller changes nothing."""
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as where:
        os.chmod(where, 0o755)          # started by root it runs as nobody
        for name in PROGRAMS:
            shutil.copy(os.path.join(BUILD, name), where)
        address = moved("127.60.223") + ".1"
        p = subprocess.Popen([os.path.join(where, "clusterctl"), "dev", "--tls", "--acl", "--bind", address, "--datacenter", "dc7"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, env=clean(TMPDIR=where, CONSUL_HTTP_SSL="true", CONSUL_CACERT="/nowhere"), text=True)
        try:
            text = ""
            while "Stop with" not in text:
                line = p.stdout.readline()
                assert line, "ended: " + text
                text += line
            assert "HTTPS API  https://%s:8501\n" % address in text, text
            ca = re.search(r"CA file +(.*)", text).group(1)
            token = re.search(r"export (TRIUMVIR_TOKEN=.*)", text).group(1).split("=")[1]
            env = clean(TRIUMVIR_TOKEN=token, PATH=where + ":" + os.environ["PATH"])
            section = text[text.index("HTTPS API"):]
            for typed, says in (re.search(r"admin +(.*)", section).group(1), "dev"), (re.search(r"try +(.*)", section).group(1), '"Datacenter":"dc7"'):
                if typed.startswith("curl") and not shutil.which("curl"):
                    continue
                wait_for(typed, lambda t=typed, s=says: s in subprocess.run(["sh", "-c", t], env=env, capture_output=True, text=True, timeout=60).stdout)
            expect(0, "leader", "--addr", "https://%s:8501" % address, "--ca-file", ca, "--tls-server-name", "server.dc7.consul", "status", env={"TRIUMVIR_TOKEN": token})
            expect(69, "is of a CA that this machine does not know", "--addr", "https://%s:8501" % address, "members")
            folder = os.path.dirname(ca)
            assert oct(os.stat(folder + "/server-key.pem").st_mode & 0o777) == "0o600" and not os.path.exists(folder + "/ca-key.pem")
        finally:
            p.terminate()
            p.communicate(timeout=60)
        assert p.returncode == 0 and not os.path.exists(ca), p.returncode
    for args in ("--datacenter", "a b"), ("--https-port", "x" * 99):
        rc, _, err = ctl("dev", "--tls", *args)
        assert rc in (1, 2) and args[0] in err, (args, rc, err)


if __name__ == "__main__":
    main(test_spellings, test_never_in_clear, test_refusals, test_no_way_back, test_each_verb, test_dev)

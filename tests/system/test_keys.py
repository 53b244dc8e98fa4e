#!/usr/bin/env python3
"""The process "rpcd: keys": which files it takes, how it follows them, what it signs, and that no other process has a key.

Most cases speak with the program themselves, as rpcd does, and check signatures with openssl.
"""
import http.client
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, USERS, Cluster, ensure_users, main, moved, skip  # noqa: E402
from inject import inside, missing  # noqa: E402
from procmem import memory  # noqa: E402
from procs import children, keys_process, title  # noqa: E402
from tvframe import HEAD, MSG, REPLY, pack, unpack  # noqa: E402
from waiting import wait_for  # noqa: E402

PATIENCE_S = 25.            # on a machine that does other work, too
ENOENT, EINVAL = 6, 5
ECDSA_SHA256, RSA_PKCS1_SHA256, RSA_PSS_SHA256, ED25519 = 0, 3, 6, 9
VERIFY = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + bytes(range(32))
EXCHANGE = bytes(64) + bytes((3, 0, 29, 32)) + bytes(range(32))
EC = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def run(*args, data=None, check=True):
    return subprocess.run(args, input=data, check=check, capture_output=True)


def give(path, mode=0o640):
    """To the process' group, as an operator does."""
    if os.geteuid() == 0:
        shutil.chown(path, "root", "_keys")
    os.chmod(path, mode)


def make(folder, name="server", key=EC, days=30, ca=False):
    """A key and a certificate of its own: their paths."""
    os.makedirs(folder, exist_ok=True)
    cert, private = os.path.join(folder, name + ".pem"), os.path.join(folder, name + "-key.pem")
    run("openssl", "genpkey", *key, "-out", private)
    run("openssl", "req", "-x509", "-new", "-key", private, "-subj", "/CN=" + name, "-days", str(days), "-out", cert)
    give(private)
    os.chmod(cert, 0o644)
    return cert, private


class Folder:
    """A folder that others may enter, as /etc is."""

    def __enter__(self):
        ensure_users()
        self.path = tempfile.mkdtemp(prefix="tv-keys-", dir="/var/tmp")
        os.chmod(self.path, 0o755)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


class Keys:
    """The program, and rpcd's end of its channel."""

    def __init__(self, cert, key, ca_file="", ca_path="", takes_over=False, serve=True):
        self.paths = [cert, key, ca_file, ca_path]
        ours, theirs = socket.socketpair()
        self.socket = ours
        ours.settimeout(PATIENCE_S)
        self.log = tempfile.TemporaryFile("w+b")
        fd = theirs.fileno()
        # LEVEL info, DESTINATION standard error
        command = [os.path.join(BUILD, "rpcd", "rpcd-keys"), "2", "0", "required"]
        user = {"user": "_keys", "group": "_keys", "extra_groups": []} if os.geteuid() == 0 else {}
        self.process = subprocess.Popen(
            ["sh", "-c", "exec 3<&%d; exec \"$@\"" % fd, "sh"] + command, pass_fds=[fd], stderr=self.log, **user)
        theirs.close()
        self.id = 0
        self.setup(takes_over)
        if serve:
            self.send(MSG.KEYS_SERVE, [])

    def send(self, kind, body, flags=0, id=0):
        data = pack(body)
        self.socket.sendall(HEAD.pack(len(data), kind, flags, id) + data)

    def setup(self, takes_over=False, level=2):
        self.send(MSG.KEYS_SETUP, self.paths + [takes_over, level])

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError(self.said())
            data += more
        return data

    def frame(self, timeout=PATIENCE_S):
        self.socket.settimeout(timeout)
        size, kind, flags, id = HEAD.unpack(self.exactly(HEAD.size))
        return kind, id, unpack(self.exactly(size))

    def files(self):
        kind, _, body = self.frame()
        assert kind == MSG.KEYS_FILES, (kind, body)
        return dict(zip(("chain", "ca", "number", "not_after", "ca_not_after", "subject"), body))

    def bad(self, *words):
        kind, _, body = self.frame()
        assert kind == MSG.KEYS_BAD, (kind, body)
        assert all(w in body[0] for w in words), (body, words)
        return body

    def silent(self, seconds):
        try:
            raise AssertionError(self.frame(seconds))
        except socket.timeout:
            pass

    def sign(self, number, alg=ECDSA_SHA256, what=VERIFY):
        self.id += 1
        self.send(MSG.KEYS_SIGN, [number, alg, what], id=self.id)
        kind, id, body = self.frame()
        assert (kind, id) == (MSG.KEYS_SIGN, self.id), (kind, id, body)
        return body

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.socket.close()
        status = self.process.wait(PATIENCE_S)
        if kind is None and not getattr(self, "ends", False):
            assert status == 0, (status, self.said())
        self.log.close()


def verifies(cert_text, signature, what, *how):
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("cert", cert_text), ("sig", signature), ("what", what)):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        with open(os.path.join(d, "pub"), "wb") as f:
            f.write(run("openssl", "x509", "-in", os.path.join(d, "cert"), "-noout", "-pubkey").stdout)
        p = run("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", os.path.join(d, "pub"), "-sigfile", os.path.join(d, "sig"),
                "-in", os.path.join(d, "what"), "-rawin", *how, check=False)
        return p.returncode == 0


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_signatures():
    """Each kind of key signs what a server of TLS signs; nothing else, not with another key, not in another way."""
    digest = ("-digest", "sha256")
    rsa = ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    kinds = (
        (EC, ((ECDSA_SHA256, digest),)), (("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"), ((ECDSA_SHA256, digest),)),
        (rsa, ((RSA_PKCS1_SHA256, digest),
               (RSA_PSS_SHA256, digest + ("-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:digest")))),
        (("-algorithm", "ED25519"), ((ED25519, ()),)))
    with Folder() as d:
        for key, ways in kinds:
            cert, private = make(d, key=key)
            with Keys(cert, private) as k:
                f = k.files()
                assert f["chain"] == read(cert) and f["ca"] == b"" and f["subject"] == "CN = server", f
                assert abs(f["not_after"] - time.time() - 30 * 86400) < 600 and f["ca_not_after"] == 0
                for alg, how in ways:
                    for what in (VERIFY, EXCHANGE):
                        error, signature = k.sign(f["number"], alg, what)
                        assert error == 0 and verifies(f["chain"], signature, what, *how), (key, alg, error)
                for alg in {ECDSA_SHA256, RSA_PKCS1_SHA256, RSA_PSS_SHA256, ED25519, 10, 1 << 40} - {a for a, _ in ways}:
                    assert k.sign(f["number"], alg) == [EINVAL, b""], alg
                alg = ways[0][0]
                assert k.sign(f["number"] ^ 1, alg) == [ENOENT, b""]
                for what in (b"", VERIFY[:-1], VERIFY + b"x", VERIFY.replace(b"server", b"client"), b"!" + VERIFY[1:], EXCHANGE[:-1],
                             EXCHANGE + b"x", bytes(64) + b"\x02" + EXCHANGE[65:], bytes(64) + bytes((3, 0, 23, 65, 3)) + bytes(64),
                             run("openssl", "req", "-new", "-key", private, "-subj", "/CN=x", "-outform", "DER").stdout):
                    assert k.sign(f["number"], alg, what) == [EINVAL, b""], what


def test_files_that_are_no_good():
    """Each is refused with a sentence that names the file, and the remedy where there is one."""
    with Folder() as d:
        cert, private = make(d)
        other = make(d, "other")
        small = make(d, "small", ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"))
        curve = make(d, "curve", ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:secp256k1"))
        locked, older, empty, text, link, closed = (os.path.join(d, n) for n in ("locked", "older", "empty", "text", "link", "closed"))
        run("openssl", "ec", "-in", private, "-aes128", "-passout", "pass:x", "-out", older)
        run("openssl", "pkey", "-in", private, "-aes128", "-passout", "pass:x", "-out", locked)
        for path, data in ((empty, b""), (text, b"hello\n")):
            with open(path, "wb") as f:
                f.write(data)
        for path in (locked, older, empty, text):
            give(path)
        broken = os.path.join(d, "broken.pem")
        with open(broken, "wb") as f:
            f.write(read(cert) + read(cert).replace(b"MII", b"MIA"))
        os.symlink(os.path.join(d, "nowhere"), link)
        cases = [
            (cert, other[1], (other[1], "not that of the first certificate in " + cert)),
            (cert, locked, (locked, "encrypted", "openssl pkey")), (cert, older, (older, "encrypted", "openssl pkey")), (cert, empty, (empty, "empty")), (cert, text, (text, "no private key")),
            (text, private, (text, "no certificate")), (cert, cert, (cert,)), (cert, link, (link, "No such file")),
            (cert, d, (d, "not a regular file")), (small[0], small[1], (small[1], "1024 bits")),
            (curve[0], curve[1], (curve[1], "secp256k1")), (broken, private, (broken, "certificate 2 cannot be read")),
            (os.path.join(d, "none"), private, ("none", "No such file")),
        ]
        for mode in (0o644, 0o660, 0o641):
            path = os.path.join(d, "mode%o" % mode)
            shutil.copy(private, path)
            give(path, mode)
            cases.append((cert, path, (path, "%04o" % mode, "chmod 640")))
        if os.geteuid() == 0:
            path = os.path.join(d, "group")
            shutil.copy(private, path)
            os.chmod(path, 0o640)
            cases.append((cert, path, (path, "may not read it", "chgrp _keys", "chmod 640")))
            path = os.path.join(d, "owner")
            shutil.copy(private, path)
            shutil.chown(path, "nobody", "_keys")
            os.chmod(path, 0o640)
            cases.append((cert, path, (path, "chown root")))
            os.mkdir(closed)
            shutil.copy(private, closed)
            give(os.path.join(closed, "server-key.pem"))
            os.chmod(closed, 0o700)
            os.symlink(os.path.join(closed, "server-key.pem"), os.path.join(d, "into"))
            for path in (os.path.join(closed, "server-key.pem"), os.path.join(d, "into")):
                cases.append((cert, path, (path, "may not enter the folder " + closed)))
            wild = os.path.join(d, "wild")
            os.mkdir(wild)
            shutil.copy(private, wild)
            give(os.path.join(wild, "server-key.pem"))
            os.chmod(wild, 0o777)
            cases.append((cert, os.path.join(wild, "server-key.pem"), ("writable by everybody",)))
            path = os.path.join(d, "others")
            shutil.copy(cert, path)
            os.chmod(path, 0o600)
            cases.append((path, private, (path, "may not read it: certificates are to be where everybody can read them")))
        for c, p, words in cases:
            with Keys(c, p) as k:
                k.bad(*words)
        for ca, words in (((text, ""), (text, "no certificate")), (("", text), (text,)), (("", os.path.join(d, "no")), ("no",)),
                          (("/", ""), ("not a regular file",))):
            with Keys(cert, private, *ca) as k:
                k.bad(*words)
        with Keys(cert, text, takes_over=True) as k:
            k.ends = True
            try:
                raise AssertionError(k.frame())
            except EOFError:
                pass
            assert k.process.wait(PATIENCE_S) == 1 and "no private key" in k.said(), k.said()


def test_a_key_beside_the_certificates():
    """A file with both is taken, and only the certificates leave the process; a chain is sent whole, authorities too."""
    with Folder() as d:
        cert, private = make(d)
        ca = os.path.join(d, "ca")
        for n in ("a", "b"):
            make(ca, n, days=5 if n == "b" else 50)
            os.remove(os.path.join(ca, n + "-key.pem"))
        both = os.path.join(d, "both")
        with open(both, "wb") as f:
            f.write(read(private) + b"a word\n" + read(cert) + read(os.path.join(ca, "a.pem")))
        give(both)
        with Keys(both, both, ca_path=ca) as k:
            f = k.files()
            assert f["chain"] == read(cert) + read(os.path.join(ca, "a.pem"))
            assert f["ca"] == read(os.path.join(ca, "a.pem")) + read(os.path.join(ca, "b.pem"))
            assert abs(f["ca_not_after"] - time.time() - 5 * 86400) < 600
            one = make(os.path.join(d, "c"))
            os.rename(one[0], os.path.join(ca, "c.pem"))
            assert f["ca"] in k.files()["ca"]


def replaced(d, name, how):
    """Both files of another pair come to the place of the old ones, in one of the ways of the world."""
    fresh = make(os.path.join(d, "fresh"), name)
    how(*fresh)
    return read(fresh[0])


def test_followed():
    """Written in place, renamed, behind links as certbot's, with their folder, as kubernetes does: no word from rpcd."""
    with Folder() as d:
        plain = make(os.path.join(d, "plain"))

        def in_place(cert, key):
            for src, dst in zip((cert, key), plain):
                with open(dst, "r+b") as f:
                    f.write(read(src))
                    f.truncate()

        def renamed(cert, key):
            os.rename(cert, plain[0] + ".new")
            shutil.copy(plain[0] + ".new", cert)
            os.rename(plain[0] + ".new", plain[0])
            os.rename(key, plain[1])

        def folder(cert, key):
            new = os.path.join(d, "plain.new")
            os.mkdir(new)
            shutil.copy(cert, os.path.join(new, "server.pem"))
            os.rename(key, os.path.join(new, "server-key.pem"))
            os.rename(os.path.dirname(plain[0]), os.path.join(d, "plain.old%d" % time.monotonic_ns()))
            os.rename(new, os.path.dirname(plain[0]))
        with Keys(*plain) as k:
            seen = {k.files()["number"]}
            for i, how in enumerate((in_place, renamed, folder, renamed)):
                chain = replaced(d, "n%d" % i, how)
                f = k.files()
                assert f["chain"] == chain and f["number"] not in seen, how
                error, signature = k.sign(f["number"])
                assert error == 0 and verifies(chain, signature, VERIFY, "-digest", "sha256")
                seen.add(f["number"])
            # Four of them are kept: five have been there.
            assert sorted(k.sign(n)[0] for n in seen) == [0, 0, 0, 0, ENOENT]
            for path in plain:
                os.utime(path)
            k.silent(5)             # the same bytes
        # certbot: live/NAME/privkey.pem -> ../../archive/NAME/privkey1.pem
        live, archive = os.path.join(d, "live", "x"), os.path.join(d, "archive", "x")
        os.makedirs(live)

        def certbot(number):
            pair = make(archive, "v%d" % number)
            for name, path in zip(("cert.pem", "privkey.pem"), pair):
                os.symlink(os.path.join("..", "..", "archive", "x", os.path.basename(path)), os.path.join(live, name + ".new"))
                os.rename(os.path.join(live, name + ".new"), os.path.join(live, name))
            return read(pair[0])
        first = certbot(1)
        with Keys(os.path.join(live, "cert.pem"), os.path.join(live, "privkey.pem")) as k:
            assert k.files()["chain"] == first
            second = certbot(2)
            assert k.files()["chain"] == second
        # kubernetes: tls.crt -> ..data/tls.crt, ..data -> ..2026_11
        volume = os.path.join(d, "volume")
        os.mkdir(volume)

        def kubernetes(stamp):
            os.mkdir(os.path.join(volume, stamp))
            pair = make(os.path.join(volume, stamp), "tls")
            os.symlink(stamp, os.path.join(volume, "..data_tmp"))
            os.rename(os.path.join(volume, "..data_tmp"), os.path.join(volume, "..data"))
            return read(pair[0])
        first = kubernetes("..1")
        for name in ("tls.pem", "tls-key.pem"):
            os.symlink(os.path.join("..data", name), os.path.join(volume, name))
        with Keys(os.path.join(volume, "tls.pem"), os.path.join(volume, "tls-key.pem")) as k:
            assert k.files()["chain"] == first
            second = kubernetes("..2")
            shutil.rmtree(os.path.join(volume, "..1"))
            assert k.files()["chain"] == second


def test_pair_that_does_not_fit_for_a_moment():
    """The certificate comes, the key some seconds later: no word of it.  If it never comes it is told once; the old pair goes on."""
    with Folder() as d:
        cert, private = make(os.path.join(d, "a"))
        fresh = make(os.path.join(d, "b"))
        with Keys(cert, private) as k:
            old = k.files()
            os.rename(fresh[0], cert)
            k.silent(3)             # less than the grace, more than a look
            os.rename(fresh[1], private)
            new = k.files()
            assert new["number"] != old["number"] and new["chain"] == read(cert)
            with open(private + ".new", "wb") as f:
                f.write(b"half of it")
            give(private + ".new")
            kept = read(private)
            os.rename(private + ".new", private)
            since = time.monotonic()
            k.bad(private, "no private key")
            assert 4 < time.monotonic() - since < PATIENCE_S
            error, signature = k.sign(new["number"])
            assert error == 0 and verifies(new["chain"], signature, VERIFY, "-digest", "sha256")
            k.silent(6)             # once
            with open(private, "wb") as f:
                f.write(kept)
            assert k.files()["number"] == new["number"]     # all is well again
            # One that has ended does not take the place of one that has not.
            request = run("openssl", "req", "-new", "-key", private, "-subj", "/CN=late").stdout
            run("openssl", "x509", "-req", "-signkey", private, "-days", "-1", "-out", cert, data=request)
            k.bad(cert, "has ended")
            assert k.sign(new["number"])[0] == 0
        # There was nothing before: it is taken.
        with Keys(cert, private) as k:
            assert k.files()["subject"] == "CN = late"


def test_frames_that_are_none():
    """What is not said by rpcd ends the process, with a line; nothing is asked before the setup."""
    with Folder() as d:
        cert, private = make(d)
        good = [cert, private, "", "", False, 2]
        for kind, body in ((MSG.KEYS_SIGN, [1, 0, b"x"]), (MSG.KEYS_SERVE, []), (MSG.KEYS_FILES, []), (9999, [])):
            k = Keys.__new__(Keys)
            k.setup = lambda *a, **kw: None
            Keys.__init__(k, cert, private, serve=False)
            with k:
                k.ends = True
                k.send(kind, body)
                assert k.process.wait(PATIENCE_S) == 1, kind
        for i, value in ((0, ""), (1, ""), (0, "x" * 5000), (5, 9), (2, 7), (4, "yes")):
            k = Keys.__new__(Keys)
            k.setup = lambda *a, **kw: None
            Keys.__init__(k, cert, private, serve=False)
            with k:
                k.ends = True
                k.send(MSG.KEYS_SETUP, good[:i] + [value] + good[i + 1:])
                assert k.process.wait(PATIENCE_S) == 1, (i, value)


# -- with rpcd ---------------------------------------------------------------

def https(cluster, cert, key, **more):
    return cluster.add("n1", 1, rpcd=dict({"https_port": 8501, "tls.https.cert_file": cert, "tls.https.key_file": key}, **more),
                       raftd={"bootstrap": True})


def ready(node):
    """Certificates are there: not before is rpcd ready, though it serves plain HTTP already."""
    node.up()
    wait_for("certificates", lambda: node.stats("rpcd")["keys_files_changed"] != "0")


def shaken(node, cert):
    """A new session of TLS, whose signature is made by the key; the status of an answer in it."""
    context = ssl.create_default_context(cafile=cert)
    context.check_hostname = False
    connection = http.client.HTTPSConnection(node.addr, 8501, context=context, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/v1/status/leader")
        return connection.getresponse().status
    finally:
        connection.close()


def test_no_start_without_a_key():
    """rpcd says what is wrong with a file and ends; with the key made readable it is there."""
    with Folder() as d, Cluster("127.154.1") as c:
        cert, private = make(d)
        os.chmod(private, 0o644)
        node = https(c, cert, private)
        node.start()
        node.expect_end("rpcd", 1)
        assert private + ": others can read or write the key (mode 0644)" in node.log("rpcd"), node.log("rpcd")
        os.chmod(private, 0o640)
        node.conf = os.path.relpath(node.conf)      # the program with TLS finds it from elsewhere
        node.start("rpcd")
        ready(node)
        assert shaken(node, cert) == 200
        stats = node.stats("rpcd")
        assert stats["keys_signatures"] == "1", stats
        assert stats["helper_keys"] == "running" and stats["keys_files_changed"] == "1" and stats["keys_trouble"] == "", stats
        assert "certificate of HTTPS: CN = server, until " in node.log("rpcd")


def test_not_there_without_https():
    """A certificate alone starts nothing: the port of HTTPS does; authorities come by a reload, and bad ones change nothing."""
    with Folder() as d, Cluster("127.154.5") as c:
        cert, private = make(d)
        ca, _ = make(os.path.join(d, "ca"), "authority")
        node = https(c, cert, private, https_port=0).start()
        node.up()
        assert node.stats("rpcd")["helper_keys"] == "none" and not [p for p in children(node.pid("rpcd")) if title(p) == "rpcd: keys"]
        conf = {"http_addresses": [node.addr], "http_admin": True, "https_port": 8501, "tls.https.cert_file": cert,
                "tls.https.key_file": private}
        node.write("rpcd.conf", conf)
        node.stop("rpcd")
        node.start("rpcd")
        ready(node)
        assert shaken(node, cert) == 200
        os.remove(os.path.join(d, "ca", "authority-key.pem"))        # of a folder each file is read
        with open(ca) as f:
            good = f.read()

        def lets_in():
            try:
                return shaken(node, cert) == 200
            except OSError:         # of TLS, too
                return False
        node.write("rpcd.conf", dict(conf, **{"tls.https.ca_file": ca, "tls.https.verify_incoming": True}))
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("nobody without a certificate is let in", lambda: not lets_in())
        assert node.stats("rpcd")["keys_files_changed"] == "2"
        node.write("rpcd.conf", dict(conf, **{"tls.https.ca_path": os.path.dirname(ca)}))
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("everybody is let in", lets_in)
        assert node.stats("rpcd")["keys_files_changed"] == "2"       # the same bytes
        with open(ca, "w") as f:
            f.write("none\n")
        wait_for("it is told", lambda: ca in node.stats("rpcd")["keys_trouble"], PATIENCE_S)
        assert shaken(node, cert) == 200
        with open(ca, "w") as f:
            f.write(good)
        wait_for("all is well", lambda: node.stats("rpcd")["keys_trouble"] == "")


def test_killed_and_frozen():
    """Another process is there soon, with the same key: nothing is said of it as new; a reload with bad files leaves it."""
    with Folder() as d, Cluster("127.154.2") as c:
        cert, private = make(d)
        node = https(c, cert, private).start()
        ready(node)
        for sent, deaths in ((signal.SIGKILL, "1"), (signal.SIGSTOP, "2")):
            pid = wait_for("its process", lambda: keys_process(node))
            since = time.monotonic()
            os.kill(pid, sent)
            if sent == signal.SIGKILL:
                assert shaken(node, cert) == 200        # it waits for the next process
            wait_for("another one", lambda: keys_process(node) not in (None, pid), PATIENCE_S)
            print("%.1f s" % (time.monotonic() - since))
            wait_for("it was counted", lambda: node.stats("rpcd")["keys_process_deaths"] == deaths)
            wait_for("it runs", lambda: "restarted" in node.stats("rpcd")["helper_keys"])
            assert shaken(node, cert) == 200
        stats = node.stats("rpcd")
        assert (stats["keys_process_stuck"], stats["keys_files_changed"]) == ("1", "1"), stats
        pid = keys_process(node)
        with open(private, "w") as f:
            f.write("no key\n")
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("it is told", lambda: "no private key" in node.stats("rpcd")["keys_trouble"], PATIENCE_S)
        assert keys_process(node) == pid and shaken(node, cert) == 200
        assert ": the certificate and key from before go on" in node.log("rpcd")
        # Other paths, and walls that do not let them be read: another process, which has to have a key before it takes over.
        with tempfile.TemporaryDirectory(prefix="tv-keys-", dir="/opt") as other:
            os.chmod(other, 0o755)
            fresh = make(other, "elsewhere")
            os.chmod(fresh[1], 0o644)

            def reload():
                node.write("rpcd.conf", {"http_addresses": [node.addr], "http_admin": True, "https_port": 8501,
                                         "tls.https.cert_file": fresh[0], "tls.https.key_file": fresh[1]})
                node.signal(signal.SIGHUP, "rpcd")
            reload()
            wait_for("it is told", lambda: fresh[1] + ": others can read or write the key" in node.log("rpcd"), PATIENCE_S)
            assert keys_process(node) == pid
            os.chmod(fresh[1], 0o640)
            reload()
            wait_for("it has taken over", lambda: node.stats("rpcd")["keys_files_changed"] == "2", PATIENCE_S)
            assert keys_process(node) != pid and shaken(node, fresh[0]) == 200 and "another certificate from now on: CN = elsewhere" in node.log("rpcd")
            assert node.stats("rpcd")["keys_trouble"] == ""


def test_one_process_has_the_key():
    """All memory of all processes of a node is read: the key, in any form, is in "rpcd: keys" alone."""
    if os.geteuid() != 0:
        skip("needs root, to read the memory of processes")
    with Folder() as d, Cluster("127.154.3") as c:
        cert, private = make(d)
        number = run("openssl", "pkey", "-in", private, "-noout", "-text").stdout.split(b"priv:")[1].split(b"pub:")[0]
        number = bytes.fromhex(number.decode().replace(":", "").replace("\n", "").replace(" ", "")).rjust(32, b"\0")[-32:]
        text = b"".join(read(private).split(b"\n")[1:-2])
        forms = {number[:16], number[16:], number[::-1][:16], number[::-1][16:], text[:40], text[40:80], number.hex().encode()[:32]}
        node = https(c, cert, private).start()
        ready(node)

        def processes(pid):
            return [pid] + [p for child in children(pid) for p in processes(child)]
        for round in range(2):
            for _ in range(20):
                assert shaken(node, cert) == 200
            holders = set()
            for daemon in node.daemons:
                for pid in processes(node.pid(daemon)):
                    if any(f in piece for piece in memory(pid) for f in forms):
                        holders.add(pid)
            assert holders == {keys_process(node)}, [(p, title(p)) for p in holders]
            node.signal(signal.SIGHUP, "rpcd")
            wait_for("it was reloaded", lambda: node.log("rpcd").count("configuration reloaded") > round)


def test_from_inside():
    """Whoever takes over "rpcd: keys" has the keys, and no way out with them: no socket, no program, no file to write."""
    why = missing()
    if why is not None:
        skip(why)
    with Folder() as d, Cluster("127.154.4") as c:
        cert, private = make(d)
        node = https(c, cert, private).start()
        ready(node)
        pid, at = keys_process(node), -100

        def c_open(path, flags=0):
            return "openat", at, path.encode() + b"\0", flags, 0o600
        tries = {
            "read /etc/passwd": c_open("/etc/passwd"), "write beside the key": c_open(os.path.join(d, "new"), os.O_WRONLY | os.O_CREAT),
            "write a file in /tmp": c_open("/tmp/tv-keys-%d" % os.getpid(), os.O_WRONLY | os.O_CREAT),
            "write a certificate": c_open(cert, os.O_WRONLY), "read the server key": c_open(c.keys + "/server.key"),
            "run a program": ("execve", b"/bin/true\0", 0, 0), "fork": ("fork",), "clone": ("clone", signal.SIGCHLD, 0, 0, 0, 0),
            "trace rpcd": ("ptrace", 16, node.pid("rpcd"), 0, 0), "signal rpcd": ("kill", node.pid("rpcd"), signal.SIGKILL),
            "become root": ("setuid", 0),
            "TCP": ("socket", socket.AF_INET, socket.SOCK_STREAM, 0), "UDP": ("socket", socket.AF_INET, socket.SOCK_DGRAM, 0),
            "TCP by IPv6": ("socket", socket.AF_INET6, socket.SOCK_STREAM, 0), "unix": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
        }
        allowed = [n for n, r in zip(tries, inside(pid, *tries.values())) if r >= 0]
        assert not allowed, allowed
        assert inside(pid, c_open(cert))[0] >= 0        # what it is for
        status = dict(line.split(":", 1) for line in open("/proc/%d/status" % pid).read().splitlines() if ":" in line)
        assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0, status
        assert status["Uid"].split() == [str(pwd.getpwnam("_keys").pw_uid)] * 4, status["Uid"]
        assert shaken(node, cert) == 200


if __name__ == "__main__":
    main(test_signatures, test_files_that_are_no_good, test_a_key_beside_the_certificates, test_followed,
         test_pair_that_does_not_fit_for_a_moment, test_frames_that_are_none, test_no_start_without_a_key, test_not_there_without_https, test_killed_and_frozen,
         test_one_process_has_the_key, test_from_inside)

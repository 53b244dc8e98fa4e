#!/usr/bin/env python3
"""clusterctl tls: CAs and certificates that openssl(1) believes, in files of Consul's names that are never overwritten."""
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, ensure_users, main, skip  # noqa: E402
from tlskit import Server, context, tls  # noqa: E402


def ctl(folder, *args):
    p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), *args], cwd=folder, capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, timeout=60)
    return p.returncode, p.stdout, p.stderr


def openssl(folder, *args, status=0):
    if not shutil.which("openssl"):
        skip("needs openssl(1)")
    p = subprocess.run(["openssl", *args], cwd=folder, capture_output=True, text=True, timeout=60)
    assert status is None or p.returncode == status, (args, p)
    return p.stdout + p.stderr


def told(folder, cert):
    return openssl(folder, "x509", "-in", cert, "-noout", "-text")


def verify(folder, cert, purpose, ca="consul-agent-ca.pem", status=0, name=None):
    return openssl(folder, "verify", "-x509_strict", "-purpose", purpose, *(["-verify_hostname", name] if name else []),
                   "-CAfile", ca, cert, status=status)


def days(text):
    """From now to the end of a certificate."""
    end = re.search(r"Not After : (.*)", text).group(1)
    return (ssl.cert_time_to_seconds(end) - time.time()) / 86400


def test_chain():
    """A CA, and one certificate of each kind: names, usage, keys, lengths of life; believed for what they are for."""
    with tempfile.TemporaryDirectory() as d:
        out = tls(d, "ca", "create")
        assert "Keep it off the nodes" in out and "clusterctl tls cert create --server" in out, out
        out = tls(d, "cert", "create", "--server", "--node", "n1", "--additional-dnsname", "x.example.com",
                  "--additional-dnsname", "*.y.example.com", "--additional-ipaddress", "::1", "--additional-ipaddress=192.0.2.7")
        for line in ("install -m 0640 -o root -g _keys dc1-server-consul-0-key.pem", "https_port = 8501", "cert_file = "):
            assert line in out, out
        out = tls(d, "cert", "create", "--client", "--days", "30")
        out = tls(d, "cert", "create", "--cli")
        assert "--client-cert dc1-cli-consul-0.pem --client-key dc1-cli-consul-0-key.pem" in out, out
        assert sorted(os.listdir(d)) == ["consul-agent-ca-key.pem", "consul-agent-ca.pem"] + [
            "dc1-%s-consul-0%s.pem" % (kind, key) for kind in ("cli", "client", "server") for key in ("-key", "")], os.listdir(d)
        for name in os.listdir(d):
            mode = stat.S_IMODE(os.stat(os.path.join(d, name)).st_mode)
            assert mode == (0o600 if "-key" in name else 0o644), (name, oct(mode))
        # A common name that is too long is left for the kind's own.
        domain = "example-of-a-domain.that-is-long.but-good-for-all-that.test"
        tls(d, "ca", "create", "--domain", domain)
        tls(d, "cert", "create", "--server", "--domain", domain)
        text = told(d, "dc1-server-%s-0.pem" % domain)
        assert ", CN = server\n" in text and "DNS:server.dc1.%s," % domain in text, text
        ca, server, client, cli = (told(d, n) for n in ("consul-agent-ca.pem", "dc1-server-consul-0.pem",
                                                         "dc1-client-consul-0.pem", "dc1-cli-consul-0.pem"))
        assert "CA:TRUE, pathlen:0" in ca and "Digital Signature, Certificate Sign, CRL Sign" in ca, ca
        assert "CN = Triumvir Agent CA " in ca and 1824 < days(ca) < 1826, ca
        assert "Name Constraints" not in ca and "Alternative" not in ca, ca
        for text, end, names in (
                (server, 365, "DNS:x.example.com, DNS:*.y.example.com, DNS:n1.server.dc1.consul, DNS:server.dc1.consul, "
                 "DNS:localhost, IP Address:0:0:0:0:0:0:0:1, IP Address:192.0.2.7, IP Address:127.0.0.1"),
                (client, 30, "DNS:client.dc1.consul, DNS:localhost, IP Address:127.0.0.1"),
                (cli, 365, "DNS:cli.dc1.consul, DNS:localhost")):
            assert names + "\n" in text and end - 1 < days(text) < end + 1, text
            assert "CA:FALSE" in text and "prime256v1" in text and "ecdsa-with-SHA256" in text and "Version: 3" in text, text
            key_id = re.search(r"Subject Key Identifier: *\n *(\S+)", ca).group(1)
            assert re.search(r"Authority Key Identifier: *\n *(keyid:)?" + key_id, text), text
        serials = {re.search(r"Serial Number:\s*(\S+)", t).group(1) for t in (ca, server, client, cli)}
        assert len(serials) == 4 and all(s.count(":") == 15 for s in serials), serials
        verify(d, "consul-agent-ca.pem", "sslserver")
        for name in ("server.dc1.consul", "n1.server.dc1.consul", "localhost", "z.y.example.com"):
            verify(d, "dc1-server-consul-0.pem", "sslserver", name=name)
        verify(d, "dc1-server-consul-0.pem", "sslserver", name="example.com", status=2)
        for name in ("server", "client", "cli"):
            verify(d, "dc1-%s-consul-0.pem" % name, "sslclient")
        verify(d, "dc1-client-consul-0.pem", "sslserver")
        verify(d, "dc1-cli-consul-0.pem", "sslserver", status=2)
        for name in ("consul-agent-ca", "dc1-server-consul-0"):
            assert openssl(d, "pkey", "-in", name + "-key.pem", "-pubout") == openssl(d, "x509", "-in", name + ".pem", "-noout", "-pubkey")
            with open(os.path.join(d, name + "-key.pem"), encoding="ascii") as f:
                assert f.readline() == "-----BEGIN EC PRIVATE KEY-----\n"       # the only form that Consul reads


def test_never_overwritten():
    with tempfile.TemporaryDirectory() as d:
        tls(d, "ca", "create", "--domain", "x.example")
        before = {n: open(os.path.join(d, n), "rb").read() for n in os.listdir(d)}
        rc, _, err = ctl(d, "tls", "ca", "create", "--domain", "x.example")
        assert rc == 1 and "x.example-agent-ca.pem or x.example-agent-ca-key.pem is there already" in err, err
        os.remove(os.path.join(d, "x.example-agent-ca.pem"))
        assert ctl(d, "tls", "ca", "create", "--domain", "x.example")[0] == 1
        with open(os.path.join(d, "x.example-agent-ca.pem"), "wb") as f:
            f.write(before["x.example-agent-ca.pem"])
        # The first number that neither file has, a link that leads nowhere included.
        os.symlink("nowhere", os.path.join(d, "dc2-server-x.example-0-key.pem"))
        open(os.path.join(d, "dc2-server-x.example-1.pem"), "w").close()
        for number in (2, 3):
            out = json.loads(ctl(d, "--json", "tls", "cert", "create", "--server", "--domain", "x.example", "--dc", "dc2")[1])
            assert out["Certificate"] == "dc2-server-x.example-%d.pem" % number and out["Key"] == "dc2-server-x.example-%d-key.pem" % number, out
            assert out["Names"] == ["server.dc2.x.example", "localhost", "127.0.0.1"] and out["CA"] == "x.example-agent-ca.pem", out
        assert not os.path.exists(os.path.join(d, "nowhere"))
        assert all(open(os.path.join(d, n), "rb").read() == b for n, b in before.items())


def test_constraints():
    """A CA that may sign for some names only signs for no others, and who would do it all the same is not believed."""
    with tempfile.TemporaryDirectory() as d:
        tls(d, "ca", "create", "--name-constraint", "--additional-name-constraint", "ui.example.com", "--cluster-id",
            "4c1b7a3e-0000-4000-8000-000000000001", "--common-name", "Our own CA", "--days", "100")
        text = told(d, "consul-agent-ca.pem")
        assert re.search(r"Name Constraints: critical\n\s*Permitted:\n\s*DNS:ui.example.com\n\s*DNS:consul\n\s*DNS:localhost\n", text), text
        assert "URI:spiffe://4c1b7a3e-0000-4000-8000-000000000001.consul" in text and "CN = Our own CA" in text, text
        tls(d, "cert", "create", "--server", "--additional-dnsname", "a.ui.example.com", "--days", "90")
        verify(d, "dc1-server-consul-0.pem", "sslserver", name="a.ui.example.com")
        # It ends with the CA, and no later.
        assert "as the CA does" in tls(d, "cert", "create", "--client")
        assert 99 < days(told(d, "dc1-client-consul-0.pem")) < 101
        rc, _, err = ctl(d, "tls", "cert", "create", "--server", "--additional-dnsname", "other.example.com")
        assert rc == 1 and "would not be believed: permitted subtree violation" in err, err
        assert len(os.listdir(d)) == 6, os.listdir(d)


def test_wrong_calls():
    """A sentence for each, and no file."""
    with tempfile.TemporaryDirectory() as d:
        for status, says, *args in (
                (2, "usage: clusterctl tls", ), (2, "usage: clusterctl tls ca create", "ca"),
                (2, "usage: clusterctl tls cert create", "cert", "create"),
                (2, "usage: clusterctl tls cert create", "cert", "create", "--server", "--cli"),
                (2, "--days: from 1 to 36500, not 0", "ca", "create", "--days", "0"),
                (2, "--days: from 1 to 36500, not 36501", "ca", "create", "--days", "36501"),
                (2, "is not a number", "ca", "create", "--days", "-1"),
                (2, "--days: from 1 to 36500", "cert", "create", "--cli", "--days", "99999999999999999999"),
                (2, "is no name of a domain", "ca", "create", "--domain", "a/b"),
                (2, "is no name of a domain", "ca", "create", "--domain", ""),
                (2, "is no name of a domain", "ca", "create", "--domain", "a..b"),
                (2, "is no name of a domain", "ca", "create", "--domain", "*.example"),
                (2, "become part of a host's name", "cert", "create", "--server", "--domain", "*.example"),
                (2, "become part of a host's name", "cert", "create", "--server", "--dc", "*.a"),
                (2, 'write it without the "*."', "ca", "create", "--name-constraint", "--additional-name-constraint", "*.x"),
                (2, "is no id", "ca", "create", "--cluster-id", "a b"),
                (2, "goes with --name-constraint", "ca", "create", "--additional-name-constraint", "x"),
                (1, "a common name has 1 to 64 bytes", "ca", "create", "--common-name", ""),
                (1, "a common name has 1 to 64 bytes", "ca", "create", "--common-name", "x" * 65),
                (2, "become part of a host's name", "cert", "create", "--server", "--dc", "../x"),
                (2, "--node goes with --server", "cert", "create", "--client", "--node", "n"),
                (2, "is no name of a host", "cert", "create", "--server", "--node", "a b"),
                (2, "is no name of a host", "cert", "create", "--server", "--additional-dnsname", "a,DNS:b"),
                (2, "neither an IPv4 nor an IPv6 address", "cert", "create", "--server", "--additional-ipaddress", "1.2.3"),
                (2, "written --server here", "cert", "create", "-server"),
                (1, "consul-agent-ca.pem: No such file or directory: name it with --ca and --key", "cert", "create", "--server")):
            rc, _, err = ctl(d, "tls", *args)
            assert rc == status and says in err, (args, rc, err)
        assert os.listdir(d) == [], os.listdir(d)
        tls(d, "ca", "create")
        tls(d, "ca", "create", "--domain", "other")
        tls(d, "cert", "create", "--server")
        for says, ca, key in (("the CA's key is not that of its certificate", "consul-agent-ca.pem", "other-agent-ca-key.pem"),
                              ("the CA's certificate is not in PEM form", "consul-agent-ca-key.pem", "consul-agent-ca-key.pem"),
                              ("the CA's key is not in PEM form", "consul-agent-ca.pem", "consul-agent-ca.pem"),
                              ("is not that of a CA", "dc1-server-consul-0.pem", "dc1-server-consul-0-key.pem"),
                              ("Is a directory", ".", "consul-agent-ca-key.pem")):
            rc, _, err = ctl(d, "tls", "cert", "create", "--server", "--ca", ca, "--key", key)
            assert rc == 1 and says in err, (says, rc, err)
        assert not os.path.exists(os.path.join(d, "dc1-server-consul-1.pem"))
        os.chmod(d, 0o500)
        if os.geteuid() != 0:
            assert ctl(d, "tls", "cert", "create", "--server")[0] == 1
        os.chmod(d, 0o700)


def test_other_cas():
    """CAs of openssl(1), with keys of each kind, sign too; one that is over does not."""
    with tempfile.TemporaryDirectory() as d:
        for kind, args in (("rsa", ["-newkey", "rsa:2048"]), ("p384", ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"]),
                           ("ed25519", ["-newkey", "ed25519"])):
            openssl(d, "req", "-x509", *args, "-nodes", "-subj", "/CN=" + kind, "-days", "400", "-addext", "keyUsage=critical,keyCertSign", "-keyout", kind + "-key.pem", "-out", kind + ".pem")
            tls(d, "cert", "create", "--server", "--dc", kind, "--ca", kind + ".pem", "--key", kind + "-key.pem")
            verify(d, kind + "-server-consul-0.pem", "sslserver", ca=kind + ".pem")
        openssl(d, "req", "-new", "-key", "rsa-key.pem", "-subj", "/CN=old", "-out", "old.csr")
        with open(os.path.join(d, "ca.ext"), "w", encoding="ascii") as f:
            f.write("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n")
        openssl(d, "x509", "-req", "-in", "old.csr", "-signkey", "rsa-key.pem", "-days", "-1", "-extfile", "ca.ext", "-out", "old.pem")
        rc, _, err = ctl(d, "tls", "cert", "create", "--server", "--ca", "old.pem", "--key", "rsa-key.pem")
        assert rc == 1 and "would not be believed: certificate has expired" in err, (rc, err)


def test_validate():
    """What would keep rpcd from starting is found before: files as "rpcd: keys" will see them, by clusterctl validate."""
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as d:
        os.chmod(d, 0o755)
        assert ctl(d, "keygen", d)[0] == 0
        tls(d, "ca", "create")
        cert, key, other = (os.path.join(d, "dc1-server-consul-%s.pem" % n) for n in ("0", "0-key", "1-key"))
        for _ in range(2):
            tls(d, "cert", "create", "--server")

        def validate(status, says, **keys):
            with open(d + "/rpcd.conf", "w", encoding="ascii") as f:
                f.write("https_port = 8501\n" + "".join('tls.https.%s = "%s"\n' % kv for kv in {"cert_file": cert, "key_file": key, **keys}.items()))
            rc, out, err = ctl(d, "validate", d)
            assert rc == status and says in out + err, (says, rc, out, err)
            # A reload has no need of them: bad files leave the old ones in force.
            p = subprocess.run([os.path.join(BUILD, "rpcd", "rpcd"), "-n", "-c", d], capture_output=True, text=True, timeout=60)
            assert p.returncode == 0 and "https_port" in p.stdout, p

        with open(d + "/cluster.conf", "w", encoding="ascii") as f:
            f.write('datacenter = "dc1"\nbind = "127.0.0.1"\n' + "".join('%s = "%s/%s"\n' % (k, d, v) for k, v in (
                ("data_dir", "data"), ("run_dir", "run"), ("cluster_key", "cluster.key"), ("server_pub", "server.pub"))))
        if os.geteuid() == 0:
            ensure_users()
            validate(1, 'the user of "rpcd: keys" may not read it: chgrp _keys ' + key)
            for path in key, other:
                shutil.chown(path, "root", "_keys")
                os.chmod(path, 0o640)
        validate(0, "the configuration is valid")
        validate(1, "its key is not that of the first certificate", key_file=other)
        validate(1, "nowhere.pem: No such file or directory", cert_file=d + "/nowhere.pem")
        validate(1, d + "/rpcd.conf", ca_file=d + "/rpcd.conf")
        os.chmod(key, 0o644)
        validate(1, "others can read or write the key (mode 0644): chown root:_keys")
        os.chmod(key, 0o600)
        if os.geteuid() == 0:
            validate(1, "may not read it")
            os.chmod(key, 0o640)
            os.chmod(d, 0o700)
            validate(1, "may not enter the folder " + d)


def test_clients_believe():
    """A server with such a certificate is believed by Python's ssl and by curl, where there is one."""
    with tempfile.TemporaryDirectory() as d:
        tls(d, "ca", "create")
        tls(d, "cert", "create", "--server")
        with Server(("127.0.0.1", 0), context(d, "dc1-server-consul-0")) as s:
            for host in ("localhost", "127.0.0.1"):
                c = ssl.create_default_context(cafile=d + "/consul-agent-ca.pem")
                c.verify_flags |= ssl.VERIFY_X509_STRICT
                with socket.create_connection(("127.0.0.1", s.port)) as raw, c.wrap_socket(raw, server_hostname=host) as sealed:
                    assert sealed.getpeercert()
                if shutil.which("curl"):
                    subprocess.run(["curl", "-sS", "--cacert", d + "/consul-agent-ca.pem", "--resolve", "localhost:%d:127.0.0.1" % s.port,
                                    "https://%s:%d/" % (host, s.port)], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main(test_chain, test_never_overwritten, test_constraints, test_wrong_calls, test_other_cas, test_validate, test_clients_believe)

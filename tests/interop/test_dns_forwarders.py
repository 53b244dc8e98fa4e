#!/usr/bin/env python3
"""Resolvers and a load balancer that ask our DNS: Debian's dnsmasq, unbound, BIND and systemd-resolved as doc/operations.md sets them up,
glibc and `host` behind them, haproxy by SRV records.

The package systemd-resolved takes the resolver of the machine over when it is installed; TV_RESOLVED names a folder in which it was only
unpacked.
"""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system", "lib"))
from cluster import TOP, Cluster, main, skip  # noqa: E402
from waiting import PATIENCE, NotYet, wait_for  # noqa: E402

NET = "127.188"
# Programs of a service's users: addresses by glibc's resolver, in its order.
LOOK_UP = "import socket, sys; print(*sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], None, socket.AF_INET)}))"


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        skip("needs " + ", ".join(missing))
    if os.geteuid() != 0:
        skip("needs root")


def example(file):
    """What doc/operations.md puts into a file: the indented lines behind its name."""
    with open(os.path.join(TOP, "doc", "operations.md"), encoding="utf-8") as f:
        found = re.search(r"`%s`:\n\n((?:    .*\n)+)" % re.escape(file), f.read())
    assert found, "doc/operations.md has no example of " + file
    return re.sub(r"^    ", "", found.group(1), flags=re.M)


def register(node, name, address, port=80, status="passing", service="web"):
    node.put("/v1/catalog/register", {
        "Node": name, "Address": address, "Service": {"Service": service, "Port": port},
        "Check": {"Name": "alive", "ServiceID": service, "Status": status}}).ok()


def one(number, **rpcd):
    c = Cluster("%s.%d" % (NET, number))
    node, = c.servers(1, rpcd=rpcd)
    c.formed([node])
    return c, node


@contextlib.contextmanager
def running(c, name, *command):
    """A program that stays in the foreground; it is told to end at the end."""
    path = os.path.join(c.dir, name + ".log")
    with open(path, "wb") as log:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield p
    except BaseException:
        with open(path, errors="replace") as f:
            print("--- %s\n%s" % (name, f.read()[-3000:]), flush=True)
        raise
    finally:
        p.terminate()
        try:
            p.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


def write(c, name, text):
    path = os.path.join(c.dir, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return path


class Resolver:
    """What a program sees whose /etc/resolv.conf names this server."""

    def __init__(self, c, server):
        self.server = server
        self.conf = write(c, "resolv.conf", "nameserver %s\noptions timeout:2 attempts:2\n" % server)
        self.switch = write(c, "nsswitch.conf", "hosts: files dns\n")

    def addresses(self, name):
        p = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf '
                            '&& shift 2 && exec "$@"', "sh", self.conf, self.switch, sys.executable, "-c", LOOK_UP, name],
                           capture_output=True, text=True)
        if p.returncode != 0:
            raise NotYet(p.stderr.strip().splitlines()[-1])
        return p.stdout.split()

    def host(self, kind, name):
        p = subprocess.run(["host", "-t", kind, name, self.server], capture_output=True, text=True)
        return sorted(line for line in p.stdout.splitlines() if line.startswith(name))


def forwarded(c, node, server):
    """What is registered is found behind the forwarder, changes at once, and a large answer is whole."""
    r = Resolver(c, server)
    register(node, "web1", "10.1.1.1")
    register(node, "web2", "10.1.1.2", 8080)
    both = ["10.1.1.1", "10.1.1.2"]
    wait_for("both are found", lambda: r.addresses("web.service.consul") == both)
    assert r.addresses("web1.node.consul") == both[:1]
    assert r.host("SRV", "web.service.consul") == [
        "web.service.consul has SRV record 1 1 80 web1.node.dc1.consul.",
        "web.service.consul has SRV record 1 1 8080 web2.node.dc1.consul."], r.host("SRV", "web.service.consul")
    assert r.host("A", "absent.service.consul") == []
    register(node, "web2", "10.1.1.2", 8080, "critical")
    wait_for("what fails is left out", lambda: r.addresses("web.service.consul") == both[:1])
    register(node, "web2", "10.1.1.2", 8080)
    wait_for("and is back", lambda: r.addresses("web.service.consul") == both)
    many = sorted("10.2.0.%d" % i for i in range(1, 121))
    for i, address in enumerate(many):
        register(node, "many%d" % i, address, service="many")
    wait_for("all of many are found, over TCP", lambda: r.addresses("many.service.consul") == many)


def test_dnsmasq():
    needs("dnsmasq", "host", "unshare")
    c, node = one(1, **{"dns_config.enable_truncate": True})
    with c:
        server = c.net + ".53"
        conf = write(c, "dnsmasq.conf", example("/etc/dnsmasq.d/consul.conf").replace("127.0.0.1", node.addr))
        with running(c, "dnsmasq", "dnsmasq", "--keep-in-foreground", "--conf-file=" + conf, "--no-resolv", "--no-hosts", "--user=root",
                     "--pid-file=", "--bind-interfaces", "--listen-address=" + server, "--log-facility=-"):
            forwarded(c, node, server)


def test_unbound():
    needs("unbound", "host", "unshare")
    c, node = one(2, **{"dns_config.enable_truncate": True})
    with c:
        server = c.net + ".53"
        # As Debian has it: it proves answers, from the root's key on.
        conf = write(c, "unbound.conf", """server:
    interface: %s
    access-control: 127.0.0.0/8 allow
    do-daemonize: no
    use-syslog: no
    chroot: ""
    username: ""
    pidfile: ""
    directory: "%s"
    trust-anchor: ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"
remote-control:
    control-enable: no
""" % (server, c.dir) + example("/etc/unbound/unbound.conf.d/consul.conf").replace("127.0.0.1", node.addr))
        with running(c, "unbound", "unbound", "-d", "-c", conf):
            forwarded(c, node, server)


def test_bind():
    needs("named", "host", "unshare", "ip")
    c, node = one(4, **{"dns_config.enable_truncate": True})
    with c:
        server = c.net + ".53"
        # It listens on addresses of interfaces only; the test's network namespace is its own.
        subprocess.run(["ip", "address", "add", server + "/32", "dev", "lo"], check=True)
        text = re.search(r"in named.conf;.*?:\n\n((?:    .*\n)+)", open(os.path.join(TOP, "doc", "operations.md"), encoding="utf-8").read())
        conf = re.sub(r"^    ", "", text.group(1), flags=re.M).replace("127.0.0.1", node.addr)
        # As Debian has it: it proves answers.
        assert conf.startswith("options {\n"), conf
        conf = write(c, "named.conf", conf.replace("options {\n", """options {
    directory "%s";
    listen-on { %s; };
    listen-on-v6 { none; };
    pid-file none;
    session-keyfile none;
    dnssec-validation auto;
    max-records-per-type 5000;
    managed-keys-directory "%s";
    allow-query { any; };
    allow-recursion { any; };
""" % (c.dir, server, c.dir), 1) + "controls { };\n")
        with running(c, "named", "named", "-g", "-4", "-n", "1", "-c", conf):
            forwarded(c, node, server)


RESOLVED = "lib/systemd/systemd-resolved"
# What Debian's package and systemd make for it: a user, and a place in /run. Its own mounts hide those of the machine.
RESOLVED_BEGIN = """set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/resolved.conf.d
cp "$2" /run/systemd/resolved.conf.d/consul.conf
{ grep -v ^systemd-resolve: /etc/passwd; echo 'systemd-resolve:x:64998:64998::/:/usr/sbin/nologin'; } >/run/passwd
{ grep -v ^systemd-resolve: /etc/group; echo 'systemd-resolve:x:64998:'; } >/run/group
mount --bind /run/passwd /etc/passwd
mount --bind /run/group /etc/group
exec "$1"
"""


def resolved():
    """The program; a package that is only unpacked may lack libraries."""
    found = [p for p in (os.path.join(d, RESOLVED) for d in (os.environ.get("TV_RESOLVED", ""), "/usr", "/")) if os.access(p, os.X_OK)]
    if not found:
        skip("needs systemd-resolved, installed or (TV_RESOLVED) unpacked")
    missing = [line.split()[0] for line in subprocess.run(["ldd", found[0]], capture_output=True, text=True).stdout.splitlines()
               if "not found" in line]
    if missing:
        skip("systemd-resolved lacks " + ", ".join(missing))
    return found[0]


def test_resolved():
    needs("host", "unshare", "ip")
    program = resolved()
    c, node = one(5, **{"dns_config.enable_truncate": True})
    with c:
        conf = write(c, "consul.conf", example("/etc/systemd/resolved.conf.d/consul.conf").replace("127.0.0.1", node.addr))
        # Without a network it asks nobody, not even on loopback; the test's network namespace is its own.
        for command in "link add up0 type veth peer name up1", "link set up1 up", "link set up0 up", "address add 192.0.2.1/24 dev up0":
            subprocess.run(["ip"] + command.split(), check=True)
        with running(c, "resolved", "unshare", "--mount", "sh", "-c", RESOLVED_BEGIN, "sh", program, conf):
            forwarded(c, node, "127.0.0.53")
            # No server of this one's has other names: that it is refused them spoils nothing.
            for n in range(3):
                refused = subprocess.run(["host", "-t", "A", "other%d.example.org" % n, "127.0.0.53"], capture_output=True, text=True)
                assert refused.returncode != 0 and "has address" not in refused.stdout, refused.stdout
            r = Resolver(c, "127.0.0.53")
            assert r.addresses("web.service.consul") == ["10.1.1.1", "10.1.1.2"]
            assert len(r.addresses("many.service.consul")) == 120


def backends(path):
    """{(address, port)} that haproxy sends to."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(path)
        s.sendall(b"show servers state web\n")
        text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
    lines = text.splitlines()
    names = lines[1].lstrip("# ").split()
    rows = [dict(zip(names, line.split())) for line in lines[2:] if line]
    assert len(rows) == 5, text
    return {(r["srv_addr"], int(r["srv_port"])) for r in rows if r["srv_op_state"] == "2"}


def test_haproxy():
    needs("haproxy")
    c, node = one(3)
    with c:
        stats = os.path.join(c.dir, "haproxy.sock")
        conf = write(c, "haproxy.cfg", """global
    stats socket %s mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
resolvers consul
    nameserver node %s:8600
    accepted_payload_size 8192
    timeout resolve 200ms
    timeout retry 200ms
    hold valid 200ms
    hold obsolete 0s
frontend in
    bind %s:8080
    default_backend web
backend web
    server-template web 5 _web._tcp.service.consul resolvers consul resolve-prefer ipv4 init-addr none
""" % (stats, node.addr, c.net + ".80"))
        register(node, "web1", "10.1.1.1", 80)
        with running(c, "haproxy", "haproxy", "-db", "-f", conf):
            first, second = ("10.1.1.1", 80), ("10.1.1.2", 8080)
            wait_for("the first one is there", lambda: backends(stats) == {first})
            register(node, "web2", "10.1.1.2", 8080)
            wait_for("the second one is there", lambda: backends(stats) == {first, second})
            register(node, "web1", "10.1.1.1", 80, "critical")
            wait_for("what fails is gone", lambda: backends(stats) == {second})
            register(node, "web1", "10.1.1.1", 80)
            wait_for("and is back", lambda: backends(stats) == {first, second})
            node.put("/v1/catalog/deregister", {"Node": "web2"}).ok()
            wait_for("what is deregistered is gone", lambda: backends(stats) == {first})


if __name__ == "__main__":
    main(test_dnsmasq, test_unbound, test_bind, test_resolved, test_haproxy)

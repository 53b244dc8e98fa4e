#!/usr/bin/env python3
"""The units as they are installed, run by a real systemd (S207): start, reload, restart after a kill, stop.

systemd is PID 1 of name spaces (lib/machine.py).  It is the one of this machine; the walls that the units name are also
put up by hand, with the sets of system calls of Debian 12's (lib/unitwalls.py).
"""
import base64
import json
import os
import re
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import issuer  # noqa: E402
import nameserver  # noqa: E402
import netns  # noqa: E402
import unitwalls  # noqa: E402
from cluster import DAEMONS, TOP, main, skip  # noqa: E402
from machine import Lab  # noqa: E402
from waiting import PATIENCE, wait_for  # noqa: E402

ETC = "/etc/triumvir"
SETS = os.path.join(TOP, "tests", "data", "systemd", "252-syscalls.txt")
KEYS = ("cluster.key", "server.key", "server.pub")


def lab():
    why = Lab.impossible()
    if why:
        skip("no systemd can be run here: " + why)
    return Lab()


def install(m, server, keys=None, **conf):
    """What an operator does after `make install`, but for starting it.  No `bind`: the default is to do."""
    m.ok("systemd-sysusers")
    m.ok("systemd-tmpfiles", "--create")
    if keys is None:
        m.ok("clusterctl", "keygen")
    else:
        for name in KEYS if server else (KEYS[0], KEYS[2]):
            m.write("%s/%s" % (ETC, name), keys.ok("cat", "%s/%s" % (ETC, name)))
            m.ok("chmod", "644" if name == "server.pub" else "600", "%s/%s" % (ETC, name))
    configure(m, node_name=m.name, server=server, **conf)
    if server:
        m.write(ETC + "/raftd.conf", "bootstrap = true\n")


def give_certificate(m):
    """One for HTTPS, as the command that makes it says."""
    m.ok("sh", "-ec", "cd /root; clusterctl tls ca create; clusterctl tls cert create --server >said; grep install said | sh -e")
    said = m.ok("cat", "/root/said")
    m.write(ETC + "/rpcd.conf", said[said.index("https_port"):])


def configure(m, **conf):
    m.write(ETC + "/cluster.conf", "".join("%s = %s\n" % (k, json.dumps(v)) for k, v in conf.items()))


def start(m, *daemons):
    """Starts the target; each of these is up, and at its first attempt."""
    m.ok("systemctl", "start", "triumvir.target")
    for d in daemons:
        wait_for("%s runs" % d, lambda: judge(m, d))
        assert m.show(d, "NRestarts")["NRestarts"] == "0", m.journal("-u", d)


def judge(m, daemon):
    """Is it up?  AssertionError once it has failed."""
    state = m.show(daemon, "ActiveState", "SubState", "Result")
    assert state["Result"] == "success", "%s: %s\n%s" % (daemon, state, m.journal("-u", daemon, tail=20))
    return state["SubState"] == "running"


def pid(m, daemon):
    return int(m.show(daemon, "MainPID")["MainPID"])


def test_server_and_client():
    with lab() as l:
        server, client = l.machine("10.9.1.1"), l.machine("10.9.1.2")
        install(server, True)
        install(client, False, keys=server, retry_join=["10.9.1.1"])
        start(server, *DAEMONS)
        start(client, "gossipd", "rpcd")
        wait_for("a leader", lambda: server.run("clusterctl", "kv", "put", "a", "1").returncode == 0)
        wait_for("the client reads it", lambda: client.run("clusterctl", "kv", "get", "a").stdout.strip() == "1")
        stays_down(client)
        for m in server, client:
            shows_host(m)
            metrics = ask(m, "/v1/agent/metrics?format=prometheus")
            assert "triumvir_rpcd_http_seconds_count" in metrics
            guide = re.search(r"# HELP triumvir_rpcd_http_requests See (/\S+/operations\.md), ", metrics).group(1)
            assert "\n## Alerts\n" in m.ok("cat", guide), guide
        reload_works(server, *DAEMONS)
        reload_works(client, "gossipd", "rpcd")
        comes_back(server, *DAEMONS)
        comes_back(client, "gossipd", "rpcd")
        wait_for("it is read again", lambda: client.run("clusterctl", "kv", "get", "a").stdout.strip() == "1")
        for m in server, client:
            m.ok("systemctl", "stop", "triumvir.target")
            for d in DAEMONS:
                state = wait_for("%s of %s has ended" % (d, m.name), lambda: down(m, d))
                assert state["ActiveState"] == "inactive" and state["Result"] == "success", (m.name, d, state)
            assert m.ok("systemctl", "list-units", "--failed", "--plain", "--no-legend").strip() == ""



def test_folder_moved_away():
    """What the manual pages say of damaged and old data: the folder is moved away, and the daemon makes it again."""
    with lab() as l:
        m = l.machine("10.9.5.1")
        install(m, True)
        start(m, *DAEMONS)
        wait_for("a leader", lambda: m.run("clusterctl", "kv", "put", "a", "1").returncode == 0)
        for d in reversed(DAEMONS):
            m.ok("sh", "-c", "systemctl stop %s && mv /var/lib/triumvir/%s /var/lib/triumvir/%s.old && systemctl start %s"
                 % (d, d, d, d))
            assert m.ok("stat", "-c", "%U %a", "/var/lib/triumvir/" + d).split() == ["_" + d, "700"]
            assert judge(m, d), m.journal("-u", d, tail=20)
            assert int(re.search(r"CapEff:\s*(\w+)", m.ok("cat", "/proc/%d/status" % pid(m, d))).group(1), 16) == 0
        wait_for("a new state", lambda: m.run("clusterctl", "kv", "put", "b", "1").returncode == 0)


def ask(m, path):
    return m.ok("python3", "-c", "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8500%s').read().decode())" % path)


def shows_host(m):
    """/v1/agent/host tells what is to be seen from behind the unit's walls, and names what is not."""
    host = json.loads(ask(m, "/v1/agent/host"))
    hidden = m.run("sh", "-c", "test -e /proc/$(pidof -s rpcd)/root/proc/meminfo").returncode != 0
    with open("/proc/meminfo") as f:
        total = int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1)) * 1024
    assert host["Memory"]["total"] == total and ("available" in host["Memory"]) == (not hidden), host
    assert [e.split(":")[0] for e in host["Errors"] or []] == (["/proc/meminfo", "/proc/cpuinfo"] if hidden else []), host
    assert all(("modelName" in c or "model" in c or "flags" in c) == (not hidden) for c in host["CPU"]) and host["CPU"], host
    assert host["Host"]["kernelVersion"] == os.uname().release and host["Host"]["platform"], host
    assert host["Disk"]["path"] == "/var/lib/triumvir" and 0 < host["Disk"]["free"] <= host["Disk"]["total"], host


def answer_names(m):
    """A name server of its own: web.test, and cut.test by TCP only.  What it is asked by a machine has to come from there."""
    with open(nameserver.__file__, encoding="utf-8") as source:
        m.write("/root/nameserver.py", source.read())
    said = {"addresses": ["127.0.0.53", "::1"], "names": {"web.test": ["127.0.0.1"], "cut.test": ["127.0.0.1"]}, "truncated": ["cut.test"]}
    m.write("/etc/resolv.conf", "nameserver 127.0.0.53\n")
    m.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    m.write("/root/names.json", json.dumps(said))
    m.ok("sh", "-c", 'python3 /root/nameserver.py "$(cat /root/names.json)" >/root/names.log 2>&1 &')
    wait_for("the name server serves", lambda: m.run("cat", "/root/names.log").stdout.startswith("serving"))


def checks_run(m):
    """All that a check may be works behind the walls; and what a script started goes with it (S158)."""
    url = "http://127.0.0.1:8500"
    checks = {
        "sh": {"Args": ["/bin/sh", "-c", "echo sh; exit 1"]},
        "python": {"Args": ["python3", "-c", "import json, socket, subprocess; subprocess.run(['echo', 'python'], check=True)"]},
        "perl": {"Args": ["perl", "-e", "use Socket; print `echo perl`; exit 0"]},
        "leaves": {"Args": ["/bin/sh", "-c", "(setsid sleep 2001 &) ; (trap '' TERM; sleep 2002) & echo begun; exec sleep 2003"],
                   "Timeout": "2s"},
        "tcp": {"TCP": "127.0.0.1:8500"},
        "tcp by name": {"TCP": "web.test:8500"},
        "http by name": {"HTTP": "http://cut.test:8500/v1/status/leader"},
        "grpc by name": {"GRPC": "web.test:8500"},
        "h2ping by name": {"H2PING": "cut.test:8500"},
        "no such name": {"TCP": "none.test:8500"},
        "http": {"HTTP": url + "/v1/status/leader"},
        "https": {"HTTP": "https://127.0.0.1:8500/"},
        "grpc": {"GRPC": "127.0.0.1:8500"},
        "h2ping": {"H2PING": "127.0.0.1:8500"},
    }
    expected = {"sh": ("warning", "sh"), "python": ("passing", "python"), "perl": ("passing", "perl"), "leaves": ("critical", "begun"),
                "tcp": ("passing", "Success"), "tcp by name": ("passing", "Success"), "http by name": ("passing", "200 OK"),
                "grpc by name": ("critical", "the peer does not speak HTTP/2"), "h2ping by name": ("critical", "tls: "),
                "no such name": ("critical", "lookup none.test: no such host"), "http": ("passing", "200 OK"), "https": ("critical", "Get "),
                "grpc": ("critical", "the peer does not speak HTTP/2"), "h2ping": ("critical", "tls: ")}
    for name, keys in checks.items():
        body = json.dumps(dict({"Name": name, "Interval": "1s", "Timeout": "10s"}, **keys))
        m.ok("python3", "-c", "import urllib.request as u, sys; u.urlopen(u.Request('%s/v1/agent/check/register', "
             "data=sys.argv[1].encode(), method='PUT'))" % url, body)

    def differ():
        now = json.loads(ask(m, "/v1/agent/checks"))
        return {n: (now[n]["Status"], now[n]["Output"]) for n, (status, text) in expected.items()
                if now[n]["Status"] != status or text not in now[n]["Output"]}
    try:
        wait_for("all checks are as they should be", lambda: not differ())
    except AssertionError as e:
        raise AssertionError("%s: %s" % (e, differ()))
    for name in checks:
        m.ok("python3", "-c", "import urllib.request as u; u.urlopen(u.Request('%s/v1/agent/check/deregister/%s', method='PUT'))" %
             (url, urllib.parse.quote(name)))
    wait_for("nothing of the scripts is left", lambda: m.run("pgrep", "-f", "^sleep 200[1-3]$").returncode == 1)


def stays_down(client):
    """raftd is enabled on every node, and no failure where it is not needed."""
    state = wait_for("raftd has ended", lambda: down(client, "raftd"))
    assert state == {"ActiveState": "inactive", "Result": "success", "NRestarts": "0"}, state
    assert client.journal("-u", "raftd").count("nothing to do: raftd runs on servers only") == 1
    failed = client.ok("systemctl", "list-units", "--failed", "--plain", "--no-legend")
    assert failed.strip() == "", failed


def down(m, daemon):
    state = m.show(daemon, "ActiveState", "Result", "NRestarts")
    return state if state["ActiveState"] in ("inactive", "failed") else None


def reload_works(m, *daemons):
    """The changed configuration is taken over, with the address that was found at the start."""
    conf = m.ok("cat", ETC + "/cluster.conf")
    m.write(ETC + "/cluster.conf", conf + 'log_level = "debug"\nlan_port = 8311\n')
    for d in daemons:
        before = pid(m, d)
        m.ok("systemctl", "reload", d)
        log = wait_for("%s has reloaded" % d, lambda: reloaded(m, d))
        assert "nothing was changed" not in log and "[DEBUG]" not in log.split("configuration reloaded")[0], log
        assert "advertise" not in log.split("listening on")[1], log
        assert pid(m, d) == before and judge(m, d)
    m.write(ETC + "/cluster.conf", conf)


def reloaded(m, daemon):
    log = m.journal("-u", daemon)
    return log if "configuration reloaded" in log and "lan_port" in log else None


def comes_back(m, *daemons):
    """After a kill -9 systemd starts it again."""
    for d in daemons:
        before = pid(m, d)
        m.ok("systemctl", "kill", "-s", "KILL", d)
        wait_for("%s is back" % d, lambda: pid(m, d) not in (0, before) and m.show(d, "SubState")["SubState"] == "running")


def bring_walls(m):
    """Before any daemon starts behind them: who reads a script while it is written runs a part of it."""
    with open(unitwalls.__file__) as source, open(SETS) as known:
        m.write("/root/unitwalls.py", source.read())
        m.write("/root/sets", known.read())


class Walled:
    """A daemon behind the walls of its unit, as they are on Debian 12; see bring_walls()."""

    def __init__(self, m, daemon):
        self.m, self.daemon, self.path = m, daemon, "%s/%s-%s.log" % (m.lab.dir, m.name, daemon)
        unit = m.ok("sh", "-c", "ls /usr/local/lib/systemd/system/%s.service" % daemon).strip()
        # A mount name space of its own, for its read-only paths.
        with open(self.path, "w") as log:
            self.process = subprocess.Popen(m.inside("unshare", "--mount", "python3", "/root/unitwalls.py", unit, "/root/sets"),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(self.path) as f:
            return f.read()

    def runs(self):
        if self.process.poll() is not None:
            raise RuntimeError("%s ended: status %d%s\n%s" % (self.daemon, self.process.returncode, " (a system call that "
                               "its unit forbids)" if self.process.returncode in (-31, 159) else "", self.log()))
        return "listening on" in self.log()

    def signal(self, name):
        self.m.ok("sh", "-c", "kill -%s $(pidof %s)" % (name, self.daemon))


DNS_ANSWERS = """import socket, struct, sys
name, tcp = sys.argv[1], sys.argv[2] == "tcp"
question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\\0\\0\\1\\0\\1"
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
s.settimeout(5)
s.connect(("127.0.0.1", 8600))
s.sendall((struct.pack(">H", len(question)) if tcp else b"") + question)
answer = s.makefile("rb").read(2 + 12) [2:] if tcp else s.recv(512)
print(answer[3] & 15, answer[7])"""


def dns(m, name, way):
    """(status, number of answers) of rpcd's DNS there."""
    return m.run("python3", "-c", DNS_ANSWERS, name, way).stdout.split() == ["0", "1"]


def all_work(server, client):
    """Each thing that a process is for is done from behind the walls, once; checks_run() has those of checks."""
    other = base64.b64encode(bytes(range(32))).decode()
    works = {
        "gossipd: members by TCP and UDP": lambda: len(server.ok("clusterctl", "members").splitlines()) >= 3,
        "gossipd: times of probes": lambda: "ms" in server.ok("clusterctl", "rtt", client.name, server.name),
        "gossipd: writes its ring": lambda: server.ok("clusterctl", "keyring", "install", other) and
        other in server.ok("cat", "/var/lib/triumvir/gossipd/keyring"),
        "gossipd: events": lambda: client.ok("clusterctl", "event", "fire", "deploy", "x") and
        any(e["Name"] == "deploy" for e in json.loads(ask(server, "/v1/event/list"))),
        "raftd: writes and reads": lambda: server.run("clusterctl", "kv", "put", "b", "2").returncode == 0 and
        server.ok("clusterctl", "kv", "get", "b").strip() == "2",
        "raftd: saves and restores": lambda: server.ok("clusterctl", "snapshot", "save", "/tmp/a") is not None and
        server.ok("clusterctl", "snapshot", "restore", "--yes", "/tmp/a") is not None,
        "rpcd: HTTP of a client goes to a server": lambda: json.loads(ask(client, "/v1/kv/b"))[0]["Key"] == "b",
        "rpcd: keys reads its files": lambda: "keys_files_changed = 1" in server.ok("clusterctl", "info"),
        "rpcd: HTTPS": lambda: server.ok("clusterctl", "--addr", "https://127.0.0.1:8501", "--ca-file", "/root/consul-agent-ca.pem", "kv",
                                         "get", "b").strip() == "2",
        "rpcd: unix socket": lambda: client.ok("clusterctl", "info"),
        "rpcd: metrics": lambda: "triumvir.rpcd" in ask(client, "/v1/agent/metrics"),
        "rpcd: DNS by UDP": lambda: dns(client, "%s.node.consul" % server.name, "udp"),
        "rpcd: DNS by TCP": lambda: dns(client, "%s.node.consul" % server.name, "tcp"),
        "rpcd: DNS of recursors by UDP": lambda: dns(client, "web.test", "udp"),
        "rpcd: DNS of recursors by TCP": lambda: dns(client, "cut.test", "tcp"),
    }
    for what, work in works.items():
        wait_for(what, work)


def test_walls_of_debian_12():
    """The units' own filters, expanded with the sets of systemd 252, whichever is installed."""
    with lab() as l:
        server, client = (l.machine(a, init=("/usr/bin/sleep", "infinity")) for a in ("10.9.5.1", "10.9.5.2"))
        install(server, True)
        install(client, False, keys=server, retry_join=["10.9.5.1"])
        client.write(ETC + "/rpcd.conf", 'enable_script_checks = true\nrecursors = ["127.0.0.53"]\n')
        give_certificate(server)
        bring_walls(server)
        bring_walls(client)
        answer_names(client)
        walled = [Walled(server, d) for d in DAEMONS] + [Walled(client, d) for d in ("gossipd", "rpcd")]
        for w in walled:
            wait_for("%s of %s runs" % (w.daemon, w.m.name), w.runs)
        wait_for("a leader", lambda: server.run("clusterctl", "kv", "put", "a", "1").returncode == 0)
        wait_for("the client reads it", lambda: client.run("clusterctl", "kv", "get", "a").stdout.strip() == "1")
        checks_run(client)
        all_work(server, client)
        for m in server, client:
            shows_host(m)
            m.write(ETC + "/cluster.conf", m.ok("cat", ETC + "/cluster.conf") + 'log_level = "debug"\n')
        for w in walled:
            w.signal("HUP")
            wait_for("%s of %s has reloaded" % (w.daemon, w.m.name), lambda: "configuration reloaded" in w.log())
            assert w.runs() and "nothing was changed" not in w.log(), w.log()
        server.ok("clusterctl", "snapshot", "save", "/tmp/archive")
        for w in walled:
            w.signal("TERM")
            assert w.process.wait(timeout=PATIENCE) == 0, "%s: status %d\n%s" % (w.daemon, w.process.returncode, w.log())


ISSUER = """
import http.server, json, sys, threading, urllib.error, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"keys":[]}')

def ask(method, path, body=None, token=""):
    r = urllib.request.Request("http://127.0.0.1:8500" + path, json.dumps(body).encode(), {"X-Consul-Token": token}, method=method)
    try:
        with urllib.request.urlopen(r) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()

issuer = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=issuer.serve_forever, daemon=True).start()
status, first = ask("PUT", "/v1/acl/bootstrap")
token = json.loads(first)["SecretID"] if status == 200 else ""
for scheme, host in (("http", "127.0.0.1"), ("http", "localhost"), ("https", "localhost"), ("http", "no-such-host.invalid"),
                     ("http", "web.test"), ("http", "cut.test")):
    url = "%s://%s:%d/keys" % (scheme, host, issuer.server_address[1])
    config = {"JWKSURL": url, "JWKSCACert": sys.argv[1]}
    print(json.dumps(ask("PUT", "/v1/acl/auth-method", {"Name": "m", "Type": "jwt", "Config": config}, token)))
"""


def keys_are_fetched(m):
    """By the process that raftd has for it: by address and by name, in the clear and by TLS, which gets as far as to find none."""
    with open(issuer.authority(m.lab.dir)[0], encoding="utf-8") as f:
        ca = f.read()

    def asked():
        told = [json.loads(line) for line in m.ok("python3", "-c", ISSUER, ca).splitlines()]
        return told if told[0][0] != 403 and told[0][0] != 401 else None
    by_address, by_hosts, sealed, unknown, by_udp, by_tcp = told = wait_for("access control", asked)
    assert all(way[0] == 200 for way in (by_address, by_hosts, by_udp, by_tcp)), told
    assert sealed[0] == 500 and "SSL" in sealed[1], sealed
    assert unknown[0] == 500 and "no-such-host.invalid" in unknown[1] and "resolve" in unknown[1], unknown


def test_keys_of_issuers():
    """Under systemd, and behind the walls that Debian 12's puts up."""
    with lab() as l:
        one, two = l.machine("10.9.6.1"), l.machine("10.9.6.2", init=("/usr/bin/sleep", "infinity"))
        for m in one, two:
            install(m, True, **{"acl.enabled": True})
            answer_names(m)
        start(one, *DAEMONS)
        keys_are_fetched(one)
        one.ok("systemctl", "stop", "triumvir.target")
        assert one.show("raftd", "Result")["Result"] == "success", one.journal("-u", "raftd", tail=20)
        bring_walls(two)
        for w in [Walled(two, d) for d in DAEMONS]:
            wait_for("%s runs" % w.daemon, w.runs)
        keys_are_fetched(two)


def test_address_comes_late():
    """At boot the network may be later than we are: with `bind`, with the default, for the API."""
    with lab() as l:
        m = l.machine()
        install(m, True)
        m.ok("systemctl", "start", "--no-block", "triumvir.target")
        wait_for("gossipd waits", lambda: "has no address that others could dial: set advertise; waiting" in
                 m.journal("-u", "gossipd"))
        m.address("10.9.2.1")
        for d in DAEMONS:
            wait_for("%s runs" % d, lambda: judge(m, d))
        m.ok("systemctl", "stop", "triumvir.target")
        for d in DAEMONS:
            wait_for("%s has ended" % d, lambda: down(m, d))
        configure(m, node_name=m.name, server=True, bind="10.9.2.1", advertise="10.9.2.1")
        m.write(ETC + "/rpcd.conf", 'http_addresses = [ "10.9.2.3" ]\nhttp_allow_remote = true\ndns_addresses = [ "10.9.2.4" ]\n')
        m.ok("ip", "addr", "flush", "dev", "eth0")
        m.ok("systemctl", "start", "--no-block", "triumvir.target")
        wait_for("gossipd waits", lambda: "bind: 10.9.2.1 is not an address of this machine; waiting for it" in
                 m.journal("-u", "gossipd"))
        m.address("10.9.2.1")
        wait_for("rpcd waits", lambda: "http_addresses: 10.9.2.3 is not an address of this machine; waiting for it" in
                 m.journal("-u", "rpcd"))
        m.address("10.9.2.3")
        wait_for("rpcd waits for that of DNS", lambda: "dns_addresses: 10.9.2.4 is not an address of this machine; waiting for it" in
                 m.journal("-u", "rpcd"))
        m.address("10.9.2.4")
        for d in DAEMONS:
            wait_for("%s runs" % d, lambda: judge(m, d))
            assert m.show(d, "NRestarts")["NRestarts"] == "0", m.journal("-u", d)


def test_starts_without_limit():
    """What keeps a daemon from starting may be mended an hour later; when memory is short rpcd goes first."""
    with lab() as l:
        m = l.machine("10.9.3.1")
        install(m, True)
        m.write(ETC + "/rpcd.conf", "no_such_key = 1\n")
        m.ok("systemctl", "start", "triumvir.target")
        # systemd's own limit is five starts in ten seconds.
        wait_for("rpcd was started eight times", lambda: int(m.show("rpcd", "NRestarts")["NRestarts"]) >= 8)
        m.write(ETC + "/rpcd.conf", "")
        wait_for("rpcd runs", lambda: m.show("rpcd", "SubState")["SubState"] == "running")
        marks = {d: int(m.show(d, "OOMScoreAdjust")["OOMScoreAdjust"]) for d in DAEMONS}
        assert marks["rpcd"] > marks["raftd"] and marks["rpcd"] > marks["gossipd"], marks
        for d in DAEMONS:
            limits = m.show(d, "MemoryHigh", "MemoryMax")
            assert 0 < int(limits["MemoryHigh"]) < int(limits["MemoryMax"]), limits


DNS_QUESTION = """import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect(("127.0.0.1", 53))
s.send(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6consul\\0\\0\\6\\0\\1")
print(s.recv(512)[3] & 15)"""


def test_port_53():
    """DNS on port 53 takes the drop-in of doc/operations.md, and says so without; nobody who serves has a capability."""
    with lab() as l:
        m = l.machine("10.9.6.1")
        install(m, True)
        m.write(ETC + "/rpcd.conf", "dns_port = 53\n")
        m.ok("systemctl", "start", "--no-block", "triumvir.target")
        wait_for("rpcd says why", lambda: "port 53 (DNS, UDP): Permission denied; a port below 1024 takes CAP_NET_BIND_SERVICE" in
                 m.journal("-u", "rpcd"))
        with open(os.path.join(TOP, "doc", "operations.md"), encoding="utf-8") as f:
            steps = re.findall(r"^    # (.*)$", f.read().split("\n## Names by DNS\n")[1].split("\n## ")[0], re.M)
        assert len(steps) == 2, steps
        for step in steps:
            m.ok("sh", "-c", step.replace("/usr/share/", "/usr/local/share/"))
        wait_for("rpcd runs", lambda: m.show("rpcd", "SubState")["SubState"] == "running")
        wait_for("it answers", lambda: m.run("python3", "-c", DNS_QUESTION).stdout.strip() == "0")
        pids = m.ok("systemctl", "show", "-p", "ControlGroup", "--value", "rpcd").strip()
        served = m.ok("cat", "/sys/fs/cgroup%s/cgroup.procs" % pids).split()
        names = {p: m.ok("cat", "/proc/%s/comm" % p).strip() for p in served}
        assert sorted(set(names.values())) == ["rpcd", "rpcd: check", "rpcd: dns"], names
        for p in served:
            status = m.ok("cat", "/proc/%s/status" % p)
            assert all(int(re.search(r"Cap%s:\s*(\w+)" % k, status).group(1), 16) == 0 for k in ("Eff", "Prm", "Inh", "Amb")), status


def test_data_elsewhere():
    """data_dir outside of /var/lib/triumvir needs the drop-in of doc/operations.md, and says so without."""
    with lab() as l:
        m = l.machine("10.9.4.1")
        install(m, True, data_dir="/srv/triumvir")
        m.ok("systemctl", "start", "--no-block", "triumvir.target")
        wait_for("gossipd says why", lambda: "/srv/triumvir: Read-only file system, or the unit of systemd" in m.journal("-u", "gossipd"))
        with open(os.path.join(TOP, "doc", "operations.md"), encoding="utf-8") as f:
            steps = re.findall(r"^    # (.*)$", f.read().split("\n## A data directory elsewhere\n")[1].split("\n## ")[0], re.M)
        assert len(steps) >= 3, steps
        for step in steps:
            m.ok("sh", "-c", step)
        for d in DAEMONS:
            wait_for("%s runs" % d, lambda: m.show(d, "SubState")["SubState"] == "running")
        assert sorted(m.ok("ls", "/srv/triumvir").split()) == ["gossipd", "node-id", "raftd", "rpcd"]


if __name__ == "__main__":
    netns.enter(mounts=True)
    main(test_server_and_client, test_folder_moved_away, test_walls_of_debian_12, test_keys_of_issuers, test_address_comes_late,
         test_starts_without_limit, test_port_53, test_data_elsewhere)

#!/usr/bin/env python3
"""Host names, looked up from behind the walls as on this machine: over UDP, TCP and IPv6, with search lists; by checks
of all kinds, and for the keys of issuers."""
import http.server
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import h2peer  # noqa: E402
import nameserver  # noqa: E402
import netns  # noqa: E402
from aclkit import ON, formed  # noqa: E402
from checking import one, register, wait_state  # noqa: E402
from cluster import CALM, Cluster, main, skip  # noqa: E402
from h2peer import H2Server  # noqa: E402
from issuer import Issuer, Key  # noqa: E402
from nameserver import NameServer  # noqa: E402
from waiting import wait_for  # noqa: E402

HOSTS = "127.0.0.1 localhost\n"


class Web:
    """An HTTP server at 127.0.0.1 and one at ::1, at the same port."""

    def __enter__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"here")

            def log_message(self, *args):
                pass

        class SixServer(http.server.ThreadingHTTPServer):
            address_family = socket.AF_INET6
            daemon_threads = True

        four = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = four.server_address[1]
        self.servers = [four, SixServer(("::1", self.port), Handler)]
        for s in self.servers:
            threading.Thread(target=s.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args):
        for s in self.servers:
            s.shutdown()
            s.server_close()


def etc(resolv, hosts=HOSTS):
    if not netns.isolated():
        skip("needs name spaces of its own")
    nameserver.write("/etc/hosts", hosts)
    nameserver.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    nameserver.write("/etc/resolv.conf", resolv)


def test_checks_by_name():
    """Each kind of check that dials, with walls and where the kernel's are a matter of luck."""
    etc("nameserver 127.0.0.53\n")
    for n, sandbox in enumerate(("required", "best-effort")):
        with NameServer("127.0.0.53") as names, Web() as web, H2Server("127.0.0.1", h2peer.healthy) as h2, \
                Cluster("127.153.%d" % (21 + n)) as c:
            node = c.servers(1, sandbox=sandbox)[0]
            c.formed([node])
            h2.services = {"": h2peer.SERVING}
            for name in ("tcp.test", "http.test", "grpc.test", "h2ping.test"):
                names.add(name, "127.0.0.1")
            h2port = h2.address.rsplit(":", 1)[1]
            register(node, "tcp", TCP="tcp.test:%d" % web.port)
            register(node, "http", HTTP="http://http.test:%d/" % web.port)
            register(node, "grpc", GRPC="grpc.test:" + h2port)
            register(node, "h2ping", H2PING="h2ping.test:" + h2port, H2PingUseTLS=False)
            register(node, "none", TCP="none.test:1")
            for kind in ("tcp", "http", "grpc", "h2ping"):
                wait_state(node, kind, "passing")
                assert names.questions(kind + ".test", "udp") > 0, names.asked
            wait_state(node, "none", "critical", "dial tcp: lookup none.test: no such host")


def looked_up(names, net, name, port):
    """One check by this name passes."""
    with Cluster(net) as c:
        node = one(c)
        register(node, "it", TCP="%s:%d" % (name, port))
        wait_state(node, "it", "passing", "TCP connect %s:%d: Success" % (name, port))


def test_ways_to_ask():
    """Truncated answers are asked for again by TCP; name servers with IPv6 addresses; search lists; aliases; AAAA only."""
    with NameServer("127.0.0.53", "::1") as names, Web() as web:
        names.add("cut.test", "127.0.0.1")
        names.truncated.add("cut.test")
        names.add("web.inner.test", "127.0.0.1")
        names.add("six.test", "::1")
        names.alias("other.test", "web.inner.test")
        etc("nameserver 127.0.0.53\nsearch outer.test inner.test\n")
        for n, name in enumerate(("cut.test", "web", "six.test", "other.test", "web.inner.test.")):
            looked_up(names, "127.153.%d" % (23 + n), name, web.port)
        assert names.questions("cut.test", "tcp") > 0 and names.questions("web.outer.test") > 0, names.asked
        etc("nameserver ::1\noptions timeout:1\n")
        names.asked.clear()
        looked_up(names, "127.153.28", "cut.test", web.port)
        assert {a for _, _, _, a in names.asked} == {"::1"} and names.questions("cut.test", "tcp") > 0, names.asked
        # The first server is gone: the next one is asked.
        etc("nameserver 127.0.0.54\nnameserver 127.0.0.53\noptions timeout:1\n")
        looked_up(names, "127.153.29", "six.test", web.port)


def test_keys_by_name():
    """raftd's fetcher finds issuers by name: JWKSURL, OIDCDiscoveryURL, by UDP, by TCP and over IPv6."""
    for n, server in enumerate(("127.0.0.53", "::1")):
        etc("nameserver %s\nsearch inner.test\n" % server)
        with NameServer(server) as names, Cluster("127.153.%d" % (31 + n)) as c, Issuer(c.dir, tls=False) as issuer:
            names.add("issuer.inner.test", "127.0.0.1")
            names.add("cut.test", "127.0.0.1")
            names.truncated.add("cut.test")
            servers = c.servers(1, raftd=CALM, **ON)
            acl, _ = formed(c, servers)
            issuer.publish(Key(c.dir, "one"))
            for name in ("issuer", "issuer.inner.test", "cut.test"):
                acl.ask("PUT", "/v1/acl/auth-method", {"Name": "m", "Type": "jwt", "Config": {
                    "JWKSURL": "http://%s:%d/keys" % (name, issuer.port), "BoundAudiences": ["a"]}})
                url = "http://%s:%d" % (name, issuer.port)
                issuer.paths["/.well-known/openid-configuration"] = (
                    '{"issuer": "%s", "jwks_uri": "%s/keys", "id_token_signing_alg_values_supported": ["ES256"]}' % (url, url)).encode()
                acl.ask("PUT", "/v1/acl/auth-method", {"Name": "o", "Type": "jwt", "Config": {
                    "OIDCDiscoveryURL": url, "BoundAudiences": ["a"]}})
            assert names.questions("issuer.inner.test", "udp") > 0 and names.questions("cut.test", "tcp") > 0, names.asked
            answer = acl.http("PUT", "/v1/acl/auth-method", {"Name": "n", "Type": "jwt", "Config": {
                "JWKSURL": "http://none.test:1/keys", "BoundAudiences": ["a"]}})
            assert answer.status == 500 and "Could not resolve host: none.test" in answer.text, answer


def test_replaced_files():
    """/etc/hosts, resolv.conf and nsswitch.conf are written anew and renamed into place: names are looked up by the new ones."""
    etc("nameserver 127.0.0.53\n", HOSTS + "127.0.0.1 web.here\n")
    with NameServer("127.0.0.53") as one, NameServer("127.0.0.55") as other, Web() as web, Cluster("127.153.41") as c:
        node = c.servers(1)[0]
        c.formed([node])
        names = {"one.test": one, "two.test": other}
        for name, server in names.items():
            server.add(name, "127.0.0.1")
        for name in ("web.here", "later.here", "one.test", "two.test"):
            register(node, name, TCP="%s:%d" % (name, web.port))
        for name, status in (("web.here", "passing"), ("one.test", "passing"), ("two.test", "critical"), ("later.here", "critical")):
            wait_state(node, name, status)
        for _ in range(2):              # the second file may get the number of the first
            nameserver.write("/etc/hosts", HOSTS + "127.0.0.1 web.here later.here\n")
            wait_state(node, "later.here", "passing")
            nameserver.write("/etc/hosts", HOSTS + "127.0.0.1 web.here\n")
            wait_state(node, "later.here", "critical", "no such host")
        nameserver.write("/etc/resolv.conf", "nameserver 127.0.0.55\n")
        wait_state(node, "two.test", "passing")
        wait_state(node, "one.test", "critical", "no such host")
        nameserver.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: dns\n")
        wait_state(node, "web.here", "critical", "no such host")
        nameserver.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
        wait_state(node, "web.here", "passing")
        assert "/etc/hosts is another file by now" in node.log("rpcd"), node.log("rpcd")


def test_resolv_conf_comes_late():
    """It is a link into a folder that is not there when rpcd starts, as with systemd-resolved; a missing hosts file likewise."""
    etc("")
    os.unlink("/etc/resolv.conf")
    os.unlink("/etc/hosts")
    late = tempfile.mkdtemp(prefix="tv-run-")
    os.rmdir(late)
    os.symlink(late + "/resolve/resolv.conf", "/etc/resolv.conf")
    with NameServer("127.0.0.53") as names, Web() as web, Cluster("127.153.42") as c:
        names.add("web.test", "127.0.0.1")
        node = c.servers(1)[0]
        c.formed([node])
        for name in ("web.test", "web.here"):
            register(node, name, TCP="%s:%d" % (name, web.port))
            wait_state(node, name, "critical", "lookup " + name)
        os.makedirs(late + "/resolve")
        os.chmod(late, 0o755)
        nameserver.write(late + "/resolve/resolv.conf", "nameserver 127.0.0.53\n")
        wait_state(node, "web.test", "passing")
        nameserver.write("/etc/hosts", HOSTS + "127.0.0.1 web.here\n")
        wait_state(node, "web.here", "passing")
        # And again: the service that has it is restarted.
        shutil.rmtree(late)
        os.makedirs(late + "/resolve")
        os.chmod(late, 0o755)
        nameserver.write(late + "/resolve/resolv.conf", "nameserver 127.0.0.53\nsearch test\n")
        register(node, "web", TCP="web:%d" % web.port)
        wait_state(node, "web", "passing")
        shutil.rmtree(late)


SECONDS = 15         # for which nothing may change: each name is asked for anew in that time


def states(node, names):
    found = node.get("/v1/agent/checks").json()
    return {n: found[n]["Status"] for n in names}


def stay(node, names, status, seconds=SECONDS):
    """All the time, not just at its end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = states(node, names)
        assert set(now.values()) == {status}, {n: node.get("/v1/agent/checks").json()[n]["Output"] for n in now if now[n] != status}
        time.sleep(0.1)


def service(node, name, **check):
    node.put("/v1/agent/service/register", json.dumps({
        "Name": name, "Check": dict({"CheckID": name, "Interval": "1s", "Timeout": "2s"}, **check)})).ok()


def test_silent_names():
    """Names that nobody answers for, few and many, of one service and of many: checks by other names stay as they are."""
    etc("nameserver 127.0.0.53\n")
    with NameServer("127.0.0.53") as names, Web() as web, Cluster("127.153.51") as c:
        names.silent.add("silent.test")
        node = c.servers(1)[0]
        c.formed([node])
        good = ["good%d" % i for i in range(4)]
        for name in good:
            names.add(name + ".test", "127.0.0.1")
            service(node, name, TCP="%s.test:%d" % (name, web.port))
        for name in good:
            wait_state(node, name, "passing")
        slow = 0
        for n in (5, 24, 80):           # 5 took all threads once
            while slow < n:
                service(node, "slow%d" % (slow if slow % 2 else 0), HTTP="http://slow%d.silent.test:1/" % slow)
                register(node, "slow-%d" % slow, HTTP="http://slow-%d.silent.test:1/" % slow)
                slow += 1
            stay(node, good, "passing")
        # A name that is new: its turn comes among those, and no time in our queue makes it critical.
        names.add("late.test", "127.0.0.1")
        service(node, "late", TCP="late.test:%d" % web.port)
        wait_state(node, "late", "passing")
        wait_state(node, "slow-1", "critical", "dial tcp: lookup slow-1.silent.test: i/o timeout")
        stats = node.stats("rpcd")
        assert int(stats["check_lookups_unanswered"]) > 0 and int(stats["check_lookups"]) > 10, stats
        # The zone answers again, and its checks follow.
        names.add("slow-1.silent.test", "127.0.0.1")
        names.silent.clear()
        wait_state(node, "slow-1", "critical", "connect: connection refused")


def test_old_answers():
    """No name server answers for a while: checks by name go on with what they know."""
    etc("nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")
    with NameServer("127.0.0.53") as names, Web() as web, Cluster("127.153.52") as c:
        node = c.servers(1)[0]
        c.formed([node])
        good = ["good%d" % i for i in range(4)]
        for name in good:
            names.add(name + ".test", "127.0.0.1")
            service(node, name, TCP="%s.test:%d" % (name, web.port))
        for name in good:
            wait_state(node, name, "passing")
        names.silent.add("test")
        stay(node, good, "passing", 2 * SECONDS)
        assert int(node.stats("rpcd")["check_lookups_old"]) > 0, node.stats("rpcd")
        # A server that says so, and not a silence, ends that.
        names.silent.clear()
        for name in good:
            names.add(name + ".test")
            wait_state(node, name, "critical", "no such host")


def test_new_record():
    """A check of 1 s follows DNS: a name that was not there is found a moment after it is."""
    etc("nameserver 127.0.0.53\n")
    with NameServer("127.0.0.53") as names, Web() as web, Cluster("127.153.53") as c:
        node = c.servers(1)[0]
        c.formed([node])
        for i in range(3):
            name = "new%d" % i
            register(node, name, TCP="%s.test:%d" % (name, web.port))
            wait_state(node, name, "critical", "no such host")
            names.add(name + ".test", "127.0.0.1")
            began = time.monotonic()
            wait_state(node, name, "passing")
            assert time.monotonic() - began < 6, "it took %.1f s" % (time.monotonic() - began)


def test_blame():
    """What is said of a failure blames who is at fault."""
    etc("nameserver 127.0.0.53\nnameserver 127.0.0.53\n")
    with Cluster("127.153.54") as c:
        node = c.servers(1)[0]
        c.formed([node])
        register(node, "down", TCP="down.test:1")
        wait_state(node, "down", "critical", "dial tcp: lookup down.test: no name server gave an answer")
        with NameServer("127.0.0.53") as names:
            names.failing.add("failing.test")
            register(node, "failing", TCP="failing.test:1")
            # What fails tells which of the two it is as little as the C library does; and it is not said to be the server's fault.
            wait_state(node, "failing", "critical", "dial tcp: lookup failing.test: no name server gave an answer")


class Hole:
    """Accepts what comes, and never answers."""

    def __init__(self, address):
        self.socket = socket.create_server((address, 0), backlog=4096)
        self.port, self.held = self.socket.getsockname()[1], []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                self.held.append(self.socket.accept()[0])
            except OSError:
                return


def hang(node, number, services):
    """So many checks that hang for a minute, of these services."""
    hole = Hole("127.153.55.99")
    url = "http://127.153.55.99:%d/" % hole.port
    for i in range(services):
        checks = [{"CheckID": "hung-%d-%d" % (i, k), "HTTP": url, "Interval": "2s", "Timeout": "60s"}
                  for k in range(number // services)]
        node.put("/v1/agent/service/register", json.dumps({"Name": "hung%d" % i, "Checks": checks})).ok()
    return hole


def test_hung_checks():
    """1,200 checks that hang for a minute, of one service and of forty: one of two seconds sees its service end at once."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, limits[1]), limits[1]))
    for n, services in ((55, 1), (56, 40)):
        with Cluster("127.153.%d" % n) as c:
            node = c.servers(1)[0]
            c.formed([node])
            victim = socket.create_server((node.addr, 0))
            service(node, "victim", TCP="%s:%d" % victim.getsockname(), Interval="2s")
            wait_state(node, "victim", "passing")
            hole = hang(node, 1200, services)
            wait_for("many hang", lambda: int(node.stats("rpcd")["check_runs_under_way"]) >= 100)
            wait_for("late ones are in the log", lambda: "checks run late: " in node.log("rpcd"))
            wait_for("they are counted", lambda: int(node.stats("rpcd")["check_runs_postponed"]) > 0)
            victim.close()
            began = time.monotonic()
            wait_state(node, "victim", "critical")
            assert time.monotonic() - began < 12, "seen after %.1f s" % (time.monotonic() - began)
            # Another service that comes now is seen well, soon.
            with socket.create_server((node.addr, 0)) as other:
                service(node, "other", TCP="%s:%d" % other.getsockname(), Interval="2s")
                wait_state(node, "other", "passing")
            hole.socket.close()


if __name__ == "__main__":
    netns.enter(mounts=True)
    nameserver.own_etc()
    main(test_checks_by_name, test_ways_to_ask, test_keys_by_name, test_replaced_files, test_resolv_conf_comes_late,
         test_silent_names, test_old_answers, test_new_record, test_blame, test_hung_checks)

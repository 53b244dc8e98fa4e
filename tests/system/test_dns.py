#!/usr/bin/env python3
"""DNS beyond the recorded cases: hostile packets and connections, restarts, reload, recursors and who may ask them."""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main, skip  # noqa: E402
from dnsask import A, NOERROR, NXDOMAIN, PTR, REFUSED, SERVFAIL, SOA, SRV, ask, dns_pid, one_dns as one, question, udp, wire  # noqa: E402
from nameserver import NameServer  # noqa: E402
from netns import FarSide  # noqa: E402
from waiting import wait_for  # noqa: E402


def exactly(s, n):
    out = b""
    while len(out) < n:
        part = s.recv(n - len(out))
        if not part:
            raise ConnectionError("the connection ended")
        out += part
    return out


def framed(packet):
    return struct.pack("!H", len(packet)) + packet


def test_hostile_packets():
    """Every cut and every turned bit of a question, and noise: the process lives, and answers the next one."""
    with Cluster("127.138.1") as c:
        node = one(c)
        whole = question("web.service.consul", SRV) + b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
        whole = whole[:11] + b"\1" + whole[12:]
        packets = [whole[:n] for n in range(len(whole))]
        packets += [whole[:i // 8] + bytes([whole[i // 8] ^ 1 << i % 8]) + whole[i // 8 + 1:] for i in range(len(whole) * 8)]
        rng = random.Random(5)
        packets += [rng.randbytes(rng.randrange(600)) for _ in range(2000)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((node.addr, 8600))
            for i, p in enumerate(packets):
                s.send(p)
                if i % 50 == 49:
                    assert ask(node, "web.service.consul") == (NOERROR, 1)
        with socket.create_connection((node.addr, 8600), 5) as s:
            s.sendall(b"".join(framed(p) for p in packets[:60]) + framed(question("web.service.consul", A, 4711)))
            while struct.unpack("!H", exactly(s, struct.unpack("!H", exactly(s, 2))[0])[:2])[0] != 4711:
                pass
        assert node.stats("rpcd")["dns_process_deaths"] == "0"
        wait_for("what was malformed is counted", lambda: int(node.stats("rpcd")["dns_malformed"]) > 100)


def test_connections():
    """Idle ones end, those beyond the limits are refused, and meanwhile others are served."""
    with Cluster("127.138.2") as c:
        node = one(c, **{"limits.dns_max_conns_per_client": 20})
        idle = [socket.create_connection((node.addr, 8600), 10) for _ in range(20)]
        extra = socket.create_connection((node.addr, 8600), 10)
        assert extra.recv(1) == b"", "the limit of a client is not kept"
        assert ask(node, "web.service.consul") == (NOERROR, 1)
        other = socket.create_connection((node.addr, 8600), 10, (c.net + ".77", 0))
        other.sendall(framed(question("web.service.consul")) * 3)
        for _ in range(3):
            assert exactly(other, struct.unpack("!H", exactly(other, 2))[0])[3] & 15 == NOERROR
        for s in idle:
            assert s.recv(1) == b"", "an idle connection stays"
        for s in idle + [extra, other]:
            s.close()
        wait_for("refused and idle ones are counted", lambda: int(node.stats("rpcd")["dns_conns_refused"]) >= 1 and
                 int(node.stats("rpcd")["dns_conns_timed_out"]) >= 20)


def test_pipelined_beyond_the_limit():
    """More questions at once than a connection may have: all of the answers to the first 128 arrive, and then its end, no reset."""
    with Cluster("127.138.9") as c:
        node = one(c)
        packets = [framed(question("web.service.consul", SRV, i)) for i in range(1000)]
        for _ in range(5):
            with socket.create_connection((node.addr, 8600), 10) as s:
                s.sendall(b"".join(packets[:500]))
                wait_for("answers", lambda: s.recv(1 << 20, socket.MSG_PEEK))
                s.sendall(b"".join(packets[500:]))
                got = b""
                while part := s.recv(1000):
                    got += part
            idents = []
            while got:
                n = struct.unpack("!H", got[:2])[0]
                idents.append(struct.unpack("!H", got[2:4])[0])
                got = got[2 + n:]
            assert sorted(idents) == list(range(128)), idents
        wait_for("they are gone", lambda: node.stats("rpcd")["dns_conns"] == "0")
        # Who does not end it either is closed soon, and is none that was timed out.
        with socket.create_connection((node.addr, 8600), 10) as s:
            s.sendall(b"".join(packets[:200]))
            wait_for("it is counted", lambda: node.stats("rpcd")["dns_conns"] == "1")
            wait_for("it is closed", lambda: node.stats("rpcd")["dns_conns"] == "0")
        assert node.stats("rpcd")["dns_conns_timed_out"] == "0"


def test_restart():
    """It is killed, and serves again."""
    with Cluster("127.138.3") as c:
        node = one(c)
        os.kill(dns_pid(node), signal.SIGKILL)
        wait_for("another one serves", lambda: node.stats("rpcd")["dns_process_deaths"] == "1" and
                 ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))


def test_killed_before_its_process():
    """rpcd is killed while its DNS process cannot end, and holds the port: its monitor kills it; the next rpcd waits for that, and serves."""
    with Cluster("127.138.8") as c:
        node = one(c)
        old = dns_pid(node)
        os.kill(old, signal.SIGSTOP)
        node.kill("rpcd")
        node.start("rpcd")
        wait_for("the next rpcd waits for the port", lambda: "port 8600 is in use" in node.log("rpcd"))
        assert node.running("rpcd")
        wait_for("it serves", lambda: ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))
        assert dns_pid(node) != old


def test_reload():
    """Keys of dns_config take effect without a restart; other recursors bring another process."""
    with Cluster("127.138.4") as c:
        node = one(c)
        conf = {"http_addresses": [node.addr], "http_admin": True}
        assert ask(node, "consul", SOA)[0] == NOERROR and ask(node, "example.test", SOA)[0] == REFUSED
        node.write("rpcd.conf", dict(conf, domain="example.test"))
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("the domain is another one", lambda: ask(node, "web.service.example.test") == (NOERROR, 1))
        assert ask(node, "web.service.consul")[0] == REFUSED
        assert node.stats("rpcd")["dns_process_starts"] == "1"
        node.write("rpcd.conf", dict(conf, recursors=[c.net + ".9:8653"], **{"dns_config.recursor_timeout": "20ms"}))
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("the recursor is asked, and silent", lambda: ask(node, "www.example.net", timeout=0.5)[0] == SERVFAIL)
        assert ask(node, "web.service.consul") == (NOERROR, 1)


def test_capitals():
    """A datacenter that was configured with capitals has none: names with it are found in any spelling, and those that are built."""
    with Cluster("127.138.10") as c:
        node, = c.servers(1, dc="US-East_1")
        c.formed([node])
        node.put("/v1/catalog/register", {"Node": "web1", "Address": "10.1.1.1", "Datacenter": "US-EAST_1",
                                          "Service": {"Service": "web", "Port": 80}}).ok()
        for dc in ("US-East_1", "us-east_1", "US-EAST_1"):
            wait_for("it is found", lambda: ask(node, "web1.node.%s.consul" % dc) == (NOERROR, 1))
            assert [s["Datacenter"] for s in node.get("/v1/catalog/service/web?dc=" + dc).json()] == ["us-east_1"], dc
        assert wire("web1.node.us-east_1.consul") in udp(node, question("1.1.1.10.in-addr.arpa", PTR))
        assert node.get("/v1/catalog/datacenters").json() == ["us-east_1"]
        query = {"Name": "away", "Service": {"Service": "none", "Failover": {"Datacenters": ["US-EAST_1"]}}}
        assert node.get("/v1/query/%s/execute" % node.http("POST", "/v1/query", query).json()["ID"]).json()["Datacenter"] == "us-east_1"


def test_names_without_dns():
    """Services and tags that no name leads to are warned of when they are registered, by a request or a file; and once."""
    with Cluster("127.138.12") as c:
        node = one(c)
        for _ in range(2):
            node.put("/v1/agent/service/register", {"Name": "a.b", "ID": "dots"}).ok()
            node.put("/v1/agent/service/register", {"Name": "good-1_x", "Tags": ["v1.2", "my tag"]}).ok()
            node.put("/v1/agent/service/register", {"Name": "x" * 64}).ok()
        os.makedirs(node.conf + "/services.d", exist_ok=True)
        with open(node.conf + "/services.d/file.json", "w") as f:
            f.write('{"service": {"name": "of@file"}}')
        node.signal(signal.SIGHUP, "rpcd")
        for what, times in (('name "a.b" will not be discoverable via DNS: it has a dot', 1), ('name "%s"' % ("x" * 64), 1),
                            ('tag "my tag" of "good-1_x"', 1), ('tag "v1.2"', 0), ('name "good-1_x"', 0), ('name "of@file"', 1)):
            wait_for(what, lambda: node.log("rpcd").count("[WARN] agent: Service " + what) == times)


def test_log_level():
    """A reload's log_level holds for the process that speaks DNS, and for the next one."""
    with Cluster("127.138.7") as c:
        node = one(c)
        line = "[DEBUG] dns: serving consul, 0 recursors"
        assert line not in node.log("rpcd")
        node.set_common(log_level="debug")
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("it logs more", lambda: line in node.log("rpcd"))
        assert node.stats("rpcd")["dns_process_starts"] == "1"
        os.kill(dns_pid(node), signal.SIGKILL)
        wait_for("the next one does, too", lambda: node.log("rpcd").count(line) == 2)
        node.set_common(log_level="info")
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("the level is read", lambda: node.log("rpcd").count("configuration reloaded") == 2)
        os.kill(dns_pid(node), signal.SIGKILL)
        wait_for("a third one serves", lambda: node.stats("rpcd")["dns_process_deaths"] == "2" and
                 ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))
        assert node.log("rpcd").count(line) == 2


class Upstream:
    """Answers A questions after a volley of forged replies; knows what it was asked, and from where."""

    def __init__(self, address):
        self.seen, self.end = [], False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 8653))
        self.socket.settimeout(0.2)
        self.forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.end:
            try:
                q, peer = self.socket.recvfrom(65535)
            except socket.timeout:
                continue
            self.seen.append((q, peer[1]))
            reply = q[:2] + b"\x81\x80" + q[4:6] + b"\0\1\0\0\0\0" + q[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4"
            bad = reply + b"\6\6\6\6"
            self.forger.sendto(bad, peer)                                           # from another port
            self.socket.sendto(bytes([bad[0] ^ 1]) + bad[1:], peer)                 # another id
            self.socket.sendto(bad[:12] + bad[12:].replace(q[13:16], q[13:16].swapcase(), 1), peer)     # other letters
            self.socket.sendto(bad[:2] + b"\1" + bad[3:], peer)                     # a question
            self.socket.sendto(bad[:20], peer)                                      # cut
            self.socket.sendto(reply + b"\1\2\3\4", peer)

    def close(self):
        self.end = True
        self.thread.join()
        self.socket.close()
        self.forger.close()


def test_recursor():
    """Forged replies are not believed; ids, ports and letters vary."""
    with Cluster("127.138.5") as c:
        node = one(c, recursors=[c.net + ".9:8653"])
        up = Upstream(c.net + ".9")
        try:
            for i in range(40):
                name = "www%d.example.net" % i
                reply = udp(node, question(name))
                assert reply[:2] == question(name)[:2] and reply[12:12 + len(wire(name))] == wire(name), reply
                assert reply[-4:] == b"\1\2\3\4", "a forged reply was believed: %r" % reply
        finally:
            up.close()
        assert len({q[:2] for q, _ in up.seen}) > 30 and len({port for _, port in up.seen}) > 10
        assert any(q[12:] != q[12:].lower() for q, _ in up.seen)
        wait_for("they are counted", lambda: int(node.stats("rpcd")["dns_forged"]) >= 40)


class Lowering(NameServer):
    """Gives each question back in lower case, over UDP and TCP."""

    def answer(self, packet, transport, address):
        out = super().answer(packet, transport, address)
        return out and out[:12] + out[12:].lower()


def test_recursor_without_capitals():
    """A recursor that loses the case of letters is named, and asked over TCP at once from then on; what a UDP client cannot take is
    cut to an empty answer with TC."""
    with Cluster("127.138.11") as c, Lowering(c.net + ".9", port=8653) as up:
        node = one(c, recursors=[c.net + ".9:8653"])
        up.add("www.example.net", "10.0.0.1")
        up.add("many.example.net", *["10.0.1.%d" % i for i in range(40)])
        assert ask(node, "WWW.example.NET") == (NOERROR, 1)
        asked = up.questions("www.example.net", "udp")
        assert asked == 1 and up.questions("www.example.net", "tcp") == 1
        assert ask(node, "www.example.net") == (NOERROR, 1) and up.questions("www.example.net", "udp") == asked
        assert node.log("rpcd").count("recursor %s.9 port 8653 does not give questions back as it got them" % c.net) == 1
        plain = question("many.example.net")
        opt = b"\0\0\x29%s\0\0\0\0\0\0"
        for size, whole in ((None, False), (600, False), (4096, True)):
            q = plain if size is None else plain[:11] + b"\1" + plain[12:] + opt % struct.pack("!H", size)
            reply = udp(node, q)
            assert bool(reply[2] & 2) != whole and (len(reply) > 600) == whole and reply[:2] == q[:2], (size, reply)
            assert struct.unpack("!H", reply[6:8])[0] == (40 if whole else 0) and (size is None or whole or reply[11] == 1)


# Asks each of the names so many times over UDP, then the last one over TCP; prints (rcode, TC, answers, bytes) of what came.
STRANGER = """import socket, struct, sys
addr, count, packets = sys.argv[1], int(sys.argv[2]), [bytes.fromhex(x) for x in sys.argv[3:]]
def show(r):
    print(r[3] & 15, r[2] >> 1 & 1, struct.unpack("!H", r[6:8])[0], len(r))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((addr, 8600))
s.settimeout(2)
for p in packets * count:
    s.send(p)
for i in range(len(packets) * count):
    try:
        show(s.recv(65535))
    except socket.timeout:
        print("none")
        break
t = socket.create_connection((addr, 8600), 60)
t.sendall(struct.pack("!H", len(packets[-1])) + packets[-1])
f = t.makefile("rb")
show(f.read(struct.unpack("!H", f.read(2))[0]))
"""


def test_strangers():
    """Who is not of this host asks no recursor unless that is allowed, and equal answers to one network have a limit (S193)."""
    why = FarSide.impossible()
    if why:
        skip("test_strangers: it " + why)
    far = FarSide(38)
    try:
        with Cluster("10.71.38") as c:
            here = far.address(1, False)
            keys = {"http_addresses": [here], "http_admin": True, "http_allow_remote": True, "dns_addresses": [here],
                    "recursors": [here + ":8653"], "dns_config.equal_answers_per_second": 1}
            node = c.add("n1", 1, raftd=dict(CALM, bootstrap_expect=1), rpcd=keys, retry_join=[here]).start()
            c.formed([node])
            node.put("/v1/catalog/register", {"Node": "web1", "Address": "10.1.1.1", "Service": {"Service": "web", "Port": 80}}).ok()
            wait_for("the service is found", lambda: ask(node, "web.service.consul") == (NOERROR, 1))

            def asked(count, *names):
                out = subprocess.run(far.wrap + [sys.executable, "-c", STRANGER, here, str(count)] +
                                     [question(n).hex() for n in names], capture_output=True, text=True, timeout=300)
                assert out.returncode == 0, out.stderr
                return [tuple(map(int, line.split())) if line != "none" else None for line in out.stdout.splitlines()]
            up = Upstream(here)
            try:
                assert [r[0] for r in asked(1, "www.example.net") if r] == [REFUSED, REFUSED] and not up.seen
                assert ask(node, "www.example.net") == (NOERROR, 1) and len(up.seen) == 1
                node.write("rpcd.conf", dict(keys, **{"dns_config.allow_recursion_from": [far.far + ".0/24"]}))
                node.signal(signal.SIGHUP, "rpcd")
                wait_for("it may ask", lambda: asked(1, "www.example.net")[0] == (NOERROR, 0, 1, len(question("www.example.net")) + 16))
            finally:
                up.close()
            # One of two that are too many is told to come over TCP, in no more bytes than it sent; the other gets nothing.
            *udp_replies, tcp = asked(20, "web.service.consul")
            slips = [r for r in udp_replies if r and r[1] == 1]
            assert None in udp_replies and slips and tcp[:3] == (NOERROR, 0, 1), udp_replies
            assert all(r[2] == 0 and r[3] <= len(question("web.service.consul")) for r in slips), slips
            for _ in range(20):
                assert ask(node, "web.service.consul") == (NOERROR, 1), "this host has no limit"
            assert int(node.stats("rpcd")["dns_limited"]) >= len(slips) + 1
    finally:
        far.close()


def test_dig():
    """A client that others use is content, over UDP and TCP."""
    with Cluster("127.138.6") as c:
        node = one(c)
        if subprocess.run(["which", "dig"], capture_output=True).returncode != 0:
            skip("test_dig: dig is not installed")
        for how in ([], ["+tcp"], ["+bufsize=1232", "+subnet=192.0.2.0/24"]):
            p = subprocess.run(["dig", "@" + node.addr, "-p", "8600", "+tries=1", "+norecurse", "web.service.consul", "SRV"] + how,
                               capture_output=True, text=True, timeout=60)
            assert p.returncode == 0 and "status: NOERROR" in p.stdout and "WARNING" not in p.stdout, p.stdout
            assert "web1.node.dc1.consul." in p.stdout, p.stdout


main(test_hostile_packets, test_connections, test_pipelined_beyond_the_limit, test_restart, test_killed_before_its_process,
     test_reload, test_capitals, test_names_without_dns, test_log_level, test_recursor, test_recursor_without_capitals, test_strangers, test_dig)

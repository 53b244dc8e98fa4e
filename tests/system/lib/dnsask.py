"""Plain questions to a node's DNS, and the process that answers them."""
import socket
import struct
import subprocess

from waiting import wait_for

A, SOA, PTR, SRV = 1, 6, 12, 33
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
NOWHERE = NXDOMAIN, set()


def wire(name):
    return b"".join(bytes([len(x)]) + x for x in name.encode().split(b".") if x) + b"\0"


def question(name, qtype=A, ident=77):
    return struct.pack("!6H", ident, 0x100, 1, 0, 0, 0) + wire(name) + struct.pack("!2H", qtype, 1)


def exchange(node, q, tcp=False, timeout=20):
    """The bytes of the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect((node.addr, 8600))
        if not tcp:
            s.send(q)
            return s.recv(65535)
        s.sendall(struct.pack("!H", len(q)) + q)
        with s.makefile("rb") as f:
            return f.read(struct.unpack("!H", f.read(2))[0])


def count(node, name, qtype, tcp=False):
    """How many records the answer has."""
    return struct.unpack("!H", exchange(node, question(name, qtype), tcp)[6:8])[0]


def dns(node, name, qtype=A, timeout=20):
    """The code of the answer, and its addresses; of another type the number of records."""
    r = exchange(node, question(name, qtype), timeout=timeout)
    records = struct.unpack("!H", r[6:8])[0]
    if qtype != A:
        return r[3] & 15, records
    at, out = len(question(name)), set()
    for _ in range(records):
        out.add(socket.inet_ntoa(r[at + 12:at + 16]))
        at += 16
    return r[3] & 15, out


def udp(node, packet, timeout=5, source=None):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        if source:
            s.bind((source, 0))
        s.settimeout(timeout)
        s.connect((node.addr, 8600))
        s.send(packet)
        return s.recv(65535)


def ask(node, name, qtype=A, **kw):
    """(rcode, number of answers)"""
    reply = udp(node, question(name, qtype), **kw)
    return reply[3] & 15, struct.unpack("!H", reply[6:8])[0]


def one_dns(c, **rpcd):
    node, = c.servers(1, rpcd=rpcd)
    c.formed([node])
    node.put("/v1/catalog/register", {"Node": "web1", "Address": "10.1.1.1", "Service": {"Service": "web", "Port": 80}}).ok()
    wait_for("the service is found", lambda: ask(node, "web.service.consul") == (NOERROR, 1))
    return node


def dns_pids(node):
    """The processes that serve: children of the one that starts them."""
    out = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()[1:]]
    ours = {int(p): int(parent) for p, parent, comm in rows if comm.strip() == "rpcd: dns"}
    return (p for p, parent in ours.items() if ours.get(parent) == node.pid("rpcd"))


def dns_pid(node):
    return next(dns_pids(node))

"""Plain questions to a node's DNS."""
import socket
import struct

A, PTR, SRV = 1, 12, 33
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
NOWHERE = NXDOMAIN, set()


def question(name, qtype=A, ident=77):
    name = b"".join(bytes([len(x)]) + x for x in name.encode().split(b".") if x) + b"\0"
    return struct.pack("!6H", ident, 0x100, 1, 0, 0, 0) + name + struct.pack("!2H", qtype, 1)


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

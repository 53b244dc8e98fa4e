"""Plain questions to a node's DNS, over UDP."""
import socket
import struct

A = 1
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
NOWHERE = NXDOMAIN, set()


def question(name, qtype=A, ident=77):
    name = b"".join(bytes([len(x)]) + x for x in name.encode().split(b".") if x) + b"\0"
    return struct.pack("!6H", ident, 0x100, 1, 0, 0, 0) + name + struct.pack("!2H", qtype, 1)


def dns(node, name, qtype=A, timeout=20):
    """The code of the answer, and its addresses; of another type the number of records."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect((node.addr, 8600))
        s.send(question(name, qtype))
        r = s.recv(65535)
    count = struct.unpack("!H", r[6:8])[0]
    if qtype != A:
        return r[3] & 15, count
    at, out = len(question(name)), set()
    for _ in range(count):
        out.add(socket.inet_ntoa(r[at + 12:at + 16]))
        at += 16
    return r[3] & 15, out

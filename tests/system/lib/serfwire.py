"""Enough of the gossip wire to forge it: messages of memberlist and Serf in plaintext, whole, cut and malformed.

Standard library only; maps are written as their users write them, and deliberately nothing is checked.
"""
import socket
import struct

from tvframe import pack

PING, INDIRECT, ACK, SUSPECT, ALIVE, DEAD, PUSH_PULL, COMPOUND, USER, COMPRESS, ENCRYPT, NACK, CRC, ERR = range(14)
SERF_LEAVE, SERF_JOIN, SERF_PUSH_PULL, SERF_USER_EVENT, SERF_QUERY = range(5)
VSN = bytes([1, 5, 2, 2, 5, 5])


def raw(text):
    """The old msgpack raw family, for any bytes."""
    text = text.encode() if isinstance(text, str) else text
    if len(text) < 32:
        return bytes([0xA0 | len(text)]) + text
    if len(text) < 65536:
        return b"\xda" + struct.pack(">H", len(text)) + text
    return b"\xdb" + struct.pack(">I", len(text)) + text


def mapping(**fields):
    """A map with raw texts; other values as tvframe packs them, bytes objects of class Raw as they are."""
    out = bytes([0x80 | len(fields)])
    for key, value in fields.items():
        out += raw(key) + (raw(value) if isinstance(value, (str, bytes)) else pack(value))
    return out


def ip(addr):
    return socket.inet_aton(addr)


def message(kind, **fields):
    return bytes([kind]) + mapping(**fields)


def alive(name, addr, incarnation=1, port=8301, meta=b"", vsn=VSN):
    return message(ALIVE, Incarnation=incarnation, Node=name, Addr=ip(addr), Port=port, Meta=meta, Vsn=vsn)


def suspect(name, incarnation, by):
    return message(SUSPECT, Incarnation=incarnation, Node=name, From=by)


def dead(name, incarnation, by):
    return message(DEAD, Incarnation=incarnation, Node=name, From=by)


def ping(node, seq=1):
    return message(PING, SeqNo=seq, Node=node)


def compound(parts):
    return (bytes([COMPOUND, len(parts)]) + b"".join(struct.pack(">H", len(p)) for p in parts) + b"".join(parts))


def node(name, addr, incarnation=1, state=0, port=8301, meta=b"", vsn=VSN):
    """One of a push/pull.  state: 0 alive, 1 suspect, 2 dead, 3 left."""
    return mapping(Name=name, Addr=ip(addr), Port=port, Meta=meta, Incarnation=incarnation, State=state, Vsn=vsn)


def push_pull(nodes, state=b"", count=None, state_len=None, join=False):
    head = mapping(Nodes=len(nodes) if count is None else count,
                   UserStateLen=len(state) if state_len is None else state_len, Join=join)
    return bytes([PUSH_PULL]) + head + b"".join(nodes) + state


def compressed(buf):
    return message(COMPRESS, Algo=0, Buf=buf)


def lzw(data):
    """LZW as memberlist's: least significant bit first, 8-bit literals."""
    out, bits, count = bytearray(), 0, 0
    width, high, overflow, table = 9, 257, 512, {}

    def put(code):
        nonlocal bits, count
        bits |= code << count
        count += width
        while count >= 8:
            out.append(bits & 0xFF)
            bits >>= 8
            count -= 8

    put(256)
    code = data[0]
    for byte in data[1:]:
        key = code << 8 | byte
        if key in table:
            code = table[key]
            continue
        put(code)
        code = byte
        high += 1
        if high == overflow:
            width, overflow = width + 1, overflow << 1
        if high == 4095:
            put(256)
            width, high, overflow, table = 9, 257, 512, {}
        else:
            table[key] = high
    put(code)
    high += 1
    if high == overflow:
        width += 1
    put(257)
    if count:
        out.append(bits & 0xFF)
    return bytes(out)


def send(addr, *datagrams, port=8301, source=None):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        if source:
            s.bind((source, 0))
        for d in datagrams:
            s.sendto(d, (addr, port))


def talk(addr, data, port=8301, timeout=15, end=True):
    """One stream: sends, and returns all that comes until it closes."""
    out = b""
    with socket.create_connection((addr, port), timeout=timeout) as s:
        try:
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
            while True:
                got = s.recv(65536)
                if not got:
                    return out
                out += got
        except OSError:                         # closed before it was read to its end
            return out

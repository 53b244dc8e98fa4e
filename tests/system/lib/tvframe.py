#!/usr/bin/env python3
"""Client for the unix sockets of the daemons: frames (common/net/frame.h) with msgpack bodies.

Standard library only.  Message numbers come from common/net/msg.h, so they cannot drift.

    with Conn("/run/triumvir/gossipd.sock") as c:      # says and expects MSG_HELLO
        info = c.call(MSG.INFO, [])
        c.send(MSG.GOSSIP_WATCH, [])
        for frame in c.frames(timeout=5): ...
"""

import collections
import os
import re
import socket
import struct
import time

HEAD = struct.Struct("<IHHQ")
REPLY, MORE, CANCEL = 1, 2, 4
BODY_MAX = 64 << 20

Frame = collections.namedtuple("Frame", "type flags id body")


def _load_messages():
    here = os.path.dirname(os.path.abspath(__file__))
    text = open(os.path.join(here, "..", "..", "..", "common", "net", "msg.h"), encoding="utf-8").read()
    return {name: int(value) for value, name in re.findall(r"^\tM\((\d+), (\w+),", text, re.M)}


MSG = type("MSG", (), _load_messages())

# -- msgpack: the types that the daemons use -----------------------------------


def pack(value):
    """Smallest form of None, bool, int, float, str, bytes, list/tuple and dict."""
    out = bytearray()
    _pack(value, out)
    return bytes(out)


def _pack(value, out):
    if value is None:
        out.append(0xC0)
    elif value is True or value is False:
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        _pack_int(value, out)
    elif isinstance(value, float):
        out += b"\xcb" + struct.pack(">d", value)
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        _pack_head(len(raw), ((31, 0xA0), (0xFF, b"\xd9B"), (0xFFFF, b"\xdaH"), (0xFFFFFFFF, b"\xdbI")), out)
        out += raw
    elif isinstance(value, (bytes, bytearray)):
        _pack_head(len(value), ((0xFF, b"\xc4B"), (0xFFFF, b"\xc5H"), (0xFFFFFFFF, b"\xc6I")), out)
        out += value
    elif isinstance(value, (list, tuple)):
        _pack_head(len(value), ((15, 0x90), (0xFFFF, b"\xdcH"), (0xFFFFFFFF, b"\xddI")), out)
        for item in value:
            _pack(item, out)
    elif isinstance(value, dict):
        _pack_head(len(value), ((15, 0x80), (0xFFFF, b"\xdeH"), (0xFFFFFFFF, b"\xdfI")), out)
        for key, item in value.items():
            _pack(key, out)
            _pack(item, out)
    else:
        raise TypeError("cannot pack %r" % type(value))


def _pack_int(value, out):
    if 0 <= value < 0x80 or -32 <= value < 0:
        out.append(value & 0xFF)
        return
    forms = ((0xFF, b"\xccB"), (0xFFFF, b"\xcdH"), (0xFFFFFFFF, b"\xceI"), ((1 << 64) - 1, b"\xcfQ"))
    if value >= 0:
        _pack_head(value, forms, out)
        return
    for bits, head in ((8, b"\xd0b"), (16, b"\xd1h"), (32, b"\xd2i"), (64, b"\xd3q")):
        if value >= -(1 << (bits - 1)):
            out.append(head[0])
            out += struct.pack(">" + chr(head[1]), value)
            return
    raise OverflowError(value)


def _pack_head(n, forms, out):
    for limit, form in forms:
        if n <= limit:
            if isinstance(form, int):
                out.append(form | n)
            else:
                out.append(form[0])
                out += struct.pack(">" + chr(form[1]), n)
            return
    raise OverflowError(n)


def unpack(raw):
    """One value; trailing bytes are an error."""
    value, at = _unpack(raw, 0)
    if at != len(raw):
        raise ValueError("%d trailing bytes" % (len(raw) - at))
    return value


_FIXED = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
          0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_SIZED = {0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
          0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
          0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I")}


def _unpack(raw, at):
    head = raw[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 0x100, at
    if head < 0x90:
        return _unpack_items("map", head & 15, raw, at)
    if head < 0xA0:
        return _unpack_items("array", head & 15, raw, at)
    if head < 0xC0:
        return _unpack_items("str", head & 31, raw, at)
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    if head in _FIXED:
        size = struct.calcsize(_FIXED[head])
        return struct.unpack(_FIXED[head], raw[at:at + size])[0], at + size
    if head in _SIZED:
        kind, form = _SIZED[head]
        size = struct.calcsize(form)
        return _unpack_items(kind, struct.unpack(form, raw[at:at + size])[0], raw, at + size)
    raise ValueError("byte 0x%02x" % head)


def _unpack_items(kind, n, raw, at):
    if kind in ("str", "bin"):
        if at + n > len(raw):
            raise ValueError("short")
        piece = bytes(raw[at:at + n])
        return (piece.decode("utf-8", "surrogateescape") if kind == "str" else piece), at + n
    if kind == "array":
        items = []
        for _ in range(n):
            item, at = _unpack(raw, at)
            items.append(item)
        return items, at
    pairs = {}
    for _ in range(n):
        key, at = _unpack(raw, at)
        pairs[key], at = _unpack(raw, at)
    return pairs, at


# -- channel ---------------------------------------------------------------


class Closed(Exception):
    """The daemon closed the channel."""


class Conn:
    """One channel.  `target` is a unix path, (ip, port) for a channel in clear, or a socket that is connected."""

    def __init__(self, target, role="test", hello=True, timeout=30.0):
        self.timeout = timeout
        connected = not isinstance(target, (str, tuple))
        self.sock = target if connected else socket.socket(socket.AF_UNIX if isinstance(target, str) else socket.AF_INET)
        self.sock.settimeout(timeout)
        if not connected:
            self.sock.connect(target)
        self.raw = bytearray()
        self.next_id = 1
        self.waiting = collections.deque()  # frames that arrived while call() waited for its answer
        self.peer = None
        if hello:
            self.send(MSG.HELLO, [1, role, "test", ""])
            self.peer = self.wait(lambda f: f.type == MSG.HELLO).body

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send_raw(self, raw):
        self.sock.sendall(raw)

    def send(self, kind, body, frame_id=0, flags=0):
        raw = pack(body)
        self.send_raw(HEAD.pack(len(raw), kind, flags, frame_id) + raw)

    def call(self, kind, body, timeout=None):
        """Asks, and returns the answer's body (FRAME_MORE parts are refused: ask with frames())."""
        frame_id = self.next_id
        self.next_id += 1
        self.send(kind, body, frame_id)
        frame = self.wait(lambda f: f.flags & REPLY and f.id == frame_id, timeout)
        if frame.flags & MORE:
            raise ValueError("answer in parts")
        return frame.body

    def wait(self, want, timeout=None):
        """The first frame that `want` accepts; the others are kept in order for frames()."""
        limit = time.monotonic() + (self.timeout if timeout is None else timeout)
        skipped = collections.deque()
        try:
            while True:
                frame = self._next(limit)
                if want(frame):
                    return frame
                skipped.append(frame)
        finally:
            skipped.extend(self.waiting)
            self.waiting = skipped

    def frames(self, timeout=None):
        """Frames as they come, until `timeout` seconds from now."""
        limit = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            try:
                yield self._next(limit)
            except TimeoutError:
                return

    def _next(self, limit):
        if self.waiting:
            return self.waiting.popleft()
        while True:
            frame = self._take()
            if frame:
                return frame
            left = limit - time.monotonic()
            if left <= 0:
                raise TimeoutError("no such frame in time")
            self.sock.settimeout(left)
            try:
                piece = self.sock.recv(65536)
            except socket.timeout as e:
                raise TimeoutError("no such frame in time") from e
            except ConnectionResetError as e:
                raise Closed("reset") from e
            if not piece:
                raise Closed("end of stream")
            self.raw += piece

    def _take(self):
        if len(self.raw) < HEAD.size:
            return None
        size, kind, flags, frame_id = HEAD.unpack_from(self.raw)
        if size > BODY_MAX:
            raise ValueError("frame of %d bytes" % size)
        if len(self.raw) < HEAD.size + size:
            return None
        body = bytes(self.raw[HEAD.size:HEAD.size + size])
        del self.raw[:HEAD.size + size]
        return Frame(kind, flags, frame_id, unpack(body) if body else None)


def _self_test():
    values = [None, True, False, 0, 127, 128, 255, 256, 65535, 65536, 1 << 32, (1 << 64) - 1, -1, -32, -33, -129, -40000,
              -(1 << 40), 1.5, "", "a" * 31, "a" * 32, "a" * 300, "a" * 70000, b"", b"x" * 300, [], list(range(20)),
              {}, {"k%d" % i: [i] for i in range(20)}, {"a": {"b": [None, {"c": b"d"}]}}]
    for value in values:
        assert unpack(pack(value)) == value, value
    assert MSG.HELLO == 1 and MSG.GOSSIP_WATCH == 16
    left, right = socket.socketpair()
    conn = Conn.__new__(Conn)
    conn.sock, conn.raw, conn.next_id, conn.waiting, conn.timeout = left, bytearray(), 1, collections.deque(), 5.0
    raw = pack(["late"])
    right.sendall(HEAD.pack(len(raw), 99, 0, 0) + raw)
    right.sendall(HEAD.pack(len(raw), MSG.INFO, REPLY, 1) + raw)
    assert conn.call(MSG.INFO, []) == ["late"]
    assert next(conn.frames(1)).type == 99
    right.close()
    conn.close()


if __name__ == "__main__":
    _self_test()
    print("tvframe: ok")

"""A server of HTTP/2 frames that a test plays: gRPC health, and much that no server should do.

Frames are made by hand, header blocks of requests are unpacked by libnghttp2.  Standard library only.
"""
import ctypes
import ctypes.util
import select
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SERVING, NOT_SERVING = 1, 2


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("value", ctypes.c_void_p), ("name_len", ctypes.c_size_t),
                ("value_len", ctypes.c_size_t), ("flags", ctypes.c_uint8)]


def unpack(block):
    """The fields of one header block, the first of its connection: {name: value}."""
    lib = ctypes.CDLL(ctypes.util.find_library("nghttp2") or "libnghttp2.so.14")
    lib.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
    lib.nghttp2_hd_inflate_hd2.argtypes = [ctypes.c_void_p, ctypes.POINTER(Field), ctypes.POINTER(ctypes.c_int),
                                           ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    inflater, fields, at = ctypes.c_void_p(), {}, 0
    assert lib.nghttp2_hd_inflate_new(ctypes.byref(inflater)) == 0
    while True:
        field, flags = Field(), ctypes.c_int()
        n = lib.nghttp2_hd_inflate_hd2(inflater, ctypes.byref(field), ctypes.byref(flags), block[at:], len(block) - at, 1)
        assert n >= 0, n
        at += n
        if flags.value & 2:
            fields[ctypes.string_at(field.name, field.name_len).decode()] = ctypes.string_at(field.value, field.value_len).decode()
        if flags.value & 1 or (n == 0 and not flags.value & 2):
            return fields


def field(name, value):
    """A field of a header block: literal, neither indexed nor compressed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def health(status):
    """The body of a gRPC answer."""
    message = b"\x08" + bytes([status])
    return b"\0" + struct.pack(">I", len(message)) + message


class Gone(Exception):
    pass


class Conn:
    def __init__(self, server, sock):
        self.server, self.sock = server, sock

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                raise Gone()
            data += more
        return data

    def frame(self):
        head = self.take(9)
        return head[3], head[4], struct.unpack(">I", head[5:])[0] & 0x7fffffff, self.take(int.from_bytes(head[:3], "big"))

    def send(self, *args):
        self.raw(frame(*args))

    def raw(self, data):
        self.sock.sendall(data)
        self.server.sent += len(data)

    def begin(self):
        if self.take(len(PREFACE)) != PREFACE:      # TLS, which is not spoken here
            raise Gone()
        self.send(SETTINGS, 0, 0)

    def request(self):
        """The next one, with all that comes before it answered: (stream, fields, body)."""
        fields, body = {}, b""
        while True:
            kind, flags, stream, payload = self.frame()
            if kind == SETTINGS and not flags & ACK:
                self.send(SETTINGS, ACK, 0)
            elif kind == PING and not flags & ACK:
                self.send(PING, ACK, 0, payload)
            elif kind == HEADERS:
                assert flags & END_HEADERS
                fields = unpack(payload)
            elif kind == DATA:
                body += payload
                if flags & END_STREAM:
                    return stream, fields, body

    def drain(self):
        """What the peer says is thrown away, or it could not read what we send."""
        while select.select([self.sock], [], [], 0)[0]:
            if not self.sock.recv(65536):
                raise Gone()

    def for_ever(self, data):
        while not self.server.stop.is_set():
            self.drain()
            self.raw(data)


class H2Server:
    """mode(conn) is called for each connection, in a thread; tls: an SSL context."""

    def __init__(self, address, mode, tls=None):
        self.mode, self.tls, self.sent, self.requests, self.conns = mode, tls, 0, [], 0
        self.stop, self.services = threading.Event(), {}
        self.sock = socket.create_server((address, 0), backlog=64)
        self.address = "%s:%d" % self.sock.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock = self.sock.accept()[0]
            except OSError:
                return
            self.conns += 1
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with sock:
                self.mode(Conn(self, sock))
        except (Gone, OSError):
            pass
        finally:
            sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.stop.set()
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


# -- how a server may be -------------------------------------------------------------

def healthy(c):
    """grpc.health.v1 as it should be, of server.services, {name: status}."""
    c.begin()
    while True:
        stream, fields, body = c.request()
        assert body[:1] == b"\0" and int.from_bytes(body[1:5], "big") == len(body) - 5, body
        name = body[7:].decode()
        assert len(body) == 5 or body[5:7] == b"\x0a" + bytes([len(name)]), body
        c.server.requests.append((fields, name))
        if name not in c.server.services:
            c.send(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + field("content-type", "application/grpc") +
                   field("grpc-status", "5") + field("grpc-message", "unknown%20service"))
            continue
        c.send(HEADERS, END_HEADERS, stream, b"\x88" + field("content-type", "application/grpc"))
        c.send(DATA, 0, stream, health(c.server.services[name]))
        c.send(HEADERS, END_HEADERS | END_STREAM, stream, field("grpc-status", "0"))


def not_grpc(c):
    c.begin()
    stream = c.request()[0]
    c.send(HEADERS, END_HEADERS, stream, b"\x8d")        # 404
    c.send(DATA, END_STREAM, stream, b"not here")
    c.request()


def nonsense(c):
    c.begin()
    stream = c.request()[0]
    c.send(HEADERS, END_HEADERS, stream, b"\x88")
    c.send(DATA, 0, stream, b"\0\0\0\0\2\xff\xff")
    c.send(HEADERS, END_HEADERS | END_STREAM, stream, field("grpc-status", "0"))
    c.request()


def resets(c):
    c.begin()
    c.send(RST_STREAM, 0, c.request()[0], struct.pack(">I", 7))
    c.request()


def goes_away(c):
    c.begin()
    c.send(GOAWAY, 0, 0, struct.pack(">II", 0, 11))
    c.request()


def http1(c):
    c.take(len(PREFACE))
    c.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    c.take(1 << 20)


def silent(c):
    c.take(1 << 20)


def closes(c):
    c.take(len(PREFACE))


def drips(c):
    c.begin()
    stream = c.request()[0]
    answer = frame(HEADERS, END_HEADERS, stream, b"\x88") + frame(DATA, 0, stream, bytes(4000))
    for byte in answer:
        c.raw(bytes([byte]))
        if c.server.stop.wait(0.05):
            return


def flood_settings(c):
    c.begin()
    c.for_ever(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 100)


def flood_pings(c):
    c.begin()
    while not c.server.stop.is_set():        # and reads no answer
        c.raw(frame(PING, 0, 0, b"12345678") * 100)


def flood_windows(c):
    c.begin()
    c.for_ever((frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) + frame(PRIORITY, 0, 5, struct.pack(">IB", 3, 1))) * 100)


def full_window(c):
    c.begin()
    c.send(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff))
    c.request()


def no_window(c):
    """What the request has beyond its first flight may never be sent."""
    assert c.take(len(PREFACE)) == PREFACE
    c.send(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
    c.request()
    c.request()


def flood_continuation(c):
    c.begin()
    c.send(HEADERS, 0, c.request()[0], b"\x88")
    c.for_ever(frame(CONTINUATION, 0, 1, field("x", "y" * 100) * 20))


def flood_empty_continuation(c):
    c.begin()
    c.send(HEADERS, 0, c.request()[0], b"\x88")
    c.for_ever(frame(CONTINUATION, 0, 1) * 100)


def bomb(c):
    """A field of 4000 bytes goes into the table; then a byte each stands for it."""
    c.begin()
    stream = c.request()[0]
    big = b"\x40\x01x\x7f" + bytes([0x80 | (3900 - 127) & 0x7f, (3900 - 127) >> 7]) + b"z" * 3900
    c.send(HEADERS, END_HEADERS, stream, b"\x88" + big + b"\xbe" * 12000)
    c.request()


def flood_data(c):
    c.begin()
    stream = c.request()[0]
    c.send(HEADERS, END_HEADERS, stream, b"\x88")
    while not c.server.stop.is_set():        # more than the window, if it must be
        c.raw(frame(DATA, 0, stream, bytes(16384)))


def flood_empty_data(c):
    c.begin()
    stream = c.request()[0]
    c.send(HEADERS, END_HEADERS, stream, b"\x88")
    c.for_ever(frame(DATA, 0, stream) * 100)


def pushes(c):
    c.begin()
    stream = c.request()[0]
    c.send(PUSH_PROMISE, END_HEADERS, stream, struct.pack(">I", 2) + b"\x82\x84\x86" + field(":authority", "x"))
    c.request()


def huge_frame(c):
    c.begin()
    c.raw(b"\xff\xff\xff" + struct.pack(">BBI", DATA, 0, 1))
    c.for_ever(bytes(65536))

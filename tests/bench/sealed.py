"""Blocking queries over TLS, for tests/bench/waits: a connection for each, or streams of HTTP/2.  Standard library only."""
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, PING, GOAWAY, WINDOW = 1, 4, 6, 7, 8
ACK, END_STREAM, END_HEADERS = 1, 1, 4
MAX_CONCURRENT_STREAMS = 3


def path(number, index):
    return "/v1/kv/wait/%06d?index=%d&wait=600s" % (number, index)


class Client:
    def __init__(self, addr, ca, protocol):
        self.addr, self.open_ones = addr, []
        self.context = ssl.create_default_context(cafile=ca)
        self.context.set_alpn_protocols([protocol])

    def connect(self):
        sealed = self.context.wrap_socket(socket.create_connection((self.addr, 8501), 60), server_hostname=self.addr)
        self.open_ones.append(sealed)
        return sealed

    def close(self):
        for s in self.open_ones:
            s.close()
        self.open_ones = []


class Connections(Client):
    """HTTP/1.1: one query on each connection."""

    def __init__(self, addr, ca):
        super().__init__(addr, ca, "http/1.1")

    def open(self, count):
        while len(self.open_ones) < count:
            self.connect()

    def wait(self, count, index):
        for i, s in enumerate(self.open_ones[:count]):
            s.sendall(("GET %s HTTP/1.1\r\nHost: b\r\n\r\n" % path(i, index)).encode())


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def text(s):
    """A string of HPACK without Huffman's code (RFC 7541, 5.2); shorter than 127 bytes."""
    return bytes([len(s)]) + s.encode()


class Streams(Client):
    """HTTP/2: as many queries on a connection as the server allows."""

    def __init__(self, addr, ca):
        super().__init__(addr, ca, "h2")
        self.most = 0

    def read_frame(self, s):
        def exactly(n):
            got = b""
            while len(got) < n:
                more = s.recv(n - len(got))
                if not more:
                    raise RuntimeError("the server ended an HTTP/2 connection")
                got += more
            return got
        head = exactly(9)
        return head[3], head[4], exactly(int.from_bytes(head[:3], "big"))

    def start(self):
        """Until the server's settings are there, which are acknowledged."""
        s = self.connect()
        s.sendall(PREFACE + frame(SETTINGS, 0, 0))
        while True:
            kind, flags, body = self.read_frame(s)
            if kind == SETTINGS and not flags & ACK:
                break
        for at in range(0, len(body), 6):
            what, value = struct.unpack(">HI", body[at:at + 6])
            if what == MAX_CONCURRENT_STREAMS:
                self.most = value
        s.sendall(frame(SETTINGS, ACK, 0))
        return s

    def open(self, count):
        self.start()
        while self.most * len(self.open_ones) < count:
            self.start()

    def wait(self, count, index):
        for i in range(count):
            s = self.open_ones[i // self.most]
            block = b"\x82\x87\x04" + text(path(i, index)) + b"\x01" + text("b")        # GET, https, :path, :authority
            s.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 2 * (i % self.most) + 1, block))

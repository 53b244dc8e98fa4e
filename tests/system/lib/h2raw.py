"""Frames of HTTP/2 by hand, over TLS: for what no library would send.  Heads of answers are not unpacked.  Standard library only."""
import socket
import ssl
import struct

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 7, 8, 11
OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value, first=b"\0"):
    """One that is in no table; first=b"\\x40" puts it there."""
    return first + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(path, method=b"GET", authority=b"one", *more):
    return (field(b":method", method) + b"\x87" + field(b":path", path) + field(b":authority", authority) +
            b"".join(field(n, v) for n, v in more))


class H2:
    """A connection; streams are numbered as they begin."""

    def __init__(self, addr, cafile, port=8501, open_windows=True):
        ctx = ssl.create_default_context(cafile=cafile)
        ctx.set_alpn_protocols(["h2"])
        self.sock = ctx.wrap_socket(socket.create_connection((addr, port), timeout=60), server_hostname=addr)
        assert self.sock.selected_alpn_protocol() == "h2"
        self.left, self.next, self.seen = b"", 1, []
        self.send(OPENING + frame(SETTINGS) + (frame(WINDOW_UPDATE, payload=struct.pack(">I", 1 << 30)) if open_windows else b""))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def request(self, path, method=b"GET", *more, body=False, flags=0):
        """Its stream's number.  body: it goes on."""
        stream, self.next = self.next, self.next + 2
        self.send(frame(HEADERS, END_HEADERS | (0 if body else END_STREAM) | flags, stream, head(path, method, b"one", *more)))
        return stream

    def read(self):
        """(kind, flags, stream, payload) of the next frame, None at the end of the connection."""
        while len(self.left) < 9 or len(self.left) < 9 + int.from_bytes(self.left[:3], "big"):
            try:
                more = self.sock.recv(1 << 16)
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return None
            self.left += more
        n = 9 + int.from_bytes(self.left[:3], "big")
        raw, self.left = self.left[:n], self.left[n:]
        return raw[3], raw[4], int.from_bytes(raw[5:9], "big") & 0x7fffffff, raw[9:]

    def until(self, wanted):
        """Reads up to a frame for which wanted(frame) is true; all frames go to `seen`.  None: the connection ended before."""
        while (f := self.read()) is not None:
            self.seen.append(f)
            if wanted(f):
                return f
        return None

    def answer(self, stream):
        """The body of a stream's answer; None: it was reset, or the connection ended."""
        body = b""
        while (f := self.until(lambda f: f[2] == stream and f[0] in (DATA, HEADERS, RST_STREAM))) is not None:
            if f[0] == RST_STREAM:
                return None
            if f[0] == DATA:
                body += f[3]
            if f[1] & END_STREAM:
                return body
        return None

    def goaway(self):
        """The code of the last GOAWAY before the end of the connection, None without one."""
        self.until(lambda f: False)
        codes = [int.from_bytes(f[3][4:8], "big") for f in self.seen if f[0] == GOAWAY]
        return codes[-1] if codes else None

"""A relay in front of a real server that makes it look like an older version: its hellos say nothing of features.

Links in clear only (a cluster without keys)."""
import socket
import threading

import tvframe
from tvframe import HEAD, MSG

FEATURES = 9                        # field of the hello (raftd/identity.c), the last one; older versions end before it


class OldPeer:
    """Connections to front reach back; what back answers loses its features while `old` is set."""

    def __init__(self, front, back, port):
        self.back, self.port, self.old = back, port, True
        self.stripped = 0               # hellos
        self.pairs, self.lock, self.closed = [], threading.Lock(), False
        self.listener = socket.create_server((front, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return                  # closed
            try:
                far = socket.create_connection((self.back, self.port))
            except OSError:
                near.close()            # it is down: so is the relay, to whoever asks
                continue
            with self.lock:
                self.pairs.append((near, far))
            threading.Thread(target=self._pass, args=(near, far, lambda data: data), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, Rewriter(self)), daemon=True).start()

    @staticmethod
    def _pass(source, to, through):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                to.sendall(through(data))
        except OSError:
            pass
        for s in (source, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def upgrade(self):
        """The newer version starts: its links are new ones."""
        self.old = False
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()
        self.upgrade()


class Rewriter:
    """Bytes of frames in, the same out, but for hellos; a frame that is not whole yet waits."""

    def __init__(self, peer):
        self.peer, self.raw = peer, bytearray()

    def __call__(self, data):
        self.raw += data
        out = bytearray()
        while len(self.raw) >= HEAD.size:
            size, kind, flags, number = HEAD.unpack_from(self.raw)
            if len(self.raw) < HEAD.size + size:
                break
            body = bytes(self.raw[HEAD.size:HEAD.size + size])
            del self.raw[:HEAD.size + size]
            if kind == MSG.RAFT_HELLO and self.peer.old:
                body = tvframe.pack(tvframe.unpack(body)[:FEATURES])
                self.peer.stripped += 1
            out += HEAD.pack(len(body), kind, flags, number) + body
        return bytes(out)

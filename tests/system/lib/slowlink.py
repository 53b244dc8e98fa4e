"""A relay that passes one direction at a bounded rate: a peer that reads slowly."""
import socket
import threading

from relay import Relay


class SlowLink(Relay):
    """What the caller sends arrives at `rate` bytes/s (None: as fast as it comes)."""

    def __init__(self, front, back, port, rate):
        self.rate = rate
        self.closing = threading.Event()
        self.passed = 0
        super().__init__(front, back, port)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)     # else the system reads ahead

    def forth(self):
        return self._slowly

    def _slowly(self, source, to):
        rate = self.rate
        data = source.recv(max(1, rate // 4) if rate else 65536)
        to.sendall(data)
        self.passed += len(data)
        if rate:
            self.closing.wait(len(data) / rate)
        return bool(data)

    def close(self):
        self.closing.set()
        super().close()

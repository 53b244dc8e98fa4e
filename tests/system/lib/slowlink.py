"""A listener in between that passes one direction at a bounded rate: a peer that reads slowly."""
import socket
import threading


class SlowLink:
    """Connections to front reach back; what the caller sends arrives at `rate` bytes/s (None: as fast as it comes)."""

    def __init__(self, front, back, port, rate):
        self.back, self.port, self.rate = back, port, rate
        self.closing = threading.Event()
        self.passed = 0
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)     # else the system reads ahead
        self.listener.bind((front, port))
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection((self.back, self.port))
            except OSError:
                if self.closing.is_set():
                    return
                continue
            threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source, to, slowly):
        try:
            while True:
                rate = self.rate if slowly else None
                data = source.recv(max(1, rate // 4) if rate else 65536)
                if not data:
                    break
                to.sendall(data)
                self.passed += len(data) if slowly else 0
                if rate:
                    self.closing.wait(len(data) / rate)
        except OSError:
            pass
        for s in (source, to):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.closing.set()
        self.listener.close()

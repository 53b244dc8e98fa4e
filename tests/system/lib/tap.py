"""A listener in between, for tests of gossip."""
import socket
import threading

from relay import cut


class Tap:
    """Stands before a node's port and records what passes: sealed datagrams and streams as they are."""

    def __init__(self, front, back, port=8301):
        self.back, self.port = back, port
        self.datagrams, self.streams = [], []
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((front, port))
        self.tcp = socket.create_server((front, port))
        self.closed = False
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.pass_datagrams, self.pass_streams)]
        for t in self.threads:
            t.start()

    def pass_datagrams(self):
        while True:
            try:
                data = self.udp.recv(65536)
                if self.closed:
                    return
                self.datagrams.append(data)
                self.udp.sendto(data, (self.back, self.port))
            except OSError:
                return

    def pass_streams(self):
        while True:
            try:
                s, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_stream, args=(s,), daemon=True).start()

    def pass_stream(self, s):
        seen = bytearray()
        self.streams.append(seen)
        with s, socket.create_connection((self.back, self.port)) as far:
            def back():
                try:
                    while data := far.recv(65536):
                        s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
            t = threading.Thread(target=back, daemon=True)
            t.start()
            try:
                while data := s.recv(65536):
                    seen += data
                    far.sendall(data)
            except OSError:
                pass
            t.join(20)

    def close(self):
        """The ports are free afterwards: a socket is bound for as long as a thread waits in it, closed or not."""
        self.closed = True
        cut((self.udp, self.tcp))
        for t in self.threads:
            t.join(20)
        self.udp.close()
        self.tcp.close()

"""A relay in front of a real server, for tests that change what passes, or how."""
import socket
import threading


def copy(source, to):
    """Passes on what there is; False at the end."""
    data = source.recv(65536)
    to.sendall(data)
    return bool(data)


class Relay:
    """Connections to front reach back, at the same port, until close().

    A subclass overrides forth() (what the caller sends) or back() (what the server answers): each returns, for one new
    connection, a function like copy(), which is called again until it returns False.
    """

    def __init__(self, front, back, port):
        self.server = (back, port)
        self.pairs, self.lock = [], threading.Lock()
        self.listener = socket.create_server((front, port))
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def forth(self):
        return copy

    def back(self):
        return copy

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return                  # closed
            try:
                far = socket.create_connection(self.server)
            except OSError:
                near.close()            # it is down: so is the relay, to whoever asks
                continue
            with self.lock:
                self.pairs.append((near, far))
            threading.Thread(target=self._pass, args=(near, far, self.forth()), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, self.back()), daemon=True).start()

    @staticmethod
    def _pass(source, to, step):
        try:
            while step(source, to):
                pass
        except OSError:
            pass
        cut((source, to))

    def cut_all(self):
        """Ends the connections that there are."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            cut(pair)

    def close(self):
        """The port is free afterwards: a socket is bound for as long as a thread waits in it, closed or not."""
        cut([self.listener])            # wakes accept()
        self.accepting.join(20)
        self.listener.close()
        self.cut_all()


def cut(sockets):
    for s in sockets:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass                        # the other side was quicker

"""Strangers: connections that are opened, say next to nothing, and are opened again as soon as they are closed."""
import errno
import select
import socket
import threading


class Flood(threading.Thread):
    """Keeps `count` connections to addr:port open, from the given sources in turn, and sends `say` on each."""

    def __init__(self, addr, port, count, sources, say=b""):
        super().__init__(daemon=True)
        self.to, self.count, self.sources, self.say = (addr, port), count, sources, say
        self.opened = self.closed = 0           # so far; closed: by the other side
        self.halt = threading.Event()
        self.socks = {}

    def open_one(self):
        s = socket.socket()
        s.bind((self.sources[self.opened % len(self.sources)], 0))
        s.setblocking(False)
        err = s.connect_ex(self.to)
        if err not in (0, errno.EINPROGRESS):
            s.close()
            return False
        self.socks[s.fileno()] = s
        self.poll.register(s, select.POLLIN | (select.POLLOUT if self.say else 0))
        self.opened += 1
        return True

    def close_one(self, fd):
        self.poll.unregister(fd)
        self.socks.pop(fd).close()

    def event(self, fd, what):
        if what & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self.close_one(fd)                  # nobody answers a stranger: this is the end
            self.closed += 1
            return
        try:
            self.socks[fd].send(self.say)
        except OSError:
            pass
        self.poll.modify(fd, select.POLLIN)

    def run(self):
        self.poll = select.poll()
        while not self.halt.is_set():
            while len(self.socks) < self.count and self.open_one():
                pass
            for fd, what in self.poll.poll(20):
                self.event(fd, what)
            self.halt.wait(0.01)
        for fd in list(self.socks):
            self.close_one(fd)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.halt.set()
        self.join(30)

"""Network namespaces, cables between them and firewalls, for tests of real daemons.

Where the machine allows it, a test program runs in a network namespace of its own (enter() below), so that addresses
never collide and a firewall can cut what it likes.  Standard library only; ip, nft, unshare and nsenter are used.
"""
import fcntl
import os
import queue
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

INSIDE = "TV_NETNS_INSIDE"


def enter(mounts=False):
    """Goes on in a fresh network namespace with only a loopback device; as we are where that is not allowed.
    With `mounts` what is mounted from here on is nobody else's either, and goes when the test goes."""
    if isolated() or os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return
    kinds = ["--net"] + (["--mount"] if mounts else [])
    if subprocess.run(["unshare", *kinds, "ip", "link", "set", "lo", "up"], capture_output=True).returncode != 0:
        return
    env = dict(os.environ, **{INSIDE: "1"})
    script = 'ip link set lo up && exec "$@"'
    os.execvpe("unshare", ["unshare", *kinds, "sh", "-c", script, "sh", sys.executable] + sys.argv, env)


def run(cmd, **kw):
    p = subprocess.run(cmd, capture_output=True, text=True, **kw)
    assert p.returncode == 0, "%s: %s" % (" ".join(cmd), p.stderr)
    return p.stdout


def isolated():
    return bool(os.environ.get(INSIDE))


def impossible():
    """Why there can be no cables and firewalls here; None when there can be."""
    if not isolated():
        return "needs root and a network namespace"
    if not shutil.which("nft") or not shutil.which("nsenter"):
        return "needs nft (package nftables) and nsenter"
    for cmd in (["nft", "add table ip tvprobe; delete table ip tvprobe"],
                ["ip", "link", "add", "tvprobe", "type", "veth", "peer", "name", "tvprobe2"]):
        p = subprocess.run(cmd, capture_output=True, text=True)
        if p.returncode != 0:
            return "is refused by %s: %s" % (cmd[0], p.stderr.strip())
    run(["ip", "link", "del", "tvprobe"])
    return None


class FarSide:
    """A second network namespace behind a cable that can be cut: neither side hears of it, packets are just lost.

    Members on this side have addresses 10.71.N.x, those on the far side 10.72.N.x.  (Loopback addresses would not do:
    a TCP connection between two of them comes from 127.0.0.1, whoever opened it.)
    """

    def __init__(self, number):
        self.near, self.far = "10.71.%d" % number, "10.72.%d" % number
        self.dev, self.table = "tv%d" % number, "tvcut%d" % number
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 3600"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()           # the namespace is there
        self.wrap = ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid]
        run(["ip", "link", "add", self.dev, "type", "veth", "peer", "name", "far", "netns", str(self.holder.pid)])
        self._up([], self.dev, self.near, self.far)
        self._up(self.wrap, "far", self.far, self.near)

    @staticmethod
    def _up(wrap, dev, here, there):
        for cmd in ("link set lo up", "link set %s up" % dev, "addr add %s.254/32 dev %s" % (here, dev),
                    "route add %s.0/24 dev %s" % (there, dev)):
            run(wrap + ["ip"] + cmd.split())

    def address(self, last, far):
        """Makes an address usable on one of the sides."""
        addr = "%s.%d" % (self.far if far else self.near, last)
        run((self.wrap if far else []) + ["ip", "addr", "add", addr + "/32", "dev", "lo"])
        return addr

    impossible = staticmethod(impossible)

    def cut(self):
        run(["nft", "table ip %s { chain i { type filter hook input priority 0; iifname %s drop; }; "
             "chain o { type filter hook output priority 0; oifname %s drop; }; }" % (self.table, self.dev, self.dev)])

    def mend(self):
        run(["nft", "delete", "table", "ip", self.table])

    def close(self):
        self.holder.kill()
        self.holder.wait()


class LongCable:
    """A second network namespace behind a cable on which each packet takes `delay` seconds per direction.

    This kernel may have no netem, so packets go through this process: a tun device on each side, and two threads between
    them.  Addresses: 10.73.N.x here, 10.74.N.x there.
    """

    SETIFF, TUN_NO_PI = 0x400454CA, 0x1001

    def __init__(self, number, delay):
        self.near, self.far, self.delay = "10.73.%d" % number, "10.74.%d" % number, delay
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.holder = subprocess.Popen(["unshare", "--net", sys.executable, __file__, str(theirs.fileno())],
                                       pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
        theirs.close()
        self.holder.stdout.readline()           # the device is there
        self.wrap = ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid]
        self.socket, self.tun = ours, self.open_tun("long%d" % number)
        for wrap, dev, here, there in (([], "long%d" % number, self.near, self.far),
                                       (self.wrap, "far", self.far, self.near)):
            for cmd in ("link set lo up", "link set %s up" % dev, "addr add %s.254/32 dev %s" % (here, dev),
                        "route add %s.0/24 dev %s" % (there, dev)):
                run(wrap + ["ip"] + cmd.split())
        self.threads = [threading.Thread(target=self.carry, args=a, daemon=True) for a in (
            (lambda: os.read(self.tun, 65536), self.socket.send),
            (lambda: self.socket.recv(65536), lambda p: os.write(self.tun, p)))]
        for t in self.threads:
            t.start()

    @classmethod
    def open_tun(cls, name):
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, cls.SETIFF, struct.pack("16sH", name.encode(), cls.TUN_NO_PI))
        return fd

    def carry(self, take, give):
        """In order, each packet after the same time: one thread takes, another gives."""
        way = queue.Queue()

        def deliver():
            while True:
                due, packet = way.get()
                if packet is None:
                    return
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    give(packet)
                except OSError:
                    pass                        # as on any cable, packets get lost

        threading.Thread(target=deliver, daemon=True).start()
        try:
            while packet := take():
                way.put((time.monotonic() + self.delay, packet))
        except OSError:
            pass
        way.put((0, None))

    @classmethod
    def far_end(cls, fd):
        """The far side's process: between its device and the socket."""
        tun, sock = cls.open_tun("far"), socket.socket(fileno=fd)
        print(flush=True)
        while True:
            ready, _, _ = select.select([tun, sock], [], [])
            try:
                if tun in ready:
                    sock.send(os.read(tun, 65536))
                if sock in ready:
                    packet = sock.recv(65536)
                    if not packet:
                        return
                    os.write(tun, packet)
            except OSError:
                pass

    address = FarSide.address

    @staticmethod
    def impossible():
        if not isolated():
            return "needs root and a network namespace"
        try:
            os.close(LongCable.open_tun("tvprobe"))
        except OSError as e:
            return "needs /dev/net/tun: %s" % e
        return None

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.socket.close()


if __name__ == "__main__":
    LongCable.far_end(int(sys.argv[1]))

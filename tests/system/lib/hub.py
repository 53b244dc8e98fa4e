"""A network of nodes that can be broken in every way a network breaks.

Each node lives in a network namespace of its own, cabled to the one that the test is in.  That one forwards between
them, and its firewall (nftables) decides what gets through, pair by pair and direction by direction; what the test itself
asks the nodes is not forwarded, so no fault ever touches it.  Delays are made by a process at a tun device that the
chosen packets are led through: this kernel may have no netem.
"""
import collections
import heapq
import os
import random
import select
import subprocess
import sys
import threading
import time

from netns import LongCable, run

SLOW = "nemslow"                # the tun device of delayed packets
MARK = 77
SPENT = "nemspent"              # the table of Hub.cut_after()

RULES = """
table ip nemesis {
	set cut { type ipv4_addr . ipv4_addr; }
	set ports { type ipv4_addr . ipv4_addr . inet_service; }
	set refused { type ipv4_addr . ipv4_addr; }
	set lossy { type ipv4_addr . ipv4_addr; }
	set slow { type ipv4_addr . ipv4_addr; }
	chain lead {
		type filter hook prerouting priority -150;
		iifname != "%s" ip saddr . ip daddr @slow meta mark set %d
	}
	chain pass {
		type filter hook forward priority 0;
		ip saddr . ip daddr @cut drop
		ip saddr . ip daddr . th dport @ports drop
		ip saddr . ip daddr . th sport @ports drop
		ip saddr . ip daddr @refused ip protocol tcp reject with tcp reset
		ip saddr . ip daddr @refused drop
		oifname != "%s" ip saddr . ip daddr @lossy numgen random mod 100 < 20 drop
	}
}
""" % (SLOW, MARK, SLOW)

KINDS = ("cut", "ports", "refused", "lossy", "slow")


class Port:
    """A node's place in the network: its address, and the words before a command that runs there."""

    def __init__(self, hub, last):
        self.addr, self.dev = "%s.%d" % (hub.net, last), "nem%d" % last
        # It ends when its standard input does, so with this process, however that ends.
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()           # the namespace is there
        self.wrap = ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid]
        run(["ip", "link", "add", self.dev, "type", "veth", "peer", "name", "eth", "netns", str(self.holder.pid)])
        for wrap, cmd in (([], "addr add %s peer %s dev %s" % (hub.addr, self.addr, self.dev)),
                          ([], "link set %s up" % self.dev),
                          (self.wrap, "link set lo up"),
                          (self.wrap, "addr add %s peer %s dev eth" % (self.addr, hub.addr)),
                          (self.wrap, "link set eth up"),
                          (self.wrap, "route add default via %s" % hub.addr)):
            run(wrap + ["ip"] + cmd.split())

    def close(self):
        run(["ip", "link", "del", self.dev])    # by itself it would go some time after the other end's namespace
        self.holder.stdin.close()
        self.holder.wait()


class Hub:
    """The namespace in the middle.  Faults are counted: what two of them cut stays cut until both are over."""

    def __init__(self, net):
        self.net, self.addr = net, net + ".254"
        self.lock, self.ports = threading.Lock(), {}
        self.held = {k: collections.Counter() for k in KINDS}
        for path in ("ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"):
            with open("/proc/sys/net/ipv4/" + path, "w") as f:
                f.write("1" if path == "ip_forward" else "0")
        run(["nft", "-f", "-"], input=RULES)
        self.delayer = self._delayer()

    def _delayer(self):
        try:
            tun = LongCable.open_tun(SLOW)
        except OSError:
            return None                         # no tun devices here: no delays
        for cmd in ("link set %s up" % SLOW, "rule add fwmark %d table %d" % (MARK, MARK),
                    "route add default dev %s table %d" % (SLOW, MARK)):
            run(["ip"] + cmd.split())
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(tun)], stdin=subprocess.PIPE,
                                   pass_fds=[tun])
        os.close(tun)
        return process

    def place(self, last):
        self.ports[last] = Port(self, last)
        return self.ports[last]

    def _write(self):
        """All sets anew, in one transaction."""
        lines = []
        for kind, items in self.held.items():
            lines.append("flush set ip nemesis " + kind)
            if items:
                lines.append("add element ip nemesis %s { %s }" % (kind, ", ".join(sorted(items))))
        run(["nft", "-f", "-"], input="\n".join(lines) + "\n")

    def hold(self, kind, items):
        """items: 'from . to' (and ' . port' for ports) as nftables writes them."""
        with self.lock:
            self.held[kind].update(items)
            self._write()

    def release(self, kind, items):
        with self.lock:
            self.held[kind].subtract(items)
            self.held[kind] = +self.held[kind]
            self._write()

    @staticmethod
    def cut_after(ways, kbytes):
        """Once so much has gone these ways, together, they are cut: a cut in the middle of something large."""
        run(["nft", "-f", "-"], input="table ip %s {\n\tset ways { type ipv4_addr . ipv4_addr; elements = { %s } }\n\tchain pass {\n"
            "\t\ttype filter hook forward priority 1;\n\t\tip saddr . ip daddr @ways quota over %d kbytes drop\n\t}\n}\n" % (
                SPENT, ", ".join(ways), kbytes))

    @staticmethod
    def mend_after():
        run(["nft", "delete", "table", "ip", SPENT])

    @staticmethod
    def ways(pairs, ports=()):
        """The elements for pairs of nodes, each (from, to): one direction."""
        both = ["%s . %s" % (a.addr, b.addr) for a, b in pairs]
        return ["%s . %d" % (w, p) for w in both for p in ports] if ports else both

    def close(self):
        if self.delayer:
            self.delayer.stdin.close()
            self.delayer.wait()
            run(["ip", "rule", "del", "fwmark", str(MARK), "table", str(MARK)])
        for p in self.ports.values():
            p.close()
        run(["nft", "delete", "table", "ip", "nemesis"])


def delay(tun):
    """The process at the tun device: each packet leaves 20 to 120 ms after it came, so some overtake others."""
    held, count = [], 0
    while True:
        now = time.monotonic()
        while held and held[0][0] <= now:
            try:
                os.write(tun, heapq.heappop(held)[2])
            except OSError:
                pass                            # as on any network, packets get lost
        ready, _, _ = select.select([tun, sys.stdin], [], [], held[0][0] - now if held else None)
        if sys.stdin in ready:
            return
        if tun in ready:
            packet = os.read(tun, 65536)
            if len(held) < 5000:
                count += 1
                heapq.heappush(held, (time.monotonic() + random.uniform(0.02, 0.12), count, packet))


if __name__ == "__main__":
    delay(int(sys.argv[1]))

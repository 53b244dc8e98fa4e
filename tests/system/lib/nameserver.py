"""A name server for tests: UDP and TCP, IPv4 and IPv6, with truncated answers, zones that stay silent and zones that fail.

    with NameServer("127.0.0.53", "::1") as names:
        names.add("web.test", "127.0.0.1", "::1")
        names.srv("_gossip._tcp.test", ("web.test", 8301))
        names.silent.add("gone.test")           # nothing at or below it is answered
        ...
        names.asked                             # [(name, type, "udp" or "tcp", address of ours), ...]

Names that it does not have do not exist.  The test program has to be in network and mount name spaces of its own
(netns.enter(mounts=True)); own_etc() below gives it a folder /etc of its own, and write() files in it.  Run as a program
it serves the JSON of its arguments (`serve`), for machines that are name spaces of their own.  Standard library only.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

A, CNAME, AAAA, SRV, OPT = 1, 5, 28, 33, 41
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
TC = 0x0200
TTL = 1


def packed_name(name):
    return b"".join(bytes([len(part)]) + part.encode("latin1") for part in name.rstrip(".").split(".") if part) + b"\0"


def read_name(packet, at):
    parts = []
    while packet[at] != 0:
        parts.append(packet[at + 1:at + 1 + packet[at]].decode("latin1"))
        at += 1 + packet[at]
    return ".".join(parts).lower(), at + 1


class NameServer:
    def __init__(self, *addresses, port=53):
        self.addresses, self.port = addresses or ("127.0.0.53",), port
        self.records = {}               # {(name, type): [rdata]}
        self.silent, self.failing, self.truncated = set(), set(), set()
        self.delays = {}                # {zone: seconds before each answer}
        self.asked, self.lock = [], threading.Lock()
        self.sockets = []

    # -- what it knows

    def add(self, name, *addresses):
        """Its addresses from now on, of both families; without any the name is gone."""
        name = name.lower().rstrip(".")
        with self.lock:
            for kind in (A, AAAA):
                self.records.pop((name, kind), None)
            for a in addresses:
                kind, family = (AAAA, socket.AF_INET6) if ":" in a else (A, socket.AF_INET)
                self.records.setdefault((name, kind), []).append(socket.inet_pton(family, a))

    def srv(self, name, *targets):
        """(host, port) each, priority 1, weight 1."""
        with self.lock:
            self.records[name.lower(), SRV] = [struct.pack(">HHH", 1, 1, port) + packed_name(host) for host, port in targets]

    def alias(self, name, target):
        with self.lock:
            self.records[name.lower(), CNAME] = [packed_name(target)]

    def questions(self, name, transport=None):
        """How often this name was asked for."""
        with self.lock:
            return sum(1 for n, _, t, _ in self.asked if n == name and transport in (None, t))

    # -- what it says

    @staticmethod
    def within(name, zones):
        return any(name == z or name.endswith("." + z) for z in zones)

    def find(self, name, kind):
        """(status, [(owner, type, rdata)]).  Aliases are followed one step."""
        exists = any(n == name for n, _ in self.records)
        found = [(name, kind, data) for data in self.records.get((name, kind), [])]
        for data in self.records.get((name, CNAME), []):
            target = read_name(data, 0)[0]
            found = [(name, CNAME, data)] + [(target, kind, d) for d in self.records.get((target, kind), [])]
        return NOERROR if exists else NXDOMAIN, found

    def answer(self, packet, transport, address):
        """None: silence."""
        if len(packet) < 12 or packet[2] & 0x80:
            return None
        ident, flags = struct.unpack(">HH", packet[:4])
        name, at = read_name(packet, 12)
        kind = struct.unpack(">H", packet[at:at + 2])[0]
        with self.lock:
            self.asked.append((name, kind, transport, address))
            if self.within(name, self.silent):
                return None
            status, found = (SERVFAIL, []) if self.within(name, self.failing) else self.find(name, kind)
            cut = transport == "udp" and self.within(name, self.truncated)
            delay = max([s for zone, s in self.delays.items() if self.within(name, [zone])], default=0)
        time.sleep(delay)
        flags = 0x8480 | (flags & 0x0100) | status | (TC if cut else 0)
        if cut:
            found = []
        out = struct.pack(">HHHHHH", ident, flags, 1, len(found), 0, 0) + packet[12:at + 4]
        for owner, of, data in found:
            out += packed_name(owner) + struct.pack(">HHIH", of, 1, TTL, len(data)) + data
        return out

    # -- its sockets

    def __enter__(self):
        for address in self.addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind, work in ((socket.SOCK_DGRAM, self.serve_udp), (socket.SOCK_STREAM, self.serve_tcp)):
                s = socket.socket(family, kind)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, self.port))
                if kind == socket.SOCK_STREAM:
                    s.listen(64)
                self.sockets.append(s)
                threading.Thread(target=work, args=(s, address), daemon=True).start()
        return self

    def __exit__(self, *args):
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.sockets = []

    def serve_udp(self, s, address):
        while True:
            try:
                packet, peer = s.recvfrom(65536)
            except OSError:
                return
            threading.Thread(target=self.reply_udp, args=(s, packet, peer, address), daemon=True).start()

    def reply_udp(self, s, packet, peer, address):
        reply = self.answer(packet, "udp", address)
        try:
            if reply is not None and s.fileno() >= 0:
                s.sendto(reply, peer)
        except OSError:
            pass                        # the asker has left

    def serve_tcp(self, s, address):
        while True:
            try:
                peer, _ = s.accept()
            except OSError:
                return
            threading.Thread(target=self.reply_tcp, args=(peer, address), daemon=True).start()

    def reply_tcp(self, peer, address):
        with peer, peer.makefile("rb") as f:
            try:
                while len(head := f.read(2)) == 2:
                    reply = self.answer(f.read(struct.unpack(">H", head)[0]), "tcp", address)
                    if reply is not None:
                        peer.sendall(struct.pack(">H", len(reply)) + reply)
            except OSError:
                pass


def own_etc():
    """From here on /etc is a copy that goes with this test; its folder.  None where name spaces are not to be had."""
    if os.environ.get("TV_NETNS_INSIDE") is None:
        return None
    folder = tempfile.mkdtemp(prefix="tv-etc-")
    subprocess.run(["cp", "-a", "/etc/.", folder], check=True)
    os.chmod(folder, 0o755)
    subprocess.run(["mount", "--bind", folder, "/etc"], check=True)
    write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n")
    return folder


def write(path, text, mode=0o644):
    """As editors, dhclient and configuration management do it: a new file, put in place by rename(2)."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
        os.fchmod(f.fileno(), mode)
    os.rename(path + ".new", path)


def serve(said):
    """{"addresses": [...], "names": {name: [address, ...]}, "silent": [...], "truncated": [...]}; for ever."""
    names = NameServer(*said["addresses"])
    for name, addresses in said.get("names", {}).items():
        names.add(name, *addresses)
    names.silent.update(said.get("silent", []))
    names.truncated.update(said.get("truncated", []))
    with names:
        print("serving", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))

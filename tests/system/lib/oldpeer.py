"""A relay in front of a real server that makes it look like an older version: its hellos say nothing of features, or of the
version of its state machine.

Links in clear only (a cluster without keys)."""
import os

import tvframe
from raftcluster import OP
from relay import Relay
from tvframe import HEAD, MSG
from waiting import wait_for

FEATURES, STATE = 9, 10             # fields of the hello (raftd/peers/identity.c), older versions end before one of them


class OldPeer(Relay):
    """What back answers loses these fields of its hello, and what follows, while `old` is set."""

    def __init__(self, front, back, port, fields=FEATURES):
        self.old = True
        self.fields = fields
        self.stripped = 0               # hellos
        super().__init__(front, back, port)

    def back(self):
        return Rewriter(self)

    def upgrade(self):
        """The newer version starts: its links are new ones."""
        self.old = False
        self.cut_all()


class Rewriter:
    """Passes frames on as they are, but for hellos; a frame that is not whole yet waits."""

    def __init__(self, peer):
        self.peer, self.raw = peer, bytearray()

    def __call__(self, source, to):
        data = source.recv(65536)
        self.raw += data
        to.sendall(self.frames())
        return bool(data)

    def frames(self):
        out = bytearray()
        while len(self.raw) >= HEAD.size:
            size, kind, flags, number = HEAD.unpack_from(self.raw)
            if len(self.raw) < HEAD.size + size:
                break
            body = bytes(self.raw[HEAD.size:HEAD.size + size])
            del self.raw[:HEAD.size + size]
            if kind == MSG.RAFT_HELLO and self.peer.old:
                body = tvframe.pack(tvframe.unpack(body)[:self.peer.fields])
                self.peer.stripped += 1
            out += HEAD.pack(len(body), kind, flags, number) + body
        return bytes(out)


def started_with_old(cluster, fields=FEATURES):
    """Starts a cluster whose last server looks older to the others and does not lead: (relay, that server, leader)."""
    old = cluster.nodes[-1]
    old.advertise = "%s.%d" % (cluster.net, 103)
    # An older leader would write other entries than this one does: it neither forms the cluster, which the server with the
    # lowest id does, nor is it the first to stand for election.
    old.configure(**dict(cluster.options, election_timeout="8s"))
    data = os.path.join(old.dir, "data")
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(data, "node-id"), "w") as f:
        f.write("ffffffff-ffff-4fff-bfff-ffffffffffff\n")
    relay = OldPeer(old.advertise, old.ip, cluster.port, fields)
    cluster.start_all()
    leader = cluster.wait_leader()
    if leader is old:
        others = cluster.nodes[:-1]
        assert old.op(OP.RAFT_TRANSFER, [others[0].id, ""])[0] == 0
        leader = wait_for("another leads", lambda: next((n for n in others if n is cluster.leader()), None))
    return relay, old, leader

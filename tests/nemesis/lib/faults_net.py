"""Faults of the network: who hears whom, and how well."""
import threading

from faults import Fault, names
from hub import Hub

RAFT, GOSSIP, RPC = 8300, 8301, 8400


def both(groups):
    """Pairs, in both directions, of nodes in different groups."""
    return [(a, b) for g in groups for a in g for h in groups if h is not g for b in h]


class NetFault(Fault):
    """Holds what pairs() says, in the hub's set `kind`."""

    kind = "cut"

    def pairs(self):
        raise NotImplementedError

    def begin(self):
        self.held = Hub.ways(self.pairs())
        self.world.hub.hold(self.kind, self.held)

    def end(self):
        self.world.hub.release(self.kind, self.held)

    def split(self, sizes=(1, 2, 3)):
        nodes = list(self.world.nodes)
        self.random.shuffle(nodes)
        at = self.random.choice(sizes)
        self.detail = names(nodes[:at]) + " | " + names(nodes[at:])
        return [nodes[:at], nodes[at:]]


class Halves(NetFault):
    name = "halves"

    def pairs(self):
        return both(self.split((2, 3)))


class IsolatedLeader(NetFault):
    name = "isolated-leader"

    def pairs(self):
        victim = self.world.leader() or self.random.choice(self.world.servers)
        self.detail = victim.name
        return both([[victim], [n for n in self.world.nodes if n is not victim]])


class Shattered(NetFault):
    """Nobody hears anybody."""
    name = "shattered"

    def pairs(self):
        return both([[n] for n in self.world.nodes])


class OneWay(NetFault):
    """One does not hear some of the others, or is not heard by them."""
    name = "one-way"

    def pairs(self):
        victim = self.some_server()
        others = [n for n in self.world.nodes if n is not victim]
        others = self.random.sample(others, self.random.randint(1, len(others)))
        deaf = self.random.random() < 0.5
        self.detail = "%s %s %s" % (victim.name, "does not hear" if deaf else "is not heard by", names(others))
        return [(o, victim) if deaf else (victim, o) for o in others]


class Ring(NetFault):
    """Each server hears its two neighbours only, so each sees another majority."""
    name = "ring"

    def pairs(self):
        order = list(self.world.servers)
        self.random.shuffle(order)
        self.detail = names(order)
        n = len(order)
        return [(a, b) for i, a in enumerate(order) for j, b in enumerate(order) if (i - j) % n not in (0, 1, n - 1)]


class Bridge(NetFault):
    """Two halves that only one server connects."""
    name = "bridge"

    def pairs(self):
        order = list(self.world.nodes)
        self.random.shuffle(order)
        middle = self.some_server()
        order.remove(middle)
        self.detail = "%s < %s > %s" % (names(order[:2]), middle.name, names(order[2:]))
        return both([order[:2], order[2:]])


class Flapping(NetFault):
    """A cut that comes and goes."""
    name = "flapping"

    def pairs(self):
        return both(self.split())

    def begin(self):
        self.held, self.halt = Hub.ways(self.pairs()), threading.Event()
        self.thread = threading.Thread(target=self.flap, daemon=True)
        self.thread.start()

    def flap(self):
        while not self.halt.wait(self.random.uniform(0.2, 1.5)):
            self.world.hub.hold("cut", self.held)
            self.halt.wait(self.random.uniform(0.2, 1.5))
            self.world.hub.release("cut", self.held)

    def end(self):
        self.halt.set()
        self.thread.join()


class Swizzle(NetFault):
    """Links are cut one after the other, each both ways or one, and come back one by one, in another order; again and again."""
    name = "swizzle"

    def begin(self):
        self.halt, self.done = threading.Event(), 0
        self.thread = threading.Thread(target=self.swizzle, daemon=True)
        self.thread.start()

    def swizzle(self):
        hub, nodes = self.world.hub, self.world.nodes
        links = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1:]]
        while not self.halt.is_set():
            cut = [Hub.ways(self.random.choice(([(a, b), (b, a)], [(a, b)], [(b, a)])))
                   for a, b in self.random.sample(links, self.random.randint(len(links) // 3, len(links)))]
            pause, held = self.random.uniform(0.02, 0.3), []
            for ways in cut:
                hub.hold("cut", ways)
                held.append(ways)
                if self.halt.wait(self.random.expovariate(1 / pause)):
                    break
            self.random.shuffle(held)
            for ways in held:
                hub.release("cut", ways)
                self.halt.wait(self.random.expovariate(1 / pause))
            self.done += 1

    def end(self):
        self.halt.set()
        self.thread.join()
        self.detail = "%d times" % self.done


class Refused(NetFault):
    """Connections are reset rather than silent."""
    name = "refused"
    kind = "refused"

    def pairs(self):
        return both(self.split())


class ResetLink(NetFault):
    """The leader and one other node are refused by each other: to either the other one seems to have died, and both live."""
    name = "reset-link"
    kind = "refused"

    def pairs(self):
        leader = self.world.leader() or self.random.choice(self.world.servers)
        other = self.random.choice([n for n in self.world.servers if n is not leader])
        self.detail = "%s and %s" % (leader.name, other.name)
        return both([[leader], [other]])


class Lossy(NetFault):
    """A fifth of the packets is lost."""
    name = "loss"
    kind = "lossy"

    def pairs(self):
        if self.random.random() < 0.5:
            return both([[n] for n in self.world.nodes])
        return both(self.split())


class Slow(NetFault):
    """20 to 120 ms late, and out of order."""
    name = "delay"
    kind = "slow"

    def pairs(self):
        if self.random.random() < 0.3:
            return both([[n] for n in self.world.nodes])
        return both(self.split((1, 2)))


class PortFault(NetFault):
    """Only one protocol is cut, in one direction or both."""
    port = 0

    def begin(self):
        pairs = both(self.split())
        if self.random.random() < 0.4:
            pairs = pairs[:len(pairs) // 2]
            self.detail += ", one way"
        self.held = Hub.ways(pairs, [self.port])
        self.world.hub.hold("ports", self.held)

    def end(self):
        self.world.hub.release("ports", self.held)


class NoRaft(PortFault):
    name = "no-raft"
    port = RAFT


class NoGossip(PortFault):
    name = "no-gossip"
    port = GOSSIP


class NoRpc(PortFault):
    name = "no-rpc"
    port = RPC


CATALOG = [Halves, IsolatedLeader, Shattered, OneWay, Ring, Bridge, Flapping, Swizzle, Refused, ResetLink, Lossy, Slow, NoRaft,
           NoGossip, NoRpc]

"""What a fault is, and how a few of them are chosen that may happen at the same time."""


class Fault:
    """begin() makes it, end() undoes it; both may take a while.  A fault of a class that is `alone` changes who is a
    member or loses a disk: of those, one at a time, since two lost disks and a lost majority could lose data rightly."""

    name = ""
    alone = False

    def __init__(self, world, rng):
        self.world, self.random = world, rng
        self.detail = ""

    def begin(self):
        raise NotImplementedError

    def end(self):
        pass

    # -- victims -----------------------------------------------------------

    def some_server(self):
        """Any, but the leader more often than its share."""
        leader = self.world.leader() if self.random.random() < 0.4 else None
        return leader or self.random.choice(self.world.servers)

    def some_servers(self, low, high):
        return self.random.sample(self.world.servers, self.random.randint(low, high))

    def __str__(self):
        return self.name + (" (%s)" % self.detail if self.detail else "")


def names(nodes):
    return " ".join(n.name for n in nodes)


def choose(catalog, world, rng):
    """One to three faults for one round."""
    count = rng.choice((1, 1, 2, 2, 2, 3))
    out = []
    for kind in rng.sample(catalog, min(len(catalog), count + 3)):
        if kind.alone and any(f.alone for f in out):
            continue
        out.append(kind(world, rng))
        if len(out) == count:
            break
    return out

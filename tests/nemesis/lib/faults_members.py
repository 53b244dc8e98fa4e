"""What an operator does under load: changes of membership and of leadership, backups."""
import os
import subprocess
import time

from faults import Fault


def quietly(node, *args, timeout=15):
    """clusterctl, whose refusal is no finding: (ended with status 0, what it said)."""
    try:
        p = node.ctl(*args, check=False, timeout=timeout)
        return p.returncode == 0, p.stderr.strip()
    except subprocess.TimeoutExpired:
        return False, "no answer"


class Transfer(Fault):
    """The leadership moves, a few times."""
    name = "transfer"

    def begin(self):
        done = 0
        for _ in range(self.random.randint(1, 4)):
            done += quietly(self.random.choice(self.world.servers), "raft", "transfer-leader", timeout=8)[0]
            self.world.halt.wait(self.random.uniform(0, 1))
        self.detail = "%d times" % done


class Backup(Fault):
    """Snapshots are saved; what is said to be saved is whole."""
    name = "backup"

    def begin(self):
        path, done = os.path.join(self.world.cluster.dir, "backup"), 0
        for _ in range(self.random.randint(1, 3)):
            node = self.random.choice(self.world.nodes)
            stale = ["--stale"] if self.random.random() < 0.3 else []
            if quietly(node, "snapshot", "save", *stale, path)[0]:
                done += 1
                ok, text = quietly(node, "snapshot", "inspect", path, timeout=120)
                if not ok:
                    self.world.report("backup", "saved at %s, but: %s" % (node.name, text))
            if os.path.exists(path):
                os.unlink(path)
        self.detail = "%d saved" % done


class MemberFault(Fault):
    alone = True

    def gone(self, node, limit):
        """Waits until it is no member of the configuration any more."""
        others = [n for n in self.world.servers if n is not node]
        end = time.monotonic() + limit
        while time.monotonic() < end:
            peers = self.world.peers(others)
            if peers is not None and node.name not in peers:
                return True
            self.world.halt.wait(0.2)
        return False


class Leave(MemberFault):
    """A server leaves gracefully, and returns."""
    name = "leave"

    def begin(self):
        self.node = self.some_server()
        self.world.down.update((self.node.name, d) for d in self.node.daemons)     # they end when it has left
        ok, text = quietly(self.node, "leave")
        self.detail = self.node.name + ("" if ok else ": " + text[:120])
        if ok and not self.gone(self.node, 20):
            self.still_there()

    def still_there(self):
        """Other faults may leave no majority that could tell; those that removed it know it all the same."""
        others = [n for n in self.world.servers if n is not self.node]
        views = {n.name: self.world.peers([n], "?stale") for n in others}
        if all(v is None or self.node.name in v for v in views.values()):
            self.world.report("leave", "%s left and is still configured: %s" % (self.node.name, views))

    def end(self):
        self.world.kill(self.node)
        self.world.start(self.node)


class ForceLeave(MemberFault):
    """A dead server is forced out.  It returns with its old disk, and stays away; then with an empty one."""
    name = "force-leave"

    def begin(self):
        self.node = self.some_server()
        self.detail = self.node.name
        self.world.kill(self.node)
        other = self.random.choice([n for n in self.world.servers if n is not self.node])
        end = time.monotonic() + 20
        while not quietly(other, "force-leave", self.node.name)[0] and time.monotonic() < end:
            self.world.halt.wait(0.3)
        self.removed = self.gone(self.node, 20)
        self.detail += "" if self.removed else ", not removed"

    def end(self):
        self.world.start(self.node)
        if not self.removed:
            self.world.asked_out.add(self.node)     # the leader may get it done yet
            return
        if not self.seen_again():
            self.detail += ", not seen again"
        peers = self.world.peers()
        if peers and self.node.name in peers:
            self.world.report("force-leave", "%s is back with its old disk: %s" % (self.node.name, peers))
        self.world.kill(self.node)
        self.world.wipe(self.node, True)
        self.world.start(self.node)

    def seen_again(self):
        """The leader says that it does not add it."""
        end = time.monotonic() + 15
        while time.monotonic() < end:
            if any("not adding " + self.node.name in n.log("raftd") for n in self.world.servers):
                return True
            self.world.halt.wait(0.3)
        return False


class EmptyDisk(MemberFault):
    """A server loses its disk, with the node's id or without."""
    name = "empty-disk"

    def begin(self):
        self.node = self.some_server()
        everything = self.random.random() < 0.5
        self.detail = "%s, %s" % (self.node.name, "all of it" if everything else "what raftd has")
        self.world.kill(self.node)
        self.world.wipe(self.node, everything)
        self.world.halt.wait(self.random.uniform(0, 3))
        self.world.start(self.node)


CATALOG = [Transfer, Backup, Leave, ForceLeave, EmptyDisk]

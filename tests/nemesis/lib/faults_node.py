"""Faults of processes, disks and clocks."""
import errno
import os
import signal

from faults import Fault, names

HOUR = 3600


# -- processes ------------------------------------------------------------------------------------


class Kill(Fault):
    """kill -9 of one daemon; it comes back when the fault ends."""
    name = "kill"

    def begin(self):
        self.node = self.random.choice(self.world.nodes) if self.random.random() < 0.3 else self.some_server()
        self.daemon = self.random.choice(self.node.daemons)
        self.detail = "%s of %s" % (self.daemon, self.node.name)
        self.world.kill(self.node, self.daemon)

    def end(self):
        self.world.start(self.node, self.daemon)


class KillNodes(Fault):
    """All daemons of one or two servers."""
    name = "kill-nodes"

    def begin(self):
        self.victims = self.some_servers(1, 2)
        self.detail = names(self.victims)
        for n in self.victims:
            self.world.kill(n)

    def end(self):
        for n in self.victims:
            self.world.start(n)


class CrashLoop(Fault):
    """raftd dies again and again, also while it recovers."""
    name = "crash-loop"

    def begin(self):
        self.node = self.some_server()
        self.detail = self.node.name
        for _ in range(self.random.randint(3, 6)):
            self.world.kill(self.node, "raftd")
            self.world.start(self.node, "raftd")
            self.world.halt.wait(self.random.uniform(0.02, 0.4))


class KillAllRaft(Fault):
    """Every raftd at once."""
    name = "kill-all-raftd"

    def begin(self):
        for n in self.world.servers:
            self.world.kill(n, "raftd")

    def end(self):
        for n in self.random.sample(self.world.servers, len(self.world.servers)):
            self.world.start(n, "raftd")


class PowerCut(Fault):
    """Every daemon of every server at once."""
    name = "power-cut"

    def begin(self):
        for n in self.world.servers:
            self.world.kill(n)

    def end(self):
        for n in self.random.sample(self.world.servers, len(self.world.servers)):
            self.world.start(n)


class Freeze(Fault):
    """SIGSTOP of one daemon on one to three nodes."""
    name = "freeze"

    def begin(self):
        self.daemon = self.random.choice(("raftd", "raftd", "rpcd", "gossipd"))
        self.victims = [self.some_server()] if self.random.random() < 0.6 else self.some_servers(1, 3)
        self.detail = "%s of %s" % (self.daemon, names(self.victims))
        for n in self.victims:
            n.signal(signal.SIGSTOP, self.daemon)

    def end(self):
        for n in self.victims:
            n.signal(signal.SIGCONT, self.daemon)


class FreezeLeaderRpcd(Fault):
    """rpcd of the leader is stopped for longer than the leader's raftd bears it, sometimes that of another server too."""
    name = "freeze-leader-rpcd"
    patience = 12.0         # seconds: 5 s of silence, looks and questions around them, on a busy machine

    def begin(self):
        leader = self.world.leader() or self.random.choice(self.world.servers)
        self.victims = [leader]
        if self.random.random() < 0.3:
            self.victims.append(self.random.choice([n for n in self.world.servers if n is not leader]))
        self.detail = names(self.victims)
        for n in self.victims:
            n.signal(signal.SIGSTOP, "rpcd")
        self.world.halt.wait(self.patience)

    def end(self):
        for n in self.victims:
            n.signal(signal.SIGCONT, "rpcd")


class Restart(Fault):
    """In order, one daemon or all of a node."""
    name = "restart"

    def begin(self):
        node = self.random.choice(self.world.nodes)
        which = self.random.choice([*node.daemons, None])
        self.detail = "%s of %s" % (which or "all", node.name)
        self.world.stop(node, *([which] if which else []))
        self.world.start(node, *([which] if which else []))


class RollingRestart(Fault):
    """raftd of every server, one after another."""
    name = "rolling-restart"

    def begin(self):
        for n in self.random.sample(self.world.servers, len(self.world.servers)):
            self.world.stop(n, "raftd")
            self.world.start(n, "raftd")
            self.world.halt.wait(self.random.uniform(0, 1))


# -- disks ----------------------------------------------------------------------------------------


class DiskFull(Fault):
    """Something else fills the file system."""
    name = "disk-full"

    def begin(self):
        self.victims = self.world.servers if self.random.random() < 0.15 else self.some_servers(1, 2)
        self.detail = names(self.victims)
        for n in self.victims:
            self.world.excuse(n, True)
            left = self.random.choice((0, 0, 100, 2000)) * 1024
            with open(os.path.join(n.data, "filler"), "wb", buffering=0) as f:
                space = os.statvfs(n.data)
                try:
                    os.posix_fallocate(f.fileno(), 0, max(4096, space.f_bavail * space.f_frsize - left))
                except OSError as e:
                    assert e.errno == errno.ENOSPC, e   # somebody was faster: full it is

    def end(self):
        for n in self.victims:
            os.unlink(os.path.join(n.data, "filler"))
            self.world.excuse(n, False)


class DiskFault(Fault):
    """Something that the preloaded library does."""

    def begin(self):
        self.victims = [self.some_server()] if self.random.random() < 0.6 else self.some_servers(1, 2)
        self.detail = names(self.victims)
        for n in self.victims:
            self.world.excuse(n, True)
            self.make(self.world.disks[n.name])

    def make(self, disk):
        raise NotImplementedError

    def end(self):
        for n in self.victims:
            self.world.disks[n.name].clear()
            self.world.excuse(n, False)


class SyncError(DiskFault):
    name = "sync-error"

    def make(self, disk):
        disk.sync_error(errno.EIO, count=self.random.randint(1, 3), kind=self.random.choice(("log", "log", "all")))


class WriteError(DiskFault):
    name = "write-error"

    def make(self, disk):
        disk.write_error(self.random.choice((errno.EIO, errno.ENOSPC)), count=self.random.randint(1, 3),
                         kind=self.random.choice(("log", "state", "all")))


class SlowDisk(DiskFault):
    name = "slow-disk"

    def make(self, disk):
        disk.sync_delay(self.random.choice((20, 100, 400, 1500)), kind=self.random.choice(("log", "all")))


class HangingDisk(DiskFault):
    name = "hanging-disk"

    def make(self, disk):
        disk.hang(True, kind=self.random.choice(("log", "log", "state", "all")),
                  what=self.random.choice(("sync", "both")))


# -- clocks ---------------------------------------------------------------------------------------


class ClockJump(Fault):
    """CLOCK_REALTIME of one to all nodes is hours away, and comes back."""
    name = "clock-jump"

    def begin(self):
        self.victims = self.random.sample(self.world.nodes, self.random.randint(1, len(self.world.nodes)))
        self.detail = names(self.victims)
        for n in self.victims:
            self.world.clocks[n.name].jump(self.random.randint(-48 * HOUR, 48 * HOUR))

    def end(self):
        for n in self.victims:
            self.world.clocks[n.name].jump(0)


class ClockRate(Fault):
    """CLOCK_MONOTONIC of each node runs up to 10 % too fast or too slow."""
    name = "clock-rate"

    def begin(self):
        for n in self.world.nodes:
            self.world.clocks[n.name].rate(self.random.randint(-100000, 100000))

    def end(self):
        for n in self.world.nodes:
            self.world.clocks[n.name].rate(0)


CATALOG = [Kill, KillNodes, CrashLoop, KillAllRaft, PowerCut, Freeze, FreezeLeaderRpcd, Restart, RollingRestart, DiskFull, SyncError,
           WriteError, SlowDisk, HangingDisk, ClockJump, ClockRate]

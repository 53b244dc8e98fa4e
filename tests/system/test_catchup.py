#!/usr/bin/env python3
"""Followers that lag while writes go on at full speed: away and back, by log and by snapshot (S44), too slow for
log_keep_max (its alarm), one that reads 1 KB/s (S38), one that is fed from a disk that hangs, and upgrades meanwhile (S163)."""
import atexit
import itertools
import os
import re
import shutil
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
from cluster import BUILD, main, skip  # noqa: E402
from raftcluster import KV_SET, MSG, OP, READ_DEFAULT, Conn, RaftCluster  # noqa: E402
from slowlink import SlowLink  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.27.3")
with open(os.path.join(BUILD, "config.h")) as f:        # their shadow and quarantine are no memory of ours
    SANITIZED = "#define TV_SANITIZERS 1" in f.read()
CALM = {"election_timeout": "3s", "heartbeat_interval": "300ms"}      # a busy machine is not what is tested
FRONTS = itertools.count()      # a listener of its own for each test
SNAPSHOTS = {"snapshot_threshold": 500, "snapshot_interval": "100ms", "trailing_logs": 100, "snapshot_chunk": "64k"}


class Load:
    """Writers on the leader's own socket that never pause; every answer must be a success."""

    def __init__(self, leader, writers=3, size=1000):
        self.leader, self.size = leader, size
        self.count, self.errors, self.lock = 0, [], threading.Lock()
        self.halt = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(writers)]
        for t in self.threads:
            t.start()

    def _run(self, writer):
        conn, number = Conn(self.leader.sock_path), 0
        while not self.halt.is_set():
            number += 1
            args = [KV_SET, "w%d/%d" % (writer, number % 500), 0, os.urandom(self.size), 0, "", 0]
            answer = conn.call(MSG.OP, [OP.KV_APPLY, "", READ_DEFAULT, 0, 0, 0, "", args], 30)
            with self.lock:
                self.count += 1
                if answer[0] != 0:
                    self.errors.append(answer[:2])
        conn.close()

    def more(self, n):
        """Waits for n further writes."""
        goal = self.count + n
        wait_for("%d more writes" % n, lambda: self.count >= goal, 180)

    def stop(self):
        self.halt.set()
        for t in self.threads:
            t.join(40)
            assert not t.is_alive(), "a writer got no answer"
        assert not self.errors, self.errors[:3]


def converged(leader, follower):
    """The follower has, under load, what the leader had a moment ago."""
    def lag():
        want = int(leader.info()["applied_index"])
        return want - int(follower.info()["applied_index"])
    wait_for("the follower converges", lambda: lag() < 50, 180)


def same(nodes):
    """All have applied the same, and answer the same."""
    wait_for("equal applied indexes", lambda: len({n.info()["applied_index"] for n in nodes}) == 1)
    lists = [n.op(OP.KV_LIST, ["w", ""])[3] for n in nodes]
    assert len(lists[0]) > 0 and all(x == lists[0] for x in lists)


def away_and_back(options, away, said):
    with RaftCluster(3, net=NET, bootstrap_expect=3, **CALM, **options) as c:
        c.start_all()
        leader = c.wait_leader()
        follower = next(n for n in c.nodes if n is not leader)
        load = Load(leader)
        load.more(200)
        term = leader.info()["term"]
        follower.kill()
        last = int(leader.info()["last_log_index"])      # it has no more than that
        load.more(away)
        if said:                                         # what it lacks has been cut off meanwhile
            wait_for("the leader's log begins later", lambda: int(leader.info()["first_log_index"]) > last + 1)
        follower.start()
        converged(leader, follower)
        load.more(200)
        assert leader.info()["term"] == term, "an election because a follower came back"
        assert ("installed the snapshot" in follower.log()) == said, follower.log()
        load.stop()
        same(c.nodes)


def back_by_log():
    away_and_back({}, 3000, False)


def back_by_snapshot():
    away_and_back(SNAPSHOTS, 3000, True)


def log_bytes(node):
    folder = os.path.join(node.dir, "data", "raftd", "log")
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f.startswith("log."))


def behind_slow_link(c, rate):
    """Starts three servers; the third is reached through a link that passes `rate` bytes/s once it is set."""
    slow = c.nodes[2]
    slow.advertise = "%s.%d" % (c.net, 103 + next(FRONTS))
    slow.configure(**c.options)
    link = SlowLink(slow.advertise, slow.ip, c.port, None)
    atexit.register(link.close)
    c.start_all()
    leader = c.wait_leader()
    if leader is slow:
        other = c.nodes[0]
        assert slow.op(OP.RAFT_TRANSFER, [other.id, ""])[0] == 0
        leader = wait_for("another leads", lambda: next((n for n in c.nodes[:2] if n is c.leader()), None))
    wait_for("it follows", lambda: slow.info()["applied_index"] == leader.info()["applied_index"])
    link.rate = rate
    return leader, next(n for n in c.nodes[:2] if n is not leader), slow, link


def rss(node):
    with open("/proc/%d/status" % node.process.pid) as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))


def reads_one_kb_per_second():
    """S38: the leader's memory is bounded, the other follower keeps up, and every write is acknowledged."""
    # A window of 4 MB, of which each election gives another one to the link; and many heartbeats, each of which repeats
    # what was not answered: what waits in the link already must not be put behind itself.
    calm = dict(CALM, heartbeat_interval="30ms")
    with RaftCluster(3, net=NET, bootstrap_expect=3, entry_cache="1M", state_cache="4M", append_bytes_max="64k",
                     **calm) as c:
        leader, other, slow, link = behind_slow_link(c, 1000)
        load = Load(leader, size=4000)
        load.more(1000)                                  # caches are full
        before = rss(leader)
        load.more(8000)                                  # 32 MB that the slow one does not take
        grown = rss(leader) - before
        assert grown < 16 << 20 or SANITIZED, "the leader grew by %d KB" % (grown >> 10)
        converged(leader, other)
        lag = int(leader.info()["applied_index"]) - int(slow.info()["applied_index"])
        assert lag > 5000, "the link is not slow: lag %d, passed %d" % (lag, link.passed)
        link.rate = None
        converged(leader, slow)
        load.stop()
        same(c.nodes)
        link.close()


def too_slow_for_the_log():
    """S44: the leader keeps the log for a slow follower up to log_keep_max, says so, and brings it back by snapshot."""
    # Small messages, one at a time: heartbeats get through, so that the slow one counts as connected.
    with RaftCluster(3, net=NET, bootstrap_expect=3, log_keep_max="8M", append_bytes_max="4k", inflight_max=1,
                     **CALM, **SNAPSHOTS) as c:
        leader, other, slow, link = behind_slow_link(c, 100000)
        load = Load(leader, size=8000)
        wait_for("the alarm", lambda: "n3 lags by" in leader.log() and "log_keep_max" in leader.log(), 60)
        wait_for("the log is cut", lambda: log_bytes(leader) < 48 << 20)
        load.stop()
        link.rate = None
        slow.wait_log("installed the snapshot")
        same(c.nodes)
        link.close()


def damaged_snapshot_is_made_again():
    """The disk damages the file that the leader is sending: it notices, says so, and makes another."""
    with RaftCluster(3, net=NET, bootstrap_expect=3, **CALM, **dict(SNAPSHOTS, snapshot_chunk="16k")) as c:
        leader, other, slow, link = behind_slow_link(c, None)
        load = Load(leader)
        load.more(200)
        slow.kill()
        last = int(leader.info()["last_log_index"])      # it has no more than that
        load.more(3000)
        wait_for("the leader's log begins later", lambda: int(leader.info()["first_log_index"]) > last + 1)
        load.stop()
        link.rate, link.passed = 50000, 0
        slow.start()
        leader.wait_log("is ready:")
        folder = os.path.join(leader.dir, "data", "raftd")
        name = next(f for f in os.listdir(folder) if f.startswith("snapshot-"))
        with open(os.path.join(folder, name), "r+b") as f:
            size = f.seek(0, os.SEEK_END)
            assert size > 1 << 20 and link.passed < size // 2, (size, link.passed)
            f.seek(size * 9 // 10)
            byte = f.read(1)[0]
            f.seek(size * 9 // 10)
            f.write(bytes([byte ^ 4]))
        link.rate = None
        slow.wait_log("installed the snapshot")
        assert "has damaged it since it was written (checksum); making another" in leader.log()
        assert leader.info()["snapshots_damaged"] == "1" and leader.log().count("is ready:") == 2
        assert "corrupt" not in slow.log(), "it was sent all the same"
        same(c.nodes)
        link.close()


def fed_from_a_disk_that_hangs():
    """A follower that is far behind is fed from the log by a thread: while that disk hangs the leader goes on, stays the
    leader, and its heartbeats keep the follower calm; then the follower gets all of it."""
    if diskfault.missing():
        skip(diskfault.missing())
    # Heartbeats at a pace at which an election of one who hears none would be seen.
    calm = {"election_timeout": "2s", "heartbeat_interval": "100ms"}
    with RaftCluster(3, net=NET, bootstrap_expect=3, entry_cache="64k", append_bytes_max="64k", inflight_max=4, **calm) as c:
        disks = {}
        for node in c.nodes:
            disks[node.name] = diskfault.DiskFault(os.path.join(node.dir, "disk"))
            node.env = disks[node.name].env
        c.start_all()
        leader = c.wait_leader()
        follower, other = (n for n in c.nodes if n is not leader)
        load = Load(leader)
        load.more(50)
        term, disk = leader.info()["term"], disks[leader.name]
        follower.kill()
        load.more(6000)
        disk.hang(True, "log", "read")
        follower.start()
        wait_for("a read hangs", lambda: disk.hanging("log") > 0)
        wait_for("it hears of the leader", lambda: follower.info()["leader"] != "")
        beats = int(follower.info()["commit_index"])
        load.more(3000)                                  # some seconds, and more than one election_timeout
        wait_for("the other follower goes on", lambda: int(other.info()["applied_index"]) > beats + 2000)
        assert disk.hanging("log") > 0 and leader.info()["term"] == term, "an election while the disk hung"
        assert "Candidate" not in follower.log().split("log from")[-1], follower.log()
        disk.clear()
        converged(leader, follower)
        assert leader.info()["term"] == term and "busy for" not in leader.log(), leader.log()
        load.stop()
        same(c.nodes)
        for d in disks.values():
            d.close()


def large_values_make_no_long_log():
    """S102: the log has a bound in bytes too, so a start does not read again what the state has."""
    with RaftCluster(1, net=NET, bootstrap=True, log_bytes="1M") as c:
        c.start_all()
        node = c.wait_leader()
        for i in range(600):
            assert node.put("large/%d" % (i % 20), os.urandom(128 << 10))[0] == 0       # 75 MB
        wait_for("the log is cut", lambda: log_bytes(node) < 40 << 20)                  # in files of 16 MB
        value = node.get("large/7")
        node.kill()
        node.start()
        assert wait_for("it is back", lambda: node.get("large/7")) == value


def of_another_version(c):
    """(a raftd that calls itself by the next version, in a file of its own; that version)"""
    with open(os.path.join(BUILD, "config.h")) as f:
        now = re.search(r'PACKAGE_VERSION "([^"]+)"', f.read())[1]
    new = now[:-1] + chr(ord(now[-1]) + 1)
    path = os.path.join(c.dir, "raftd-next")
    shutil.copy(os.path.join(BUILD, "raftd", "raftd"), path)
    with open(path, "r+b") as f:
        program = f.read()
        assert b"\0%s\0" % now.encode() in program
        f.seek(0)
        f.write(program.replace(b"\0%s\0" % now.encode(), b"\0%s\0" % new.encode()))
    return path, new


def upgraded_in_the_middle():
    """A server that gets a snapshot is replaced by another version, stopped in order or killed, at each stage of it; and so is the one
    that sends: it begins again, nobody stays down, and both versions have the same in the end."""
    with RaftCluster(3, net=NET, bootstrap_expect=3, **CALM, **SNAPSHOTS) as c:
        c.start_all()
        leader = c.wait_leader()
        slow = next(n for n in c.nodes if n is not leader)
        now, (new, version) = slow.program, of_another_version(c)
        part = os.path.join(slow.dir, "data", "raftd", "snapshot-recv.tmp")
        installed = 0           # by the end of the round before

        def said(text):
            return slow.log().count(text)

        def size():
            return os.path.getsize(part) if os.path.exists(part) else 0
        meta = os.path.join(os.path.dirname(part), "install-meta")
        stages = (lambda: size() > 0, lambda: size() > 3 << 20, lambda: os.path.exists(meta),
                  lambda: said("installed the snapshot") > installed)
        interrupted = 0
        for i in range(8):
            if slow.process:
                slow.stop((signal.SIGTERM, signal.SIGKILL)[i % 2])
            installed = said("installed the snapshot")
            sender = c.wait_leader()
            last = int(sender.info()["last_log_index"])
            load = Load(sender, size=20000)
            load.more(600)
            wait_for("the leader's log begins later", lambda: int(sender.info()["first_log_index"]) > last + 1)
            load.stop()
            slow.program = (new, now)[i % 2]
            slow.start()
            c.introduce(slow)
            wait_for("it is on its way", lambda: stages[i % 4]() or said("installed the snapshot") > installed, interval=0.002)
            interrupted += said("installed the snapshot") == installed
            if i % 4 == 1:      # whoever sends is another version from now on, too
                sender.stop()
                sender.program = new
                sender.start()
                c.introduce(sender)
        print("# %d of 8 were interrupted before they were installed" % interrupted, flush=True)
        assert interrupted > 0
        assert "triumvir %s:" % version in slow.log()
        load = Load(c.wait_leader())
        load.more(200)
        load.stop()
        wait_for("equal applied indexes", lambda: len({n.info()["applied_index"] for n in c.nodes}) == 1)
        same(c.nodes)


if __name__ == "__main__":
    main(back_by_log, back_by_snapshot, reads_one_kb_per_second, too_slow_for_the_log, damaged_snapshot_is_made_again,
         fed_from_a_disk_that_hangs, large_values_make_no_long_log, upgraded_in_the_middle)

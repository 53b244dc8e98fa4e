#!/usr/bin/env python3
"""State and log on disks that read slowly, or hang in a read: who leads goes on leading, cached keys are read, writes slow
down in proportion, and none is lost.

TV_STATE_MB: how large the state of the cold start is (100); TV_BEHIND: how many entries the follower lacks (20000).
"""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import tvframe  # noqa: E402
from cluster import CALM, main  # noqa: E402
from faultcluster import FaultCluster, fill, write_of  # noqa: E402
from raftcluster import MSG, OP, READ_STALE, renewed_until_another_ends  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.92.0")
KEYS, VALUE = 100000, 200               # 30 MB of pages
STATE_MB, BEHIND = int(os.environ.get("TV_STATE_MB", "100")), int(os.environ.get("TV_BEHIND", "20000"))
SMALL = dict(CALM, net=NET, state_cache="1M", bootstrap_expect=3, clients_max=64)
WRITERS, HOT = 16, 10
TTL = 3                                 # s, of a session
BOUND = 1.0                             # s, of 99 of 100 reads of cached keys; what the machine takes from them counts too
STALLS = ("busy for", "event loop blocked", "no majority answers any more")


def connect(node):
    return tvframe.Conn(node.sock_path, timeout=60)


class Load:
    """Writers of random keys, each of its own ones, and readers of the same few, on one server's socket."""

    def __init__(self, node, readers_of, keys=KEYS):
        self.node, self.halt, self.keys = node, threading.Event(), keys
        self.acked, self.unknown, self.failed = {}, {}, []      # key -> number of the newest write
        self.took, self.reads_failed, self.writes = [], [], 0
        self.ended = []                                 # an exception, or None
        writers = [(self._write, connect(node), i) for i in range(WRITERS)]
        readers = [(self._read, connect(n)) for n in readers_of]
        self.threads = [threading.Thread(target=self._run, args=a, daemon=True) for a in writers + readers]
        for t in self.threads:
            t.start()

    def _run(self, fn, conn, *args):
        try:
            with conn:
                fn(conn, *args)
            self.ended.append(None)
        except Exception as e:                          # told by stop()
            self.ended.append(e)

    def _write(self, conn, number):
        draw, n = random.Random(number), 0
        while not self.halt.is_set():
            key, n = "k/%06d" % (draw.randrange(self.keys // WRITERS) * WRITERS + number), n + 1
            self.unknown[key] = n
            answer = conn.call(MSG.OP, write_of(key, b"%d" % n))
            if answer[0] == 0:
                self.acked[key] = n
            else:
                self.failed.append(answer[:2])
            self.writes += 1

    def _read(self, conn):
        while not self.halt.is_set():
            began = time.monotonic()
            answer = conn.call(MSG.OP, [OP.KV_GET, "", READ_STALE, 0, 0, 0, "", ["hot/%d" % random.randrange(HOT), ""]])
            self.took.append(time.monotonic() - began)
            if answer[0] != 0 or answer[5][0][3] != b"hot":
                self.reads_failed.append(answer[:2])

    def more(self, writes, reads):
        w, r = self.writes, len(self.took)
        wait_for("%d more writes" % writes, lambda: self.writes >= w + writes or self.ended, 120)
        wait_for("%d more reads" % reads, lambda: len(self.took) >= r + reads or self.ended, 120)

    def stop(self):
        self.halt.set()
        for t in self.threads:
            t.join(60)
            assert not t.is_alive(), "no answer"
        assert not any(self.ended), self.ended
        assert not self.failed and not self.reads_failed, (self.failed[:3], self.reads_failed[:3])

    def quantile(self, q):
        took = sorted(self.took)
        return took[int(len(took) * q)]

    def check(self, nodes):
        """Each acknowledged write is there, or a later one of the same writer."""
        for node in nodes:
            for key, n in self.acked.items():
                value = int(node.get(key, READ_STALE))
                assert n <= value <= self.unknown[key], (node.name, key, n, value)


def marks(nodes):
    return {n: len(n.log()) for n in nodes}


def calm(nodes, since, term):
    """No stall was logged since, and nobody else led."""
    for node in nodes:
        new = node.log()[since.get(node, 0):]
        assert not any(text in new for text in STALLS), "%s:\n%s" % (node.name, new[-3000:])
        assert node.info()["term"] == term, (node.name, node.info()["term"], term)


def warm(c):
    """Everybody has the hot keys in the cache."""
    for node in c.nodes:
        for i in range(HOT):
            assert node.get("hot/%d" % i, READ_STALE) == b"hot"


def restarted(c):
    """All three, with nothing of the state in the cache; the leader."""
    for node in c.nodes:
        node.stop()
    for node in c.nodes:
        node.start()
    leader = c.wait_leader()
    c.wait_equal()
    warm(c)
    return leader


def restarted_cold(c, node):
    """This one, with nothing of its state in memory; it need not lead."""
    node.stop()
    forget_pages(node)
    node.start()
    c.wait_leader()
    c.wait_equal()
    return node


def under_load(c, leader, slow, writes):
    """Load while slow() holds: the same leader all the time, and cached keys are read."""
    term, since = leader.info()["term"], marks(c.nodes)
    load = Load(leader, c.nodes + [leader])
    try:
        load.more(20, 100)
        before = sum(d.reads_delayed("state") for d in c.disks.values())
        load.took.clear()
        slow()
        load.more(writes, 200)
        assert sum(d.reads_delayed("state") for d in c.disks.values()) > before
    finally:
        c.each_disk(lambda d: d.clear())
        load.stop()
    c.wait_equal()
    calm(c.nodes, since, term)
    load.check(c.nodes)
    print("     %d reads of cached keys: p50 %.1f ms, p99 %.1f ms, longest %.1f ms" % (
        len(load.took), load.quantile(0.5) * 1e3, load.quantile(0.99) * 1e3, max(load.took) * 1e3), flush=True)
    assert load.quantile(0.99) < BOUND, load.quantile(0.99)


def test_slow_pages():
    """5 and 50 ms for each page that is read, on all three, after a restart; then single reads that hang for 3 s."""
    with FaultCluster(**SMALL) as c:
        c.start_all()
        leader = c.wait_leader()
        fill(leader, range(KEYS), VALUE)
        for i in range(HOT):
            assert leader.put("hot/%d" % i, b"hot")[0] == 0
        c.wait_equal()
        for ms, writes in (5, 400), (50, 40):
            leader = restarted(c)
            under_load(c, leader, lambda ms=ms: c.each_disk(lambda d: d.read_delay(ms, kind="state")), writes)
        # One read, on each server: whatever waits for that page waits, and nobody else does.
        under_load(c, leader, lambda: c.each_disk(lambda d: d.read_delay(3000, 1, "state")), 400)


def forget_pages(node):
    """The kernel has nothing of its state in memory either."""
    state = os.path.join(node.dir, "data", "raftd", "state")
    for name in os.listdir(state):
        fd = os.open(os.path.join(state, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_cold_start_of_a_large_state():
    """More than ten times what the cache holds, a restart with nothing of it in memory, and load at once."""
    keys = STATE_MB * 1000
    with FaultCluster(**dict(SMALL, state_cache="10M", snapshot_threshold=10000000, snapshot_interval="1h")) as c:
        c.start_all()
        leader = c.wait_leader()
        fill(leader, range(keys), 1000)
        for i in range(HOT):
            assert leader.put("hot/%d" % i, b"hot")[0] == 0
        wait_for("all have it", lambda: len({n.info()["applied_index"] for n in c.nodes}) == 1, 600)
        for node in c.nodes:
            node.stop()
            forget_pages(node)
        for node in c.nodes:
            node.start()
        leader = c.wait_leader()
        wait_for("all have the log", lambda: len({n.info()["applied_index"] for n in c.nodes}) == 1, 600)
        warm(c)
        term, since = leader.info()["term"], marks(c.nodes)
        before = sum(d.reads("state") for d in c.disks.values())
        load = Load(leader, c.nodes + [leader], keys)
        try:
            load.more(5000, 1000)
        finally:
            load.stop()
        reads = sum(d.reads("state") for d in c.disks.values()) - before
        assert reads > 1000, reads
        wait_for("all applied it", lambda: len({n.info()["applied_index"] for n in c.nodes}) == 1, 600)
        calm(c.nodes, since, term)
        load.check(c.nodes)
        print("     %d MB: %d writes, %d pages read; %d reads of cached keys: p50 %.1f ms, p99 %.1f ms, longest %.1f ms" % (
            STATE_MB, load.writes, reads, len(load.took), load.quantile(0.5) * 1e3, load.quantile(0.99) * 1e3,
            max(load.took) * 1e3), flush=True)
        assert load.quantile(0.99) < BOUND, load.quantile(0.99)


def test_replays_and_votes():
    """
    A server that replays, and whose disk then hangs, takes the log, acknowledges and votes: without it there is no
    majority.
    """
    with FaultCluster(**dict(SMALL, snapshot_threshold=1000000, snapshot_interval="1h")) as c:
        c.start_all()
        leader = c.wait_leader()
        fill(leader, range(KEYS // 2), VALUE)
        c.wait_equal()
        late, other = c.others(leader)
        late.stop()
        fill(leader, random.Random(1).sample(range(KEYS // 2), 1000), VALUE + 1)
        last = int(leader.info()["commit_index"])
        disk = c.disks[late]
        disk.read_delay(10, kind="state")
        late.start_serving()
        wait_for("it replays", lambda: disk.reads_delayed("state") > 0)
        disk.hang(True, "state", "read")
        wait_for("it has the log", lambda: int(late.info()["durable_log_index"]) >= last)
        wait_for("its disk hangs", lambda: disk.hanging("state") > 0)
        applied = int(late.info()["applied_index"])
        assert applied < last
        leader.kill()                                   # now each election and each write needs the one that replays
        new = wait_for("another leads", c.leader)
        if new is other:
            assert new.put("needs/both", b"x")[0] == 0
        assert int(late.info()["applied_index"]) == applied
        disk.clear()
        leader.start()
        c.wait_leader()
        c.wait_equal()
        for node in c.nodes:
            assert not any(text in node.log() for text in STALLS[:2]), node.log()[-3000:]
            assert new is late or node.get("needs/both", READ_STALE) == b"x"


def test_behind_and_fed_from_disk():
    """A follower that lacks more than the leader's cache has gets it from the leader's disk, which reads slowly."""
    with FaultCluster(**dict(SMALL, state_cache="34M", entry_cache="1M", snapshot_threshold=100000000,
                             snapshot_interval="1h")) as c:
        c.start_all()
        leader = c.wait_leader()
        late, other = c.others(leader)
        late.kill()
        fill(leader, range(BEHIND), 1000 if BEHIND <= 20000 else 100)   # 20 MB, or more
        for i in range(HOT):
            assert leader.put("hot/%d" % i, b"hot")[0] == 0
        term, since = leader.info()["term"], marks([leader, other])
        disk = c.disks[leader]
        load = Load(leader, [leader, other])
        try:
            load.more(100, 100)
            reads = disk.reads_delayed("log")
            load.took.clear()
            disk.read_delay(20, kind="log")
            late.start()
            load.more(400, 400)
            wait_for("it has what the leader had", lambda: int(late.info()["applied_index"]) > BEHIND, 60 + BEHIND / 1000)
            assert disk.reads_delayed("log") > reads, "nothing came from the disk"
        finally:
            disk.clear()
            load.stop()
        c.wait_equal()
        calm([leader, other], since, term)
        load.check(c.nodes)
        assert load.quantile(0.99) < BOUND, load.quantile(0.99)


def test_sessions_beside_slow_reads():
    """Each page read takes 50 ms, beside load: sessions that are renewed in time stay, the others end."""
    with FaultCluster(**dict(SMALL, session_ttl_min="100ms")) as c:
        c.start_all()
        leader = c.wait_leader()
        wait_for("in the catalog", lambda: leader.asked(OP.CATALOG_NODES, ["", [], {}, False]))
        fill(leader, range(KEYS), VALUE)
        for i in range(HOT):
            assert leader.put("hot/%d" % i, b"hot")[0] == 0
        c.wait_equal()
        session = ["", "s", leader.name, 0, "release", "%ds" % TTL, [], None, None]
        verdicts = []

        def slowly():
            c.each_disk(lambda d: d.read_delay(50, kind="state"))
            verdicts.append(wait_for("renewals in time", lambda: renewed_until_another_ends(leader, session, TTL)))
        under_load(c, leader, slowly, 10)
        assert verdicts == ["kept"], verdicts


def test_info_while_a_disk_hangs():
    """What an operator asks first is answered whatever the disk does: by the leader, and by a follower."""
    with FaultCluster(**dict(SMALL, disk_stuck_timeout="30s")) as c:
        c.start_all()
        leader = c.wait_leader()
        fill(leader, range(1000), VALUE)
        c.wait_equal()
        for node in leader, c.others(leader)[0]:
            disk = c.disks[node]
            disk.hang(True, "all", "both")
            with connect(leader) as conn:
                conn.send(MSG.OP, write_of("hangs", b"x"), 1)   # its answer may wait for the disk
                wait_for("it hangs", disk.hanging)
                for _ in range(100):
                    assert node.info()["term"] == leader.info()["term"]
                assert disk.hanging()
                disk.clear()
                assert conn.wait(lambda f: f.flags & tvframe.REPLY).body[0] == 0
            c.wait_equal()


def reads_under_way(node):
    return int(node.info("raftd")["state_waiting"])


def test_lists_that_nobody_waits_for():
    """
    All keys are listed in a cold state, by as many as may at a time, and each page takes 5 ms: when the lists are cancelled, as rpcd does
    when its client has gone, or the connection is closed, they end at their next page, and others have their places.
    """
    with FaultCluster(**SMALL) as c:
        c.start_all()
        leader = c.wait_leader()
        fill(leader, range(KEYS), VALUE)
        c.wait_equal()
        node = restarted_cold(c, leader)
        disk = c.disks[node]
        for how in "cancel", "close":
            disk.read_delay(5, kind="state")
            with connect(node) as conn:
                for number in range(1, 9):
                    conn.send(MSG.OP, [OP.KV_LIST, "", READ_STALE, 0, 0, 0, "", ["k/"]], number)
                before = disk.reads_delayed("state")
                wait_for("the walks have begun", lambda: disk.reads_delayed("state") > before + 20)
                for number in range(1, 9):
                    if how == "cancel":
                        conn.send(MSG.OP, None, number, tvframe.CANCEL)
                if how == "cancel":
                    wait_for("the places are free", lambda: reads_under_way(node) == 0)
            wait_for("the places are free", lambda: reads_under_way(node) == 0)
            ended = disk.reads_delayed("state")
            assert ended - before < 1500, "%s: %d pages of some 8 times 7000 were read" % (how, ended - before)
            time.sleep(0.5)
            assert disk.reads_delayed("state") - ended < 10, "the walks go on"
            disk.clear()


if __name__ == "__main__":
    main(test_slow_pages, test_cold_start_of_a_large_state, test_replays_and_votes, test_behind_and_fed_from_disk,
         test_sessions_beside_slow_reads, test_info_while_a_disk_hangs, test_lists_that_nobody_waits_for)

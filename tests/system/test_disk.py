#!/usr/bin/env python3
"""Disks that are full, fail, hang or are slow, below real raftd processes (S37, S84 - S88, S93): what is written,
read, said, and how it goes on by itself.  Damaged files are test_damage.py."""
import errno
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import smalldisk  # noqa: E402
import tvframe  # noqa: E402
from cluster import Cluster, main, skip  # noqa: E402
from raftcluster import ALIVE, ERR, FAIL, FAILED, JOIN, LEAVE, LEFT, MSG, OP, READ_STALE, Ended, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.24"  # or where TV_NET moves it
MB = 1 << 20
CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever
SMALL = {"disk_reserve": "8M", "state_cache": "1M", "snapshot_threshold": 100,
         "snapshot_interval": "200ms", "trailing_logs": 50}


class SmallCluster(RaftCluster):
    """Three servers, each on a small file system of its own."""

    def __init__(self, number, size="64M", kind="tmpfs", count=3, **options):
        if smalldisk.missing():
            skip(smalldisk.missing())
        self.disks = {}
        super().__init__(0, net="%s.%d" % (NET, number), bootstrap_expect=count, **dict(SMALL, **options))
        for _ in range(count):
            node = self.add()
            self.disks[node.name] = smalldisk.SmallDisk(os.path.join(node.dir, "data"), size, kind)

    def disk(self, node):
        return self.disks[node.name]

    def close(self):
        try:
            self.end_all()
        finally:
            for disk in self.disks.values():
                disk.close()
            super().close()


class FaultCluster(RaftCluster):
    """Three servers, each with a disk that obeys the test."""

    def __init__(self, number, count=3, **options):
        if diskfault.missing():
            skip(diskfault.missing())
        super().__init__(count, net="%s.%d" % (NET, number), bootstrap_expect=count, **options)
        self.disks = {}
        for node in self.nodes:
            self.disks[node.name] = diskfault.DiskFault(os.path.join(node.dir, "disk"))
            node.env = self.disks[node.name].env

    def disk(self, node):
        return self.disks[node.name]

    def close(self):
        for disk in getattr(self, "disks", {}).values():
            if disk.words:
                disk.clear()
        super().close()


def others(c, node):
    return [n for n in c.nodes if n is not node]


def full(node, yes=True):
    wait_for("%s is %sfull" % (node.name, "" if yes else "not "), lambda: node.info()["disk_full"] == str(int(yes)))


def ended(node):
    """Waits for the end of its raftd, because of its disk; returns its log."""
    node.expect_end(1)
    return node.log()


class Writers(threading.Thread):
    """Writes one key after the other to whoever leads; remembers each acknowledged one, and each answer otherwise."""

    def __init__(self, c, prefix, size=100):
        super().__init__(daemon=True)
        self.c, self.prefix, self.size = c, prefix, size
        self.acked, self.errors, self.halt = [], [], threading.Event()
        self.start()

    def run(self):
        i = 0
        while not self.halt.is_set():
            for node in self.c.nodes:
                try:
                    with tvframe.Conn(node.sock_path, timeout=20) as conn:
                        while not self.halt.is_set():
                            i += 1
                            key = "%s/%06d" % (self.prefix, i)
                            err, text = conn.call(MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "",
                                                           [0, key, 0, b"v" * self.size, 0, "", 0]])[:2]
                            if err != 0:
                                self.errors.append((node.name, err, text))
                                break
                            self.acked.append(key)
                except (OSError, tvframe.Closed, TimeoutError):
                    pass
                self.halt.wait(0.01)

    def go_on(self, count=20):
        n = len(self.acked)
        wait_for("writes go on", lambda: len(self.acked) >= n + count)

    def stop(self):
        self.halt.set()
        self.join(30)

    def check(self):
        """Each acknowledged one is on every server that runs."""
        for node in self.c.alive():
            err, text, _, value = node.op(OP.KV_KEYS, [self.prefix + "/", ""])
            assert err == 0, (node.name, err, text)
            lost = set(self.acked) - set(value[0] if value else [])
            assert not lost, "%s lost %d of %d, first %s" % (node.name, len(lost), len(self.acked), min(lost))


# -- full ----------------------------------------------------------------------


def test_full_follower():
    """It takes nothing and is not waited for; it reads what it has; it catches up by itself."""
    with SmallCluster(1, "256M", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        follower, other = others(c, leader)
        assert leader.put("k", b"before")[0] == 0
        wait_for("it is there", lambda: follower.get("k", READ_STALE) == b"before")
        pid = follower.process.pid
        c.disk(follower).fill(leave=4 * MB)
        full(follower)
        follower.wait_log("disk full: %s" % os.path.join(follower.dir, "data", "raftd"))
        stays = follower.info()["last_log_index"]
        writers = Writers(c, "w", 1000)
        try:
            writers.go_on(1000)
            assert follower.info()["last_log_index"] == stays
            assert follower.get("k", READ_STALE) == b"before"
            # A linearizable read is the leader's to answer now: this server will not have it soon.
            assert follower.op(OP.KV_GET, ["k", ""])[0] == ERR.ENOTLEADER
            # Nor does it keep the log of the others from being cut.
            wait_for("the log is cut", lambda: int(leader.info()["last_snapshot_index"]) > int(stays) + 500)
            c.disk(follower).free()
            full(follower, False)
            follower.wait_log("disk has space again")
            writers.go_on(100)
        finally:
            writers.stop()
        c.wait_equal()
        writers.check()
        assert leader.info()["term"] == term and follower.process.pid == pid
        assert not [e for e in writers.errors if e[1] not in (ERR.ENOTLEADER, ERR.ENOLEADER)], writers.errors[:3]


def test_full_leader_hands_over():
    with SmallCluster(2, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        writers = Writers(c, "w")
        try:
            writers.go_on()
            c.disk(leader).fill(leave=4 * MB)
            leader.wait_log("disk full: transferring leadership to ")
            wait_for("another leads", lambda: c.leader() not in (None, leader))
            writers.go_on(100)
            assert leader.get("wait-leader", READ_STALE) == b"x"
            c.disk(leader).free()
            full(leader, False)
            writers.go_on(100)
        finally:
            writers.stop()
        c.wait_equal()
        writers.check()
        # For want of room only until the leader knows of a voter that has some.
        wrong = [e for e in writers.errors if e[1] not in (ERR.ENOTLEADER, ERR.ENOLEADER, ERR.EUNKNOWN, ERR.ENOSPACE)]
        assert not wrong, wrong[:3]


def refused(c, key, whole=lambda leader, text: True):
    """
    Waits until the leader refuses a write for want of room, with the whole text; (leader, text).  Until then one that is
    full may hand over to a server that had room a moment ago, and whoever asks is told to ask again.
    """
    def answer():
        leader = c.leader()
        if leader is None:
            return None
        err, text, _, _ = leader.put(key, b"x")
        return (leader, text) if err == ERR.ENOSPACE and whole(leader, text) else None
    leader, text = wait_for("a write is refused", answer)
    assert text.startswith("disk full: ") and "resume by themselves" in text, text
    return leader, text


def names_the_others(c):
    return lambda leader, text: all(n.name in text for n in others(c, leader))


def test_all_full():
    """Writes are refused with a sentence, reads go on, also under a new leader and after restarts; then all goes on."""
    with SmallCluster(3) as c:
        c.start_all()
        c.put("k", b"v")
        c.wait_equal()
        for node in c.nodes:
            c.disk(node).fill(leave=4 * MB)
        for node in c.nodes:
            full(node)
        leader, text = refused(c, "refused")
        assert os.path.join(leader.dir, "data", "raftd") in text and "disk_reserve" in text, text
        for node in c.nodes:
            assert node.get("k", READ_STALE) == b"v"
            wait_for("it reads", lambda: node.get("k") == b"v")
        leader.kill()
        for node in c.alive():
            wait_for("it reads", lambda: node.get("k") == b"v")
        refused(c, "refused")
        leader.start()                                  # starts on a full disk
        wait_for("it is back", lambda: leader.get("k") == b"v")
        full(leader)
        # Too few with room: the leader, which has it, names the others as soon as it has heard of them.
        leader, _ = refused(c, "refused")
        c.disk(leader).free()
        full(leader, False)
        refused(c, "named", names_the_others(c))
        for node in c.nodes:
            c.disk(node).free()
        for node in c.nodes:
            full(node, False)
        c.put("k", b"after")
        for node in c.nodes:
            wait_for("after", lambda: node.get("k") == b"after")
        assert c.nodes[0].get("refused") is None


def test_dead_server_is_removed_while_all_are_full():
    """A seat that nobody sits on costs the quorum, also while no disk takes a write."""
    with SmallCluster(9, **CALM) as c:
        c.start_all()
        c.wait_leader()
        c.wait_equal()
        for node in c.nodes:
            c.disk(node).fill(leave=4 * MB)
        for node in c.nodes:
            full(node)
        leader, _ = refused(c, "refused")
        dead = others(c, leader)[0]
        dead.kill()

        def removed():
            """By whoever leads: the two that are left may choose anew."""
            now = c.leader()
            return now and now.op(OP.RAFT_REMOVE, [dead.id, "", False])[0] == 0 and now
        leader = wait_for("it is removed", removed)
        assert dead.name not in leader.servers() and len(leader.servers()) == 2, leader.servers()
        leader.wait_log("%s is removed, but not for good" % dead.name)
        refused(c, "refused")


def restarted(c):
    """Whoever ended is started again, as a supervisor does it."""
    for node in c.nodes:
        if node.process.poll() is not None:
            node.expect_end(1)
            node.start_only()
    return True


def answers(node):
    try:
        return node.connect()
    except Ended:
        return False


def reads_or_ended(node):
    try:
        return node.get("k", READ_STALE) == b"v"
    except Ended:
        return True


def zero_room(number, kind):
    """Another program takes the last byte of every disk while writes go on.  Whoever stops says why and waits for space
    when it is started again; nothing that was acknowledged is lost, and no file has to be removed by hand."""
    # What was filled first lags behind the others, and needs room for a snapshot beside its own state.
    with SmallCluster(number, "128M", kind) as c:
        c.start_all()
        c.put("k", b"v")
        writers = Writers(c, "w", 2000)
        try:
            writers.go_on(100)
            for node in c.nodes:
                c.disk(node).fill()
            wait_for("no more writes", lambda: any(e[1] == ERR.ENOSPACE for e in writers.errors) or
                     any(n.process.poll() is not None for n in c.nodes))
            for node in c.nodes:
                wait_for("it reads, or has stopped", lambda: reads_or_ended(node))
            restarted(c)                                # answers at once, or waits for room
            for node in c.nodes:
                c.disk(node).free()
            goal = len(writers.acked) + 50
            wait_for("writes go on", lambda: restarted(c) and len(writers.acked) >= goal)   # there may be late victims
        finally:
            writers.stop()
        wait_for("all run", lambda: restarted(c) and all(answers(n) for n in c.nodes))
        c.wait_leader()
        c.wait_equal()
        writers.check()


def test_no_room_at_all():
    zero_room(4, "tmpfs")


def test_no_room_at_all_ext4():
    if not smalldisk.missing() and not smalldisk.have_ext4():
        skip("no mkfs.ext4 or loop devices")
    zero_room(5, "ext4")


def test_full_at_start():
    """It waits for room and starts by itself when there is."""
    with SmallCluster(6, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        assert leader.put("k", b"v")[0] == 0
        node = others(c, leader)[0]
        wait_for("it is there", lambda: node.get("k", READ_STALE) == b"v")
        node.kill()
        os.unlink(os.path.join(node.dir, "data", "raftd", "ballast"))       # the worst case: none is left
        c.disk(node).fill()
        node.start_only()
        node.wait_log("not enough space to open the data: waiting for it")
        assert leader.put("k", b"w")[0] == 0
        assert node.process.poll() is None
        c.disk(node).free()
        wait_for("it starts by itself", lambda: node.connect())
        wait_for("it follows", lambda: node.get("k") == b"w")
        node.stop()


def test_refused_at_start():
    """Opening finds no room although statvfs tells of plenty, before and afterwards: a quota, or somebody made room meanwhile."""
    with FaultCluster(30, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        node = others(c, leader)[0]
        node.kill()
        c.disk(node).write_error(errno.ENOSPC, None, ("log", "state"))
        node.start_only()
        node.wait_log("not enough space to open the data: waiting for it")
        assert "is there a quota?" in node.log()
        assert leader.put("k", b"v")[0] == 0
        c.disk(node).clear()
        wait_for("it starts by itself", lambda: node.connect())
        wait_for("it follows", lambda: node.get("k") == b"v")


def test_next_log_file_is_refused():
    """No file can be made in log/ (a quota of files) when the newest one is full: the server stops and says what to do, and
    the next start waits, instead of stopping again and again, and goes on by itself."""
    with FaultCluster(31, snapshot_threshold=64, snapshot_interval="200ms", trailing_logs=10, **CALM) as c:
        c.start_all()
        node = others(c, c.wait_leader())[0]
        writers = Writers(c, "w", 60000)
        try:
            writers.go_on()
            c.disk(node).write_error(errno.EDQUOT, None, "log", making=True)
            log = ended(node)
            assert "raise the quota" in log, log
            node.start_only()
            node.wait_log("not enough space to open the data: waiting for it")
            assert "is there a quota?" in node.log()
            writers.go_on()
        finally:
            writers.stop()
        assert node.process.poll() is None
        c.disk(node).clear()
        wait_for("it starts by itself", lambda: node.connect())
        c.put("after", b"x")
        wait_for("it follows", lambda: node.get("after", READ_STALE) == b"x")
        writers.check()


def test_snapshot_does_not_fit():
    """A new server whose disk is too small for the state says so, disturbs nobody, and goes on when it has grown."""
    with SmallCluster(7, "256M", count=1, snapshot_chunk="64k") as c:
        first = c.nodes[0]
        c.start_all()
        c.wait_leader()
        value = os.urandom(50000)
        for i in range(400):
            assert first.put("k%03d" % i, value)[0] == 0
        wait_for("a checkpoint", lambda: int(first.info()["last_snapshot_index"]) > 300)
        c.options = dict(SMALL)
        node = c.add()
        c.disks[node.name] = smalldisk.SmallDisk(os.path.join(node.dir, "data"), "32M")
        node.start()
        c.introduce(node, first)
        node.wait_log("it is requested again when there is space")
        full(node)
        assert first.put("after", b"x")[0] == 0
        folder = os.path.join(node.dir, "data", "raftd")
        wait_for("nothing of it is left", lambda: not [n for n in os.listdir(folder) if n.startswith("snapshot-")])
        c.disk(node).resize("256M")
        wait_for("it has the state", lambda: node.get("after", READ_STALE) == b"x")
        wait_for("it votes", lambda: first.servers() == {"n1": True, "n2": True}, 120)      # healthy for 10 s at a stretch


def test_http_says_so():
    """What a client of the HTTP API sees: 500 with the sentence, reads with 200 on every server, metrics, and the end."""
    if smalldisk.missing():
        skip(smalldisk.missing())
    disks = []
    with Cluster(NET + ".8") as c:
        try:
            join = [c.net + ".1"]
            nodes = [c.add("n%d" % i, i, raftd={"bootstrap_expect": 3, "disk_reserve": "8M"}, retry_join=join)
                     for i in (1, 2, 3)]
            disks = [smalldisk.SmallDisk(n.data, "64M") for n in nodes]
            for n in nodes:
                n.start()
            leader = c.formed()
            leader.kv_put("k", "v")
            session = leader.put("/v1/session/create", {"TTL": "60s"}).json()["ID"]
            follower = next(n for n in nodes if n is not leader)
            wait_for("it has it", lambda: follower.kv_get("k", "?stale") == b"v")
            disks[nodes.index(follower)].fill(leave=4 * MB)
            wait_for("full", lambda: follower.stats("raft")["disk_full"] == "1")
            leader.kv_put("k", "w")
            assert follower.kv_get("k") == b"w"                 # linearizable, by way of the leader
            assert follower.kv_get("k", "?stale") in (b"v", b"w")
            follower.kv_put("k", "x")                           # writes through it as well
            assert follower.kv_get("k", "?consistent") == b"x"
            # leadership for a server that could not use it: refused at once, and by name
            says = "the disk of %s is full: free space there, or name another server" % follower.name
            for node in nodes:
                wait_for("the refusal", lambda: says in node.ctl("raft", "transfer-leader", follower.name, check=False).stderr)
            assert leader.is_leader()
            for d in disks:
                d.fill(leave=4 * MB)
            for n in nodes:
                wait_for("full", lambda: n.stats("raft")["disk_full"] == "1")
            for n in nodes:
                for r in (n.put("/v1/kv/a", "b"), n.delete("/v1/kv/k"), n.put("/v1/session/create", {}),
                          n.put("/v1/session/destroy/" + session)):
                    assert r.status == 500 and r.text.startswith("disk full: "), r
                assert n.kv_get("k") == b"x" and n.kv_get("k", "?stale") in (b"v", b"w", b"x")
                assert n.put("/v1/session/renew/" + session).status == 200
                r = n.get("/v1/snapshot?stale")                 # it would be written into what is left
                assert r.status == 500 and r.text.startswith("disk full: "), r
                r = n.put("/v1/snapshot", os.urandom(4096))
                assert r.status == 500 and r.text.startswith("disk full: ") and "nothing was changed" in r.text, r
            gauges = {g["Name"]: g["Value"] for g in leader.get("/v1/agent/metrics").json()["Gauges"]}
            assert gauges["triumvir.raft.disk_full"] == 1 and gauges["triumvir.raft.disk_free"] < 8 * MB, gauges
            for d in disks:
                d.free()
            for n in nodes:
                wait_for("not full", lambda: n.stats("raft")["disk_full"] == "0")
            wait_for("the leader knows", lambda: leader.put("/v1/kv/k", "y").status == 200)
            for n in nodes:
                n.kv_put("k", n.name)
                assert n.kv_get("k") == n.name.encode()
        finally:
            c.close()
            for d in disks:
                d.close()


def test_checkpoint_finds_no_room():
    """The files of the state are refused room, which statvfs does not foretell (a quota, another program that was quicker),
    in checkpoints, flushes and the write-ahead log: on a follower, the leader, all.  Nobody stops (S85)."""
    with FaultCluster(20, state_cache="1M", snapshot_threshold=16, snapshot_interval="100ms", trailing_logs=10) as c:
        c.start_all()
        leader = c.wait_leader()
        c.put("k", b"v")
        writers = Writers(c, "w", 6000)
        pids = {n.name: n.process.pid for n in c.nodes}
        try:
            writers.go_on(200)
            for number, who in ((errno.ENOSPC, others(c, leader)[:1]), (errno.EDQUOT, [leader]), (errno.ENOSPC, c.nodes)):
                for node in who:
                    c.disk(node).write_error(number, None, "state")
                if who is c.nodes:              # the last one may have no reason to notice
                    refused(c, "refused")
                    wait_for("the leader reads", lambda: (n := c.leader()) and n.get("k") == b"v")
                else:
                    full(who[0])
                    who[0].wait_log("disk full: a write in %s failed for lack of space" % os.path.join(who[0].dir, "data", "raftd"))
                    wait_for("one with room leads", lambda: c.leader() not in [None] + who)
                    writers.go_on(100)
                for node in who:
                    assert node.get("k", READ_STALE) == b"v"
                assert any(c.disk(node).failed("state") > 0 for node in who)
                for node in who:
                    c.disk(node).clear()
                for node in who:
                    full(node, False)
                writers.go_on(100)
        finally:
            writers.stop()
        c.wait_equal()
        writers.check()
        assert {n.name: n.process.pid for n in c.nodes} == pids and len(c.alive()) == 3


# -- failing --------------------------------------------------------------------


def stops_and_comes_back(c, node, message):
    """The fault is set: it ends with the message, the others go on, and the next start has it back whole."""
    log = ended(node)
    assert message in log and "stopping" in log, log[-2000:]
    node.start()
    wait_for("it follows", lambda: node.info()["state"] in ("Follower", "Leader"))


def test_failed_sync_stops():
    """On the leader, then on a follower: no acknowledgement after it, a message, recovery at the next start (S84)."""
    with FaultCluster(10) as c:
        c.start_all()
        leader = c.wait_leader()
        writers = Writers(c, "w")
        try:
            for node in (leader, None):
                writers.go_on()
                node = node or others(c, c.wait_leader())[0]
                where = "writing the log in %s failed: Input/output error" % os.path.join(node.dir, "data/raftd/log")
                before = c.disk(node).failed("log")       # the first leader may be the second follower
                c.disk(node).sync_error(errno.EIO, 1, "log")
                stops_and_comes_back(c, node, where)
                assert c.disk(node).failed("log") == before + 1
                writers.go_on()
        finally:
            writers.stop()
        c.wait_leader()
        c.wait_equal()
        writers.check()


def test_nothing_is_acknowledged_after_a_failed_sync():
    """One server, so that its own disk alone counts: what it could not sync it did not acknowledge, whatever the call."""
    with FaultCluster(11, count=1) as c:
        node, stops = c.nodes[0], 0
        c.start_all()
        for fault in ("sync_error", "write_error"):
            for number in (errno.EIO, errno.ENOSPC):
                c.wait_leader()
                assert node.put("sure", b"1")[0] == 0
                getattr(c.disk(node), fault)(number, None, "log")
                try:
                    assert node.put("maybe", b"1")[0] == ERR.EUNKNOWN
                except (OSError, tvframe.Closed):
                    pass
                ended(node)
                # Pages that were not synced are lost, whatever the reason: told as EIO.
                stops += 1
                assert node.log().count("writing the log in ") == stops or "disk full" in node.log(), node.log()[-1000:]
                c.disk(node).clear()
                node.start()
                wait_for("it is there", lambda: node.get("sure") == b"1")


def judged(node, seen):
    """It serves.  If it has ended, at once or a moment later, it said why, and is started again."""
    if node.process.poll() is not None:
        said = ended(node)[seen:]
        assert "; stopping" in said or "failed half-way" in said, said
        node.start()
    try:
        return node.info()["state"] in ("Follower", "Leader")
    except (OSError, tvframe.Closed, Ended):
        return False                            # it is ending just now


def ended_or_again(node, disk, number):
    """Has it ended?  The sync that failed may have been that of a spare file, which it does without: then the next fails."""
    if node.process.poll() is None:
        disk.sync_error(number, 1, "log")
    return node.process.poll() is not None


def test_one_call_fails():
    """
    One call below a follower fails, of each kind of file and with each number: it goes on, or stops with a sentence and
    comes back whole (the table in doc/storage.md).  A sync is never taken for a full disk.
    """
    with FaultCluster(21, state_cache="1M", snapshot_threshold=16, snapshot_interval="100ms", trailing_logs=10) as c:
        c.start_all()
        c.wait_leader()
        writers = Writers(c, "w", 4000)
        try:
            for kind in ("log", "state"):
                for what in ("write_error", "sync_error"):
                    for number in (errno.EIO, errno.ENOSPC, errno.EMFILE):
                        node = others(c, c.wait_leader())[0]
                        disk, seen = c.disk(node), len(node.log())
                        writers.go_on()
                        wait_for("it serves", lambda: judged(node, 0))      # the last one may have ended late
                        before = disk.failed(kind)
                        getattr(disk, what)(number, 1, kind)
                        wait_for("it fails", lambda: disk.failed(kind) > before)
                        writers.go_on()
                        if what == "sync_error" and kind == "log":
                            wait_for("it ends", lambda: ended_or_again(node, disk, number))
                        disk.clear()
                        wait_for("it goes on, or is back", lambda: judged(node, seen))
                        if what == "sync_error":
                            assert "disk full" not in node.log()[seen:], (kind, number, node.log()[seen:])
        finally:
            writers.stop()
        for _ in range(2):                              # one may stop late: once more while all become equal
            for node in c.nodes:
                if node.process.poll() is not None:
                    ended(node)
                    node.start()
            c.wait_leader()
            c.wait_equal()
        writers.check()


def test_failed_checkpoint_stops():
    """A page of the state may be lost although the data base takes it for written: only its log has it (S84)."""
    with FaultCluster(12, snapshot_threshold=16, snapshot_interval="100ms", trailing_logs=10) as c:
        c.start_all()
        leader = c.wait_leader()
        writers = Writers(c, "w")
        try:
            for node in (others(c, leader)[0], leader):
                writers.go_on()
                c.disk(node).sync_error(errno.EIO, 1, "state")
                stops_and_comes_back(c, node, "Input/output error; stopping: the next start recovers it")
                writers.go_on()
        finally:
            writers.stop()
        c.wait_leader()
        c.wait_equal()
        writers.check()


# -- hanging, and slow ------------------------------------------------------------


def hang_leader(number, what, kind):
    with FaultCluster(number, disk_stuck_timeout="600ms", slow_sync="100ms", write_timeout="3s", election_timeout="1s") as c:
        c.start_all()
        c.wait_leader()
        writers = Writers(c, "w")
        old = None
        try:
            writers.go_on()
            old = c.wait_leader()
            c.disk(old).hang(True, kind, what)
            wait_for("it hangs", lambda: c.disk(old).hanging())
            # By its own judgement, or by that of the others when even its loop hangs.
            new = wait_for("another leads", lambda: next((n for n in others(c, old) if n.info()["state"] == "Leader"), 0))
            writers.go_on()
            assert c.disk(old).hanging()
            if what == "sync":
                old.wait_log("disk stuck: a log write has been waiting for")
                wait_for("it gave up", lambda: old.info()["state"] != "Leader")
                assert old.put("fenced", b"x")[0] in (ERR.ENOTLEADER, ERR.ENOLEADER)
                assert old.get("wait-leader", READ_STALE) == b"x"
            term = new.info()["term"]
            c.disk(old).clear()                         # S37: it comes back by itself
            wait_for("it follows", lambda: old.connect() and old.info()["state"] == "Follower" and
                     int(old.info()["term"]) >= int(term))
            writers.go_on()
        finally:
            if old:
                c.disk(old).clear()
            writers.stop()
        c.wait_equal()
        writers.check()
        assert all(e[1] in (ERR.ENOTLEADER, ERR.ENOLEADER, ERR.EUNKNOWN) for e in writers.errors), writers.errors
        assert old.process.poll() is None


def test_hanging_sync_costs_leadership():
    hang_leader(13, "sync", "log")


def test_hanging_disk_costs_leadership():
    hang_leader(14, "both", "all")


def test_hanging_follower_slows_nobody():
    with FaultCluster(15, disk_stuck_timeout="600ms", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        follower = others(c, leader)[0]
        writers = Writers(c, "w")
        try:
            writers.go_on()
            for what in ("sync", "both"):
                c.disk(follower).hang(True, "log", what)
                wait_for("it hangs", lambda: c.disk(follower).hanging())
                writers.go_on(200)
                assert c.disk(follower).hanging()
                c.disk(follower).clear()
                wait_for("it catches up", lambda: follower.connect() and
                         int(follower.info()["applied_index"]) >= int(leader.info()["applied_index"]) - 50)
        finally:
            c.disk(follower).clear()
            writers.stop()
        c.wait_equal()
        writers.check()
        assert leader.info()["term"] == term and leader.info()["state"] == "Leader"
        assert not [e for e in writers.errors if e[1] not in (ERR.ENOTLEADER, ERR.ENOLEADER)], writers.errors


def test_slow_disk_keeps_the_leader():
    """Syncs of 0.2 to 5 s on the leader, a follower, all of them: the term stays, and the log says how long (S88)."""
    with FaultCluster(16, disk_stuck_timeout="30s", slow_sync="150ms", write_timeout="60s", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        for who, ms in (([leader], 200), ([leader], 5000), (others(c, leader)[:1], 5000), (c.nodes, 200), (c.nodes, 3000)):
            before = {n.name: int(n.info()["slow_syncs"]) for n in c.nodes}
            for node in who:
                c.disk(node).sync_delay(ms, "log")
            for i in range(2):
                assert leader.op(OP.KV_APPLY, [0, "slow", 0, b"%d" % i, 0, "", 0], timeout=60)[0] == 0
            for node in who:
                wait_for("it counts", lambda: int(node.info()["slow_syncs"]) > before[node.name])
                node.wait_log("slow disk: a log write took ")
            for node in c.nodes:
                c.disk(node).clear()
            for node in c.nodes:
                wait_for("equal", lambda: node.get("slow") == b"1")
                assert node.info()["term"] == term, (who, ms, node.name)
        assert leader.info()["state"] == "Leader" and int(leader.info()["sync_p99_us"]) >= 200000


def test_fails_while_it_is_registered():
    """News of a member whose entry in the catalog is still on its way to the disks are not lost."""
    with FaultCluster(18, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        c.wait_equal()
        member = ["x1", socket.inet_aton("127.9.9.9"), 8301, ALIVE,
                  {"role": "client", "dc": "dc1", "id": "5b3d1f6e-6c0e-4d38-9d5e-0d8a2f3f9a01"}, 1, 5, 2, 2, 5, 4]
        for node in c.nodes:
            c.disk(node).sync_delay(700, kind="log")
        c.tell_all(JOIN, member)
        leader.wait_log("member 'x1' joined, marking health alive")
        member[3] = FAILED
        c.tell_all(FAIL, member)
        leader.wait_log("member 'x1' failed, marking health critical")


def test_slow_state_keeps_the_leader():
    """The same for the files of the state: checkpoints take their time beside everything else."""
    with FaultCluster(17, snapshot_threshold=16, snapshot_interval="100ms", trailing_logs=10, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        for node in c.nodes:
            c.disk(node).sync_delay(4500, "state")           # longer than anybody waits for a heartbeat
        writers = Writers(c, "w")
        try:
            wait_for("slow checkpoints", lambda: all(c.disk(n).delayed("state") >= 3 for n in c.nodes))
            for node in c.nodes:
                assert node.get("wait-leader", READ_STALE) == b"x"      # also in the midst of one
            writers.go_on()
        finally:
            writers.stop()
        for node in c.nodes:
            c.disk(node).clear()
        c.wait_equal()
        writers.check()
        assert leader.info()["term"] == term and leader.info()["state"] == "Leader"


def test_applying_waits_for_no_disk():
    """
    The state is larger than its cache, its write-ahead log goes from file to file, and each sync of it takes 700 ms: the
    loop waits for none of them, so nobody stands for election, and heartbeats, reads and writes go on (S88).
    """
    with FaultCluster(18, state_cache="1M", snapshot_threshold=1000000, snapshot_interval="1h", log_bytes="1G", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        for node in c.nodes:
            c.disk(node).sync_delay(700, "state")
        writers = [Writers(c, "w%d" % i, 6000) for i in range(8)]
        try:
            wait_for("two files of the state's log", lambda: sum(len(w.acked) for w in writers) * 6000 > 40 << 20, 300)
            for w in writers:
                w.go_on()
            for node in c.nodes:
                assert node.get("wait-leader", READ_STALE) == b"x"
                flushes = node.info("state")
                assert c.disk(node).delayed("state") >= 3 and int(flushes["flush_slowest_us"]) >= 700000, flushes
                assert flushes["flush_waits"] == "0", flushes
        finally:
            for w in writers:
                w.stop()
        assert leader.info()["term"] == term and leader.info()["state"] == "Leader"
        for node in c.nodes:
            c.disk(node).clear()
        c.wait_equal()
        for w in writers:
            w.check()


def test_failed_flush_stops():
    """A sync of the state's write-ahead log fails beside applying: the process stops, and recovers what it had (S84)."""
    with FaultCluster(19, state_cache="1M", snapshot_threshold=1000000, snapshot_interval="1h") as c:
        c.start_all()
        leader = c.wait_leader()
        writers = [Writers(c, "w%d" % i, 6000) for i in range(4)]
        try:
            for node in others(c, leader)[:1] + [leader]:
                c.disk(node).sync_error(errno.EIO, 1, "state")
                log = ended(node)
                assert "state machine failed" in log and "Input/output error" in log, log
                c.disk(node).clear()
                node.start()
                wait_for("it follows", lambda: node.info()["state"] in ("Follower", "Leader"))
                writers[0].go_on()
        finally:
            for w in writers:
                w.stop()
        c.wait_equal()
        for w in writers:
            w.check()


def test_removed_before_the_state_knows():
    """
    A server is removed for good while slow disks keep two followers from applying.  One of them becomes leader before it has
    applied the removal: it must not add the server again (nemesis, seed 648057406).
    """
    with FaultCluster(25, count=4, state_cache="1M", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        wait_for("four voters", lambda: leader.servers() == {n.name: True for n in c.nodes})
        c.wait_equal()
        gone, *pair = others(c, leader)
        for node in pair:
            c.disk(node).hang(True, "state", "sync")
        for i in range(20):                             # more than may wait for the disk
            assert leader.put("k%d" % i, bytes(400000))[0] == 0
        for node in pair:
            wait_for("applying waits", lambda: c.disk(node).hanging("state") and int(node.info()["fsm_pending"]) > 1)
        gone.kill()
        c.tell_all(FAIL, gone.member(FAILED))
        leader.wait_log("member '%s' failed, marking health critical" % gone.name)
        c.tell_all(LEAVE, gone.member(LEFT))            # clusterctl force-leave
        rest = {n.name: True for n in [leader] + pair}
        for node in [leader] + pair:
            wait_for("it is out", lambda: node.servers() == rest)
        gone.start()
        c.introduce(gone)
        refused = "not adding %s: its node id %s was removed for good" % (gone.name, gone.id)
        leader.wait_log(refused)
        for node in pair:                               # it could be added at once
            wait_for("it is linked", lambda: int(node.info("raftd")["links"]) == 3)
        leader.kill()
        now = wait_for("another leads", lambda: c.leader())
        added = "Added peer %s" % gone.ip
        wait_for("it had the choice", lambda: "membership changes wait until the state" in now.log() or
                 added in now.log())
        assert c.disk(now).hanging("state") and int(now.info()["fsm_pending"]) > 1
        assert added not in now.log()
        for node in pair:
            c.disk(node).clear()
        now.wait_log(refused)
        c.wait_leader()
        for node in pair:
            assert added not in node.log() and node.servers() == rest, node.name


def test_removed_stays_out_after_a_restart():
    """All are killed and restarted: a leader with a slow disk does not list a server that was removed."""
    with FaultCluster(26, count=4, election_timeout="4s", snapshot_threshold=50, snapshot_interval="100ms") as c:
        c.start_all()
        leader = c.wait_leader()
        wait_for("four voters", lambda: leader.servers() == {n.name: True for n in c.nodes})
        gone, *rest = others(c, leader) + [leader]
        for i in range(60):
            assert leader.put("k%d" % i, b"v")[0] == 0
        for node in rest:                               # with four servers, and nothing later
            wait_for("a checkpoint", lambda: int(node.info()["last_snapshot_index"]) > 0)
        gone.kill()
        c.tell_all(FAIL, gone.member(FAILED))
        leader.wait_log("member '%s' failed, marking health critical" % gone.name)
        c.tell_all(LEAVE, gone.member(LEFT))
        wait_for("it is out", lambda: leader.servers() == {n.name: True for n in rest})
        for node in rest:
            node.kill()
        for node in rest:
            c.disk(node).sync_delay(700, "log")         # elected at one sync, ready for anything at the next
            node.start()
        c.introduce(*rest)

        def shown():
            now = next((n for n in rest if n.info()["state"] == "Leader"), None)
            return now and {s[1] for s in now.asked(OP.RAFT_CONFIGURATION, [])[0]}
        assert wait_for("a leader answers", shown) == {n.name for n in rest}
        assert gone.name not in wait_for("it answers again", shown)


if __name__ == "__main__":
    main(test_full_follower, test_full_leader_hands_over, test_all_full,
         test_dead_server_is_removed_while_all_are_full, test_no_room_at_all, test_no_room_at_all_ext4,
         test_full_at_start, test_refused_at_start, test_next_log_file_is_refused, test_snapshot_does_not_fit,
         test_http_says_so, test_checkpoint_finds_no_room, test_failed_sync_stops,
         test_nothing_is_acknowledged_after_a_failed_sync, test_one_call_fails, test_failed_checkpoint_stops,
         test_hanging_sync_costs_leadership, test_hanging_disk_costs_leadership, test_hanging_follower_slows_nobody,
         test_slow_disk_keeps_the_leader, test_slow_state_keeps_the_leader, test_applying_waits_for_no_disk,
         test_failed_flush_stops, test_fails_while_it_is_registered,
         test_removed_before_the_state_knows, test_removed_stays_out_after_a_restart)

#!/usr/bin/env python3
"""The state is opened beside the running server: after kill -9, on a disk that reads slowly or hangs, it votes, stores,
acknowledges and answers heartbeats, tells what it does, can be stopped, and serves when the state is open."""
import errno
import os
import random
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, main  # noqa: E402
from faultcluster import FaultCluster, fill  # noqa: E402
from raftcluster import ERR, OP, READ_STALE  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.94.0")
KEYS, VALUE = 100000, 200               # 30 MB of pages
OPTIONS = dict(CALM, net=NET, bootstrap_expect=3, state_cache="1M", clients_max=64, snapshot_threshold=1000000,
               snapshot_interval="1h")
READS = ("state", "state_log")
BOUND = 5.0                             # s until another leads, on a machine with much else to do
STALLS = ("busy for", "event loop blocked", "no majority answers any more")


def filled(c, keys=KEYS):
    c.start_all()
    leader = c.wait_leader()
    fill(leader, range(keys), VALUE)
    c.wait_equal()
    return leader


def hang(disk, kinds=READS):
    disk.hang(True, kinds, "read")


def opening(node):
    return node.info("state")["opening"]


def wait_open(node):
    wait_for("the state of %s is open" % node.name, lambda: opening(node) == "done", 120)


def refused(node):
    """Whoever has a state answers sooner."""
    err, text, _, _ = node.op(OP.KV_GET, ["k/000001", ""], READ_STALE)
    return err in (ERR.ENOTLEADER, ERR.ENOLEADER)


def followed(node, last):
    return int(node.info()["durable_log_index"]) >= last


def test_votes_and_stores_meanwhile():
    """Its disk hangs in a read of the state, from the start on: without it there is no majority, and there is one."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c)
        late, other = c.others(leader)
        fill(leader, random.Random(1).sample(range(KEYS), 2000), VALUE)
        late.kill()
        fill(leader, random.Random(2).sample(range(KEYS), 2000), VALUE + 1)
        term, last = leader.info()["term"], int(leader.info()["commit_index"])
        disk = c.disks[late]
        hang(disk)
        late.start_serving()
        wait_for("the disk hangs", lambda: disk.hanging(READS) > 0)
        wait_for("it has the log", lambda: followed(late, last))
        assert opening(late) == "under way" and refused(late)
        assert {n.info()["term"] for n in c.nodes} == {term}
        leader.kill()                                   # now each election and each write needs the one that opens
        began = time.monotonic()
        wait_for("another leads", lambda: c.leader() is other)
        assert time.monotonic() - began < BOUND, time.monotonic() - began
        for i in range(20):
            assert other.put("needs/%d" % i, b"both")[0] == 0
        assert opening(late) == "under way" and disk.hanging(READS) > 0
        assert int(late.info("state")["opening_ms"]) > 0 and late.info()["state"] == "Follower"
        disk.clear()
        wait_open(late)
        wait_for("it has caught up", lambda: late.get("needs/19", READ_STALE) == b"both")
        leader.start()
        c.wait_equal()
        for node in c.nodes:
            assert node.get("needs/0") == b"both"
            assert not any(text in node.log() for text in STALLS[:2]), node.log()[-3000:]


def test_slow_pages_after_a_crash():
    """20 ms for each page that recovery reads: the leader notices nothing, and no write is lost."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c)
        late = c.others(leader)[0]
        wanted = random.Random(3).sample(range(KEYS), 2000)
        fill(leader, wanted, VALUE)
        late.kill()
        fill(leader, wanted[:500], VALUE + 2)
        term, since = leader.info()["term"], {n: len(n.log()) for n in c.nodes}
        c.disks[late].read_delay(20, kind=READS)
        late.start_serving()
        longest, began = 0.0, time.monotonic()
        while opening(late) != "done" and time.monotonic() - began < 20:
            asked = time.monotonic()
            assert late.info()["term"] == term
            longest = max(longest, time.monotonic() - asked)
            assert leader.put("during", b"%f" % asked)[0] == 0
        print("     opening for %s ms; the longest answer of info meanwhile %.1f ms" % (
            late.info("state")["opening_ms"], longest * 1e3), flush=True)
        c.disks[late].clear()
        wait_open(late)
        c.wait_equal()
        for i in wanted[:500]:
            assert late.get("k/%06d" % i, READ_STALE) == b"v" * (VALUE + 2)
        for node in c.nodes:
            assert node.info()["term"] == term, node.info()["term"]
            assert not any(text in node.log()[since[node]:] for text in STALLS), node.log()[since[node]:][-3000:]


def test_stopped_meanwhile():
    """SIGTERM does not wait for the disk, whichever of the two is being opened, and the next start finds all of it."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c, 5000)
        late = c.others(leader)[0]
        disk = c.disks[late]
        for kinds in READS, ("log",):
            late.kill()
            hang(disk, kinds)
            late.start_only()
            wait_for("the disk hangs", lambda: disk.hanging(kinds) > 0)
            if kinds == READS:
                assert leader.put("while/it/opens", b"x")[0] == 0
                wait_for("it has the log", lambda: followed(late, int(leader.info()["commit_index"])))
            began = time.monotonic()
            assert late.stop() == 0
            assert time.monotonic() - began < 10, time.monotonic() - began
            disk.clear()
            late.start()
            wait_for("it has what was written", lambda: late.get("while/it/opens", READ_STALE) == b"x")
        c.wait_equal()


def test_who_has_a_state_leads():
    """All were killed, and two of them cannot read their state: the third one leads, by their votes."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c, 5000)
        late = c.others(leader)
        for node in late + [leader]:                    # last, or another would begin a term that it knows nothing of
            node.kill()
        for node in late:
            hang(c.disks[node])
        for node in late:
            node.start_serving()
        for node in late:
            wait_for("the disk hangs", lambda n=node: c.disks[n].hanging(READS) > 0)
        wait_for("it says why nobody leads", lambda: "opening its state" in late[0].info()["why_no_leader"])
        assert all(n.info()["term"] == late[0].info()["term"] for n in late)
        leader.start()
        wait_for("the one with a state leads", lambda: c.leader() is leader)
        assert leader.put("k", b"v")[0] == 0
        for node in late:
            c.disks[node].clear()
        c.wait_equal()
        assert all(node.get("k") == b"v" for node in c.nodes)


def test_alone():
    """A server that needs nobody else waits for its state as well, and leads then."""
    with FaultCluster(**dict(OPTIONS, bootstrap_expect=1)) as c:
        node = c.nodes[0]
        node.start()
        wait_for("it leads", lambda: node.info()["state"] == "Leader")
        for i in range(100):
            assert node.put("k%d" % i, b"v")[0] == 0
        node.kill()
        hang(c.disks[node])
        node.start_serving()
        wait_for("the disk hangs", lambda: c.disks[node].hanging(READS) > 0)
        err, text, _, _ = node.put("k", b"w")
        assert err == ERR.ENOLEADER, (err, text)
        assert node.info()["state"] == "Follower" and opening(node) == "under way"
        c.disks[node].clear()
        wait_for("it leads", lambda: node.info()["state"] == "Leader")
        assert node.get("k99") == b"v"


def test_no_room_for_the_state():
    """The log is open, and recovery of the state finds no room: the server follows and waits for it."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c, 5000)
        late = c.others(leader)[0]
        late.kill()
        c.disks[late].write_error(errno.ENOSPC, None, "state")
        late.start_serving()
        late.wait_log("not enough space to open the data: waiting for it")
        assert opening(late) == "waits for disk space"
        assert leader.put("k", b"v")[0] == 0
        assert late.info()["leader"] == leader.info()["leader"] and refused(late)
        c.disks[late].clear()
        wait_for("it follows", lambda: late.get("k", READ_STALE) == b"v", 60)
        assert opening(late) == "done" and late.info()["disk_full"] == "0"


def test_lost_log_is_told_before_the_state_is_open():
    """A log that was put back from an older copy must not vote: the mark beside the state tells, before that is recovered."""
    with FaultCluster(**OPTIONS) as c:
        leader = filled(c, 2000)
        late = c.others(leader)[0]
        log = os.path.join(late.dir, "data", "raftd", "log")
        assert late.stop() == 0
        shutil.copytree(log, log + ".older")
        late.start()
        assert leader.put("newer", b"x")[0] == 0
        wait_for("it has it", lambda: late.get("newer", READ_STALE) == b"x")
        assert late.stop() == 0
        shutil.rmtree(log)
        os.rename(log + ".older", log)
        owner = os.stat(os.path.dirname(log))
        for where, _, names in os.walk(log):
            for name in [where] + [os.path.join(where, n) for n in names]:
                os.chown(name, owner.st_uid, owner.st_gid)
        hang(c.disks[late], ("state_log",))
        late.start_only()
        late.expect_end(1)
        assert "put the lost log back" in late.log(), late.log()[-2000:]


if __name__ == "__main__":
    main(test_votes_and_stores_meanwhile, test_slow_pages_after_a_crash, test_stopped_meanwhile, test_who_has_a_state_leads,
         test_alone, test_no_room_for_the_state, test_lost_log_is_told_before_the_state_is_open)

#!/usr/bin/env python3
"""raftd processes without gossipd and rpcd: forming, growing, shrinking, losing and recovering servers, snapshots,
blocking queries, and what a hostile client gets.  The test plays gossipd (lib/raftcluster.py)."""
import errno
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, main  # noqa: E402
from raftcluster import (ALIVE, BUILD, ERR, FAIL, FAILED, JOIN, KV_CAS, LEAVE, LEFT, MSG, OP, READ_STALE,  # noqa: E402
                         UPDATE, Conn, RaftCluster, renewed_until_another_ends)
import tvframe  # noqa: E402
from oldpeer import started_with_old  # noqa: E402
from waiting import wait_for  # noqa: E402


def voters(node, *names):
    """Waits until exactly these vote."""
    wait_for("voters %s" % (names,), lambda: node.servers() == {n: True for n in names})


def test_three_form_a_cluster():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        for i in range(50):
            assert leader.put("k%d" % i, b"v%d" % i)[0] == 0
        for node in c.nodes:
            assert node.get("k49") == b"v49"            # linearizable on every server
            assert node.servers() == {"n1": True, "n2": True, "n3": True}
        follower = next(n for n in c.nodes if n is not leader)
        assert follower.put("x", b"y")[0] == ERR.ENOTLEADER
        assert follower.get("x") is None
        ids = {n.info()["cluster_id"] for n in c.nodes}
        assert len(ids) == 1 and ids != {""}
        # Nothing is written while nothing happens.
        wait_for("the catalog is written", lambda: len({n.info()["last_log_index"] for n in c.nodes}) == 1)


def test_forming_survives_kills():
    """kill -9 at any moment of forming: exactly one cluster comes out of it."""
    with RaftCluster(3, bootstrap_expect=3) as c:
        c.start_all()
        for _ in range(3):
            for node in c.nodes:
                node.kill()
                node.start()
        c.wait_leader()
        wait_for("one cluster", lambda: len({n.info()["cluster_id"] for n in c.nodes}) == 1)
        voters(c.wait_leader(), "n1", "n2", "n3")


def test_four_expect_three():
    """One more than expected: three form the cluster, the fourth joins it as a learner and becomes a voter."""
    with RaftCluster(4, bootstrap_expect=3) as c:
        c.start_all()
        leader = c.wait_leader()
        voters(leader, "n1", "n2", "n3", "n4")
        assert len({n.info()["cluster_id"] for n in c.nodes}) == 1


def test_leader_lost_and_back():
    with RaftCluster(3, bootstrap_expect=3) as c:
        c.start_all()
        times = []
        for i in range(5):
            leader = c.wait_leader()
            c.put("before", b"%d" % i)
            leader = c.wait_leader()
            start = time.monotonic()
            leader.kill()
            other = c.wait_leader()
            times.append(time.monotonic() - start)
            assert wait_for("a read", lambda: other.get("before")) == b"%d" % i
            c.put("after", b"%d" % i)
            leader.start()
            wait_for("%s has it" % leader.name, lambda: leader.get("after", READ_STALE) == b"%d" % i)
        print("new leader after %.0f ms (median of 5)" % (statistics.median(times) * 1000))


def test_term_stays_when_all_is_well():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        term = leader.info()["term"]
        follower = next(n for n in c.nodes if n is not leader)
        for _ in range(3):                              # a follower that comes and goes disturbs nobody
            follower.stop()
            assert leader.put("k", b"v")[0] == 0
            follower.start()
            wait_for("caught up", lambda: follower.get("k") == b"v")
        for node in c.nodes:                            # nor does gossipd
            node.gossip.close()
            node.gossip = None
            os.unlink(os.path.join(node.dir, "run", "gossipd.sock"))
        assert leader.put("k", b"w")[0] == 0
        assert leader.info()["term"] == term


def test_grow_shrink_and_refuse():
    with RaftCluster(1, keys=True, bootstrap=True, **CALM) as c:
        n1 = c.nodes[0]
        n1.start()
        c.introduce(n1)
        c.wait_leader()
        c.options = CALM
        n2 = c.add()
        n2.start()
        n2.wait_log("[WARN] raft: EnableSingleNode disabled, and no known peers. Aborting election.")
        c.introduce(n2)
        voters(n1, "n1", "n2")
        assert "[INFO] raft: Added peer %s.2:8300, starting replication" % c.net in n1.log()
        n3 = c.add()
        n3.start()
        c.introduce(n3)
        voters(n1, "n1", "n2", "n3")
        # Graceful leave of a follower, as rpcd asks for it.
        wait_for("it leaves, once the leader knows that all are well", lambda: n3.call(MSG.RAFT_LEAVE, [False]) == [0, ""])
        assert n1.servers() == {"n1": True, "n2": True}
        c.tell_all(LEAVE, n3.member(LEFT))
        n1.wait_log("[INFO] triumvir: member 'n3' left, deregistering")
        assert "[INFO] raft: Removed peer %s.3:8300, stopping replication" % c.net in n1.log()
        assert "[INFO] triumvir: server starting leave" in n3.log()
        assert "[INFO] raft: Removed ourself, transitioning to follower" in n3.log()
        n3.gossip.close()
        n3.expect_end(0)                                # ends with its gossipd
        # It may come back: nobody removed it by force.
        n3.gossip = None
        os.unlink(os.path.join(n3.dir, "run", "gossipd.sock"))
        n3.start()
        c.introduce(n3)
        voters(n1, "n1", "n2", "n3")
        # With one of three down, a leave would cost the quorum.
        n3.kill()
        c.tell_all(FAIL, n3.member(FAILED))
        leader = c.wait_leader()
        wait_for("the leader misses n3", lambda: leader.info("raftd")["links"] == "1")
        err, text = leader.call(MSG.RAFT_LEAVE, [False])
        assert err == ERR.ECONFLICT, (err, text)
        assert "2 of 3 voters are healthy" in text and "1 would be left" in text, text
        assert "--force" in text and "add servers first" in text, text
        assert leader.put("still", b"there")[0] == 0


def test_leader_leaves():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        assert leader.put("k", b"v")[0] == 0
        wait_for("it leaves, once it knows that all are well", lambda: leader.call(MSG.RAFT_LEAVE, [False]) == [0, ""])
        c.tell_all(LEAVE, leader.member(LEFT))
        leader.gossip.close()
        leader.expect_end(0)
        other = c.wait_leader()
        voters(other, *[n.name for n in c.nodes if n is not leader])
        assert other.get("k") == b"v"


def test_force_leave_stays_away():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        lost = next(n for n in c.nodes if n is not leader)
        rest = sorted(n.name for n in c.nodes if n is not lost)
        lost.kill()
        c.tell_all(FAIL, lost.member(FAILED))
        leader.wait_log("member '%s' failed, marking health critical" % lost.name)
        assert len(leader.servers()) == 3               # failed members stay
        c.tell_all(LEAVE, lost.member(LEFT))            # clusterctl force-leave
        voters(leader, *rest)
        lost.start()
        c.introduce(lost)
        leader.wait_log("was removed for good")
        assert leader.servers() == {n: True for n in rest}
        # A new data directory is a new server.
        lost.kill()
        shutil.rmtree(os.path.join(lost.dir, "data"))
        os.mkdir(os.path.join(lost.dir, "data"))
        lost.start()
        c.introduce(lost)
        voters(leader, "n1", "n2", "n3")
        in_catalog(leader, lost)
        # Reinstalled so quickly that nobody missed it: the name's entry goes to the new node id.
        lost.kill()
        shutil.rmtree(os.path.join(lost.dir, "data"))
        os.mkdir(os.path.join(lost.dir, "data"))
        lost.start()
        c.introduce(lost)
        in_catalog(leader, lost)
        assert "member '%s' does not live, and its name is another node's now, deregistering" % lost.name in leader.log()


def in_catalog(asked, node):
    """Waits until the catalog has this node's name under its node id."""
    wait_for("catalog entry of " + node.name, lambda: [node.id, node.name] in [
        list(record[:2]) for record in asked.asked(OP.CATALOG_NODES, ["", [], {}, False])])


def test_lost_disk_is_a_new_server():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        assert leader.put("k", b"v")[0] == 0
        lost = next(n for n in c.nodes if n is not leader)
        store = lost.info("raftd")["store_id"]
        lost.kill()
        shutil.rmtree(os.path.join(lost.dir, "data", "raftd"))      # the node id stays
        lost.start()
        c.introduce(lost)
        leader.wait_log("which came back with an empty disk")
        voters(leader, "n1", "n2", "n3")
        assert lost.info("raftd")["store_id"] != store
        assert lost.get("k") == b"v"


def test_snapshot_to_a_late_server():
    with RaftCluster(1, bootstrap=True, snapshot_threshold=16, snapshot_interval="200ms", trailing_logs=10,
                     snapshot_chunk="4k") as c:
        n1 = c.nodes[0]
        n1.start()
        c.introduce(n1)
        c.wait_leader()
        for i in range(300):
            assert n1.put("k%03d" % i, b"v" * 500)[0] == 0
        wait_for("a snapshot", lambda: int(n1.info()["last_snapshot_index"]) > 250)
        n1.stop()
        n1.start()                                      # replays only the tail
        c.options = {"snapshot_threshold": 16, "snapshot_interval": "200ms", "trailing_logs": 10}
        n2 = c.add()
        n2.start()
        c.introduce(n2, n1)
        voters(n1, "n1", "n2")
        n2.wait_log("installed the snapshot")
        assert n2.get("k299") == b"v" * 500
        n2.kill()
        n2.start()
        assert wait_for("n2 is back", lambda: n2.get("k000")) == b"v" * 500
        assert not [f for f in os.listdir(os.path.join(n2.dir, "data", "raftd")) if f.startswith("install")]


def test_killed_while_installing():
    """kill -9 at any point of receiving and installing: state and log agree at the next start (S47, S49)."""
    with RaftCluster(1, bootstrap=True, snapshot_threshold=16, snapshot_interval="200ms", trailing_logs=0,
                     snapshot_chunk="64k") as c:
        n1 = c.nodes[0]
        n1.start()
        c.introduce(n1)
        c.wait_leader()
        for i in range(200):
            assert n1.put("k%03d" % i, os.urandom(10000))[0] == 0
        wait_for("a snapshot", lambda: int(n1.info()["last_snapshot_index"]) > 150)
        c.options = {"snapshot_threshold": 16, "snapshot_interval": "200ms", "trailing_logs": 0}
        n2 = c.add()
        for i in range(12):
            n2.start()
            c.introduce(n2, n1)
            seen = n2.log().count("raft: ")
            wait_for("it goes on", lambda: n2.log().count("raft: ") > seen + i % 3 or n2.servers())
            time.sleep(0.004 * i)                       # another moment each time
            n2.kill()
        n2.start()
        c.introduce(n2, n1)
        voters(n1, "n1", "n2")
        want = n1.op(OP.KV_LIST, ["k", ""], READ_STALE)[3]
        assert len(want) == 200 and n2.op(OP.KV_LIST, ["k", ""])[3] == want


def test_restart_replays_only_the_tail():
    with RaftCluster(1, bootstrap=True, snapshot_threshold=100, snapshot_interval="100ms", trailing_logs=10) as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        for i in range(500):
            n1.put("k%d" % i, b"x")
        wait_for("checkpoint", lambda: int(n1.info()["last_snapshot_index"]) > 300)
        n1.kill()
        n1.start()
        c.wait_leader()
        line = [x for x in n1.log().splitlines() if "state at" in x][-1]
        assert int(line.rsplit(" ", 1)[1]) > 300, line
        assert n1.get("k499") == b"x"


def test_blocking_query():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        follower = next(n for n in c.nodes if n is not leader)
        assert leader.put("bq", b"1")[0] == 0
        index = follower.op(OP.KV_GET, ["bq", ""])[2]
        conn = Conn(follower.sock_path)
        conn.send(MSG.OP, [OP.KV_GET, "", 0, index, 60000, 0, "", ["bq", ""]], frame_id=77)
        wait_for("it waits", lambda: follower.info("raftd")["watches"] == "1")
        assert leader.put("sibling", b"x")[0] == 0
        assert follower.get("sibling") == b"x"
        assert follower.info("raftd")["watches"] == "1"                 # siblings do not wake it
        assert leader.put("bq", b"2")[0] == 0
        answer = conn.wait(lambda f: f.id == 77).body
        assert answer[0] == 0 and answer[2] > index and answer[5][0][3] == b"2"
        # Cancelled and abandoned ones leave nothing behind.
        conn.send(MSG.OP, [OP.KV_GET, "", 0, answer[2], 60000, 0, "", ["bq", ""]], frame_id=78)
        wait_for("it waits", lambda: follower.info("raftd")["watches"] == "1")
        conn.send_raw(tvframe.HEAD.pack(0, MSG.OP, tvframe.CANCEL, 78))
        wait_for("cancelled", lambda: follower.info("raftd")["watches"] == "0")
        conn.send(MSG.OP, [OP.KV_GET, "", 0, answer[2], 60000, 0, "", ["bq", ""]], frame_id=79)
        wait_for("it waits", lambda: follower.info("raftd")["watches"] == "1")
        conn.close()
        wait_for("gone with its channel", lambda: follower.info("raftd")["watches"] == "0")
        # Time up: the present result with the same index.
        err, _, at, value = follower.op(OP.KV_GET, ["bq", ""], index=answer[2], wait_ms=50)
        assert (err, at, value[0][3]) == (0, answer[2], b"2")


def test_writes_race():
    """Many at once are batched, each is answered once, and cas is decided by the log."""
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        conn = Conn(leader.sock_path)
        for i in range(1, 2001):
            conn.send(MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [0, "r/%04d" % i, 0, b"v", 0, "", 0]], frame_id=i)
        answers = {}
        while len(answers) < 2000:
            f = conn.wait(lambda f: f.type == MSG.OP)
            assert f.body[0] == 0 and f.id not in answers
            answers[f.id] = f.body[2]
        assert len(set(answers.values())) == 2000       # an index of its own for each
        for i in range(3001, 3051):
            conn.send(MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [KV_CAS, "once", 0, b"v", 0, "", 0]], frame_id=i)
        wins = [conn.wait(lambda f: f.type == MSG.OP).body[5][0] for _ in range(50)]
        assert sum(wins) == 1
        conn.close()
        c.wait_equal()


def test_leader_change_in_mid_write():
    """Writes under way when the leader dies or hands over: each acknowledged one is there."""
    with RaftCluster(3, bootstrap_expect=3) as c:
        c.start_all()
        leader = c.wait_leader()
        acked = []
        stop = threading.Event()

        def writer():
            i = 0
            while not stop.is_set():
                for node in c.nodes:
                    try:
                        with Conn(node.sock_path, timeout=15) as conn:
                            while not stop.is_set():
                                i += 1
                                body = conn.call(MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "",
                                                          [0, "m/%06d" % i, 0, b"v", 0, "", 0]])
                                if body[0] != 0:
                                    break
                                acked.append("m/%06d" % i)
                    except (OSError, tvframe.Closed, TimeoutError):
                        pass

        thread = threading.Thread(target=writer)
        thread.start()
        try:
            for how in (signal.SIGKILL, signal.SIGTERM, "transfer"):
                n = len(acked)
                wait_for("writes", lambda: len(acked) > n + 50)
                if how == "transfer":
                    wait_for("leadership moves", lambda: (now := c.leader()) and
                             now.op(OP.RAFT_TRANSFER, ["", "", False])[0] == 0)
                else:
                    leader = wait_for("leader", c.leader)
                    leader.stop(how)
                    n = len(acked)
                    wait_for("writes go on", lambda: len(acked) > n + 50)
                    leader.start()
        finally:
            stop.set()
            thread.join()
        c.wait_leader()
        for node in c.nodes:
            err, text, _, value = node.op(OP.KV_KEYS, ["m/", ""])
            assert err == 0, text
            there = set(value[0])
            assert set(acked) <= there, sorted(set(acked) - there)[:5]


def test_sessions_expire():
    with RaftCluster(1, bootstrap=True, session_ttl_min="100ms") as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        n1.wait_log("member 'n1' joined")
        wait_for("in the catalog", lambda: n1.asked(OP.CATALOG_NODES, ["", [], {}, False]))
        session = ["", "s", "n1", 0, "release", "2s", ["serfHealth"], None, None]
        uuid = wait_for("a session", lambda: (n1.op(OP.SESSION_CREATE, session)[3] or [None])[0])
        # It ends after twice its TTL at the latest; renewing in time keeps one beyond another that nobody renews.
        assert wait_for("renewals in time", lambda: renewed_until_another_ends(n1, session)) == "kept"
        wait_for("it ends", lambda: not n1.asked(OP.SESSION_INFO, [uuid, ""]))
        assert n1.op(OP.SESSION_RENEW, [uuid, ""])[3] == []


def test_sessions_expire_in_order():
    """Hundreds of timers, created in another order than they end: none ends before its TTL, and those of 1 s before those of
    6 s, whose shortest time is longer than the longest of the others."""
    with RaftCluster(1, bootstrap=True, session_ttl_min="100ms") as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        n1.wait_log("member 'n1' joined")
        wait_for("in the catalog", lambda: n1.asked(OP.CATALOG_NODES, ["", [], {}, False]))
        began, made = time.monotonic(), {}
        for i in range(400):
            ttl = (6, 1)[i % 2]
            made[n1.asked(OP.SESSION_CREATE, ["", "s", "n1", 0, "release", "%ds" % ttl, ["serfHealth"], None, None])[0]] = ttl
        made_for = time.monotonic() - began

        def left(ttl):
            now = {s[0] for s in n1.asked(OP.SESSION_LIST, ["", ""])}
            return [s for s, t in made.items() if t == ttl and s in now]
        if made_for < 1:                                # else some may have ended by now
            assert len(left(1)) == 200
        wait_for("those of 1 s end", lambda: not left(1))
        short = time.monotonic() - began
        assert short >= 2 * 1 - 0.2, short
        if short < 6:
            assert len(left(6)) == 200
        wait_for("those of 6 s end", lambda: not left(6))
        assert time.monotonic() - began >= 2 * 6 - 0.2


def test_sessions_outlive_leaders():
    """The holder of a lock is dead, and the leader changes again and again: each leader gives its session the whole time anew, as Consul
    does, and no more than that: it ends after the last change, no earlier than its TTL (S115)."""
    ttl = 3
    with RaftCluster(3, bootstrap_expect=3, session_ttl_min="100ms", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        wait_for("in the catalog", lambda: any(n[1] == "n1" for n in leader.asked(OP.CATALOG_NODES, ["", [], {}, False])))
        made = time.monotonic()
        uuid = leader.asked(OP.SESSION_CREATE, ["", "s", "n1", 0, "delete", "%ds" % ttl, [], None, None])[0]

        def there():
            return bool(c.wait_leader().asked(OP.SESSION_INFO, [uuid, ""]))

        def change():
            """The time before this leader began to lead."""
            old, begun = c.wait_leader(), time.monotonic()
            term = int(old.info()["term"])
            wait_for("leadership moves", lambda: old.op(OP.RAFT_TRANSFER, ["", "", False])[0] == 0 or
                     int(old.info()["term"]) > term)
            wait_for("another leader", lambda: (n := c.leader()) and int(n.info()["term"]) > term)
            return begun
        last = made
        while time.monotonic() - made < 2 * ttl + 1:         # longer than any leader would keep it
            pause = time.monotonic() + ttl / 2
            wait_for("half of its TTL", lambda: time.monotonic() > pause)
            before, last = last, change()
            if time.monotonic() - before < 2 * ttl - 1:      # else this test was too slow for that
                assert there(), "it ended %.1f s after a change" % (time.monotonic() - before)
        wait_for("it ends", lambda: not there())
        took = time.monotonic() - last
        print("# it ended %.1f s after the last change of leaders, %.1f s after it was made; its TTL is %d s" % (
            took, time.monotonic() - made, ttl), flush=True)
        assert took >= ttl, took


def test_sessions_end_together():
    """After an outage a crowd of sessions ends at the same time: in batches, beside renewals and writes (S122)."""
    count, ttl = 3000, 5
    with RaftCluster(1, bootstrap=True, session_ttl_min="100ms") as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        wait_for("in the catalog", lambda: n1.asked(OP.CATALOG_NODES, ["", [], {}, False]))

        def sessions():
            return len(n1.asked(OP.SESSION_LIST, ["", ""]))
        body = [OP.SESSION_CREATE, "", 0, 0, 0, 0, "", ["", "s", "n1", 0, "delete", "60s", [], None, None]]
        lasting = n1.asked(OP.SESSION_CREATE, body[7])[0]
        body[7][5] = "%ds" % ttl
        conn = n1.connect()
        for i in range(count):
            conn.send(MSG.OP, body, i + 1)
        for _ in range(count):
            assert conn.wait(lambda f: f.flags & tvframe.REPLY).body[0] == 0
        n1.kill()
        n1.start()
        c.introduce(n1)
        c.wait_leader()
        assert sessions() > 1, "they ended before the outage"           # a new leader gives all their full time
        halt, written = threading.Event(), []

        def write():
            with Conn(n1.sock_path) as w:
                while not halt.is_set():
                    w.send(MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [0, "k", 0, b"v", 0, "", 0]], 1)
                    written.append(w.wait(lambda f: f.flags & tvframe.REPLY).body[0])
        thread = threading.Thread(target=write)
        thread.start()
        try:
            session = ["", "s", "n1", 0, "release", "%ds" % ttl, [], None, None]
            assert wait_for("renewals in time", lambda: renewed_until_another_ends(n1, session, ttl)) == "kept"
            wait_for("the crowd has ended", lambda: sessions() <= 2)
            assert n1.asked(OP.SESSION_INFO, [lasting, ""]), "one with a longer time ended with them"
        finally:
            halt.set()
            thread.join()
        assert written and set(written) == {0}


def test_address_change_is_followed():
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        moved = next(n for n in c.nodes if n is not leader)
        moved.stop()
        moved.ip = moved.advertise = c.net + ".9"
        moved.configure(**c.options)
        moved.start()
        c.tell_all(UPDATE, moved.member())
        leader.wait_log("moved to %s.9:8300" % c.net)
        assert leader.put("k", b"v")[0] == 0
        wait_for("it follows", lambda: moved.get("k") == b"v")


def test_failed_write_stops_the_process():
    """A write that the disk refuses is final: the server stops with status 1 and comes back by replay (S84)."""
    with RaftCluster(1, bootstrap=True) as c:
        n1 = c.nodes[0]
        n1.start(file_bytes_max=8 << 20)
        c.introduce(n1)
        c.wait_leader()
        acked = []
        try:
            for i in range(200):
                value = os.urandom(300000)
                if n1.put("k%03d" % i, value)[0] != 0:
                    break
                acked.append(value)
        except (OSError, tvframe.Closed):
            pass
        n1.expect_end(1)
        assert 0 < len(acked) < 200
        n1.start()
        c.wait_leader()
        for i, value in enumerate(acked):
            assert n1.get("k%03d" % i) == value, i


def test_made_up_servers_take_no_place():
    """Whoever has the cluster key can gossip any number of servers: the cluster's own find a link all the same."""
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        crowded = next(n for n in c.nodes if n is not leader)
        for i in range(100):
            tags = dict(crowded.tags, id="00000000-0000-0000-0000-%012d" % i)
            ip = socket.inet_aton("%s.%d" % (c.net, 150 + i))
            crowded.gossip.tell(JOIN, ["a%d" % i, ip, 8301, ALIVE, tags, 1, 5, 2, 2, 5, 4])
        wait_for("it knows them", lambda: crowded.call(MSG.INFO, [])["raftd"]["links"] == "2")
        late = c.add()
        late.start()
        c.introduce(late)
        voters(leader, "n1", "n2", "n3", "n4")
        assert leader.op(OP.RAFT_TRANSFER, [crowded.id, ""])[0] == 0
        wait_for("it leads", lambda: c.leader() is crowded)
        assert crowded.put("k", b"v")[0] == 0
        wait_for("the newcomer follows", lambda: late.get("k", READ_STALE) == b"v")


def test_two_clusters_do_not_mix():
    with RaftCluster(2, bootstrap=True) as c:
        for node in c.nodes:                            # a mistake: two servers with bootstrap
            node.start()
            wait_for("it leads", lambda: node.info()["state"] == "Leader")
        c.introduce()
        c.nodes[0].wait_log("it belongs to cluster")
        for node in c.nodes:
            assert node.put("who", node.name.encode())[0] == 0
            assert node.get("who") == node.name.encode()
            assert list(node.servers()) == [node.name]


def test_hostile_client():
    """Whatever a channel sends, only that channel dies."""
    with RaftCluster(1, bootstrap=True) as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        head = tvframe.HEAD.pack
        bad = [
            head(0xFFFFFFFF, MSG.OP, 0, 1),                             # 4 GB
            head(3, MSG.OP, 0, 1) + b"\xc1\xc1\xc1",
            head(5, MSG.OP, 0, 1) + b"\xdd\xff\xff\xff\xff",           # array of 4 billion
            head(1, 999, 0, 1) + b"\x90",
            head(1, MSG.RAFT, 0, 1) + b"\x90",
            head(1, MSG.INFO, tvframe.REPLY, 1) + b"\x90",
            head(1, MSG.INFO, 0, 0) + b"\x90",                          # no answer wanted
        ]
        for raw in bad:
            conn = Conn(n1.sock_path)
            conn.send_raw(raw)
            assert closed(conn), raw
        conn = Conn(n1.sock_path, hello=False)                          # before hello
        conn.send(MSG.INFO, [], 1)
        assert closed(conn)
        internal = n1.op(OP.SERVER_TOMBSTONE, ["x", "", False])
        assert internal[0] == ERR.EPERM
        err, text = n1.op(12345, [])[:2]
        assert err == ERR.EINVAL and "unknown operation 12345" in text, text
        assert n1.op(OP.KV_APPLY, ["not", "it"])[0] != 0
        assert n1.put("alive", b"yes")[0] == 0


def closed(conn):
    try:
        for _ in conn.frames(10):
            pass
    except (tvframe.Closed, OSError):
        return True
    return False


def test_hostile_peer():
    """On the raft port: garbage, oversized frames and strangers change nothing (S200, S203)."""
    with RaftCluster(1, bootstrap=True) as c:
        n1 = c.nodes[0]
        c.start_all()
        c.wait_leader()
        term = n1.info()["term"]
        hello = [1, "00000000-1111-4222-8333-444444444444", "evil", "00000000-1111-4222-8333-555555555555",
                 "00000000-1111-4222-8333-666666666666", 1, "dc1", c.net + ".250:8300", 8300]
        marks = [1, 1, 1, 0, False, 0, 0, 0, 0, False]      # of its disk, and of ours as it saw that; then its clock
        attempts = [
            lambda s: s.sendall(struct.pack("<IHHQ", 0xFFFFFFFF, MSG.RAFT, 0, 0)),
            lambda s: s.sendall(os.urandom(4096)),
            lambda s: s.sendall(frame(MSG.RAFT, b"\x00" * 64)),                     # before hello
            lambda s: s.sendall(frame(MSG.RAFT_HELLO, tvframe.pack(hello[:5]))),
            lambda s: s.sendall(frame(MSG.RAFT_HELLO, tvframe.pack(hello)) + frame(MSG.RAFT, os.urandom(200))),
            lambda s: s.sendall(frame(MSG.RAFT_HELLO, tvframe.pack([2] + hello[1:] + [0, 3, 1] + marks + [1, "newer"]))),
        ]
        for attempt in attempts:
            with socket.create_connection((c.net + ".1", 8300), timeout=60) as s:
                try:
                    attempt(s)
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(65536):
                        pass
                except (ConnectionResetError, BrokenPipeError):
                    pass                                # closed before it was read to its end
                except OSError as e:
                    assert e.errno == errno.ENOTCONN, e # the same, when we were about to say that this is all
        assert n1.info()["term"] == term
        assert n1.put("alive", b"yes")[0] == 0
        assert "it speaks version 2 to 3 of the protocol between raftds, this server version 1" in n1.log()


def frame(kind, body):
    return struct.pack("<IHHQ", len(body), kind, 0, 0) + body


RESTORE_DONE, RESTORE_FAILED = 7, 8      # enum snapshot_phase (common/record/records.h)


def snapshot_op(node, code, ident="", offset=0, data=b""):
    """(err, text, id, phase, index, data, why) of one of OP.SNAPSHOT_* and OP.RESTORE_*."""
    err, text, _, value = node.op(code, ["", ident, offset, data])
    _, ident, phase, _, _, index, data, why = value if err == 0 else ("", "", 0, 0, 0, 0, b"", "")
    return err, text, ident, phase, index, data, why


def saved(node):
    """An archive of the state."""
    err, text, ident, *_ = snapshot_op(node, OP.SNAPSHOT_SAVE)
    assert err == 0, (err, text)
    archive = b""
    while True:
        err, text, _, phase, _, piece, _ = snapshot_op(node, OP.SNAPSHOT_READ, ident, len(archive))
        assert err == 0, (err, text)
        archive += piece
        if phase == 1 and not piece:                    # ready, and this is its end
            return archive


def restore(node, archive):
    """The error, or what the server says when it is over: (err, text, phase)."""
    err, text, ident, *_ = snapshot_op(node, OP.RESTORE_OPEN)
    if err != 0:
        return err, text, None
    assert snapshot_op(node, OP.RESTORE_WRITE, ident, 0, archive)[0] == 0
    assert snapshot_op(node, OP.RESTORE_APPLY, ident, len(archive))[0] == 0

    def over():
        err, text, _, phase, _, _, why = snapshot_op(node, OP.RESTORE_STATUS, ident)
        return (err, text or why, phase) if err != 0 or phase in (RESTORE_DONE, RESTORE_FAILED) else None
    return wait_for("the restore ends", over)


def test_restore_needs_every_server():
    """A server of a version that cannot restore would pass over its entries: refused, by name, until it is upgraded."""
    with RaftCluster(3, bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c)
        voters(leader, "n1", "n2", "n3")
        assert leader.put("k", b"old")[0] == 0
        archive = saved(leader)
        assert leader.put("k", b"new")[0] == 0
        assert n3.get("k") == b"new" and relay.stripped > 0, "it serves as before"
        refusals = []

        def untouched():
            """Not one entry of it came into the log; what else comes there, as of the catalog, comes to an end."""
            last = leader.info()["last_log_index"]
            refusals.append(restore(leader, archive)[:2])
            return leader.info()["last_log_index"] == last
        wait_for("a restore that leaves the log alone", untouched)
        assert set(refusals) == {(ERR.ECONFLICT, "server n3 runs a version that cannot restore: upgrade it first, or remove "
                                  "it; nothing was changed")}, refusals
        assert leader.get("k") == b"new" and leader.info("state")["restore"] == "none"
        relay.upgrade()
        err, text, phase = wait_for("it is accepted", lambda: (lambda r: r if r[0] == 0 else None)(restore(leader, archive)))
        assert phase == RESTORE_DONE, (text, phase)
        for node in c.nodes:
            assert node.get("k") == b"old", node.name
        relay.close()


def test_entry_of_a_newer_version():
    """A raftd that is too old for an entry says so and stops, as often as it is started; what was there before stays."""
    with RaftCluster(1, bootstrap_expect=1) as c:
        n1 = c.nodes[0]
        n1.start()
        wait_for("a write", lambda: n1.put("before", b"1")[0] == 0)
        assert n1.stop() == 0
        tool = [os.path.join(BUILD, "tests", "system", "newer_entry"), os.path.join(n1.dir, "data", "raftd", "log")]
        index = int(subprocess.check_output(tool + ["append"]))
        sentence = ("stopping: log entry %d was written by a newer version of raftd (operation 999, which needs version 200 of "
                    "the state machine; this raftd has version 10): start the newer version here, and it goes on from there"
                    % index)
        for times in (1, 2):
            n1.start_only()
            n1.expect_end(1)
            assert n1.log().count(sentence) == times, n1.log()[-2000:]
        assert int(subprocess.check_output(tool + ["cut"])) >= index
        while int(subprocess.check_output(tool + ["cut"])) > index:    # each start began a term with an entry
            pass
        n1.start()
        wait_for("a write", lambda: n1.put("after", b"1")[0] == 0)
        assert n1.get("before") == b"1"


def test_stop_is_clean():
    with RaftCluster(3, bootstrap_expect=3) as c:
        c.start_all()
        c.wait_leader()
        for node in c.nodes:
            assert node.stop() == 0
        for node in c.nodes:
            assert "ERROR" not in node.log() and "leak" not in node.log()


if __name__ == "__main__":
    main(*[f for name, f in list(globals().items()) if name.startswith("test_")])

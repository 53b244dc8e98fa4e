#!/usr/bin/env python3
"""Damaged files below a real raftd (S46, S48, S61, S89, S90, S92, S100, S101): every kind of file is flipped, cut, emptied,
removed or swapped while the server is down.  What comes of it is the table in doc/storage.md: the state is rebuilt, from
the log or by the leader, without anybody's help; damage of the log is refused with the file and the remedy; what was
never acknowledged is dropped; and never does a server show less than it had."""
import glob
import os
import random
import re
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import tvframe  # noqa: E402
from cluster import main, skip  # noqa: E402
from raftcluster import ERR, OP, READ_STALE, Ended, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.23"  # or where TV_NET moves it
CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever
CUT = {"snapshot_threshold": 16, "snapshot_interval": "100ms", "trailing_logs": 20}
KEYS = 400


def flip(path, at):
    """One bit; at: a place from 0 to 1 in the part of the file that is written."""
    with open(path, "r+b") as f:
        data = f.read().rstrip(b"\0")
        offset = min(int(len(data) * at), len(data) - 1)
        f.seek(offset)
        byte = data[offset]
        f.seek(offset)
        f.write(bytes([byte ^ (1 << random.randrange(8))]))


def flip_pages(path):
    """A bit in every page."""
    with open(path, "r+b") as f:
        size = os.path.getsize(path)
        for page in range(0, size, 4096):
            at = page + random.randrange(4096)
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 4]))


def cut(path, part):
    with open(path, "r+b") as f:
        data = f.read()
        f.truncate(int(len(data.rstrip(b"\0")) * part))


def empty(path):
    os.truncate(path, 0)


def zero(path, first, count):
    with open(path, "r+b") as f:
        f.seek(first)
        f.write(bytes(count))


def own(source, target):
    """Folders belong to whom they belonged."""
    for top, _, _ in os.walk(source):
        st = os.stat(top)
        os.chown(os.path.join(target, os.path.relpath(top, source)), st.st_uid, st.st_gid)


def copy_owned(source, target):
    shutil.copy2(source, target)
    st = os.stat(source)
    os.chown(target, st.st_uid, st.st_gid)


class Patient:
    """A follower of three that is damaged again and again, each time from the same healthy disk."""

    def __init__(self, number, **options):
        self.c = RaftCluster(3, net="%s.%d" % (NET, number), bootstrap_expect=3, **dict(CALM, **options))

    def __enter__(self):
        c = self.c
        c.start_all()
        leader = c.wait_leader()
        value = os.urandom(3000)
        for i in range(KEYS):
            assert leader.put("k%04d" % i, value)[0] == 0
        self.leader = c.wait_leader()
        self.node = next(n for n in c.nodes if n is not self.leader)
        c.wait_equal()
        if int(c.options.get("snapshot_threshold", 0)):
            wait_for("checkpoints", lambda: all(int(n.info()["last_snapshot_index"]) > KEYS - 50 for n in c.nodes))
        self.term = self.leader.info()["term"]
        self.data = os.path.join(self.node.dir, "data")
        self.healthy = self.data + ".healthy"
        self.copied = False
        self.round = 0
        return self

    def __exit__(self, kind, *rest):
        self.c.__exit__(kind, *rest)

    def _durable(self):
        info = self.node.info()
        return info["durable_log_index"] == info["last_log_index"]

    def reset(self):
        """Stopped by kill -9, with a whole disk that has all that it ever acknowledged, some of it since a checkpoint."""
        if self.node.process is not None and self.node.process.poll() is None:
            self.round += 1
            for i in range(12):
                assert self.leader.put("round%d" % i, b"%d" % self.round)[0] == 0
            self.c.wait_equal()
            # Applying does not wait for the own disk.  What is not durable may get lost, and damage to it is a torn end.
            wait_for("all is durable", self._durable)
            self.want = self.leader.op(OP.KV_LIST, ["", ""])[3]
            self.last = int(self.node.info()["durable_log_index"])
            self.node.kill()
            shutil.rmtree(self.healthy, ignore_errors=True)
            shutil.copytree(self.data, self.healthy, copy_function=copy_owned)
            own(self.data, self.healthy)
        else:
            self.node.disconnect()
            shutil.rmtree(self.data)
            shutil.copytree(self.healthy, self.data, copy_function=copy_owned)
            own(self.healthy, self.data)
        open(self.node.log_path, "w").close()

    def path(self, pattern, which=-1):
        found = sorted(glob.glob(os.path.join(self.data, "raftd", pattern)))
        assert found, pattern
        return found[which]

    def start(self):
        self.node.start_only()

    def wrong(self, entries):
        """Those of them that never were, among the keys that are written once: nothing of what is damaged is served."""
        want = {e[1]: e for e in self.want}
        return [e for e in entries if e[1].startswith("k") and e != want.get(e[1])]

    def _whole(self):
        if self.node.process.poll() is not None:
            return "ended"
        try:
            self.node.conn or self.node.connect()
            err, _, _, value = self.node.op(OP.KV_LIST, ["", ""], READ_STALE)
        except (OSError, tvframe.Closed, Ended):
            self.node.disconnect()
            return None
        if err == ERR.ENOTLEADER:
            return None                                 # the state is on its way
        if err != 0:
            return None                                 # damage was met: it stops, see above
        assert not self.wrong(value), self.wrong(value)[:3]
        return "whole" if value == self.want else None

    def end(self):
        self.node.expect_end(1)

    def outcome(self):
        """"whole": it has everything and follows; "ended": refused, or stopped by what it met."""
        return wait_for("an outcome", self._whole)

    def rebuilt(self, what, starts=3):
        """It ends up whole by itself; meeting damage while at work may take another start, as a supervisor does it."""
        for _ in range(starts):
            self.start()
            if self.outcome() == "whole":
                # All of it was read; and it is a full member.
                assert self.node.op(OP.KV_LIST, ["", ""])[3] == self.want, what
                assert self.node.info()["state_lost"] == "0" and self.log_end() >= self.last, what
                return self.node.log()
            self.end()
        raise AssertionError("%s: not whole after %d starts:\n%s" % (what, starts, self.node.log()[-3000:]))

    def log_end(self):
        """Where the log ended that the newest start found."""
        return int(re.findall(r"log from \d+ to (\d+)", self.node.log())[-1])

    def refused(self, what, names):
        """It ends, with the file and the remedy."""
        self.start()
        assert self.outcome() == "ended", "%s: was not noticed:\n%s" % (what, self.node.log()[-2000:])
        self.end()
        log = self.node.log()
        line = [x for x in log.splitlines() if "[ERR]" in x][0]
        assert re.search(names, line), "%s: %s" % (what, line)
        assert "move " in line or "put " in line, "%s: no remedy: %s" % (what, line)


def state_cases(p):
    db = lambda: p.path("state/state.db")               # noqa: E731
    wal = lambda: p.path("state/log.*")                 # noqa: E731
    cases = [("state.db, first page", lambda: flip(db(), 0.0001)),
             ("state.db, every page", lambda: flip_pages(db())),
             *[("state.db cut to %d %%" % (10 * i), lambda i=i: cut(db(), i / 10)) for i in (2, 5, 7, 9)],
             ("state.db emptied", lambda: empty(db())),
             ("state.db removed", lambda: os.unlink(db())),
             ("state.db, first page zeroed", lambda: zero(db(), 0, 4096)),
             ("state.db, other pages zeroed", lambda: zero(db(), 4096, os.path.getsize(db()) - 4096)),
             ("state.db, headers of other pages zeroed",
              lambda: [zero(db(), at, 26) for at in range(4096, os.path.getsize(db()), 4096)]),
             ("write-ahead log, middle", lambda: flip(wal(), 0.5)), ("write-ahead log, head", lambda: flip(wal(), 0.00001)),
             ("write-ahead log cut", lambda: cut(wal(), 0.5)), ("write-ahead log emptied", lambda: empty(wal())),
             ("write-ahead log removed", lambda: os.unlink(wal())),
             ("both removed", lambda: [os.unlink(f) for f in glob.glob(p.path("state") + "/*")]),
             ("state removed", lambda: shutil.rmtree(p.path("state")))]
    cases += [("state.db at %d %%" % (10 * i), lambda i=i: flip(db(), i / 10 + 0.03)) for i in range(1, 10)]
    return cases


def test_state_is_rebuilt_by_the_leader():
    """The log was cut, so it cannot; the server stays the member that it was, keeps its log, and reads nothing before."""
    with Patient(21, **CUT) as p:
        lost = 0
        for what, damage in state_cases(p):
            p.reset()
            damage()
            log = p.rebuilt(what)
            lost += "waiting for a snapshot from the leader" in log
        assert lost >= 5, lost
        assert p.leader.info()["term"] == p.term and p.leader.servers() == {"n1": True, "n2": True, "n3": True}
        assert p.leader.put("after", b"x")[0] == 0
        wait_for("it follows", lambda: p.node.get("after", READ_STALE) == b"x")
        # What was set aside goes once the new state is durable.
        for i in range(40):
            assert p.leader.put("more%d" % i, b"x")[0] == 0
        wait_for("cleaned up", lambda: not glob.glob(os.path.join(p.data, "raftd", "state.*")))


def test_state_is_rebuilt_from_the_log():
    """All entries are there still: nobody is asked."""
    with Patient(22, snapshot_threshold=16, snapshot_interval="100ms", trailing_logs=100000) as p:
        again = 0
        for what, damage in state_cases(p):
            p.reset()
            damage()
            log = p.rebuilt(what)
            assert "receiving a snapshot" not in log, what
            again += "applying the log again" in log
        assert again >= 5, again


def test_two_lost_states():
    """Of three: the whole log of both still counts, so the third leads, nothing is lost, and both are rebuilt."""
    with Patient(23, **CUT) as p:
        p.reset()
        second = next(n for n in p.c.nodes if n not in (p.leader, p.node))
        assert p.leader.put("newest", b"x")[0] == 0
        p.c.nodes.remove(p.node)
        p.c.wait_equal()
        p.c.nodes.insert(0, p.node)
        for n in (second, p.leader):
            n.kill()
        for n in (p.node, second):
            shutil.rmtree(os.path.join(n.dir, "data", "raftd", "state"))
        for n in (p.node, second):
            n.start()
            n.wait_log("waiting for a snapshot from the leader")
            assert n.op(OP.KV_GET, ["newest", ""], READ_STALE)[0] == ERR.ENOTLEADER
            assert n.info()["state_lost"] == "1"
        p.leader.start()
        wait_for("it leads", lambda: p.c.leader() is p.leader)
        assert p.leader.get("newest") == b"x"
        for n in (p.node, second):
            wait_for("it is rebuilt", lambda: n.info()["state_lost"] == "0" and n.get("newest", READ_STALE) == b"x")
        assert p.leader.put("and", b"on")[0] == 0
        p.c.wait_equal()


def test_killed_while_rebuilding():
    """kill -9 at any moment of it; the log keeps what it promised (S61, S99)."""
    with Patient(24, **dict(CUT, snapshot_chunk="16k")) as p:
        p.reset()
        last = 0                                         # the leader may add to it meanwhile, of its own
        durable = lambda: int(p.node.info()["durable_log_index"])       # noqa: E731
        shutil.rmtree(p.path("state"))
        for i in range(15):
            p.start()
            wait_for("its log", lambda: p.node.connect())
            found = durable()
            assert found >= last, (found, last)
            last = found
            seen = p.node.log().count("raft: ")
            wait_for("it goes on", lambda: p.node.log().count("raft: ") > seen + i % 3 or p.node.info()["state_lost"] == "0")
            p.node.kill()
        p.rebuilt("killed while rebuilding")
        assert durable() >= last


def test_only_server_without_state():
    """Nobody could send it: it says so instead of waiting for ever, or starting empty."""
    with RaftCluster(1, net=NET + ".25", bootstrap=True, **CUT) as c:
        n = c.nodes[0]
        c.start_all()
        c.wait_leader()
        for i in range(100):
            assert n.put("k%d" % i, b"v")[0] == 0
        wait_for("the log is cut", lambda: int(n.info()["last_snapshot_index"]) > 80)
        n.kill()
        shutil.rmtree(os.path.join(n.dir, "data", "raftd", "state"))
        n.start_only()
        n.expect_end(1)
        assert "no other server has it: put " in n.log(), n.log()[-1000:]


def test_log_damage_is_refused():
    """Acknowledged entries, term and vote must not be lost in silence: the file, and what to do."""
    with Patient(26, **CUT) as p:
        wal = lambda: p.path("log/log.*")               # noqa: E731
        cases = [("every page", lambda: flip_pages(wal())),
                 ("head", lambda: flip(wal(), 0.00001)),
                 ("last committed", lambda: flip(wal(), 0.9999)),
                 ("first page zeroed", lambda: zero(wal(), 0, 4096)),
                 ("second page zeroed", lambda: zero(wal(), 4096, 4096)),
                 ("cut", lambda: cut(wal(), 0.9)), ("cut short", lambda: cut(wal(), 0.01)),
                 ("emptied", lambda: empty(wal())), ("removed", lambda: os.unlink(wal()))]
        cases += [("at %d %%" % (10 * i), lambda i=i: flip(wal(), i / 10 + 0.03)) for i in range(0, 10)]
        cases = [("write-ahead log, " + what, "log", damage) for what, damage in cases]
        cases += [("all of log/ removed", "state", lambda: shutil.rmtree(p.path("log"))),
                  ("all in log/ removed", "state", lambda: [os.unlink(f) for f in glob.glob(p.path("log") + "/*")]),
                  ("what an earlier version left", "earlier version", lambda: open(p.path("log") + "/meta.db", "w").close())]
        for what, names, damage in cases:
            p.reset()
            damage()
            p.refused(what, names)
        # The remedy that it names: aside with it, and it comes back as a new server with everything.
        os.rename(os.path.join(p.data, "raftd"), os.path.join(p.data, "raftd.aside"))
        p.node.start()
        p.c.introduce(p.node)
        wait_for("it is back", lambda: p.node.op(OP.KV_LIST, ["", ""], READ_STALE)[3] == p.want)
        wait_for("it votes", lambda: p.leader.servers() == {"n1": True, "n2": True, "n3": True})


def test_damage_met_while_it_runs():
    """The leader cannot read what a follower needs: it says so and stops, and a server that has it whole takes over."""
    with RaftCluster(3, net=NET + ".29", bootstrap_expect=3, entry_cache="64k", **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        away, other = [n for n in c.nodes if n is not leader]
        away.stop()
        for i in range(300):
            assert leader.put("k%d" % i, b"v" * 4000)[0] == 0
        wait_for("the other has it", lambda: other.info()["applied_index"] == leader.info()["applied_index"])
        flip(glob.glob(os.path.join(leader.dir, "data/raftd/log/log.*"))[0], 0.3)
        away.start()
        leader.wait_log("cannot be read")
        leader.expect_end(1)
        wait_for("it has all", lambda: away.get("k299") == b"v" * 4000)


def test_mark_and_rubbish_do_no_harm():
    """The mark says nothing when it is damaged; files of interrupted work go; the torn end of a write is dropped."""
    with Patient(27, **CUT) as p:
        mark = lambda: p.path("log/durable")            # noqa: E731

        def rubbish():
            for name in ("snapshot-77.tmp", "snapshot-recv.tmp", "snapshot-install", "install-meta"):
                with open(os.path.join(p.path("."), name), "wb") as f:
                    f.write(os.urandom(5000))

        def torn():
            with open(p.path("log/log.*"), "r+b") as f:
                f.seek(len(f.read().rstrip(b"\0")) + 24)
                f.write(os.urandom(300))
        for what, damage in (("mark flipped", lambda: flip(mark(), 0.5)), ("mark emptied", lambda: empty(mark())),
                             ("mark removed", lambda: os.unlink(mark())), ("rubbish", rubbish), ("torn end", torn)):
            p.reset()
            damage()
            p.rebuilt(what, 1)


def test_received_snapshot():
    """Its installation is interrupted and the file damaged, or what stands beside it: dropped and asked for again (S48)."""
    if diskfault.missing():
        skip(diskfault.missing())
    damage = [("snapshot-install", lambda p: flip(p, 0.5)), ("snapshot-install", lambda p: cut(p, 0.7)),
              ("snapshot-install", empty), ("install-meta", lambda p: flip(p, 0.3)), ("install-meta", empty), ("", None)]
    with RaftCluster(1, net="%s.%d" % (NET, 8), bootstrap=True, trailing_logs=0, snapshot_threshold=16,
                     snapshot_interval="100ms") as c:
        first = c.nodes[0]
        c.start_all()
        c.wait_leader()
        for i in range(200):
            assert first.put("k%03d" % i, os.urandom(2000))[0] == 0
        wait_for("a checkpoint", lambda: int(first.info()["last_snapshot_index"]) > 150)
        c.options = dict(CUT)
        node = c.add()
        disk = diskfault.DiskFault(os.path.join(node.dir, "disk"))
        node.env = disk.env
        folder = os.path.join(node.dir, "data", "raftd")
        node.start()
        for name, spoil in damage:
            disk.hang(True, "state", "write")           # the new state cannot be made, so the file stays
            first.process.send_signal(signal.SIGCONT)
            c.introduce(node, first)
            wait_for("a snapshot is there", lambda: os.path.exists(os.path.join(folder, "snapshot-install")) and
                     disk.hanging("state"))
            node.kill()
            first.process.send_signal(signal.SIGSTOP)   # it would send another one at once, before the disk hangs again
            if spoil:
                spoil(os.path.join(folder, name))
            disk.clear()
            seen = len(node.log())
            node.start()
            said = "is dropped, and requested again" in node.log()[seen:]
            assert said == bool(spoil), (name, node.log()[seen:])
        first.process.send_signal(signal.SIGCONT)
        c.introduce(node, first)
        want = first.op(OP.KV_LIST, ["k", ""], READ_STALE)[3]
        wait_for("it has all", lambda: node.op(OP.KV_LIST, ["k", ""], READ_STALE)[3] == want)


def test_changed_node_id():
    """Another id on the same disk would be a stranger with the votes of a member."""
    with Patient(28, **CUT) as p:
        path = os.path.join(p.data, "node-id")
        right = p.node.id
        for what, damage in (("changed", lambda: open(path, "w").write("%s%s\n" % ("0" if right[0] != "0" else "1", right[1:]))),
                             ("removed", lambda: os.unlink(path))):
            p.reset()
            damage()
            p.start()
            assert p.outcome() == "ended", what
            p.end()
            log = p.node.log()
            assert right in log and "node-id" in log and "put " in log, log[-1000:]
        p.reset()
        p.rebuilt("put back", 1)


if __name__ == "__main__":
    main(test_state_is_rebuilt_by_the_leader, test_state_is_rebuilt_from_the_log, test_two_lost_states,
         test_killed_while_rebuilding, test_only_server_without_state, test_log_damage_is_refused,
         test_damage_met_while_it_runs, test_mark_and_rubbish_do_no_harm, test_received_snapshot, test_changed_node_id)

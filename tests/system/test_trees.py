#!/usr/bin/env python3
"""Trees of keys: deleted at once up to a bound; in parts, alike on all servers, and what is left when that is interrupted."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import tvframe  # noqa: E402
from cluster import CALM, main, skip  # noqa: E402
from oldpeer import STATE, started_with_old  # noqa: E402
from raftcluster import ERR, KV_DELETE, KV_SET, OP, READ_DEFAULT, READ_STALE, Conn, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.79"  # or where TV_NET moves it
KV_DELETE_TREE, KV_DELETE_TREE_PARTS = 6, 8
KEYS = 60                               # of 100 KB, of which one entry takes three
AT_ONCE = 100000                        # that one entry deletes
TOO_MUCH = ("more than 100000 keys, or 256 MB, begin with this prefix, which is too much to delete at once: delete them in "
            "parts, between which others read and write (?recurse&parts, clusterctl kv delete --recurse --parts)")


class SlowDisks(RaftCluster):
    """Servers whose disks can be made slow, which costs nobody its office."""

    def __init__(self, count, **options):
        if diskfault.missing():
            skip(diskfault.missing())
        super().__init__(count, slow_sync="60s", disk_stuck_timeout="60s", **options)
        self.disks = {node: diskfault.DiskFault(os.path.join(node.dir, "disk")) for node in self.nodes}
        for node in self.nodes:
            node.env = self.disks[node].env


def delete_tree(node, prefix, verb=KV_DELETE_TREE, **kw):
    err, text, _, value = node.op(OP.KV_APPLY, [verb, prefix, 0, b"", 0, "", 0], **kw)
    return err, text, value


def delete_parts(node, prefix):
    return delete_tree(node, prefix, KV_DELETE_TREE_PARTS)


def keys(node, mode=READ_STALE):
    return [k for k in node.asked(OP.KV_KEYS, ["", ""], mode)[0] if k != "wait-leader"]   # of lib/raftcluster.py


def plant(leader):
    for i in range(KEYS):
        assert leader.put("tree/%02d" % i, b"x" * 100000)[0] == 0
    for beside in ("tree", "trees/a"):
        assert leader.put(beside, b"here")[0] == 0
    return int(leader.info()["last_log_index"])


def plant_many(leader, count):
    """Keys below many/, written as fast as the leader takes them."""
    with Conn(leader.sock_path) as conn:
        for i in range(count + 1000):
            if i < count:
                conn.send(tvframe.MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [KV_SET, "many/%06d" % i, 0, b"x" * 100, 0, "", 0]],
                          conn.next_id)
                conn.next_id += 1
            if i >= 1000:
                answer = conn.wait(lambda f: f.flags & tvframe.REPLY).body
                assert answer[0] == 0, answer


class Reader:
    """Counts the keys below many/ that a server has, again and again, and reads one beside them and one that there is not."""

    def __init__(self, node):
        self.seen, self.failed, self.over = set(), [], threading.Event()
        self.thread = threading.Thread(target=self.read, args=(node.sock_path,))
        self.thread.start()

    def read(self, path):
        with Conn(path) as conn:
            while not self.over.is_set():
                for code, key, mode in ((OP.KV_KEYS, "many/", READ_STALE), (OP.KV_GET, "beside", READ_DEFAULT),
                                        (OP.KV_GET, "none", READ_DEFAULT)):
                    err, text, _, _, _, value = conn.call(tvframe.MSG.OP, [code, "", mode, 0, 0, 0, "", [key, ""]])
                    if err != 0:
                        self.failed.append((err, text, value))
                    elif code == OP.KV_KEYS:
                        self.seen.add(len(value[0]))
                    elif [e[3] for e in value] != ([b"here"] if key == "beside" else []):
                        self.failed.append((key, value))

    def end(self):
        self.over.set()
        self.thread.join()
        assert not self.failed, self.failed[:3]
        return self.seen


def test_at_once():
    """All of a tree or nothing of it, for whoever reads meanwhile; more than the bound is refused, and goes in parts."""
    with RaftCluster(3, net=NET + ".5", bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        assert leader.put("beside", b"here")[0] == 0
        plant_many(leader, AT_ONCE + 1)
        c.wait_equal()
        term = leader.info()["term"]
        readers = [Reader(n) for n in c.nodes]
        assert delete_tree(leader, "many/") == (ERR.ELIMIT, TOO_MUCH, None)
        assert delete_tree(leader, "") == (ERR.ELIMIT, TOO_MUCH, None)
        assert all(r.end() == {AT_ONCE + 1} for r in readers)
        assert leader.op(OP.KV_APPLY, [KV_DELETE, "many/000000", 0, b"", 0, "", 0])[0] == 0
        c.wait_equal()
        readers = [Reader(n) for n in c.nodes]
        wait_for("all readers see it", lambda: all(r.seen for r in readers))
        last = int(leader.info()["last_log_index"])
        assert delete_tree(leader, "many/") == (0, "", [True])
        assert int(leader.info()["last_log_index"]) - last < 20, "one entry, and what else comes"
        for node in c.nodes:
            wait_for("%s has deleted it" % node.name, lambda: keys(node) == ["beside"])
        seen = [r.end() for r in readers]
        assert all(s <= {AT_ONCE, 0} and AT_ONCE in s for s in seen), seen
        plant_many(leader, AT_ONCE + 1)
        assert delete_parts(leader, "many/") == (0, "", [True])
        assert keys(leader) == ["beside"] and leader.info()["term"] == term


def test_server_without_the_entry():
    """While a server does not know the entry for a whole tree, it goes in parts, which that server applies."""
    with RaftCluster(3, net=NET + ".6", bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c, STATE)
        wait_for("all vote", lambda: leader.servers() == {"n1": True, "n2": True, "n3": True})
        last = plant(leader)
        assert delete_tree(leader, "tree/") == (0, "", [True])
        assert int(leader.info()["last_log_index"]) - last >= 6 and relay.stripped > 0
        c.wait_equal()
        assert keys(n3) == ["tree", "trees/a"]
        relay.upgrade()

        def at_once():
            before = plant(leader)
            assert delete_tree(leader, "tree/") == (0, "", [True])
            return int(leader.info()["last_log_index"]) == before + 1
        wait_for("it is one entry", at_once)
        relay.close()


def test_in_parts():
    with RaftCluster(3, net=NET + ".1", bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        last = plant(leader)
        assert delete_parts(leader, "tree/") == (0, "", [True])
        parts = int(leader.info()["last_log_index"]) - last
        assert 6 <= parts < KEYS // 2, parts
        for node in c.nodes:
            wait_for("%s has deleted it" % node.name, lambda: keys(node) == ["tree", "trees/a"])
        # All that there is; then nothing.
        assert delete_parts(leader, "") == (0, "", [True]) and keys(leader) == []
        assert delete_parts(leader, "tree/") == (0, "", [True])
        # A server that is late applies the same parts, however many at once.
        late = next(n for n in c.nodes if n is not leader)
        late.kill()
        plant(leader)
        assert delete_parts(leader, "tree/") == (0, "", [True])
        late.start()
        c.wait_equal()
        assert keys(late) == ["tree", "trees/a"]


def test_old_server():
    """One that would pass over parts gets the whole in one entry, as before."""
    with RaftCluster(3, net=NET + ".2", bootstrap_expect=3, **CALM) as c:
        relay, n3, leader = started_with_old(c)
        wait_for("all vote", lambda: leader.servers() == {"n1": True, "n2": True, "n3": True})
        answers = []

        def one_entry():
            """What else comes into the log, as of the catalog, comes to an end."""
            last = plant(leader)
            answers.append(delete_tree(leader, "tree/"))
            return int(leader.info()["last_log_index"]) == last + 1
        wait_for("it is deleted by one entry", one_entry)
        assert relay.stripped > 0 and all(a == (0, "", [True]) for a in answers), answers
        c.wait_equal()
        assert keys(n3) == ["tree", "trees/a"]
        relay.close()


def test_interrupted():
    """The leader dies in the middle: the asker learns that nobody knows, the rest stays, and asking again deletes it."""
    with SlowDisks(3, net=NET + ".3", bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        plant(leader)
        others = [n for n in c.nodes if n is not leader]
        said = []

        def ask():
            conn = Conn(leader.sock_path)
            try:
                said.append(conn.call(tvframe.MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "",
                                                       [KV_DELETE_TREE_PARTS, "tree/", 0, b"", 0, "", 0]], 60))
            except (tvframe.Closed, OSError) as e:
                said.append(e)
        for node in others:
            c.disks[node].sync_delay(400)          # each part waits for one of them
        asker = threading.Thread(target=ask)
        asker.start()
        wait_for("the first part is gone", lambda: "tree/00" not in keys(others[0]))
        leader.kill()
        for node in others:
            c.disks[node].clear()
        asker.join()
        assert isinstance(said[0], Exception), said
        leader = c.wait_leader()
        left = [k for k in keys(leader, 0) if k.startswith("tree/")]
        assert 0 < len(left) < KEYS and left[-1] == "tree/%02d" % (KEYS - 1), left
        assert delete_parts(leader, "tree/") == (0, "", [True])
        assert keys(leader, 0) == ["tree", "trees/a"]


def test_leader_changes():
    """The leader loses its office in the middle and lives: it says that part is gone."""
    with SlowDisks(3, net=NET + ".4", bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        plant(leader)
        others = [n for n in c.nodes if n is not leader]
        said = []
        conn = Conn(leader.sock_path)
        for node in others:
            c.disks[node].sync_delay(400)
        asker = threading.Thread(target=lambda: said.append(conn.call(
            tvframe.MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [KV_DELETE_TREE_PARTS, "tree/", 0, b"", 0, "", 0]], 60)))
        asker.start()
        wait_for("the first part is gone", lambda: "tree/00" not in keys(leader))
        for node in others:
            node.kill()
        asker.join()
        err, text = said[0][0], said[0][1]
        assert err == ERR.EUNKNOWN and text.startswith("the tree was deleted in part (") and \
            text.endswith("; delete it again"), (err, text)
        left = [k for k in keys(leader) if k.startswith("tree/")]
        assert 0 < len(left) < KEYS, left


main(test_at_once, test_server_without_the_entry, test_in_parts, test_old_server, test_interrupted, test_leader_changes)

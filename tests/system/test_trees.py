#!/usr/bin/env python3
"""Trees of keys that are too large for one entry: deleted in parts, alike on all servers, and what is left when that is
interrupted."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import tvframe  # noqa: E402
from cluster import CALM, main, skip  # noqa: E402
from oldpeer import started_with_old  # noqa: E402
from raftcluster import ERR, OP, READ_STALE, Conn, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.79"  # or where TV_NET moves it
KV_DELETE_TREE = 6
KEYS = 60                               # of 100 KB, of which one entry takes three


class SlowDisks(RaftCluster):
    """Servers whose disks can be made slow, which costs nobody its office."""

    def __init__(self, count, **options):
        if diskfault.missing():
            skip(diskfault.missing())
        super().__init__(count, slow_sync="60s", disk_stuck_timeout="60s", **options)
        self.disks = {node: diskfault.DiskFault(os.path.join(node.dir, "disk")) for node in self.nodes}
        for node in self.nodes:
            node.env = self.disks[node].env


def delete_tree(node, prefix, **kw):
    err, text, _, value = node.op(OP.KV_APPLY, [KV_DELETE_TREE, prefix, 0, b"", 0, "", 0], **kw)
    return err, text, value


def keys(node, mode=READ_STALE):
    return [k for k in node.asked(OP.KV_KEYS, ["", ""], mode)[0] if k != "wait-leader"]   # of lib/raftcluster.py


def plant(leader):
    for i in range(KEYS):
        assert leader.put("tree/%02d" % i, b"x" * 100000)[0] == 0
    for beside in ("tree", "trees/a"):
        assert leader.put(beside, b"here")[0] == 0
    return int(leader.info()["last_log_index"])


def test_in_parts():
    with RaftCluster(3, net=NET + ".1", bootstrap_expect=3, **CALM) as c:
        c.start_all()
        leader = c.wait_leader()
        last = plant(leader)
        assert delete_tree(leader, "tree/") == (0, "", [True])
        parts = int(leader.info()["last_log_index"]) - last
        assert 6 <= parts < KEYS // 2, parts
        for node in c.nodes:
            wait_for("%s has deleted it" % node.name, lambda: keys(node) == ["tree", "trees/a"])
        # All that there is; then nothing.
        assert delete_tree(leader, "") == (0, "", [True]) and keys(leader) == []
        assert delete_tree(leader, "tree/") == (0, "", [True])
        # A server that is late applies the same parts, however many at once.
        late = next(n for n in c.nodes if n is not leader)
        late.kill()
        plant(leader)
        assert delete_tree(leader, "tree/") == (0, "", [True])
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
                                                       [KV_DELETE_TREE, "tree/", 0, b"", 0, "", 0]], 60))
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
        assert delete_tree(leader, "tree/") == (0, "", [True])
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
            tvframe.MSG.OP, [OP.KV_APPLY, "", 0, 0, 0, 0, "", [KV_DELETE_TREE, "tree/", 0, b"", 0, "", 0]], 60)))
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


main(test_in_parts, test_old_server, test_interrupted, test_leader_changes)

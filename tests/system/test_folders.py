#!/usr/bin/env python3
"""Folders of the daemons: nobody shares one, and nobody loses one unnoticed (S62, S84, S208)."""
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, DAEMONS, Cluster, Writer, main  # noqa: E402
from waiting import wait_for  # noqa: E402


def in_log(node, text, daemon):
    return wait_for("%s of %s logs '%s'" % (daemon, node.name, text), lambda: text in node.log(daemon))


def lock_of(node, daemon):
    return os.path.join(node.data, daemon, "lock")


def locked(node, daemon):
    """Does somebody hold the lock of the folder?"""
    with open(lock_of(node, daemon)) as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def copy_of(c, node, name, last):
    """The same data_dir with an address and a run_dir of its own."""
    return c.add(name, last, data_dir=node.data, raftd={"bootstrap": True})


def refused(node):
    for d in DAEMONS:
        node.expect_end(d, 1)


def folder_state(node, section):
    return node.stats(section)["folders"]


def test_one_data_dir():
    """The second daemon is refused before it opens anything, and no acknowledged write is lost."""
    with Cluster("127.114.1") as c:
        first = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([first])
        for i in range(50):
            first.kv_put("k/%d" % i, "v%d" % i)
        second = copy_of(c, first, "n2", 2).start()
        # What the second one would have acknowledged; nothing answers there once it is refused.
        refused(second)
        for d in DAEMONS:
            line = second.log(d).splitlines()[-1]
            assert "%s/%s: in use by pid %d of node n1 at %s (run_dir %s)" % (
                first.data, d, first.pid(d), first.addr, first.run) in line, line
            assert "another data_dir" in line and "remove" not in line, line
            assert not os.path.exists(os.path.join(second.run, d + ".sock")), "it went as far as its socket"
        for i in range(50, 100):
            first.kv_put("k/%d" % i, "v%d" % i)
        first.kill()
        first.start()
        c.formed([first])
        for i in range(100):
            assert first.kv_get("k/%d" % i) == b"v%d" % i
        # The lock ends with the process, however that ends: then the other one may have the folder.
        first.kill()
        assert not any(locked(first, d) for d in DAEMONS)
        second.start()
        for d in DAEMONS:
            wait_for("%s has the folder" % d, lambda d=d: locked(first, d))
        first.start()
        refused(first)
        assert "in use by pid %d of node n2" % second.pid("raftd") in first.log("raftd")


def test_lock_file():
    """What stands in the place of the lock file is refused; who removes it opens no door."""
    with Cluster("127.114.2") as c:
        n = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([n])
        n.stop()
        victim = os.path.join(c.dir, "victim")
        with open(victim, "w") as f:
            f.write("keep")
        os.chmod(victim, 0o600)
        owner = os.stat(os.path.join(n.data, "raftd"))
        for make in (os.symlink, os.link):
            os.unlink(lock_of(n, "raftd"))
            os.chown(victim, owner.st_uid, owner.st_gid)
            make(victim, lock_of(n, "raftd"))
            n.start("raftd")
            n.expect_end("raftd", 1)
            assert "raftd/lock" in n.log("raftd").splitlines()[-1], n.log("raftd")[-500:]
            with open(victim) as f:
                assert f.read() == "keep"
        os.unlink(lock_of(n, "raftd"))
        n.start()
        c.formed([n])
        # Removed while it runs: made again, and still nobody else gets in.
        for d in DAEMONS:
            os.unlink(lock_of(n, d))
        wait_for("the locks are there again", lambda: all(locked(n, d) for d in DAEMONS))
        refused(copy_of(c, n, "n2", 2).start())
        n.kv_put("k", "v")
        n.stop()


def lose(how, node):
    folder = os.path.join(node.data, "raftd")
    if how == "removed":
        shutil.rmtree(node.data)
    elif how == "emptied":
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    elif how == "files":
        for name in ("log", "state"):
            shutil.rmtree(os.path.join(folder, name))
    else:
        os.rename(node.data, node.data + ".away")
        shutil.copytree(node.data + ".away", node.data)
        for path, _, files in os.walk(node.data + ".away"):
            for f in [""] + files:
                st = os.stat(os.path.join(path, f))
                os.chown(os.path.join(node.data, os.path.relpath(path, node.data + ".away"), f), st.st_uid, st.st_gid)


def leader_loses(how, net):
    with Cluster(net) as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]
        w = Writer(others, pause=0.01)
        w.start()
        wait_for("writes are acknowledged", lambda: len(w.acked) > 50)
        lose(how, leader)
        leader.expect_end("raftd", 1, timeout=30)
        log = leader.log("raftd")
        assert "removed or replaced while raftd runs" in log and "stopping" in log, log[-1000:]
        now = c.leader(others)
        count = len(w.acked)
        wait_for("writes go on", lambda: len(w.acked) > count + 50)
        w.stop()
        for n in others:
            w.check(n)
        assert now is not leader


def test_leader_loses_folder():
    leader_loses("removed", "127.114.3")


def test_leader_loses_content():
    leader_loses("emptied", "127.114.4")


def test_leader_loses_files():
    leader_loses("files", "127.114.5")


def test_leader_gets_another_folder():
    leader_loses("replaced", "127.114.6")


def set_descriptors(node, soft):
    """How many a running raftd may have, set by a child that is its user: root may not everywhere."""
    owner = os.stat(os.path.join(node.data, "raftd"))
    pid = node.pid("raftd")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(*[owner.st_gid] * 3)
                os.setresuid(*[owner.st_uid] * 3)
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard if soft is None else soft, hard))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "its limit cannot be set"


def test_nobody_can_tell():
    """A look that fails for want of descriptors is no loss: raftd says so, works on, and looks again."""
    with Cluster("127.114.9") as c:
        n = c.add("n1", 1, raftd={"bootstrap": True, **CALM}).start()
        c.formed([n])
        pid = n.pid("raftd")
        set_descriptors(n, 3)
        os.unlink(lock_of(n, "raftd"))
        in_log(n, "the lock file is gone, and cannot be made again: %s/raftd/lock: Too many open files" % n.data, "raftd")
        n.kv_put("k", "v")
        assert "checking again" in folder_state(n, "raftd")
        set_descriptors(n, None)
        in_log(n, "is there again", "raftd")
        wait_for("info takes it back", lambda: folder_state(n, "raftd") == "ok")
        assert locked(n, "raftd") and n.pid("raftd") == pid and n.kv_get("k") == b"v"
        assert "removed or replaced" not in n.log("raftd")


def test_others_say_so():
    """gossipd and rpcd work on without their folders, and info says what is not kept; raftd ends and comes back."""
    with Cluster("127.114.7") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        n = next(x for x in servers if x is not leader)
        assert [folder_state(n, d) for d in DAEMONS] == ["ok"] * 3
        for d in ("gossipd", "rpcd"):
            os.rename(os.path.join(n.data, d), os.path.join(n.data, d + ".away"))
            in_log(n, "%s/%s is gone" % (n.data, d), d)
            in_log(n, "no longer saved", d)
            wait_for("info says so", lambda d=d: "is gone" in folder_state(n, d))
        n.kv_put("k", "v")
        assert json.loads(n.get("/v1/status/leader").body)
        # Put back: all is well again, without a restart.
        for d in ("gossipd", "rpcd"):
            os.rename(os.path.join(n.data, d + ".away"), os.path.join(n.data, d))
            in_log(n, "is there again", d)
            wait_for("info takes it back", lambda d=d: folder_state(n, d) == "ok")
        # Lost for good: a restart makes them again.
        shutil.rmtree(os.path.join(n.data, "rpcd"))
        in_log(n, "%s/rpcd is gone" % n.data, "rpcd")
        n.kill("rpcd")
        n.start("rpcd").up()
        assert folder_state(n, "rpcd") == "ok"


def test_run_dir_goes():
    """What is connected stays connected; each daemon says what to do, and that does it."""
    with Cluster("127.114.8") as c:
        n = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([n])
        shutil.rmtree(n.run)
        for d in DAEMONS:
            in_log(n, "%s/%s.sock: the socket was removed or replaced while %s runs" % (n.run, d, d), d)
            assert re.search(r"Restart %s to create the folder and the socket again" % d, n.log(d))
            wait_for("info of %s says so" % d, lambda d=d: "the socket was removed" in folder_state(n, d))
        n.kv_put("k", "v")
        for d in ("gossipd", "raftd", "rpcd"):
            n.kill(d)
            n.start(d)
        n.up()
        c.leader([n])
        assert n.kv_get("k") == b"v" and n.get("/v1/agent/self", unix=True).status == 200


EMPTY = ("node_name", "datacenter", "server", "bind", "retry_join", "cluster_key", "server_key", "server_pub", "encryption")


def lost(node, *but):
    """Of its configuration only where its folders are; returns what it was."""
    before = dict(node.common)
    node.set_common(**{k: None for k in EMPTY if k not in but})
    return before


def test_lost_configuration():
    """A server, or an encrypted node, whose configuration and keys vanished does not start as less, until it is told so."""
    with Cluster("127.114.10") as c:
        n = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([n])
        client = c.client("c1", 2, n)
        wait_for("the client is in", lambda: client.members().get("n1") == 1)
        n.kv_put("k", "v")
        # While they run: a reload of what would be refused at the next start changes nothing.
        before = lost(n)
        for d in DAEMONS:
            n.signal(signal.SIGHUP, d)
        for d in DAEMONS:
            in_log(n, "this node was a server", d)
            assert "; nothing was changed" in n.log(d).splitlines()[-1], n.log(d)[-1000:]
        n.set_common(**before)
        for d in DAEMONS:
            n.signal(signal.SIGHUP, d)
            in_log(n, "configuration reloaded", d)
        n.stop()
        client.stop()
        lost(n)
        lost(client)
        for node, daemons, text in ((n, DAEMONS, "this node was a server, and %s/cluster.conf makes it a client" % n.conf),
                                    (client, ("gossipd", "rpcd"), "this node used encryption and would now send plaintext")):
            node.start(*daemons)
            for d in daemons:
                node.expect_end(d, 1)
                line = node.log(d).splitlines()[-1]
                assert text in line and "%s/%s/past" % (node.data, d) in line and "or empty " + node.data in line, line
        # The keys are back, the line is not; then the line is, and the keys are not.
        keys = {k: before[k] for k in ("cluster_key", "server_key", "server_pub", "bind")}
        for given, text in ((keys, "set server = false there"), ({"server": True}, 'set encryption = "off"')):
            n.set_common(**dict({k: None for k in EMPTY}, **given))
            n.start(*DAEMONS)
            for d in DAEMONS:
                n.expect_end(d, 1)
                assert text in n.log(d).splitlines()[-1], n.log(d)[-500:]
        # Brought back: as before.
        n.set_common(**before)
        n.start()
        c.formed([n])
        assert n.kv_get("k") == b"v"
        n.stop()
        # Told: a client in clear; that it is a client has not to be told again.
        for given in ({"server": False, "encryption": "off"}, {"encryption": "off"}):
            n.set_common(**dict({k: None for k in EMPTY}, **given))
            n.server = False
            n.start("raftd", "gossipd", "rpcd")
            n.expect_end("raftd", 0)
            assert "nothing to do" in n.log("raftd").splitlines()[-1]
            for d in ("gossipd", "rpcd"):
                in_log(n, "client; configuration in", d)
            wait_for("rpcd answers", lambda: n.stats("gossipd"))
            n.stop("gossipd", "rpcd")


main(test_one_data_dir, test_lock_file, test_leader_loses_folder, test_leader_loses_content, test_leader_loses_files,
     test_leader_gets_another_folder, test_nobody_can_tell, test_others_say_so, test_run_dir_goes,
     test_lost_configuration)

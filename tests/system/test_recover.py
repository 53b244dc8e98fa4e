#!/usr/bin/env python3
"""A cluster that lost its majority for good: raft recover on a survivor, what it refuses, and who comes back how (S68, S69)."""
import os
import re
import shutil
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import tvframe  # noqa: E402
from cluster import CALM, Cluster, main, skip  # noqa: E402
from raftcluster import JOIN, MSG, RaftCluster  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.70"  # or where TV_NET moves it
FAILED, ALIVE = 4, 1


def in_log(node, text, daemon="raftd"):
    return wait_for("%s of %s logs '%s'" % (daemon, node.name, text), lambda: text in node.log(daemon))


def peers(node, query=""):
    return {s["Node"]: s["Voter"] for s in node.get("/v1/operator/raft/configuration" + query).json()["Servers"]}


def no_leader(node):
    return wait_for("%s knows no leader" % node.name, lambda: node.stats("raft")["leader"] == "")


def lose(servers, gone):
    """These die at once; the rest has noticed."""
    for n in gone:
        n.kill()
    for n in servers:
        if n not in gone:
            no_leader(n)


def report(node):
    return node.get("/v1/operator/raft/recover").json()


def empty(node):
    """What an operator does to bring a server back as a new one."""
    if node.running("raftd"):
        node.signal(signal.SIGTERM, "raftd")
        node.wait_end("raftd")
    shutil.rmtree(os.path.join(node.data, "raftd"))


def test_refused_while_there_is_a_quorum():
    with Cluster(NET + ".1") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        for node, why in ((leader, "this server leads the cluster: nothing is lost"),
                          (follower, "the cluster has a leader, %s: nothing is lost" % leader.name)):
            r = node.ctl("raft", "recover", "--yes", check=False)
            assert r.returncode == 1 and "refused: " + why in r.stderr and "is lost" not in r.stdout, r
            assert report(node)["Refused"] == why
            answer = node.put("/v1/operator/raft/recover")
            assert answer.status == 409 and answer.text == why, answer
        # A stopped leader: the others are a majority that elects a new one.
        leader.signal(signal.SIGSTOP, "raftd")
        r = follower.ctl("raft", "recover", "--yes", check=False)
        assert r.returncode == 1 and "refused: " in r.stderr, r
        leader.signal(signal.SIGCONT, "raftd")
        c.formed(servers)
        assert all(n.stats("raft")["generation"] == "1" for n in servers)
        # A server of no cluster, and a node that is no server.
        fresh = c.add("n9", 9).start().up()
        assert "belongs to no cluster" in report(fresh)["Refused"]
        client = c.client("c1", 10, leader).up()
        assert client.get("/v1/operator/raft/recover").status == 400


def test_what_is_said_where_the_leader_survives():
    with Cluster(NET + ".6") as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        leader.kv_put("a", "1")
        lost = [n for n in servers if n is not leader]
        for n in lost:
            n.kill()
        no_leader(leader)
        wait_for("it is seen", lambda: leader.members()[lost[0].name] == 4)
        r = leader.ctl("force-leave", lost[0].name)
        assert "does not bring back a lost majority" in r.stderr, r
        r = leader.ctl("kv", "get", "a", check=False)
        assert r.returncode == 1 and "raft list-peers --stale" in r.stderr, r
        # It led itself: nobody could have written more.
        seen = report(leader)
        assert seen["LeaderContact"] > 0 and seen["LeaderLastIndex"] == seen["LastIndex"] and not seen["MayBeLost"], seen
        r = leader.ctl("raft", "recover", "--dry-run")
        assert "There was a leader until" in r.stdout and "nothing is known to be missing" in r.stdout, r.stdout
        # A process that was started since then knows nothing of that, and claims nothing.
        leader.stop("raftd")
        leader.start("raftd")
        no_leader(leader)
        r = wait_for("its state is open", lambda: leader.ctl("raft", "recover", "--dry-run"))
        assert "how much is missing is not known" in r.stdout and "known to be missing" not in r.stdout, r.stdout


def test_three_of_five_lost():
    with Cluster(NET + ".2") as c:
        servers = c.servers(5, raftd=dict(CALM, snapshot_threshold=200, snapshot_interval="200ms", trailing_logs=50))
        leader = c.formed(servers)
        client = c.client("c1", 9, servers[0])
        for i in range(300):
            leader.kv_put("d/%03d" % i, "x%d" % i)
        kept = [n for n in servers if n is not leader][:2]
        lost = [n for n in servers if n not in kept]
        # One survivor misses the last writes: it must not be the one.
        wait_for("both have all", lambda: len({n.stats("raft")["applied_index"] for n in kept + [leader]}) == 1)
        kept[1].stop("raftd")
        for i in range(300, 320):
            leader.kv_put("d/%03d" % i, "x%d" % i)
        last = int(leader.stats("raft")["last_log_index"])
        wait_for("the first has them", lambda: int(kept[0].stats("raft")["applied_index"]) >= last)
        for n in lost:
            n.kill()
        kept[1].start("raftd")
        for n in kept:
            n.up()
            no_leader(n)
        wait_for("the two have met", lambda: all(report(n)["VotersAnswering"] == 2 for n in kept))
        assert kept[0].get("/v1/kv/d/319").status == 500 and kept[0].kv_get("d/319", "?stale") == b"x319"
        # How old that may be: not 0 because no leader is known, but ever more.
        old = kept[0].get("/v1/kv/d/319?stale").headers
        assert old["X-Consul-KnownLeader"] == "false", old
        wait_for("it grows", lambda: int(kept[0].get("/v1/kv/d/319?stale").ok().headers["X-Consul-LastContact"]) >
                 int(old["X-Consul-LastContact"]) > 0)
        assert kept[0].stats("raft")["last_contact"].endswith("ms"), kept[0].stats("raft")
        assert "No cluster leader" in kept[0].ctl("raft", "list-peers", check=False).stderr
        assert len(kept[0].ctl("raft", "list-peers", "--stale").stdout.splitlines()) == 6
        # Dry runs: what is dropped, what is here, and who has more.
        r = kept[0].ctl("raft", "recover", "--dry-run")
        assert "generation 1: 2 of 5 voters answer" in r.stdout and "Dry run: nothing was done." in r.stdout, r.stdout
        assert "There was a leader until" in r.stdout and "nothing is known to be missing" in r.stdout, r.stdout
        fates = {line.split()[0]: line for line in r.stdout.splitlines() if re.match(r"n\d ", line)}
        assert "continues, alone" in fates[kept[0].name] and "dropped, answers" in fates[kept[1].name], r.stdout
        assert all(re.search(r"unknown +dropped$", fates[n.name]) for n in lost), r.stdout
        behind = kept[1].ctl("raft", "recover", "--dry-run", check=False)
        assert behind.returncode == 1, behind
        assert "%s has the longer log" % kept[0].name in behind.stderr and "recover there" in behind.stderr, behind
        r = kept[1].ctl("raft", "recover", "--yes", check=False)
        assert r.returncode == 1 and report(kept[1])["Generation"] == 1, r
        r = kept[0].ctl("raft", "recover", check=False, input="")
        assert r.returncode == 2 and "nothing was done" in r.stderr, r
        assert report(kept[0])["Generation"] == 1
        # Now.
        r = kept[0].ctl("raft", "recover", "--yes")
        assert "Done." in r.stdout, r.stdout
        new = c.leader([kept[0]])
        assert peers(new) == {new.name: True} and new.stats("raft")["generation"] == "2"
        wait_for("writes work", lambda: new.put("/v1/kv/after", "1").body == b"true")
        assert new.kv_get("d/319") == b"x319" and len(new.get("/v1/kv/d/?keys").json()) == 320
        assert wait_for("the client sees it", lambda: client.kv_get("after") == b"1")
        in_log(new, "this server alone continues as generation 2")
        in_log(new, "was dropped: it can return only as a new server")
        # The other survivor is fenced, says why, and gives stale reads only.
        in_log(kept[1], "[ERR] raft: fenced: an operator has recovered this cluster without this server")
        in_log(kept[1], "move %s/raftd away, and start it" % kept[1].data)
        in_log(new, "belongs to generation 1 of the cluster, which was recovered as generation 2")
        assert kept[1].stats("raft")["fenced_by_generation"] == "2"
        assert kept[1].kv_get("d/000", "?stale") == b"x0"
        refused = kept[1].ctl("raft", "recover", "--yes", check=False)
        assert refused.returncode == 1 and "recovered without this server" in refused.stderr, refused
        # S69: the old majority comes back, all three at once: refused, fenced, nothing merged.
        for n in lost:
            n.start()
        for n in lost:
            in_log(n, "fenced: an operator has recovered this cluster without this server")
            n.up()
            assert n.stats("raft")["state"] == "Follower" and n.stats("raft")["generation"] == "1"
        def in_pool(asked):
            return {m["Name"]: (m["Tags"].get("gen"), m["Tags"].get("fenced"))
                    for m in asked.get("/v1/agent/members").json() if m["Name"].startswith("n")}
        want = {n.name: (None, "2") for n in lost + [kept[1]]}
        want[new.name] = ("2", None)
        # The client too: it asks no fenced server then.
        wait_for("gossip shows both sides", lambda: in_pool(new) == want and in_pool(client) == want)
        for i in range(20):
            client.kv_put("later/%d" % i, "y")
            new.kv_put("later/n/%d" % i, "y")
        assert peers(new) == {new.name: True} and new.is_leader()
        for n in lost + [kept[1]]:
            assert n.stats("raft")["leader"] == "" and n.kv_get("later/0", "?stale") is None
        # A fenced server that starts again hears it again.
        kept[1].kill()
        kept[1].start()
        kept[1].up()
        wait_for("it is fenced again", lambda: kept[1].stats("raft")["fenced_by_generation"] == "2")
        # They come back as new servers, with empty raftd directories.
        for n in lost + [kept[1]]:
            empty(n)
            n.start("raftd")
        c.formed(servers, timeout=90)
        assert new.stats("raft")["generation"] == "2"
        for n in servers:
            wait_for(n.name + " has everything", lambda n=n: n.kv_get("later/19", "?stale") == b"y" and
                     n.kv_get("d/319", "?stale") == b"x319")
            assert n.stats("raft")["generation"] == "2"
        # And the cluster survives the loss of the one it grew from.
        new.kill()
        leader = c.leader([n for n in servers if n is not new])
        leader.kv_put("end", "1")
        assert leader.kv_get("d/000") == b"x0"


def settled(c, servers):
    """A cluster of which each has all that there is."""
    c.formed(servers).kv_put("d", b"1")
    for n in servers:
        wait_for("%s has it" % n.name, lambda n=n: n.kv_get("d", "?stale") == b"1")


def recover(node):
    """Alone, and at work again."""
    no_leader(node)
    wait_for("the state of %s is open" % node.name, lambda: node.stats("state")["opening"] == "done")
    node.ctl("raft", "recover", "--yes")
    wait_for("%s writes" % node.name, lambda: node.put("/v1/kv/of", node.name).body == b"true")


def fenced(node):
    return node.stats("raft")["fenced_by_generation"]


def test_fence_outlives_a_restart():
    """The old majority, fenced once, starts again without the one that told it: it elects nobody."""
    with Cluster(NET + ".3") as c:
        servers = c.servers(3)
        settled(c, servers)
        one, old = servers[0], servers[1:]
        lose(servers, old)
        recover(one)
        for n in old:
            n.start()
        for n in old:
            in_log(n, "fenced: an operator has recovered this cluster without this server")
        for n in servers:
            n.kill()
        with open(os.path.join(old[1].data, "raftd", "fenced"), "r+b") as f:
            f.write(b"\x01")                 # damaged, it still says that there was one
        for n in old:
            n.start()
        for n in old:
            n.up()
            assert fenced(n) == "2", "forgotten"
            assert len(re.findall("fenced: an operator", n.log("raftd"))) == 2, n.log("raftd")
        in_log(old[1], "raftd/fenced is damaged")
        for n in old:
            wait_for("they have met", lambda n=n: n.stats("raftd")["links"] != "0" or "refused" in n.log("raftd") or
                     len(n.get("/v1/agent/members").json()) > 1)
            assert n.stats("raft")["state"] == "Follower" and n.stats("raft")["leader"] == ""
            assert "entering Candidate" not in n.log("raftd").split("fenced: an operator")[2]
        # The fence goes with the data that it is about.
        one.start()
        empty(old[0])
        old[0].start("raftd")
        c.formed([one, old[0]], timeout=60)
        assert fenced(old[0]) == "0" and old[0].kv_get("of") == one.name.encode()


def test_two_recoveries_of_one_generation():
    """Two survivors that did not reach each other were both recovered: nothing is ever merged, and both say so."""
    with Cluster(NET + ".4") as c:
        servers = c.servers(3)
        settled(c, servers)
        a, b, gone = servers
        lose(servers, [b, gone])
        recover(a)
        a.kill()
        b.start()
        b.up()
        recover(b)
        a.start().up()
        for n in (a, b):
            in_log(n, "the cluster was recovered twice as generation 2, there and here")
            assert n.stats("raft")["generation"] == "2" and fenced(n) == "0"
        for n in (a, b):
            wait_for("%s leads its own" % n.name, lambda n=n: n.stats("raft")["state"] == "Leader")
            assert peers(n) == {n.name: True} and n.kv_get("of") == n.name.encode()
        # The operator keeps the one: the other joins it as a new server.
        empty(b)
        b.start("raftd")
        c.formed([a, b], timeout=60)
        assert b.kv_get("of") == a.name.encode()


def test_killed_in_the_middle():
    """The disk hangs in the middle of a recovery and raftd is killed there: it is of one generation or the other, never
    between, and a second recover goes on from there."""
    if diskfault.missing():
        skip(diskfault.missing())
    for number, what in enumerate(("write", "sync", None)):
        with RaftCluster(3, net=NET + ".%d" % (10 + number), bootstrap_expect=3) as c:
            survivor = c.nodes[0]
            disk = diskfault.DiskFault(os.path.join(survivor.dir, "disk"))
            survivor.env = disk.env
            c.start_all()
            leader = c.wait_leader()
            for i in range(50):
                c.put("d/%d" % i, b"x")
            leader = c.wait_leader()
            wait_for("the survivor has them", lambda: survivor.info()["applied_index"] == leader.info()["applied_index"])
            for n in c.nodes[1:]:
                n.kill()
            wait_for("no leader", lambda: survivor.info()["leader"] == "")
            asker = threading.Thread(target=ask, args=(survivor.sock_path,), daemon=True)
            if what is None:                     # after the answer, or just before it
                asker.start()
                asker.join(60)
            else:
                disk.hang(True, "log", what)
                asker.start()
                wait_for("the write hangs", lambda: disk.hanging("log"))
            survivor.kill()
            disk.clear()
            asker.join(60)
            survivor.start()
            survivor.gossip.tell(JOIN, survivor.member())
            generation, servers = survivor.info()["generation"], survivor.servers()
            assert (generation, servers) in (("1", {"n1": True, "n2": True, "n3": True}), ("2", {"n1": True})), (
                generation, servers)
            assert what is not None or generation == "2"
            print("     killed in %s: generation %s" % (what or "time", generation))
            if generation == "1":
                err, text, report = survivor.call(MSG.RAFT_RECOVER, [False])
                assert err == 0, (err, text)
                assert report[15] is True, report
            wait_for("it leads", lambda: survivor.info()["state"] == "Leader")
            assert survivor.info()["generation"] == "2" and survivor.servers() == {"n1": True}
            assert all(survivor.get("d/%d" % i) == b"x" for i in range(50))
            assert survivor.put("after", b"1")[0] == 0
            disk.close()


def ask(path):
    """`raft recover` of a server that may die meanwhile."""
    try:
        with tvframe.Conn(path, timeout=60) as conn:
            conn.call(MSG.RAFT_RECOVER, [False], 60)
    except (OSError, tvframe.Closed, TimeoutError):
        pass


main(test_refused_while_there_is_a_quorum, test_what_is_said_where_the_leader_survives, test_three_of_five_lost,
     test_fence_outlives_a_restart, test_two_recoveries_of_one_generation, test_killed_in_the_middle)

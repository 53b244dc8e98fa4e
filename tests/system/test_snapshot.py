#!/usr/bin/env python3
"""/v1/snapshot and clusterctl snapshot with real daemons: what a save holds, what a restore does to whoever is there, and
that one that is cut, garbled, refused, or whose servers are killed leaves the old state or the new one, and says which.

TV_NET moves the addresses (127.78.1 and on); TV_BUILD: the build folder.
"""
import gzip
import hashlib
import http.client
import io
import json
import os
import random
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import gosnap  # noqa: E402
from cluster import BUILD, CALM, SANITIZERS, Cluster, Writer, main  # noqa: E402
from waiting import AGAIN, wait_for  # noqa: E402

NET = "127.78"  # or where TV_NET moves it
OLD, NEW = b"old", b"new"
NOTHING = "nothing was changed"


def member(archive, name):
    with tarfile.open(fileobj=io.BytesIO(archive)) as t:
        return t.extractfile(name).read()


def save(node, query=""):
    r = node.get("/v1/snapshot" + query, timeout=120)
    assert r.status == 200, r
    return r.body


def fill(node, mb, prefix="bulk"):
    """Keys that do not pack well: the archive is about as large."""
    rng = random.Random(mb)
    for i in range(mb * 4):
        node.kv_put("%s/%05d" % (prefix, i), rng.randbytes(250000))


def all_kv(node, query=""):
    told = node.get("/v1/kv/?recurse&" + query, timeout=60).json()
    return {e["Key"]: (e["Value"], e["CreateIndex"], e["ModifyIndex"]) for e in told}


def same_everywhere(nodes):
    """Every server holds the same, its own state asked for."""
    wait_for("all servers hold the same", lambda: all(
        all_kv(n, "stale") == all_kv(nodes[0], "stale") for n in nodes[1:]), 60)


def statuses(node, name):
    """{check: status} of a node of the catalog."""
    return {h["CheckID"]: h["Status"] for h in node.get("/v1/health/node/" + name).json()}


def mark(node, value):
    node.kv_put("mark", value)


class Restore(threading.Thread):
    """A PUT in the background, and how far the servers are meanwhile."""

    def __init__(self, node, archive):
        super().__init__(daemon=True)
        self.node, self.archive, self.answer = node, archive, None
        # The newest one that is known may be another one, long done.
        self.before = wait_for("the last restore is told", lambda: node.get("/v1/snapshot/restore").ok().json())["ID"]
        self.start()

    def run(self):
        try:
            self.answer = self.node.put("/v1/snapshot", self.archive, timeout=120)
        except (OSError, http.client.HTTPException) as e:
            self.answer = e

    def phase(self, asked):
        try:
            told = asked.get("/v1/snapshot/restore", timeout=10).json()
            return told["Phase"] if told["ID"] != self.before else ""
        except AGAIN:
            return ""

    def reach(self, asked, phases):
        """Waits until it is in one of these phases, or over."""
        wait_for("a restore gets to " + phases[0], lambda: self.phase(asked) in phases or not self.is_alive(), 60, 0.005)
        return self

    def end(self):
        self.join(120)
        assert not self.is_alive(), "the restore has no end"
        return self.answer


def test_save_and_restore_anywhere():
    with Cluster(NET + ".1") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        nodes = servers + [client]
        wait_for("the client node answers", lambda: client.kv_get("x") is None)
        for i in range(200):
            leader.kv_put("k/%03d" % i, str(i).encode())
        archive = save(client)
        assert json.loads(member(archive, "meta.json"))["Datacenter"] == "dc1"
        before = all_kv(leader)
        for at, node in enumerate(nodes):
            node.kv_put("k/000", NEW)
            node.kv_put("later", NEW)
            seen = {n.name: n.get("/v1/kv/k/001").index for n in nodes}
            waits = []
            for n in nodes:
                def wait(n=n):
                    waits.append(n.get("/v1/kv/k/001?wait=600s&index=%d" % (seen[n.name] + 5), timeout=300))
                waits.append(threading.Thread(target=wait))
                waits[-1].start()
            threads = [w for w in waits if isinstance(w, threading.Thread)]
            wait_for("the queries wait", lambda: sum(
                int(n.stats("raftd")["watches"]) for n in servers) == len(threads))
            r = node.put("/v1/snapshot", archive)
            assert r.status == 200 and r.body == b"", r
            for t in threads:
                t.join()
            answers = [w for w in waits if not isinstance(w, threading.Thread)]
            assert len(answers) == len(nodes), "a blocking query did not return before its time was up"
            for n in nodes:
                assert all_kv(n) == before, "restored at %s, asked at %s" % (node.name, n.name)
                # No index goes back (S104), and what was seen before is older than the restore.
                assert n.get("/v1/kv/k/001").index > seen[n.name] + at, (n.name, seen)
                assert n.get("/v1/kv/none").index > seen[n.name]
        same_everywhere(servers)


def test_command():
    with Cluster(NET + ".2") as c:
        servers = c.servers(1)
        n = c.formed(servers)
        n.kv_put("a", OLD)
        path = os.path.join(c.dir, "backup.tgz")
        assert "Saved and verified snapshot to index" in n.ctl("snapshot", "save", path).stdout
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert not [f for f in os.listdir(c.dir) if f.startswith("backup.tgz.")], "a temporary file stayed"
        facts = json.loads(n.ctl("--json", "snapshot", "inspect", path).stdout)
        archive = open(path, "rb").read()
        assert facts["SHA256"]["state.bin"] == hashlib.sha256(member(archive, "state.bin")).hexdigest()
        assert facts["Tables"]["KVS"]["Count"] == 1 and facts["FileBytes"] == len(archive)
        text = n.ctl("snapshot", "inspect", path).stdout
        assert "KVS" in text and facts["SHA256"]["state.bin"] in text
        # A pipe can be looked through; restoring would have to read it twice.
        for verb, says in ("inspect", str(len(archive)) + " bytes"), ("restore", "a pipe cannot be read twice"):
            with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as cat:
                p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", n.addr + ":8500", "snapshot", verb,
                                    "/dev/stdin"], stdin=cat.stdout, capture_output=True, text=True, timeout=60)
            assert says in p.stdout + p.stderr and p.returncode == (verb == "restore"), p
        n.kv_put("a", NEW)
        p = n.ctl("snapshot", "restore", "--yes", path)
        assert "Restored snapshot" in p.stdout and "This replaces all keys" in p.stderr and "tokens" not in p.stderr, p
        assert n.kv_get("a") == OLD
        assert ": done" in n.ctl("snapshot", "status").stdout
        open(path + ".newer", "wb").write(newer(archive))
        for verb in "inspect", "restore":
            p = n.ctl("snapshot", verb, path + ".newer", check=False)
            assert p.returncode == 1 and "of version 77, newer than this clusterctl knows (1)" in p.stderr, p
        # What is damaged is refused before anybody is asked.
        open(path + ".broken", "wb").write(gzip.compress(flip(gzip.decompress(archive))))
        for verb in (("inspect",), ("restore", "--yes")):
            p = n.ctl("snapshot", *verb, path + ".broken", check=False)
            assert p.returncode == 1 and p.stderr.startswith("clusterctl: snapshot " + verb[0]), p
        assert "receiving" not in n.log("raftd")[n.log("raftd").rindex("is done"):]
        assert n.ctl("snapshot", "save", "/nonexistent/x", check=False).returncode == 1
        # Only a file is replaced: a pipe, a device or a folder of that name stays, a symbolic link goes on leading there.
        pipe, link = os.path.join(c.dir, "pipe"), os.path.join(c.dir, "link")
        os.mkfifo(pipe)
        os.symlink("backup.tgz", link)
        for name in (pipe, c.dir):
            assert n.ctl("snapshot", "save", name, check=False).returncode == 1
        assert stat.S_ISFIFO(os.stat(pipe).st_mode)
        n.ctl("snapshot", "save", link)
        assert os.path.islink(link) and member(open(path, "rb").read(), "state.bin")
        with open(path, "wb") as f:
            f.write(archive)
        assert n.ctl("snapshot", "frob", check=False).returncode == 2
        n.stop("rpcd")
        p = n.ctl("snapshot", "save", path, check=False)
        assert p.returncode == 69 and "Is rpcd running there?" in p.stderr
        assert open(path, "rb").read() == archive, "a failed save touched the backup before it"


def test_archive_of_another_datacenter():
    """Asked for without a terminal it needs --yes; the refusal comes before anything is sent."""
    with Cluster(NET + ".2") as c:
        here = c.add("n1", 1, raftd={"bootstrap": True}).start()
        there = c.add("m1", 11, dc="dc2", raftd={"bootstrap": True}).start()
        c.formed([here])
        c.formed([there])
        path = os.path.join(c.dir, "dc2.tgz")
        here.kv_put("a", NEW)
        there.kv_put("a", OLD)
        there.ctl("snapshot", "save", path)
        p = here.ctl("snapshot", "restore", path, check=False, input="")
        assert p.returncode == 1 and "of datacenter dc2" in p.stderr and "repeat it with --yes" in p.stderr, p
        assert "archive of another cluster, " + there.stats("raft")["cluster_id"] in p.stderr, p
        assert here.kv_get("a") == NEW and here.get("/v1/snapshot/restore").json()["Phase"] == "none"
        here.ctl("snapshot", "restore", "--yes", path)
        assert here.kv_get("a") == OLD
        p = there.ctl("snapshot", "restore", path, input="")
        assert "another" not in p.stderr, p


def test_bad_archives():
    with Cluster(NET + ".3") as c:
        servers = c.servers(3, rpcd={"limits.snapshot_bytes_max": "4M"}, raftd=dict(CALM, restore_bytes_max="2M"))
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        leader.kv_put("a", OLD)
        archive = save(leader)
        mark(leader, NEW)
        plain = gzip.decompress(archive)
        cases = {
            "no gzip": (b"this is no archive", "failed to decompress snapshot: "),
            "nothing": (b"", "failed to decompress snapshot: "),
            "cut": (archive[:len(archive) // 2], "failed to decompress snapshot: "),
            "trailing": (archive + b"x", "failed to decompress snapshot: "),
            "no tar": (gzip.compress(b"x" * 2000), "failed to read snapshot file: "),
            "bomb": (gzip.compress(bytes(200 << 20), 9), "failed to read snapshot file: "),
            "another program": (packed(b"\x81\xa9LastIndex\x05" + bytes(300)), "not of Triumvir's format"),
            "a later version": (newer(archive), "of version 77, newer than this server knows: upgrade all servers"),
            "too large": (packed(bytes(3 << 20)), "is larger than 2097152 (restore_bytes_max in raftd.conf)"),
            "a bit": (gzip.compress(flip(plain)), "failed to read snapshot file: "),
        }
        for node in (leader, follower):
            for name, (body, says) in cases.items():
                r = node.put("/v1/snapshot", body, timeout=60)
                assert r.status == 500 and says in r.text, "%s at %s: %r" % (name, node.name, r)
        r = follower.put("/v1/snapshot", bytes(5 << 20))
        assert r.status == 413 and "snapshot_bytes_max" in r.text, r
        for n in servers:
            assert n.kv_get("mark") == NEW
            wait_for("what was uploaded is gone", lambda: not [
                f for f in os.listdir(os.path.join(n.data, "raftd")) if f.startswith("snapshot-")])
        r = follower.put("/v1/snapshot", archive)
        assert r.status == 200 and follower.kv_get("mark") is None, r


def with_meta(archive, meta):
    """The same archive with another meta.json."""
    return packed(member(archive, "state.bin"), meta)


def of_old(archive):
    """As earlier versions of ours wrote it: suffrage in words, no sizes, no peers, a line's end."""
    meta = json.loads(member(archive, "meta.json"))
    del meta["Size"], meta["Peers"]
    for s in meta["Configuration"]["Servers"]:
        s["Suffrage"] = "Voter"
    return with_meta(archive, json.dumps(meta).encode() + b"\n")


def test_consul_verifies_our_archives():
    """`consul snapshot save` reads back what it got, in its own types, and so do we with what we wrote earlier."""
    with Cluster(NET + ".16") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        leader = c.formed(servers)
        wait_for("the client node answers", lambda: client.kv_get("x") is None)
        mark(leader, OLD)
        conf = leader.get("/v1/operator/raft/configuration").json()
        expected = {(s["ID"], s["Address"], 0 if s["Voter"] else 1) for s in conf["Servers"]}
        for node, query in ((leader, ""), (client, ""), (servers[2], "?stale")):
            archive = save(node, query)
            meta = gosnap.verify(archive)
            got = {(s["ID"], s["Address"], s["Suffrage"]) for s in meta["Configuration"]["Servers"]}
            assert got == expected, (got, expected)
            assert meta["Version"] == 1 and meta["ID"] and meta["Index"] > 0 and meta["Term"] >= leader.term(), meta
            assert 0 < meta["ConfigurationIndex"] <= json.loads(member(archive, "meta.json"))["RaftIndex"], meta
            assert meta["Size"] == len(member(archive, "state.bin")), meta
            assert sorted(gosnap.peers(meta["Peers"])) == sorted(a for _, a, _ in expected), meta
        # that reader is as strict as the other one, and what it refuses is still restored here
        old = of_old(archive)
        try:
            gosnap.verify(old)
            raise AssertionError("words were taken for numbers")
        except gosnap.Refused:
            pass
        sound = json.loads(member(archive, "meta.json"))
        for bad in ({"Size": "12"}, {"Index": 1.5}, {"Peers": "?"}, {"Configuration": []}, {"Version": -1.0}):
            try:
                gosnap.verify(with_meta(archive, json.dumps(dict(sound, **bad)).encode()))
                raise AssertionError("%r was taken" % bad)
            except gosnap.Refused:
                pass
        for a in (old, archive):
            mark(leader, NEW)
            r = client.put("/v1/snapshot", a)
            assert r.status == 200 and leader.kv_get("mark") == OLD, r
        path = os.path.join(c.dir, "old.tgz")
        with open(path, "wb") as f:
            f.write(old)
        assert "Datacenter" in leader.ctl("snapshot", "inspect", path).stdout


def test_refused_before_it_is_sent():
    """An archive that is too large is refused with a sentence, not with a broken connection, whatever its size."""
    with Cluster(NET + ".3") as c:
        n = c.servers(1, rpcd={"limits.snapshot_bytes_max": "1M", "limits.body_discard_max": "0"})[0]
        c.formed([n])
        fill(n, 12)
        path = os.path.join(c.dir, "large.tgz")
        n.ctl("snapshot", "save", path)
        for addr in (n.addr + ":8500", "unix:" + os.path.join(n.run, "rpcd.sock")):
            for _ in range(5):
                p = n.ctl("--addr", addr, "snapshot", "restore", "--yes", path, check=False)
                assert p.returncode == 1 and "limits.snapshot_bytes_max in rpcd.conf" in p.stderr, p
        assert n.get("/v1/snapshot/restore").json()["Phase"] == "none"


def flip(plain):
    b = bytearray(plain)
    b[plain.index(b"TVSNAP1") + 60] ^= 1
    return bytes(b)


def newer(archive):
    """The same as a later version might save it."""
    state = bytearray(member(archive, "state.bin"))
    struct.pack_into(">I", state, 8, 77)
    return packed(bytes(state[:-32]) + hashlib.blake2b(state[:-32], digest_size=32).digest())


def packed(state, meta=b"{}"):
    """A sound archive with this state.bin."""
    out, files = io.BytesIO(), {"meta.json": meta, "state.bin": state}
    sums = "".join("%s  %s\n" % (hashlib.sha256(v).hexdigest(), k) for k, v in files.items())
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as t:
        for k, v in dict(files, SHA256SUMS=sums.encode()).items():
            info = tarfile.TarInfo(k)
            info.size = len(v)
            t.addfile(info, io.BytesIO(v))
    return out.getvalue()


def test_snapshot_under_load_is_of_one_index():
    """Pairs that one writer changes one after the other are never further apart than one write (S53)."""
    with Cluster(NET + ".4") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        fill(leader, 8)
        halt, written, done = threading.Event(), [0], [0]

        def write():
            while not halt.is_set():
                written[0] += 1
                leader.kv_put("a-first", b"%09d" % written[0])
                leader.kv_put("z-last", b"%09d" % written[0])
                done[0] = written[0]
        w = threading.Thread(target=write)
        w.start()
        wait_for("first writes", lambda: done[0] > 50)
        wait_for("everywhere", lambda: all(int(n.kv_get("z-last", "?stale") or 0) >= 50 for n in servers))
        archives = [(0 if i > 2 else done[0], save(servers[i % 3], "?stale" if i > 2 else "")) for i in range(9)]
        halt.set()
        w.join()
        for acknowledged, a in archives:
            state = member(a, "state.bin")
            first, last = (int(value_of(state, key)) for key in (b"a-first", b"z-last"))
            assert first - last in (0, 1), (first, last)
            assert max(50, acknowledged) <= first <= written[0]
        # At rest every server's own state is the same to the byte.
        wait_for("all servers are at one index", lambda: len({n.stats("raft")["applied_index"] for n in servers}) == 1)
        sums = {}
        for n in servers:
            a = save(n, "?stale")
            sums.setdefault(json.loads(member(a, "meta.json"))["Index"], set()).add(
                hashlib.sha256(member(a, "state.bin")).hexdigest())
        assert all(len(s) == 1 for s in sums.values()), sums


def value_of(state, key):
    at = state.index(b"K" + key) + 1 + len(key)
    at = state.index(key, at) + len(key)
    while not state[at:at + 9].isdigit():
        at += 1
    return state[at:at + 9]


def test_into_a_fresh_cluster():
    """Another cluster's archive: same names, other identities; the log is far behind the archive's index (S50)."""
    with Cluster(NET + ".5") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        for i in range(300):
            leader.kv_put("k/%03d" % i, OLD)
        assert leader.put("/v1/catalog/register", {"Node": "by-hand", "Address": "10.0.0.1",
                          "Service": {"Service": "db", "Port": 1}}).status == 200
        sid = wait_for("a session, once the node is in the catalog", lambda: leader.put(
            "/v1/session/create", {"TTL": "30s", "LockDelay": "1ms"}).json()["ID"])
        assert leader.put("/v1/kv/locked?acquire=" + sid, OLD).body == b"true"
        archive = save(leader)
        old_ids = {n["Node"]: n["ID"] for n in leader.get("/v1/catalog/nodes").json()}
        archived = json.loads(member(archive, "meta.json"))["Index"]
    with Cluster(NET + ".6") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        leader.kv_put("own", NEW)
        assert int(leader.stats("raft")["applied_index"]) < archived
        r = servers[0].put("/v1/snapshot", archive)
        assert r.status == 200, r
        for n in servers:
            assert n.kv_get("own") is None and n.kv_get("k/299") == OLD
        # Members are there under their own identities, and healthy; nobody is kept out by the archive's.
        def own_ids():
            now = {n["Node"]: n["ID"] for n in leader.get("/v1/catalog/nodes").json()}
            healthy = {k["Node"] for k in leader.get("/v1/health/state/passing").json() if k["CheckID"] == "serfHealth"}
            return all(now.get(n.name) and now[n.name] != old_ids[n.name] and n.name in healthy for n in servers) and now
        now = wait_for("members are registered under their own ids", own_ids)
        assert "by-hand" in now, now
        # The session was of a node that is another one now: it ends, and its lock with it.
        wait_for("the lock of a node of the other cluster is released", lambda: "Session" not in
                 leader.get("/v1/kv/locked").json()[0])
        assert leader.get("/v1/kv/k/000").index > archived
        leader.kv_put("k/000", NEW)
        e = leader.get("/v1/kv/k/000").json()[0]
        assert e["ModifyIndex"] > archived, e
        cas = leader.put("/v1/kv/k/000?cas=%d" % e["ModifyIndex"], b"cas")
        assert cas.body == b"true", cas
        # It survives restarts, and members come and go.
        for n in servers:
            n.kill()
        for n in servers:
            n.start()
        leader = c.formed(servers)
        assert leader.kv_get("k/299") == OLD and leader.kv_get("k/000") == b"cas"
        assert leader.get("/v1/kv/k/299").index > archived
        same_everywhere(servers)


def test_sessions_get_their_time_again():
    with Cluster(NET + ".7") as c:
        n = c.formed(c.servers(1, raftd={"session_ttl_min": "500ms"}))
        sid = wait_for("a session, once the node is in the catalog", lambda: n.put(
            "/v1/session/create", {"TTL": "3s", "Behavior": "delete"}).json()["ID"])
        assert n.put("/v1/kv/held?acquire=" + sid, OLD).body == b"true"
        archive = save(n)
        wait_for("the session ends", lambda: n.kv_get("held") is None)
        assert n.put("/v1/snapshot", archive).status == 200
        assert n.kv_get("held") == OLD and n.get("/v1/session/info/" + sid).json(), "the session is not back"
        wait_for("the restored session ends too", lambda: n.kv_get("held") is None)


def test_nodes_of_the_archive_that_are_no_members():
    """What an archive says passes, and gossip does not know, is critical at once, not when the whole catalog is compared."""
    with Cluster(NET + ".20") as was, Cluster(NET + ".21") as c:
        old = was.formed(was.servers(1, prefix="old", raftd=CALM))
        was.client("lost", 4, old)
        wait_for("its client passes", lambda: statuses(old, "lost") == {"serfHealth": "passing"})
        old.put("/v1/catalog/register", {"Node": "outside", "Address": "10.0.0.9", "Check": {"CheckID": "up", "Name": "up", "Status": "passing"},
                                         "Service": {"Service": "db"}}).ok()
        old.put("/v1/catalog/register", {"Node": "lost", "Address": "127.0.0.4", "SkipNodeUpdate": True,
                                         "Service": {"Service": "web"}}).ok()
        archive = save(old)
        servers = c.servers(3, raftd=dict(CALM, reconcile_interval="1h"))
        leader = c.formed(servers)
        client = c.client("here", 5, leader)
        wait_for("a client that lives", lambda: statuses(leader, "here") == {"serfHealth": "passing"})
        for _ in range(2):
            assert leader.put("/v1/snapshot", archive).status == 200
            for name in "lost", old.name:
                wait_for("%s is critical" % name, lambda n=name: statuses(leader, n)["serfHealth"] == "critical")
            assert leader.get("/v1/health/service/web?passing").json() == []
            assert statuses(leader, "outside") == {"up": "passing"}, "it never was a member"
            wait_for("who lives is back", lambda: all(statuses(leader, n.name) == {"serfHealth": "passing"} for n in servers + [client]))
            output = {h["Output"] for h in leader.get("/v1/health/node/lost").json()}
            assert output == {"Not a member of the pool: restored from an archive"}, output


def exchange(node, *parts):
    """Sends the parts of one request; what comes until the other side closes."""
    got = b""
    with socket.create_connection((node.addr, 8500), timeout=60) as s:
        for part in parts:
            s.sendall(part)
        while piece := s.recv(1 << 20):
            got += piece
    return got


def in_chunks(body, rng):
    """Chunks of all sizes, with extensions and leading zeros here and there, cut into sends anywhere."""
    out, at = b"", 0
    while at < len(body):
        n = min(rng.choice((1, 7, 4096, 65537, 700000)), len(body) - at)
        out += (b"%x;e=%d\r\n" if n == 7 else b"%06x\r\n") % ((n, at) if n == 7 else (n,)) + body[at:at + n] + b"\r\n"
        at += n
    out, at = out + b"0\r\nX-Trailer: t\r\n\r\n", 0
    while at < len(out):
        n = rng.choice((1, 2, 3000, 100000))
        yield out[at:at + n]
        at += n


def test_streams_on_the_wire():
    """An archive of several pieces goes up in chunks of any size, and comes down to clients of both versions."""
    rng = random.Random(1)
    with Cluster(NET + ".22") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        fill(leader, 3)
        archive = save(leader)
        assert len(archive) > 5 << 19
        head = b"PUT /v1/snapshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        for node in (leader, follower):
            mark(leader, NEW)
            got = exchange(node, head, *in_chunks(archive, rng))
            assert got.startswith(b"HTTP/1.1 200 OK\r\n") and b"Connection: close\r\n" in got, got[:300]
            assert leader.kv_get("mark") is None
        # A body that is refused is read to its end, so that its client gets the answer.
        got = exchange(follower, head, *in_chunks(bytes(4 << 20), rng))
        assert got.startswith(b"HTTP/1.1 500 ") and b"failed to decompress snapshot: " in got, got[:300]
        for version in (b"1.0", b"1.1"):
            got = exchange(follower, b"GET /v1/snapshot HTTP/" + version + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
            fields, _, body = got.partition(b"\r\n\r\n")
            assert b"Content-Length: %d" % len(body) in fields and member(gzip.decompress(body), "state.bin"), fields
        got = exchange(follower, b"HEAD /v1/snapshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 ") and got.endswith(b"\r\n\r\n"), got[:300]
        same_everywhere(servers)
    # The piece in which the limit is crossed is still counted, so that the answer can say how large the archive is.
    with Cluster(NET + ".23") as c:
        node = c.servers(1, rpcd={"limits.snapshot_bytes_max": "1M", "limits.body_discard_max": "64k"})[0]
        c.formed([node])
        got = exchange(node, head, b"%x\r\n" % 1048577, bytes(1048577), b"\r\n0\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 413 ") and b"has 1048577 bytes" in got, got[:300]


def test_one_at_a_time_and_a_client_that_leaves():
    with Cluster(NET + ".8") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        leader.kv_put("a", OLD)
        archive = save(leader)
        mark(leader, NEW)
        # A client that sends half of it and waits holds the place; when it goes, the place is free again.
        s = http.client.HTTPConnection(follower.addr, 8500, timeout=30)
        s.putrequest("PUT", "/v1/snapshot")
        s.putheader("Content-Length", str(len(archive)))
        s.endheaders()
        s.send(archive[:100])
        wait_for("it is under way", lambda: leader.get("/v1/snapshot/restore").json()["Phase"] == "receiving")
        r = leader.put("/v1/snapshot", archive)
        assert r.status == 500 and "another restore is under way" in r.text and NOTHING in r.text, r
        s.close()
        wait_for("it was given up", lambda: leader.get("/v1/snapshot/restore").json()["Phase"] == "failed")
        assert leader.kv_get("mark") == NEW
        # The end of its connection may come with the last bytes: ^C while it sends.
        for node in (leader, follower) * 5:
            s = http.client.HTTPConnection(node.addr, 8500, timeout=30)
            s.putrequest("PUT", "/v1/snapshot")
            s.putheader("Content-Length", "100000000")
            s.endheaders()
            s.send(archive[:100])
            wait_for("it is under way", lambda: leader.get("/v1/snapshot/restore").json()["Phase"] == "receiving")
            s.send(bytes(30000))
            s.close()
            wait_for("it was given up", lambda: leader.get("/v1/snapshot/restore").json()["Phase"] == "failed")
        r = follower.put("/v1/snapshot", archive)
        assert r.status == 200 and leader.kv_get("mark") is None, r
        same_everywhere(servers)


def big_cluster(c, mb=24, **raftd):
    servers = c.servers(3, raftd=raftd)
    leader = c.formed(servers)
    fill(leader, mb)
    mark(leader, OLD)
    archive = save(leader)
    mark(leader, NEW)
    return servers, leader, archive


def outcome(nodes, answer):
    """The state is the old one or the new one, the same everywhere, and what was answered fits it."""
    value = wait_for("a server answers", lambda: nodes[0].kv_get("mark"))
    for n in nodes:
        assert wait_for("%s answers" % n.name, lambda: n.kv_get("mark")) == value
    same_everywhere(nodes)
    if hasattr(answer, "status"):
        if answer.status == 200:
            assert value == OLD, "answered 200, but the state is the one before"
        elif NOTHING in answer.text:
            assert value == NEW, "answered %r, but the state is the archive's" % answer
        else:
            assert "unknown" in answer.text or "may or may not" in answer.text, answer
    return value


def clean(nodes):
    def nothing_staged():
        return all(n.stats("state")["restore"] == "none" and "restore_staged_bytes" not in n.stats("state") for n in nodes)
    def left():
        return [(n.name, f) for n in nodes for f in os.listdir(os.path.join(n.data, "raftd"))
                if f.startswith(("snapshot-upload", "snapshot-save", "snapshot-state")) or f in ("state.new", "state.old")]
    wait_for("nothing is staged any more", nothing_staged)
    wait_for("no file of it is left", lambda: not left())


def test_leader_killed_on_the_way():
    with Cluster(NET + ".9") as c:
        servers, leader, archive = big_cluster(c)
        seen, phases = set(), ("receiving", "checking", "staging", "loading", "committing")
        # The question may come to a phase that is over by the time of the kill: then all once more.
        for at, phase in enumerate(phases * 4):
            if at >= len(phases) and NEW in seen:
                break
            leader = c.leader(servers)
            other = next(n for n in servers if n is not leader)
            mark(leader, NEW)
            r = Restore(other, archive).reach(leader, (phase, "done"))
            leader.kill("raftd")
            answer = r.end()
            c.leader([n for n in servers if n is not leader])
            leader.start("raftd")
            c.formed(servers)
            value = outcome(servers, answer)
            seen.add(value)
            clean(servers)
            print("     leader killed while %s: %s: %s" % (phase, value.decode(), str(answer)[:90]))
        assert NEW in seen, "no kill came before the commit"
        wait_for("it works again", lambda: servers[0].put("/v1/snapshot", archive, timeout=120).status == 200)
        assert outcome(servers, None) == OLD


def test_follower_killed_or_away():
    """A follower that dies while it stages or loads, and one that comes back when the log is gone (S83)."""
    with Cluster(NET + ".10") as c:
        servers, leader, archive = big_cluster(c, snapshot_threshold=64, snapshot_interval="500ms", trailing_logs=16,
                                               **CALM)
        followers = [n for n in servers if n is not leader]
        for phase in ("staging", "loading"):
            mark(leader, NEW)
            r = Restore(leader, archive).reach(leader, (phase, "committing", "done"))
            followers[0].kill("raftd")
            assert r.end().status == 200, r.answer
            followers[0].start("raftd")
            c.formed(servers)
            assert outcome(servers, r.answer) == OLD
        mark(leader, NEW)
        followers[1].stop("raftd")
        known = int(leader.stats("raft")["last_log_index"])        # by the one that is away, at most
        for i in range(300):
            leader.kv_put("more/%03d" % i, b"x")
        wait_for("the log is cut", lambda: int(leader.stats("raft")["last_snapshot_index"]) > known + 100)
        r = Restore(leader, archive).reach(leader, ("staging", "loading", "committing", "done"))
        followers[1].start("raftd")
        # While it installs or loads it waits or fails, and never answers as if there were nothing (S83).
        while r.is_alive():
            try:
                a = followers[1].get("/v1/kv/mark", timeout=10)
                assert a.status != 404 and (a.status != 200 or a.json()[0]["Key"] == "mark"), a
            except (OSError, http.client.HTTPException):
                pass
        assert r.end().status == 200, r.answer
        c.formed(servers)
        assert outcome(servers, r.answer) == OLD
        clean(servers)


def test_follower_gets_a_snapshot_over_what_it_staged():
    """A follower with all of an archive staged, whose commit it missed, is given a snapshot of what came of it (S83)."""
    with Cluster(NET + ".18") as c:
        servers, leader, archive = big_cluster(c, snapshot_threshold=64, snapshot_interval="500ms", trailing_logs=16,
                                               **CALM)
        late = [n for n in servers if n is not leader][0]
        for turn in range(2):
            mark(leader, NEW)
            r = Restore(leader, archive)
            wait_for("all of it is staged there", lambda: int(late.stats("state").get("restore_staged_bytes", 0)) >=
                     len(archive) or not r.is_alive(), 60, 0.01)
            late.stop("raftd")                          # its state is durable
            assert r.end().status == 200, r.answer
            known = int(leader.stats("raft")["last_log_index"])
            for i in range(300):
                leader.kv_put("more/%d/%03d" % (turn, i), b"x")
            wait_for("the log is cut", lambda: int(leader.stats("raft")["last_snapshot_index"]) > known + 100)
            late.start("raftd")
            c.formed(servers)
            assert outcome(servers, r.answer) == OLD
            same_everywhere(servers)
            assert late.kv_get("more/%d/299" % turn) == b"x"
        clean(servers)


def test_leadership_moves_on_the_way():
    with Cluster(NET + ".11") as c:
        servers, leader, archive = big_cluster(c, **CALM)
        r = Restore(leader, archive).reach(leader, ("staging", "loading", "committing", "done"))
        t = leader.put("/v1/operator/raft/transfer")
        answer = r.end()
        value = outcome(servers, answer)
        print("     %s, %r" % (value.decode(), str(answer)[:120]))
        assert t.status == 200, t
        clean(servers)
        r = servers[0].put("/v1/snapshot", archive, timeout=120)
        assert r.status == 200 and outcome(servers, r) == OLD, r


def test_all_killed_on_the_way():
    with Cluster(NET + ".12") as c:
        servers, leader, archive = big_cluster(c)
        for phase in ("staging", "loading", "committing"):
            leader = c.leader(servers)
            mark(leader, NEW)
            r = Restore(leader, archive).reach(leader, (phase, "done"))
            for n in servers:
                n.signal(signal.SIGKILL, "raftd")
            for n in servers:
                n.wait_end("raftd")
                n.start("raftd")
            answer = r.end()
            c.formed(servers)
            value = outcome(servers, answer)
            clean(servers)
            print("     all killed while %s: %s: %s" % (phase, value.decode(), str(answer)[:90]))


def test_restore_under_load():
    """Writes before the commit are gone, those after it stay; no write is refused for the restore's sake."""
    with Cluster(NET + ".13") as c:
        servers, leader, archive = big_cluster(c, **CALM)
        writer = Writer(servers, prefix="w", pause=0.002)
        writer.start()
        wait_for("first writes", lambda: len(writer.acked) > 50)
        r = leader.put("/v1/snapshot", archive, timeout=120)
        assert r.status == 200, r
        end = time.monotonic()
        count = len(writer.acked)
        wait_for("writes go on", lambda: len(writer.acked) > count + 100)
        writer.stop()
        assert not writer.errors and not writer.unknown, (writer.errors[:3], writer.unknown[:3])
        have = {e["Key"] for e in servers[0].get("/v1/kv/w/?recurse").json()}
        acked = sorted(writer.acked)
        first = next(i for i, k in enumerate(acked) if k in have)
        assert 50 <= first and set(acked[first:]) <= have, "a write after the commit is gone"
        assert not set(acked[:first]) & have, "a write before the commit is still there"
        gaps = [b - a for a, b in zip(writer.times, writer.times[1:])]
        print("     %d writes before the commit, %d after; longest gap %.0f ms" %
              (first, len(acked) - first, max(gaps) * 1000))
        assert outcome(servers, r) == OLD and end > 0


def test_save_under_load():
    """The longest and the 99th percentile of writes with and without saves beside them (reported; S52)."""
    with Cluster(NET + ".14") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        fill(leader, 40)
        p99, longest = {}, {}
        for what in ("alone", "with saves"):
            halt, times = threading.Event(), []

            def write():
                i = 0
                while not halt.is_set():
                    i += 1
                    start = time.monotonic()
                    leader.kv_put("w/%d" % (i % 100), b"x" * 200)
                    times.append(time.monotonic() - start)
            threads = [threading.Thread(target=write) for _ in range(4)]
            for t in threads:
                t.start()
            saves = 0
            wait_for("enough writes", lambda: len(times) > 500)
            while what == "with saves" and saves < 3:
                assert len(save(leader)) > 30 << 20
                saves += 1
            wait_for("enough writes", lambda: len(times) > 1500)
            halt.set()
            for t in threads:
                t.join()
            times.sort()
            p99[what], longest[what] = times[len(times) * 99 // 100], times[-1]
        print("     p99 %.1f ms alone, %.1f ms beside saves (factor %.1f); longest %.0f and %.0f ms" % (
            p99["alone"] * 1e3, p99["with saves"] * 1e3, p99["with saves"] / p99["alone"],
            longest["alone"] * 1e3, longest["with saves"] * 1e3))


def memory(node, daemon):
    with open("/proc/%d/status" % node.pid(daemon)) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) >> 10


def test_memory_is_bounded():
    """An archive of 100 MB passes through every daemon without being in its memory."""
    with Cluster(NET + ".15") as c:
        servers = c.servers(1)
        client = c.client("c1", 4, servers[0])
        n = c.formed(servers)
        wait_for("the client node answers", lambda: client.kv_get("x") is None)
        fill(n, 100)
        before = {(x.name, d): memory(x, d) for x in (n, client) for d in x.daemons}
        archive = save(client)
        assert len(archive) > 90 << 20
        r = client.put("/v1/snapshot", archive, timeout=300)
        assert r.status == 200, r
        after = {(x.name, d): memory(x, d) for x in (n, client) for d in x.daemons}
        print("     peak MB before and after: " + ", ".join(
            "%s %s %d %d" % (k[0], k[1], before[k], after[k]) for k in before))
        for k in before if not SANITIZERS else ():      # freed memory stays in quarantine
            assert after[k] - before[k] < 60, (k, before[k], after[k])


main(test_save_and_restore_anywhere, test_command, test_consul_verifies_our_archives, test_archive_of_another_datacenter,
     test_bad_archives, test_refused_before_it_is_sent, test_snapshot_under_load_is_of_one_index,
     test_into_a_fresh_cluster, test_sessions_get_their_time_again,
     test_nodes_of_the_archive_that_are_no_members, test_streams_on_the_wire,
     test_one_at_a_time_and_a_client_that_leaves,
     test_leader_killed_on_the_way, test_follower_killed_or_away, test_follower_gets_a_snapshot_over_what_it_staged,
     test_leadership_moves_on_the_way,
     test_all_killed_on_the_way, test_restore_under_load, test_save_under_load, test_memory_is_bounded)

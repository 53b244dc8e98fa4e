#!/usr/bin/env python3
"""Adding and removing servers, as the operator's guide tells it: same commands, same log lines."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, TOP, Cluster, main, skip  # noqa: E402
from machine import Lab  # noqa: E402
from waiting import Told, need, wait_for  # noqa: E402

CALM = {"election_timeout": "2s"}        # a busy machine moves no leader; heartbeats come as often as ever
VOTES = 120         # seconds: a server that is added votes when it was healthy for 10 s at a stretch


def in_log(node, daemon, text):
    return wait_for("%s of %s logs '%s'" % (daemon, node.name, text), lambda: text in node.log(daemon))


def peers(node):
    return Told((s["Node"], s) for s in node.get("/v1/operator/raft/configuration").json()["Servers"])


def test_add_servers_one_by_one():
    with Cluster("127.60.21") as c:
        first = c.add("n1", 1, raftd=dict(CALM, bootstrap=True)).start()
        c.formed([first])
        client = c.client("c1", 4, first)
        for i in range(500):
            first.kv_put("d/%03d" % i, "x" * 200)
        # A server without peers warns and waits.
        second = c.add("n2", 2, raftd=dict(CALM)).start()
        in_log(second, "raftd", "[WARN] raft: EnableSingleNode disabled, and no known peers. Aborting election.")
        wait_for("client is a member", lambda: first.members().get("c1") == 1)
        # Any member may be named for join, also a client.
        out = second.ctl("join", "--wait", client.addr)
        assert "Successfully joined cluster by contacting 1 nodes." in out.stdout, out
        in_log(first, "raftd", "[INFO] raft: Added peer %s:8300, starting replication" % second.addr)
        third = c.add("n3", 3, raftd=dict(CALM)).start().up()
        third.ctl("join", first.addr)
        leader = c.formed([first, second, third], VOTES)
        # info on the leader and on the new server come to match.
        wait_for("the new server has caught up", lambda: leader.stats("raft")["last_log_index"] ==
                 third.stats("raft")["last_log_index"] == third.stats("raft")["applied_index"])
        assert leader.stats("raft")["num_peers"] == "2" and leader.stats("raft")["state"] == "Leader"
        assert third.kv_get("d/499") == b"x" * 200
        assert len(third.get("/v1/kv/d/?keys&stale").json()) == 500


def test_graceful_leave_and_refusal():
    with Cluster("127.60.22") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        follower = next(n for n in servers if n is not leader)
        other = next(n for n in servers if n not in (leader, follower))
        # With one server dead, removing another would lose the quorum: refused, with the arithmetic.
        other.kill()
        wait_for("the dead one is seen", lambda: leader.members()[other.name] == 4)
        r = follower.ctl("leave", check=False)
        assert r.returncode == 1 and re.search(r"quorum", r.stderr), r
        assert follower.running("raftd") and len(peers(leader)) == 3
        other.start()
        c.formed(servers)
        # All healthy: the follower leaves, both sides log it, and its daemons stop with status 0.
        wait_for("the returned one is seen", lambda: leader.members()[other.name] == 1)
        leader = c.leader(servers)
        follower = next(n for n in servers if n is not leader)
        # The returned one is in the pool before its log is in touch with the leader, and until then it does not count.
        wait_for("it may leave", lambda: follower.ctl("leave", check=False).returncode == 0)
        assert follower.wait_end() == [0, 0, 0], follower.wait_end()
        log = follower.log("rpcd") + follower.log("raftd")
        assert "server starting leave" in log
        in_log(follower, "raftd", "[INFO] raft: Removed ourself, transitioning to follower")
        in_log(leader, "raftd", "member '%s' left, deregistering" % follower.name)
        in_log(leader, "raftd", "[INFO] raft: Removed peer %s:8300, stopping replication" % follower.addr)
        assert len(peers(leader)) == 2
        wait_for("it is deregistered", lambda: follower.name not in {
            n["Node"] for n in leader.get("/v1/catalog/nodes").json()})
        # It may come back: it is added again.
        follower.start()
        c.formed(servers, VOTES)


def test_leader_leaves():
    with Cluster("127.60.23") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        rest = [n for n in servers if n is not leader]
        rest[0].kv_put("a", "1")
        leader.ctl("leave")
        assert leader.wait_end() == [0, 0, 0]
        new = c.leader(rest)
        new.kv_put("b", "2")
        wait_for("two servers are left", lambda: len(peers(new)) == 2)
        assert rest[0].kv_get("a") == b"1" and rest[1].kv_get("b") == b"2"


def test_force_leave_stays_away():
    with Cluster("127.60.24") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        dead = next(n for n in servers if n is not leader)
        dead.kill()
        wait_for("it is seen as failed", lambda: leader.members()[dead.name] == 4)
        assert dead.name in peers(leader), "a failed server keeps its seat"
        leader.ctl("force-leave", dead.name)
        wait_for("it is seen as left", lambda: leader.members()[dead.name] == 3)
        wait_for("it lost its seat", lambda: dead.name not in peers(leader))
        in_log(leader, "raftd", "[INFO] raft: Removed peer %s:8300, stopping replication" % dead.addr)
        # Started again as it was, it stays away: what was removed stays removed.
        dead.start()
        wait_for("it is a member again", lambda: leader.members()[dead.name] == 1)
        leader.kv_put("x", "1")
        wait_for("the refusal is logged", lambda: "was removed" in leader.log("raftd"))
        assert dead.name not in peers(leader)
        r = leader.ctl("force-leave", "nobody", check=False)
        assert r.returncode == 1 and "nobody" in r.stderr, r


def test_force_leave_before_it_is_seen_as_failed():
    with Cluster("127.60.26") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        dead = next(n for n in servers if n is not leader)
        wait_for("the pool is whole", lambda: set(leader.members().values()) == {1} and len(leader.members()) == 3)
        dead.kill()
        leader.ctl("force-leave", dead.name)
        wait_for("it lost its seat", lambda: dead.name not in peers(leader))
        dead.start()
        wait_for("the refusal is logged", lambda: "was removed" in leader.log("raftd"))
        assert dead.name not in peers(leader)


def test_crash_and_return():
    with Cluster("127.60.25") as c:
        servers = c.servers(3, raftd=dict(CALM))
        leader = c.formed(servers)
        victim = next(n for n in servers if n is not leader)
        victim.kill()
        wait_for("it is seen as failed", lambda: leader.members()[victim.name] == 4)
        for i in range(200):
            leader.kv_put("away/%d" % i, "x")
        victim.start()
        c.formed(servers)
        wait_for("it has what it missed", lambda: len(victim.get("/v1/kv/away/?keys&stale").json()) == 200)
        wait_for("it is seen as alive", lambda: leader.members()[victim.name] == 1)
        victim.signal(signal.SIGTERM)
        victim.wait_end()
        assert len(peers(leader)) == 3, "SIGTERM is not leave"


def other_keys(cluster):
    """A folder of other keys than the cluster has."""
    path = os.path.join(cluster.dir, "other-keys")
    os.mkdir(path, 0o700)
    subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "keygen", path], check=True, stdout=subprocess.DEVNULL)
    return path


def test_joining_that_fails_says_why():
    """Where it was typed: another server.key, another cluster.key, a name that is taken; and nobody waits for ever."""
    with Cluster("127.60.27") as c:
        first = c.add("n1", 1, raftd=dict(CALM, bootstrap=True)).start()
        c.formed([first])
        other = other_keys(c)
        stranger = c.add("n2", 2, server_key=other + "/server.key", server_pub=other + "/server.pub").start().up()
        r = stranger.ctl("join", "--wait", "--timeout", "20s", first.addr, check=False)
        assert r.returncode == 1 and "not caught up after 20 s" in r.stderr, r
        why = [line for line in r.stderr.splitlines() if "another server.key" in line]
        assert len(why) == 2 and "n1 (%s:8300)" % first.addr in why[0], r   # once as it waits, and at the end
        assert "another server.key" in stranger.stats("raft")["why_no_leader"]
        in_log(first, "raftd", "has another server.key: it uses a key that is not in our ring")
        for n in (first, stranger):                     # twice a second, but logged once a minute
            repeated = [x for x in n.log("raftd").splitlines() if "not in our ring; closing" in x]
            assert all(x.endswith(" more times)") for x in repeated[1:]), repeated
        assert "n2" not in peers(first) and "another server.key" in first.stats("raft")["trouble"]
        stranger.stop()
        wait_for("the trouble is over", lambda: "trouble" not in first.stats("raft"))
        # Another cluster.key: the remedy is that of info keyring.
        stranger = c.add("n3", 3, server=False, cluster_key=other + "/cluster.key").start().up()
        r = stranger.ctl("join", first.addr, check=False)
        assert r.returncode == 1 and "authentication failed" in r.stderr and "clusterctl keyring export" in r.stderr, r
        # A second node of a name.
        double = c.add("double", 4, server=False, node_name="n1").start().up()
        r = double.ctl("join", first.addr, check=False)
        assert r.returncode == 1 and "has the name of this one, n1, at %s:8301" % first.addr in r.stderr, r
        assert "another node_name" in r.stderr and "Successfully" not in r.stdout, r


def test_forming_says_what_to_do():
    with Cluster("127.60.28") as c:
        one = c.add("n1", 1, raftd=dict(CALM, bootstrap_expect=3)).start().up()
        said = "forming a cluster: 1 of 3 servers are present; start the others with bootstrap_expect = 3 too"
        in_log(one, "raftd", said)
        assert said in one.stats("raft")["why_no_leader"] and "clusterctl join " + one.addr in one.stats(
            "raft")["why_no_leader"]
        none = c.add("n4", 4, raftd=dict(CALM)).start().up()
        assert "knows no other server: use clusterctl join ADDRESS" in none.stats("raft")["why_no_leader"], none.stats("raft")
        none.ctl("join", one.addr)
        said = "no other server present has bootstrap_expect = 3 and a running raftd"
        wait_for("n1 says what it lacks", lambda: said in one.stats("raft")["why_no_leader"])


def test_timeout():
    """--timeout holds for every command that waits for an answer."""
    with Cluster("127.60.29") as c:
        one = c.add("n1", 1, raftd=dict(CALM, bootstrap=True)).start()
        c.formed([one])
        one.signal(signal.SIGSTOP, "rpcd")
        for args in (["kv", "get", "a"], ["members"], ["info"], ["raft", "list-peers"], ["event", "list"],
                     ["snapshot", "save", os.path.join(c.dir, "s")], ["keyring", "list"], ["join", one.addr],
                     ["monitor"], ["event", "watch"]):
            r = one.ctl("--timeout", "300ms", *args, check=False, timeout=20)
            assert r.returncode == 69 and "no answer in time; --timeout gives more" in r.stderr, (args, r)
        for bad in ("0", "soon", "-1s"):
            r = one.ctl("members", "--timeout=" + bad, check=False)
            assert r.returncode == 2 and "is no length of time" in r.stderr, r
        one.signal(signal.SIGCONT, "rpcd")
        assert one.ctl("--timeout", "30s", "members").returncode == 0


class Player:
    """Types what a chapter of doc/operations.md says, on machines of its own: "NAME# COMMAND", and below it what comes of it."""

    def __init__(self, machines):
        self.machines, self.exports = machines, {name: "" for name in machines}

    @staticmethod
    def steps(chapter):
        """[(machine, command, lines that its output has)]"""
        with open(os.path.join(TOP, "doc", "operations.md"), encoding="utf-8") as f:
            text = f.read().split("\n## %s\n" % chapter)[1].split("\n## ")[0]
        found, here = [], None
        for line in re.findall(r"^       (.*)$", text, re.M):
            typed = re.fullmatch(r"(\w+)# (.*)", line)
            if here:
                found[-1][1] += "\n" + line
                here = line != "END"
            elif typed:
                found.append([typed.group(1), typed.group(2), []])
                here = "<<END" in line
            else:
                found[-1][2].append(line)
        return found

    def copy(self, source, command):
        """scp -p, for machines without sshd."""
        cd, files, to, folder = re.fullmatch(r"(cd \S+ && )scp -p (.+) root@([\d.]+):(\S+)", command).groups()
        target = next(m for m in self.machines.values() if to in m.addresses)
        for name in files.split():
            path = folder + name if folder.endswith("/") else folder
            mode, text = (source.ok("sh", "-c", cd + c + " " + name) for c in ("stat -c %a", "cat"))
            target.write(path, text)
            target.ok("chmod", mode.strip(), path)

    def typed(self, name, command, expected):
        """Types it; again, as anybody would, while the cluster is not ready for it."""
        r = self.machines[name].run("sh", "-c", self.exports[name] + command)
        need(r.returncode == 0, (name, command, r.stdout, r.stderr))
        lines = r.stdout.split("\n")
        need(all(any(e in line for line in lines) for e in expected), (name, command, expected, r.stdout, r.stderr))
        return True

    def play(self, chapter):
        for who, command, expected in self.steps(chapter):
            for name in self.machines if who == "all" else [who]:
                if " scp " in command:
                    self.copy(self.machines[name], command)
                elif command.startswith("export "):
                    self.exports[name] += command + "; "
                else:
                    wait_for("%s# %s" % (name, command), lambda n=name: self.typed(n, command, expected))


ASK_DNS = """
import socket, struct
name = b"".join(bytes([len(x)]) + x for x in b"web.service.consul".split(b"."))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + name + b"\\0" + struct.pack(">2H", 1, 1), ("127.0.0.1", 8600))
print(socket.inet_ntoa(s.recv(512)[-4:]))
"""


def test_first_cluster_with_access_control():
    """The chapter, as it is typed, on four machines with what `make install` installs."""
    why = Lab.impossible()
    if why:
        skip("no systemd can be run here: " + why)
    with Lab() as lab:
        machines = {}
        for name, address in ("alpha", "10.0.0.11"), ("beta", "10.0.0.12"), ("gamma", "10.0.0.13"), ("web1", "10.0.0.21"):
            machines[name] = m = lab.machine(address)
            m.ok("hostname", name)
            m.ok("mkdir", "-p", "/root")
        operators = Player(machines)
        operators.play("A first cluster, with access control")
        for m in machines.values():
            assert m.ok("python3", "-c", ASK_DNS).strip() == "10.0.0.21", m.name
            assert m.run("sh", "-c", "ls /root/*.token").stdout.split() == {
                "alpha": ["/root/%s.token" % n for n in ("beta", "gamma", "web", "web1")],
                "web1": ["/root/web.token"]}.get(m.ok("hostname").strip(), []), m.name
        operators.play("HTTPS")
        # What the agents were given holds over a restart.
        web1 = machines["web1"]
        web1.ok("systemctl", "restart", "rpcd")
        wait_for("DNS again", lambda: need(web1.run("python3", "-c", ASK_DNS).stdout.strip() == "10.0.0.21", "no answer") or True)


main(test_first_cluster_with_access_control, test_joining_that_fails_says_why, test_forming_says_what_to_do, test_timeout, test_add_servers_one_by_one, test_graceful_leave_and_refusal, test_leader_leaves, test_force_leave_stays_away,
     test_force_leave_before_it_is_seen_as_failed, test_crash_and_return)

#!/usr/bin/env python3
"""clusterctl status: what is broken, one thing after the other, is a line with its remedy and exit status 1."""
import base64
import grp
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, CALM, Cluster, main  # noqa: E402
from waiting import Timeout, wait_for  # noqa: E402

ALL = ["node", "leader", "quorum", "servers", "disks", "members", "identity", "versions", "keyring"]


def status(node):
    """{check: [(status, text, remedy)]}: what the table says, which is what the JSON says; the exit status agrees."""
    p = node.ctl("--json", "status", check=False)
    told = json.loads(p.stdout)
    assert p.returncode == (0 if told["Well"] else 1), p
    assert told["Well"] == all(c["Status"] == "well" for c in told["Checks"]), told
    checks = {}
    for c in told["Checks"]:
        assert c["Status"] in ("well", "not well", "unknown") and (c["Status"] == "well") == (c["Remedy"] is None), c
        checks.setdefault(c["Check"], []).append((c["Status"], c["Text"], c["Remedy"]))
    return checks


def wait_line(node, check, state, text, remedy=""):
    """Waits for such a line, then that a person gets it too, on one line; returns all."""
    def found():
        checks = status(node)
        return checks if any(s == state and text in t and remedy in (r or "") for s, t, r in checks.get(check, [])) else None
    try:
        checks = wait_for("%s is %s: %s" % (check, state, text), found)
    except Timeout:
        print(status(node), flush=True)
        raise
    p = node.ctl("status", check=False)
    lines = [line for line in p.stdout.splitlines() if line.startswith("%-9s %-9s " % (check, state)) and remedy in line]
    assert lines and p.returncode == (0 if p.stdout.endswith("\nAll is well.\n") else 1), p
    return checks


def wait_well(node):
    def well():
        checks = status(node)
        return checks if all(s == "well" for lines in checks.values() for s, _, _ in lines) else None
    checks = wait_for("all is well", well)
    assert list(checks) == ALL, checks


def only(checks, *names):
    """Nothing else is not well."""
    wrong = [n for n, lines in checks.items() if any(s != "well" for s, _, _ in lines)]
    assert set(wrong) <= set(names), checks


def test_members_and_keys():
    """A member that fails, a rotation half done, a stage of encryption half done; from a server and from a client."""
    with Cluster("127.60.61") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        client, other = c.client("c1", 11, leader), c.client("c2", 12, leader)
        for node in servers + [client]:
            wait_well(node)
        p = client.ctl("status")
        assert [line.split()[0] for line in p.stdout.splitlines()] == ALL + ["All"] and p.stderr == "", p
        assert client.ctl("status", "extra", check=False).returncode == 2
        # A key rotation that ended after its first step.
        key = base64.b64encode(bytes(range(32))).decode()
        leader.ctl("keyring", "install", "-", input=key + "\n")
        checks = wait_line(client, "keyring", "not well", "LAN (dc1): 5 members, keys ", "clusterctl keyring rotate --key ID")
        only(checks, "keyring")
        assert key not in str(checks), checks
        ids = [i for i, n in json.loads(leader.ctl("--json", "keyring", "list").stdout)[0]["PrimaryKeys"].items() if n]
        leader.ctl("keyring", "rotate", "--key", ids[0])           # back to the old one
        wait_well(client)
        # One that is over, but for the key that nobody uses any more, as when a lost node has brought it back: what is advised helps.
        leader.ctl("keyring", "install", "-", input=key + "\n")
        unused = [i for i, n in json.loads(leader.ctl("--json", "keyring", "list").stdout)[0]["Keys"].items() if i != ids[0]][0]
        wait_line(client, "keyring", "not well", "LAN (dc1): 5 members, keys ", "If the rotation is over: clusterctl keyring remove " + unused)
        leader.ctl("keyring", "remove", unused)
        wait_well(client)
        # A node on the way to encryption.
        other.stop()
        other.set_common(encryption="send", allow_plaintext=True)
        other.start()
        only(wait_line(leader, "keyring", "not well", '1 at "send", 4 at "required"', "clusterctl keyring encrypt"), "keyring",
             "members")
        # A member that fails, and is forgotten.
        other.kill()
        only(wait_line(leader, "members", "not well", "c2: failed", "clusterctl force-leave c2"), "members", "keyring")
        leader.ctl("force-leave", "--prune", "c2")
        wait_well(leader)


def test_servers():
    """A server that stops, one without rpcd, one with a full disk; no majority; no raftd, no gossipd, no rpcd."""
    with Cluster("127.60.62") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        a, b = [n for n in servers if n is not leader]
        client = c.client("c1", 11, leader)
        wait_well(client)
        a.signal(signal.SIGSTOP, "raftd")
        checks = wait_line(client, "servers", "not well", a.name + ": last contact ", "clusterctl raft autopilot health")
        only(checks, "servers")
        assert "2 of 3 voters healthy, 0 more may fail" in checks["quorum"][0][1], checks
        a.signal(signal.SIGCONT, "raftd")
        wait_well(client)
        a.stop("rpcd")
        wait_line(b, "servers", "not well", a.name + ": its rpcd does not run", "systemctl restart rpcd")
        a.start("rpcd")
        wait_well(b)
        if shutil.disk_usage(a.data).free < 2**40:
            a.stop("raftd")
            a.write("raftd.conf", dict(CALM, disk_reserve="1T"))
            a.start("raftd")
            wait_line(leader, "disks", "not well", a.name + ": its disk is full", "raftd.conf(5)")
            wait_line(a, "disks", "not well", a.name + ": its disk is full", "raftd.conf(5)")
            a.stop("raftd")
            a.write("raftd.conf", CALM)
            a.start("raftd")
        wait_well(client)
        # A server that fails, then a second one: what is left knows no leader, and says whom it waits for.
        a.kill()
        only(wait_line(client, "servers", "not well", a.name + ": gossip reports it failed", "force-leave " + a.name),
             "servers", "keyring")
        leader.kill()
        checks = wait_line(b, "leader", "not well", "none: 1 of 3 voters are present, and 2 are needed", "raft recover --dry-run")
        assert ("not well", "1 of 3 voters healthy, 2 needed") == checks["quorum"][0][:2], checks
        assert "force-leave" not in str(checks) and "malformed" not in str(checks), "what cannot work without a leader: %s" % checks
        wait_line(client, "leader", "not well", "none: 1 of 3 voters", "raft recover --dry-run")
        # No server that could be asked: each part that is not known says so.
        b.kill("raftd")
        checks = wait_line(b, "node", "not well", "raftd does not run here", "systemctl restart raftd")
        assert all(checks[n][0][0] == "unknown" for n in ("leader", "quorum", "servers", "disks", "keyring")), checks
        assert checks["versions"][0][0] == "well", checks
        b.kill("gossipd")
        wait_line(b, "node", "not well", "gossipd does not run here", "systemctl restart gossipd")
        b.kill("rpcd")
        p = b.ctl("status", check=False)
        assert p.returncode == 1 and p.stdout.startswith("node      unknown   no answer from ") and p.stdout.endswith(
            "systemctl status rpcd\nNot all is well.\n") and p.stdout.count("\n") == 2, p


def test_who_asks():
    """Operators over the socket see all; over TCP, where nobody administers, the keys are not known."""
    with Cluster("127.60.63") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd={"http_admin": False}).start()
        c.formed([node])
        checks = wait_line(node, "keyring", "unknown", "is administrative", "clusterctl keyring list")
        only(checks, "keyring")
        assert "1 of 1 voters healthy, 0 more may fail" in checks["quorum"][0][1], checks
        sock = ["--addr", "unix:" + os.path.join(node.run, "rpcd.sock"), "status"]
        tool = [os.path.join(BUILD, "ctl", "clusterctl")] + sock
        p = subprocess.run(tool, capture_output=True, text=True, timeout=60)
        assert p.returncode == 0 and p.stdout.endswith("All is well.\n"), p
        if os.geteuid() == 0:
            copy = os.path.join(c.dir, "clusterctl")        # the build tree may be closed to others
            shutil.copy(tool[0], copy)
            for groups, want in (([grp.getgrnam("triumvir").gr_gid], 0), ([], 1)):
                p = subprocess.run([copy] + sock, user="nobody", group=pwd.getpwnam("nobody").pw_gid, extra_groups=groups,
                                   capture_output=True, text=True, timeout=60, cwd="/")
                assert p.returncode == want and ("Permission denied" in p.stdout) == (want == 1), (groups, p)


def random_key(cluster, name):
    path = os.path.join(cluster.dir, name)
    with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        f.write(base64.b64encode(os.urandom(32)).decode() + "\n")
    return path


def dropped_by_key(node):
    return sum(int(node.stats("gossipd")[k]) for k in ("packets_dropped_key", "streams_dropped_key"))


def stays_well(node, stranger_does, lines=1):
    """What strangers send is counted, said in one line a minute, and no matter of this node's."""
    before, old = dropped_by_key(node), node.log("gossipd").count("has another key")
    stranger_does()
    wait_for("it is counted", lambda: dropped_by_key(node) > before + 5)
    checks = status(node)
    assert all(s == "well" for ls in checks.values() for s, _, _ in ls), checks
    assert node.stats("keyring")["state"] == "ok", node.stats("keyring")
    said = [line for line in node.log("gossipd").splitlines() if "has another key" in line]
    assert len(said) - old <= lines, said
    assert "keyring export" not in node.log("gossipd") and "dropped: authentication" not in node.log("gossipd")
    return said


def test_strangers():
    """Another key that tries to join, or random bytes from anywhere: healthy nodes stay well; the one that is wrong says so."""
    with Cluster("127.60.64") as c:
        servers = c.servers(3, raftd=CALM)
        leader = c.formed(servers)
        for n in servers:
            wait_well(n)
        stranger = c.client("x1", 22, leader, cluster_key=random_key(c, "other.key"))
        said = stays_well(leader, lambda: None)
        assert len(said) == 1 and "messages dropped since" in said[0], said

        def random_bytes(node):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind(("127.60.64.99", 0))
                for _ in range(200):
                    s.sendto(os.urandom(120), (node.addr, 8301))
        stays_well(leader, lambda: random_bytes(leader), lines=0)       # within the same minute
        other = next(n for n in servers if n is not leader)
        said = stays_well(other, lambda: random_bytes(other))
        assert "127.60.64.99 has another key" in said[0], said
        # The stranger itself is alone: its status says so, and what to do.
        checks = wait_line(stranger, "keyring", "not well", "messages of no member can be decrypted", "clusterctl info keyring")
        text = checks["keyring"][0][1]
        assert leader.addr + ":8301" in text and "clusterctl keyring export" in text and "other.key" in text, text
        assert stranger.log("gossipd").count("messages of no member can be decrypted") == 1
        # A lone server is well, too: whoever comes has to have its key.
        stranger.stop()
        for n in servers:
            if n is not leader:
                n.stop()
    with Cluster("127.60.65") as c:
        alone = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([alone])
        wait_well(alone)
        c.client("x1", 22, alone, cluster_key=random_key(c, "other.key"))
        stays_well(alone, lambda: None)


def test_services():
    """What checks say, and why: `health`; those of this node are a line of its status while they are not passing."""
    with Cluster("127.60.66") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        wait_well(node)
        node.put("/v1/agent/service/register", {"Name": "web", "Checks": [
            {"CheckID": "alive", "TTL": "1h"}, {"CheckID": "ready", "TTL": "1h", "Status": "passing"}]}).ok()
        node.put("/v1/agent/service/register", {"Name": "db", "ID": "db1"}).ok()
        node.put("/v1/agent/check/update/alive", {"Status": "critical", "Output": "no route\nto host"}).ok()
        node.put("/v1/agent/service/maintenance/db1?enable=true&reason=new%20disk").ok()
        checks = wait_line(node, "services", "not well", "web: alive is critical", "clusterctl health --node n1")
        only(checks, "services")
        assert "db1: _service_maintenance:db1 is critical" in checks["services"][0][1], checks

        def told():
            lines = node.ctl("health", "--node", "n1").stdout.splitlines()
            return lines if any("no route ..." in line for line in lines) and any("new disk" in line for line in lines) else None
        lines = wait_for("the outputs are there", told)
        assert lines[0].split() == ["Status", "Node", "Service", "Check", "Output"] and lines[-1] == "2 critical, 0 warning, 2 passing", lines
        assert [line.split()[0] for line in lines[1:-1]] == ["critical", "critical", "passing", "passing"], lines
        for args, want in ((("web",), {"alive", "ready", "serfHealth"}), (("--node", "n1", "WEB"), {"alive", "ready", "serfHealth"}),
                           ((), {"alive", "ready", "serfHealth", "_service_maintenance:db1"})):
            got = json.loads(node.ctl("--json", "health", *args).stdout)
            assert {k["CheckID"] for k in got} == want and len(got) == len(want), (args, got)
        assert [k["Output"] for k in got if k["CheckID"] == "alive"] == ["no route\nto host"]
        for args in (("nothing",), ("--node", "nowhere")):
            p = node.ctl("health", *args, check=False)
            assert p.returncode == 1 and p.stdout == "" and "of that name" in p.stderr, p
        node.put("/v1/agent/service/maintenance/db1?enable=false").ok()
        node.put("/v1/agent/check/pass/alive").ok()
        wait_well(node)


main(test_members_and_keys, test_servers, test_strangers, test_who_asks, test_services)

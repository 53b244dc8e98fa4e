#!/usr/bin/env python3
"""What clusterctl status says in each state of a cluster, to whom, within three seconds; and that what it advises works.

The table of a state has a row for each who asks: root on the socket, a management token over TCP, nobody over TCP.  A row names
every check that is not well, with a part of what is said of it and of the remedy; all others are well."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import bootstrapped  # noqa: E402
from clockfault import ClockFault, missing  # noqa: E402
from cluster import BUILD, CALM, SANITIZERS, Cluster, main, rpcd_conf, skip  # noqa: E402
from dnsask import dns_pid  # noqa: E402
from smalldisk import SmallDisk  # noqa: E402
from smalldisk import missing as no_disks  # noqa: E402
from waiting import Timeout, wait_for  # noqa: E402

LIMIT = 3.0 if not SANITIZERS else 10.0         # seconds for status
SLACK = 1.0                                     # for the start of the program beside other tests
ACL = {"acl.enabled": True, "acl.default_policy": "deny"}
ROOT, TOKEN, NOBODY = "root", "token", "nobody"
SEE = ("unknown", "", "See ")
ANY = ("not well", "", "")
HIDDEN = {"node": ("unknown", "refuses: Permission denied", "--token-file")}


def run(node, who, *args, secret=None):
    """clusterctl as one of these; the CompletedProcess."""
    addr = "unix:" + os.path.join(node.run, "rpcd.sock") if who == ROOT else node.addr + ":8500"
    env = {k: v for k, v in os.environ.items() if k != "CONSUL_HTTP_TOKEN"}
    if who == TOKEN:
        env["CONSUL_HTTP_TOKEN"] = secret
    return subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", addr] + list(args), capture_output=True,
                          text=True, timeout=60, env=env)


def ask(node, who, secret):
    """(what is not well: {check: [(status, text, remedy)]}, seconds)"""
    began = time.monotonic()
    p = run(node, who, "--json", "status", secret=secret)
    took = time.monotonic() - began
    told = json.loads(p.stdout)
    assert p.returncode == (0 if told["Well"] else 1) and p.stderr == "", p
    wrong = {}
    for c in told["Checks"]:
        if c["Status"] != "well":
            assert c["Remedy"] and c["Text"], c
            wrong.setdefault(c["Check"], []).append((c["Status"], c["Text"], c["Remedy"]))
    assert told["Well"] == (not wrong), told
    return wrong, took


def fits(wrong, row):
    """Is each check of the row told so, and no other one?  One with a question mark may be well, too."""
    return set(wrong) <= {c.rstrip("?") for c in row} and all(
        any(s == state and text in t and remedy in r for s, t, r in wrong.get(check.rstrip("?"), []))
        for check, (state, text, remedy) in row.items() if not check.endswith("?") or check[:-1] in wrong)


def holds(node, table, secret="5f8d1a52-0c3b-4f0e-9b8e-000000000000"):
    """Waits until each of the table's rows is told, in time whatever it is that is told."""
    for who, row in table.items():
        last, slow = [], []

        def told():
            wrong, took = ask(node, who, secret)
            last[:] = [wrong]
            if took > LIMIT + SLACK:
                slow.append(took)
            return fits(wrong, row)
        try:
            wait_for("%s is told so of %s" % (who, node.name), told)
        except Timeout:
            print("%s of %s:\n%s" % (who, node.name, json.dumps(last, indent=1)), flush=True)
            raise
        assert not slow, (who, node.name, slow)


def well(node, secret):
    holds(node, {TOKEN: {}}, secret)


def agents(secret):
    """rpcd.conf with the agent's token."""
    return {"acl.tokens.agent": secret}


def tokens(node, secret, **more):
    """rpcd.conf with the agent's token, which a reload may read and others may not."""
    path = os.path.join(node.conf, "rpcd.conf")
    node.write("rpcd.conf", rpcd_conf(node.addr, **dict(agents(secret), **more)))
    if os.geteuid() == 0:
        shutil.chown(path, group="_rpcd")
    os.chmod(path, 0o640)


def give(nodes, secret, **more):
    """Agents' tokens, live."""
    for n in nodes:
        tokens(n, secret, **more)
        p = run(n, ROOT, "reload")
        assert p.returncode == 0, p


def formed(c, count=3):
    """Servers with access control and their tokens; (servers, the first token)."""
    servers = c.servers(count, raftd=CALM, **ACL)
    secret = bootstrapped(servers[0])
    give(servers, secret)
    for n in servers:
        well(n, secret)
    return servers, secret


NO_RIGHT = ("unknown", "Permission denied: Missing operator:read", "--token-file")
ROOT_SEES = {"quorum": NO_RIGHT, "servers": NO_RIGHT, "disks": NO_RIGHT, "keyring": NO_RIGHT}     # of what servers know
UNJUDGED = {"node": ("unknown", "no server says what this token may do", "root on rpcd.sock")}
NOT_TOLD = {"quorum": SEE, "servers": SEE, "disks": SEE, "keyring": SEE}


def test_forming():
    """One of three servers; then the others start, as it says."""
    with Cluster("127.160.1") as c:
        n1, n2, n3 = [c.add("n%d" % i, i, raftd=dict(CALM, bootstrap_expect=3), retry_join=["127.160.1.1"], **ACL) for i in (1, 2, 3)]
        n1.start()
        row = {"leader": ("not well", "1 of 3 servers are present", "It resumes by itself when they are there"), "quorum": SEE,
               "servers": SEE, "disks": SEE, "keyring": ("unknown", "Permission denied", "keyring list")}
        holds(n1, {ROOT: row, TOKEN: UNJUDGED, NOBODY: UNJUDGED})
        n2.start()
        n3.start()
        secret = bootstrapped(n1)
        give([n1, n2, n3], secret)
        well(n1, secret)


def test_before_bootstrap():
    """Access control holds, and there is no token yet: it names the command that makes the first one, and that works."""
    with Cluster("127.160.8") as c:
        n1 = c.servers(1, raftd=CALM, **ACL)[0]
        holds(n1, {ROOT: {k: ("unknown", "Permission denied", "clusterctl acl bootstrap") for k in ROOT_SEES},
                   NOBODY: {"node": ("unknown", "refuses: Permission denied", "clusterctl acl bootstrap")}})
        secret = json.loads(run(n1, ROOT, "--json", "acl", "bootstrap").stdout)["SecretID"]
        give([n1], secret)
        well(n1, secret)


def test_never_joined():
    """A server alone, that is to form nothing: it may join, and nothing is to be restored."""
    with Cluster("127.160.9") as c:
        first = c.servers(1, raftd=CALM)[0]
        alone = c.add("x1", 9).start()
        row = {"leader": ("not well", "is not in a cluster and knows no other server: use clusterctl join", "has never been in a cluster"),
               "quorum": SEE, "servers": SEE, "disks": SEE}
        holds(alone, {who: row for who in (ROOT, TOKEN, NOBODY)})
        p = run(alone, ROOT, "join", "--wait", first.addr)
        assert p.returncode == 0, p
        holds(alone, {ROOT: {}, NOBODY: {}})


def test_no_quorum():
    with Cluster("127.160.2") as c:
        servers, secret = formed(c)
        left = servers[0]
        for n in servers[1:]:
            n.kill()
        none = ("not well", "none: 1 of 3 voters are present, and 2 are needed", "Start the others")
        failed = ("not well", "n2: ", "")
        holds(left, {ROOT: dict(ROOT_SEES, leader=none, **{"members?": ("not well", ": failed", "Start it")}),
                     TOKEN: {"leader": none, "quorum": ("not well", "1 of 3 voters healthy, 2 needed", "Start the others"),
                             "servers": failed, "disks": ("unknown", "without a leader", "See leader"), "keyring": ("unknown", "", "")},
                     NOBODY: HIDDEN}, secret)
        for n in servers[1:]:
            n.start()
        well(left, secret)


def test_nobody_judges():
    """A client that has started anew while its servers are away."""
    with Cluster("127.160.3") as c:
        servers, secret = formed(c, 1)
        client = c.client("c1", 11, servers[0], rpcd=agents(secret), **ACL)
        well(client, secret)
        client.stop()
        servers[0].kill()
        client.start()
        row = dict(NOT_TOLD, leader=("unknown", "no answer in time", ""), members=("not well", "n1: failed", "Start it"),
                   **{"acl?": ("unknown", "no server says what tokens may do", "members")})
        holds(client, {ROOT: row, TOKEN: UNJUDGED, NOBODY: UNJUDGED}, secret)
        servers[0].start()
        well(client, secret)


def test_secondary_without_tokens():
    """Nothing is copied from the primary datacenter: said by its servers, their clients, and in the log; the token helps."""
    acl = dict(ACL, **{"acl.primary_datacenter": "dc1"})
    with Cluster("127.160.10") as c:
        first = c.servers(1, raftd=CALM, **acl)[0]
        secret = bootstrapped(first)
        m1 = c.servers(1, dc="dc2", first=11, prefix="m", raftd=CALM, retry_join_wan=[first.addr], **acl)[0]
        c1 = c.client("c1", 21, m1, dc="dc2", **acl)
        unset = ("not well", "tokens and rules of the primary datacenter are not copied: acl.tokens.replication is not set", "rpcd.conf(5)")
        empty = ("not well", "of the primary datacenter, dc1, has been copied", "acl.tokens.replication in rpcd.conf(5)")
        for n, acl_row in ((m1, unset), (c1, empty)):
            leader = {"leader": ("unknown", "", "See acl")} if n is c1 else {}
            holds(n, {ROOT: dict(leader, acl=acl_row, **{k: ("unknown", "Permission denied", "See acl") for k in ROOT_SEES}),
                      TOKEN: {"node": ("unknown", "refuses: ACL not found", "token"), "acl": empty},
                      NOBODY: dict(HIDDEN, acl=empty)}, secret)
        # Who shows a token that is not known has as root no less than without it.
        p = subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", "unix:" + os.path.join(m1.run, "rpcd.sock"), "status"],
                           capture_output=True, text=True, timeout=60, env=dict(os.environ, CONSUL_HTTP_TOKEN=secret))
        assert "acl       not well  the token of CONSUL_HTTP_TOKEN: ACL not found" in p.stdout and "m1, server in dc2" in p.stdout, p
        p = run(m1, ROOT, "acl", "replication")
        assert "Last success:        never" in p.stdout and "Last error:          never" in p.stdout, p
        wait_for("it is logged", lambda: "acl.tokens.replication is not set in rpcd.conf" in m1.log("rpcd"))
        assert m1.log("rpcd").count("acl.tokens.replication is not set") == 1
        give([m1], secret, **{"acl.tokens.replication": secret})
        give([c1], secret)
        give([first], secret)
        for n in (m1, c1):
            well(n, secret)


def test_failed():
    with Cluster("127.160.4") as c:
        servers, secret = formed(c, 1)
        client = c.client("c1", 11, servers[0], rpcd=agents(secret), **ACL)
        well(client, secret)
        client.kill()
        failed = ("not well", "c1: failed", "clusterctl force-leave c1")
        holds(servers[0], {ROOT: dict(ROOT_SEES, members=failed), NOBODY: HIDDEN}, secret)
        p = run(servers[0], TOKEN, "force-leave", "--prune", "c1", secret=secret)
        assert p.returncode == 0, p
        well(servers[0], secret)


def test_stranger():
    """Another cluster.key: the cluster stays well, the stranger is told."""
    with Cluster("127.160.11") as c, Cluster("127.160.11") as other:
        servers, secret = formed(c, 1)
        x = other.add("x1", 9, server=False, retry_join=[servers[0].addr], **ACL).start()
        key = ("not well", "messages of no member can be decrypted", "clusterctl info keyring")
        acl = {"acl?": ("unknown", "no server says what tokens may do", "members")}
        holds(x, {ROOT: dict(NOT_TOLD, leader=("unknown", "", ""), keyring=key, **acl), TOKEN: UNJUDGED, NOBODY: UNJUDGED})
        holds(servers[0], {ROOT: ROOT_SEES, TOKEN: {}, NOBODY: HIDDEN}, secret)
        x.stop()
        shutil.copy(os.path.join(c.keys, "cluster.key"), os.path.join(other.keys, "cluster.key"))
        x.set_common(server_pub=os.path.join(c.keys, "server.pub"))
        shutil.rmtree(x.data)
        os.mkdir(x.data)
        tokens(x, secret)
        x.start()
        well(x, secret)


def test_maintenance():
    with Cluster("127.160.5") as c:
        servers, secret = formed(c, 1)
        p = run(servers[0], TOKEN, "maint", "enable", "--reason", "disk", secret=secret)
        assert p.returncode == 0, p
        here = ("not well", "here: _node_maintenance is critical", "clusterctl health --node n1")
        holds(servers[0], {ROOT: dict(ROOT_SEES, services=here), TOKEN: {"services": here}, NOBODY: HIDDEN}, secret)
        p = run(servers[0], TOKEN, "health", "--node", "n1", secret=secret)
        assert "disk" in p.stdout, p
        run(servers[0], TOKEN, "maint", "disable", secret=secret)
        well(servers[0], secret)


def test_full_disk():
    """One server's disk is full, and each says which one; then there is room again."""
    if no_disks():
        skip(no_disks())
    with Cluster("127.160.14") as c:
        nodes = [c.add("n%d" % i, i, raftd=dict(CALM, bootstrap_expect=3, disk_reserve="8M"), retry_join=[c.net + ".1"], **ACL)
                 for i in (1, 2, 3)]
        full = nodes[2]
        os.makedirs(full.data, exist_ok=True)
        disk = SmallDisk(full.data, "128M")
        try:
            for n in nodes:
                n.start()
            secret = bootstrapped(nodes[0])
            give(nodes, secret)
            for n in nodes:
                well(n, secret)
            disk.fill(1 << 20)
            here = ("not well", "n3: its disk is full", "Free space there")
            more = {"disks": here, "servers?": ANY, "quorum?": ANY}
            for n in nodes[0], full:
                holds(n, {TOKEN: more, NOBODY: HIDDEN}, secret)
            holds(full, {ROOT: dict(ROOT_SEES, disks=here)}, secret)
            disk.free()
            for n in nodes:
                well(n, secret)
            for n in nodes:
                n.stop()
        finally:
            disk.close()


def test_clock():
    """The server whose clock is wrong says so, the others do not; then it is set."""
    if missing():
        skip(missing())
    with Cluster("127.160.15") as c:
        servers, secret = formed(c)
        wrong = servers[2]
        clock = ClockFault(os.path.join(c.dir, "clock"))
        wrong.stop("raftd")
        wrong.env.update(clock.env)
        clock.jump(600)
        wrong.start("raftd")
        off = ("not well", "that of this server is off by ", "NTP")
        holds(wrong, {ROOT: dict(ROOT_SEES, clock=off), TOKEN: {"clock": off}, NOBODY: HIDDEN}, secret)
        for n in servers[:2]:
            well(n, secret)
        clock.jump(0)
        well(wrong, secret)


def test_helper():
    """The process of DNS stands still: it is told until it has been there again for a minute."""
    with Cluster("127.160.16") as c:
        servers, secret = formed(c, 1)
        node = servers[0]
        os.kill(dns_pid(node), signal.SIGSTOP)
        log = "Its log says why: journalctl -u rpcd"
        still = ("not well", "helper_dns of rpcd: ", log)       # does not answer, then that it was started again
        holds(node, {ROOT: dict(ROOT_SEES, node=still), TOKEN: {"node": still}, NOBODY: HIDDEN}, secret)
        again = ("not well", "helper_dns of rpcd: restarted: did not answer", log)
        holds(node, {ROOT: dict(ROOT_SEES, node=again), TOKEN: {"node": again}, NOBODY: HIDDEN}, secret)


def test_blocked():
    """A service that the agent's token may not register; then the token is given."""
    with Cluster("127.160.6") as c:
        n1 = c.add("n1", 1, raftd=dict(CALM, bootstrap=True), **ACL)
        os.mkdir(os.path.join(n1.conf, "services.d"))
        with open(os.path.join(n1.conf, "services.d", "web.json"), "w") as f:
            f.write('{"service": {"name": "web"}}')
        n1.start()
        secret = bootstrapped(n1)
        lacks = ("not well", "acl.tokens.agent", "acl.tokens.agent in rpcd.conf(5)")
        holds(n1, {ROOT: dict(ROOT_SEES, node=lacks), TOKEN: {"node": lacks}, NOBODY: HIDDEN}, secret)
        give([n1], secret)
        well(n1, secret)


def test_wrong_datacenter():
    """Both names on both sides and in the newcomer's status; then its configuration is corrected."""
    with Cluster("127.160.12") as c:
        n1 = c.servers(1, raftd=CALM)[0]
        c.formed([n1])
        x = c.add("x1", 9, dc="dc9", retry_join=[n1.addr]).start()
        alone = ("not well", 'n1 is in datacenter "dc1", this node in "dc9"', "Correct cluster.conf on the node that is wrong")
        row = {"members": alone, "leader": ("not well", "is not in a cluster", ""), "quorum": SEE, "servers": SEE, "disks": SEE}
        holds(x, {who: row for who in (ROOT, TOKEN, NOBODY)})
        holds(n1, {ROOT: {}, NOBODY: {}})
        assert 'x1 is in datacenter "dc9", this node in "dc1"' in n1.log("gossipd")
        assert 'n1 is in datacenter "dc1", this node in "dc9"' in x.log("gossipd")
        p = run(x, ROOT, "join", n1.addr)
        assert p.returncode == 1 and 'n1 is in datacenter "dc1", this node in "dc9"' in p.stderr, p
        x.stop()
        x.set_common(datacenter="dc1")
        x.start()
        gone = ("not well", "x1.dc9: failed", "clusterctl force-leave x1.dc9")
        holds(x, {ROOT: {"members": gone, "keyring?": ("unknown", "", "")}})
        p = run(x, ROOT, "force-leave", "--prune", "x1.dc9")
        assert p.returncode == 0, p
        holds(x, {ROOT: {}, NOBODY: {}})


def test_wrong_server_key():
    """Servers name the one that is wrong; itself it cannot know who is, and says what to do."""
    with Cluster("127.160.13") as c, Cluster("127.160.13") as other:
        servers = c.servers(2, raftd=CALM)
        c.formed(servers)
        x = c.add("x1", 9, retry_join=[servers[0].addr], server_key=os.path.join(other.keys, "server.key"),
                  server_pub=os.path.join(other.keys, "server.pub")).start()
        remedy = "Give the server that is wrong the server.key of the others"
        for n in servers:
            row = {"node": ("not well", "cannot be linked with x1 (%s:8300): it has another server.key" % x.addr, remedy)}
            holds(n, {ROOT: row, NOBODY: row})
        row = {"leader": ("not well", "one of the two has another server.key", remedy), "quorum": SEE, "servers": SEE, "disks": SEE}
        holds(x, {ROOT: row, NOBODY: row})
        assert any("has another server.key" in line for line in servers[0].log("raftd").splitlines())
        x.stop()
        x.set_common(server_key=os.path.join(c.keys, "server.key"), server_pub=os.path.join(c.keys, "server.pub"))
        x.start()
        for n in servers + [x]:
            holds(n, {ROOT: {}, NOBODY: {}})


def test_fenced():
    """A server that comes back after the others went on without it: it says so, they name it; then its raftd folder goes."""
    with Cluster("127.160.17") as c:
        n1, n2 = servers = c.servers(2, raftd=CALM)
        c.formed(servers)
        n2.kill()
        wait_for("no leader", lambda: "leader" in ask(n1, ROOT, None)[0])
        p = run(n1, ROOT, "raft", "recover", "--yes")
        assert p.returncode == 0, p
        n2.start()
        folder = "move the folder raftd of its data_dir away"
        fenced = ("not well", "the cluster was recovered without this server, as generation 2", folder)
        see = ("unknown", "", "See node")
        row = {"node": fenced, "leader": ("not well", "fenced: an operator has recovered this cluster without this server", folder),
               "quorum": see, "servers": see, "disks": see, "members": ("not well", "n2: the cluster was recovered without it", folder)}
        holds(n2, {who: row for who in (ROOT, TOKEN, NOBODY)})
        row = {"members": row["members"], "node": ("not well", "n2 (127.160.17.2:8300): it belongs to generation 1", folder)}
        holds(n1, {who: row for who in (ROOT, TOKEN, NOBODY)})
        n2.stop("raftd")
        shutil.move(os.path.join(n2.data, "raftd"), os.path.join(c.dir, "away"))
        n2.start("raftd")
        for n in servers:
            holds(n, {ROOT: {}, NOBODY: {}})


def test_copies():
    """Machines made of one image, at the first start: both are named, and the copies' data goes."""
    with Cluster("127.160.7") as c:
        nodes = [c.add("n%d" % i, i, raftd=dict(CALM, bootstrap_expect=2), retry_join=["127.160.7.1"]) for i in (1, 2)]
        for n in nodes:
            with open(os.path.join(n.data, "node-id"), "w") as f:
                f.write("5f8d1a52-0c3b-4f0e-9b8e-6a3c41d7e011\n")
            n.start()
        same = ("not well", "n1 (127.160.7.1) and n2 (127.160.7.2) have the same node id", "remove its data_dir and start them")
        row = {"leader": ("not well", "forming a cluster: 1 of 2", "See identity"), "quorum": SEE, "servers": SEE, "disks": SEE,
               "identity": same}
        for n in nodes:
            holds(n, {who: row for who in (ROOT, TOKEN, NOBODY)})
        nodes[1].stop()
        shutil.rmtree(nodes[1].data)
        os.mkdir(nodes[1].data)
        nodes[1].start()
        for n in nodes:
            holds(n, {ROOT: {}, NOBODY: {}})


main(test_forming, test_before_bootstrap, test_never_joined, test_no_quorum, test_nobody_judges, test_secondary_without_tokens,
     test_failed, test_stranger, test_maintenance, test_full_disk, test_clock,
     test_helper, test_blocked, test_wrong_datacenter, test_wrong_server_key, test_fenced,
     test_copies)

#!/usr/bin/env python3
"""Host names, SRV records and files of addresses where a node dials: retry_join, retry_join_wan, join (issue reports of all
kinds ask just for this: resolve again at each try).  With a name server and an /etc of the test's own."""
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import nameserver  # noqa: E402
import netns  # noqa: E402
import unitwalls  # noqa: E402
from cluster import BUILD, TOP, Cluster, main, skip  # noqa: E402
from dnsask import NOERROR, SERVFAIL, ask, exchange, one_dns, question  # noqa: E402
from gossipkit import ALIVE, TIMING, agree, info, join, statuses, up  # noqa: E402
from inject import inside, missing  # noqa: E402
from nameserver import NameServer, write  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.60.70"
SERVER = "127.0.0.53"
SLACK = 10                              # seconds, of a machine that has much else to do
# Nothing but retry_join brings them together.
ALONE = {**TIMING, "reconnect_interval": "1h", "snapshot": False}


def etc(text="nameserver %s\noptions timeout:1 attempts:1\n" % SERVER, hosts="127.0.0.1 localhost\n"):
    """An /etc of our own, with this resolv.conf (None: there is none) and hosts file."""
    if not etc.folder:
        skip("needs root, and network and mount name spaces")
    for path, content in (("/etc/resolv.conf", text), ("/etc/hosts", hosts)):
        if content is None:
            os.path.lexists(path) and os.unlink(path)
        else:
            write(path, content)


etc.folder = None


def pool(*what):
    return Cluster(NET, gossipd=dict(ALONE, **(what[0] if what else {})))


def joined(*nodes):
    agree(nodes)
    return nodes


def log(node):
    return node.log("gossipd")


def says(node, text, times=1):
    wait_for("%s says %r" % (node.name, text), lambda: log(node).count(text) >= times)


def test_name_that_comes():
    """What has no address yet is told with the reason, and looked up again at each try; the port is one's own, or as written."""
    etc()
    with NameServer(SERVER) as names, pool() as c:
        g1 = up(c.add("g1", 1, server=False, retry_join=["g2.test", "G3.Test.:8311"], retry_interval="1s"))
        says(g1, "retry_join: g2.test cannot be resolved: no such host; trying again each time")
        asked = names.questions("g2.test")
        wait_for("it is looked up at each try", lambda: names.questions("g2.test") >= asked + 4)
        assert log(g1).count("g2.test cannot be resolved") == 1, log(g1)
        g2 = up(c.add("g2", 2, server=False))
        g3 = up(c.add("g3", 3, server=False, lan_port=8311))
        assert list(statuses(g1)) == ["g1"]
        names.add("g2.test", g2.addr)
        says(g1, "retry_join: g2.test is %s:8301" % g2.addr)
        joined(g1, g2)
        names.add("g3.test", g3.addr)
        joined(g1, g2, g3)
        says(g1, "retry_join: joined the LAN pool by contacting 1 nodes")


def test_all_addresses():
    """Each address of a name is a candidate; those of ourselves are not."""
    etc(hosts="127.0.0.1 localhost\n%s all\n%s all\n%s all\n" % (NET + ".1", NET + ".77", NET + ".2"))
    with pool() as c:
        g2 = up(c.add("g2", 2, server=False))
        g1 = up(c.add("g1", 1, server=False, retry_join=["all"]))
        joined(g1, g2)
        says(g1, "retry_join: all is %s.77:8301, %s.2:8301" % (NET, NET))


def test_machine():
    """Names resolve as on that machine, at each try anew: search list, IPv6, TCP, a hosts file that is replaced, a late resolv.conf."""
    etc(None)
    os.symlink("/run/tv-late/resolv.conf", "/etc/resolv.conf")
    shutil.rmtree("/run/tv-late", ignore_errors=True)
    with NameServer(SERVER, "::1") as names, pool() as c:
        nodes = [up(c.add("g%d" % i, i, server=False)) for i in (2, 3, 4)]
        names.add("short.lan.test", nodes[0].addr)
        names.add("cut.test", nodes[1].addr)
        names.truncated.add("cut.test")
        g1 = up(c.add("g1", 1, server=False, retry_join=["short", "cut.test", "hosts.only"]))
        says(g1, "retry_join: short cannot be resolved: ")
        os.mkdir("/run/tv-late")
        os.chmod("/run/tv-late", 0o755)
        write("/run/tv-late/resolv.conf", "nameserver ::1\nsearch none.test lan.test\noptions timeout:1 attempts:1\n")
        joined(g1, *nodes[:2])
        assert names.questions("cut.test", "tcp") > 0 and all(a == "::1" for _, _, _, a in names.asked), names.asked
        write("/etc/hosts", "127.0.0.1 localhost\n%s hosts.only\n" % nodes[2].addr)
        joined(g1, *nodes)
        shutil.rmtree("/run/tv-late")


def test_silence():
    """Names that no name server answers for hold up nothing; what was resolved before is used while none answers."""
    etc()
    with NameServer(SERVER) as names, pool() as c:
        names.silent.add("silent.test")
        names.add("good.test", NET + ".2")
        names.add("later.test", NET + ".3")
        want = ["s%d.silent.test" % i for i in range(24)] + ["good.test", "later.test"]
        g1 = up(c.add("g1", 1, server=False, retry_join=want))
        g2 = up(c.add("g2", 2, server=False))
        joined(g1, g2)
        says(g1, "s23.silent.test cannot be resolved: ")
        names.silent.add("later.test")
        says(g1, "later.test cannot be resolved: the name servers of /etc/resolv.conf do not answer; "
                 "using what it was before (1 address); trying again each time")
        g3 = up(c.add("g3", 3, server=False))
        joined(g1, g2, g3)


def test_srv():
    """Hosts and ports of SRV records; those that are gone are not dialled any more; odd ones are passed over."""
    etc()
    with NameServer(SERVER) as names, pool({"peer_ports": ["8311"]}) as c:
        g2 = up(c.add("g2", 2, server=False))
        g3 = up(c.add("g3", 3, server=False, lan_port=8311))
        names.add("g2.test", g2.addr)
        names.add("g3.test", g3.addr)
        names.srv("_serf._tcp.dc.test", ("g2.test", 8301), ("gone.test", 8301), ("", 8301), ("g3.test", 8311), ("g2.test", 0),
                  ("127.1", 8301))
        g1 = up(c.add("g1", 1, server=False, retry_join=["srv:_serf._tcp.dc.test", "srv:_none._tcp.dc.test"]))
        joined(g1, g2, g3)
        says(g1, "srv:_none._tcp.dc.test cannot be resolved: there are no such SRV records")
        says(g1, "retry_join: srv:_serf._tcp.dc.test: gone.test: no such host")


def test_srv_of_another_port():
    """A port that is not a pool's is not dialled unless peer_ports has it; the remedy is named."""
    etc()
    with NameServer(SERVER) as names, pool() as c:
        names.add("g3.test", NET + ".3")
        names.srv("_serf._tcp.test", ("g3.test", 4444))
        g1 = up(c.add("g1", 1, server=False, retry_join=["srv:_serf._tcp.test"]))
        said = wait_for("it fails", lambda: re.search(r"no member of the LAN pool answered \(last: %s.3:4444: (.*?)\)" % NET, log(g1)))
        assert said.group(1) == "the sandbox denies that port: add it to peer_ports in gossipd.conf", said.group(1)


def test_file():
    """A file that a script writes: read at each try, whichever way it is replaced; what cannot be read is told, and not fatal."""
    etc(hosts="127.0.0.1 localhost\n%s.3 three\n" % NET)
    path = os.path.join(tempfile.mkdtemp(prefix="tv-", dir="/var/tmp"), "peers")
    os.chmod(os.path.dirname(path), 0o755)
    with pool() as c:
        nodes = [up(c.add("g%d" % i, i, server=False)) for i in (2, 3, 4)]
        g1 = up(c.add("g1", 1, server=False, retry_join=["file:" + path]))
        says(g1, "retry_join: file:%s cannot be resolved: No such file or directory" % path)
        write(path, "\ufeff# made by a script\r\n\r\n%s # the first\r\nnot an address\n" % nodes[0].addr)
        joined(g1, nodes[0])
        says(g1, "retry_join: file:%s: line 4 is neither an address nor a host name, and left out" % path)
        with open(path, "w") as f:
            f.write("three\n")
        joined(g1, *nodes[:2])
        os.unlink(path)
        write(os.path.dirname(path) + "/real", nodes[2].addr)
        os.symlink("real", path)
        joined(g1, *nodes)
        os.unlink(path)
        os.mkfifo(path)
        says(g1, "it is no regular file")
        os.unlink(path)
        write(path, nodes[2].addr, mode=0o600)
        says(g1, "Permission denied; the user _names must be able to read it")
        write(path, "#" * 70000)
        says(g1, "it has more than 65536 bytes")
        write(path, "".join("10.255.0.%d\n" % i for i in range(1, 100)))
        says(g1, "more than 64 lines: those from line 65 on are left out")
    shutil.rmtree(os.path.dirname(path))


def test_ourselves():
    """A node whose name leads to itself waits in peace for others, as Debian's hosts file has it (127.0.1.1) and as DNS does."""
    etc(hosts="127.0.0.1 localhost\n127.0.1.1 me\n%s.1 me.test\n" % NET)
    with pool() as c:
        g1 = up(c.add("g1", 1, server=False, bind="0.0.0.0", advertise=NET + ".1", retry_join=["me", "me.test"]))
        wait_for("both are looked up", lambda: int(info(g1)["names"]["lookups"]) >= 6)
        assert "joined" not in log(g1) and "answered" not in log(g1) and "cannot" not in log(g1), log(g1)


def test_client():
    """clusterctl join and PUT /v1/agent/join: the same forms, and Serf's sentences."""
    etc(hosts="127.0.0.1 localhost\n%s.2 n2\n%s.3 n3\n" % (NET, NET))
    with NameServer(SERVER) as names, pool() as c:
        n1, n2, n3, n4 = [c.add("n%d" % i, i, server=False).start() for i in (1, 2, 3, 4)]
        for n in (n1, n2, n3, n4):
            n.up()
        names.silent.add("silent.test")
        names.add("n4.test", n4.addr)
        names.srv("_serf._tcp.test", ("n4.test", 8301))
        write("/var/tmp/tv-peers", "# n3\nn3\n")
        for what, why in (("nowhere.test", "Failed to resolve nowhere.test: no such host"),
                          ("silent.test", "Failed to resolve silent.test: the name servers of /etc/resolv.conf do not answer"),
                          ("file:/nowhere", "Failed to resolve file:/nowhere: No such file or directory"),
                          ("srv:_no._tcp.test", "Failed to resolve srv:_no._tcp.test: there are no such SRV records"),
                          ("provider=aws tag_key=x", '"provider=aws tag_key=x" is cloud auto-join, which is not built in: write a '
                           "host name that has all their addresses, srv:_NAME._tcp.DOMAIN, or file:/PATH"),
                          ("127.1", '"127.1" is not an address, and no host name ends with a number'),
                          ("b\u00fccher.test", "has letters beyond ASCII"),
                          ("n2:0", "nor HOST:PORT with a port from 1 to 65535")):
            p = n1.ctl("join", what, check=False)
            assert p.returncode == 1 and why in p.stderr, (what, p.stderr)
        names.silent.discard("silent.test")
        for what, node in (("n2", n2), ("file:/var/tmp/tv-peers", n3), ("srv:_serf._tcp.test", n4)):
            p = n1.ctl("join", what)
            assert p.stdout == "Successfully joined cluster by contacting 1 nodes.\n", p.stdout
            wait_for("%s is a member" % node.name, lambda: statuses(n1).get(node.name) == ALIVE)
        assert n1.ctl("join", "n2:8301", "n3").stdout == "Successfully joined cluster by contacting 2 nodes.\n"
        p = n1.put("/v1/agent/join/n2")
        assert p.status == 200 and p.body == b"", p
        os.unlink("/var/tmp/tv-peers")


def test_wan():
    """retry_join_wan, and join -wan."""
    etc(hosts="127.0.0.1 localhost\n%s.2 s2\n" % NET)
    with pool() as c:
        s1 = up(c.add("s1", 1, dc="dc1", retry_join_wan=["s2"]))
        s2 = up(c.add("s2", 2, dc="dc2"))
        for s in (s1, s2):
            wait_for("%s shows both" % s.name, lambda: statuses(s, 1) == {"s1.dc1": ALIVE, "s2.dc2": ALIVE})
        says(s1, "retry_join_wan: s2 is %s.2:8302" % NET)


def helpers(node):
    """Processes of gossipd-names that are at work, without the one that starts them."""
    mine = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f, open("/proc/%s/stat" % pid) as s:
                args, ppid = f.read().split(b"\0"), int(s.read().rsplit(")", 1)[1].split()[1])
            if args[0] == b"gossipd: names":
                with open("/proc/%d/stat" % ppid) as s:
                    mine += [int(pid)] * (int(s.read().rsplit(")", 1)[1].split()[1]) == node.pid("gossipd"))
        except OSError:
            pass
    return mine


def test_frozen():
    """A process that stands still holds up nothing for long: the next try has another one."""
    etc()
    with NameServer(SERVER) as names, pool() as c:
        names.silent.add("silent.test")
        g1 = up(c.add("g1", 1, server=False, retry_join=["silent.test", "g2.test"]))
        pid = wait_for("one is at work", lambda: helpers(g1))[0]
        os.kill(pid, signal.SIGSTOP)
        g2 = up(c.add("g2", 2, server=False))
        names.silent.clear()
        names.add("g2.test", g2.addr)
        begun = time.monotonic()
        says(g1, "silent.test cannot be resolved: the process that looks up names does not answer")
        assert time.monotonic() - begun < 10 + SLACK, time.monotonic() - begun
        joined(g1, g2)
        wait_for("it is killed", lambda: pid not in helpers(g1))


def test_walls():
    """From inside of it: the process asks name servers, and does nothing else, whoever has taken it over by an answer."""
    if missing() is not None:
        skip(missing())
    etc()
    with NameServer(SERVER) as names, pool() as c:
        names.silent.add("silent.test")
        write("/etc/resolv.conf", "nameserver %s\noptions timeout:10 attempts:1\n" % SERVER)
        g1 = up(c.add("g1", 1, server=False, retry_join=["silent.test"]))
        pid = wait_for("it asks", lambda: names.questions("silent.test") and helpers(g1))[0]
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        assert status["Uid"].split() == [str(pwd.getpwnam("_names").pw_uid)] * 4, status["Uid"]
        assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0 and status["Seccomp"].strip() == "2", status
        gossipd, uid = g1.pid("gossipd"), pwd.getpwnam("_gossipd").pw_uid

        def c_open(path, flags=0):
            return "openat", -100, path.encode() + b"\0", flags, 0o600

        tries = {
            "open gossipd's folder": c_open(g1.data + "/gossipd"),
            "open the cluster key": c_open(c.keys + "/cluster.key"),
            "open the configuration": c_open(g1.conf + "/cluster.conf"),
            "open /etc/passwd": c_open("/etc/passwd"),
            "write a file": c_open("/tmp/tv-names-%d" % os.getpid(), os.O_WRONLY | os.O_CREAT),
            "run a program": ("execve", b"/bin/true\0", 0, 0),
            "fork": ("fork",),
            "vfork": ("vfork",),
            "trace gossipd": ("ptrace", 16, gossipd, 0, 0),
            "signal gossipd": ("kill", gossipd, 9),
            "become root": ("setuid", 0),
            "become gossipd": ("setresuid", uid, uid, uid),
            "open a unix socket": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
            "open a raw socket": ("socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
        }
        failed = [n for n, result in zip(tries, inside(pid, *tries.values())) if result >= 0]
        assert not failed, "gossipd: names may: " + "; ".join(failed)
        assert inside(pid, c_open("/etc/hosts"))[0] >= 0, "it cannot read the hosts file"
        open_files = {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}
        assert not any(f.startswith((g1.data, c.keys)) for f in open_files), open_files


def test_shipped_walls():
    """The same behind what gossipd's unit puts up, with the system calls of Debian 12's sets."""
    etc()
    with NameServer(SERVER) as names, pool() as c:
        g2 = up(c.add("g2", 2, server=False))
        names.add("g2.test", g2.addr)
        names.truncated.add("g2.test")
        names.srv("_serf._tcp.test", ("g2.test", 8301))
        write(c.dir + "/peers", "g2.test\n")
        g1 = c.add("g1", 1, server=False, retry_join=["g2.test", "srv:_serf._tcp.test", "file:%s/peers" % c.dir])
        os.makedirs(g1.data + "/gossipd", mode=0o700)
        shutil.chown(g1.data + "/gossipd", "_gossipd", "_gossipd")
        with open(os.path.join(TOP, "etc/systemd/gossipd.service.in"), encoding="utf-8") as f:
            unit = re.sub(r"(?m)^ExecStartPre=.*$", "", f.read())
        unit = re.sub(r"(?m)^ExecStart=.*$", "ExecStart=%s/gossipd/gossipd -c %s" % (BUILD, g1.conf), unit)
        write(c.dir + "/unit", re.sub(r"(?m)^ReadWritePaths=.*$", "ReadWritePaths=" + c.dir, unit))
        with open(g1.log_path("gossipd"), "wb") as out:
            walled = subprocess.Popen(["unshare", "--mount", sys.executable, unitwalls.__file__, c.dir + "/unit", os.path.join(
                TOP, "tests", "data", "systemd", "252-syscalls.txt")], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            for what in ("g2.test", "srv:_serf._tcp.test", "file:%s/peers" % c.dir):
                says(g1, "retry_join: %s is %s:8301" % (what, g2.addr))
            joined(g1, g2)
        finally:
            walled.terminate()
            assert walled.wait(30) == 0, log(g1)


def test_without_the_program():
    """Addresses work without gossipd-names; names do not, and it is said why."""
    etc(hosts="127.0.0.1 localhost\n%s.2 g2\n" % NET)
    with tempfile.TemporaryDirectory(prefix="tv-", dir="/var/tmp") as alone:
        os.chmod(alone, 0o755)
        for name in ("gossipd/gossipd", "ctl/clusterctl", "rpcd/rpcd"):
            os.makedirs(os.path.dirname(os.path.join(alone, name)))
            shutil.copy(os.path.join(BUILD, name), os.path.join(alone, name))
        with Cluster(NET, build=alone, gossipd=ALONE) as c:
            g2 = up(c.add("g2", 2, server=False))
            g3 = up(c.add("g3", 3, server=False))
            g1 = up(c.add("g1", 1, server=False, retry_join=["g2", g3.addr]))
            joined(g1, g3)
            says(g1, "gossipd-names: No such file or directory (it is a part of gossipd, and stays beside it: install both). Without "
                     "it host names, srv: and file: are not resolved")
            says(g1, "retry_join: g2 cannot be resolved: ")
            err, text, _ = join(g1, "g2")
            assert err != 0 and text.startswith("Failed to resolve g2: ") and "gossipd-names" in text, text
            assert list(statuses(g2)) == ["g2"]


def test_recursors():
    """Names of recursors: resolved again when they do not answer, an old answer outlives silence, a file that is replaced, other
    ports, and never our own DNS."""
    etc()
    with NameServer(SERVER) as names, NameServer(NET + ".91") as first, NameServer(NET + ".92") as second, \
            NameServer(NET + ".93", port=5353) as third, Cluster(NET) as c:
        for i, server in enumerate((first, second, third)):
            server.add("www.example.net", "10.0.0.%d" % (i + 1))
        node = one_dns(c, recursors=["rec.test"], **{"dns_config.recursor_timeout": "200ms"})
        conf = {"http_addresses": [node.addr], "http_admin": True, "dns_config.recursor_timeout": "200ms"}

        def answered_by(i):
            wait_for("recursor %d is asked" % i,
                     lambda: exchange(node, question("www.example.net"), timeout=2)[-4:] == bytes([10, 0, 0, i]))

        def rpcd_says(text):
            wait_for("rpcd says %r" % text, lambda: text in node.log("rpcd"))

        def use(*recursors):
            node.write("rpcd.conf", dict(conf, recursors=list(recursors)))
            node.signal(signal.SIGHUP, "rpcd")

        assert ask(node, "www.example.net") == (SERVFAIL, 0)
        rpcd_says("recursors: rec.test cannot be resolved: no such host; trying again")
        names.add("rec.test", NET + ".91", "::1")
        answered_by(1)
        names.add("rec.test", NET + ".92")
        first.silent.add("example.net")
        answered_by(2)
        rpcd_says("recursors: rec.test is %s.92 port 53" % NET)
        names.silent.add("rec.test")
        second.silent.add("example.net")
        assert ask(node, "www.example.net") == (SERVFAIL, 0)
        rpcd_says("using what it was before (1 address)")
        second.silent.clear()
        answered_by(2)
        rpcd = node.stats("rpcd")
        assert (rpcd["dns_process_starts"], rpcd["dns_process_deaths"]) == ("1", "0"), rpcd
        first.silent.clear()
        write(c.dir + "/list", "%s:8600   # ourselves\n%s.91\n" % (node.addr, NET))
        use("file:%s/list" % c.dir)
        answered_by(1)
        rpcd_says("recursors: %s port 8600 is this node's own DNS: not asked" % node.addr)
        write(c.dir + "/list", "%s.93:5353\n" % NET)
        first.silent.add("example.net")
        answered_by(3)
        names.add("third.test", NET + ".93")
        names.srv("_dns._udp.srv.test", ("third.test", 5353))
        use("srv:_dns._udp.srv.test")
        rpcd_says("recursors: srv:_dns._udp.srv.test is %s.93 port 5353" % NET)
        answered_by(3)
        assert node.stats("rpcd")["dns_process_deaths"] == "0" and ask(node, "web.service.consul") == (NOERROR, 1)
        node.write("rpcd.conf", dict(conf, recursors=["provider=aws tag_key=x"]))
        said = node.ctl("validate", node.conf, check=False)
        assert said.returncode != 0 and "recursors: \"provider=aws tag_key=x\" is cloud auto-join, which is not built in" in \
            said.stdout + said.stderr, said


if __name__ == "__main__":
    netns.enter(mounts=True)
    etc.folder = nameserver.own_etc()
    main(test_name_that_comes, test_all_addresses, test_machine, test_silence, test_srv, test_srv_of_another_port, test_file,
         test_ourselves, test_client, test_wan, test_frozen, test_walls,
         test_shipped_walls, test_without_the_program, test_recursors)

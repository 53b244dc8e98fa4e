#!/usr/bin/env python3
"""Helper processes that stand still, are replaced on purpose, or cannot be started; raftd's are in test_login_keys.py."""
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import checking  # noqa: E402
from checking import register, the_process, wait_state  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from dnsask import NOERROR, ask, dns_pid, dns_pids, one_dns, question  # noqa: E402
from waiting import wait_for  # noqa: E402

NOTICED_S = 10.             # what is promised
PATIENCE_S = 25.            # on a machine that does other work, too


def gone(pid):
    """It has ended; a process that was killed and not reaped yet counts."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def wait_killed(pid, since):
    wait_for("process %d is killed" % pid, lambda: gone(pid), PATIENCE_S)
    took = time.monotonic() - since
    print("killed %.1f s after it stood still%s" % (took, "" if took < NOTICED_S else ", which is late"))


def freeze(pid):
    os.kill(pid, signal.SIGSTOP)
    return time.monotonic()


def shows(node, text):
    """clusterctl status is red with this text."""
    p = node.ctl("status", check=False)
    return p.returncode != 0 and text in p.stdout


def test_frozen_check_network():
    """What it checks goes down while it stands still: critical soon; seen in the log, in the figures and in status."""
    with Cluster("127.148.1") as c, socket.create_server((c.net + ".9", 7000)) as service:
        node = checking.one(c)
        register(node, "t", TCP=c.net + ".9:7000")
        wait_state(node, "t", "passing")
        wait_for("all is well", lambda: node.ctl("status", check=False).returncode == 0)
        pid = the_process(node, "network")
        since = freeze(pid)
        service.close()
        wait_for("status says that it does not answer", lambda: shows(node, "process %d has not answered for" % pid), PATIENCE_S)
        wait_killed(pid, since)
        wait_state(node, "t", "critical", "refused")
        rpcd = node.stats("rpcd")
        assert (rpcd["check_process_stuck"], rpcd["check_process_deaths"], rpcd["check_processes"]) == ("1", "1", "1"), rpcd
        assert rpcd["helper_check_network"].startswith("restarted: did not answer"), rpcd
        assert shows(node, "helper_check_network of rpcd: restarted: did not answer")
        assert '"rpcd: check network" (process %d) has not answered for 7 s, and is killed' % pid in node.log("rpcd")
        assert the_process(node, "network") != pid


def test_frozen_check_scripts():
    with Cluster("127.148.2") as c:
        node = checking.one(c, enable_script_checks=True)
        flag = os.path.join(c.dir, "flag")
        register(node, "s", Args=["sh", "-c", "test ! -e " + flag])
        wait_state(node, "s", "passing")
        pid = the_process(node, "scripts")
        since = freeze(pid)
        open(flag, "w").close()
        wait_killed(pid, since)
        wait_state(node, "s", "warning")
        assert node.stats("rpcd")["check_process_stuck"] == "1"


def test_frozen_without_work():
    """A helper that has nothing to say is asked, too."""
    with Cluster("127.148.3") as c:
        node = checking.one(c)
        register(node, "t", TCP="127.0.0.1:1", Interval="1h")
        wait_state(node, "t", "critical", "refused")
        pid = the_process(node, "network")
        wait_killed(pid, freeze(pid))
        wait_for("another one", lambda: node.stats("rpcd")["check_process_starts"] == "2")


def test_frozen_dns():
    with Cluster("127.148.4") as c:
        node = one_dns(c)
        pid = dns_pid(node)
        since = freeze(pid)
        wait_killed(pid, since)
        wait_for("DNS answers", lambda: ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))
        rpcd = node.stats("rpcd")
        assert (rpcd["dns_process_stuck"], rpcd["dns_process_deaths"], rpcd["dns_processes"]) == ("1", "1", "1"), rpcd
        assert shows(node, "helper_dns of rpcd: restarted")


def test_time_counts_only_while_the_daemon_runs():
    """A short stop of a helper, a long one of the daemon, one of all: no helper is killed for that."""
    with Cluster("127.148.5") as c:
        node = one_dns(c)
        register(node, "t", TCP="127.0.0.1:1")
        wait_state(node, "t", "critical", "refused")
        helpers = dns_pid(node), the_process(node, "network")

        def goes_on():
            assert ask(node, "web.service.consul") == (NOERROR, 1)
            rpcd = node.stats("rpcd")
            assert (rpcd["dns_process_deaths"], rpcd["check_process_deaths"]) == ("0", "0"), rpcd
            assert (dns_pid(node), the_process(node, "network")) == helpers

        for pid in helpers:
            freeze(pid)
        time.sleep(4)
        for pid in helpers:
            os.kill(pid, signal.SIGCONT)
        goes_on()
        # The daemon stands still for longer than its patience, and then all of them: the helpers come back after it.
        node.signal(signal.SIGSTOP, "rpcd")
        time.sleep(12)
        node.signal(signal.SIGCONT, "rpcd")
        goes_on()
        node.signal(signal.SIGSTOP, "rpcd")
        for pid in helpers:
            freeze(pid)
        time.sleep(12)
        node.signal(signal.SIGCONT, "rpcd")
        time.sleep(2)
        for pid in helpers:
            os.kill(pid, signal.SIGCONT)
        goes_on()


class Questions(threading.Thread):
    """Asks one after the other, and knows the longest time without an answer."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.done, self.longest, self.wrong = node, threading.Event(), 0., []

    def run(self):
        last = time.monotonic()
        while not self.done.is_set():
            try:
                got = ask(self.node, "web.service.consul", timeout=5)
            except OSError as e:
                got = e
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now
            if got != (NOERROR, 1):
                self.wrong.append(got)


def test_other_recursors():
    """Ten times, shortly after each other: DNS goes on; no death, no warning, no pause that grows."""
    with Cluster("127.148.6") as c:
        node = one_dns(c)
        conf = {"http_addresses": [node.addr], "http_admin": True}
        gaps = []
        for i in range(10):
            asking = Questions(node)
            asking.start()
            node.write("rpcd.conf", dict(conf, recursors=["%s.%d:8653" % (c.net, 20 + i)]))
            node.signal(signal.SIGHUP, "rpcd")
            wait_for("a new process serves", lambda: node.stats("rpcd")["dns_process_replaced"] == str(i + 1))
            asking.done.set()
            asking.join()
            assert not asking.wrong, asking.wrong
            gaps.append(asking.longest)
        print("longest time without an answer, ms:", " ".join("%.0f" % (g * 1e3) for g in gaps))
        assert sorted(gaps)[len(gaps) // 2] < 0.1, gaps       # one of them may be the machine's
        assert max(gaps) < 1, gaps
        rpcd = node.stats("rpcd")
        assert (rpcd["dns_process_deaths"], rpcd["dns_process_starts"], rpcd["helper_dns"]) == ("0", "11", "running"), rpcd
        assert "[WARN] dns:" not in node.log("rpcd"), node.log("rpcd")
        assert node.ctl("status", check=False).returncode == 0
        wait_for("the old ones are gone", lambda: len(list(dns_pids(node))) == 1)


def test_silent_recursor_holds_up_nobody():
    """A question that waits for a recursor when another process takes over delays no other one."""
    with Cluster("127.148.12") as c:
        node = one_dns(c)
        conf = {"http_addresses": [node.addr], "http_admin": True, "dns_config.recursor_timeout": "5s"}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            silent.bind((c.net + ".30", 8653))
            node.write("rpcd.conf", dict(conf, recursors=["%s.30:8653" % c.net]))
            node.signal(signal.SIGHUP, "rpcd")
            wait_for("it is a recursor", lambda: node.stats("rpcd")["dns_process_replaced"] == "1")
            client.sendto(question("www.example.net"), (node.addr, 8600))
            silent.settimeout(30)
            assert silent.recv(512)
            asking = Questions(node)
            asking.start()
            node.write("rpcd.conf", dict(conf, recursors=["%s.31:8653" % c.net]))
            node.signal(signal.SIGHUP, "rpcd")
            wait_for("a new process serves", lambda: node.stats("rpcd")["dns_process_replaced"] == "2")
            asking.done.set()
            asking.join()
            assert not asking.wrong and asking.longest < 0.9, (asking.wrong, asking.longest)


def test_recursors_that_change_twice_at_once():
    """The second change comes while the process for the first one starts: what is served is the last one."""
    with Cluster("127.148.7") as c:
        node = one_dns(c)
        conf = {"http_addresses": [node.addr], "http_admin": True, "dns_config.recursor_timeout": "50ms"}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.bind((c.net + ".30", 8653))
            last.settimeout(0.2)
            for i in range(21, 31):
                node.write("rpcd.conf", dict(conf, recursors=["%s.%d:8653" % (c.net, i)]))
                node.signal(signal.SIGHUP, "rpcd")

            def asked():
                ask(node, "www.example.net", timeout=1)
                return last.recv(512)
            wait_for("the last recursor is asked", asked)
        assert node.stats("rpcd")["dns_process_deaths"] == "0"


def test_reload_ends_a_pause():
    """A process that died often waits for some seconds before the next one; a reload starts it at once."""
    with Cluster("127.148.8") as c:
        node = one_dns(c)

        def paused():
            state = node.stats("rpcd")["helper_dns"]
            return state if "restarting in" in state and float(state.split()[-2]) > 5 else None
        for _ in range(12):
            wait_for("it serves, or waits", lambda: paused() or node.stats("rpcd")["dns_processes"] == "1")
            if paused():
                break
            os.kill(wait_for("its process", lambda: next(dns_pids(node), None)), signal.SIGKILL)
            wait_for("it has ended", lambda: "exited" in node.stats("rpcd")["helper_dns"])
        assert paused() and shows(node, "helper_dns of rpcd: exited")
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("it serves", lambda: ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1), 4)


def test_frozen_monitor():
    """Helpers serve on; when one has to be started, rpcd says what is wrong, and ends to be started again."""
    with Cluster("127.148.9") as c:
        node = one_dns(c)
        pid = dns_pid(node)
        with open("/proc/%d/stat" % pid) as f:
            monitor = int(f.read().rsplit(")", 1)[1].split()[1])
        freeze(monitor)
        assert ask(node, "web.service.consul") == (NOERROR, 1)
        node.may_end("rpcd", 1)
        os.kill(pid, signal.SIGKILL)
        wait_for("it is said", lambda: 'the monitor of "rpcd: dns", which starts it, does not answer' in node.log("rpcd"), PATIENCE_S)
        wait_for("status says it", lambda: shows(node, "could not be started"))
        node.wait_end("rpcd", timeout=60)
        os.kill(monitor, signal.SIGCONT)                # as systemd does, before the next start
        node.start("rpcd")
        wait_for("it serves", lambda: ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))


def test_frozen_at_the_end():
    """A helper that stands still when its daemon ends does not stay behind: its monitor kills it, and ends."""
    with Cluster("127.148.10") as c:
        node = one_dns(c)
        pid = dns_pid(node)
        freeze(pid)
        node.stop("rpcd")
        wait_for("it is killed", lambda: gone(pid), PATIENCE_S)
        node.start("rpcd")
        wait_for("it serves", lambda: ask(node, "web.service.consul", timeout=0.5) == (NOERROR, 1))


def test_few_descriptors():
    """With a hard limit of 64 it serves; with too few it ends with a sentence that says what is missing."""
    with Cluster("127.148.11") as c:
        node = c.servers(1)[0]
        c.formed([node])
        node.stop("rpcd")
        for limit in (64, 10):
            node.wrap = ["prlimit", "--nofile=%d:%d" % (limit, limit)]
            node.start("rpcd")
            node.may_end("rpcd", 1)
            ended = wait_for("it serves, or ends", lambda: not node.running("rpcd") and "ended" or
                             "rpcd" in node.self_told()["Stats"] and "serves")
            said = node.log("rpcd")[-2000:]
            print(limit, ended)
            if limit == 64:
                assert ended == "serves", said
            if ended == "ended":
                assert "open files" in said and "LimitNOFILE" in said and "Invalid argument" not in said, said
            else:
                node.stop("rpcd")


if __name__ == "__main__":
    main(test_frozen_check_network, test_frozen_check_scripts, test_frozen_without_work, test_frozen_dns,
         test_time_counts_only_while_the_daemon_runs, test_other_recursors, test_silent_recursor_holds_up_nobody,
         test_recursors_that_change_twice_at_once,
         test_reload_ends_a_pause, test_frozen_monitor, test_frozen_at_the_end, test_few_descriptors)

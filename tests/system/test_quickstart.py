#!/usr/bin/env python3
"""The demo of ./quickstart where PID 1 reaps nobody, as in a container: a daemon that died is dead, and is started again."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import diskfault  # noqa: E402
import netns  # noqa: E402
from cluster import TOP, ensure_users, main, skip  # noqa: E402
from procs import children  # noqa: E402
from waiting import wait_for  # noqa: E402


# 100,000 keys, 64 in a transaction.
FILL = """
import http.client, json
c = http.client.HTTPConnection("127.0.0.1", 8500)
for first in range(0, 100000, 64):
    c.request("PUT", "/v1/txn", json.dumps([{"KV": {"Verb": "set", "Key": "many/%06d" % i, "Value": "dmFsdWUg" * 25}}
                                            for i in range(first, first + 64)]))
    r = c.getresponse()
    assert r.status == 200, (r.status, r.read())
    r.read()
"""


class Container:
    """Name spaces of their own for processes and network; PID 1 only sleeps."""

    def __init__(self):
        self.env = dict(os.environ)
        self.state = tempfile.mkdtemp(prefix="tv-quickstart-", dir="/var/tmp")
        os.chmod(self.state, 0o755)
        self.holder = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--net", "--mount-proc", "sleep", "infinity"],
                                       stderr=subprocess.DEVNULL)
        self.init = wait_for("PID 1", self.first_process)
        self.ok("ip", "link", "set", "lo", "up")

    def first_process(self):
        pids = children(self.holder.pid)
        if not pids:
            return None
        pid = pids[0]
        return pid if os.path.basename(os.readlink("/proc/%d/exe" % pid)) == "sleep" else None

    def ok(self, *cmd, input=None):
        p = subprocess.run(["nsenter", "-t", str(self.init), "-p", "-n", "-m", "--wd=" + TOP, *cmd], capture_output=True, text=True,
                           timeout=240, input=input, env=dict(self.env, TRIUMVIR_DEMO=self.state + "/demo"))
        assert p.returncode == 0, "%s: status %d: %s%s" % (" ".join(cmd), p.returncode, p.stdout, p.stderr)
        return p.stdout

    def pid(self, node, daemon):
        with open("%s/demo/%s/%s.pid" % (self.state, node, daemon)) as f:
            return f.read().strip()

    def state_of(self, pid):
        return self.ok("sed", "-n", r"s/.*) \(.\) .*/\1/p", "/proc/%s/stat" % pid).strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.init, signal.SIGKILL)
        self.holder.wait()
        shutil.rmtree(self.state, ignore_errors=True)


def need_demo():
    if not netns.isolated():
        skip("needs root and name spaces")
    if not os.access(os.path.join(TOP, "rpcd", "rpcd"), os.X_OK):
        skip("needs a build in the source tree, as ./quickstart makes it")
    ensure_users()


def test_nobody_reaps():
    need_demo()
    with Container() as c:
        c.ok("./quickstart", "up")
        dead = c.pid("n1", "raftd")
        c.ok("sh", "-c", "kill -9 " + dead)
        wait_for("raftd is a zombie", lambda: c.state_of(dead) == "Z")
        c.ok("./quickstart", "up")
        assert c.pid("n1", "raftd") != dead and c.state_of(c.pid("n1", "raftd")) in "SRD"
        c.ok("./quickstart", "down")        # would never end while zombies count
        left = c.ok("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "-c %s/demo" % c.state not in left, left


def test_many_keys_on_a_slow_disk():
    """100,000 keys, and a restart while each page that is read of the state takes 5 ms: it comes up as it would without them."""
    need_demo()
    if diskfault.missing():
        skip(diskfault.missing())
    with Container() as c:
        slow = diskfault.DiskFault(os.path.join(c.state, "slow.disk"))
        os.chmod(slow.path, 0o666)              # raftd runs as a user of its own
        c.ok("./quickstart", "up")
        c.ok(sys.executable, "-c", FILL)
        c.ok("./quickstart", "down")
        slow.read_delay(5, kind="state")
        c.env.update(slow.env)
        c.ok("./quickstart", "up")
        assert slow.reads_delayed("state") > 0
        c.ok("./quickstart", "down")


if __name__ == "__main__":
    netns.enter(mounts=True)
    main(test_nobody_reaps, test_many_keys_on_a_slow_disk)

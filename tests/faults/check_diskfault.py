#!/usr/bin/env python3
"""diskfault.so by itself: a child does file calls under it, the test steers and looks at what came of them."""
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TV_BUILD", os.getcwd())          # automake runs tests in the build folder
sys.path.insert(0, os.path.join(TOP, "tests", "system", "lib"))
import diskfault  # noqa: E402

# Reads one call a line, prints 0 or the errno.
CHILD = r"""
import os, sys
fds = {}
def call(verb, path):
    if verb == "open":
        fds[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    elif verb == "close":
        os.close(fds.pop(path))
    elif verb == "write":
        os.write(fds[path], b"x" * 10)
    elif verb == "pwrite":
        os.pwrite(fds[path], b"x" * 10, 0)
    elif verb == "pread":
        os.pread(fds[path], 10, 0)
    elif verb == "fsync":
        os.fsync(fds[path])
    elif verb == "fdatasync":
        os.fdatasync(fds[path])
    elif verb == "cut":
        os.ftruncate(fds[path], 0)
    elif verb == "mkdir":
        os.mkdir(path)
    elif verb == "unlink":
        os.unlink(path)
    elif verb == "rename":
        os.rename(path, path + ".2")
for line in sys.stdin:
    try:
        call(*line.split())
        print(0, flush=True)
    except OSError as e:
        print(e.errno, flush=True)
"""


class Child:
    def __init__(self, disk):
        self.p = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, env=dict(os.environ, **disk.env))

    def send(self, verb, path):
        self.p.stdin.write("%s %s\n" % (verb, path))
        self.p.stdin.flush()

    def result(self):
        return int(self.p.stdout.readline())

    def do(self, verb, path):
        self.send(verb, path)
        return self.result()

    def close(self):
        self.p.stdin.close()
        self.p.wait(10)


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "not within 20 s"
        time.sleep(0.002)


def check(top, disk, child):
    log, state, snap, other = (os.path.join(top, "data", *p) for p in
                               (("raftd", "log", "log.1"), ("raftd", "state", "state.db"),
                                ("raftd", "snapshot-1.tmp"), ("elsewhere",)))
    state_log = os.path.join(top, "data", "raftd", "state", "log.0000000001")
    for path in (log, state, snap, other):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        assert child.do("open", path) == 0
        assert child.do("write", path) == 0 and child.do("fsync", path) == 0
    assert disk.attached == 1 and disk.pid == child.p.pid
    assert (disk.syncs("log"), disk.syncs("state"), disk.syncs("snapshot"), disk.syncs()) == (1, 1, 1, 3)

    disk.sync_error(errno.EIO, 2, "log")
    assert child.do("fdatasync", state) == 0 and child.do("fsync", other) == 0
    assert [child.do("fdatasync", log), child.do("fsync", log), child.do("fsync", log)] == [errno.EIO, errno.EIO, 0]
    assert disk.failed("log") == 2 and disk.failed() == 2

    disk.write_error(errno.ENOSPC, None, "state")
    for verb in ("write", "pwrite"):
        assert child.do(verb, state) == errno.ENOSPC and child.do(verb, log) == 0
    assert child.do("fsync", state) == 0 and child.do("cut", state) == 0        # need no space
    assert child.do("mkdir", os.path.join(top, "data", "raftd", "state.new")) == errno.ENOSPC
    assert child.do("open", os.path.join(top, "data", "raftd", "state", "new")) == errno.ENOSPC
    assert child.do("rename", state) == 0
    disk.write_error(errno.EIO, None, "state")
    assert child.do("rename", state + ".2") == errno.EIO and child.do("unlink", state + ".2") == errno.EIO
    disk.clear()
    assert child.do("unlink", state + ".2") == 0 and child.do("write", state) == 0

    disk.read_error(errno.EIO, 1, "snapshot")
    assert [child.do("pread", snap), child.do("pread", snap)] == [errno.EIO, 0]

    disk.hang(True, "log", "sync")
    assert child.do("write", log) == 0
    child.send("fdatasync", log)
    until(lambda: disk.hanging("log") == 1)
    disk.hang(False, "log")
    assert child.result() == 0
    assert (disk.hung("log"), disk.hanging()) == (1, 0)
    disk.hang(True, ("log", "snapshot"))
    child.send("write", snap)
    until(lambda: disk.hanging("snapshot") == 1)
    disk.clear()
    assert child.result() == 0

    disk.sync_delay(3600 * 1000)
    child.send("fsync", state)
    disk.sync_delay(1)                                  # ends the one under way too
    assert child.result() == 0 and disk.delayed() == 1
    disk.clear()

    check_reads(disk, child, state, state_log, snap)
    assert child.do("close", log) == 0 and child.do("fsync", state) == 0 and disk.delayed() == 1


def check_reads(disk, child, state, state_log, other):
    assert child.do("open", state_log) == 0
    synced = disk.syncs("state")
    assert child.do("fsync", state_log) == 0 and disk.syncs("state") == synced + 1        # else it is the state's
    before = disk.reads("state")
    disk.read_delay(3600 * 1000, 1, "state")
    assert child.do("pread", state_log) == 0 and child.do("pread", other) == 0
    child.send("pread", state)
    disk.read_delay(0, 0, "state")                      # ends the one under way too
    assert child.result() == 0
    disk.read_delay(5, 2, ("state", "state_log"))
    began = time.monotonic()
    assert [child.do("pread", f) for f in (state, state_log, state, state, state_log)] == [0] * 5
    assert time.monotonic() - began >= 0.02
    assert disk.reads_delayed("state") >= 2 and disk.reads_delayed("state_log") == 2
    assert disk.reads("state") == before + 4
    disk.hang(True, "state_log", "read")
    assert child.do("fsync", state_log) == 0 and child.do("write", state_log) == 0 and child.do("pread", state) == 0
    child.send("pread", state_log)
    until(lambda: disk.hanging("state_log") == 1)
    disk.clear()
    assert child.result() == 0


def main():
    if diskfault.missing():
        print("SKIP: " + diskfault.missing())
        return 77
    top = tempfile.mkdtemp(prefix="diskfault")
    disk = diskfault.DiskFault(os.path.join(top, "control"))
    child = Child(disk)
    try:
        check(top, disk, child)
    finally:
        child.close()
        shutil.rmtree(top)
    print("diskfault: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

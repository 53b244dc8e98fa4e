#!/usr/bin/env python3
"""loopfile.so by itself: a child touches files from a loop and beside it, and ends where a daemon would have to."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TV_BUILD", os.getcwd())          # automake runs tests in the build folder
sys.path.insert(0, os.path.join(TOP, "tests", "system", "lib"))
import preloads  # noqa: E402

PYTHON_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}        # which is not ours to mend
LIBEV = "libev.so.4"

# argv: what to do, a statement.  It is done in a callback of a loop, by its thread or, with "beside", by another one.
CHILD = r"""
import ctypes, os, sys, threading
who, what, data, other = sys.argv[1:]
lib, fds = ctypes.CDLL(None), {}
lib.ev_default_loop.restype = ctypes.c_void_p
lib.ev_run.argtypes = [ctypes.c_void_p, ctypes.c_int]
lib.ev_once.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p]
loop = lib.ev_default_loop(0)
fd = os.open(os.path.join(data, "raftd", "file"), os.O_RDWR | os.O_CREAT, 0o600)
outside = os.open(os.path.join(other, "file"), os.O_RDWR | os.O_CREAT, 0o600)
def act(*_):
    exec(what)
def turn(*_):
    if who == "beside":
        t = threading.Thread(target=act)
        t.start()
        t.join()
    else:
        act()
callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(turn)
lib.ev_once(loop, -1, 0, 0.0, ctypes.cast(callback, ctypes.c_void_p), None)
act() if who == "before" else None
if who != "starting":
    lib.sd_notify(0, b"READY=1\nSTATUS=serving")
if who != "before":
    lib.ev_run(loop, 0)
print("done", flush=True)
os._exit(0)
"""

TOUCHES = (
    ("open", "os.open(os.path.join(data, 'new'), os.O_RDWR | os.O_CREAT, 0o600)"),
    ("read", "os.read(fd, 1)"), ("pread", "os.pread(fd, 1, 0)"), ("write", "os.write(fd, b'x')"),
    ("pwrite", "os.pwrite(fd, b'x', 0)"), ("fsync", "os.fsync(fd)"), ("fdatasync", "os.fdatasync(fd)"),
    ("ftruncate", "os.ftruncate(fd, 0)"), ("fstat", "os.fstat(fd)"), ("close", "os.close(fd)"),
    ("stat", "os.stat(os.path.join(data, 'raftd'))"), ("statvfs", "os.statvfs(data)"),
    ("rename", "os.rename(os.path.join(data, 'raftd', 'file'), os.path.join(data, 'b'))"),
    ("unlink", "os.unlink(os.path.join(data, 'raftd', 'file'))"), ("mkdir", "os.mkdir(os.path.join(data, 'folder'))"),
    ("posix_fallocate", "os.posix_fallocate(fd, 0, 10)"), ("opendir", "os.listdir(data)"),
)
NOTHING = "os.pwrite(outside, b'x', 0); os.stat(other); os.listdir(other); os.write(1, b'')"


def run(top, who, what, **more):
    data, other = os.path.join(top, "data"), os.path.join(top, "data2")
    for d in (os.path.join(data, "raftd"), other):
        shutil.rmtree(d, ignore_errors=True)
        os.makedirs(d)
    env = preloads.loopfile(data, dict(os.environ, LD_PRELOAD=LIBEV, **PYTHON_LEAKS, **more))
    return subprocess.run([sys.executable, "-c", CHILD, who, what, data, other], env=env, capture_output=True, text=True,
                          timeout=60)


def check(top):
    p = run(top, "loop", NOTHING)
    assert p.returncode == 0 and p.stdout == "done\n", p
    for call, what in TOUCHES:
        p = run(top, "loop", what)
        assert p.returncode == -signal.SIGABRT, "%s: %d %s" % (call, p.returncode, p.stderr)
        assert "loopfile: the loop calls %s" % call in p.stderr and top + "/data" in p.stderr, p.stderr
        p = run(top, "beside", what)
        assert p.returncode == 0 and p.stdout == "done\n", p
    touch = dict(TOUCHES)["write"]
    for who in ("before", "starting"):
        p = run(top, who, touch)
        assert p.returncode == 0 and "loopfile" not in p.stderr, p
    p = run(top, "loop", touch + "; " + touch, TV_LOOPFILE_TELL="1")
    assert p.returncode == 0 and "loopfile: the loop calls write" in p.stderr, p


def main():
    if not os.path.exists(preloads.library("loopfile")):
        print("SKIP: loopfile.so is not built: make check TESTS=")
        return 77
    top = tempfile.mkdtemp(prefix="loopfile")
    try:
        check(top)
    finally:
        shutil.rmtree(top)
    print("loopfile: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

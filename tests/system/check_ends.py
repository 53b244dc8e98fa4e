#!/usr/bin/env python3
"""lib/ends.py lets no bad end pass: programs that end in every way, as daemons of a test."""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import ends  # noqa: E402

# Each tells its pipe that its traps are set; then it waits.
WAITS = "echo up >&3; while :; do sleep 0.05; done"
SAYS_WHO = "echo '[INFO] raftd: triumvir 0.1.0: node n1'; "


def begun(folder, script):
    """A shell as daemon, once it says that it is up; or has ended."""
    log, (r, w) = os.path.join(folder, "log"), os.pipe()
    with open(log, "ab") as f:
        d = ends.Daemon("sh", log, ["sh", "-c", "exec 3>&%d; " % w + script], stdout=f, stderr=f, pass_fds=[w])
    os.close(w)
    os.read(r, 3)
    os.close(r)
    return d


def kill(d):
    d.send_signal(signal.SIGKILL)
    d.wait()


# what, script, what the test does with it, word of the complaint (None: there is none)
CASES = [
    ("ends with 0 at SIGTERM", "trap 'exit 0' TERM; " + WAITS, None, None),
    ("is killed by the test", WAITS, kill, None),
    ("has left", "exit 0", subprocess.Popen.wait, None),
    ("ends as the test said", "exit 1", lambda d: d.may_end(1), None),
    ("ends with 3 at SIGTERM", "trap 'exit 3' TERM; " + WAITS, None, "ended with status 3"),
    ("ended before", "exit 1", subprocess.Popen.wait, "ended with status 1"),
    ("ends otherwise than the test said", "exit 2", lambda d: d.may_end(1), "ended with status 2"),
    ("crashes at SIGTERM", "trap 'kill -ABRT $$' TERM; " + WAITS, None, "signal 6"),
    ("is killed by another", "kill -KILL $$", subprocess.Popen.wait, "signal 9"),
    ("SIGTERM before it is at work", WAITS, None, None),
    ("SIGTERM is not handled", SAYS_WHO + WAITS, None, "signal 15"),
    ("does not end", "trap '' TERM; " + WAITS, None, "did not end within"),
    ("a report, and status 0", "trap 'exit 0' TERM; echo 'x.c:7:3: runtime error: shift'; " + WAITS, None, "runtime error"),
    ("a report, and the status that is expected", "echo '==1==ERROR: AddressSanitizer: heap-use-after-free'; exit 1",
     lambda d: d.may_end(1), "heap-use-after-free"),
    ("a report of valgrind's", "trap 'exit 0' TERM; echo '==12== Invalid read'; " + WAITS, None, "Invalid read"),
    ("a report, and killed by the test", "echo '==1==ERROR: LeakSanitizer: detected'; " + WAITS, kill, "LeakSanitizer"),
]


def main():
    failed = 0
    for what, script, act, word in CASES:
        with tempfile.TemporaryDirectory() as folder:
            d = begun(folder, script)
            if act:
                act(d)
            if d.allowed != {0}:
                d.wait()
            wrong = ends.finish([d], 1.0 if word == "did not end within" else 60.0)
            if d.poll() is None or (word is None) != (not wrong) or (word and word not in "".join(wrong)):
                print("FAIL %s: %r" % (what, wrong))
                failed += 1
    ends.clean("nothing", "clusterctl: no such key")
    try:
        ends.clean("a report", "common/x.c:1:2: runtime error: x")
        failed += 1
    except AssertionError:
        pass
    print("%d passed, %d failed" % (len(CASES) + 2 - failed, failed))
    return 1 if failed else 0


sys.exit(main())

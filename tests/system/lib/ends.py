"""How daemons end, and what none of them may write.

A daemon that a test starts is judged by its end: status 0, a SIGKILL that the test sent, or a status that the test named
(may_end).  Anything else fails the test, and so do a daemon that does not end at SIGTERM and the report of a sanitizer, of
valgrind or of the C library in what it wrote.  Standard library only.
"""
import os
import re
import signal
import subprocess
import time

REPORTS = re.compile(rb"(?:ERROR|SUMMARY|WARNING): \w*Sanitizer|LeakSanitizer|: runtime error: |Sanitizer:DEADLYSIGNAL|^==\d+== |"
                     rb"stack smashing detected|buffer overflow detected|double free or corruption|malloc\(\): |free\(\): ", re.M)
BEGUN = re.compile(rb"d: triumvir \S+ node ")
# A report has a status of its own, so that no status that a test expects is taken for it.
REPORTED = 99
TSAN_SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tsan.supp")
PATIENCE = 60.0             # seconds that a daemon may take from SIGTERM to its end on a busy machine


def sanitizers(build):
    """Was this build folder configured with --enable-sanitizers?"""
    try:
        with open(os.path.join(build, "config.h")) as f:
            return "#define TV_SANITIZERS 1" in f.read()
    except FileNotFoundError:
        return False


class BadEnd(AssertionError):
    """A daemon ended as none may."""


def environment(env):
    """The environment of daemons and tools, for sanitizers."""
    env = dict(env)
    env["TSAN_OPTIONS"] = ":".join(filter(None, (env.get("TSAN_OPTIONS"), "suppressions=" + TSAN_SUPPRESSIONS)))
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = ":".join(filter(None, (env.get(name), "exitcode=%d" % REPORTED)))
    return env


def report(text):
    """The report that is in these bytes, from its first line on; None: there is none."""
    found = REPORTS.search(text)
    if not found:
        return None
    start = text.rfind(b"\n", 0, found.start() + 1) + 1
    return text[start:start + 4000].decode("utf-8", "replace")


def clean(who, text):
    """Fails when there is a report in this text."""
    found = report(text.encode("utf-8", "replace"))
    assert not found, "%s:\n%s" % (who, found)


class Daemon(subprocess.Popen):
    """A daemon of a test: a Popen that knows which ends are in order."""

    def __init__(self, title, log_path, args, **kw):
        self.title, self.log_path = title, log_path
        self.signals, self.allowed, self.judged = set(), {0}, False
        self.log_start = os.path.getsize(log_path) if os.path.exists(log_path) else 0
        super().__init__(args, **kw)

    def send_signal(self, sig):
        if self.poll() is None:
            self.signals.add(sig)
        super().send_signal(sig)

    def may_end(self, *statuses):
        """It may end by itself, too, with one of these."""
        self.allowed.update(statuses)
        return self

    def written(self):
        """What it has written so far, in bytes; a test may have emptied the file meanwhile."""
        try:
            with open(self.log_path, "rb") as f:
                f.seek(self.log_start if self.log_start <= os.path.getsize(self.log_path) else 0)
                return f.read()
        except FileNotFoundError:
            return b""

    def _in_order(self, status):
        if status in self.allowed or -status in self.signals & {signal.SIGKILL}:
            return True
        # Before it has said who it is, SIGTERM ends it as any program.
        return -status == signal.SIGTERM in self.signals and not BEGUN.search(self.written())

    def complaint(self):
        """What is wrong with its end, or None; once it has been told, None."""
        status = self.poll()
        if self.judged or status is None:
            return None
        self.judged = True
        found = report(self.written())
        if self._in_order(status) and not found:
            return None
        how = "ended with status %d" % status if status >= 0 else "was ended by signal %d" % -status
        lines = found or "\n".join(self.written().decode("utf-8", "replace").splitlines()[-15:])
        return "%s %s:\n%s" % (self.title, how, lines)


def finish(daemons, patience=PATIENCE):
    """Ends these, which may be stopped; returns what is wrong with how they ended, a text for each."""
    wrong = []
    for d in daemons:
        if d.poll() is None:
            d.send_signal(signal.SIGCONT)
            d.send_signal(signal.SIGTERM)
    end = time.monotonic() + patience
    for d in daemons:
        try:
            d.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            wrong.append("%s did not end within %.0f s of SIGTERM:\n%s" % (
                d.title, patience, "\n".join(d.written().decode("utf-8", "replace").splitlines()[-15:])))
            d.kill()
            d.wait()
    return wrong + list(filter(None, (d.complaint() for d in daemons)))

"""Steers tests/faults/diskfault.so: a disk that fails, hangs or is slow, below one daemon, while it runs.

    disk = DiskFault(os.path.join(dir, "n1.disk"))
    subprocess.Popen([raftd, ...], env=dict(os.environ, **disk.env))
    disk.sync_error(errno.EIO, count=1, kind="log")

Kinds of files: "log" (raftd/log), "state" (raftd/state*), "snapshot" (what else raftd keeps), "trail" (rpcd/*.log), "all" of them, or several
as a tuple; each has counts of its own.  For reads Berkeley DB's own log in raftd/state is a kind for itself, "state_log",
and "state" is the pages; what writes and syncs there is "state".  A fault holds at once and until clear().  Standard library only.
"""
import mmap
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("TV_BUILD", TOP)
LIBRARY = os.path.join(BUILD, "tests", "faults", "diskfault.so")
KINDS = {"log": 1, "state": 2, "snapshot": 3, "state_log": 4, "trail": 5}
ALWAYS = 0xffffffff


def _load_header():
    """Sizes and the order of fields, from the header, so that they cannot drift."""
    text = open(os.path.join(TOP, "tests", "faults", "diskfault.h"), encoding="utf-8").read()
    sizes = {k: int(v) for k, v in re.findall(r"^#define DISKFAULT_(BYTES|BLOCK) (\d+)$", text, re.M)}
    body = re.search(r"enum diskfault_field \{(.*?)\};", text, re.S).group(1)
    names = [n for n in re.findall(r"^\tDISKFAULT_(\w+)", body, re.M) if n not in ("COUNTERS", "FIELDS")]
    return sizes, {n.lower(): i for i, n in enumerate(names)}


SIZES, FIELDS = _load_header()


def preload(*libraries):
    """LD_PRELOAD for these, after the sanitizers' runtime when the daemons have it as a shared one."""
    try:
        from_config = open(os.path.join(BUILD, "config.h"), encoding="utf-8").read()
    except OSError:
        from_config = ""
    if "#define TV_SANITIZERS 1" not in from_config:
        return ":".join(libraries)
    maps = os.popen("ldd '%s'" % os.path.join(BUILD, "raftd", "raftd")).read()
    runtime = re.search(r"=> (\S*libasan\S*)", maps)
    return ":".join(([runtime.group(1)] if runtime else []) + list(libraries))


def missing():
    """Why faults cannot be made here, or None."""
    return None if os.path.exists(LIBRARY) else "%s is not built: make check TESTS=" % LIBRARY


class DiskFault:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(SIZES["BYTES"]))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), SIZES["BYTES"])
        self.words = memoryview(self.map).cast("I")

    @property
    def env(self):
        return {"LD_PRELOAD": preload(LIBRARY), "TV_DISKFAULT": self.path}

    @staticmethod
    def _kinds(kind):
        names = list(KINDS) if kind == "all" else [kind] if isinstance(kind, str) else list(kind)
        return [KINDS[n] for n in names]

    def _at(self, kind_number, field):
        return kind_number * SIZES["BLOCK"] // 4 + FIELDS[field]

    def _set(self, kind, **fields):
        for k in self._kinds(kind):
            for name, value in fields.items():
                self.words[self._at(k, name)] = value

    def _sum(self, field, kind):
        return sum(self.words[self._at(k, field)] for k in self._kinds(kind))

    # -- faults ------------------------------------------------------------

    def sync_error(self, errno, count=1, kind="all"):
        """The next `count` syncs of each kind fail; None: all of them, until clear()."""
        self._set(kind, sync_errno=errno)
        self._set(kind, sync_count=ALWAYS if count is None else count)

    def write_error(self, errno, count=1, kind="all", after=0, making=False):
        """The same for writes.  ENOSPC hits what needs space, other numbers also renaming, cutting, removing; making: only
        making files and folders.  So many of each kind are let through first."""
        self._set(kind, write_errno=errno, write_after=after, write_making=int(making))
        self._set(kind, write_count=ALWAYS if count is None else count)

    def read_error(self, errno, count=1, kind="all"):
        self._set(kind, read_errno=errno)
        self._set(kind, read_count=ALWAYS if count is None else count)

    def sync_delay(self, ms, kind="all"):
        """Each sync takes that much longer; 0 ends it, also for those under way."""
        self._set(kind, sync_delay_ms=ms)

    def read_delay(self, ms, count=None, kind="all"):
        """The next `count` reads of each kind take that much longer; None: all of them.  0 ends it, also for those under
        way.  One of some seconds is a read that hangs."""
        self._set(kind, read_delay_ms=ms)
        self._set(kind, read_delay_count=ALWAYS if count is None else count)

    def hang(self, on=True, kind="all", what="both"):
        """Calls of this kind wait until it ends: "sync", "write" (and making, renaming, removing files), "both" of them, or
        "read"."""
        self._set(kind, hang={"sync": 1, "write": 2, "both": 3, "read": 4}[what] if on else 0)

    def clear(self):
        for field in ("sync_count", "write_count", "read_count", "sync_delay_ms", "read_delay_ms",
                      "read_delay_count", "hang"):
            self._set("all", **{field: 0})

    # -- what happened -----------------------------------------------------

    @property
    def attached(self):
        """Processes that mapped the control file so far."""
        return self.words[0]

    @property
    def pid(self):
        """Of the last one."""
        return self.words[1]

    def syncs(self, kind="all"):
        return self._sum("syncs", kind)

    def writes(self, kind="all"):
        return self._sum("writes", kind)

    def reads(self, kind="all"):
        return self._sum("reads", kind)

    def reads_delayed(self, kind="all"):
        return self._sum("reads_delayed", kind)

    def failed(self, kind="all"):
        """Calls that were made to fail."""
        return self._sum("failed", kind)

    def delayed(self, kind="all"):
        return self._sum("delayed", kind)

    def hung(self, kind="all"):
        """Calls that were ever held back."""
        return self._sum("hung", kind)

    def hanging(self, kind="all"):
        """Calls that are held back now."""
        return self._sum("hanging", kind)

    def close(self):
        self.words.release()
        self.map.close()

"""Steers tests/faults/clockfault.so: clocks that jump, or run too fast or too slow, for the daemons of one node.

    clock = ClockFault(os.path.join(dir, "n1.clock"))
    subprocess.Popen([raftd, ...], env=dict(os.environ, **clock.env))
    clock.jump(-3600)
    clock.rate(+100000)

Standard library only.
"""
import mmap
import os
import re
import time

from diskfault import BUILD, TOP, preload

LIBRARY = os.path.join(BUILD, "tests", "faults", "clockfault.so")
SECOND = 1000000000


def _load_header():
    text = open(os.path.join(TOP, "tests", "faults", "clockfault.h"), encoding="utf-8").read()
    size = int(re.search(r"^#define CLOCKFAULT_BYTES (\d+)$", text, re.M).group(1))
    body = re.search(r"enum clockfault_field \{(.*?)\};", text, re.S).group(1)
    return size, {n.lower(): i for i, n in enumerate(re.findall(r"^\tCLOCKFAULT_(\w+)", body, re.M))}


SIZE, FIELDS = _load_header()


def missing():
    """Why clocks cannot be changed here, or None."""
    return None if os.path.exists(LIBRARY) else "%s is not built: make check TESTS=" % LIBRARY


class ClockFault:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(SIZE))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), SIZE)
        self.words = memoryview(self.map).cast("q")

    @property
    def env(self):
        return {"LD_PRELOAD": preload(LIBRARY), "TV_CLOCKFAULT": self.path}

    def _set(self, **fields):
        self.words[FIELDS["seq"]] += 1
        for name, value in fields.items():
            self.words[FIELDS[name]] = int(value)
        self.words[FIELDS["seq"]] += 1

    def _get(self, name):
        return self.words[FIELDS[name]]

    def jump(self, seconds):
        """CLOCK_REALTIME is that far from the truth, until the next jump."""
        self._set(wall_ns=seconds * SECOND)

    def rate(self, ppm):
        """CLOCK_MONOTONIC gains so many millionths from now on; what it has gained so far stays."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._set(rate_ppm=ppm, from_ns=now, base_ns=self.monotonic_ns(now))

    def monotonic_ns(self, now):
        """What the daemons see when the real clock shows now."""
        since = now - self._get("from_ns")
        return self._get("base_ns") + since + since * self._get("rate_ppm") // 1000000

    def clear(self):
        """Both run right again; the monotonic one keeps its lead or lag."""
        self.jump(0)
        self.rate(0)

    @property
    def reads(self):
        """Times that a daemon looked at a clock."""
        return self._get("reads")

    def close(self):
        self.words.release()
        self.map.close()

"""Three raftds, each with a disk that obeys the test (diskfault.py), and many keys for them.  Standard library only."""
import os

import diskfault
import tvframe
from cluster import skip
from raftcluster import KV_SET, MSG, OP, READ_DEFAULT, RaftCluster


class FaultCluster(RaftCluster):
    """Three servers, each with a disk that obeys the test."""

    def __init__(self, **options):
        if diskfault.missing():
            skip(diskfault.missing())
        super().__init__(3, **options)
        self.disks = {}
        for node in self.nodes:
            self.disks[node] = diskfault.DiskFault(os.path.join(node.dir, "disk"))
            node.env = self.disks[node].env

    def each_disk(self, fn):
        for disk in self.disks.values():
            fn(disk)

    def others(self, node):
        return [n for n in self.nodes if n is not node]

    def close(self):
        for disk in getattr(self, "disks", {}).values():
            disk.clear()
        super().close()


def write_of(key, value):
    return [OP.KV_APPLY, "", READ_DEFAULT, 0, 0, 0, "", [KV_SET, key, 0, value, 0, "", 0]]


def fill(leader, numbers, size):
    """Writes the keys of these numbers, hundreds at a time."""
    value, numbers = b"v" * size, list(numbers)
    with tvframe.Conn(leader.sock_path) as conn:
        for first in range(0, len(numbers), 500):
            some = numbers[first:first + 500]
            raw = b""
            for i in some:
                body = tvframe.pack(write_of("k/%06d" % i, value))
                raw += tvframe.HEAD.pack(len(body), MSG.OP, 0, i + 1) + body
            conn.send_raw(raw)
            for _ in some:
                answer = conn.wait(lambda f: f.flags & tvframe.REPLY)
                assert answer.body[0] == 0, answer.body[:2]

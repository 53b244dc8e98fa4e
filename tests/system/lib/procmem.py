"""The memory of a process, for tests that look for secrets in it."""
from cluster import SANITIZERS

BLOCK, OVERLAP = 1 << 20, 64                    # longer than any form
ZEROS = bytes(BLOCK + OVERLAP)


def memory(pid):
    """All that a process can read of its own memory, piece by piece."""
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if line.rstrip().endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")) or (mode[0] != "r" and mode[1] != "-"):
                continue
            if SANITIZERS and end - start > 1 << 32:
                continue        # what they remember of each byte, terabytes of nothing
            try:        # also what mprotect has closed for a time: root reads it all the same
                mem.seek(start)
                piece = mem.read(end - start)
            except (OSError, OverflowError, ValueError):
                continue
            for at in range(0, len(piece), BLOCK):      # most of a cache is empty
                block = piece[at:at + BLOCK + OVERLAP]
                if block != ZEROS:
                    yield block

"""Processes as the kernel shows them."""


def children(pid):
    """The process ids of those that a process's first thread has started and that live."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(n) for n in f.read().split()]


def title(pid):
    """What a process calls itself; "" of one that has ended."""
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def keys_process(node):
    """The process id of "rpcd: keys" of a node, not of its monitor, which has the same name; None: there is none now."""
    return next((c for m in children(node.pid("rpcd")) for c in children(m) if title(c) == "rpcd: keys"), None)

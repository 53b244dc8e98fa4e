"""Puts up the walls that a systemd unit names, and becomes its program: unitwalls.py UNIT SETS

SETS holds the sets of system calls of a version of systemd (tests/data/systemd), so that a unit can be tried as on that
one, whichever is installed.  A call outside of them ends the process, also where the unit would let it fail.  libseccomp
does the work.  Needs root and a mount name space of its own.
"""
import ctypes
import os
import re
import resource
import socket
import subprocess
import sys

KILL, ALLOW = 0x80000000, 0x7FFF0000
EQ, MASKED_EQ = 4, 7
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPS = {"CAP_SETGID": 6, "CAP_SETUID": 7}       # those that our units may name
CAP_LAST = 63
CLONE_NEW = 0x7E020080                          # any of the name spaces


class Cmp(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


libc = ctypes.CDLL(None, use_errno=True)
lib = ctypes.CDLL("libseccomp.so.2")
lib.seccomp_init.restype = ctypes.c_void_p
lib.seccomp_init.argtypes = [ctypes.c_uint32]
lib.seccomp_load.argtypes = [ctypes.c_void_p]
lib.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Cmp)]


def error(number):
    return 0x00050000 | number


def must(rc, what):
    if rc != 0:
        sys.exit("unitwalls: %s: %s" % (what, os.strerror(-rc if rc < 0 else ctypes.get_errno())))


def unit(path):
    """{key: [values]} of the [Service] section; an empty value forgets the ones before it."""
    keys, section = {}, None
    with open(path) as f:
        for line in map(str.strip, f):
            head = re.fullmatch(r"\[(\w+)\]", line)
            section = head.group(1) if head else section
            if section == "Service" and "=" in line and not line.startswith("#"):
                key, value = line.split("=", 1)
                keys[key] = keys.get(key, []) + [value] if value else []
    return keys


def sets(path):
    """{"@name": [members]}"""
    found, name = {}, None
    with open(path) as f:
        for line in f:
            if line.startswith("@"):
                name = line.strip()
                found[name] = []
            elif not line.startswith("#"):
                found[name].append(line.strip())
    return found


def expand(words, known):
    calls = set()
    for w in words:
        calls |= expand(known[w], known) if w.startswith("@") else {w}
    return calls


def allowed(values, known):
    calls = expand(["@default"], known)
    for v in values:
        change = expand(v.lstrip("~").split(), known)
        calls = calls - change if v.startswith("~") else calls | change
    return calls


class Filter:
    def __init__(self, default):
        self.ctx = lib.seccomp_init(default)

    def rule(self, action, call, *compared):
        nr = lib.seccomp_syscall_resolve_name(call.encode())
        if nr == -1:
            return                              # of another architecture
        rules = (Cmp * len(compared))(*(Cmp(*c) for c in compared))
        rc = lib.seccomp_rule_add_array(self.ctx, action, nr, len(compared), rules)
        if rc != -33:                           # EDOM: has other arguments here
            must(rc, "rule for " + call)

    def load(self):
        must(lib.seccomp_load(self.ctx), "seccomp")


def restrict(u):
    """What is forbidden by its arguments."""
    f = Filter(ALLOW)
    if "RestrictAddressFamilies" in u:
        mine = {getattr(socket, n) for n in " ".join(u["RestrictAddressFamilies"]).split()}
        for family in set(range(64)) - mine:
            f.rule(error(97), "socket", (0, EQ, family, 0))
    if yes(u, "MemoryDenyWriteExecute"):
        f.rule(error(1), "mmap", (2, MASKED_EQ, 6, 6))
        for call in "mprotect", "pkey_mprotect":
            f.rule(error(1), call, (2, MASKED_EQ, 4, 4))
        f.rule(error(1), "shmat", (2, MASKED_EQ, 0o100000, 0o100000))
    if yes(u, "RestrictNamespaces"):
        for call in "unshare", "setns":
            f.rule(error(1), call)
        for bit in range(32):
            if CLONE_NEW >> bit & 1:
                f.rule(error(1), "clone", (0, MASKED_EQ, 1 << bit, 1 << bit))
        f.rule(error(38), "clone3")
    if yes(u, "RestrictRealtime"):
        for policy in range(1, 8):
            if policy not in (3, 5):            # batch and idle
                f.rule(error(1), "sched_setscheduler", (1, EQ, policy, 0))
    if yes(u, "RestrictSUIDSGID"):
        for call, arg in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1),
                          ("mknodat", 2), ("creat", 1)):
            for bit in 0o4000, 0o2000:
                f.rule(error(1), call, (arg, MASKED_EQ, bit, bit))
    if yes(u, "LockPersonality"):
        f.rule(error(1), "personality")
    f.load()


def yes(u, key):
    return u.get(key, ["no"])[-1] in ("yes", "true", "1", "on")


def read_only(u):
    """ProtectSystem=strict: nothing but what the unit names can be written."""
    assert u["ProtectSystem"] == ["strict"], u["ProtectSystem"]
    keep = [p.lstrip("-") for v in u.get("ReadWritePaths", []) for p in v.split()]
    keep += ["/var/lib/" + p for p in u.get("StateDirectory", [])] + ["/run/" + p for p in u.get("RuntimeDirectory", [])]
    for p in set(keep):
        os.makedirs(p, exist_ok=True)
        subprocess.run(["mount", "--bind", p, p], check=True)
    with open("/proc/self/mountinfo") as f:
        mounts = [line.split()[4] for line in f]
    for m in mounts:
        if not m.startswith(tuple(keep)) and not m.startswith(("/proc", "/sys", "/dev")):
            subprocess.run(["mount", "-o", "remount,bind,ro", m], check=True)


def main(path, known):
    u = unit(path)
    calls = allowed(u["SystemCallFilter"], sets(known))
    read_only(u)
    os.setgroups([int(line.split(":")[2]) for line in open("/etc/group")
                  if line.split(":")[0] in " ".join(u.get("SupplementaryGroups", [])).split()])
    os.umask(int(u.get("UMask", ["022"])[-1], 8))
    for key, limit in (("LimitNOFILE", resource.RLIMIT_NOFILE), ("LimitCORE", resource.RLIMIT_CORE)):
        n = min(int(u[key][-1]), resource.getrlimit(limit)[1] % (1 << 64))      # as far as we may, as systemd does
        resource.setrlimit(limit, (n, n))
    keep = {CAPS[c] for c in " ".join(u["CapabilityBoundingSet"]).split()}
    for cap in set(range(CAP_LAST + 1)) - keep:
        libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)       # EINVAL beyond the last one
    assert yes(u, "NoNewPrivileges")
    must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    restrict(u)
    f = Filter(KILL)            # another architecture's calls end the process as well
    for call in sorted(calls):
        f.rule(ALLOW, call)
    f.load()
    program = u["ExecStart"][-1].split()
    os.execv(program[0], program)


if __name__ == "__main__":
    main(*sys.argv[1:])

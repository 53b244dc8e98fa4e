"""Makes a running process do system calls, as whoever has taken it over would: by ptrace, without the C library's help.  x86-64 only."""
import ctypes
import errno
import os
import platform
import signal
import socket
import struct

from waiting import PATIENCE, Timeout, wait_for

NUMBERS = {
    "close": 3, "socket": 41, "connect": 42, "sendto": 44, "recvfrom": 45, "setsockopt": 54, "clone": 56, "fork": 57, "vfork": 58, "execve": 59,
    "kill": 62, "ptrace": 101, "setuid": 105, "setresuid": 117, "mount": 165, "openat": 257, "clone3": 435,
}
CONT, SINGLESTEP, GETREGS, SETREGS, ATTACH, DETACH = 7, 9, 12, 13, 16, 17
# Places in struct user_regs_struct of <sys/user.h>, in words of 8 bytes.
REGS, RAX, ORIG_RAX, RIP, RSP = 27, 10, 15, 16, 19
ARGUMENTS = 14, 13, 12, 7, 9, 8     # rdi, rsi, rdx, r10, r8, r9
SYSCALL = b"\x0f\x05"
WALL = 0x40000000
PIECE = 1024        # of what goes through a HeldSocket
SCRATCH = 4096      # below the stack pointer: more than the red zone and all that is pointed to

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def missing():
    """Why it cannot be done here, or None."""
    if os.geteuid() != 0:
        return "needs root, to look into daemons of other users"
    if platform.machine() != "x86_64":
        return "knows the registers of x86-64 only"
    return None


def _ptrace(request, pid, data=None):
    if _libc.ptrace(request, pid, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace %d of %d: %s" % (request, pid, os.strerror(ctypes.get_errno())))


def _instruction(pid, mem):
    """Where a syscall instruction stands in the process; the vDSO has one at the latest."""
    with open("/proc/%d/maps" % pid) as maps:
        for line in maps:
            span, mode = line.split()[:2]
            if mode.startswith("r-x"):
                start, end = (int(x, 16) for x in span.split("-"))
                mem.seek(start)
                at = mem.read(end - start).find(SYSCALL)
                if at >= 0:
                    return start + at
    raise AssertionError("process %d has no syscall instruction" % pid)


class Room(int):
    """Given as an argument: bytes to point to, which the call fills; they are its result then."""


class _Stopped:
    """A process that is stopped, and goes on as if nothing had been."""

    def __init__(self, pid):
        self.pid, self.signal = pid, 0

    def __enter__(self):
        _ptrace(ATTACH, self.pid)
        self.wait(signal.SIGSTOP)
        self.mem = open("/proc/%d/mem" % self.pid, "r+b", 0)
        self.regs = self.get()
        self.instruction = _instruction(self.pid, self.mem)
        self.scratch = (self.regs[RSP] - SCRATCH) & ~15
        self.mem.seek(self.scratch)
        self.before = self.mem.read(SCRATCH // 2)
        return self

    def __exit__(self, *_):
        if os.path.exists("/proc/%d/maps" % self.pid):
            self.mem.seek(self.scratch)
            self.mem.write(self.before)
            self.set(self.regs)
            _ptrace(DETACH, self.pid, self.signal)
        self.mem.close()

    def wait(self, expected):
        """Until it stops for this; another signal that comes meanwhile is handed over at the end."""
        while True:
            _, status = os.waitpid(self.pid, WALL)
            assert os.WIFSTOPPED(status), "process %d ended, status %#x" % (self.pid, status)
            if os.WSTOPSIG(status) == expected:
                return
            self.signal = os.WSTOPSIG(status)
            _ptrace(SINGLESTEP if expected == signal.SIGTRAP else CONT, self.pid)

    def get(self):
        raw = ctypes.create_string_buffer(REGS * 8)
        _ptrace(GETREGS, self.pid, ctypes.addressof(raw))
        return list(struct.unpack("%dQ" % REGS, raw.raw))

    def set(self, regs):
        raw = ctypes.create_string_buffer(struct.pack("%dQ" % REGS, *regs), REGS * 8)
        _ptrace(SETREGS, self.pid, ctypes.addressof(raw))

    def call(self, name, *args):
        regs, at, room = list(self.regs), self.scratch, None
        for place, arg in zip(ARGUMENTS, args):
            if isinstance(arg, (bytes, Room)):
                size = arg if isinstance(arg, Room) else len(arg)
                assert at + size < self.scratch + len(self.before), "too much to point to"
                if isinstance(arg, Room):
                    room = at
                else:
                    self.mem.seek(at)
                    self.mem.write(arg)
                arg, at = at, (at + size + 16) & ~15
            regs[place] = arg & (1 << 64) - 1
        regs[RAX], regs[ORIG_RAX], regs[RIP] = NUMBERS[name], (1 << 64) - 1, self.instruction
        self.set(regs)
        _ptrace(SINGLESTEP, self.pid)
        self.wait(signal.SIGTRAP)
        result = self.get()
        assert result[RIP] == self.instruction + len(SYSCALL), "the call was not made"
        said = struct.unpack("q", struct.pack("Q", result[RAX]))[0]
        if room is None or said < 0:
            return said
        self.mem.seek(room)
        return self.mem.read(said)


def inside(pid, *calls):
    """Process pid makes these calls, each a name and up to six integers, bytes to point to or Room; their results, below 0 -errno.
    A call that is a function gets the result before it, and returns such a call."""
    results = []
    with _Stopped(pid) as stopped:
        for call in calls:
            results.append(stopped.call(*(call(results[-1]) if callable(call) else call)))
    return results


class HeldSocket:
    """A connection to the unix socket at this path that the process makes and keeps: what it says and hears, it says and hears.
    With as much of a socket's face as tvframe.Conn needs."""

    def __init__(self, pid, path):
        addr = (struct.pack("<H", socket.AF_UNIX) + path.encode()).ljust(110, b"\0")
        self.pid, self.timeout = pid, PATIENCE
        self.fd, connected = inside(pid, ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
                                    lambda fd: ("connect", fd, addr, len(addr)))
        if connected < 0:
            raise OSError(-connected, os.strerror(-connected))

    def settimeout(self, seconds):
        self.timeout = seconds

    def sendall(self, data):
        for at in range(0, len(data), PIECE):
            piece = data[at:at + PIECE]
            sent, = inside(self.pid, ("sendto", self.fd, piece, len(piece), socket.MSG_NOSIGNAL, 0, 0))
            assert sent == len(piece), sent

    def recv(self, _):
        def heard():
            said, = inside(self.pid, ("recvfrom", self.fd, Room(PIECE), PIECE, socket.MSG_DONTWAIT, 0, 0))
            return None if said == -errno.EAGAIN else (said,)
        try:
            said, = wait_for("bytes for the process", heard, timeout=self.timeout, interval=0.001)
        except Timeout as e:
            raise socket.timeout(str(e)) from e
        if isinstance(said, int):
            raise OSError(-said, os.strerror(-said))
        return said

    def close(self):
        inside(self.pid, ("close", self.fd))

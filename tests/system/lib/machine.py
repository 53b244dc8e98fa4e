"""A machine whose PID 1 is a real systemd, in name spaces of its own, with what `make install` installs.

Its /usr is this machine's, read-only; /usr/local, /etc, /var, /run and the network are its own, and so is its tree of
control groups.  The test program has to be in mount and network name spaces of its own: netns.enter(mounts=True).
Standard library only; unshare, nsenter, ip and systemd are used.
"""
import atexit
import os
import shutil
import signal
import subprocess
import tempfile

import netns
from cluster import BUILD
from procs import children
from waiting import wait_for

SYSTEMD = "/lib/systemd/systemd"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Runs as PID 1 to be.  $1: an empty folder, $2: the folder that `make install` filled, then what to become.
SETUP = r"""
set -eu
root=$1 stage=$2
mount -t tmpfs -o mode=755 root "$root"
cp -a --no-preserve=ownership "$stage/." "$root/"
cd "$root"
mkdir -p usr etc/systemd/system run var/log/journal var/lib var/tmp tmp proc sys dev root old
chmod 1777 tmp var/tmp
ln -s /run var/run
for l in bin sbin lib lib64; do [ ! -L "/$l" ] || ln -s "$(readlink "/$l")" "$l"; done
mv usr/local local
mount --bind /usr usr
mount -o remount,bind,ro usr
mount --bind local usr/local
cp -a /etc/ld.so.cache /etc/nsswitch.conf etc/
for f in passwd group shadow gshadow; do [ ! -f "/etc/$f" ] || grep -v '^_' "/etc/$f" >"etc/$f"; done
: >etc/machine-id
printf '[Unit]\nRequires=systemd-journald.service\nAfter=systemd-journald.service\n' >etc/systemd/system/test.target
# A build with sanitizers looks for leaks by ptrace, which the units forbid.
mkdir -p etc/systemd/system.conf.d
printf '[Manager]\nDefaultEnvironment=ASAN_OPTIONS=detect_leaks=0\n' >etc/systemd/system.conf.d/test.conf
# Nothing of this machine's hardware, kernel or accounts is theirs.
for u in systemd-udevd.service systemd-udev-trigger.service systemd-sysctl.service systemd-modules-load.service \
    systemd-binfmt.service systemd-timesyncd.service systemd-resolved.service systemd-networkd.service \
    sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount \
    proc-sys-fs-binfmt_misc.automount dev-hugepages.mount; do ln -s /dev/null "etc/systemd/system/$u"; done
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
for n in null zero full random urandom tty; do touch "dev/$n"; mount --bind "/dev/$n" "dev/$n"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs shm dev/shm
mount -t tmpfs -o mode=755 run run
ip link set lo up
pivot_root . old
umount -l old
shift 2
exec env -i container=test PATH="$PATH" "$@"
"""


class Lab:
    """What all machines of a test have in common: the installed files, the control groups, a switch."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tv-lab-", dir="/var/tmp")
        self.machines = []
        atexit.register(self.close)
        self.stage, self.groups = self.dir + "/stage", self.dir + "/cgroup"
        os.chmod(self.dir, 0o755)
        p = subprocess.run(["make", "-s", "-C", BUILD, "install", "DESTDIR=" + self.stage], capture_output=True, text=True)
        assert p.returncode == 0, "make install: " + p.stdout + p.stderr
        os.mkdir(self.groups)
        netns.run(["mount", "-t", "cgroup2", "cgroup2", self.groups])
        netns.run(["ip", "link", "add", "switch", "type", "bridge"])
        netns.run(["ip", "link", "set", "switch", "up"])

    @staticmethod
    def impossible():
        """Why no systemd can be run here; None when one can."""
        if not netns.isolated():
            return "needs root and name spaces"
        if not os.access(SYSTEMD, os.X_OK):
            return "needs systemd"
        with tempfile.TemporaryDirectory() as d:
            for cmd in (["mount", "-t", "cgroup2", "cgroup2", d], ["mkdir", d + "/tv-probe-%d" % os.getpid()],
                        ["ip", "link", "add", "tvprobe", "type", "bridge"],
                        ["unshare", "--pid", "--fork", "--mount", "--net", "--uts", "--ipc", "--cgroup", "true"]):
                p = subprocess.run(cmd, capture_output=True, text=True)
                if p.returncode != 0:
                    break
            subprocess.run(["rmdir", d + "/tv-probe-%d" % os.getpid()], capture_output=True)
            subprocess.run(["umount", d], capture_output=True)
            subprocess.run(["ip", "link", "del", "tvprobe"], capture_output=True)
        return None if p.returncode == 0 else "%s: %s" % (" ".join(cmd[:4]), p.stderr.strip())

    def machine(self, *addresses, init=(SYSTEMD, "--system", "--unit=test.target")):
        m = Machine(self, "m%d" % (len(self.machines) + 1), addresses, init)
        self.machines.append(m)
        m.boot()
        return m

    def close(self):
        for m in self.machines:
            m.halt()
        self.machines = []
        subprocess.run(["ip", "link", "del", "switch"], capture_output=True)
        subprocess.run(["umount", self.groups], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is not None:
            for m in self.machines:
                print("--- journal of %s\n%s" % (m.name, m.journal(tail=60)), flush=True)
        self.close()


class Machine:
    def __init__(self, lab, name, addresses, program):
        self.lab, self.name, self.addresses, self.program = lab, name, addresses, program
        self.group = "%s/tv-%d-%s" % (lab.groups, os.getpid(), name)
        self.errors = "%s/%s.errors" % (lab.dir, name)
        self.holder = self.init = None

    def boot(self):
        root = "%s/%s" % (self.lab.dir, self.name)
        os.mkdir(root)
        os.mkdir(self.group)
        self.holder = subprocess.Popen(
            ["sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec unshare --pid --fork --kill-child --mount --net --uts --ipc '
             '--cgroup --mount-proc sh -c "$@"', "sh", self.group, SETUP, "sh", root, self.lab.stage, *self.program],
            stdin=subprocess.DEVNULL, stderr=open(self.errors, "w"), env=dict(os.environ, PATH=PATH))
        self.init = wait_for("PID 1 of " + self.name, self.first_process)
        if self.program[0] == SYSTEMD:
            wait_for("systemd has booted",
                     lambda: self.run("systemctl", "is-active", "-q", "test.target").returncode == 0)
        # A bridge in our network and a wire into theirs.
        netns.run(["ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self.init)])
        netns.run(["ip", "link", "set", self.name, "master", "switch", "up"])
        self.ok("ip", "link", "set", "eth0", "up")
        for address in self.addresses:
            self.address(address)

    def first_process(self):
        """PID 1 of the machine, seen from here, once it is what it is to be."""
        if self.holder.poll() is not None:
            with open(self.errors) as f:
                raise RuntimeError("%s did not start: %s" % (self.name, f.read()))
        pids = children(self.holder.pid)
        if not pids:
            return None
        pid = pids[0]
        return pid if os.path.samefile("/proc/%d/exe" % pid, self.program[0]) else None

    def address(self, address):
        self.ok("ip", "addr", "add", address + "/24", "dev", "eth0")

    def inside(self, *cmd):
        return ["nsenter", "-t", str(self.init), "-a", "-r", "-w", "env", "-i", "PATH=" + PATH, *cmd]

    def run(self, *cmd, timeout=120, input=None):
        return subprocess.run(self.inside(*cmd), capture_output=True, text=True, timeout=timeout, input=input)

    def ok(self, *cmd, **kw):
        """What a command printed; it has to succeed."""
        p = self.run(*cmd, **kw)
        assert p.returncode == 0, "%s: status %d: %s%s" % (" ".join(cmd), p.returncode, p.stdout, p.stderr)
        return p.stdout

    def write(self, path, text):
        self.ok("sh", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "sh", path, input=text)

    def show(self, unit, *properties):
        """{property: value} of a unit."""
        out = self.ok("systemctl", "show", unit, *("-p" + p for p in properties))
        return dict(line.split("=", 1) for line in out.splitlines())

    def active(self, unit):
        return self.show(unit, "ActiveState")["ActiveState"] == "active"

    def journal(self, *args, tail=None):
        lines = self.run("journalctl", "--no-pager", "-o", "cat", *args).stdout.splitlines()
        return "\n".join(lines[-tail:] if tail else lines)

    def halt(self):
        if self.holder is None:
            return
        try:
            os.kill(self.init or self.holder.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.holder.wait()
        wait_for("the control groups of %s are gone" % self.name, self.remove_groups)
        self.holder = None

    def remove_groups(self):
        for top, folders, _ in os.walk(self.group, topdown=False):
            for f in folders:
                os.rmdir(os.path.join(top, f))
        os.rmdir(self.group)
        return True

"""A small file system of its own below a folder, to be filled up and emptied while daemons work in it.

    if reason: skip(reason)             # smalldisk.missing()
    disk = SmallDisk(node.data, "64M")
    disk.fill(leave=1 << 20); ...; disk.free()

tmpfs, or with kind="ext4" a real one in a file.  Root only.  Unmounted by close(), and at exit.
"""
import atexit
import os
import shutil
import subprocess

FILLER = "filler"


def missing():
    """Why small file systems cannot be made here, or None."""
    if os.geteuid() != 0:
        return "mounting needs root"
    probe = "/run/tv-smalldisk-%d" % os.getpid()
    os.mkdir(probe)
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tv", probe], capture_output=True)
        if done.returncode == 0:
            subprocess.run(["umount", probe], check=True)
        return None if done.returncode == 0 else "mount is not allowed here"
    except FileNotFoundError:
        return "no mount program"
    finally:
        os.rmdir(probe)


class SmallDisk:
    def __init__(self, path, size, kind="tmpfs"):
        self.path, self.image = path, None
        if kind == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=755" % size, "tv", path], check=True)
        else:
            self.image = path.rstrip("/") + ".img"
            subprocess.run(["truncate", "-s", size, self.image], check=True)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True)
            subprocess.run(["mount", "-o", "loop", self.image, path], check=True)
        self.mounted = True
        atexit.register(self.close)

    def available(self):
        v = os.statvfs(self.path)
        return v.f_bavail * v.f_frsize

    def fill(self, leave=0):
        """Another program takes what there is but `leave` bytes; with 0 it comes back for more until nothing is left."""
        with open(os.path.join(self.path, FILLER), "ab") as f:
            want = max(0, self.available() - leave)
            if want and leave:
                os.posix_fallocate(f.fileno(), f.tell(), want)
            size = 1 << 20
            while leave == 0 and size >= 4096:
                try:
                    os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, size)
                except OSError:
                    size //= 2

    def free(self):
        path = os.path.join(self.path, FILLER)
        if os.path.exists(path):
            os.unlink(path)

    def resize(self, size):
        subprocess.run(["mount", "-o", "remount,size=%s" % size, self.path], check=True)

    def close(self):
        if self.mounted:
            self.mounted = False
            subprocess.run(["umount", "-l", self.path], check=False)
            if self.image:
                os.unlink(self.image)


def have_ext4():
    return shutil.which("mkfs.ext4") is not None and os.path.exists("/dev/loop-control")

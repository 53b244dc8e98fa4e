"""Libraries of tests/faults that any test can run under, by TV_PRELOAD_RAFTD in its environment.

    TV_PRELOAD_RAFTD=loopfile tests/system/test_raftd.py

loopfile: raftd ends when its loop touches a file below data_dir (tests/faults/loopfile.c).  Standard library only.
"""
import os

from diskfault import BUILD, preload

KNOWN = ("loopfile",)


def library(name):
    return os.path.join(BUILD, "tests", "faults", name + ".so")


def loopfile(data_dir, env):
    """env and what puts loopfile.so before a daemon, and before whatever else is preloaded."""
    assert os.path.exists(library("loopfile")), "%s is not built: make check TESTS=" % library("loopfile")
    mine = preload(library("loopfile")).split(":")      # a sanitizer's runtime stays the first
    others = [p for p in env.get("LD_PRELOAD", "").split(":") if p and p not in mine]
    return dict(env, TV_LOOPFILE=data_dir, LD_PRELOAD=":".join(mine + others))


def raftd(data_dir, env):
    """The environment of a raftd, as TV_PRELOAD_RAFTD asks for it."""
    name = os.environ.get("TV_PRELOAD_RAFTD")
    if not name:
        return env
    assert name in KNOWN, "TV_PRELOAD_RAFTD=%s: not one of %s" % (name, ", ".join(KNOWN))
    return loopfile(data_dir, env)

#!/usr/bin/env python3
"""What only one module may call: mechanisms that have one home each, outside the tests.

HOMES is the list: the functions, and the files that may name them.  A new mechanism is a row.
"""
import glob
import os
import re
import sys

TOP = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = "common", "ctl", "gossipd", "raftd", "rpcd"
HOMES = {
    ("pthread_create", "pthread_sigmask", "pthread_setname_np", "pthread_attr_init", "pthread_condattr_init",
     "pthread_cond_timedwait", "pthread_cond_clockwait"): ("common/proc/thread.c",),
    ("clock_gettime",): ("common/base/clock.c",),
    # The log's next file, never over another; whole data bases that change places, each step with a rule of its own.
    ("rename", "renameat", "renameat2"): ("common/base/file.c", "raftd/store/store_spare.c", "raftd/fsm/copy/replace.c"),
    ("inet_pton", "inet_ntop", "inet_aton", "inet_addr", "inet_ntoa"): ("common/base/addr.c",),
    # Bytes of a connection.  The others: messages to the log and to the monitor of helpers, which no loop waits for, and a datagram.
    # clusterctl waits in the call.
    ("recv", "send"): ("common/net/stream.c", "common/base/log_out.c", "common/proc/helper_main.c", "common/proc/helper_monitor.c",
                       "rpcd/check/probe_udp.c", "ctl/raftd_leave.c"),
    ("accept4",): ("common/net/listener.c",),
}
APART = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)     # comments and texts


def calls(text):
    """[(line, function)] of the code in text that HOMES names."""
    code = APART.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    names = "|".join(name for row in HOMES for name in row)
    return [(code.count("\n", 0, m.start()) + 1, m.group(1)) for m in re.finditer(r"(?<![\w.>])(%s)\(" % names, code)]


def strays(files):
    """[sentence] for each call in a file that is not its home, and for each home that has none; files: {path: text}."""
    wrong, met = [], set()
    for path, text in sorted(files.items()):
        for line, name in calls(text):
            homes = next(homes for row, homes in HOMES.items() if name in row)
            met.add((path, name))
            if path not in homes:
                wrong.append(f"{path}:{line}: {name}() is called in {', '.join(homes)} only")
    for row, homes in HOMES.items():
        wrong += [f"{home}: is the home of {row[0]}() and calls none of its row" for home in homes
                  if not any((home, name) in met for name in row)]
    return wrong


def check_itself():
    home = {}
    for row, homes in HOMES.items():
        for path in homes:
            home[path] = home.get(path, "") + f"\t{row[0]}(a, b, c, d);\n"
    right = dict(home, **{"raftd/a.c": '/* pthread_create() */\n\tsay("pthread_create(");\n\tpthread_join(t, NULL);\n'})
    wrong = dict(home, **{"raftd/a.c": "\n\tif (pthread_create(a, b, c, d))\n"})
    return not strays(right) and [s.split()[0] for s in strays(wrong)] == ["raftd/a.c:2:"] and len(strays({})) == sum(map(len, HOMES.values()))


def main():
    if not check_itself():
        print("once.py does not tell right from wrong")
        return 1
    files = {}
    for path in (p for d in FOLDERS for p in glob.glob(os.path.join(TOP, d, "**", "*.[ch]"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            files[os.path.relpath(path, TOP)] = f.read()
    wrong = strays(files)
    for sentence in wrong:
        print(sentence)
    if not wrong:
        print(f"{len(files)} files call {sum(map(len, HOMES))} functions where they belong")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())

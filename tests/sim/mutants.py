#!/usr/bin/env python3
"""Rules of raftd/core broken on purpose: does the simulator notice?

    tests/sim/mutants.py [--seeds N] [--work DIR] [WORDS...]

Each mutant is a copy of the core with one rule changed, compiled and run: seeds 1 to N (2000), then the scripts.  It
prints the table of doc/testing.md.  WORDS choose mutants whose names have them all.  Needs a configured build folder
as current directory (config.h, common/libtvcore.a).  Status 1 when a mutant survives both, or a text to change is not found.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

SRC = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CFLAGS = ["-std=gnu17", "-O2", "-w", "-D_GNU_SOURCE", "-DTV_SRCDIR=\"%s\"" % SRC]

# rule, file, text, text instead
MUTANTS = [
    ("leader counts its own entry only when durable", "replicate.c",
     "v[n++] = r->persisted;", "v[n++] = r->log.last;"),
    ("only own-term entries are committed by counting", "replicate.c",
     "|| term != r->term)\n\t\treturn;\n\traft_commit_to", ")\n\t\treturn;\n\traft_commit_to"),
    ("no change before an own-term entry is committed", "members.c",
     "if (r->commit < r->own_first || r->transfer.active)", "if (r->transfer.active)"),
    ("one change at a time", "members.c",
     "return r->newest->config.index > r->commit ? TV_ECONFLICT : TV_OK;", "return TV_OK;"),
    ("the log decides about a vote", "election.c",
     "return m->log_term > term || (m->log_term == term && m->log_index >= r->log.last);", "(void)term; return true;"),
    ("one vote per term", "election.c",
     "bool grant = (r->vote == 0 || r->vote == m->from) &&", "bool grant ="),
    ("vote leaves after the disk has it", "raft.c", "s->after_hard = true;", "s->after_hard = false;"),
    ("entries are acknowledged when durable", "follow.c",
     "s->after_append = m->entry_count > 0 && verified > r->persisted;\n\ts->msg.match = s->after_append ? verified :",
     "s->after_append = false;\n\ts->msg.match = m->entry_count > 0 ? verified :"),
    ("a heartbeat's answer reports only what is durable", "follow.c",
     "return verified < r->persisted ? verified : r->persisted;", "(void)r; return verified;"),
    ("completions from before a cut are ignored", "raft.c",
     "if (in->ctx != r->write_epoch || in->index", "if (in->index"),
    ("a read waits for its round", "readindex.c",
     "return n >= quorum ? raft_kth_largest(v, n, quorum) : 0;", "(void)quorum; return r->seq;"),
    ("a read waits for an own-term commit", "readindex.c", "r->commit < r->own_first", "false"),
    ("short appends cut nothing", "follow.c",
     "if (skip < count) {", "if (skip == m->entry_count && verified < r->log.last && verified >= r->commit)\n"
     "\t\tcut(r, verified + 1);\n\tif (skip < count) {"),
    ("a cut restores the configuration", "follow.c", "members_truncate(r, from);", ";"),
    ("commit no further than the append vouches for", "follow.c",
     "if (m->commit > r->commit && verified > r->commit)\n\t\traft_commit_to(r, m->commit < verified ? m->commit : verified);",
     "if (m->commit > r->commit && r->log.last > r->commit)\n\t\traft_commit_to(r, m->commit < r->log.last ? m->commit :"
     " r->log.last);"),
    ("`match` is what is durable, not what was received", "follow.c",
     "s->msg.match = s->after_append ? verified : follow_durable(r, verified);", "s->msg.match = verified;"),
    ("lost window and compacted log lead to a snapshot", "replicate.c",
     "if (p->progress == PROGRESS_PIPELINE && !logidx_term(&r->log, p->next - 1, &term))\n\t\tsnapshot_need(r, p);", "(void)term;"),
    ("majority is more than half", "members.c",
     "return raft_config_voters(&r->newest->config) / 2 + 1;", "return (raft_config_voters(&r->newest->config) + 1) / 2;"),
    ("a candidate outside its configuration has no vote", "election.c",
     "unsigned yes = r->self_voter, no = 0;", "unsigned yes = 1, no = 0;"),
    ("a leader outside its configuration is not counted", "replicate.c",
     "if (r->self_voter)\n\t\tv[n++] = r->persisted;", "v[n++] = r->persisted;"),
    ("a server that the newest configuration leaves out may stand", "members.c",
     "return self != NULL && self->voter;\n}\n\n/* Notices", "(void)self; return false;\n}\n\n/* Notices"),
    ("published commit index is durable", "raft.c",
     "return r->commit < r->persisted ? r->commit : r->persisted;", "return r->commit;"),
    ("a snapshot replaces the log", "snapshot.c",
     "logidx_reset(&r->log, m->log_index, m->log_term);\n\tr->write_epoch++;", "r->write_epoch++;"),
    ("a snapshot brings its configuration", "snapshot.c", "members_reset(r, &c);", ";"),
    ("a refused chunk names progress", "snapshot.c",
     "answer(r, m->log_index, false, same_snapshot(in, m) ? in->handed : 0, false);", ";"),
    ("transfers time out", "election.c",
     "if (r->transfer.active && !mono_before(r->now, r->transfer.due))", "if (false)"),
    ("a live leader is not disturbed", "election.c",
     "if (!r->opt.check_quorum)\n\t\treturn false;\n\tif (r->role", "return false;\n\tif (r->role"),
    ("a leader without a majority steps down", "election.c",
     "if (alive >= members_quorum(r))\n\t\treturn;", "return;"),
    ("a vote is not taken back", "election.c",
     "raft_set_hard(r, term, role == RAFT_CANDIDATE ? r->opt.self : 0);", "raft_set_hard(r, term, 0);"),
    ("a late TIMEOUT_NOW is ignored", "election.c",
     "if (m->log_index != r->log.last || m->log_term != logidx_last_term(&r->log) || r->term + 1 >= RAFT_NUMBER_MAX)",
     "if (r->term + 1 >= RAFT_NUMBER_MAX)"),
    ("a lagging learner is not promoted", "members.c", "if (p != NULL && !replicate_caught_up(r, p))", "if (false)"),
    ("an acknowledged offset is never above what is stored", "snapshot.c",
     "in->handed = offset;\n\t\tin->installing = false;", ";"),
    ("the log is frozen while a snapshot is installed", "follow.c", "if (r->incoming.installing) {", "if (false) {"),
    ("reads fail when leadership is lost", "election.c",
     "read_fail_all(r);", ";"),
]


def compile_one(source, out, includes):
    subprocess.run(["gcc"] + CFLAGS + includes + ["-c", source, "-o", out], check=True)


def simulator(work):
    """Objects of the simulator, which are the same for all mutants."""
    objects = {}
    for source in sorted(glob.glob(SRC + "/tests/sim/raft_*.c") + glob.glob(SRC + "/tests/sim/linear*.c") +
                         [SRC + "/tests/sim/sim_raft.c", SRC + "/tests/sim/trace_raft.c"]):
        name = os.path.basename(source)[:-2]
        objects[name] = os.path.join(work, name + ".o")
        compile_one(source, objects[name], ["-I" + SRC, "-I."])
    return objects


def mutate(work, number, file, old, new):
    """A copy of the core with the change, compiled; None when the text is not there, or there more than once."""
    top = os.path.join(work, "m%d" % number)
    os.makedirs(top + "/raftd/core", exist_ok=True)
    made = []
    for path in glob.glob(SRC + "/raftd/core/*.[ch]"):
        text = open(path, encoding="utf-8").read()
        name = os.path.basename(path)
        if name == file:
            if old not in text:
                return None
            text = text.replace(old, new)
        copy = os.path.join(top, "raftd/core", name)
        open(copy, "w", encoding="utf-8").write(text)
        if name.endswith(".c"):
            made.append(copy)
    objects = []
    for copy in made:
        objects.append(copy[:-2] + ".o")
        compile_one(copy, objects[-1], ["-I" + top, "-I" + SRC, "-I."])
    return objects


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 1, "FAIL seed ? it does not end"


def judge(arguments, work, objects, number):
    """(rule, what the seeds say, scripts that fail); what: None when the text is not found."""
    rule, file, old, new = MUTANTS[number]
    core = mutate(work, number, file, old, new)
    if core is None:
        return rule, None, []
    world = [o for name, o in objects.items() if name not in ("sim_raft", "trace_raft")]
    programs = []
    for main in ("sim_raft", "trace_raft"):
        programs.append(os.path.join(work, "m%d" % number, main))
        subprocess.run(["gcc", "-o", programs[-1], objects[main]] + world + core + ["common/libtvcore.a"], check=True)
    status, out = run([programs[0], "--seed", "1", "--count", str(arguments.seeds)])
    seed = re.search(r"FAIL seed (\S+) (.*)", out)
    seeds = "no" if status == 0 else seed.group(1) + ": " + seed.group(2) if seed else "ends with status %d" % status
    _, out = run([programs[1]])
    return rule, seeds, re.findall(r"FAIL \S*/(S\d+)[^/]*\.txt", out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--work", default="mutants")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    objects = simulator(arguments.work)
    chosen = [i for i, m in enumerate(MUTANTS) if all(w in m[0] for w in arguments.words)]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for rule, seeds, scripts in pool.map(lambda i: judge(arguments, arguments.work, objects, i), chosen):
            if seeds is None or (seeds == "no" and not scripts):
                bad = 1
            print("| %s | %s | %s |" % (rule, seeds or "TEXT NOT FOUND", ", ".join(sorted(set(scripts)))), flush=True)
    return bad


sys.exit(main())

#!/usr/bin/env python3
"""Rules of raftd/core broken on purpose: do the simulator, the scripts and the unit tests notice?

    tests/sim/mutants.py [--seeds N] [--work DIR] [--jobs J] [--sample N [--turn T]] [--write] [WORDS...]
    tests/sim/mutants.py --check

Each mutant is a copy of the core with one rule changed, compiled and run: seeds 1 to N (2000) and those of
tests/data/raft/seeds.txt, then the scripts, then check_raft_core, check_raft_snapshot
and check_raft_back.  First the core as it is, which
has to pass all of that.  Each text to change is in its file exactly once, or nothing is run.  What does not end counts for
nothing.  Status 1 when the core as it is fails, a mutant is noticed by nobody, or one that should not end does.

Prints rows of the table in doc/testing.md; --write puts the table of all of them there.  WORDS choose mutants whose names
have them all, --sample as many, others at each turn.  Needs a configured build folder as current directory (config.h,
common/libtvcore.a) and Check.  --check runs nothing: texts that are not there once, and a table of other mutants than these.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

SRC = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SRC = os.path.abspath(os.environ.get("srcdir") or SRC)
CFLAGS = ["-std=gnu17", "-O1", "-w", "-D_GNU_SOURCE", "-DTV_SRCDIR=\"%s\"" % SRC]
UNITS = ("check_raft_core", "check_raft_snapshot", "check_raft_back")
PATIENCE = 900              # seconds for one program; on a busy machine 2000 seeds take a minute or two
DOC = os.path.join(SRC, "doc", "testing.md")
HEAD = "| rule left out | seeds | also fails |\n| --- | --- | --- |\n"
# Why seeds do not notice, where they need not.
NOT_BY_SEEDS = {
    "completions from before a cut are ignored": "about one in 10,000 does",
    "a late TIMEOUT_NOW is ignored": "it costs an election, no more",
    "a lagging learner is not promoted": "it costs time, no more",
    "a dead leader's lease ends": "it costs time, no more",
    "only the leader's death is the end of patience": "it costs an election, no more",
    "a leader is informed when its first entry is applied": "the shell asks, not the core",
    "the log is frozen while a snapshot is installed": "the simulator's shell freezes it, too",
    "a refusal of what was acknowledged shows a loss": "the server says so itself there",
    "acknowledgements of before a loss are void": "they are seldom that late",
    "who lost entries confirms no reads": "nobody leads beside the leader then",
    "who lost entries does not confirm its own question": "nobody leads beside the leader then",
    "a disk that went back gives no pre-vote": "the vote is refused, too",
    "a disk that went back does not stand": "it needs others' votes",
    "a forgotten vote is not given again": "no candidate asks that late",
    "a term that it had comes back": "no candidate asks that late",
    "a loss is made up for when all of the leader's log is durable": "it takes a leader that is lost before",
    "a loss is made up for by one leader": "it takes two leaders within a catch-up",
    "what is equal to a leader's log is so in its term": "it takes two leaders within a catch-up",
    "who lost entries is not promoted": "it costs time, no more",
}

# rule, file, text, text instead; or several texts, and what is there instead of each
MUTANTS = [
    ("leader counts its own entry only when durable", "replicate.c",
     "v[n++] = r->persisted;", "v[n++] = r->log.last;"),
    ("only own-term entries are committed by counting", "replicate.c",
     "|| term != r->term)\n\t\treturn;\n\tbefore", ")\n\t\treturn;\n\tbefore"),
    ("no change before an own-term entry is committed", "members.c",
     "if (r->commit < r->own_first || r->transfer.active)", "if (r->transfer.active)"),
    ("a leader is informed when its first entry is applied", "status.c",
     ".informed = leads && r->applied >= r->own_first,", ".informed = leads && r->commit >= r->own_first,"),
    ("one change at a time", "members.c",
     "return r->newest->config.index > r->commit ? TV_ECONFLICT : TV_OK;", "return TV_OK;"),
    ("the log decides about a vote", "election.c",
     "return m->log_term > term || (m->log_term == term && m->log_index >= r->log.last);", "(void)term; return true;"),
    ("one vote per term", "election.c",
     "bool grant = (r->vote == 0 || r->vote == m->from) &&", "bool grant ="),
    ("vote leaves after the disk has it", "raft.c", "s->after_hard = true;", "s->after_hard = false;"),
    ("nothing leaves before the vote is durable", "replicate.c",
     "s->after_hard = r->persisted < r->own_first;", "s->after_hard = false;"),
    ("entries are acknowledged when durable", "follow.c",
     "s->after_append = m->entry_count > 0 && verified > r->persisted;\n\ts->msg.match = s->after_append ? verified :",
     "s->after_append = false;\n\ts->msg.match = m->entry_count > 0 ? verified :"),
    ("a heartbeat's answer reports only what is durable", "follow.c",
     "return verified < r->persisted ? verified : r->persisted;", "(void)r; return verified;"),
    ("completions from before a cut are ignored", "raft.c",
     "if (in->ctx != r->write_epoch || in->index", "if (in->index"),
    ("a read waits for its round", "readindex.c",
     "return n >= quorum ? raft_kth_largest(v, n, quorum) : 0;", "(void)quorum; return r->seq;"),
    ("a read waits for an own-term commit", "readindex.c",
     ("if (r->commit < r->own_first)\n\t\treturn;\n\tfor", "|| r->commit < r->own_first ||",
      " && r->commit >= r->own_first;"), ("for", "||", ";")),
    ("a question confirms itself only where two are a majority", "readindex.c",
     " && members_quorum(r) <= 1u + r->self_voter", ""),
    ("only a voter's question confirms itself", "readindex.c", "p != NULL && p->voter && p->disk", "p != NULL && p->disk"),
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
     "answer_leader(r, m->log_index, false, same_snapshot(in, m) ? in->handed : 0, false);", ";"),
    ("transfers time out", "election.c",
     "if (r->transfer.active && !mono_before(r->now, r->transfer.due))", "if (false)"),
    ("a live leader is not disturbed", "election.c",
     "if (!r->opt.check_quorum)\n\t\treturn false;\n\tif (r->role", "return false;\n\tif (r->role"),
    ("a dead leader's lease ends", "election.c", "r->leader_seen = false;\n\tr->gone = id;", "r->gone = id;"),
    ("only the leader's death is the end of patience", "election.c",
     "|| id == 0 || id != r->leader || !r->leader_seen)", "|| id == 0 || id == r->opt.self || r->leader == 0)"),
    ("wrong evidence is forgotten when the leader is heard", "election.c",
     "r->leader_seen = true;\n\tr->gone = 0;", "r->leader_seen = r->gone == 0;"),
    ("without leases or pre-votes evidence means nothing", "election.c",
     "if (!r->opt.pre_vote || !r->opt.check_quorum)\n\t\treturn;\n\tif (r->role", "if (r->role"),
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
    ("a refusal of what was acknowledged shows a loss", "replicate.c",
     "return p->match > 0 && m->seq > p->match_seq && (m->log_index <= p->match || m->hint_index < p->match);",
     "(void)p; (void)m; return false;"),
    ("late refusals show no loss", "replicate.c", "p->match > 0 && m->seq > p->match_seq &&", "p->match > 0 &&"),
    ("acknowledgements of before a loss are void", "replicate.c",
     "if (m->seq <= p->void_seq && p->void_seq > 0)\n\t\treturn;", ";"),
    ("what was acknowledged and lost counts no more", "replicate.c",
     "p->match = p->match_seq = p->acked_seq = 0;", "p->match_seq = p->acked_seq = 0;"),
    ("who lost entries confirms no reads", "readindex.c", "r->peers[i].disk == DISK_LACKING ? 0 : r->peers[i].acked_seq",
     "r->peers[i].acked_seq"),
    ("who lost entries does not confirm its own question", "readindex.c", "p->disk != DISK_LACKING && members", "members"),
    ("a disk that went back gives no vote", "election.c",
     "(r->leader == 0 || r->leader == m->from) && !r->went_back &&\n", "(r->leader == 0 || r->leader == m->from) &&\n"),
    ("a disk that went back gives no pre-vote", "election.c", "r->role != RAFT_LEADER && !r->went_back && !election", "r->role != RAFT_LEADER && !election"),
    ("a disk that went back does not stand", "members.c", "if (r->stateless || r->opening || r->went_back)", "if (r->stateless || r->opening)"),
    ("a forgotten vote is not given again", "raft.c",
     "raft_set_hard(r, r->term, r->leader != 0 ? r->leader : r->opt.self);", ";"),
    ("a term that it had comes back", "raft.c", "if (in->term > r->term || r->role != RAFT_FOLLOWER)", "if (r->role != RAFT_FOLLOWER)"),
    ("a loss is made up for when all of the leader's log is durable", "follow.c",
     "r->regain == 0 || follow_durable(r, r->verified) < r->regain)", "r->regain == 0)"),
    ("a loss is made up for by one leader", "election.c", "read_fail_all(r);\n\t\tr->regain = 0;", "read_fail_all(r);"),
    ("what is equal to a leader's log is so in its term", "election.c",
     "if (term != r->term)\n\t\tr->verified = 0;", ";"),
    ("who lost entries is not promoted", "replicate.c", "p->caught_up && p->disk != DISK_LACKING && replicate", "p->caught_up && replicate"),
]


def changes(mutant):
    """[(text, text instead)]"""
    _, _, old, new = mutant
    return [(old, new)] if isinstance(old, str) else list(zip(old, new))


def stale(mutant):
    """What is wrong with its texts, or None."""
    with open(os.path.join(SRC, "raftd", "core", mutant[1]), encoding="utf-8") as f:
        text = f.read()
    for old, new in changes(mutant):
        if text.count(old) != 1 or old == new:
            return "%s: %d times in raftd/core/%s: %r" % (mutant[0], text.count(old), mutant[1], old)
    return None


def table():
    """What doc/testing.md says: (text before, rules in its table, text behind)."""
    with open(DOC, encoding="utf-8") as f:
        text = f.read()
    begin = text.index(HEAD) + len(HEAD)
    end = text.index("\n\n", begin - 1) + 1
    return text[:begin], re.findall(r"^\| (.*?) \|", text[begin:end], re.M), text[end:]


def check():
    wrong = [w for w in map(stale, MUTANTS) if w]
    rules = [m[0] for m in MUTANTS]
    if len(set(rules)) != len(rules):
        wrong.append("two mutants have one name")
    if table()[1] != rules:
        wrong.append("doc/testing.md has another table: tests/sim/mutants.py --write makes it; different are %s" %
                     sorted(set(table()[1]) ^ set(rules)))
    wrong += ["NOT_BY_SEEDS: no mutant is called " + rule for rule in set(NOT_BY_SEEDS) - set(rules)]
    for text in wrong:
        print(text)
    return 1 if wrong else 0


def compile_one(source, out, includes):
    subprocess.run(["gcc"] + CFLAGS + includes + ["-c", source, "-o", out], check=True)


def libraries(kind, package):
    return subprocess.run(["pkg-config", kind, package], capture_output=True, text=True, check=True).stdout.split()


def simulator(arguments):
    """Objects of the test programs, which are the same for all mutants: {name: path}."""
    objects = {}
    sources = sorted(glob.glob(SRC + "/tests/sim/raft_*.c") + glob.glob(SRC + "/tests/sim/linear*.c"))
    sources = [s for s in sources if not os.path.basename(s).startswith("raft_real")]
    sources += [SRC + "/tests/sim/sim_raft.c", SRC + "/tests/sim/trace_raft.c"]
    sources += [SRC + "/tests/unit/%s.c" % u for u in UNITS]
    for source in sources:
        name = os.path.basename(source)[:-2]
        objects[name] = os.path.join(arguments.work, name + ".o")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        flags = ["-I" + SRC, "-I."] + libraries("--cflags", "check")
        list(pool.map(lambda s: compile_one(s, objects[os.path.basename(s)[:-2]], flags), sources))
    return objects


def mutate(work, name, mutant):
    """A copy of the core with the change, or as it is (None), compiled."""
    top = os.path.join(work, name)
    os.makedirs(top + "/raftd/core", exist_ok=True)
    made = []
    for path in glob.glob(SRC + "/raftd/core/*.[ch]"):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if mutant and os.path.basename(path) == mutant[1]:
            for old, new in changes(mutant):
                text = text.replace(old, new)
        copy = os.path.join(top, "raftd/core", os.path.basename(path))
        with open(copy, "w", encoding="utf-8") as f:
            f.write(text)
        if copy.endswith(".c"):
            made.append(copy)
    objects = []
    for copy in made:
        objects.append(copy[:-2] + ".o")
        compile_one(copy, objects[-1], ["-I" + top, "-I" + SRC, "-I."])
    return objects


def run(command):
    """(exit status, output); status None: it did not end."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=PATIENCE, env=dict(os.environ, CK_DEFAULT_TIMEOUT="120"))
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode("utf-8", "replace")


class Verdict:
    def __init__(self, rule, number):
        self.rule, self.number, self.seeds, self.also, self.endless = rule, number, None, [], []

    def noticed(self):
        return bool(self.seeds or self.also)

    def row(self):
        why = NOT_BY_SEEDS.get(self.rule)
        seeds = self.seeds or ("no: " + why if why else "no")
        return "| %s | %s | %s |" % (self.rule, seeds, ", ".join(self.also))


def by_seeds(program, count, verdict):
    """Which seed notices first."""
    status, out = run([program, "--seed", "1", "--count", str(count)])
    if status is None:
        verdict.endless.append("seeds")
    elif status != 0:
        seed = re.search(r"FAIL seed (\S+)", out)
        verdict.seeds = "seed " + seed.group(1) if seed else "an assertion" if status < 0 else "status %d" % status
    with open(SRC + "/tests/data/raft/seeds.txt", encoding="utf-8") as f:
        old = [line.split()[0] for line in f if line[0] not in "#\n"]
    for seed in old if not verdict.seeds else []:
        status, _ = run([program, "--seed", seed])
        if status is None:
            verdict.endless.append("seed " + seed)
        elif status != 0:
            verdict.seeds = "seed " + seed
            return


def by_scripts(program, verdict):
    status, out = run([program])
    found = sorted(set(re.findall(r"FAIL \S*/(S\d+|[a-z-]+)[^/]*\.txt", out)))
    if status is None:
        verdict.endless.append("scripts")
    elif status != 0:
        verdict.also += found or ["a script ends with status %d" % status]


def by_units(program, verdict):
    """Cases that fail; not one that only takes too long."""
    status, out = run([program])
    failed = [m.group(1) for m in re.finditer(r":[FE]:[^:\n]*:(\w+):\d+: (?!.*Test timeout expired)", out)]
    if status is None or "Test timeout expired" in out:
        verdict.endless.append(os.path.basename(program))
    if status and failed:
        verdict.also += ["`%s`" % f for f in sorted(set(failed))]


def judge(arguments, objects, number):
    """The verdict on a mutant; number None: on the core as it is."""
    mutant = None if number is None else MUTANTS[number]
    name = "plain" if number is None else "m%d" % number
    verdict = Verdict(mutant[0] if mutant else "nothing", number)
    core = mutate(arguments.work, name, mutant)
    mains = ("sim_raft", "trace_raft") + UNITS
    world = [o for n, o in objects.items() if n not in mains]
    programs = {m: os.path.join(arguments.work, name, m) for m in mains}
    for m, program in programs.items():
        more = libraries("--libs", "check") if m in UNITS else world
        subprocess.run(["gcc", "-o", program, objects[m]] + [o for o in more if o[0] != "-"] + core + ["common/libtvcore.a"] +
                       [o for o in more if o[0] == "-"], check=True)
    by_seeds(programs["sim_raft"], arguments.seeds, verdict)
    by_scripts(programs["trace_raft"], verdict)
    for u in UNITS:
        by_units(programs[u], verdict)
    return verdict


def chosen(arguments):
    all_of_them = [i for i, m in enumerate(MUTANTS) if all(w in m[0] for w in arguments.words)]
    if not arguments.sample or not all_of_them:
        return all_of_them
    first = arguments.turn * arguments.sample
    return sorted({all_of_them[(first + i) % len(all_of_them)] for i in range(arguments.sample)})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--work", default="mutants")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--turn", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


def play(arguments, numbers):
    """Verdicts, told as they come; None: the core as it is fails already, and nothing was learned."""
    objects = simulator(arguments)
    plain = judge(arguments, objects, None)
    if plain.noticed() or plain.endless:
        print("FAIL the core as it is: %s %s" % (plain.row(), plain.endless))
        return None
    print("the core as it is passes", flush=True)
    verdicts = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for v in pool.map(lambda i: judge(arguments, objects, i), numbers):
            verdicts.append(v)
            print(v.row() + (" did not end: " + ", ".join(v.endless) if v.endless else ""), flush=True)
            if not v.noticed():
                print("FAIL nobody notices: " + v.rule, flush=True)
    return verdicts


def main():
    arguments = parse()
    if check() and not arguments.write:
        return 1
    if arguments.check:
        return 0
    numbers = chosen(arguments)
    if not numbers or (arguments.write and len(numbers) != len(MUTANTS)) or any(map(stale, MUTANTS)):
        print("no mutant has all these words, or --write without all mutants, or a text is stale")
        return 2
    os.makedirs(arguments.work, exist_ok=True)
    verdicts = play(arguments, numbers)
    if verdicts is None:
        return 1
    if arguments.write:
        before, _, behind = table()
        with open(DOC, "w", encoding="utf-8") as f:
            f.write(before + "".join(v.row() + "\n" for v in verdicts) + behind)
    missed = [v.rule for v in verdicts if not v.noticed()]
    print("%d passed, %d failed" % (len(verdicts) - len(missed), len(missed)))
    return 1 if missed else 0


sys.exit(main())

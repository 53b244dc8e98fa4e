#!/usr/bin/env python3
"""Rules of raftd/leader/rules/reconcile.c broken on purpose: does its simulation notice?

    tests/sim/mutants_reconcile.py [--seeds N]
    tests/sim/mutants_reconcile.py --check      runs nothing: is each text there once?

First the rules as they are, which have to pass; then each mutant, a copy with one rule changed, which has to fail.  Each text to
change is in the file exactly once.  Status 1: a mutant was noticed by no seed.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

SRC = os.path.abspath(os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RULES = os.path.join(SRC, "raftd/leader/rules/reconcile.c")
OTHERS = [os.path.join(SRC, p) for p in ("tests/sim/sim_reconcile.c", "common/base/rng.c", "common/base/rd.c")]

STEP = 20                   # seeds of one run

# rule, text, text instead
MUTANTS = [
    ("a name is not taken from a member that lives", "contest(v, RECONCILE_NAME_TAKEN, named, out);",
     "take_over(out, RECONCILE_NAME_TAKEN, named);"),
    ("nor an id", "contest(v, RECONCILE_ID_TAKEN, &st->held, out);", "take_over(out, RECONCILE_ID_TAKEN, &st->held);"),
    ("an id under another name is looked at", "if (st->held.known)\n", "if (false)\n"),
    ("one of two spellings has the entry", "if (holder != NULL && !span_eq(holder->name, m->name)) {", "if (false) {"),
    ("names are compared without case", "return span_eq_nocase(n->name, m->name) && ids_agree",
     "return span_eq(n->name, m->name) && ids_agree"),
    ("an entry is a member's by its id, too", "return span_eq_nocase(n->name, m->name) && ids_agree(n->id, m->id);",
     "return span_eq_nocase(n->name, m->name);"),
    ("what is dead makes room", "\t\trefuse(out, why, holder);\n\telse\n\t\ttake_over(out, why, n);",
     "\t\trefuse(out, why, holder);\n\telse\n\t\trefuse(out, why, NULL);"),
    ("a failed member writes its own entry alone", "return n->known && (n->member || n->id.len > 0) && ids_agree(n->id, m->id) && "
     "holder_of(v, n) == NULL;", "(void)v; return n->known && (n->member || n->id.len > 0) && ids_agree(n->id, m->id);"),
    ("an entry without a member goes", "\treturn true;\n}\n", "\treturn false;\n}\n"),
    ("but not while the member is known", "if (!v->seen[i].m.gone && is_entry_of(n, &v->seen[i].m))", "if (false)"),
    ("what fails is marked", "out->action = RECONCILE_WRITE_FAILED;", ";"),
    ("what is the same is not written again", "!st->same || !st->passing)", "true)"),
]


def build(folder, text):
    """The program with these rules."""
    path = os.path.join(folder, "reconcile.c")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    out = os.path.join(folder, "sim")
    subprocess.run([*os.environ.get("CC", "cc").split(), "-std=gnu17", "-O1", "-w", "-D_GNU_SOURCE", "-I", SRC, "-I", os.getcwd(), "-o", out,
                    path, *OTHERS], check=True)
    return out


def noticed(folder, text, seeds):
    """How many seeds until one fails; 0: none does."""
    program = build(folder, text)
    for first in range(1, seeds + 1, STEP):
        p = subprocess.run([program, "--seed", str(first), "--count", str(min(STEP, seeds + 1 - first))], stdout=subprocess.PIPE,
                           text=True, timeout=900, check=False)
        assert p.returncode in (0, 1), p
        failed = re.search(r"replay: sim_reconcile --seed (\d+)", p.stdout)
        if failed:
            return int(failed.group(1))
    return 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seeds", type=int, default=500)
    ap.add_argument("--check", action="store_true")
    args = ap.parse_args()
    seeds = args.seeds
    with open(RULES, encoding="utf-8") as f:
        rules = f.read()
    wrong = ["%s: its text is in the file %d times" % (name, rules.count(old)) for name, old, _ in MUTANTS if rules.count(old) != 1]
    if wrong or args.check:
        print("\n".join(wrong) or "%d mutants" % len(MUTANTS))
        return 1 if wrong else 0
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        assert noticed(folder, rules, seeds) == 0, "the rules as they are fail"
        for name, old, new in MUTANTS:
            n = noticed(folder, rules.replace(old, new), seeds)
            print("%-50s %s" % (name, "seed %d" % n if n else "no seed up to %d" % seeds), flush=True)
            if n == 0:
                missed.append(name)
    if missed:
        print("not noticed: " + "; ".join(missed))
    return 1 if missed else 0


sys.exit(main())

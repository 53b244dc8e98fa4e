/*
 * Scripts for the Raft simulator: tests/data/raft/NAME.txt holds commands and what they print.
 *
 *   trace_raft                  all files in tests/data/raft but seeds.txt, which is sim_raft's
 *   trace_raft FILE...          these
 *   trace_raft --rewrite FILE   writes what they print now into the files; review reads the difference
 *
 * A file is a list of blocks: commands, a line "----", the expected output, an empty line.  '#' begins a comment.
 * Network and disk are quick and faultless unless a command says otherwise.  Commands (N, M: server numbers):
 *
 *   nodes N [voters=K] [seed=S] [prevote=off] [quorum=off] [entries=E] [inflight=I]   a new world; its voters are bootstrapped
 *                                   entries: at most so many in one append; inflight: unanswered appends
 *   run MS                          lets time pass
 *   elect N                         makes N's election timer expire, and waits until it leads
 *   until leader | leader=N | no-leader | applied=INDEX | equal   waits, 5 s at most
 *   write N [COUNT]   read N        a request to server N
 *   add M @N | promote M @N | demote M @N | remove M @N | transfer M @N     an operator's request to server N
 *   cut N>M | isolate N | heal      links
 *   crash N [torn] | start N | pause N MS | age N MS              age: its clock jumps forward
 *   kill N | gone M N | reset N M   a crash that the others learn of by their links; N is told that M has died; links reset: cut, and
 *                                   both are told so
 *   drift N PPM                                                   its clock gains so much from now on
 *   stall N | unstall N | stuck N | compact N | full N | room N   disk
 *   copy N | back N [told]                                        takes a copy of its disk; the server dies, and its disk is the copy
 *   wipe N | bury @N                loses its disk and returns as a new server; N lets go of servers that are no more
 *   send TYPE from=N to=M term=T [log=I/T] [commit=C] [entries=T,T,...] [transfer]      a forged message, and the answers
 *   state [N...]                    one line for each server
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/raft_world.h"

struct runner {
	struct world w;
	bool open;
	struct buf out;		/* of the block in progress */
	bool show_sends;
};

/* -- what is printed */

static const char *
note_text(enum raft_notice_type type)
{
	static const char *const texts[] = {
		[RAFT_NOTICE_PEER_ADDED] = "adds", [RAFT_NOTICE_PEER_PROMOTED] = "sees promoted",
		[RAFT_NOTICE_PEER_REMOVED] = "removed", [RAFT_NOTICE_SELF_REMOVED] = "is removed:",
		[RAFT_NOTICE_NO_PEERS] = "has no peers", [RAFT_NOTICE_NOT_VOTER] = "is no voter",
		[RAFT_NOTICE_QUORUM_LOST] = "lost its quorum", [RAFT_NOTICE_NEED_SNAPSHOT] = "needs a snapshot for",
		[RAFT_NOTICE_CAUGHT_UP] = "sees caught up", [RAFT_NOTICE_TRANSFER_DONE] = "transferred to",
		[RAFT_NOTICE_TRANSFER_FAILED] = "failed to transfer to", [RAFT_NOTICE_VIOLATION] = "reports a violation by",
		[RAFT_NOTICE_READ_ONLY_CORRUPT] = "stops: would cut a committed entry",
		[RAFT_NOTICE_LEADER_GONE] = "asks for votes at once: gone is",
		[RAFT_NOTICE_PEER_DEMOTED] = "sees demoted", [RAFT_NOTICE_WENT_BACK] = "finds a disk that went back:",
		[RAFT_NOTICE_REGAINED] = "sees made up for:",
	};

	return (unsigned)type < sizeof(texts) / sizeof(texts[0]) ? texts[type] : NULL;
}

static void
on_notice(struct world *w, struct sim_node *n, const struct raft_notice *note)
{
	struct runner *r = w->user;
	struct sim_node *about = world_node(w, note->id);
	struct raft_status st;

	raft_status(n->core, &st);
	if (note->type == RAFT_NOTICE_ROLE && (st.role == RAFT_LEADER || st.role == RAFT_FOLLOWER))
		buf_printf(&r->out, "n%d %s term=%" PRIu64 "\n", n->i + 1, raft_role_name(st.role), st.term);
	if (note_text(note->type) == NULL)
		return;
	buf_printf(&r->out, "n%d %s", n->i + 1, note_text(note->type));
	if (about != NULL && about != n)
		buf_printf(&r->out, " n%d", about->i + 1);
	if (note->type == RAFT_NOTICE_VIOLATION)
		buf_printf(&r->out, ": %s", raft_violation_text((enum raft_violation)note->index));
	buf_puts(&r->out, "\n");
}

static void
on_read(struct world *w, struct sim_node *n, const struct raft_read *read)
{
	struct runner *r = w->user;

	if (read->ok)
		buf_printf(&r->out, "n%d read %" PRIu64 " ok index=%" PRIu64 "\n", n->i + 1, read->ctx, read->index);
	else
		buf_printf(&r->out, "n%d read %" PRIu64 " failed\n", n->i + 1, read->ctx);
}

static void
on_send(struct world *w, struct sim_node *n, const struct raft_send *s)
{
	struct runner *r = w->user;
	struct sim_node *to = world_node(w, s->msg.to);
	char text[160];

	if (r->show_sends)
		buf_printf(&r->out, "n%d -> n%d %s\n", n->i + 1, to != NULL ? to->i + 1 : 0,
		    net_text(&s->msg, text, sizeof(text)));
}

static void
print_err(struct runner *r, enum tv_err err)
{
	if (err != TV_OK)
		buf_printf(&r->out, "refused: %s\n", tv_strerror(err));
}

/* -- arguments */

struct args {
	char *word[32];
	int count;
};

static struct args
split(char *line)
{
	struct args a = { .count = 0 };
	char *save = NULL;

	for (char *t = strtok_r(line, " \t", &save); t != NULL && a.count < 32; t = strtok_r(NULL, " \t", &save)) {
		if (*t == '#')
			break;
		a.word[a.count++] = t;
	}
	return a;
}

/* Value of "name=value", or of a bare "name"; NULL: not given. */
static const char *
option(const struct args *a, const char *name)
{
	size_t len = strlen(name);

	for (int i = 1; i < a->count; i++) {
		if (strncmp(a->word[i], name, len) != 0)
			continue;
		if (a->word[i][len] == '=')
			return a->word[i] + len + 1;
		if (a->word[i][len] == '\0')
			return "";
	}
	return NULL;
}

static uint64_t
number(const struct args *a, const char *name, uint64_t otherwise)
{
	const char *v = option(a, name);

	return v != NULL ? strtoull(v, NULL, 0) : otherwise;
}

static uint64_t
arg_u64(const struct args *a, int i)
{
	return i < a->count ? strtoull(a->word[i][0] == '@' ? a->word[i] + 1 : a->word[i], NULL, 0) : 0;
}

static struct sim_node *
arg_node(struct runner *r, const struct args *a, int i)
{
	uint64_t n = arg_u64(a, i);

	if (n == 0 || n > (uint64_t)r->w.count) {
		fprintf(stderr, "trace_raft: no server %s\n", i < a->count ? a->word[i] : "given");
		exit(2);
	}
	return &r->w.nodes[n - 1];
}

/* -- commands */

static void
cmd_nodes(struct runner *r, const struct args *a)
{
	int nodes = (int)arg_u64(a, 1), voters = (int)number(a, "voters", (uint64_t)nodes);
	struct plan plan = plan_quiet(nodes, voters);

	if (r->open)
		world_done(&r->w);
	plan.opt.pre_vote = option(a, "prevote") == NULL;
	plan.opt.check_quorum = option(a, "quorum") == NULL;
	plan.opt.append_entries_max = (uint32_t)number(a, "entries", 16);
	plan.opt.inflight_max = (uint32_t)number(a, "inflight", 16);
	world_init(&r->w, number(a, "seed", 1), &plan);
	r->open = true;
	r->w.user = r;
	r->w.on_notice = on_notice;
	r->w.on_read = on_read;
	r->w.on_send = on_send;
	for (int i = 0; i < voters; i++)
		node_bootstrap(&r->w, &r->w.nodes[i], voters);
	world_run(&r->w, mono_add(r->w.now, MONO_MS(2)));
}

static void
cmd_run(struct runner *r, const struct args *a)
{
	world_run(&r->w, mono_add(r->w.now, MONO_MS(arg_u64(a, 1))));
}

/* Has every running server of that configuration (NULL: every running server) applied so much? */
static bool
everybody(struct runner *r, const struct raft_config *c, uint64_t index)
{
	for (int i = 0; i < r->w.count; i++) {
		const struct sim_node *n = &r->w.nodes[i];

		if (n->core != NULL && n->applied < index && (c == NULL || raft_config_find(c, n->id) != NULL))
			return false;
	}
	return true;
}

static bool
equal(struct runner *r)
{
	struct sim_node *leader = world_leader(&r->w);
	struct raft_status st;

	if (leader == NULL)
		return false;
	raft_status(leader->core, &st);
	return st.ready && everybody(r, raft_config(leader->core), st.last_index);
}

static bool
reached(struct runner *r, const struct args *a)
{
	struct sim_node *leader = world_leader(&r->w);
	uint64_t want = number(a, "leader", 0);

	if (option(a, "applied") != NULL)
		return everybody(r, NULL, number(a, "applied", 0));
	if (option(a, "equal") != NULL)
		return equal(r);
	if (option(a, "no-leader") != NULL)
		return leader == NULL;
	return leader != NULL && (want == 0 || (uint64_t)leader->i + 1 == want);
}

static void
cmd_until(struct runner *r, const struct args *a)
{
	struct mono end = mono_add(r->w.now, MONO_S(5));

	while (!reached(r, a)) {
		if (mono_before(end, r->w.now) || r->w.failed) {
			buf_puts(&r->out, "not reached\n");
			return;
		}
		world_run(&r->w, mono_add(r->w.now, MONO_MS(1)));
	}
}

static void
cmd_elect(struct runner *r, const struct args *a)
{
	struct sim_node *n = arg_node(r, a, 1);
	struct mono end = mono_add(r->w.now, MONO_S(2));

	n->skew = mono_add(n->skew, mono_mul(r->w.plan.opt.election_timeout, 2));
	(void)node_feed(&r->w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
	while (world_leader(&r->w) != n && mono_before(r->w.now, end) && !r->w.failed)
		world_run(&r->w, mono_add(r->w.now, MONO_MS(1)));
	if (world_leader(&r->w) != n)
		buf_puts(&r->out, "not elected\n");
}

static void
cmd_write(struct runner *r, const struct args *a)
{
	struct sim_node *n = arg_node(r, a, 1);
	unsigned count = a->count > 2 ? (unsigned)arg_u64(a, 2) : 1;
	struct raft_status st;
	enum tv_err err = node_propose(&r->w, n, count);

	print_err(r, err);
	if (err != TV_OK)
		return;
	raft_status(n->core, &st);
	buf_printf(&r->out, "index=%" PRIu64 " term=%" PRIu64 "\n", st.last_index, st.term);
}

static void
cmd_read(struct runner *r, const struct args *a)
{
	print_err(r, node_read(&r->w, arg_node(r, a, 1), NULL, 0));
}

static void
change(struct runner *r, const struct args *a, enum raft_change_type type)
{
	struct raft_change ch = { .type = type, .server = node_conf(arg_node(r, a, 1), false) };
	struct raft_input in = { .type = RAFT_IN_CHANGE, .change = &ch };

	print_err(r, node_feed(&r->w, arg_node(r, a, 2), &in));
}

static void
cmd_add(struct runner *r, const struct args *a)
{
	change(r, a, RAFT_ADD_LEARNER);
}

static void
cmd_promote(struct runner *r, const struct args *a)
{
	change(r, a, RAFT_PROMOTE);
}

static void
cmd_demote(struct runner *r, const struct args *a)
{
	change(r, a, RAFT_DEMOTE);
}

static void
cmd_copy(struct runner *r, const struct args *a)
{
	back_copy(arg_node(r, a, 1));
}

static void
cmd_back(struct runner *r, const struct args *a)
{
	back_put(&r->w, arg_node(r, a, 1), option(a, "told") != NULL);
}

static void
cmd_remove(struct runner *r, const struct args *a)
{
	change(r, a, RAFT_REMOVE);
}

static void
cmd_transfer(struct runner *r, const struct args *a)
{
	struct raft_input in = { .type = RAFT_IN_TRANSFER, .to = arg_node(r, a, 1)->id };

	print_err(r, node_feed(&r->w, arg_node(r, a, 2), &in));
}

static void
cmd_cut(struct runner *r, const struct args *a)
{
	int from = 0, to = 0;

	for (int i = 1; i < a->count; i++)
		if (sscanf(a->word[i], "%d>%d", &from, &to) == 2)
			r->w.cut[from - 1][to - 1] = true;
}

static void
cmd_isolate(struct runner *r, const struct args *a)
{
	for (int k = 1; k < a->count; k++)
		for (int i = 0; i < r->w.count; i++) {
			int n = arg_node(r, a, k)->i;

			r->w.cut[n][i] = r->w.cut[i][n] = true;
		}
}

static void
cmd_heal(struct runner *r, const struct args *a)
{
	(void)a;
	memset(r->w.cut, 0, sizeof(r->w.cut));
}

static void
cmd_crash(struct runner *r, const struct args *a)
{
	node_crash(&r->w, arg_node(r, a, 1), option(a, "torn") != NULL);
}

static void
cmd_kill(struct runner *r, const struct args *a)
{
	r->w.plan.resets = 1;
	node_crash(&r->w, arg_node(r, a, 1), false);
	r->w.plan.resets = 0;
}

static void
cmd_gone(struct runner *r, const struct args *a)
{
	links_tell(&r->w, arg_node(r, a, 2), arg_node(r, a, 1)->id);
}

static void
cmd_reset(struct runner *r, const struct args *a)
{
	links_reset(&r->w, arg_node(r, a, 1), arg_node(r, a, 2));
}

static void
cmd_start(struct runner *r, const struct args *a)
{
	node_start(&r->w, arg_node(r, a, 1));
}

static void
cmd_pause(struct runner *r, const struct args *a)
{
	arg_node(r, a, 1)->paused_until = mono_add(r->w.now, MONO_MS(arg_u64(a, 2)));
}

static void
cmd_age(struct runner *r, const struct args *a)
{
	struct sim_node *n = arg_node(r, a, 1);

	n->skew = mono_add(n->skew, MONO_MS(arg_u64(a, 2)));
	(void)node_feed(&r->w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
}

static void
cmd_drift(struct runner *r, const struct args *a)
{
	struct sim_node *n = arg_node(r, a, 1);
	struct mono before = node_now(&r->w, n);

	n->drift = a->count > 2 ? strtoll(a->word[2], NULL, 0) : 0;
	n->skew = mono_add(n->skew, mono_sub(before, node_now(&r->w, n)));	/* a clock does not jump for it */
	n->tick_at = MONO_NEVER;
	(void)node_feed(&r->w, n, &(struct raft_input){ .type = RAFT_IN_TICK });
}

static void
cmd_full(struct runner *r, const struct args *a)
{
	disk_fill(&r->w, arg_node(r, a, 1), true);
}

static void
cmd_room(struct runner *r, const struct args *a)
{
	disk_fill(&r->w, arg_node(r, a, 1), false);
}

static void
cmd_wipe(struct runner *r, const struct args *a)
{
	node_wipe(&r->w, arg_node(r, a, 1));
}

static void
cmd_bury(struct runner *r, const struct args *a)
{
	struct sim_node *leader = arg_node(r, a, 1);
	const struct raft_config *c = raft_config(leader->core);
	struct raft_change ch = { .type = RAFT_REMOVE };

	for (unsigned i = 0; i < c->count; i++)
		if (world_node(&r->w, c->servers[i].id) == NULL)
			ch.server = c->servers[i];
	print_err(r, node_feed(&r->w, leader, &(struct raft_input){ .type = RAFT_IN_CHANGE, .change = &ch }));
}

static void
cmd_stall(struct runner *r, const struct args *a)
{
	disk_stall(&r->w, arg_node(r, a, 1));
}

static void
cmd_unstall(struct runner *r, const struct args *a)
{
	disk_unstall(&r->w, arg_node(r, a, 1));
}

static void
cmd_stuck(struct runner *r, const struct args *a)
{
	(void)node_feed(&r->w, arg_node(r, a, 1), &(struct raft_input){ .type = RAFT_IN_DISK_STUCK });
}

static void
cmd_compact(struct runner *r, const struct args *a)
{
	snap_compact(&r->w, arg_node(r, a, 1), true);
}

static enum raft_msg_type
type_of(const char *name)
{
	static const char *const names[] = { "", "pre-vote", "pre-vote-reply", "vote", "vote-reply", "append", "append-reply",
		"snapshot", "snapshot-reply", "timeout-now", "read-index", "read-index-reply" };

	for (unsigned i = 1; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum raft_msg_type)i;
	fprintf(stderr, "trace_raft: no message type %s\n", name);
	exit(2);
}

/* Entries of the given terms, whose payload is one byte. */
static void
forge_entries(struct raft_msg *m, struct raft_entry *entries, const char *terms)
{
	static const uint8_t byte = 'f';

	while (terms != NULL && *terms != '\0' && m->entry_count < SIM_ENTRIES_MAX) {
		struct raft_entry *e = &entries[m->entry_count];
		char *end;

		*e = (struct raft_entry){ .index = m->log_index + 1 + m->entry_count, .type = RAFT_ENTRY_OP, .size = 1,
			.payload = &byte };
		e->term = strtoull(terms, &end, 0);
		m->entry_count++;
		terms = *end == ',' ? end + 1 : end;
	}
	m->entries = m->entry_count > 0 ? entries : NULL;
}

static void
cmd_send(struct runner *r, const struct args *a)
{
	struct raft_entry entries[SIM_ENTRIES_MAX];
	struct raft_msg m = { .type = type_of(a->count > 1 ? a->word[1] : ""), .term = number(a, "term", 0),
		.commit = number(a, "commit", 0), .seq = number(a, "seq", 1), .transfer = option(a, "transfer") != NULL,
		.granted = option(a, "granted") != NULL, .match = number(a, "match", 0) };
	struct raft_input in = { .type = RAFT_IN_MSG, .msg = &m };
	uint64_t from = number(a, "from", 0), to = number(a, "to", 1);
	const char *log = option(a, "log");

	m.from = from > 0 && from <= (uint64_t)r->w.count ? r->w.nodes[from - 1].id : 4711;
	m.to = r->w.nodes[to - 1].id;
	if (log != NULL) {
		m.log_index = strtoull(log, NULL, 0);
		m.log_term = strchr(log, '/') != NULL ? strtoull(strchr(log, '/') + 1, NULL, 0) : 0;
	}
	forge_entries(&m, entries, option(a, "entries"));
	r->show_sends = true;
	(void)node_feed(&r->w, &r->w.nodes[to - 1], &in);
	r->show_sends = false;
}

static void
print_state(struct runner *r, const struct sim_node *n)
{
	struct raft_status st;

	if (n->core == NULL) {
		buf_printf(&r->out, "n%d down\n", n->i + 1);
		return;
	}
	raft_status(n->core, &st);
	buf_printf(&r->out, "n%d %s term=%" PRIu64 " last=%" PRIu64 "/%" PRIu64 " commit=%" PRIu64 " applied=%" PRIu64
	    " voters=%u\n", n->i + 1, raft_role_name(st.role), st.term, st.last_index, st.last_term, st.commit, n->applied,
	    raft_config_voters(raft_config(n->core)));
}

static void
cmd_state(struct runner *r, const struct args *a)
{
	if (a->count == 1)
		for (int i = 0; i < r->w.count; i++)
			print_state(r, &r->w.nodes[i]);
	for (int i = 1; i < a->count; i++)
		print_state(r, arg_node(r, a, i));
}

static const struct {
	const char *name;
	void (*run)(struct runner *r, const struct args *a);
} commands[] = {
	{ "nodes", cmd_nodes }, { "run", cmd_run }, { "until", cmd_until }, { "elect", cmd_elect },
	{ "write", cmd_write }, { "read", cmd_read }, { "add", cmd_add }, { "promote", cmd_promote }, { "demote", cmd_demote },
	{ "copy", cmd_copy }, { "back", cmd_back },
	{ "remove", cmd_remove }, { "transfer", cmd_transfer }, { "cut", cmd_cut }, { "isolate", cmd_isolate },
	{ "heal", cmd_heal }, { "crash", cmd_crash }, { "kill", cmd_kill }, { "gone", cmd_gone },
	{ "reset", cmd_reset }, { "start", cmd_start }, { "pause", cmd_pause }, { "age", cmd_age },
	{ "stall", cmd_stall }, { "unstall", cmd_unstall }, { "stuck", cmd_stuck }, { "compact", cmd_compact },
	{ "drift", cmd_drift }, { "full", cmd_full }, { "room", cmd_room }, { "wipe", cmd_wipe }, { "bury", cmd_bury },
	{ "send", cmd_send }, { "state", cmd_state },
};

static void
run_line(struct runner *r, char *line)
{
	struct args a = split(line);

	if (a.count == 0)
		return;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(a.word[0], commands[i].name) == 0) {
			if (!r->open && commands[i].run != cmd_nodes)
				break;
			commands[i].run(r, &a);
			return;
		}
	fprintf(stderr, "trace_raft: what is \"%s\" (here)?\n", a.word[0]);
	exit(2);
}

/* -- files */

static char *
read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text;
	long size;

	if (f == NULL) {
		perror(path);
		exit(2);
	}
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)size + 1);
	TV_ASSERT(text != NULL && fread(text, 1, (size_t)size, f) == (size_t)size);
	fclose(f);
	return text;
}

/* Runs the whole text; the text with what was printed goes to `now`. */
static void
run_text(struct runner *r, char *text, struct buf *now)
{
	bool expected = false;
	char line[512];

	for (char *p = text; *p != '\0'; ) {
		size_t len = strcspn(p, "\n");

		TV_ASSERT(len < sizeof(line));
		memcpy(line, p, len);
		line[len] = '\0';
		p += len + (p[len] == '\n');
		if (strcmp(line, "----") == 0) {
			buf_puts(now, "----\n");
			buf_put(now, r->out.data, r->out.len);
			buf_reset(&r->out);
			expected = true;
		} else if (len == 0) {
			expected = false;
			buf_puts(now, "\n");
		} else if (!expected) {
			buf_printf(now, "%s\n", line);
			run_line(r, line);
		}
	}
	if (r->w.failed)
		buf_printf(now, "FAILED: %s\n", r->w.why);
}

static void
show_difference(const char *path, const char *want, const char *got)
{
	size_t same = 0, line = 1;

	while (want[same] != '\0' && want[same] == got[same])
		line += want[same++] == '\n';
	while (same > 0 && want[same - 1] != '\n')
		same--;
	printf("FAIL %s: line %zu\n  expected: %.*s\n  printed:  %.*s\n", path, line, (int)strcspn(want + same, "\n"),
	    want + same, (int)strcspn(got + same, "\n"), got + same);
}

static bool
run_file(const char *path, bool rewrite)
{
	static struct runner r;		/* large */
	struct buf now = BUF_INIT(1 << 20);
	char *text = read_file(path);
	bool ok;

	memset(&r, 0, sizeof(r));
	buf_init(&r.out, 1 << 20);
	run_text(&r, text, &now);
	ok = strcmp(text, buf_cstr(&now)) == 0 && !r.w.failed;
	if (!ok && rewrite && !r.w.failed) {
		FILE *f = fopen(path, "w");

		TV_ASSERT(f != NULL && fwrite(now.data, 1, now.len, f) == now.len);
		fclose(f);
		printf("rewritten: %s\n", path);
		ok = true;
	} else if (!ok) {
		show_difference(path, text, buf_cstr(&now));
	}
	if (r.open)
		world_done(&r.w);
	buf_done(&r.out);
	buf_done(&now);
	free(text);
	return ok;
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool
run_folder(const char *folder, bool rewrite)
{
	struct dirent **names = NULL;
	int count = scandir(folder, &names, NULL, by_name), ran = 0;
	bool ok = true;

	for (int i = 0; i < count; i++) {
		char path[1024];

		if (strstr(names[i]->d_name, ".txt") != NULL && strcmp(names[i]->d_name, "seeds.txt") != 0) {
			snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
			ok &= run_file(path, rewrite);
			ran++;
		}
		free(names[i]);
	}
	free(names);
	printf("%d scripts\n", ran);
	return ok && ran > 0;
}

int
main(int argc, char **argv)
{
	bool rewrite = argc > 1 && strcmp(argv[1], "--rewrite") == 0, ok = true;
	int first = rewrite ? 2 : 1;

	if (first == argc)
		return run_folder(TV_SRCDIR "/tests/data/raft", rewrite) ? 0 : 1;
	for (int i = first; i < argc; i++)
		ok &= run_file(argv[i], rewrite);
	return ok ? 0 : 1;
}

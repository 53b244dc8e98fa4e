/* clusterctl join, leave, force-leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/record/member.h"
#include "ctl/ctl.h"
#include "ctl/local_socket.h"
#include "ctl/raftd_leave.h"

#define JOIN_TIMEOUT_S 30
#define LEAVE_TIMEOUT_S 60
#define WAIT_TIMEOUT_S 600		/* without --timeout */
#define REASON_STANDS_MS 2000

/* Where a server stands while it catches up; false while that cannot be asked. */
struct catch_up {
	bool server, voter;
	unsigned long long index, of;
	char why[2048];			/* why it has no leader yet, or cannot be linked with some server; "" */
};

static bool
read_catch_up(struct ctl *ctl, struct catch_up *out)
{
	json_t *self = ctl_try(ctl, "/v1/agent/self", 10), *raft;

	out->why[0] = '\0';
	if (self == NULL)
		return false;
	json_safe(self);
	raft = json_at(self, "Stats.raft");
	out->server = raft != NULL || json_is_true(json_at(self, "Config.Server"));
	out->voter = strcmp(json_text(raft, "suffrage"), "voter") == 0;
	out->index = strtoull(json_text(raft, "applied_index"), NULL, 10);
	out->of = strtoull(json_text(raft, "leader_last_index"), NULL, 10);
	snprintf(out->why, sizeof(out->why), "%s%s", json_text(raft, "why_no_leader"), json_text(raft, "trouble"));
	if (raft == NULL && out->server)
		snprintf(out->why, sizeof(out->why), "raftd does not answer on this node");
	json_decref(self);
	return true;
}

/* Tells a reason once, when it has stood for a while: what passes by itself is none. */
struct reason {
	char now[2048], told[2048];
	struct mono since;
};

static void
tell_reason(struct reason *r, struct progress *p, const char *why, struct mono now)
{
	if (strcmp(r->now, why) != 0) {
		snprintf(r->now, sizeof(r->now), "%s", why);
		r->since = now;
	}
	if (why[0] == '\0' || strcmp(r->told, why) == 0 || mono_ms(mono_sub(now, r->since)) < REASON_STANDS_MS)
		return;
	progress_wipe(p);
	fprintf(stderr, "clusterctl: join: %s\n", why);
	snprintf(r->told, sizeof(r->told), "%s", why);
}

static int
not_caught_up(const struct catch_up *c, double seconds)
{
	fprintf(stderr, "clusterctl: join: not caught up after %.0f s (index %llu of %llu)%s%s; it continues in the "
	    "background, check with: clusterctl info raft\n", seconds, c->index, c->of,
	    c->why[0] != '\0' ? ": " : "", c->why);
	return 1;
}

/* Shows the catch-up until the server is a voter that has applied what the leader had. */
static int
wait_caught_up(struct ctl *ctl)
{
	struct timespec tick = { 0, 100000000 };
	struct mono start = clock_mono(), then = start, now;
	struct progress p;
	struct reason reason = { .since = start };
	struct catch_up c = { 0 };
	unsigned long long first = 0;
	bool seen = false;

	progress_init(&p);
	for (;;) {
		now = clock_mono();
		if (client_late(ctl_client(ctl))) {
			progress_wipe(&p);
			return not_caught_up(&c, mono_seconds(mono_sub(now, start)));
		}
		if (read_catch_up(ctl, &c)) {
			if (!c.server)
				break;
			if (!seen) {
				seen = true;
				first = c.index;
				then = now;
			}
			if (c.voter && c.of > 0 && c.index >= c.of)
				break;
			tell_reason(&reason, &p, c.why, now);
			if (p.tty && c.of == 0)
				progress_show(&p, "waiting for the leader to add this server");
			else if (p.tty)
				progress_show(&p, "catching up: index %llu of %llu, %.0f entries/s, %s", c.index, c.of,
				    (double)(c.index - first) / (mono_seconds(mono_sub(now, then)) + 1e-3),
				    c.voter ? "voter" : "learner");
		}
		nanosleep(&tick, NULL);
	}
	progress_end(&p);
	if (c.server)
		printf("Caught up: voter at index %llu.\n", c.index);
	return 0;
}

/* Several addresses may be asked: which one failed is said, and so not what the API puts around it. */
static void
complain_of(struct ctl *ctl, const char *address, struct client_answer *a)
{
	static const char list[] = "1 error occurred:\n\t* ";
	struct buf what = BUF_INIT(8192);

	if (span_starts(buf_span(&a->body), span_str(list))) {
		buf_drop(&a->body, sizeof(list) - 1);
		while (a->body.len > 0 && a->body.data[a->body.len - 1] == '\n')
			a->body.len--;
		buf_printf(&what, "Failed to join %s: ", address);
		if (span_starts(buf_span(&a->body), buf_span(&what)))
			buf_drop(&a->body, what.len);
		buf_reset(&what);
	}
	buf_printf(&what, "join: %s", address);
	client_complain(ctl->client, buf_cstr(&what), a);
	buf_done(&what);
}

int
cmd_join(struct ctl *ctl)
{
	bool wan = ctl_opt(ctl, "wan") != NULL;
	int joined = 0;

	for (int i = 0; i < ctl->argc; i++) {
		struct buf path = BUF_INIT(8192);
		struct client_answer a;

		buf_puts(&path, "/v1/agent/join/");
		client_encode(&path, ctl->argv[i], false);
		buf_puts(&path, wan ? "?wan=1" : "");
		if (client_do(ctl_client(ctl), "PUT", buf_cstr(&path), SPAN_NONE, JOIN_TIMEOUT_S, &a))
			joined++;
		else
			complain_of(ctl, ctl->argv[i], &a);
		client_answer_done(&a);
		buf_done(&path);
	}
	if (joined == 0)
		return 1;
	printf("Successfully joined cluster by contacting %d nodes.\n", joined);
	fflush(stdout);
	if (ctl_opt(ctl, "wait") == NULL || wan)
		return 0;
	client_quiet(ctl->client, true);		/* it shows more than that it waits */
	if (ctl->timeout.ns == 0)
		client_within(ctl->client, MONO_S(WAIT_TIMEOUT_S));
	return wait_caught_up(ctl);
}

/* Was root refused, on the socket of this machine and without a token? */
static bool
is_for_raftd(struct ctl *ctl, const struct client_answer *a)
{
	return a->status == 403 && geteuid() == 0 && client_socket(ctl->client) != NULL && ctl_token(ctl) == NULL;
}

/* raftd.sock stands beside rpcd.sock.  False after a complaint. */
static bool
leave_raftd(struct ctl *ctl, bool force)
{
	struct buf path = BUF_INIT(4096), why = BUF_INIT(65536);
	bool left;

	local_socket_path(client_socket(ctl->client), "raftd", &path);
	left = raftd_leave(buf_cstr(&path), force, MONO_S(LEAVE_TIMEOUT_S), &why);
	if (!left) {
		fprintf(stderr, "clusterctl: leave: ");
		out_lines(stderr, buf_span(&why));
		fputc('\n', stderr);
	}
	buf_done(&path);
	buf_done(&why);
	return left;
}

int
cmd_leave(struct ctl *ctl)
{
	bool force = ctl_opt(ctl, "force") != NULL;
	const char *path = force ? "/v1/agent/leave?force" : "/v1/agent/leave";
	struct client_answer a;
	int rc = 0;

	if (client_do(ctl_client(ctl), "PUT", path, SPAN_NONE, LEAVE_TIMEOUT_S, &a))
		puts("Graceful leave complete.");
	else if (!is_for_raftd(ctl, &a))
		rc = client_complain(ctl->client, ctl->verb->words, &a);
	else if (!leave_raftd(ctl, force))
		rc = 1;
	else			/* what is left of it: gossip, and the end of the daemons */
		rc = ctl_put(ctl, path, LEAVE_TIMEOUT_S, "Graceful leave complete.");
	client_answer_done(&a);
	return rc;
}

/* A living node objects, and stays; false also when that cannot be asked. */
static bool
is_alive(struct ctl *ctl, const char *name)
{
	json_t *all = ctl_try(ctl, "/v1/agent/members", JOIN_TIMEOUT_S), *m;
	bool alive = false;
	size_t i;

	json_array_foreach(all, i, m)
		if (strcmp(json_text(m, "Name"), name) == 0)
			alive = json_int(m, "Status") == MEMBER_ALIVE;
	json_decref(all);
	return alive;
}

/* Only a leader takes its seat from it. */
static bool
has_leader(struct ctl *ctl)
{
	struct client_answer a;
	bool no = client_do(ctl_client(ctl), "GET", "/v1/status/leader", SPAN_NONE, JOIN_TIMEOUT_S, &a) &&
	    span_eqs(buf_span(&a.body), "\"\"");

	client_answer_done(&a);
	return !no;
}

int
cmd_force_leave(struct ctl *ctl)
{
	const char *node = ctl->argv[0];
	bool alive = is_alive(ctl, node);
	struct buf path = BUF_INIT(8192);
	int rc;

	ctl_path(ctl, &path, "/v1/agent/force-leave/", node, "");
	/* Of one that lives nothing is told that its objection makes untrue. */
	rc = ctl_put(ctl, buf_cstr(&path), JOIN_TIMEOUT_S, alive ? NULL : "Announced to the cluster that it has left.");
	if (rc == 0 && alive)
		(void)ctl_complain(ctl, "%s is not known to have failed: if it is alive, it refutes and stays, and "
		    "`clusterctl leave` there removes it; if it is dead, it is marked as left as soon as its failure "
		    "is detected", node);
	if (rc == 0 && !has_leader(ctl))
		(void)ctl_complain(ctl, "there is no leader: a server keeps its seat until there is one, so this "
		    "does not bring back a lost majority; see `clusterctl raft recover --dry-run`");
	buf_done(&path);
	return rc;
}

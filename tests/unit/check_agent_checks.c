/* The TTL checks of this node, with loop and file, against a fake router. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "rpcd/checks/checks.h"
#include "rpcd/registry/registry_loop.h"

#define CALLS_MAX 16

/* -- the fake router ------------------------------------------------------------- */

static struct route_call {
	bool open;
	uint16_t op;
	uint8_t args[65536];
	size_t args_len;
	route_done *done;
	void *ctx;
} calls[CALLS_MAX];
static unsigned started;

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	(void)r;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (!calls[i].open) {
			ck_assert_uint_le(q->args.len, sizeof(calls[i].args));
			calls[i] = (struct route_call){ .open = true, .op = q->op, .done = done, .ctx = ctx };
			memcpy(calls[i].args, q->args.p, q->args.len);
			calls[i].args_len = q->args.len;
			started++;
			return &calls[i];
		}
	return NULL;
}

void
route_cancel(struct route_call *c)
{
	ck_assert(c->open);
	c->open = false;
}

static unsigned
open_calls(enum op_code op)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		n += calls[i].open && calls[i].op == op;
	return n;
}

/* The arguments of the one open call of this kind. */
static void
arguments(enum op_code op, struct arena *a, void *rec)
{
	ck_assert_uint_eq(open_calls(op), 1);
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (calls[i].open && calls[i].op == op) {
			struct rd in = rd_over(calls[i].args, calls[i].args_len);

			ck_assert_int_eq(schema_unpack(op_find((uint16_t)op)->args, &in, a, rec), TV_OK);
		}
}

/* Ends the one open call of this kind. */
static void
answer(enum op_code op, enum tv_err err, struct span value)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (calls[i].open && calls[i].op == op) {
			struct op_reply reply = { .err = err, .value = value };

			calls[i].open = false;
			calls[i].done(calls[i].ctx, &reply);
			return;
		}
	ck_abort_msg("no call of operation %d", op);
}

/* -- the table ------------------------------------------------------------------- */

static struct ev_loop *loop;
static char path[64];
static struct registry *table;
static struct checks *checks;
static int monitor = -1;		/* rpcd's end of the pair */
static struct arena arena;

static unsigned lost;

static void
on_lost(void *ctx)
{
	(void)ctx;
	lost++;
}

static struct registry *
open_table(void)
{
	struct registry *r = registry_open(&(struct registry_conf){
		.node_name = "n1", .node_id = "id-1", .address = "10.0.0.1", .entries_max = 4, .output_max = 16,
		.sync_interval = MONO_S(3600), .update_interval = MONO_S(3600), .sync_wait = MONO_MS(20), .seed = 7,
	}, loop, path);

	ck_assert_ptr_nonnull(r);
	checks = checks_new(&(struct checks_conf){ .loop = loop, .registry = r, .monitor = { monitor, -1, -1 }, .runs_max = 7,
	    .output_max = 16, .lost = on_lost });
	ck_assert_ptr_nonnull(checks);
	return r;
}

static void
close_table(void)
{
	registry_close(table);
	checks_free(checks);
}

static void
setup(void)
{
	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	memset(calls, 0, sizeof(calls));
	started = 0;
	arena = ARENA_INIT(1u << 20);
	snprintf(path, sizeof(path), "/tmp/check-agent-%d.json", (int)getpid());
	unlink(path);
	loop = ev_loop_new(EVFLAG_AUTO);
	table = open_table();
}

static void
teardown(void)
{
	close_table();
	for (unsigned i = 0; i < CALLS_MAX; i++)
		ck_assert(!calls[i].open);
	ev_loop_destroy(loop);
	arena_done(&arena);
	unlink(path);
}

static enum tv_err
add(const char *id, const char *status, int64_t ttl_ns)
{
	struct local_record rec = { .kind = ENTRY_CHECK, .ttl = ttl_ns, .check = { .CheckID = span_str(id),
	    .Name = span_str("a name"), .Notes = span_str("notes"), .Status = span_str(status),
	    .Type = span_str("ttl") } };

	return registry_put(table, &rec);
}

static struct found {
	unsigned n;
	char id[64], status[16], output[256];
} found;

static void
take(void *ctx, const struct local_record *local)
{
	const struct check *rec = &local->check;

	(void)ctx;
	found.n++;
	ck_assert(span_copy(rec->CheckID, found.id, sizeof(found.id)));
	ck_assert(span_copy(rec->Status, found.status, sizeof(found.status)));
	ck_assert(span_copy(rec->Output, found.output, sizeof(found.output)));
	ck_assert(span_eqs(rec->Node, "n1") && span_eqs(rec->Type, "ttl"));
}

/* The last check in the list. */
static const struct found *
look(void)
{
	memset(&found, 0, sizeof(found));
	registry_each(table, ENTRY_CHECK, take, NULL);
	return &found;
}

static void
synced(const char *id)
{
	ck_assert_int_eq(add(id, "passing", 3600000000000), TV_OK);
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	started = 0;
}

START_TEST(registration_is_pushed)
{
	struct catalog_register args = { 0 };

	ck_assert_int_eq(add("c1", "", 3600000000000), TV_OK);
	ck_assert_str_eq(look()->status, "critical");		/* the default */
	arguments(OP_CATALOG_REGISTER, &arena, &args);
	ck_assert(span_eqs(args.Node, "n1") && span_eqs(args.ID, "id-1") && span_eqs(args.Address, "10.0.0.1"));
	ck_assert(args.SkipNodeUpdate && args.has_check && !args.has_service);
	ck_assert(span_eqs(args.Check.CheckID, "c1") && span_eqs(args.Check.Name, "a name") &&
	    span_eqs(args.Check.Status, "critical"));
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(started, 1);
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 1);
	for (int i = 2; i <= 4; i++) {
		char id[8];

		snprintf(id, sizeof(id), "c%d", i);
		ck_assert_int_eq(add(id, "", 1), TV_OK);
	}
	ck_assert_int_eq(add("c5", "", 1), TV_ELIMIT);
}
END_TEST

START_TEST(changes_are_pushed)
{
	struct catalog_register args = { 0 };

	synced("c1");
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("warning"), span_str("hm")), TV_OK);
	arguments(OP_CATALOG_REGISTER, &arena, &args);
	ck_assert(span_eqs(args.Check.Status, "warning") && span_eqs(args.Check.Output, "hm"));
	/* changed while the push is under way: pushed again afterwards, once */
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("passing"), span_str("ok")), TV_OK);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("critical"), span_str("no")), TV_OK);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 1);
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	memset(&args, 0, sizeof(args));
	arguments(OP_CATALOG_REGISTER, &arena, &args);
	ck_assert(span_eqs(args.Check.Status, "critical"));
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(started, 2);
	/* nothing new: nothing to say; output alone: later */
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("critical"), span_str("no")), TV_OK);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("critical"), span_str("still no")), TV_OK);
	ck_assert_uint_eq(started, 2);
	ck_assert_str_eq(look()->output, "still no");
	ck_assert_int_eq(checks_update(table, span_str("none"), span_str("passing"), SPAN_NONE), TV_ENOENT);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("happy"), SPAN_NONE), TV_EINVAL);
}
END_TEST

START_TEST(long_output_is_cut)
{
	synced("c1");
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("passing"), span_str("0123456789abcdefghij")), TV_OK);
	ck_assert_str_eq(look()->output, "0123456789abcdef ... (captured 16 of 20 bytes)");
}
END_TEST

START_TEST(registering_again_keeps_the_state)
{
	synced("c1");
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("warning"), span_str("hm")), TV_OK);
	ck_assert_int_eq(add("c1", "passing", 3600000000000), TV_OK);
	ck_assert_str_eq(look()->status, "warning");
	ck_assert_str_eq(look()->output, "hm");
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 1);
}
END_TEST

START_TEST(ttl_expires)
{
	ck_assert_int_eq(add("c1", "passing", 5000000), TV_OK);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("passing"), span_str("hello")), TV_OK);
	while (strcmp(look()->status, "critical") != 0)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(strncmp(found.output, "TTL expired (las", 16) == 0);
}
END_TEST

START_TEST(deregistration)
{
	struct catalog_deregister args = { 0 };

	synced("c1");
	ck_assert_int_eq(registry_remove(table, ENTRY_CHECK, span_str("c1")), TV_OK);
	ck_assert_uint_eq(look()->n, 0);
	arguments(OP_CATALOG_DEREGISTER, &arena, &args);
	ck_assert(span_eqs(args.Node, "n1") && span_eqs(args.CheckID, "c1") && args.ServiceID.len == 0);
	ck_assert_int_eq(registry_remove(table, ENTRY_CHECK, span_str("c1")), TV_ENOENT);
	/* comes back before the catalog knows that it went */
	ck_assert_int_eq(add("c1", "passing", 1), TV_OK);
	answer(OP_CATALOG_DEREGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 1);
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(look()->n, 1);
}
END_TEST

static void
put(struct buf *b, const char *id, const char *service, const char *status)
{
	struct check c = { .Node = span_str("n1"), .CheckID = span_str(id), .Name = span_str("a name"),
	    .Notes = span_str("notes"),
		.Status = span_str(status), .ServiceID = span_str(service), .Type = span_str("ttl") };

	schema_pack(&check_schema, &c, b);
}

START_TEST(comparison)
{
	struct buf list = BUF_INIT(65536);
	struct catalog_register reg = { 0 };
	struct catalog_deregister dereg = { 0 };

	synced("same");
	synced("differs");
	synced("lost");
	while (open_calls(OP_CATALOG_NODE) == 0)
		ev_run(loop, EVRUN_ONCE);
	schema_pack(&node_services_schema, &(struct node_services){ .found = true }, &list);
	answer(OP_CATALOG_NODE, TV_OK, buf_span(&list));
	buf_reset(&list);
	mpw_array(&list, 4);
	put(&list, "serfHealth", "", "passing");
	put(&list, "same", "", "passing");
	put(&list, "differs", "", "critical");
	put(&list, "stranger", "", "passing");
	answer(OP_HEALTH_NODE, TV_OK, buf_span(&list));
	buf_done(&list);
	arguments(OP_CATALOG_DEREGISTER, &arena, &dereg);
	ck_assert(span_eqs(dereg.CheckID, "stranger"));
	ck_assert_uint_eq(look()->n, 3);			/* the stranger is not shown */
	answer(OP_CATALOG_DEREGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 2);
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	arguments(OP_CATALOG_REGISTER, &arena, &reg);
	ck_assert(span_eqs(reg.Check.CheckID, "lost"));
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(started, 2 + 1 + 2);
}
END_TEST

static void
count(void *ctx)
{
	++*(unsigned *)ctx;
}

/* Until what was registered survives a crash: nobody is answered before. */
static void
saved(void)
{
	unsigned done = 0;

	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	while (done == 0)
		ev_run(loop, EVRUN_ONCE);
}

START_TEST(settling)
{
	unsigned done = 0;

	synced("c1");
	saved();
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	ck_assert_uint_eq(done, 1);				/* nothing to wait for */
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("warning"), SPAN_NONE), TV_OK);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("passing"), SPAN_NONE), TV_OK);
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(done, 1);				/* changed meanwhile: still waiting */
	answer(OP_CATALOG_REGISTER, TV_OK, SPAN_NONE);
	ck_assert_uint_eq(done, 3);
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("critical"), SPAN_NONE), TV_OK);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	while (done == 3)
		ev_run(loop, EVRUN_ONCE);			/* sync_wait */
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 1);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	answer(OP_CATALOG_REGISTER, TV_ENOLEADER, SPAN_NONE);
	ck_assert_uint_eq(done, 5);				/* failed: retried later, nobody waits */
	ck_assert_int_eq(checks_update(table, span_str("c1"), span_str("warning"), SPAN_NONE), TV_OK);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);
	close_table();
	ck_assert_uint_eq(done, 6);
	table = open_table();
}
END_TEST

START_TEST(the_file)
{
	synced("c1");
	synced("c2");
	ck_assert_int_eq(checks_update(table, span_str("c2"), span_str("warning"), span_str("a \"quoted\"\n")), TV_OK);
	ck_assert_int_eq(registry_remove(table, ENTRY_CHECK, span_str("c1")), TV_OK);
	close_table();
	table = open_table();
	ck_assert_uint_eq(look()->n, 1);
	ck_assert_str_eq(found.id, "c2");
	ck_assert_str_eq(found.status, "warning");
	ck_assert_str_eq(found.output, "a \"quoted\"\n");
	close_table();

	char bad[80];
	snprintf(bad, sizeof(bad), "%s.bad", path);
	static const char *const broken[] = { "", "{", "{}", "[{}]", "[{\"CheckID\":\"x\",\"Status\":\"happy\"}]",
	    "[1,null,\"a\"]" };
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		FILE *f = fopen(path, "w");

		ck_assert_ptr_nonnull(f);
		ck_assert_int_ge(fputs(broken[i], f), 0);
		ck_assert_int_eq(fclose(f), 0);
		table = open_table();
			ck_assert_uint_eq(look()->n, 0);
		/* What makes no sense as a whole is kept for somebody to look at. */
		ck_assert_int_eq(access(bad, F_OK) == 0, broken[i][0] != '[');
		unlink(bad);
		close_table();
	}
	table = open_table();
}
END_TEST

/* -- checks that are run, by a process that the test plays --------------------------- */

static int player;			/* the monitor's end of the pair */
static int process;			/* the process' end of its channel */
static struct buf got;

static void
play(void)
{
	int pair[2];

	close_table();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	monitor = pair[0];
	player = pair[1];
	process = -1;
	lost = 0;
	got = BUF_INIT(1u << 20);
	table = open_table();
}

static void
play_ends(void)
{
	close(process);
	close(player);
	close(monitor);
	monitor = -1;
	buf_done(&got);
}

/* The process that rpcd asks for, if it does: what it wants to run is in *role.  Other orders come without a descriptor. */
static bool
asked_for_process(uint32_t *role)
{
	uint32_t order[3];
	union { struct cmsghdr head; char bytes[CMSG_SPACE(sizeof(int))]; } control;
	struct iovec iov = { order, sizeof(order) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

	ev_run(loop, EVRUN_NOWAIT);
	if (recvmsg(player, &msg, 0) != sizeof(order) || CMSG_FIRSTHDR(&msg) == NULL)
		return false;
	*role = order[1];
	memcpy(&process, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(process));
	buf_reset(&got);
	return true;
}

static void
wait_for_process(void)
{
	uint32_t role = 0;

	for (int i = 0; !asked_for_process(&role); i++) {
		ck_assert_int_lt(i, 1000);
		ev_run(loop, EVRUN_ONCE);
	}
	ck_assert_uint_eq(role, ROLE_NETWORK);
}

/* The next frame that the process gets; false: none. */
static bool
next_frame(struct frame *f)
{
	static uint8_t body[4096];
	long used;

	for (int i = 0; (used = frame_read(buf_span(&got), 1u << 20, f)) == 0; i++) {
		uint8_t *room = buf_room(&got, 4096);
		ssize_t n;

		ev_run(loop, EVRUN_NOWAIT);
		if ((n = recv(process, room, 4096, MSG_DONTWAIT)) > 0)
			got.len += (size_t)n;
		else if (i > 3)
			return false;
	}
	ck_assert_int_gt(used, 0);
	ck_assert_uint_le(f->body.len, sizeof(body));
	memcpy(body, f->body.p, f->body.len);
	f->body.p = body;
	buf_drop(&got, (size_t)used);
	return f->type != MSG_PING || next_frame(f);	/* heartbeats: common/proc/helper.h */
}

static uint64_t
expect_put(bool known, const char *status, struct check_run *run)
{
	struct msg_check_put put = { 0 };
	struct frame f;

	ck_assert(next_frame(&f) && f.type == MSG_CHECK_PUT);
	ck_assert_int_eq(msg_read(&msg_check_put_schema, f.body, NULL, &put), TV_OK);
	ck_assert(put.known == known && span_eqs(put.status, status));
	struct rd in = rd_span_over(put.run);
	*run = (struct check_run){ 0 };
	ck_assert_int_eq(schema_unpack(&check_run_schema, &in, &arena, run), TV_OK);
	return put.handle;
}

static void
expect_setup(void)
{
	struct msg_check_setup setup_ = { 0 };
	struct frame f;

	ck_assert(next_frame(&f) && f.type == MSG_CHECK_SETUP);
	ck_assert_int_eq(msg_read(&msg_check_setup_schema, f.body, NULL, &setup_), TV_OK);
	ck_assert_uint_eq(setup_.runs_max, 7);
}

static void
report(uint64_t handle, const char *status, const char *output)
{
	struct buf out = BUF_INIT(4096);
	size_t at = frame_open(&out, MSG_CHECK_RESULT, 0, 0);

	schema_pack(&msg_check_result_schema, &(struct msg_check_result){ handle, span_str(status), span_str(output) }, &out);
	frame_close(&out, at);
	ck_assert_int_eq(send(process, out.data, out.len, 0), (ssize_t)out.len);
	buf_done(&out);
	for (int i = 0; i < 3; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

static void
put_run(const char *id, const char *kind, const char *target)
{
	ck_assert_int_eq(registry_put(table, &(struct local_record){
		.kind = ENTRY_CHECK, .check = { .CheckID = span_str(id), .Name = span_str(id), .Type = span_str(kind) },
		.run = { .Kind = span_str(kind), .Interval = 1000000000, .Target = span_str(target) },
	}), TV_OK);
}

static void
expect_state(const char *id, const char *status, const char *output)
{
	struct entry *e = registry_find(table, ENTRY_CHECK, span_str(id));
	struct local_record rec;

	ck_assert(e != NULL && registry_get(e, &rec));
	ck_assert(span_eqs(rec.check.Status, status) && span_eqs(rec.check.Output, output));
}

START_TEST(results_come_back)
{
	struct check_run run;
	struct frame f;
	uint32_t role;

	play();
	ck_assert(!asked_for_process(&role));		/* nothing to run: no process */
	put_run("a", "tcp", "127.0.0.1:1");
	wait_for_process();
	expect_setup();
	uint64_t a = expect_put(false, "critical", &run);
	ck_assert(span_eqs(run.Target, "127.0.0.1:1") && run.OutputMaxSize == 16);
	report(a, "passing", "fine");
	expect_state("a", "passing", "fine");
	put_run("a", "tcp", "127.0.0.1:1");		/* the same again: nothing begins anew */
	ck_assert(!next_frame(&f));
	put_run("a", "tcp", "127.0.0.1:2");
	ck_assert(next_frame(&f) && f.type == MSG_CHECK_DROP);
	uint64_t b = expect_put(false, "passing", &run);
	ck_assert(b != a);
	report(a, "critical", "of the one before");
	expect_state("a", "passing", "fine");
	report(b, "warning", "longer than sixteen bytes, with what was run");
	expect_state("a", "warning", "longer than sixteen bytes, with what was run");
	ck_assert_int_eq(registry_remove(table, ENTRY_CHECK, span_str("a")), TV_OK);
	ck_assert(next_frame(&f) && f.type == MSG_CHECK_DROP);
	report(b, "critical", "too late");
	ck_assert_int_eq(checks_update(table, span_str("a"), span_str("passing"), SPAN_NONE), TV_ENOENT);
	play_ends();
}
END_TEST

/* It dies, or says what nobody understands: another one comes, and knows how things were. */
START_TEST(process_that_dies)
{
	struct check_run run;
	struct checks_stats stats;

	play();
	put_run("a", "tcp", "127.0.0.1:1");
	put_run("b", "http", "http://127.0.0.1:1");
	wait_for_process();
	expect_setup();
	uint64_t first = expect_put(false, "critical", &run);
	(void)expect_put(false, "critical", &run);
	bool first_is_b = span_eqs(run.Kind, "tcp");
	report(first, "passing", "fine");
	close(process);
	wait_for_process();
	expect_setup();
	(void)expect_put(true, "passing", &run);
	(void)expect_put(false, "critical", &run);
	expect_state(first_is_b ? "b" : "a", "passing", "fine");
	ck_assert_int_eq(send(process, "\0\0\0\0\377\377\0\0\0\0\0\0\0\0\0\0", 16, 0), 16);
	close(process);
	wait_for_process();
	checks_stats(checks, &stats);
	ck_assert(stats.starts == 3 && stats.deaths == 2 && stats.tasks == 2 && stats.running == 1);
	ck_assert_uint_eq(lost, 0);
	close(process);
	close(player);			/* and now the monitor */
	process = player = -1;
	for (int i = 0; lost == 0; i++) {
		ck_assert_int_lt(i, 100);
		ev_run(loop, EVRUN_ONCE);
	}
	play_ends();
}
END_TEST

/* What a start finds in the file is known, and stays as it is until the thresholds are reached. */
START_TEST(restart_changes_no_state)
{
	struct check_run run;

	play();
	put_run("a", "tcp", "127.0.0.1:1");
	wait_for_process();
	expect_setup();
	report(expect_put(false, "critical", &run), "passing", "fine");
	close_table();
	close(process);
	table = open_table();
	expect_state("a", "passing", "fine");
	wait_for_process();
	expect_setup();
	(void)expect_put(true, "passing", &run);
	ck_assert(span_eqs(run.Target, "127.0.0.1:1"));
	play_ends();
}
END_TEST

/* They were allowed when it was registered: now nobody runs it, and it does not stay as it was. */
START_TEST(scripts_that_are_off)
{
	uint32_t role;

	play();
	put_run("a", "script", "");
	ck_assert(!asked_for_process(&role));
	struct entry *e = registry_find(table, ENTRY_CHECK, span_str("a"));
	struct local_record rec;
	ck_assert(registry_get(e, &rec) && span_eqs(rec.check.Status, "critical") &&
	    span_starts(rec.check.Output, span_str("Scripts are disabled")));
	play_ends();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("agent_checks");
	TCase *t = tcase_create("agent_checks");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, registration_is_pushed);
	tcase_add_test(t, changes_are_pushed);
	tcase_add_test(t, long_output_is_cut);
	tcase_add_test(t, registering_again_keeps_the_state);
	tcase_add_test(t, ttl_expires);
	tcase_add_test(t, deregistration);
	tcase_add_test(t, comparison);
	tcase_add_test(t, settling);
	tcase_add_test(t, the_file);
	tcase_add_test(t, results_come_back);
	tcase_add_test(t, process_that_dies);
	tcase_add_test(t, restart_changes_no_state);
	tcase_add_test(t, scripts_that_are_off);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

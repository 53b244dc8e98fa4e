/*
 * rpcd's links while keys are rotated: who has learned of a step and who has not still find each other, no call is
 * lost on the way, and links end with their key.
 */
#include <check.h>
#include <ev.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/greet.h"
#include "common/net/msg.h"
#include "rpcd/route/link_client.h"

#define CALLS 20

static struct ev_loop *loop;
static struct key_pair pair = { .secret = { 8 } };
static struct key keys[3] = { { { 1 } }, { { 2 } }, { { 3 } } };
static struct noise_conf there, here;
static struct listener *listener;
static uint16_t port;
static unsigned accepted, asked, answered, failed, closed;
static enum tv_err last_err;
static struct chan *peers[16];
static struct {
	bool on;			/* questions are kept, and answered by answer_held() */
	bool retires;			/* says behind each answer that the key has left the ring */
	struct chan *chan;
	uint16_t type;
	uint64_t id;
} held;

/* -- the other side: answers every call with its own body -- */

static void
answer_held(void)
{
	(void)chan_send(held.chan, held.type, FRAME_REPLY, held.id, span_str("question"));
}

static void
tell_retired(struct chan *c)
{
	(void)chan_send(c, MSG_LINK_RETIRED, FRAME_REPLY, 0, span_of((const uint8_t *)"\x90", 1));
}

static enum tv_err
peer_frame(void *ctx, struct chan *c, const struct frame *f)
{
	(void)ctx;
	if (f->type == MSG_HELLO) {
		greet_send(c, "rpcd", "peer");
	} else if (held.on && !(f->flags & FRAME_CANCEL)) {
		held.chan = c;
		held.type = f->type;
		held.id = f->id;
	} else if (!(f->flags & FRAME_CANCEL)) {
		(void)chan_send(c, f->type, FRAME_REPLY, f->id, f->body);
		if (held.retires)
			tell_retired(c);
	}
	return TV_OK;
}

static void
peer_closed(void *ctx, struct chan *c, enum tv_err why)
{
	(void)why;
	(void)ctx;
	for (unsigned i = 0; i < 16; i++)
		if (peers[i] == c)
			peers[i] = NULL;
	closed++;
	listener_release(listener);
}

static const struct chan_events peer_events = { peer_frame, NULL, peer_closed };

static void
on_accept(void *ctx, int fd)
{
	struct chan_conf conf = { .loop = loop, .events = &peer_events, .name = "peer", .body_max = 65536,
		.out_max = 1 << 20, .noise = &there };

	(void)ctx;
	peers[accepted % 16] = chan_new(fd, &conf);
	ck_assert_ptr_nonnull(peers[accepted % 16]);
	accepted++;
}

static void
listen_here(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&sin, len) == 0 && listen(fd, 16) == 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	port = ntohs(sin.sin_port);
	listener = listener_new(loop, fd, 16, on_accept, NULL);
	ck_assert_ptr_nonnull(listener);
}

/* -- this side -- */

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	last_err = err;
	if (err == TV_OK) {
		ck_assert(span_eqs(body, ctx));
		answered++;
	} else {
		failed++;
	}
}

static struct link_call *
call(struct link_client *l)
{
	static char text[] = "question";
	struct link_call *c = link_client_call(l, "127.0.0.1", port, MSG_OP, span_str(text), MONO_S(20), on_answer, text);

	ck_assert_ptr_nonnull(c);
	asked++;
	return c;
}

static struct link_client_stats
stats(const struct link_client *l)
{
	struct link_client_stats st;

	link_client_stats(l, &st);
	return st;
}

static void
run_until_all_ended(void)
{
	while (answered + failed < asked)
		ev_run(loop, EVRUN_ONCE);
}

static struct mono retire_time;

static struct link_client *
links_with(const struct noise_conf *noise)
{
	struct link_client_conf conf = { .loop = loop, .noise = noise, .node_id = "here", .dial_timeout = MONO_S(10),
		.idle_timeout = MONO_S(100), .retire_time = retire_time, .answer_max = 65536, .out_max = 1 << 20,
		.pending_max = 100, .links_max = 4 };
	struct link_client *l = link_client_new(&conf);

	ck_assert_ptr_nonnull(l);
	return l;
}

static void
setup(void)
{
	loop = ev_loop_new(EVFLAG_AUTO);
	accepted = asked = answered = failed = closed = 0;
	memset(peers, 0, sizeof(peers));
	memset(&held, 0, sizeof(held));
	retire_time = MONO_S(1000);
	there = here = (struct noise_conf){ .pattern = NOISE_NKPSK0, .statics = &pair, .static_count = 1,
		.static_public = pair.pub };
	listen_here();
}

static void
teardown(void)
{
	for (unsigned i = 0; i < 16; i++)
		chan_free(peers[i]);
	listener_free(listener);
	ev_loop_destroy(loop);
}

/* Keys of the ring here, keys there, and how many connections it takes (0: they have no key in common). */
START_TEST(some_key_in_common)
{
	static const struct {
		struct key here[3];
		unsigned here_count;
		struct key there[2];
		unsigned there_count, dials;
	} rows[] = {
		{ { { { 1 } } }, 1, { { { 1 } } }, 1, 1 },
		{ { { { 2 } }, { { 1 } } }, 2, { { { 1 } } }, 1,
		    2 },			/* we have used the new key already */
		{ { { { 1 } }, { { 2 } } }, 2, { { { 2 } }, { { 1 } } }, 2, 1 },	/* the peer has */
		{ { { { 3 } }, { { 2 } }, { { 1 } } }, 3, { { { 1 } } }, 1, 3 },
		{ { { { 1 } }, { { 2 } } }, 2, { { { 3 } } }, 1, 0 },
	};
	struct link_client *l;

	here.psks = rows[_i].here;
	here.psk_count = rows[_i].here_count;
	there.psks = rows[_i].there;
	there.psk_count = rows[_i].there_count;
	l = links_with(&here);
	for (int i = 0; i < CALLS; i++)
		call(l);
	run_until_all_ended();
	ck_assert_uint_eq(rows[_i].dials > 0 ? answered : failed, CALLS);
	if (rows[_i].dials > 0)
		ck_assert_uint_eq(accepted, rows[_i].dials);
	else
		ck_assert_uint_eq(accepted, rows[_i].here_count);
	link_client_free(l);
}
END_TEST

/* With one key here and there, a link, and a call that was answered on it. */
static struct link_client *
opened(void)
{
	struct link_client *l;

	here.psks = &keys[0];
	here.psk_count = 1;
	there = here;
	l = links_with(&here);
	call(l);
	run_until_all_ended();
	ck_assert(answered == 1 && accepted == 1);
	return l;
}

static void
rekey(struct link_client *l, const struct key *psks, unsigned count)
{
	here.psks = there.psks = psks;
	here.psk_count = there.psk_count = count;
	link_client_rekeyed(l);
}

static void
run_until_retired(struct link_client *l)
{
	while (stats(l).retiring > 0)
		ev_run(loop, EVRUN_ONCE);
}

/* The link stays as long as its key is anywhere in the ring, and goes with it; the next one uses what holds then. */
START_TEST(a_link_goes_with_its_key)
{
	struct key both[2] = { keys[1], keys[0] };
	struct link_client *l = opened();

	rekey(l, both, 2);
	call(l);
	run_until_all_ended();
	ck_assert(answered == 2 && accepted == 1 && stats(l).retired == 0);
	rekey(l, &keys[1], 1);
	ck_assert(!link_client_is_up(l, "127.0.0.1", port));
	ck_assert(stats(l).retired == 1 && stats(l).retiring == 1);
	run_until_retired(l);
	while (closed == 0)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(stats(l).open == 0 && stats(l).failed == 0);
	call(l);
	run_until_all_ended();
	ck_assert(answered == 3 && accepted == 2 && failed == 0 && stats(l).open == 1);
	link_client_rekeyed(l);
	ck_assert_uint_eq(stats(l).retired, 1);
	link_client_free(l);
}
END_TEST

/* What is under way ends where it began, while new calls go over a new link. */
START_TEST(calls_under_way_end_first)
{
	struct link_client *l = opened();

	held.on = true;
	call(l);
	while (held.id == 0)
		ev_run(loop, EVRUN_ONCE);
	held.on = false;
	rekey(l, &keys[1], 1);
	call(l);
	while (answered < 2)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(accepted == 2 && closed == 0 && stats(l).retiring == 1 && stats(l).open == 2);
	answer_held();
	run_until_all_ended();
	run_until_retired(l);
	ck_assert(answered == 3 && failed == 0 && stats(l).open == 1 && link_client_is_up(l, "127.0.0.1", port));
	link_client_free(l);
}
END_TEST

/* 0: the answer comes too late; 1: nobody wants it any more; 2: all ends before; 3: the other side hangs up. */
START_TEST(the_last_call_has_no_answer)
{
	struct link_call *c;
	struct link_client *l;

	retire_time = _i == 0 ? MONO_MS(50) : MONO_S(1000);
	l = opened();
	held.on = true;
	c = call(l);
	while (held.id == 0)
		ev_run(loop, EVRUN_ONCE);
	rekey(l, &keys[1], 1);
	if (_i == 1) {
		link_client_cancel(c);
		asked--;
	} else if (_i == 3) {
		chan_close(held.chan, TV_ECLOSED);
	}
	if (_i != 2) {
		run_until_retired(l);
		run_until_all_ended();
		ck_assert_uint_eq(stats(l).open, 0);
		held.on = false;
		call(l);
		run_until_all_ended();
		ck_assert(answered == 2 && accepted == 2);
	}
	link_client_free(l);
	ck_assert_uint_eq(failed, _i != 1);
	ck_assert(_i != 2 || last_err == TV_ECLOSED);
}
END_TEST

/* The other side has learned of it before us.  What it then says again and again costs no more than a link at a time. */
START_TEST(told_by_the_other_side)
{
	struct link_client *l = opened();

	held.on = true;
	call(l);
	while (held.id == 0)
		ev_run(loop, EVRUN_ONCE);
	held.on = false;
	tell_retired(held.chan);
	tell_retired(held.chan);
	while (stats(l).retired == 0)
		ev_run(loop, EVRUN_ONCE);
	call(l);
	while (answered < 2)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(accepted == 2 && stats(l).retired == 1);
	answer_held();
	run_until_all_ended();
	run_until_retired(l);
	ck_assert(answered == 3 && failed == 0);
	held.retires = true;
	for (unsigned i = 0; i < CALLS; i++) {
		unsigned before = (unsigned)stats(l).retired;

		call(l);
		run_until_all_ended();
		while (stats(l).retired == before || link_client_is_up(l, "127.0.0.1", port))
			ev_run(loop, EVRUN_ONCE);
		ck_assert_uint_le(stats(l).retiring, 4);
	}
	ck_assert(failed == 0 && answered == 3 + CALLS);
	run_until_retired(l);
	link_client_free(l);
}
END_TEST

/* As before, with a call that hangs on each of them: no more are kept than links may be. */
START_TEST(retired_without_end)
{
	struct link_client *l = opened();

	held.on = true;
	for (unsigned i = 0; i < 10; i++) {
		held.id = 0;
		call(l);
		while (held.id == 0)
			ev_run(loop, EVRUN_ONCE);
		tell_retired(held.chan);
		while (stats(l).retired == i || link_client_is_up(l, "127.0.0.1", port))
			ev_run(loop, EVRUN_ONCE);
	}
	while (failed < 6)
		ev_run(loop, EVRUN_ONCE);
	ck_assert(stats(l).retiring == 4 && stats(l).open == 4 && last_err == TV_ECLOSED);
	link_client_free(l);
	ck_assert_uint_eq(failed, 10);
}
END_TEST

/* The key of a dial that is under way goes: 0 before it was named, else later.  The call has not left, and waits. */
START_TEST(key_gone_while_dialling)
{
	struct link_client *l;

	here.psks = &keys[0];
	here.psk_count = 1;
	there = here;
	l = links_with(&here);
	call(l);
	while (_i > 0 && accepted == 0)
		ev_run(loop, EVRUN_ONCE);
	for (int turns = 1; turns < _i; turns++)
		ev_run(loop, EVRUN_NOWAIT);
	rekey(l, &keys[1], 1);
	run_until_all_ended();
	ck_assert(answered == 1 && failed == 0);
	run_until_retired(l);
	link_client_free(l);
}
END_TEST

/* Ended in the midst of a handshake: no further key is tried, and every call ends. */
START_TEST(ends_while_dialling)
{
	struct key both[2] = { keys[1], keys[0] };
	struct link_client *l;

	here.psks = both;
	here.psk_count = 2;
	there.psks = keys;
	there.psk_count = 1;
	l = links_with(&here);
	call(l);
	while (accepted == 0)
		ev_run(loop, EVRUN_ONCE);
	link_client_free(l);
	ck_assert(failed == 1 && accepted == 1);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("linkkeys");
	TCase *t = tcase_create("linkkeys");
	SRunner *r;
	int bad;

	if (sodium_init() < 0)
		return 1;
	crypto_scalarmult_base(pair.pub, pair.secret);
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, some_key_in_common, 0, 5);
	tcase_add_test(t, a_link_goes_with_its_key);
	tcase_add_test(t, calls_under_way_end_first);
	tcase_add_loop_test(t, the_last_call_has_no_answer, 0, 4);
	tcase_add_test(t, told_by_the_other_side);
	tcase_add_test(t, retired_without_end);
	tcase_add_loop_test(t, key_gone_while_dialling, 0, 5);
	tcase_add_test(t, ends_while_dialling);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad > 0;
}

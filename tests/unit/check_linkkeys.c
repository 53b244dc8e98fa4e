/*
 * rpcd's links while keys are rotated: who has learned of a step and who has not still find each other, and no call is
 * lost on the way.
 */
#include <check.h>
#include <ev.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/greet.h"
#include "common/msg.h"
#include "rpcd/links.h"

#define CALLS 20

static struct ev_loop *loop;
static struct key_pair pair = { .secret = { 8 } };
static struct key keys[3] = { { { 1 } }, { { 2 } }, { { 3 } } };
static struct noise_conf there, here;
static struct listener *listener;
static uint16_t port;
static unsigned accepted, asked, answered, failed;
static struct chan *peers[16];

/* -- the other side: answers every call with its own body -- */

static enum tv_err
peer_frame(void *ctx, struct chan *c, const struct frame *f)
{
	(void)ctx;
	if (f->type == MSG_HELLO)
		greet_send(c, "rpcd", "peer");
	else
		(void)chan_send(c, f->type, FRAME_REPLY, f->id, f->body);
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
	if (err == TV_OK) {
		ck_assert(span_eqs(body, ctx));
		answered++;
	} else {
		failed++;
	}
}

static void
call(struct links *l)
{
	static char text[] = "question";

	ck_assert_ptr_nonnull(links_call(l, "127.0.0.1", port, MSG_OP, span_str(text), MONO_S(20), on_answer, text));
	asked++;
}

static void
run_until_all_ended(void)
{
	while (answered + failed < asked)
		ev_run(loop, EVRUN_ONCE);
}

static struct links *
links_with(const struct noise_conf *noise)
{
	struct links_conf conf = { .loop = loop, .noise = noise, .node_id = "here", .dial_timeout = MONO_S(10),
		.idle_timeout = MONO_S(100), .answer_max = 65536, .out_max = 1 << 20, .pending_max = 100,
		    .links_max = 4 };
	struct links *l = links_new(&conf);

	ck_assert_ptr_nonnull(l);
	return l;
}

static void
setup(void)
{
	loop = ev_loop_new(EVFLAG_AUTO);
	accepted = asked = answered = failed = 0;
	memset(peers, 0, sizeof(peers));
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
	struct links *l;

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
	links_free(l);
}
END_TEST

/* The ring changes under an open link: the link stays, and the next one uses what holds then. */
START_TEST(an_open_link_outlives_its_key)
{
	struct links *l;

	here.psks = &keys[0];
	here.psk_count = 1;
	there = here;
	l = links_with(&here);
	call(l);
	run_until_all_ended();
	ck_assert(answered == 1 && accepted == 1);
	here.psks = there.psks = &keys[1];	/* rotated, here and there */
	call(l);
	run_until_all_ended();
	ck_assert(answered == 2 && accepted == 1);
	chan_close(peers[0], TV_ECLOSED);
	while (links_is_up(l, "127.0.0.1", port))
		ev_run(loop, EVRUN_ONCE);
	call(l);
	run_until_all_ended();
	ck_assert(answered == 3 && accepted == 2);
	links_free(l);
}
END_TEST

/* Ended in the midst of a handshake: no further key is tried, and every call ends. */
START_TEST(ends_while_dialling)
{
	struct key both[2] = { keys[1], keys[0] };
	struct links *l;

	here.psks = both;
	here.psk_count = 2;
	there.psks = keys;
	there.psk_count = 1;
	l = links_with(&here);
	call(l);
	while (accepted == 0)
		ev_run(loop, EVRUN_ONCE);
	links_free(l);
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
	tcase_add_test(t, an_open_link_outlives_its_key);
	tcase_add_test(t, ends_while_dialling);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad > 0;
}

/*
 * rpcd's links at their limits: calls that fail while others begin, more peers than there are places, peers that connect
 * and say nothing, and calls that are taken back in the midst of it.  Worth most under AddressSanitizer.
 */
#include <check.h>
#include <ev.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/greet.h"
#include "common/net/msg.h"
#include "rpcd/route/link_client.h"

#define DOORS_MAX 16
#define PEERS_MAX 64

static struct ev_loop *loop;

/* -- the other sides: each at a port of its own -- */

struct door {
	struct listener *listener;
	uint16_t port;
	bool mute;				/* takes connections and says nothing */
	bool deaf;				/* says HELLO, answers no call */
	const uint8_t *hello;			/* says this one, where it is another than ours */
	unsigned accepted;
};
static struct door doors[DOORS_MAX];
static struct peer {
	struct chan *chan;
	struct door *door;
} peers[PEERS_MAX];

static enum tv_err
peer_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct peer *p = ctx;

	if (p->door->mute)
		return TV_OK;
	if (f->type == MSG_HELLO && p->door->hello != NULL)
		(void)chan_send(c, MSG_HELLO, 0, 0, span_of(p->door->hello + 1, p->door->hello[0]));
	else if (f->type == MSG_HELLO)
		greet_send(c, "rpcd", "peer");
	else if (!p->door->deaf && !(f->flags & FRAME_CANCEL))
		(void)chan_send(c, f->type, FRAME_REPLY, f->id, f->body);
	return TV_OK;
}

static void
peer_closed(void *ctx, struct chan *c, enum tv_err why)
{
	struct peer *p = ctx;

	(void)c, (void)why;
	p->chan = NULL;
	listener_release(p->door->listener);
}

static const struct chan_events peer_events = { peer_frame, NULL, peer_closed };

static void
on_accept(void *ctx, int fd)
{
	struct door *d = ctx;
	struct peer *p = peers;
	struct chan_conf conf = { .loop = loop, .events = &peer_events, .name = "peer", .body_max = 65536,
		.out_max = 1 << 20 };

	while (p->chan != NULL)
		p++;
	ck_assert(p < peers + PEERS_MAX);
	p->door = conf.ctx = d;
	conf.ctx = p;
	p->chan = chan_new(fd, &conf);
	ck_assert_ptr_nonnull(p->chan);
	d->accepted++;
}

static int
bound(uint16_t *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&sin, len) == 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	*port = ntohs(sin.sin_port);
	return fd;
}

static struct door *
door_open(unsigned i)
{
	int fd = bound(&doors[i].port);

	ck_assert_int_eq(listen(fd, 64), 0);
	doors[i].listener = listener_new(loop, fd, 64, on_accept, &doors[i]);
	ck_assert_ptr_nonnull(doors[i].listener);
	return &doors[i];
}

/* -- this side -- */

static struct link_client *links;
static unsigned asked, ended, answered, unreached, closed_, refused;

static void
links_with(unsigned links_max, unsigned pending_max, struct mono dial_timeout)
{
	links = link_client_new(&(struct link_client_conf){ .loop = loop, .node_id = "here", .dial_timeout = dial_timeout,
		.idle_timeout = MONO_S(100), .answer_max = 65536, .out_max = 1 << 20, .pending_max = pending_max,
		.links_max = links_max });
	ck_assert_ptr_nonnull(links);
}

static void
count(enum tv_err err)
{
	ended++;
	answered += err == TV_OK;
	unreached += err == TV_EUNREACH;
	closed_ += err == TV_ECLOSED;
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	(void)ctx, (void)body;
	count(err);
}

static struct link_call *
call(const char *ip, uint16_t port, link_done *done, void *ctx)
{
	struct link_call *c = link_client_call(links, ip, port, MSG_OP, span_str("question"), MONO_S(60), done, ctx);

	*(c != NULL ? &asked : &refused) += 1;
	return c;
}

static void
run_until_all_ended(void)
{
	while (ended < asked)
		ev_run(loop, EVRUN_ONCE);
}

static unsigned
stat_unproven(void)
{
	struct link_client_stats st;

	link_client_stats(links, &st);
	return st.unproven;
}

static void
setup(void)
{
	loop = ev_loop_new(EVFLAG_AUTO);
	asked = ended = answered = unreached = closed_ = refused = 0;
	memset(doors, 0, sizeof(doors));
	memset(peers, 0, sizeof(peers));
}

static void
teardown(void)
{
	link_client_free(links);
	for (unsigned i = 0; i < PEERS_MAX; i++)
		chan_free(peers[i].chan);
	for (unsigned i = 0; i < DOORS_MAX; i++)
		listener_free(doors[i].listener);
	ev_loop_destroy(loop);
}

/* -- tests -- */

#define ADDRESSES 300

/* Addresses of 127/8 where nobody listens: a connect is refused at once. */
static const char *
nobody(unsigned i)
{
	static char ip[32];

	snprintf(ip, sizeof(ip), "127.99.%u.%u", i / 200, i % 200 + 1);
	return ip;
}

static unsigned next_address;
static uint16_t dead_port;

static void
on_failure_dial_another(void *ctx, enum tv_err err, struct span body)
{
	(void)ctx, (void)body;
	count(err);
	for (int i = 0; i < 2 && next_address < ADDRESSES; i++)
		(void)call(nobody(next_address++), dead_port, on_failure_dial_another, NULL);
}

/* As a router does that tries one server after another: the link of the failing call is the one that gives way. */
START_TEST(failures_dial_others)
{
	int fd = bound(&dead_port);

	next_address = 0;
	links_with(_i + 1u, 100, MONO_S(10));
	for (int i = 0; i < 8; i++)
		(void)call(nobody(next_address++), dead_port, on_failure_dial_another, NULL);
	run_until_all_ended();
	ck_assert_uint_eq(next_address, ADDRESSES);
	ck_assert_uint_eq(asked + refused, ADDRESSES);
	ck_assert_uint_eq(unreached, asked);
	close(fd);
}
END_TEST

/* A link that was up fails with calls on it, and each of their ends dials somebody. */
START_TEST(a_fallen_link_dials_others)
{
	struct door *d = door_open(0);
	int fd = bound(&dead_port);

	d->deaf = true;
	next_address = 0;
	links_with(2, 100, MONO_S(10));
	for (int i = 0; i < 20; i++)
		(void)call("127.0.0.1", d->port, on_failure_dial_another, NULL);
	while (!link_client_is_up(links, "127.0.0.1", d->port))
		ev_run(loop, EVRUN_ONCE);
	chan_close(peers[0].chan, TV_ECLOSED);
	run_until_all_ended();
	ck_assert_uint_eq(closed_, 20);
	ck_assert_uint_eq(next_address, ADDRESSES);
	close(fd);
}
END_TEST

static struct link_call *held[40];

static void
on_end_cancel_another(void *ctx, enum tv_err err, struct span body)
{
	struct link_call **at = ctx;
	size_t i = (size_t)(at - held), other = (i + 7) % 40;

	(void)body;
	count(err);
	*at = NULL;
	if (held[other] != NULL) {
		link_client_cancel(held[other]);
		held[other] = NULL;
		asked--;
	}
	(void)call(nobody((unsigned)i + 50), dead_port, on_answer, NULL);	/* and somebody's link gives way */
}

/* Calls are taken back by the ends of others, when their own links are down or gone already. */
START_TEST(ends_cancel_others)
{
	int fd = bound(&dead_port);

	links_with(3, 100, MONO_S(10));
	for (unsigned i = 0; i < 40; i++)
		held[i] = call(nobody(i % 8), dead_port, on_end_cancel_another, &held[i]);
	run_until_all_ended();
	for (unsigned i = 0; i < 40; i++)
		ck_assert_ptr_null(held[i]);
	close(fd);
}
END_TEST

/* Peers that take the connection and say nothing hold a part of the places only, and no call for long. */
START_TEST(silent_peers)
{
	struct door *real = door_open(0), *mute;

	links_with(32, 100, MONO_MS(300));
	(void)call("127.0.0.1", real->port, on_answer, NULL);
	run_until_all_ended();
	ck_assert_uint_eq(answered, 1);
	for (unsigned i = 1; i < DOORS_MAX; i++) {
		mute = door_open(i);
		mute->mute = true;
		(void)call("127.0.0.1", mute->port, on_answer, NULL);
		ck_assert_uint_le(stat_unproven(), 8);
		(void)call("127.0.0.1", real->port, on_answer, NULL);
	}
	run_until_all_ended();
	ck_assert_uint_eq(answered, DOORS_MAX);
	ck_assert_uint_eq(unreached, DOORS_MAX - 1);	/* nothing was sent: another server may be asked */
	ck_assert_uint_eq(real->accepted, 1);
	ck_assert(link_client_is_up(links, "127.0.0.1", real->port));
}
END_TEST

/* More proven peers than places: the one idle for longest gives way, one with calls under way never. */
START_TEST(the_idlest_gives_way)
{
	struct door *busy = door_open(0), *d;

	busy->deaf = true;
	links_with(3, 100, MONO_S(10));
	(void)call("127.0.0.1", busy->port, on_answer, NULL);
	while (!link_client_is_up(links, "127.0.0.1", busy->port))
		ev_run(loop, EVRUN_ONCE);
	for (unsigned i = 1; i < DOORS_MAX; i++) {
		d = door_open(i);
		(void)call("127.0.0.1", d->port, on_answer, NULL);
		while (answered < i)
			ev_run(loop, EVRUN_ONCE);
		ck_assert(link_client_is_up(links, "127.0.0.1", d->port));
		ck_assert(link_client_is_up(links, "127.0.0.1", busy->port));
		ck_assert(i < 3 || !link_client_is_up(links, "127.0.0.1", doors[i - 2].port));
	}
	for (unsigned i = 0; i < DOORS_MAX; i++)
		doors[i].deaf = true;
	for (unsigned i = 1; i < 4; i++)		/* every place is in use: refused, not made room for */
		(void)call("127.0.0.1", doors[i].port, on_answer, NULL);
	ck_assert_uint_ge(refused, 1);
}
END_TEST

/* The limit of calls on a link holds while it is dialled, too. */
START_TEST(pending_max)
{
	struct door *d = door_open(0);
	unsigned over = 0;

	d->deaf = true;
	links_with(4, 20, MONO_S(10));
	for (unsigned i = 0; i < 500; i++)
		over += call("127.0.0.1", d->port, on_answer, NULL) == NULL;
	while (!link_client_is_up(links, "127.0.0.1", d->port) || ended < asked - 20)
		ev_run(loop, EVRUN_ONCE);
	for (unsigned i = 0; i < 500; i++)
		over += call("127.0.0.1", d->port, on_answer, NULL) == NULL;
	while (ended < asked - 20)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(over + unreached, 980);
	chan_close(peers[0].chan, TV_ECLOSED);
	run_until_all_ended();
	ck_assert_uint_eq(closed_, 20);
}
END_TEST

/* Calls whose answer waits for nothing but the peer have their time counted, others and those that fail do not. */
START_TEST(times)
{
	struct door *d = door_open(0);
	struct link_client_stats st;
	int fd = bound(&dead_port);

	links_with(4, 100, MONO_S(10));
	for (unsigned i = 0; i < 3; i++)
		link_client_expect(call("127.0.0.1", d->port, on_answer, NULL));
	link_client_expect(call("127.0.0.1", dead_port, on_answer, NULL));
	(void)call("127.0.0.1", d->port, on_answer, NULL);
	run_until_all_ended();
	link_client_stats(links, &st);
	ck_assert_uint_eq(answered, 4);
	ck_assert_uint_eq(st.took.count, 3);
	ck_assert_int_gt(st.took.min_ns, 0);
	ck_assert_int_lt(st.took.max_ns, MONO_S(60).ns);
	close(fd);
}
END_TEST

/* What is known of an address outlives its link. */
START_TEST(standings)
{
	struct door *d = door_open(0);
	int fd = bound(&dead_port);

	links_with(4, 100, MONO_S(10));
	ck_assert_int_eq(link_client_standing(links, "127.0.0.1", d->port), STANDING_UNKNOWN);
	(void)call("127.0.0.1", d->port, on_answer, NULL);
	(void)call("127.0.0.1", dead_port, on_answer, NULL);
	run_until_all_ended();
	ck_assert_int_eq(link_client_standing(links, "127.0.0.1", d->port), STANDING_OPEN);
	ck_assert_int_eq(link_client_standing(links, "127.0.0.1", dead_port), STANDING_RESTING);
	chan_close(peers[0].chan, TV_ECLOSED);
	while (link_client_is_up(links, "127.0.0.1", d->port))
		ev_run(loop, EVRUN_ONCE);
	for (unsigned i = 0; i < 50; i++)
		(void)call(nobody(i), dead_port, on_answer, NULL);
	run_until_all_ended();
	ck_assert_int_eq(link_client_standing(links, "127.0.0.1", d->port), STANDING_PROVEN);
	ck_assert_int_eq(link_client_standing(links, "127.0.0.1", dead_port), STANDING_RESTING);
	/* Looked at without a question: no call, but a link. */
	d = door_open(1);
	link_client_probe(links, "127.0.0.1", d->port);
	while (link_client_standing(links, "127.0.0.1", d->port) != STANDING_OPEN)
		ev_run(loop, EVRUN_ONCE);
	close(fd);
}
END_TEST

static char logged[512];

static void
take_line(void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)ctx;
	if (level == LOG_LVL_WARN && strcmp(tag, "net") == 0)
		snprintf(logged, sizeof(logged), "%s", text);
}

/* Peers of other releases: length, then the body of their HELLO. */
START_TEST(versions_of_peers)
{
	static const struct {
		const char *hello;
		bool taken;
		const char *says;
	} v[] = {
		{ "\x09\x94\1\xa4rpcd\xa0\xa0", true, NULL },
		{ "\x0a\x95\1\xa4rpcd\xa0\xa0\1", true, NULL },
		{ "\x0d\x97\1\xa4rpcd\xa0\xa0\3\x90\xa1x", true, NULL },	/* two fields that come later */
		{ "\x0a\x95\2\xa4rpcd\xa0\xa0\3", false, "version 2 to 3 of the protocol between daemons, this one version 1" },
		{ "\x09\x94\2\xa4rpcd\xa0\xa0", false, "version 2 of the protocol between daemons, this one version 1" },
		{ "\x08\x93\1\xa4rpcd\xa0", false, NULL },			/* too short */
		{ "\x09\x94\0\xa4rpcd\xa0\xa0", false, NULL },
		{ "\x0a\x95\3\xa4rpcd\xa0\xa0\1", false, NULL },		/* the wrong way round */
		{ "\x0a\x95\1\xa4rpcd\xa0\xa0\xa0", false, NULL },
	};
	struct door *d = door_open(0);

	logged[0] = '\0';
	log_tap(LOG_LVL_WARN, take_line, NULL);
	d->hello = (const uint8_t *)v[_i].hello;
	links_with(4, 100, MONO_S(10));
	(void)call("127.0.0.1", d->port, on_answer, NULL);
	run_until_all_ended();
	ck_assert_uint_eq(answered, v[_i].taken);
	ck_assert_uint_eq(unreached, !v[_i].taken);	/* nothing was sent: it may go elsewhere */
	ck_assert_msg(v[_i].says == NULL || strstr(logged, v[_i].says) != NULL, "%s", logged);
	log_tap(LOG_LVL_ERR, NULL, NULL);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("links");
	TCase *t = tcase_create("links");
	SRunner *r;
	int bad;

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, failures_dial_others, 0, 5);
	tcase_add_test(t, a_fallen_link_dials_others);
	tcase_add_test(t, ends_cancel_others);
	tcase_add_test(t, silent_peers);
	tcase_add_test(t, the_idlest_gives_way);
	tcase_add_test(t, pending_max);
	tcase_add_test(t, times);
	tcase_add_test(t, standings);
	tcase_add_loop_test(t, versions_of_peers, 0, 9);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad > 0;
}

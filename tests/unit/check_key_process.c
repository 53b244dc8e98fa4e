/* Both ends of "rpcd: keys" on one loop: the test plays the monitor, and the process without its walls. */
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/scratch.h"
#include "tests/unit/tls_kit.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/thread.h"
#include "rpcd/keys/holder.h"
#include "rpcd/keys/keys.h"
#include "rpcd/keys/pair.h"

#define FOR_EVER MONO_S(30)

static struct ev_loop *loop;
static int monitor, player;		/* rpcd's end of the pair, and the monitor's */
static struct rpcd_conf conf;
static struct keys *keys;
static struct tls_kit_cert pair;
static uint8_t message[130];

/* -- what rpcd hears -- */

static unsigned changes, bads;
static uint64_t number;
static char bad_why[256];

static void
on_files(void *ctx, const struct keys_files *f)
{
	(void)ctx;
	changes++;
	number = f->number;
	ck_assert(f->chain.len > 0 && f->not_after > 0);
}

static void
on_bad(void *ctx, const char *why)
{
	(void)ctx;
	bads++;
	snprintf(bad_why, sizeof(bad_why), "%s", why);
}

static void
on_lost(void *ctx)
{
	(void)ctx;
	ck_abort_msg("lost");
}

/* -- the process -- */

static struct {
	struct holder *holder;
	struct chan *chan;
	bool deaf;			/* takes no question */
} process;

static enum tv_err
on_wall(void *ctx, const struct sandbox_policy *policy)
{
	(void)ctx;
	ck_assert_uint_gt(policy->path_count, 0);
	return TV_OK;
}

static void
on_retire(void *ctx)
{
	(void)ctx;
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	(void)ctx;
	if (f->type == MSG_PING)
		return chan_send(c, MSG_PING, FRAME_REPLY, f->id, MSG_EMPTY);
	if (f->type == MSG_KEYS_SIGN && process.deaf)
		return TV_OK;
	return holder_frame(process.holder, f);
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	(void)ctx, (void)c, (void)why;
	process.chan = NULL;
}

static void
end_process(void)
{
	chan_free(process.chan);
	process.chan = NULL;
	if (process.holder != NULL)
		holder_free(process.holder);
	process.holder = NULL;
}

/* The next order to start one. */
static int
wait_for_order(void)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint32_t order[3];
	struct iovec iov = { order, sizeof(order) };
	int fd = -1;

	while (fd < 0) {
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		    .msg_controllen = sizeof(control) };

		if (recvmsg(player, &msg, MSG_DONTWAIT) != (ssize_t)sizeof(order))
			ev_run(loop, EVRUN_ONCE);
		else if (CMSG_FIRSTHDR(&msg) != NULL)	/* else to end one */
			memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	}
	return fd;
}

static void
start_process(void)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };
	int fd = wait_for_order();

	end_process();
	process.deaf = false;
	process.holder = holder_new(&(struct holder_conf){ .loop = loop, .wall = on_wall, .retire = on_retire });
	process.chan = chan_new(fd, &(struct chan_conf){ .loop = loop, .events = &events, .name = "process",
		.body_max = MSG_TEXT, .out_max = MSG_LIST });
	ck_assert(process.holder != NULL && process.chan != NULL);
	holder_answer_on(process.holder, process.chan);
	ck_assert_int_eq(chan_send_record(process.chan, MSG_HELPER_STARTED, 0, &msg_helper_started_schema,
	    &(struct msg_helper_started){ 4711 }), TV_OK);
}

/* -- the life of a test -- */

static void
write_pair(const struct tls_kit_cert *p)
{
	char *text = tls_kit_pem(p, NULL, false), *secret = tls_kit_pem(p, NULL, true);

	(void)scratch_write("cert", text, 0644);
	(void)scratch_write("key", secret, 0600);
	free(text);
	free(secret);
}

/* Its own key goes into `key`, or is none: NULL. */
static void
open_keys(const char *key)
{
	int ends[2];

	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	(void)scratch_open();
	ck_assert(pair_begin());
	pair = tls_kit_make("server", "DNS:a", NULL, 0, 9 * TLS_KIT_DAY);
	write_pair(&pair);
	if (key != NULL)
		(void)scratch_write("key", key, 0600);
	memset(message, ' ', 64);
	memcpy(message + 64, "TLS 1.3, server CertificateVerify", 34);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	monitor = ends[0];
	player = ends[1];
	loop = ev_loop_new(EVFLAG_AUTO);
	conf = (struct rpcd_conf){ .https_port = 8501 };
	conf.tls[RPCD_TLS_HTTPS].cert_file = strdup(scratch_path("cert"));
	conf.tls[RPCD_TLS_HTTPS].key_file = strdup(scratch_path("key"));
	changes = bads = 0;
	keys = keys_new(&(struct keys_conf){ .loop = loop, .monitor = monitor, .conf = &conf, .on_files = on_files,
		.on_bad = on_bad, .lost = on_lost });
	ck_assert_ptr_nonnull(keys);
	start_process();
}

static void
close_keys(void)
{
	keys_free(keys);
	end_process();
	ev_loop_destroy(loop);
	close(monitor);
	close(player);
	free(conf.tls[RPCD_TLS_HTTPS].cert_file);
	free(conf.tls[RPCD_TLS_HTTPS].key_file);
	tls_kit_free(&pair);
	scratch_close();
}

/* -- a thread that wants a signature -- */

struct wish {
	pthread_t thread;
	struct mono within;
	enum tv_err err;
	uint8_t sig[KEYS_SIGNATURE_BYTES_MAX];
	size_t len;
	bool done;
	ev_async async;
};

static void *
want(void *arg)
{
	struct wish *w = arg;

	w->err = keys_sign(keys, number, KEYS_ECDSA_SHA256, span_of(message, sizeof(message)), w->sig, &w->len,
	    mono_add(clock_mono(), w->within));
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	ev_async_send(loop, &w->async);
	return NULL;
}

static void
on_async(struct ev_loop *l, ev_async *a, int events)
{
	(void)l, (void)a, (void)events;
}

static void
begin_wish(struct wish *w, struct mono within)
{
	*w = (struct wish){ .within = within, .len = sizeof(w->sig) };
	ev_async_init(&w->async, on_async);
	ev_async_start(loop, &w->async);
	ck_assert_int_eq(thread_start(&w->thread, "wish", want, w), 0);
}

static enum tv_err
end_wish(struct wish *w)
{
	while (!__atomic_load_n(&w->done, __ATOMIC_ACQUIRE))
		ev_run(loop, EVRUN_ONCE);
	pthread_join(w->thread, NULL);
	ev_async_stop(loop, &w->async);
	return w->err;
}

static void
run_until(const unsigned *count, unsigned is)
{
	while (*count < is)
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(*count, is);
}

static bool
verifies(const struct wish *w)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool good = EVP_DigestVerifyInit_ex(md, NULL, "SHA256", NULL, NULL, pair.key, NULL) == 1 &&
	    EVP_DigestVerify(md, w->sig, w->len, message, sizeof(message)) == 1;

	EVP_MD_CTX_free(md);
	return good;
}

static struct keys_stats
stats(void)
{
	struct keys_stats s;

	keys_stats(keys, &s);
	return s;
}

static void
wait_for_pending(unsigned n)
{
	while (stats().pending < n)
		ev_run(loop, EVRUN_NOWAIT);
}

/* -- tests -- */

START_TEST(signed_for_threads)
{
	struct wish w[16];

	open_keys(NULL);
	run_until(&changes, 1);
	for (int i = 0; i < 16; i++)
		begin_wish(&w[i], FOR_EVER);
	for (int i = 0; i < 16; i++) {
		ck_assert_int_eq(end_wish(&w[i]), TV_OK);
		ck_assert(verifies(&w[i]));
	}
	ck_assert(stats().signatures == 16 && stats().pending == 0 && stats().failed == 0);
	close_keys();
}
END_TEST

START_TEST(refused)
{
	struct wish w;

	open_keys(NULL);
	run_until(&changes, 1);
	number ^= 1;
	begin_wish(&w, FOR_EVER);
	ck_assert_int_eq(end_wish(&w), TV_ENOENT);
	number ^= 1;
	message[0] = 'x';
	begin_wish(&w, FOR_EVER);
	ck_assert_int_eq(end_wish(&w), TV_EINVAL);
	message[0] = ' ';
	begin_wish(&w, FOR_EVER);
	ck_assert_int_eq(end_wish(&w), TV_OK);
	size_t len = 8;
	ck_assert_int_eq(keys_sign(keys, number, KEYS_ECDSA_SHA256, span_of(w.sig, KEYS_WHAT_BYTES_MAX + 1), w.sig, &len,
	    MONO_ZERO), TV_EINVAL);
	ck_assert(stats().failed == 2);
	close_keys();
}
END_TEST

/* Its time is over before an answer is there; and a late answer hurts nobody. */
START_TEST(given_up)
{
	struct wish w;

	open_keys(NULL);
	run_until(&changes, 1);
	process.deaf = true;
	begin_wish(&w, MONO_MS(30));
	ck_assert_int_eq(end_wish(&w), TV_ETIMEOUT);
	ck_assert(stats().late == 1 && stats().pending == 0);
	struct buf *b = chan_begin(process.chan, MSG_KEYS_SIGN, FRAME_REPLY, 1);
	schema_pack(&msg_keys_signed_schema, &(struct msg_keys_signed){ .signature = span_str("late") }, b);
	ck_assert_int_eq(chan_end(process.chan), TV_OK);
	process.deaf = false;
	begin_wish(&w, FOR_EVER);
	ck_assert_int_eq(end_wish(&w), TV_OK);
	ck_assert(stats().signatures == 1 && stats().life.deaths == 0);
	close_keys();
}
END_TEST

/* The process dies with questions: the next one answers them, and its files are no news. */
START_TEST(asked_again)
{
	struct wish w[3];

	open_keys(NULL);
	run_until(&changes, 1);
	process.deaf = true;
	for (int i = 0; i < 3; i++)
		begin_wish(&w[i], FOR_EVER);
	wait_for_pending(3);
	end_process();
	start_process();
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(end_wish(&w[i]), TV_OK);
		ck_assert(verifies(&w[i]));
	}
	ck_assert(changes == 1 && stats().life.deaths == 1 && stats().signatures == 3);
	close_keys();
}
END_TEST

START_TEST(closed)
{
	struct wish w;
	size_t len = sizeof(w.sig);

	open_keys(NULL);
	run_until(&changes, 1);
	process.deaf = true;
	begin_wish(&w, FOR_EVER);
	wait_for_pending(1);
	keys_close(keys);
	ck_assert_int_eq(end_wish(&w), TV_ECLOSED);
	ck_assert_int_eq(keys_sign(keys, number, KEYS_ECDSA_SHA256, span_of(message, sizeof(message)), w.sig, &len,
	    MONO_NEVER), TV_ECLOSED);
	close_keys();
}
END_TEST

/* A reload looks at once: the renewed pair is told, and the one before signs still. */
START_TEST(renewed)
{
	struct tls_kit_cert fresh;
	struct wish w;
	uint64_t before;

	open_keys(NULL);
	run_until(&changes, 1);
	before = number;
	fresh = tls_kit_make("fresh", "DNS:a", NULL, 0, TLS_KIT_DAY);
	write_pair(&fresh);
	keys_reload(keys, LOG_LVL_ERR);
	run_until(&changes, 2);
	ck_assert(number != before && stats().changes == 2);
	number = before;
	begin_wish(&w, FOR_EVER);
	ck_assert_int_eq(end_wish(&w), TV_OK);
	ck_assert(verifies(&w));
	tls_kit_free(&fresh);
	close_keys();
}
END_TEST

/* At the start there is no old pair to go on with: it is told at once. */
START_TEST(bad_at_first)
{
	open_keys("no key");
	run_until(&bads, 1);
	ck_assert(strstr(bad_why, "/key: holds no private key in PEM") != NULL && changes == 0);
	ck_assert_str_eq(stats().bad_why, bad_why);
	write_pair(&pair);
	keys_reload(keys, LOG_LVL_ERR);
	run_until(&changes, 1);
	ck_assert_str_eq(stats().bad_why, "");
	close_keys();
}
END_TEST

/* What it may not say ends the process. */
START_TEST(lies)
{
	const struct span x = span_str("x");
	const struct msg_keys_files files[] = {
		{ .chain = SPAN_NONE }, { .chain = x, .not_after = UINT64_MAX }, { .chain = x, .ca_not_after = UINT64_MAX },
	};

	open_keys(NULL);
	run_until(&changes, 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(chan_send_record(process.chan, MSG_KEYS_FILES, 0, &msg_keys_files_schema, &files[i]), TV_OK);
		start_process();
		ck_assert_uint_eq(stats().life.deaths, i + 1);
	}
	ck_assert_int_eq(chan_send(process.chan, MSG_KEYS_SETUP, 0, 0, MSG_EMPTY), TV_OK);
	start_process();
	ck_assert_uint_eq(stats().life.deaths, 4);
	close_keys();
}
END_TEST

START_TEST(what_may_be_signed)
{
	static const struct { uint8_t curve, bytes; bool first; } curves[] = {
		{ 23, 65, true }, { 24, 97, true }, { 25, 133, true }, { 29, 32, false }, { 30, 56, false },
	};
	uint8_t b[256] = { 0 };

	memset(b, ' ', 64);
	memcpy(b + 64, "TLS 1.3, server CertificateVerify", 34);
	for (size_t n = 0; n < sizeof(b); n++)
		ck_assert_int_eq(pair_may_sign(span_of(b, n)), n == 98 + 32 || n == 98 + 48);
	for (size_t i = 0; i < 98; i++) {
		b[i] ^= 1;
		ck_assert(!pair_may_sign(span_of(b, 98 + 32)));
		b[i] ^= 1;
	}
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
		size_t len = 68 + (size_t)curves[i].bytes;

		memset(b, 0xaa, sizeof(b));
		memcpy(b + 64, (const uint8_t[]){ 3, 0, curves[i].curve, curves[i].bytes, 4 }, 5);
		for (size_t n = 0; n < sizeof(b); n++)
			ck_assert_int_eq(pair_may_sign(span_of(b, n)), n == len);
		for (size_t at = 64; at < 69; at++) {
			b[at]++;
			ck_assert_int_eq(pair_may_sign(span_of(b, len)), at == 68 && !curves[i].first);
			b[at]--;
		}
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("key_process");
	TCase *t = tcase_create("key_process");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, signed_for_threads);
	tcase_add_test(t, refused);
	tcase_add_test(t, given_up);
	tcase_add_test(t, asked_again);
	tcase_add_test(t, closed);
	tcase_add_test(t, renewed);
	tcase_add_test(t, bad_at_first);
	tcase_add_test(t, lies);
	tcase_add_test(t, what_may_be_signed);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

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
static bool no_memory;
static uint64_t number;
static char bad_why[256];

static bool
on_files(void *ctx, const struct keys_files *f)
{
	(void)ctx;
	changes++;
	number = f->number;
	ck_assert(f->chain.len > 0 && f->not_after > 0);
	return !no_memory;
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

/* Its deadline passes before the process answers; an answer that comes later is dropped. */
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

/* One whose time has not come leaves the old one, and is taken when it is good: its files are looked at again. */
START_TEST(not_valid_yet)
{
	struct tls_kit_cert fresh;

	open_keys(NULL);
	run_until(&changes, 1);
	fresh = tls_kit_make("fresh", "DNS:a", NULL, 12, TLS_KIT_DAY);
	write_pair(&fresh);
	keys_reload(keys, LOG_LVL_ERR);
	run_until(&bads, 1);
	ck_assert_ptr_nonnull(strstr(bad_why, "/cert: the certificate has ended or is not valid yet, and the one before"));
	ck_assert_uint_eq(changes, 1);
	run_until(&changes, 2);
	ck_assert_uint_eq(bads, 1);
	tls_kit_free(&fresh);
	close_keys();
}
END_TEST

/* rpcd could not take them: they come again. */
START_TEST(no_memory_for_files)
{
	open_keys(NULL);
	no_memory = true;
	run_until(&changes, 1);
	no_memory = false;
	keys_reload(keys, LOG_LVL_ERR);
	run_until(&changes, 2);
	/* Others come no more. */
	keys_reload(keys, LOG_LVL_ERR);
	(void)scratch_write("key", "no key", 0600);
	keys_reload(keys, LOG_LVL_ERR);
	run_until(&bads, 1);
	ck_assert_uint_eq(changes, 2);
	close_keys();
}
END_TEST

static EVP_PKEY *
key_of_kind(unsigned kind)
{
	switch (kind) {
	case 0: return EVP_EC_gen("P-256");
	case 1: return EVP_RSA_gen(2048);
	case 2: return EVP_RSA_gen(1024);
	default: return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	}
}

static void
sign_anew(X509 *x, EVP_PKEY *by, const char *digest, bool pss)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	EVP_PKEY_CTX *ctx;

	ck_assert_int_eq(EVP_DigestSignInit_ex(md, &ctx, digest, NULL, NULL, by, NULL), 1);
	if (pss)
		ck_assert_int_eq(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING), 1);
	ck_assert_int_gt(X509_sign_ctx(x, md), 0);
	EVP_MD_CTX_free(md);
}

/* What rpcd's OpenSSL would refuse is no good here already; and nothing else: each way to sign is known by name. */
START_TEST(weak_certificates)
{
	static const struct { unsigned kind; const char *digest; bool pss, good; } rows[] = {
		{ 0, "SHA224", false, true }, { 0, "SHA256", false, true }, { 0, "SHA384", false, true },
		{ 0, "SHA512", false, true }, { 1, "SHA256", false, true }, { 1, "SHA512", false, true },
		{ 1, "SHA256", true, true }, { 1, "SHA384", true, true }, { 3, NULL, false, true },
		{ 0, "SHA1", false, false }, { 1, "SHA1", false, false }, { 1, "SHA1", true, false },
		{ 1, "MD5", false, false },
	};
	struct pair p;
	char why[512];

	(void)scratch_open();
	ck_assert(pair_begin());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tls_kit_cert ca = tls_kit_make("ca", NULL, NULL, 0, TLS_KIT_DAY), c;

		EVP_PKEY_free(ca.key);
		ca.key = key_of_kind(rows[i].kind);
		ck_assert_int_eq(X509_set_pubkey(ca.cert, ca.key), 1);
		c = tls_kit_make("server", "DNS:a", NULL, 0, TLS_KIT_DAY);
		ck_assert_int_eq(X509_set_issuer_name(c.cert, X509_get_subject_name(ca.cert)), 1);
		sign_anew(c.cert, ca.key, rows[i].digest, rows[i].pss);
		write_pair(&c);
		enum tv_err err = pair_load(&(struct pair_paths){ .cert = scratch_path("cert"), .key = scratch_path("key") },
		    &p, why, sizeof(why));
		ck_assert_msg((err == TV_OK) == rows[i].good, "row %zu: %s", i, err == TV_OK ? "taken" : why);
		ck_assert(err == TV_OK || strstr(why, "/cert: its certificate 1 is too weak (SHA-1, or a short key)") != NULL);
		if (err == TV_OK)
			pair_done(&p);
		tls_kit_free(&c);
		tls_kit_free(&ca);
	}
	/* One between with a short key, which has signed itself. */
	struct tls_kit_cert weak = tls_kit_make("weak", NULL, NULL, 0, TLS_KIT_DAY),
	    c = tls_kit_make("server", "DNS:a", NULL, 0, TLS_KIT_DAY);
	EVP_PKEY_free(weak.key);
	weak.key = key_of_kind(2);
	ck_assert_int_eq(X509_set_pubkey(weak.cert, weak.key), 1);
	sign_anew(weak.cert, weak.key, "SHA256", false);
	char *text = tls_kit_pem(&c, &weak, false), *secret = tls_kit_pem(&c, NULL, true);
	(void)scratch_write("cert", text, 0644);
	(void)scratch_write("key", secret, 0600);
	ck_assert_int_eq(pair_load(&(struct pair_paths){ .cert = scratch_path("cert"), .key = scratch_path("key") }, &p,
	    why, sizeof(why)), TV_EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "certificate 2 is too weak"));
	/* As an authority for clients it is their affair. */
	(void)scratch_write("ca", text, 0644);
	write_pair(&c);
	ck_assert_int_eq(pair_load(&(struct pair_paths){ .cert = scratch_path("cert"), .key = scratch_path("key"),
		.ca_file = scratch_path("ca") }, &p, why, sizeof(why)), TV_OK);
	pair_done(&p);
	free(text);
	free(secret);
	tls_kit_free(&weak);
	tls_kit_free(&c);
	scratch_close();
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
		{ 23, 65, true }, { 24, 97, true }, { 29, 32, false },
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
	for (uint8_t curve = 0; curve < 23; curve++) {
		b[66] = curve;
		ck_assert(!pair_may_sign(span_of(b, 100)));
	}
}
END_TEST

/* The randoms are rpcd's word: with the right ones the parameters would be in the middle of a request, say. */
START_TEST(nothing_of_asn1_is_signed)
{
	static const struct { uint8_t head[8]; uint8_t n; bool may; } rows[] = {
		{ { 0x30, 98, 2, 1, 0, 0x30, 0 }, 7, false }, { { 0x30, 0x81, 97, 2, 1, 0 }, 6, false },
		{ { 0x30, 0x82, 0, 96, 0xa0, 0 }, 6, false }, { { 0x3f, 0x10, 97, 2, 1, 0 }, 6, false },
		{ { 0x30, 0x80, 2, 1, 0 }, 5, false }, { { 0x30, 0x80, 0xa0, 0x80 }, 4, false },
		{ { 0x30, 97, 2, 1, 0, 0x30, 0 }, 7, true }, { { 0x30, 0x81, 98, 2, 1, 0 }, 6, true },
		{ { 0x31, 98, 2, 1, 0, 0x30, 0 }, 7, true }, { { 0x30, 0xff, 0xff, 0xff }, 4, true },
	};
	uint8_t b[100] = { 0 };
	unsigned unlucky = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(b, 0, 64);
		memcpy(b, rows[i].head, rows[i].n);
		memcpy(b + 64, (const uint8_t[]){ 3, 0, 29, 32 }, 4);
		ck_assert_msg(pair_may_sign(span_of(b, sizeof(b))) == rows[i].may, "row %zu", i);
	}
	/* Of randoms that begin as one, by chance in 65,536, hardly any go on as one. */
	for (unsigned i = 0; i < 10000; i++) {
		for (unsigned j = 2; j < sizeof(b); j++)
			b[j] = j < 64 || j >= 68 ? (uint8_t)(rand() >> 7) : b[j];
		b[0] = 0x30;
		b[1] = 98;
		unlucky += !pair_may_sign(span_of(b, sizeof(b)));
	}
	ck_assert_msg(unlucky < 300, "%u", unlucky);
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
	tcase_add_test(t, not_valid_yet);
	tcase_add_test(t, no_memory_for_files);
	tcase_add_test(t, weak_certificates);
	tcase_add_test(t, lies);
	tcase_add_test(t, what_may_be_signed);
	tcase_add_test(t, nothing_of_asn1_is_signed);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

/*
 * Frames of "rpcd: keys", whole or not.  The first byte says at which end they arrive: at the program, which has a key,
 * follows its files and signs nothing but what a server of TLS signs; or at rpcd, which trusts nothing of them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "rpcd/keys/holder.h"
#include "rpcd/keys/keys.h"
#include "rpcd/keys/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS 6

static struct ev_loop *loop;
static char path[64];			/* of a file with a certificate and its key, in memory */
static struct pair known;		/* what is in it */

static void
make_pair(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long n;
	int fd = memfd_create("pair", MFD_CLOEXEC);

	TV_ASSERT(fd >= 0 && fchmod(fd, 0600) == 0 && key != NULL && x != NULL && bio != NULL);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400 * 3650);
	TV_ASSERT(X509_set_pubkey(x, key) == 1 && X509_sign(x, key, EVP_sha256()) > 0);
	TV_ASSERT(PEM_write_bio_X509(bio, x) == 1 && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
	n = BIO_get_mem_data(bio, &text);
	TV_ASSERT(write(fd, text, (size_t)n) == n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	char why[256];
	TV_ASSERT(pair_load(&(struct pair_paths){ .cert = path, .key = path }, &known, why, sizeof(why)) == TV_OK);
	BIO_free(bio);
	X509_free(x);
	EVP_PKEY_free(key);
}

static void
take_turns(void)
{
	for (int i = 0; i < TURNS; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

static void
drain(int fd)
{
	char sink[4096];

	while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

static void
feed(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t done = send(fd, p, n < 4096 ? n : 4096, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (done > 0)
			p += done, n -= (size_t)done;
		take_turns();
		drain(fd);
		if (done < 0)
			break;
	}
	take_turns();
}

/* -- at the program -- */

static struct chan *chan;		/* NULL: closed */
static struct holder *holder;

static enum tv_err
on_wall(void *ctx, const struct sandbox_policy *policy)
{
	(void)ctx, (void)policy;
	return TV_OK;
}

static void
on_retire(void *ctx)
{
	(void)ctx;
}

static enum tv_err
put_setup(uint64_t log_level)
{
	struct buf b = BUF_INIT(4096);

	schema_pack(&msg_keys_setup_schema, &(struct msg_keys_setup){ .cert_file = span_str(path), .key_file = span_str(path),
		.log_level = log_level }, &b);
	enum tv_err err = holder_frame(holder, &(struct frame){ .type = MSG_KEYS_SETUP, .body = buf_span(&b) });
	buf_done(&b);
	return err;
}

/* Whatever key it names: by the one that there is. */
static enum tv_err
put_question(const struct frame *f, struct msg_keys_sign *q)
{
	struct buf b = BUF_INIT(MSG_TEXT);
	uint8_t sig[KEYS_SIGNATURE_BYTES_MAX];
	size_t len = sizeof(sig);

	TV_ASSERT(pair_sign(&known, q->alg, q->what, sig, &len) != TV_OK || pair_may_sign(q->what));
	q->number = known.number;
	schema_pack(&msg_keys_sign_schema, q, &b);
	enum tv_err err = holder_frame(holder, &(struct frame){ f->type, f->flags, f->id, buf_span(&b) });
	buf_done(&b);
	return err;
}

/* Its paths are ours: what is read is in memory. */
static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct msg_keys_setup m = { .log_level = 0 };
	struct msg_keys_sign q = { .what = SPAN_NONE };
	enum tv_err err;

	(void)ctx, (void)c;
	if (f->type == MSG_KEYS_SIGN && msg_read(&msg_keys_sign_schema, f->body, NULL, &q) == TV_OK)
		return put_question(f, &q);
	if (f->type != MSG_KEYS_SETUP)
		return holder_frame(holder, f);
	err = msg_read(&msg_keys_setup_schema, f->body, NULL, &m);
	return err != TV_OK ? err : put_setup(m.log_level > LOG_LVL_DEBUG ? m.log_level : LOG_LVL_ERR);
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	(void)ctx, (void)c, (void)why;
	chan = NULL;
}

static void
feed_program(const uint8_t *data, size_t size)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };
	int ends[2];

	TV_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	holder = holder_new(&(struct holder_conf){ .loop = loop, .log_dest = LOG_TO_STDERR, .wall = on_wall, .retire = on_retire });
	chan = chan_new(ends[0], &(struct chan_conf){ .loop = loop, .events = &events, .name = "rpcd", .body_max = MSG_TEXT,
		.out_max = MSG_LIST });
	TV_ASSERT(holder != NULL && chan != NULL);
	holder_answer_on(holder, chan);
	TV_ASSERT(size == 0 || (data[0] & 1) != 0 || put_setup(LOG_LVL_ERR) == TV_OK);
	feed(ends[1], data, size);
	chan_free(chan);
	take_turns();
	holder_free(holder);
	close(ends[1]);
}

/* -- at rpcd -- */

static bool
on_files(void *ctx, const struct keys_files *f)
{
	uint64_t *sum = ctx;

	TV_ASSERT(f->chain.len > 0 && f->chain.len <= KEYS_CHAIN_BYTES_MAX && f->ca.len <= KEYS_CA_BYTES_MAX);
	TV_ASSERT(f->not_after >= 0 && f->ca_not_after >= 0);
	for (size_t i = 0; i < f->chain.len; i++)
		*sum += f->chain.p[i];
	for (size_t i = 0; i < f->ca.len; i++)
		*sum += f->ca.p[i];
	for (size_t i = 0; i < f->subject.len; i++)
		*sum += f->subject.p[i];
	return f->subject.len % 2 == 0;
}

static void
on_bad(void *ctx, const char *why)
{
	uint64_t *sum = ctx;

	for (; *why != '\0'; why++) {
		TV_ASSERT((uint8_t)*why >= ' ');
		*sum += (uint8_t)*why;
	}
}

static void
on_lost(void *ctx)
{
	(void)ctx;
}

/* The order to start a process: its channel. */
static int
take_order(int player)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint32_t order[3];
	struct iovec iov = { order, sizeof(order) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	int fd;

	TV_ASSERT(recvmsg(player, &msg, MSG_DONTWAIT) == (ssize_t)sizeof(order) && CMSG_FIRSTHDR(&msg) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void
feed_rpcd(const uint8_t *data, size_t size)
{
	struct rpcd_conf conf = { .tls[RPCD_TLS_HTTPS] = { .cert_file = path, .key_file = path } };
	uint64_t sum = 0;
	int ends[2];

	TV_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	struct keys *k = keys_new(&(struct keys_conf){ .loop = loop, .monitor = ends[0], .conf = &conf, .on_files = on_files,
		.on_bad = on_bad, .lost = on_lost, .ctx = &sum });
	TV_ASSERT(k != NULL);
	take_turns();
	int fd = take_order(ends[1]);
	feed(fd, data, size);
	struct keys_stats stats;
	keys_stats(k, &stats);
	TV_ASSERT(stats.signatures == 0 && stats.pending == 0);
	keys_free(k);
	take_turns();
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (loop == NULL) {
		log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
		TV_ASSERT(pair_begin() && (loop = ev_default_loop(0)) != NULL);
		make_pair();
	}
	if (size == 0)
		return 0;
	if ((data[0] & 2) != 0)
		feed_program(data + 1, size - 1);
	else
		feed_rpcd(data + 1, size - 1);
	return 0;
}

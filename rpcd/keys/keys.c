/* The process "rpcd: keys", see keys.h. */
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper_monitor.h"
#include "common/proc/thread.h"
#include "rpcd/keys/keys.h"

#define TAG "tls"
#define OUT_BYTES_MAX (4u << 20)	/* KEYS_PENDING_MAX questions and more */
#define RESTART_MIN_S 0.05		/* no new session meanwhile */
#define RESTART_MAX_S 30.
#define PROGRAM "rpcd-keys"
#define TITLE "rpcd: keys"
#define USER "_keys"
#define NAME_BYTES 256
#define MARK_BYTES 16

/* Of a thread, which waits for the answer; on its stack. */
struct question {
	TAILQ_ENTRY(question) link;
	uint64_t id;
	const struct chan *sent;	/* to this process; NULL: not yet */
	uint64_t number;
	enum keys_alg alg;
	struct span what;
	uint8_t *sig;
	size_t *len;
	enum tv_err err;
	bool answered;
	pthread_cond_t wake;
};

struct keys {
	struct keys_conf conf;
	struct helper *helper;
	ev_async async;
	bool has_files;
	bool has_key;			/* the process that serves told of files, so it has their key */
	uint8_t mark[MARK_BYTES];	/* of the files that on_files was told of */
	struct keys_stats stats;	/* but for what is counted below */

	pthread_mutex_t lock;		/* guards what follows */
	TAILQ_HEAD(, question) questions;
	uint64_t ids;
	unsigned pending;
	bool closed;
	uint64_t signatures, late, refused, failed;
};

/* -- to the process -- */

static void
on_setup(void *ctx, struct chan *c)
{
	struct keys *k = ctx;
	const struct rpcd_tls t = rpcd_tls_for(k->conf.conf, RPCD_TLS_HTTPS);
	const struct chan *serves = helper_chan(k->helper);

	(void)chan_send_record(c, MSG_KEYS_SETUP, 0, &msg_keys_setup_schema, &(struct msg_keys_setup){
		.cert_file = span_str(t.cert_file != NULL ? t.cert_file : ""),
		.key_file = span_str(t.key_file != NULL ? t.key_file : ""),
		.ca_file = span_str(t.ca_file != NULL ? t.ca_file : ""),
		.ca_path = span_str(t.ca_path != NULL ? t.ca_path : ""),
		.takes_over = serves != NULL && serves != c, .log_level = (uint64_t)k->conf.log_level,
	});				/* else it closes */
}

/* What the process that serves was not asked yet.  Locked. */
static void
send_questions(struct keys *k, struct chan *c)
{
	struct question *q;

	TAILQ_FOREACH(q, &k->questions, link) {
		if (q->answered || q->sent == c)
			continue;
		q->sent = c;
		if (chan_send_record(c, MSG_KEYS_SIGN, q->id, &msg_keys_sign_schema, &(struct msg_keys_sign){
			.number = q->number, .alg = (uint64_t)q->alg, .what = q->what }) != TV_OK)
			return;		/* it closes, and another process is asked */
	}
}

static void
put_questions(struct keys *k)
{
	struct chan *c = helper_chan(k->helper);

	if (c == NULL)
		return;
	pthread_mutex_lock(&k->lock);
	send_questions(k, c);
	pthread_mutex_unlock(&k->lock);
}

static void
on_serve(void *ctx, struct chan *c)
{
	struct keys *k = ctx;

	(void)chan_send_record(c, MSG_KEYS_SERVE, 0, &empty_schema, NULL);
	k->has_key = false;
	pthread_mutex_lock(&k->lock);
	send_questions(k, c);
	pthread_mutex_unlock(&k->lock);
}

static void
on_retire(void *ctx UNUSED, struct chan *c)
{
	(void)chan_send_record(c, MSG_KEYS_RETIRE, 0, &empty_schema, NULL);
}

static void
on_async(struct ev_loop *loop UNUSED, ev_async *w, int events UNUSED)
{
	put_questions(w->data);
}

/* -- from the process: nothing that it says is trusted -- */

static void
log_files(const struct keys *k, const struct keys_files *f)
{
	char subject[NAME_BYTES], ends[LOG_TIME_BYTES];

	log_info(TAG, "%s %s, until %s", k->has_files ? "another certificate from now on:" : "certificate of HTTPS:",
	    log_safe(f->subject, subject, sizeof(subject)), log_time(f->not_after * 1000, ends));
}

/* Those of a process that was started again are mostly the same. */
static bool
are_others(struct keys *k, const struct keys_files *f)
{
	const uint64_t sizes[] = { f->chain.len, f->ca.len };
	crypto_generichash_state h;
	uint8_t mark[MARK_BYTES];

	crypto_generichash_init(&h, NULL, 0, sizeof(mark));
	crypto_generichash_update(&h, (const uint8_t *)sizes, sizeof(sizes));
	crypto_generichash_update(&h, f->chain.p, f->chain.len);
	crypto_generichash_update(&h, f->ca.p, f->ca.len);
	crypto_generichash_final(&h, mark, sizeof(mark));
	if (k->has_files && memcmp(mark, k->mark, sizeof(mark)) == 0)
		return false;
	memcpy(k->mark, mark, sizeof(mark));
	return true;
}

static enum tv_err
take_files(struct keys *k, struct span body)
{
	struct msg_keys_files m = { .chain = SPAN_NONE };
	enum tv_err err = msg_read(&msg_keys_files_schema, body, NULL, &m);

	if (err == TV_OK && (m.chain.len == 0 || m.chain.len > KEYS_CHAIN_BYTES_MAX || m.ca.len > KEYS_CA_BYTES_MAX ||
	    m.not_after > INT64_MAX / 1000 || m.ca_not_after > INT64_MAX / 1000))
		err = TV_EFORMAT;
	if (err != TV_OK)
		return err;
	const struct keys_files f = {
		.chain = m.chain, .ca = m.ca, .number = m.number, .not_after = (int64_t)m.not_after,
		.ca_not_after = (int64_t)m.ca_not_after, .subject = m.subject,
	};
	k->has_key = true;
	k->stats.bad_why[0] = '\0';
	if (!are_others(k, &f))
		return TV_OK;
	log_files(k, &f);
	k->has_files = true;
	k->stats.changes++;
	k->stats.not_after = f.not_after;
	k->stats.ca_not_after = f.ca_not_after;
	if (!k->conf.on_files(k->conf.ctx, &f))
		memset(k->mark, 0, sizeof(k->mark));
	return TV_OK;
}

static enum tv_err
take_bad(struct keys *k, struct span body)
{
	struct msg_keys_bad m = { .why = SPAN_NONE };
	enum tv_err err = msg_read(&msg_keys_bad_schema, body, NULL, &m);

	if (err != TV_OK)
		return err;
	if (m.walls) {
		helper_replace(k->helper);
		return TV_OK;
	}
	log_safe(m.why, k->stats.bad_why, sizeof(k->stats.bad_why));
	k->stats.bad++;
	log_err(TAG, "%s%s", k->stats.bad_why, k->has_key ? ": the certificate and key from before go on" :
	    k->has_files ? ": no process has the key any more, and no new session begins" : "");
	k->conf.on_bad(k->conf.ctx, k->stats.bad_why);
	return TV_OK;
}

static void
answer_question(struct keys *k, struct question *q, const struct msg_keys_signed *m)
{
	q->err = m->error > 0 ? TV_EINVAL : TV_OK;
	if (m->error == (uint64_t)-TV_ENOENT)
		q->err = TV_ENOENT;
	else if (m->error == 0 && (m->signature.len == 0 || m->signature.len > *q->len))
		q->err = TV_ELIMIT;
	if (q->err == TV_OK) {
		memcpy(q->sig, m->signature.p, m->signature.len);
		*q->len = m->signature.len;
	}
	k->signatures += q->err == TV_OK;
	k->failed += q->err != TV_OK;
	q->answered = true;
	pthread_cond_signal(&q->wake);
}

static enum tv_err
take_signed(struct keys *k, uint64_t id, struct span body)
{
	struct msg_keys_signed m = { .signature = SPAN_NONE };
	enum tv_err err = msg_read(&msg_keys_signed_schema, body, NULL, &m);
	struct question *q;

	if (err != TV_OK)
		return err;
	pthread_mutex_lock(&k->lock);
	TAILQ_FOREACH(q, &k->questions, link)
		if (q->id == id && !q->answered)
			break;
	if (q != NULL)			/* else it was given up */
		answer_question(k, q, &m);
	pthread_mutex_unlock(&k->lock);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, const struct frame *f)
{
	struct keys *k = ctx;

	if (f->type == MSG_KEYS_FILES)
		return take_files(k, f->body);
	if (f->type == MSG_KEYS_BAD)
		return take_bad(k, f->body);
	if (f->type == MSG_KEYS_SIGN && (f->flags & FRAME_REPLY) != 0)
		return take_signed(k, f->id, f->body);
	return TV_EFORMAT;
}

/* Another process may have its memory where the one was that was asked. */
static void
on_ended(void *ctx, enum helper_end why UNUSED)
{
	struct keys *k = ctx;
	const struct chan *c = helper_chan(k->helper);
	struct question *q;

	pthread_mutex_lock(&k->lock);
	TAILQ_FOREACH(q, &k->questions, link)
		if (q->sent != c)
			q->sent = NULL;
	pthread_mutex_unlock(&k->lock);
	put_questions(k);
}

static void
on_lost(void *ctx)
{
	struct keys *k = ctx;

	k->conf.lost(k->conf.ctx);
}

/* -- for threads -- */

/* Locked.  Waits for the answer, and takes the question off the list. */
static enum tv_err
wait_for_answer(struct keys *k, struct question *q, struct mono deadline)
{
	while (!q->answered && !k->closed && thread_wait_until(&q->wake, &k->lock, deadline))
		;
	TAILQ_REMOVE(&k->questions, q, link);
	k->pending--;
	if (q->answered)
		return q->err;
	if (k->closed)
		return TV_ECLOSED;
	k->late++;
	return TV_ETIMEOUT;
}

enum tv_err
keys_sign(struct keys *k, uint64_t number, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len,
    struct mono deadline)
{
	struct question q = {
		.number = number, .alg = alg, .what = what, .sig = sig, .len = len, .wake = PTHREAD_COND_INITIALIZER,
	};
	enum tv_err err = TV_ELIMIT;

	if (what.len > KEYS_WHAT_BYTES_MAX)
		return TV_EINVAL;
	pthread_mutex_lock(&k->lock);
	if (k->closed) {
		err = TV_ECLOSED;
	} else if (k->pending >= KEYS_PENDING_MAX) {
		k->refused++;
	} else {
		q.id = ++k->ids;
		TAILQ_INSERT_TAIL(&k->questions, &q, link);
		k->pending++;
		ev_async_send(k->conf.loop, &k->async);
		err = wait_for_answer(k, &q, deadline);
	}
	pthread_mutex_unlock(&k->lock);
	pthread_cond_destroy(&q.wake);
	return err;
}

void
keys_close(struct keys *k)
{
	struct question *q;

	if (k == NULL)
		return;
	pthread_mutex_lock(&k->lock);
	k->closed = true;
	TAILQ_FOREACH(q, &k->questions, link)
		pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&k->lock);
}

/* -- its life -- */

enum tv_err
keys_monitor_start(const struct keys_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	return helper_monitor_start(&(struct helper_monitor_conf){
		.owner = "rpcd", .tag = TAG, .user = USER, .program = PROGRAM, .title = TITLE,
		.kinds = { { .may = true } }, .best_effort = conf->best_effort, .log_level = conf->log_level,
		.log_dest = conf->log_dest,
	}, fd, errbuf, cap);
}

void
keys_reload(struct keys *k, int log_level)
{
	if (k == NULL)
		return;
	k->conf.log_level = log_level;
	helper_monitor_log(k->conf.monitor, log_level);		/* of those that it starts */
	helper_hurry(k->helper);
	(void)helper_setup(k->helper);
}

void
keys_stats(struct keys *k, struct keys_stats *out)
{
	*out = (struct keys_stats){ .signatures = 0 };
	if (k == NULL)
		return;
	*out = k->stats;
	helper_stats(k->helper, &out->life);
	(void)helper_state(k->helper, out->state);
	pthread_mutex_lock(&k->lock);
	out->signatures = k->signatures;
	out->late = k->late;
	out->refused = k->refused;
	out->failed = k->failed;
	out->pending = k->pending;
	pthread_mutex_unlock(&k->lock);
}

struct keys *
keys_new(const struct keys_conf *conf)
{
	struct keys *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->conf = *conf;
	TAILQ_INIT(&k->questions);
	k->helper = helper_new(&(struct helper_conf){
		.loop = conf->loop, .monitor = conf->monitor, .name = TITLE, .tag = TAG,
		.meanwhile = "; no new session of TLS begins", .body_max = MSG_LIST, .out_max = OUT_BYTES_MAX,
		.restart_min_s = RESTART_MIN_S, .restart_max_s = RESTART_MAX_S, .setup = on_setup, .serve = on_serve,
		.retire = on_retire, .frame = on_frame, .ended = on_ended, .lost = on_lost, .ctx = k,
	});
	if (k->helper == NULL) {
		free(k);
		return NULL;
	}
	pthread_mutex_init(&k->lock, NULL);
	ev_async_init(&k->async, on_async);
	k->async.data = k;
	ev_async_start(conf->loop, &k->async);
	helper_want(k->helper, true);
	return k;
}

void
keys_free(struct keys *k)
{
	if (k == NULL)
		return;
	keys_close(k);
	ev_async_stop(k->conf.loop, &k->async);
	helper_free(k->helper);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

/* What rpcd-keys holds and does, see holder.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/heaptrim.h"
#include "rpcd/keys/holder.h"
#include "rpcd/keys/pair.h"

#define TAG "tls"
#define LOOK_S 2.
#define GRACE MONO_S(5)			/* for files of which one is new already and another is not yet */
#define PAIRS 4				/* the newest first: for handshakes that began with an older one */
#define OLD_LIFE MONO_S(120)		/* twice the longest handshake; then a key that was replaced is wiped */
#define PATHS 4
#define PATH_BYTES 4096
#define TOP_BYTES 256

struct holder {
	struct holder_conf conf;
	struct chan *chan;
	char paths[PATHS][PATH_BYTES];	/* cert, key, ca_file, ca_path; "": none */
	char tops[2 * PATHS][TOP_BYTES];	/* below which the walls let files be read */
	unsigned top_count;
	bool started, serving, takes_over;
	struct pair pairs[PAIRS];
	struct mono taken_at;		/* the newest of them */
	uint64_t marks;			/* of the files when they were last read */
	struct mono bad_since;		/* what they hold cannot be used; MONO_ZERO: it can */
	bool bad_told;
	char why[1024];
	ev_timer look;
};

static struct pair_paths
paths_of(const struct holder *h)
{
	const char *p[PATHS];

	for (unsigned i = 0; i < PATHS; i++)
		p[i] = h->paths[i][0] != '\0' ? h->paths[i] : NULL;
	return (struct pair_paths){ p[0], p[1], p[2], p[3] };
}

/* -- to rpcd -- */

static void
send_files(struct holder *h)
{
	const struct pair *p = &h->pairs[0];

	if (!h->serving || p->key == NULL)
		return;
	(void)chan_send_record(h->chan, MSG_KEYS_FILES, 0, &msg_keys_files_schema, &(struct msg_keys_files){
		.chain = buf_span(&p->chain), .ca = buf_span(&p->ca), .number = p->number,
		.not_after = (uint64_t)p->not_after, .ca_not_after = (uint64_t)p->ca_not_after,
		.subject = span_str(p->subject),
	});				/* else it closes */
}

static void
send_bad(struct holder *h, bool walls)
{
	if (!h->serving)
		return;
	h->bad_told = true;
	(void)chan_send_record(h->chan, MSG_KEYS_BAD, 0, &msg_keys_bad_schema,
	    &(struct msg_keys_bad){ span_str(h->why), walls });
}

/* -- walls -- */

/* The folder next to the root on the way to path: it is replaced least of all.  "/": the file is in the root itself. */
static void
top_of(const char *path, char dst[TOP_BYTES])
{
	size_t n = 1 + strcspn(path + 1, "/");

	if (path[n] == '\0' || n >= TOP_BYTES)
		n = 1;
	snprintf(dst, TOP_BYTES, "%.*s", (int)n, path);
}

static bool
has_top(const struct holder *h, const char *top)
{
	for (unsigned i = 0; i < h->top_count; i++)
		if (strcmp(h->tops[i], top) == 0 || strcmp(h->tops[i], "/") == 0)
			return true;
	return false;
}

/* Where the path leads, by links too.  False: the walls do not let us read there; `add`: they are to. */
static bool
covers(struct holder *h, const char *path, bool add)
{
	char resolved[PATH_BYTES], top[TOP_BYTES];
	const char *ways[] = { path, realpath(path, resolved) };
	bool covered = true;

	for (unsigned i = 0; i < 2; i++) {
		if (ways[i] == NULL || ways[i][0] != '/')
			continue;
		top_of(ways[i], top);
		if (has_top(h, top))
			continue;
		covered = false;
		if (add && h->top_count < 2 * PATHS)
			snprintf(h->tops[h->top_count++], TOP_BYTES, "%s", top);
	}
	return covered;
}

static bool
covers_all(struct holder *h, bool add)
{
	bool all = true;

	for (unsigned i = 0; i < PATHS; i++)
		all = (h->paths[i][0] == '\0' || covers(h, h->paths[i], add)) && all;
	return all;
}

static enum tv_err
build_walls(struct holder *h)
{
	struct sandbox_policy policy = { .path_count = 0 };

	(void)covers_all(h, true);
	for (unsigned i = 0; i < h->top_count; i++)
		sandbox_path(&policy, h->tops[i], SANDBOX_READ);
	return h->conf.wall(h->conf.ctx, &policy);
}

/* -- files -- */

static void
take_pair(struct holder *h, struct pair *fresh)
{
	pair_done(&h->pairs[PAIRS - 1]);
	memmove(&h->pairs[1], &h->pairs[0], (PAIRS - 1) * sizeof(h->pairs[0]));
	h->pairs[0] = *fresh;
	h->taken_at = clock_mono();
	send_files(h);
}

/* One that has ended already, or is not valid yet, does not take the place of one that is good. */
static bool
is_worse(const struct holder *h, const struct pair *fresh)
{
	const struct pair *old = &h->pairs[0];
	int64_t now = clock_wall_ns() / MONO_S(1).ns;

	return old->key != NULL && (fresh->not_after < now || fresh->not_before > now) && old->not_after >= now &&
	    old->not_before <= now;
}

/* always: they are told though they are the same, as rpcd may have had no memory for them. */
static void
read_files(struct holder *h, bool always)
{
	struct pair_paths paths = paths_of(h);
	struct pair fresh;
	enum tv_err err = pair_load(&paths, &fresh, h->why, sizeof(h->why));

	if (err == TV_OK && is_worse(h, &fresh)) {
		err = tv_fail(h->why, sizeof(h->why), TV_EINVAL, "%s: the certificate has ended or is not valid yet, "
		    "and the one before is good", paths.cert);
		pair_done(&fresh);
	}
	if (err != TV_OK) {
		if (h->bad_since.ns == 0)
			h->bad_since = clock_mono();
		return;
	}
	bool told = h->bad_told;
	h->bad_since = MONO_ZERO;
	h->bad_told = false;
	if (!pair_same(&h->pairs[0], &fresh)) {
		take_pair(h, &fresh);
		heaptrim_now();		/* of the walls, too, the first time */
		return;
	}
	pair_done(&fresh);
	if (told || always)
		send_files(h);		/* all is well again */
}

/* Bad for long enough, or nothing else is there to go on with. */
static void
tell_bad(struct holder *h)
{
	if (h->bad_since.ns == 0 || h->bad_told || (h->pairs[0].key != NULL &&
	    mono_before(clock_mono(), mono_add(h->bad_since, GRACE))))
		return;
	send_bad(h, !covers_all(h, false));
}

static void
look_at_files(struct holder *h, bool always)
{
	struct pair_paths paths = paths_of(h);
	uint64_t marks = pair_marks(&paths);

	/* What was no good may be good now by itself: a folder on the way was opened, a certificate's time has come. */
	if (always || marks != h->marks || h->bad_since.ns != 0) {
		h->marks = marks;
		h->bad_told = h->bad_told && !always;
		read_files(h, always);
	}
	tell_bad(h);
}

static void
wipe_old(struct holder *h)
{
	if (!mono_before(mono_add(h->taken_at, OLD_LIFE), clock_mono()))
		return;
	for (unsigned i = 1; i < PAIRS; i++)
		pair_done(&h->pairs[i]);
}

static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	wipe_old(w->data);
	look_at_files(w->data, false);
}

/* -- from rpcd -- */

static enum tv_err
take_setup(struct holder *h, struct span body)
{
	struct msg_keys_setup m = { .cert_file = SPAN_NONE };
	enum tv_err err = msg_read(&msg_keys_setup_schema, body, NULL, &m);
	const struct span paths[PATHS] = { m.cert_file, m.key_file, m.ca_file, m.ca_path };

	if (err != TV_OK)
		return err;
	if (m.log_level > LOG_LVL_DEBUG)
		return TV_EFORMAT;
	for (unsigned i = 0; i < PATHS; i++)
		if (!span_copy(paths[i], h->paths[i], PATH_BYTES) || (paths[i].len == 0 && i < 2))
			return TV_EFORMAT;
	log_init("rpcd", (enum log_level)m.log_level, (enum log_dest)h->conf.log_dest);
	if (!h->started) {
		h->takes_over = m.takes_over;
		if ((err = build_walls(h)) != TV_OK)
			return err;
		h->started = true;
		ev_timer_init(&h->look, on_look, LOOK_S, LOOK_S);
		h->look.data = h;
		ev_timer_start(h->conf.loop, &h->look);
	}
	look_at_files(h, true);
	if (h->pairs[0].key != NULL || !h->takes_over || h->serving)
		return TV_OK;
	log_err(TAG, "%s: the process that holds the key from before goes on", h->why);
	return TV_EINVAL;
}

static enum tv_err
sign(const struct holder *h, const struct msg_keys_sign *m, uint8_t *sig, size_t *len)
{
	for (unsigned i = 0; i < PAIRS; i++)
		if (h->pairs[i].key != NULL && h->pairs[i].number == m->number)
			return pair_sign(&h->pairs[i], m->alg, m->what, sig, len);
	return TV_ENOENT;
}

static enum tv_err
take_question(struct holder *h, uint64_t id, struct span body)
{
	uint8_t sig[KEYS_SIGNATURE_BYTES_MAX];
	struct msg_keys_sign m = { .what = SPAN_NONE };
	struct msg_keys_signed answer = { .signature = SPAN_NONE };
	size_t len = sizeof(sig);
	enum tv_err err = msg_read(&msg_keys_sign_schema, body, NULL, &m);
	struct buf *b;

	if (err != TV_OK)
		return err;
	err = sign(h, &m, sig, &len);
	answer.error = (uint64_t)-err;
	if (err == TV_OK)
		answer.signature = span_of(sig, len);
	if ((b = chan_begin(h->chan, MSG_KEYS_SIGN, FRAME_REPLY, id)) == NULL)
		return TV_OK;		/* it closes */
	schema_pack(&msg_keys_signed_schema, &answer, b);
	return chan_end(h->chan);
}

static void
serve(struct holder *h)
{
	h->serving = true;
	send_files(h);
	tell_bad(h);
}

enum tv_err
holder_frame(struct holder *h, const struct frame *f)
{
	if (f->type == MSG_KEYS_SETUP)
		return take_setup(h, f->body);
	if (!h->started)
		return TV_EFORMAT;
	if (f->type == MSG_KEYS_SIGN && (f->flags & FRAME_REPLY) == 0)
		return take_question(h, f->id, f->body);
	if (f->type == MSG_KEYS_SERVE)
		serve(h);
	else if (f->type == MSG_KEYS_RETIRE)
		h->conf.retire(h->conf.ctx);
	else
		return TV_EFORMAT;
	return TV_OK;
}

/* -- its life -- */

struct holder *
holder_new(const struct holder_conf *conf)
{
	struct holder *h = calloc(1, sizeof(*h));

	if (h != NULL)
		h->conf = *conf;
	return h;
}

void
holder_answer_on(struct holder *h, struct chan *chan)
{
	h->chan = chan;
}

void
holder_free(struct holder *h)
{
	if (h->started)
		ev_timer_stop(h->conf.loop, &h->look);
	for (unsigned i = 0; i < PAIRS; i++)
		pair_done(&h->pairs[i]);
	free(h);
}

/* What other servers tell this one about itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/jobs.h"
#include "raftd/engine/engine.h"
#include "raftd/peers/fence.h"
#include "raftd/peers/gossip.h"

#define FENCE_NAME "fenced"
#define FENCE_BYTES 128

/* -- the fence, kept beside log/ and state/: a server that starts again alone must not have forgotten it -- */

static const char *
path_of(const struct raftd *d, char dst[512])
{
	snprintf(dst, 512, "%s/raftd/" FENCE_NAME, d->cluster.data_dir);
	return dst;
}

/* "STORE-ID GENERATION CHECKSUM\n": it is about this log, and goes with it. */
static int
fence_text(char dst[FENCE_BYTES], const char *store, uint64_t generation)
{
	uint8_t sum[crypto_generichash_BYTES_MIN];
	char hex[2 * sizeof(sum) + 1];
	int n = snprintf(dst, FENCE_BYTES, "%s %" PRIu64, store, generation);

	crypto_generichash(sum, sizeof(sum), (const uint8_t *)dst, (size_t)n, NULL, 0);
	return n + snprintf(dst + n, FENCE_BYTES - (size_t)n, " %s\n",
	    sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum)));
}

/* One that is to be kept. */
struct keeping {
	struct raftd *d;
	uint64_t generation;
	char witness[128];		/* name of the server that told */
	enum tv_err err;
	int sys;			/* errno */
};

static enum tv_err
store_fence(const struct raftd *d, uint64_t generation)
{
	char path[512], text[FENCE_BYTES];
	int n = fence_text(text, d->id.store_id, generation);

	return file_replace(AT_FDCWD, path_of(d, path), span_of(text, (size_t)n), 0600);
}

/* 0: there is none of this log.  A damaged one counts: a server that was fenced must not forget it (S89). */
static uint64_t
kept(const struct raftd *d)
{
	struct buf bytes = BUF_INIT(FENCE_BYTES);
	char path[512], text[FENCE_BYTES] = "", sound[FENCE_BYTES] = "", store[37] = "";
	enum tv_err err = file_read(path_of(d, path), &bytes);
	uint64_t generation = 0;

	if (err == TV_OK)
		(void)span_copy(buf_span(&bytes), text, sizeof(text));
	buf_done(&bytes);
	if (err == TV_ENOENT)
		return 0;
	if (sscanf(text, "%36s %" SCNu64, store, &generation) == 2)
		(void)fence_text(sound, store, generation);
	if (sound[0] == '\0' || strcmp(sound, text) != 0) {
		log_err("raft", "%s is damaged: it says that the cluster was recovered without this server, but not "
		    "more", path);
		return generation_next(d->id.generation, 0);
	}
	if (strcmp(store, d->id.store_id) != 0)
		return 0;
	return generation_number(generation) > generation_number(d->id.generation) ? generation : 0;
}

static void
stand_aside(struct raftd *d)
{
	links_silence(d->links, true);
	engine_fence(d->engine);
}

static void
log_fenced(struct raftd *d, const char *witness)
{
	log_err("raft", "fenced: an operator has recovered this cluster without this server: %s belongs to "
	    "generation %llu, this server to generation %llu. It no longer takes part and answers only ?stale reads. "
	    "Entries that are only here, up to index %llu, are not in the cluster. To bring the server back as a new "
	    "one: stop raftd here, move %s/raftd away, and start it",
	    witness, (unsigned long long)generation_number(d->fenced),
	    (unsigned long long)generation_number(d->id.generation),
	    (unsigned long long)engine_status(d->engine)->last_index, d->cluster.data_dir);
}

static void
keep_work(void *ctx)
{
	struct keeping *k = ctx;

	k->err = store_fence(k->d, k->generation);
	k->sys = errno;
}

/* What is said is not forgotten by a restart, or that is said too. */
static void
keep_done(void *ctx)
{
	struct keeping *k = ctx;

	if (k->err != TV_OK)
		log_warn("raft", "the fence could not be saved in %s/raftd/" FENCE_NAME ": %s; after a restart this "
		    "server has to learn of it again", k->d->cluster.data_dir, strerror(k->sys));
	log_fenced(k->d, k->witness);
	free(k);
}

/* The disk may take long: no peer counts on this server any more. */
static void
keep_and_tell(struct raftd *d, struct span witness)
{
	struct keeping *k = malloc(sizeof(*k));

	if (k == NULL) {
		log_fenced(d, "another server");
		return;
	}
	*k = (struct keeping){ .d = d, .generation = d->fenced };
	(void)log_safe(witness, k->witness, sizeof(k->witness));
	if (jobs_add(d->files, keep_work, keep_done, k) == TV_OK)
		return;
	k->err = TV_ESYS;
	k->sys = ENOMEM;
	keep_done(k);
}

void
fence_heard(struct raftd *d, const struct hello *h)
{
	if (!hello_supersedes(&d->id, d->cluster.datacenter, h) ||
	    generation_number(d->fenced) >= generation_number(h->generation))
		return;
	d->fenced = h->generation;
	stand_aside(d);
	keep_and_tell(d, span_str(h->name));
	gossip_tell_identity(d->gossip);
	engine_status_changed(d->engine);
}

void
fence_begin(struct raftd *d)
{
	d->fenced = kept(d);
	if (d->fenced == 0)
		return;
	stand_aside(d);
	log_fenced(d, "the cluster as it was heard of before");
}

/* -- notices -- */

/* Into d->refusal, which `info raft` shows, and rpcd while it waits for this server. */
static void
removed(struct raftd *d, const char *from)
{
	d->removed = true;
	snprintf(d->refusal, sizeof(d->refusal), "the leader %.128s does not add this server: its node id %s was removed for good "
	    "(force-leave or remove-peer). To bring it back as a new one: stop the daemons here, remove %.200s and start them",
	    from, d->id.uuid, d->cluster.data_dir);
}

static void
twin(struct raftd *d, const char *from)
{
	snprintf(d->refusal, sizeof(d->refusal), "%.128s refuses this server: another one with the same node id %s is up. This "
	    "one is %.128s at %s; was the data directory, or the machine's image, copied? Stop the daemons of the copy, give it "
	    "an empty data directory of its own instead of %.100s, and start them; do not remove a folder that the other "
	    "server uses", from, d->id.uuid, d->id.name, d->id.addr, d->cluster.data_dir);
}

static void
full(struct raftd *d, const char *from)
{
	snprintf(d->refusal, sizeof(d->refusal), "the leader %.128s does not add this server: the cluster has %d servers already, "
	    "which is the most", from, RAFT_SERVERS_MAX);
}

static const struct {
	void (*log)(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void (*say)(struct raftd *d, const char *from);
} notices[] = {
	[NOTICE_REMOVED] = { log_warn, removed }, [NOTICE_TWIN] = { log_err, twin },
	[NOTICE_FULL] = { log_warn, full },
};

enum tv_err
fence_notice(struct raftd *d, const struct hello *from, struct span body)
{
	struct msg_notice n = { .why = 0 };
	char name[128];

	if (msg_read(&msg_notice_schema, body, NULL, &n) != TV_OK)
		return TV_EFORMAT;
	if (n.why >= sizeof(notices) / sizeof(notices[0]) || notices[n.why].say == NULL)
		return TV_OK;		/* a newer reason than we know */
	notices[n.why].say(d, log_safe(span_str(from->name), name, sizeof(name)));
	/* One line a minute for all of them: their sender is a server, but may be a mistaken one. */
	if (log_allow(&d->notices, "raft"))
		notices[n.why].log("raft", "%s", d->refusal);
	return TV_OK;
}

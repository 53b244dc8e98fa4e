/* The gossip keys of this node; see keyring.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/keys.h"
#include "common/log.h"
#include "gossipd/keyring.h"

#define FILE_NAME "keyring"
#define SEEN_NAME "keyring.seen"
#define SEEN_MAX 64
#define TEXT_BYTES_MAX 4096		/* of either file: 16 keys, 64 ids */
#define TROUBLE_WINDOW MONO_S(60)
#define TROUBLE_PACKETS 3
#define FROM_BYTES 64

_Static_assert(SEAL_KEYS_MAX == KEYRING_KEYS_MAX, "cluster.key holds as many keys as a ring");

/* Everything secret, in one locked allocation. */
struct secrets {
	struct seal_ring live, stored;		/* stored: those of `live` that stand in the file, in its order */
	struct seal_ring seed;			/* cluster.key */
	struct seal_ring work, undo;
	char text[TEXT_BYTES_MAX];
};

struct kring {
	struct secrets *s;
	char *seed_path, *dir, *path;
	uint8_t seen[SEEN_MAX][KEY_ID_BYTES];	/* oldest first */
	unsigned seen_count;
	bool seen_changed;
	void (*changed)(void *ctx);
	void *ctx;
	/* What could not be opened, in the running minute and the one before. */
	struct mono window, last;
	unsigned bad, good;
	char from[FROM_BYTES];
	struct log_limit trouble_limit, write_limit;
};

struct kring *
kring_new(void)
{
	struct kring *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->s = sodium_malloc(sizeof(*k->s));
	if (k->s == NULL) {
		free(k);
		return NULL;
	}
	sodium_memzero(k->s, sizeof(*k->s));
	k->trouble_limit = (struct log_limit){ .burst = 1, .period = TROUBLE_WINDOW };
	k->write_limit = (struct log_limit){ .burst = 1, .period = MONO_S(10) };
	return k;
}

void
kring_free(struct kring *k)
{
	if (k == NULL)
		return;
	sodium_free(k->s);
	free(k->seed_path);
	free(k->dir);
	free(k->path);
	free(k);
}

const struct seal_ring *
kring_ring(const struct kring *k)
{
	return &k->s->live;
}

unsigned
kring_stored(const struct kring *k)
{
	return k->s->stored.count;
}

void
kring_on_change(struct kring *k, void (*changed)(void *ctx), void *ctx)
{
	k->changed = changed;
	k->ctx = ctx;
}

static bool
holds(const struct seal_ring *r, struct span key)
{
	return seal_ring_find(r, key) < r->count;
}

static void __attribute__((format(printf, 3, 4)))
say(char *text, size_t cap, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, cap, fmt, ap);
	va_end(ap);
}

/* -- ids of keys ever held ---------------------------------------------------------- */

static bool
was_seen(const struct kring *k, struct span key)
{
	uint8_t id[KEY_ID_BYTES];

	key_id_of(key, id);
	for (unsigned i = 0; i < k->seen_count; i++)
		if (memcmp(k->seen[i], id, sizeof(id)) == 0)
			return true;
	return false;
}

static void
see(struct kring *k, struct span key)
{
	if (was_seen(k, key))
		return;
	if (k->seen_count == SEEN_MAX)
		memmove(k->seen[0], k->seen[1], --k->seen_count * sizeof(k->seen[0]));
	key_id_of(key, k->seen[k->seen_count++]);
	k->seen_changed = true;
}

/* Lines of hexadecimal; what is none is passed over, since only a hint is lost. */
static void
read_seen(struct kring *k, const char *text, size_t len)
{
	for (size_t at = 0; at < len && k->seen_count < SEEN_MAX;) {
		const char *line = text + at, *eol = memchr(line, '\n', len - at);
		size_t n = eol != NULL ? (size_t)(eol - line) : len - at, got = 0;

		if (n == 2 * KEY_ID_BYTES && sodium_hex2bin(k->seen[k->seen_count], KEY_ID_BYTES, line, n, NULL, &got,
		    NULL) == 0 && got == KEY_ID_BYTES)
			k->seen_count++;
		at += n + 1;
	}
}

/* -- files ----------------------------------------------------------------------------- */

static bool
write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* The file as a whole or not at all, also after a loss of power. */
static enum tv_err
replace_file(const char *dir, const char *name, const char *text, size_t len)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, saved;
	char temp[64];
	bool ok;

	if (at < 0)
		return TV_ESYS;
	snprintf(temp, sizeof(temp), "%s.new", name);
	fd = openat(at, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	ok = fd >= 0 && fchmod(fd, 0600) == 0 && write_all(fd, text, len) && fsync(fd) == 0 &&
	    renameat(at, temp, at, name) == 0 && fsync(at) == 0;
	saved = errno;
	if (fd >= 0)
		close(fd);
	close(at);
	errno = saved;
	return ok ? TV_OK : TV_ESYS;
}

/* Into s->text; its length. */
static size_t
print_ring(struct secrets *s, const struct seal_ring *r)
{
	size_t at = 0, cap = sizeof(s->text);

	at += (size_t)snprintf(s->text, cap, "[\n");
	for (unsigned i = 0; i < r->count; i++) {
		struct span key = seal_key_at(r, i);

		memcpy(s->text + at, "  \"", 3);
		at += 3;
		sodium_bin2base64(s->text + at, cap - at, key.p, key.len, sodium_base64_VARIANT_ORIGINAL);
		at += strlen(s->text + at);
		at += (size_t)snprintf(s->text + at, cap - at, i + 1 < r->count ? "\",\n" : "\"\n");
	}
	return at + (size_t)snprintf(s->text + at, cap - at, "]\n");
}

static enum tv_err
write_seen(struct kring *k)
{
	char text[TEXT_BYTES_MAX];
	size_t at = (size_t)snprintf(text, sizeof(text), "# Ids of the keys that this node has held.\n");

	for (unsigned i = 0; i < k->seen_count; i++) {
		sodium_bin2hex(text + at, sizeof(text) - at, k->seen[i], KEY_ID_BYTES);
		at += 2 * KEY_ID_BYTES;
		text[at++] = '\n';
	}
	return replace_file(k->dir, SEEN_NAME, text, at);
}

/* Stores s->work, which then is s->stored. */
static enum tv_err
store(struct kring *k)
{
	struct secrets *s = k->s;
	size_t len = print_ring(s, &s->work);
	enum tv_err err = TV_OK;

	for (unsigned i = 0; i < s->work.count; i++)
		see(k, seal_key_at(&s->work, i));
	if (k->seen_changed)
		err = write_seen(k);
	if (err == TV_OK) {
		k->seen_changed = false;
		err = replace_file(k->dir, FILE_NAME, s->text, len);
	}
	if (err == TV_OK)
		s->stored = s->work;
	sodium_memzero(s->text, sizeof(s->text));
	return err;
}

/* The part of the ring that may be stored: what is stored already, and this key; or all of it. */
static void
select_proven(struct kring *k, struct span key, bool all)
{
	struct secrets *s = k->s;

	seal_ring_wipe(&s->work);
	for (unsigned i = 0; i < s->live.count; i++) {
		struct span one = seal_key_at(&s->live, i);

		if (all || holds(&s->stored, one) || (one.len == key.len && sodium_memcmp(one.p, key.p, key.len) == 0))
			(void)seal_ring_add(&s->work, one);	/* as many as there were */
	}
}

/* -- reading --------------------------------------------------------------------------- */

static struct span
skip_blanks(struct span text)
{
	while (text.len > 0 && (*text.p == ' ' || *text.p == '\t' || *text.p == '\n' || *text.p == '\r'))
		text = span_of(text.p + 1, text.len - 1);
	return text;
}

static bool
take_char(struct span *text, char c)
{
	*text = skip_blanks(*text);
	if (text->len == 0 || *text->p != (uint8_t)c)
		return false;
	*text = span_of(text->p + 1, text->len - 1);
	return true;
}

/* One quoted key into the ring: NULL, or what is wrong. */
static const char *
take_key(struct span *text, struct seal_ring *r)
{
	uint8_t bytes[KEY_BYTES], len;
	const uint8_t *end;
	const char *wrong = NULL;
	enum tv_err err;

	if (!take_char(text, '"') || (end = memchr(text->p, '"', text->len)) == NULL)
		return "a key in quotes is missing";
	if (!key_decode(span_of(text->p, (size_t)(end - text->p)), bytes, &len)) {
		wrong = "a key is not base64 of 16, 24 or 32 bytes";
	} else {
		err = seal_ring_add(r, span_of(bytes, len));
		wrong = err != TV_OK ? "more than 16 keys" : NULL;
	}
	sodium_memzero(bytes, sizeof(bytes));
	*text = span_of(end + 1, text->len - (size_t)(end + 1 - text->p));
	return wrong;
}

/* NULL, or what is wrong with the text. */
static const char *
parse_ring(struct span text, struct seal_ring *r)
{
	const char *wrong;

	if (!take_char(&text, '['))
		return "it does not begin with [";
	do {
		wrong = take_key(&text, r);
		if (wrong != NULL)
			return wrong;
	} while (take_char(&text, ','));
	if (!take_char(&text, ']'))
		return "the ] at its end is missing";
	return skip_blanks(text).len == 0 ? NULL : "something follows the ]";
}

/* TV_ENOENT: no file. */
static enum tv_err
read_file(struct kring *k, char *errbuf, size_t cap)
{
	char why[512];
	const char *wrong;
	char *text;
	size_t len;
	enum tv_err err = secret_read(k->path, &text, &len, why, sizeof(why));

	if (err == TV_ENOENT)
		return err;
	if (err != TV_OK) {
		say(errbuf, cap, "%s", why);
		return err;
	}
	wrong = parse_ring(span_of(text, len), &k->s->stored);
	sodium_free(text);	/* wipes */
	if (wrong == NULL)
		return TV_OK;
	say(errbuf, cap, "%s: damaged: %s. Move it away and start again: this node then begins with %s, which must "
	    "hold the key that the cluster uses now (clusterctl keyring export on another node)", k->path,
	    wrong, k->seed_path);
	return TV_EFORMAT;
}

/* A keyring without its list of ids was put there by hand: then it counts, and nothing of cluster.key is new. */
static void
load_seen(struct kring *k)
{
	char path[4096 + 16], why[512];
	char *text;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", k->dir, SEEN_NAME);
	if (secret_read(path, &text, &len, why, sizeof(why)) == TV_OK) {
		read_seen(k, text, len);
		sodium_free(text);
	} else {
		for (unsigned i = 0; i < k->s->seed.count; i++)
			see(k, seal_key_at(&k->s->seed, i));
	}
}

enum tv_err
kring_seed(struct kring *k, const char *cluster_key, char *errbuf, size_t cap)
{
	struct keyring keys;
	enum tv_err err = keyring_load(cluster_key, &keys, errbuf, cap);

	if (err != TV_OK)
		return err;
	for (unsigned i = 0; i < keys.count; i++)
		(void)seal_ring_add(&k->s->seed, span_of(keys.keys[i].bytes, keys.lens[i]));	/* it fits */
	keyring_wipe(&keys);
	k->seed_path = strdup(cluster_key);
	if (k->seed_path != NULL)
		return TV_OK;
	say(errbuf, cap, "out of memory");
	return TV_ENOMEM;
}

/* A key of cluster.key that the file does not have. */
static void
try_seed(struct kring *k, unsigned at)
{
	struct secrets *s = k->s;
	struct span key = seal_key_at(&s->seed, at);
	char id[KEY_ID_TEXT_BYTES];

	key_id_text(key, id);
	if (was_seen(k, key)) {
		log_info("keyring", "%s still names key %s, which was rotated away: %s counts; new nodes need the new "
		    "key there", k->seed_path, id, k->path);
	} else if (seal_ring_add(&s->live, key) != TV_OK) {
		log_warn("keyring", "key %s of %s is left out: the ring is full", id, k->seed_path);
	} else if (at > 0) {
		log_info("keyring", "key %s of %s is new to this node: tried for reading, and kept once it works", id,
		    k->seed_path);
	} else {
		(void)seal_ring_use(&s->live, key);	/* it is there */
		log_warn("keyring", "%s begins with key %s, which is new to this node: it is the primary key from now "
		    "on, and kept once a member is heard with it; if it is wrong, put the right one there and restart",
		    k->seed_path, id);
	}
}

static enum tv_err
set_paths(struct kring *k, const char *dir, char *errbuf, size_t cap)
{
	char path[4096 + 16];

	snprintf(path, sizeof(path), "%s/%s", dir, FILE_NAME);
	k->dir = strdup(dir);
	k->path = strdup(path);
	if (k->dir != NULL && k->path != NULL)
		return TV_OK;
	say(errbuf, cap, "out of memory");
	return TV_ENOMEM;
}

enum tv_err
kring_open(struct kring *k, const char *dir, bool plaintext_wanted, char *errbuf, size_t cap)
{
	struct secrets *s = k->s;
	enum tv_err err = set_paths(k, dir, errbuf, cap);

	if (err != TV_OK)
		return err;
	if (s->seed.count == 0) {
		if (plaintext_wanted || access(k->path, F_OK) != 0)
			return TV_OK;
		say(errbuf, cap, "%s is there, but no cluster key: this node was encrypted and would now talk in "
		    "clear. Put cluster.key back, or say encryption = \"off\" in cluster.conf", k->path);
		return TV_EPERM;
	}
	err = read_file(k, errbuf, cap);
	if (err == TV_ENOENT) {
		s->live = s->seed;
		return TV_OK;
	}
	if (err != TV_OK)
		return err;
	load_seen(k);
	s->live = s->stored;
	for (unsigned i = 0; i < s->seed.count; i++)
		if (!holds(&s->stored, seal_key_at(&s->seed, i)))
			try_seed(k, i);
	return TV_OK;
}

/* -- life ------------------------------------------------------------------------------- */

void
kring_opened(struct kring *k, unsigned at)
{
	struct secrets *s = k->s;
	struct span key;
	char id[KEY_ID_TEXT_BYTES];

	k->good++;
	if (s->stored.count == s->live.count || at >= s->live.count)
		return;
	key = seal_key_at(&s->live, at);
	if (holds(&s->stored, key))
		return;
	select_proven(k, key, false);
	if (store(k) == TV_OK)
		log_info("keyring", "key %s works: kept in %s", key_id_text(key, id), k->path);
	else if (log_allow(&k->write_limit, "keyring"))
		log_err("keyring", "%s: %s; the keys will be forgotten by a restart", k->path, strerror(errno));
}

/* Why not; NULL: done, in memory. */
static enum tv_err
apply(struct secrets *s, enum kring_op op, struct span key, char *text, size_t cap)
{
	enum tv_err err = op == KRING_INSTALL ? seal_ring_add(&s->live, key) :
	    op == KRING_USE ? seal_ring_use(&s->live, key) : seal_ring_remove(&s->live, key);

	if (err == TV_EINVAL)
		say(text, cap, "key size must be 16, 24 or 32 bytes");
	else if (err == TV_ELIMIT)
		say(text, cap, "the ring is full: remove a key that is no longer used");
	else if (err == TV_ENOENT)
		say(text, cap, "requested key is not in the keyring");
	else if (err == TV_ECONFLICT)
		say(text, cap, "Removing the primary key is not allowed");
	return err;
}

static bool
same_ring(const struct seal_ring *a, const struct seal_ring *b)
{
	return a->count == b->count && sodium_memcmp(a->keys, b->keys, a->count * sizeof(a->keys[0])) == 0;
}

static void
log_change(enum kring_op op, struct span key, const struct seal_ring *r)
{
	static const char *const verbs[] = {
		[KRING_INSTALL] = "installed", [KRING_USE] = "is the primary key", [KRING_REMOVE] = "removed",
	};
	char id[KEY_ID_TEXT_BYTES];

	log_info("keyring", "key %s %s; %u key%s in the ring", key_id_text(key, id), verbs[op], r->count,
	    r->count == 1 ? "" : "s");
}

enum tv_err
kring_change(struct kring *k, enum kring_op op, struct span key, bool all, char *text, size_t cap)
{
	struct secrets *s = k->s;
	enum tv_err err;

	if (s->live.count == 0) {
		say(text, cap, "No keyring available (encryption not enabled)");
		return TV_EPERM;
	}
	s->undo = s->live;
	err = apply(s, op, key, text, cap);
	if (err == TV_OK) {
		select_proven(k, key, all);
		if (same_ring(&s->live, &s->undo) && same_ring(&s->work, &s->stored))
			return TV_OK;	/* the other pool has asked for it already */
		err = store(k);
		if (err != TV_OK)
			say(text, cap, "%s: %s", k->path, strerror(errno));
	}
	if (err != TV_OK) {
		s->live = s->undo;
		return err;
	}
	log_change(op, key, &s->live);
	if (k->changed != NULL)
		k->changed(k->ctx);
	return TV_OK;
}

/* -- trouble ------------------------------------------------------------------------------ */

void
kring_unreadable(struct kring *k, const char *from, struct mono now)
{
	char text[1024];

	if (k->s->live.count == 0)
		return;
	if (!mono_before(now, mono_add(k->window, TROUBLE_WINDOW))) {
		k->window = now;
		k->bad = k->good = 0;
	}
	k->bad++;
	k->last = now;
	snprintf(k->from, sizeof(k->from), "%s", from);
	if (kring_trouble(k, now, text, sizeof(text)) && log_allow(&k->trouble_limit, "keyring"))
		log_warn("keyring", "%s", text);
}

bool
kring_trouble(const struct kring *k, struct mono now, char *text, size_t cap)
{
	char id[KEY_ID_TEXT_BYTES];

	if (k->bad < TROUBLE_PACKETS || !mono_before(now, mono_add(k->last, TROUBLE_WINDOW)))
		return false;
	key_id_text(seal_key_at(&k->s->live, 0), id);
	say(text, cap, "%s: the keys of this node (primary %s) do not open what comes from %s. If a rotation passed "
	    "this node by, take the new key from a healthy one (clusterctl keyring export), make it the first line of "
	    "%s and restart gossipd here; while others still hold %s, clusterctl keyring install there reaches "
	    "this node too",
	    k->good == 0 ? "no member can be heard" : "some members cannot be heard", id, k->from, k->seed_path, id);
	return true;
}

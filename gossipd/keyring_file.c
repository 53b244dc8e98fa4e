/* The files of the ring: `keyring`, the keys themselves, and `keyring.seen`, the ids of all keys ever held. */
#include "config.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/file.h"
#include "gossipd/keyring_int.h"

/* -- ids of keys ever held ---------------------------------------------------------- */

bool
keyring_was_seen(const struct kring *k, struct span key)
{
	uint8_t id[KEY_ID_BYTES];

	key_id_of(key, id);
	for (unsigned i = 0; i < k->seen_count; i++)
		if (memcmp(k->seen[i], id, sizeof(id)) == 0)
			return true;
	return false;
}

static void
note_key_seen(struct kring *k, struct span key)
{
	if (keyring_was_seen(k, key))
		return;
	if (k->seen_count == SEEN_MAX)
		memmove(k->seen[0], k->seen[1], --k->seen_count * sizeof(k->seen[0]));
	key_id_of(key, k->seen[k->seen_count++]);
	k->seen_changed = true;
}

/* Lines of hexadecimal; what is none is passed over, since only a hint is lost. */
void
keyring_parse_seen(struct kring *k, const char *text, size_t len)
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

/* A file of the ring, seen from its folder. */
static enum tv_err
replace_file(const struct kring *k, const char *name, struct span text)
{
	char path[4096 + 16];

	snprintf(path, sizeof(path), "%s/%s", k->dir, name);
	return file_replace(AT_FDCWD, path, text, 0600);
}

size_t
keyring_print(struct secrets *s, const struct seal_ring *r)
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
	return replace_file(k, KEYRING_SEEN_FILE, span_of(text, at));
}

enum tv_err
keyring_store(struct kring *k)
{
	struct secrets *s = k->s;
	size_t len = keyring_print(s, &s->work);
	enum tv_err err = TV_OK;

	for (unsigned i = 0; i < s->work.count; i++)
		note_key_seen(k, seal_key_at(&s->work, i));
	if (k->seen_changed)
		err = write_seen(k);
	if (err == TV_OK) {
		k->seen_changed = false;
		err = replace_file(k, KEYRING_FILE, span_of(s->text, len));
	}
	if (err == TV_OK)
		s->stored = s->work;
	sodium_memzero(s->text, sizeof(s->text));
	return err;
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

const char *
keyring_parse(struct span text, struct seal_ring *r)
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
	return skip_blanks(text).len == 0 ? NULL : "trailing characters after the ]";
}

enum tv_err
keyring_read(struct kring *k, char *errbuf, size_t cap)
{
	char why[512];
	const char *wrong;
	char *text;
	size_t len;
	enum tv_err err = secret_read(k->path, &text, &len, why, sizeof(why));

	if (err == TV_ENOENT)
		return err;
	if (err != TV_OK)
		return tv_fail(errbuf, cap, err, "%s", why);
	wrong = keyring_parse(span_of(text, len), &k->s->stored);
	sodium_free(text);	/* wipes */
	if (wrong == NULL)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EFORMAT, "%s: damaged: %s. Move it away and start again: this node then begins "
	    "with %s, which must hold the key that the cluster uses now (clusterctl keyring export on another node)",
	    k->path, wrong, k->seed_path);
}

void
keyring_load_seen(struct kring *k)
{
	char path[4096 + 16], why[512];
	char *text;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", k->dir, KEYRING_SEEN_FILE);
	if (secret_read(path, &text, &len, why, sizeof(why)) == TV_OK) {
		keyring_parse_seen(k, text, len);
		sodium_free(text);
	} else {
		for (unsigned i = 0; i < k->s->seed.count; i++)
			note_key_seen(k, seal_key_at(&k->s->seed, i));
	}
}

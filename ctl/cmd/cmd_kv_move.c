/*
 * clusterctl kv export and kv import: keys with their values, in Consul's form.  Neither holds more than one entry, or
 * one transaction, of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/record/records.h"
#include "common/text/base64.h"
#include "common/text/json_text.h"
#include "ctl/ctl.h"
#include "ctl/kv_entries.h"

#define MOVE_TIMEOUT_S 60
#define BATCH_BYTES (384u << 10)	/* of a transaction as JSON: less than limits.txn_max_req_len is by default */
#define PIECE_BYTES 65536
#define MB(n_) ((double)(n_) / (1 << 20))

/* -- export -- */

struct export {
	struct kv_entries entries;
	struct progress p;
	uint64_t count;
	bool broken;			/* standard output */
};

static bool
put_out(struct export *x, struct span text)
{
	x->broken = x->broken || fwrite(text.p, 1, text.len, stdout) != text.len;
	return !x->broken;
}

static bool
export_one(void *ctx, uint64_t number, const struct kv_exported *e)
{
	struct buf text = BUF_INIT(2 * KV_ENTRY_BYTES_MAX);
	struct export *x = ctx;

	kv_entry_write(e, number == 1, &text);
	bool good = !text.failed && put_out(x, buf_span(&text));
	x->count += good;
	buf_done(&text);
	return good;
}

static ssize_t
on_bytes(void *ctx, const char *bytes, size_t len)
{
	struct export *x = ctx;

	if (kv_entries_take(&x->entries, span_of(bytes, len)))
		return (ssize_t)len;
	errno = x->broken ? EPIPE : EINVAL;
	return 0;
}

static void
export_tick(void *ctx, uint64_t done, uint64_t total UNUSED)
{
	struct export *x = ctx;

	if (x->p.tty && !isatty(STDOUT_FILENO))
		progress_show(&x->p, "kv export: %" PRIu64 " keys, %.1f MB", x->count, MB(done));
}

/* Nothing there is an empty list. */
static int
export_end(struct ctl *ctl, struct export *x, const struct client_answer *a, bool good)
{
	progress_wipe(&x->p);
	if (x->entries.failed && x->entries.why[0] != '\0')
		return ctl_complain(ctl, "the answer: %s", x->entries.why);
	if (!good && a->status != 404) {
		(void)client_complain(ctl->client, ctl->verb->words, a);
		if (a->body.len > 0 && memmem(a->body.data, a->body.len, "too large", 9) != NULL)
			fprintf(stderr, "Export it by parts: with a PREFIX that fewer keys begin with.\n");
		return 1;
	}
	if (good && !kv_entries_end(&x->entries))
		return ctl_complain(ctl, "the answer: %s", x->entries.why);
	(void)put_out(x, span_str(x->count > 0 ? "\n]\n" : "[]\n"));
	json_t *none = x->count == 0 ? json_array() : NULL;
	client_tell_hidden(ctl->client, a, none);
	json_decref(none);
	if (fflush(stdout) == 0 && !x->broken)
		return 0;
	return ctl_complain(ctl, "standard output: %s", strerror(errno));
}

int
kv_export(struct ctl *ctl)
{
	const char *prefix = ctl->argc > 0 ? ctl->argv[0] + strspn(ctl->argv[0], "/") : "";
	struct buf path = BUF_INIT(1u << 20);
	struct export x = { .count = 0 };
	struct client_answer a;
	FILE *to;
	int rc = 1;

	buf_puts(&path, "/v1/kv/");
	client_encode(&path, prefix, true);
	ctl_param(&path, "recurse", "");
	ctl_params(ctl, &path);
	kv_entries_init(&x.entries, export_one, &x);
	progress_init(&x.p);
	to = fopencookie(&x, "w", (cookie_io_functions_t){ .write = on_bytes });
	if (to == NULL) {
		(void)ctl_complain(ctl, "%s", strerror(errno));
	} else {
		bool good = client_download(ctl_client(ctl), buf_cstr(&path), to, export_tick, &x, &a);
		good = fclose(to) == 0 && good;
		rc = export_end(ctl, &x, &a, good);
		client_answer_done(&a);
	}
	kv_entries_done(&x.entries);
	buf_done(&path);
	return rc;
}

/* -- import -- */

struct import {
	struct ctl *ctl;
	struct kv_entries entries;
	const char *prefix;		/* "" or with a slash behind it */
	struct buf body;		/* of the transaction to come, without its end */
	struct span_list keys;		/* of it, in the arena */
	struct arena arena;
	uint64_t first;			/* number of its first entry */
	uint64_t written;		/* entries */
	uint64_t bytes, total;		/* of the text; total 0: not known */
	struct progress p;
};

/* What is wrong with an entry, behind its number; what came before it is there. */
static void
complain_entry(struct import *m, uint64_t number, struct span key, const char *what)
{
	struct buf shown = BUF_INIT(1u << 20);

	progress_wipe(&m->p);
	text_quote(key, &shown);
	(void)ctl_complain(m->ctl, "entry %" PRIu64 " (%s): %s", number, buf_cstr(&shown), what);
	buf_done(&shown);
}

static void
tell_written(const struct import *m)
{
	fprintf(stderr, "%" PRIu64 " entries before that were written, and those from %" PRIu64 " on were not.\n",
	    m->written, m->written + 1);
}

/* Each error of a transaction by the entry that it is about.  False: the answer is none of a transaction. */
static bool
complain_txn(struct import *m, const struct client_answer *a)
{
	json_t *answer = json_loadb((const char *)a->body.data, a->body.len, JSON_ALLOW_NUL, NULL), *error;
	json_t *errors = json_object_get(answer, "Errors");
	bool told = false;
	size_t i;

	json_array_foreach(errors, i, error) {
		json_int_t at = json_int(error, "OpIndex");
		char *what = out_safe(span_str(json_text(error, "What")));

		if (at >= 0 && at < m->keys.n) {
			complain_entry(m, m->first + (uint64_t)at, m->keys.v[at], what);
			told = true;
		}
		free(what);
	}
	json_decref(answer);
	return told;
}

static bool
complain(struct import *m, const struct client_answer *a)
{
	uint64_t last = m->first + m->keys.n - 1;

	if (a->status != 409 || !complain_txn(m, a)) {
		progress_wipe(&m->p);
		(void)client_complain(m->ctl->client, m->ctl->verb->words, a);
		if (last > m->first)
			fprintf(stderr, "That was about entries %" PRIu64 " to %" PRIu64 ", in one transaction.\n",
			    m->first, last);
		else
			complain_entry(m, m->first, m->keys.v[0], "was not written");
	}
	tell_written(m);
	return false;
}

static bool
request(struct import *m, const char *path, struct span body)
{
	struct client_answer a;
	bool good = client_do(ctl_client(m->ctl), "PUT", path, body, MOVE_TIMEOUT_S, &a) || complain(m, &a);

	client_answer_done(&a);
	if (!good)
		return false;
	m->written += m->keys.n;
	m->keys = (struct span_list){ .n = 0 };
	arena_reset(&m->arena);
	buf_reset(&m->body);
	if (m->total > 0)
		progress_show(&m->p, "kv import: %" PRIu64 " keys, %.1f of %.1f MB", m->written, MB(m->bytes),
		    MB(m->total));
	else
		progress_show(&m->p, "kv import: %" PRIu64 " keys, %.1f MB", m->written, MB(m->bytes));
	return true;
}

/* The transaction goes, if there is anything in it. */
static bool
flush(struct import *m)
{
	struct buf path = BUF_INIT(8192);
	bool good;

	if (m->keys.n == 0)
		return true;
	ctl_path(m->ctl, &path, "/v1/txn", NULL, "");
	buf_puts(&m->body, "]");
	good = request(m, buf_cstr(&path), buf_span(&m->body));
	buf_done(&path);
	return good;
}

static bool
no_memory(struct import *m)
{
	progress_wipe(&m->p);
	return ctl_false(m->ctl, "out of memory");
}

static bool
keep_key(struct import *m, uint64_t number, struct span key)
{
	if (m->keys.n == 0) {
		m->keys.v = arena_array(&m->arena, TXN_OPS_MAX, sizeof(*m->keys.v));
		m->first = number;
	}
	if (m->keys.v == NULL || (m->keys.v[m->keys.n] = arena_copy(&m->arena, key)).p == NULL)
		return no_memory(m);
	m->keys.n++;
	return true;
}

/* A value that is too long for a transaction goes alone. */
static bool
import_long(struct import *m, uint64_t number, struct span key, const struct kv_exported *e)
{
	struct buf path = BUF_INIT(1u << 20);
	char flags[24];
	bool good;

	buf_puts(&path, "/v1/kv/");
	client_encode_bytes(&path, key, true);
	snprintf(flags, sizeof(flags), "%" PRIu64, e->flags);
	ctl_param(&path, "flags", flags);
	ctl_params(m->ctl, &path);
	good = flush(m) && keep_key(m, number, key) && request(m, buf_cstr(&path), e->value);
	buf_done(&path);
	return good;
}

static void
put_operation(struct import *m, struct span key, const struct kv_exported *e)
{
	buf_puts(&m->body, m->keys.n == 0 ? "[" : ",");
	buf_puts(&m->body, "{\"KV\":{\"Verb\":\"set\",\"Key\":");
	json_quote(key, &m->body);
	buf_printf(&m->body, ",\"Flags\":%" PRIu64 ",\"Value\":\"", e->flags);
	base64_encode(e->value, &m->body);
	buf_puts(&m->body, "\"}}");
}

static bool
import_one(void *ctx, uint64_t number, const struct kv_exported *e)
{
	struct buf name = BUF_INIT(1u << 20);
	struct import *m = ctx;
	size_t bytes;
	bool good;

	buf_puts(&name, m->prefix);
	buf_putspan(&name, e->key);
	struct span key = buf_span(&name);
	bytes = 2 * e->value.len + 6 * key.len + 128;	/* more than it takes as JSON */
	if (name.failed) {
		complain_entry(m, number, span_str("..."), "the key is longer than 1 MiB");
		tell_written(m);
		good = false;
	} else if (bytes > BATCH_BYTES) {
		good = import_long(m, number, key, e);
	} else {
		good = (m->keys.n < TXN_OPS_MAX && m->body.len + bytes <= BATCH_BYTES) || flush(m);
		if (good)
			put_operation(m, key, e);
		good = good && (m->body.failed ? no_memory(m) : keep_key(m, number, key));
	}
	buf_done(&name);
	return good;
}

static bool
import_text(struct import *m, struct span text)
{
	m->bytes += text.len;
	return kv_entries_take(&m->entries, text);
}

static bool
import_file(struct import *m, FILE *f, const char *name)
{
	static char piece[PIECE_BYTES];
	struct stat st;
	size_t n;

	if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode))
		m->total = (uint64_t)st.st_size;
	while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
		if (!import_text(m, span_of(piece, n)))
			return false;
	if (!ferror(f))
		return true;
	progress_wipe(&m->p);
	(void)ctl_complain(m->ctl, "%s: %s", name, strerror(errno));
	tell_written(m);
	return false;
}

/* "-", a list, FILE or @FILE. */
static bool
import_from(struct import *m, const char *arg)
{
	const char *name = arg[0] == '@' ? arg + 1 : arg;
	bool good;
	FILE *f;

	if (arg[strspn(arg, " \t\r\n")] == '[')
		return import_text(m, span_str(arg));
	if (strcmp(arg, "-") == 0)
		return import_file(m, stdin, "standard input");
	if ((f = fopen(name, "rbe")) == NULL)
		return ctl_false(m->ctl, "%s: %s", name, strerror(errno));
	good = import_file(m, f, name);
	(void)fclose(f);
	return good;
}

/* What is wrong with the text ends the import; what was read before it is written all the same. */
static bool
import_end(struct import *m, bool read)
{
	bool good = read && kv_entries_end(&m->entries);

	if (m->entries.why[0] != '\0' && flush(m)) {
		progress_wipe(&m->p);
		(void)ctl_complain(m->ctl, "%s", m->entries.why);
		tell_written(m);
	}
	return good && flush(m);
}

/* As Consul takes it: "a" and "a/" are both in front of "a/KEY". */
static const char *
take_prefix(const struct ctl *ctl, struct buf *out)
{
	const char *prefix = ctl_opt(ctl, "prefix");
	size_t n = prefix == NULL ? 0 : strlen(prefix), from = prefix == NULL ? 0 : strspn(prefix, "/");

	while (n > from && prefix[n - 1] == '/')
		n--;
	if (n > from) {
		buf_put(out, prefix + from, n - from);
		buf_u8(out, '/');
	}
	return n > from ? buf_cstr(out) : "";
}

int
kv_import(struct ctl *ctl)
{
	struct buf prefix = BUF_INIT(1u << 16);
	struct import m = { .ctl = ctl, .prefix = take_prefix(ctl, &prefix), .body = BUF_INIT(2 * BATCH_BYTES),
	    .arena = ARENA_INIT(8u << 20) };
	bool good;

	kv_entries_init(&m.entries, import_one, &m);
	progress_init(&m.p);
	client_quiet(ctl_client(ctl), true);
	good = import_end(&m, import_from(&m, ctl->argv[0]));
	if (good) {
		progress_wipe(&m.p);
		printf(ctl->json ? "{\"Imported\": %" PRIu64 "}\n" : "Imported %" PRIu64 " keys\n", m.written);
	}
	kv_entries_done(&m.entries);
	arena_done(&m.arena);
	buf_done(&m.body);
	buf_done(&prefix);
	return good ? 0 : 1;
}

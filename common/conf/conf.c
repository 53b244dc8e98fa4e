/* Configuration files against option tables. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/dirs.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/conf/conf.h"
#include "common/conf/conf_value.h"
#include "common/conf/elsewhere.h"
#include "common/text/edits.h"

#define KEY_BYTES_MAX 128	/* of a dotted key */

struct load {
	const char *name;
	const struct conf_opt *opts;
	size_t opt_count;
	void *target;
	unsigned *lines;	/* of each option: where it was set, 0 if not yet */
	unsigned open_mode;	/* not 0: the file's, which others may access */
	char *errbuf;
	size_t cap;
};

static void *
field(const struct conf_opt *o, void *target)
{
	return (char *)target + o->offset;
}

static const void *
cfield(const struct conf_opt *o, const void *target)
{
	return (const char *)target + o->offset;
}

static enum tv_err __attribute__((format(printf, 4, 5)))
fail_line(struct load *l, unsigned line, enum tv_err err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return tv_fail(l->errbuf, l->cap, err, "%s:%u: %s", l->name, line, text);
}

void
conf_free(const struct conf_opt *opts, size_t opt_count, void *target)
{
	for (size_t i = 0; i < opt_count; i++) {
		const struct conf_value_ops *ops = conf_value_ops(opts[i].type);

		if (ops->free != NULL)
			ops->free(field(&opts[i], target));
		memset(field(&opts[i], target), 0, ops->size);
	}
}

static enum tv_err
set_defaults(const struct conf_opt *opts, size_t opt_count, void *target)
{
	for (size_t i = 0; i < opt_count; i++)
		memset(field(&opts[i], target), 0, conf_value_ops(opts[i].type)->size);
	for (size_t i = 0; i < opt_count; i++)
		if (conf_value_default(&opts[i], field(&opts[i], target)) != TV_OK) {
			conf_free(opts, opt_count, target);
			return TV_ENOMEM;
		}
	return TV_OK;
}

static const char *
last_part(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot != NULL ? dot + 1 : key;
}

/* The option whose name looks most like `key`, or NULL when none is near. */
static const char *
nearest(const struct load *l, const char *key)
{
	const char *found = NULL;
	unsigned best = edits_limit(key) + 1;

	for (size_t i = 0; i < l->opt_count; i++) {
		unsigned d = edits_between(key, l->opts[i].key);
		unsigned tail = edits_between(last_part(key), last_part(l->opts[i].key));

		if (l->opts[i].type == CONF_REMOVED)
			continue;
		/* A right name in the wrong block is as good as one wrong letter. */
		if (tail == 0 && d > 1)
			d = 1;
		if (d < best) {
			best = d;
			found = l->opts[i].key;
		}
	}
	return found;
}

static enum tv_err
unknown_key(struct load *l, const struct ucl_node *n, const char *key)
{
	const char *near = nearest(l, key), *where = conf_elsewhere(key);
	char safe[KEY_BYTES_MAX];

	log_safe(span_str(key), safe, sizeof(safe));
	if (where != NULL)
		return fail_line(l, n->line, TV_EINVAL, "unknown key \"%s\": %s", safe, where);
	if (near != NULL)
		return fail_line(l, n->line, TV_EINVAL, "unknown key \"%s\" (did you mean %s?)", safe, near);
	return fail_line(l, n->line, TV_EINVAL, "unknown key \"%s\"", safe);
}

static void
note_given(const struct load *l, const char *key)
{
	for (size_t i = 0; i < l->opt_count; i++)
		if (l->opts[i].type == CONF_GIVEN && strcmp(l->opts[i].key, key) == 0)
			*(bool *)field(&l->opts[i], l->target) = true;
}

static enum tv_err
set_option(struct load *l, size_t at, const struct ucl_node *n)
{
	const struct conf_opt *o = &l->opts[at];
	const struct conf_value_ops *ops = conf_value_ops(o->type);
	char why[384];
	enum tv_err err;

	if (l->lines[at] != 0)
		return fail_line(l, n->line, TV_EINVAL, "key \"%s\" is given twice (first on line %u)", o->key,
		    l->lines[at]);
	l->lines[at] = n->line;
	if (ops->free != NULL)
		ops->free(field(o, l->target));
	memset(field(o, l->target), 0, ops->size);
	if (o->type == CONF_SECRET && l->open_mode != 0 && n->text.len > 0)
		return fail_line(l, n->line, TV_EPERM, "%s: others can read it here (mode %04o): chmod o-rwx %s; for a "
		    "reload the daemon's group must be able to read the file", o->key, l->open_mode, l->name);
	err = ops->read(o, n, field(o, l->target), why, sizeof(why));
	if (err != TV_OK)
		return fail_line(l, n->line, err, "%s: %s", o->key, why);
	note_given(l, o->key);
	return TV_OK;
}

static bool
is_block(const struct load *l, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < l->opt_count; i++)
		if (strncmp(l->opts[i].key, key, len) == 0 && l->opts[i].key[len] == '.')
			return true;
	return false;
}

/* All members of a block; prefix is "" or "block.". */
static enum tv_err
set_block(struct load *l, const struct ucl_node *block, const char *prefix)
{
	enum tv_err err = TV_OK;
	size_t at;

	for (const struct ucl_node *n = block->child; n != NULL && err == TV_OK; n = n->next) {
		char key[KEY_BYTES_MAX];

		if (snprintf(key, sizeof(key), "%s%.*s", prefix, (int)n->key.len, (const char *)n->key.p) >=
		    (int)sizeof(key) - 1)
			return unknown_key(l, n, key);
		for (at = 0; at < l->opt_count && strcmp(l->opts[at].key, key) != 0; at++)
			;
		if (at < l->opt_count) {
			err = set_option(l, at, n);
		} else if (!is_block(l, key)) {
			err = unknown_key(l, n, key);
		} else if (n->type != UCL_OBJECT) {
			err = fail_line(l, n->line, TV_EINVAL, "%s: a block is expected (write %s { ... })", key, key);
		} else {
			strcat(key, ".");
			err = set_block(l, n, key);
		}
	}
	return err;
}

static enum tv_err
parse_into(struct load *l, struct span text)
{
	struct arena arena = ARENA_INIT(UCL_ARENA_BYTES_MAX);
	struct ucl_node *root = NULL;
	struct ucl_error bad;
	enum tv_err err = ucl_parse(text, &arena, &root, &bad);

	if (err != TV_OK)
		err = fail_line(l, bad.line, err, "%s", bad.text);
	else if (root->type != UCL_OBJECT)
		err = fail_line(l, 1, TV_EINVAL, "expected keys and values, not a list");
	else
		err = set_block(l, root, "");
	arena_wipe(&arena);
	arena_done(&arena);
	return err;
}

static enum tv_err
parse(const char *name, struct span text, const struct conf_opt *opts, size_t opt_count, void *target,
    unsigned open_mode, char *errbuf, size_t cap)
{
	struct load l = { name, opts, opt_count, target, calloc(opt_count + 1, sizeof(unsigned)), open_mode, errbuf,
	    cap };
	enum tv_err err = set_defaults(opts, opt_count, target);

	if (err != TV_OK || l.lines == NULL) {
		free(l.lines);
		if (err == TV_OK)
			conf_free(opts, opt_count, target);
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: out of memory", name);
	}
	err = parse_into(&l, text);
	free(l.lines);
	if (err != TV_OK)
		conf_free(opts, opt_count, target);
	return err;
}

enum tv_err
conf_parse(const char *name, struct span text, const struct conf_opt *opts, size_t opt_count,
    void *target, char *errbuf, size_t cap)
{
	return parse(name, text, opts, opt_count, target, 0, errbuf, cap);
}

/* *open_mode: see struct load. */
static enum tv_err
check_file(const char *path, int fd, unsigned *open_mode, char *errbuf, size_t cap)
{
	char parent[4096];
	struct stat st;

	if (fstat(fd, &st) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is not a regular file", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is writable by others: chmod go-w %s", path, path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return tv_fail(errbuf, cap, TV_EPERM, "%s: belongs to uid %u: chown root %s", path, (unsigned)st.st_uid,
		    path);
	if (st.st_size > UCL_TEXT_BYTES_MAX)
		return tv_fail(errbuf, cap, TV_ELIMIT, "%s: is larger than %d bytes", path, UCL_TEXT_BYTES_MAX);
	if (dirs_parent_open(path, parent, sizeof(parent)))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: its folder is writable by everybody: chmod o-w %s", path,
		    parent);
	*open_mode = st.st_mode & S_IRWXO ? (unsigned)(st.st_mode & 07777) : 0;
	return TV_OK;
}

static enum tv_err
read_file(const char *path, struct buf *out, unsigned *open_mode, char *errbuf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	enum tv_err err;

	if (fd < 0)
		return tv_fail(errbuf, cap, errno == ENOENT ? TV_ENOENT : TV_ESYS, "%s: %s", path, strerror(errno));
	err = check_file(path, fd, open_mode, errbuf, cap);
	if (err == TV_OK && (err = file_read_fd(fd, out)) != TV_OK)
		snprintf(errbuf, cap, "%s: %s", path, err == TV_ELIMIT ? "is too large" : strerror(errno));
	close(fd);
	return err;
}

enum tv_err
conf_read_file(const char *path, struct buf *out, char *errbuf, size_t cap)
{
	unsigned open_mode;

	return read_file(path, out, &open_mode, errbuf, cap);
}

enum tv_err
conf_load(const char *path, const struct conf_opt *opts, size_t opt_count, void *target, char *errbuf, size_t cap)
{
	struct buf text = BUF_INIT(UCL_TEXT_BYTES_MAX + 16384);
	unsigned open_mode = 0;
	enum tv_err err;

	text.secret = true;		/* it may hold tokens */
	err = read_file(path, &text, &open_mode, errbuf, cap);
	if (err == TV_OK)
		err = parse(path, buf_span(&text), opts, opt_count, target, open_mode, errbuf, cap);
	else if (err == TV_ENOENT && set_defaults(opts, opt_count, target) != TV_OK)
		err = TV_ENOMEM;
	else if (err != TV_ENOENT)
		for (size_t i = 0; i < opt_count; i++)
			memset(field(&opts[i], target), 0, conf_value_ops(opts[i].type)->size);
	buf_done(&text);
	return err;
}

static void
indent(struct buf *out, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++)
		buf_puts(out, "\t");
}

/* "# help (100ms to 60s)" */
static void
print_help(const struct conf_opt *o, unsigned depth, struct buf *out)
{
	if (o->help == NULL && o->min == NULL && o->max == NULL && o->choices == NULL)
		return;
	indent(out, depth);
	buf_printf(out, "#%s%s", o->help != NULL ? " " : "", o->help != NULL ? o->help : "");
	if (o->choices != NULL)
		buf_printf(out, " (%s)", o->choices);
	else if (o->min != NULL && o->max != NULL)
		buf_printf(out, " (%s to %s)", o->min, o->max);
	else if (o->min != NULL || o->max != NULL)
		buf_printf(out, " (%s %s)", o->min != NULL ? "at least" : "at most", o->min != NULL ? o->min : o->max);
	buf_puts(out, "\n");
}

/* Has its key a mark that the file does not have it?  Printed, it would be given when it is read again. */
static bool
is_marked_absent(const struct conf_opt *opts, size_t opt_count, const struct conf_opt *o, const void *target)
{
	for (size_t i = 0; i < opt_count; i++)
		if (opts[i].type == CONF_GIVEN && opts[i].reload == CONF_LIVE && strcmp(opts[i].key, o->key) == 0)
			return !*(const bool *)cfield(&opts[i], target);
	return false;
}

static void
print_option(const struct conf_opt *o, bool absent, const void *target, const char *name, unsigned depth,
    struct buf *out)
{
	bool unset = conf_value_unset(o, cfield(o, target)), hidden = absent || o->type == CONF_SECRET;

	if (o->type == CONF_REMOVED || o->type == CONF_GIVEN)
		return;
	print_help(o, depth, out);
	indent(out, depth);
	buf_printf(out, "%s%s = ", unset || hidden ? "# " : "", name);
	if (unset)
		buf_puts(out, "(not set)");
	else
		conf_value_ops(o->type)->print(o, cfield(o, target), out);
	buf_puts(out, "\n");
}

/* Is opts[at] the first option below this prefix that stands in its sub-block? */
static bool
opens_block(const struct conf_opt *opts, size_t at, size_t prefix_len)
{
	size_t len = (size_t)(strchr(opts[at].key + prefix_len, '.') - opts[at].key) + 1;

	for (size_t i = 0; i < at; i++)
		if (strncmp(opts[i].key, opts[at].key, len) == 0)
			return false;
	return true;
}

static void
print_level(const struct conf_opt *opts, size_t opt_count, const void *target, const char *prefix, unsigned depth,
    struct buf *out)
{
	size_t len = strlen(prefix);

	for (size_t i = 0; i < opt_count; i++)
		if (strncmp(opts[i].key, prefix, len) == 0 && strchr(opts[i].key + len, '.') == NULL)
			print_option(&opts[i], is_marked_absent(opts, opt_count, &opts[i], target), target,
			    opts[i].key + len, depth, out);
	for (size_t i = 0; i < opt_count; i++) {
		const char *name = opts[i].key + len, *dot;
		char deeper[KEY_BYTES_MAX];

		if (strncmp(opts[i].key, prefix, len) != 0 || (dot = strchr(name, '.')) == NULL ||
		    !opens_block(opts, i, len))
			continue;
		snprintf(deeper, sizeof(deeper), "%.*s", (int)(dot + 1 - opts[i].key), opts[i].key);
		indent(out, depth);
		buf_printf(out, "%.*s {\n", (int)(dot - name), name);
		print_level(opts, opt_count, target, deeper, depth + 1, out);
		indent(out, depth);
		buf_puts(out, "}\n");
	}
}

void
conf_print(const struct conf_opt *opts, size_t opt_count, const void *target, struct buf *out)
{
	print_level(opts, opt_count, target, "", 0, out);
}

void
conf_merge_live(const struct conf_opt *opts, size_t opt_count, void *target, void *fresh, struct buf *report)
{
	uint8_t swap[sizeof(struct conf_list)];

	for (size_t i = 0; i < opt_count; i++) {
		const struct conf_opt *o = &opts[i];
		const struct conf_value_ops *ops = conf_value_ops(o->type);

		bool live_mark = o->type == CONF_GIVEN && o->reload == CONF_LIVE;	/* goes with its key's value */
		if (!live_mark && (ops->equal != NULL ? ops->equal(cfield(o, target), cfield(o, fresh)) :
		    memcmp(cfield(o, target), cfield(o, fresh), ops->size) == 0))
			continue;
		if (o->reload != CONF_LIVE) {
			buf_printf(report, "%s changed: it takes effect after a restart\n", o->key);
			continue;
		}
		TV_ASSERT(ops->size <= sizeof(swap));
		memcpy(swap, field(o, target), ops->size);
		memcpy(field(o, target), field(o, fresh), ops->size);
		memcpy(field(o, fresh), swap, ops->size);
	}
}

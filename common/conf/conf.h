/*
 * Configuration: option tables over the reader in ucl.h.  One table per file feeds the parser,
 * `-n` and `clusterctl validate` (check and print the normalised result), the reload report,
 * and the test that manual and table hold the same keys.
 *
 * Errors name file, line, key and what was expected, e.g.
 *   /etc/triumvir/raftd.conf:7: election_timeout: 5 is not a duration (write 500ms, 2s; 100ms to 60s)
 *   /etc/triumvir/rpcd.conf:3: unknown key "htpp_port" (did you mean http_port?)
 *   /etc/triumvir/raftd.conf:9: log_cache: this key was removed; delete it: the log needs no cache
 */
#ifndef TV_COMMON_CONF_CONF_H
#define TV_COMMON_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/mono.h"
#include "common/text/duration.h"

enum conf_type {
	CONF_BOOL,		/* bool */
	CONF_U64,		/* uint64_t; min..max */
	CONF_SIZE,		/* uint64_t bytes; "64k", "16M", "1G" (powers of 1024) or a number */
	CONF_RATE,		/* uint64_t thousandths a second; "100", "0.5"; "-1": CONF_NO_RATE, no limit */
	CONF_DURATION,		/* struct mono; "250ms", "10s", "1m30s" */
	CONF_PORT,		/* uint16_t; 0 only if min is "0" */
	CONF_STRING,		/* char *, owned */
	CONF_SECRET,		/* char *, owned; at most 255 printable bytes; never shown; see conf_load() */
	CONF_PATH,		/* char *, owned; absolute */
	CONF_NAME,		/* char *, owned; letters, digits, '-', '_', '.', 1..128 */
	CONF_ADDR,		/* char *, owned; one IP address */
	CONF_LIST,		/* struct conf_list: strings; default written "[a, b]" or "a" */
	CONF_TIMES,		/* struct conf_list of "name=10s"; written { name = 10s; "other*" = 1m } */
	CONF_META,		/* struct conf_list of "name=text", limits as in meta.h; written { name = "text" } */
	CONF_ADDRESSES,		/* struct conf_list of "name=address"; written { lan = 10.0.0.1 } */
	CONF_CHOICE,		/* int: index into `choices` */
	CONF_GIVEN,		/* bool: the file has the key, whatever its value; a second row for a key */
	CONF_REMOVED,		/* no field: a key of an earlier version, an error that tells `help`, the remedy */
};

#define CONF_NO_RATE UINT64_MAX

struct conf_list {
	char **items;		/* owned */
	size_t count;
};

enum conf_reload { CONF_RESTART, CONF_LIVE };

struct conf_opt {
	const char *key;	/* "election_timeout"; a block is written "limits.kv_max_value_size" */
	enum conf_type type;
	size_t offset;		/* of the field in the target struct */
	const char *def;	/* default, as it would be written; NULL: unset (NULL, 0, empty list) */
	const char *min, *max;	/* bounds, as written; NULL: none */
	const char *choices;	/* "required|best-effort" */
	enum conf_reload reload;
	const char *help;	/* one line, shown by -n as a comment; of a removed key: what to do instead */
};

#define CONF_FIELD(type_, field_) offsetof(type_, field_)

/*
 * Fills `target` with defaults, then with the file.  A missing file is TV_ENOENT (all defaults
 * set), which most callers accept.  The file must not be writable by others and not be a link to such; one that sets
 * a CONF_SECRET must not be accessible to others at all, but its group may read it: the daemon's, for a reload.
 * On an error errbuf gets "FILE:LINE: key: what was expected" and target is freed.
 */
enum tv_err conf_load(const char *path, const struct conf_opt *opts, size_t opt_count, void *target,
    char *errbuf, size_t cap);
/*
 * The text of a file, as conf_load() reads it: at most UCL_TEXT_BYTES_MAX (more is TV_ELIMIT), and trusted as above
 * (else TV_EPERM).  TV_ENOENT, TV_ESYS.  errbuf gets one sentence that begins with the path.
 */
enum tv_err conf_read_file(const char *path, struct buf *out, char *errbuf, size_t cap);
/* conf_load() from text, for tests and fuzzing; `name` stands for the file. */
enum tv_err conf_parse(const char *name, struct span text, const struct conf_opt *opts, size_t opt_count,
    void *target, char *errbuf, size_t cap);
void conf_free(const struct conf_opt *opts, size_t opt_count, void *target);
/* Normalised result, each key under its help and range; parses again to the same values, but for secrets. */
void conf_print(const struct conf_opt *opts, size_t opt_count, const void *target, struct buf *out);
/*
 * Moves CONF_LIVE values that differ from `fresh` (filled by conf_load) into target, the old ones into
 * fresh, and names the other differences in `report`, one line each.  The caller frees fresh.
 */
void conf_merge_live(const struct conf_opt *opts, size_t opt_count, void *target, void *fresh, struct buf *report);

#endif

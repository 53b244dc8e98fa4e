/*
 * Reader of configuration text in the UCL form: `key = value`, `key: value`, `block { }`,
 * lists `[ a, b ]`, comments `#` and nested C comments, and therefore also plain JSON.
 *
 * It is ours because the library of that name is not in Debian (Debian's libucl is a compressor),
 * and because a configuration reader wants less than that library does: every node knows its line,
 * a key given twice is an error, and there are no macros, no includes, no variables and no
 * multi-line strings, so reading a file never touches another one.
 *
 * Pure: text in, tree out.  Text of a scalar is a loan from the input, or lives in the arena when
 * it held escapes.
 */
#ifndef TV_COMMON_CONF_UCL_H
#define TV_COMMON_CONF_UCL_H

#include "common/base/arena.h"
#include "common/base/buf.h"

#define UCL_TEXT_BYTES_MAX (1024 * 1024)	/* of one file */
#define UCL_DEPTH_MAX 32			/* of blocks and lists in each other */
#define UCL_MEMBERS_MAX 4096			/* of one block or list */
#define UCL_ARENA_BYTES_MAX (64 * 1024 * 1024)	/* enough for the largest text */

enum ucl_type {
	UCL_OBJECT,
	UCL_ARRAY,
	UCL_STRING,	/* was quoted */
	UCL_WORD,	/* was not: number, duration, yes, null, bare word */
};

struct ucl_node {
	enum ucl_type type;
	unsigned line;			/* where its key, or the value in a list, stands; from 1 */
	struct span key;		/* empty in a list and at the root */
	struct span text;		/* of a scalar; no NUL and no control characters but tab and newline */
	struct ucl_node *child, *next;	/* members in the order of the text */
	unsigned count;			/* of children */
};

struct ucl_error {
	unsigned line;
	char text[200];			/* one sentence without a period */
};

/*
 * The tree of a whole text; braces around it may be left out.  Nodes live in `a`, spans in `a` or `text`.
 * TV_EFORMAT with *err filled in; TV_ELIMIT (also filled in) for more than the limits above; TV_ENOMEM.
 */
enum tv_err ucl_parse(struct span text, struct arena *a, struct ucl_node **root, struct ucl_error *err);
/* The member of a block, or NULL. */
const struct ucl_node *ucl_get(const struct ucl_node *object, const char *key);
/* true, yes, on / false, no, off as a word.  False when it is neither. */
bool ucl_bool(const struct ucl_node *n, bool *value);
/*
 * The node as JSON: words become true, false, null or a number where they read as such, else a string.
 * For service files, which go on as JSON.
 */
void ucl_json(const struct ucl_node *n, struct buf *out);

#endif

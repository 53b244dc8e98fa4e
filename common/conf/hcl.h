/*
 * Reader and printer of Consul's language for access rules and definitions: version 1 of HCL, and JSON.
 *
 *     key "name" { field = "text" }     list = [ 1, "two", { } ]     # comment, // comment, and C comments
 *
 * It is another language than that of our configuration files (common/conf/ucl.h): blocks have any number of names and
 * may be given again, fields need no separator, texts may be heredocs, comments may begin with slashes, and printing
 * keeps them.
 *
 * Pure: text in, tree out.  Nodes live in the arena; spans are loans from the text.
 */
#ifndef TV_COMMON_CONF_HCL_H
#define TV_COMMON_CONF_HCL_H

#include "common/base/arena.h"
#include "common/base/buf.h"

#define HCL_DEPTH_MAX 16	/* of blocks and lists in each other */
#define HCL_ARENA_BYTES(text_len) (4096 + 192 * (size_t)(text_len))	/* enough for any text of that length */

struct hcl_pos {
	uint32_t offset;	/* bytes before it */
	uint32_t line, column;	/* from 1; column in characters.  Both 0 in what JSON said,
	    where layout does not matter */
};

struct hcl_comment {
	struct hcl_pos pos;
	struct span text;	/* with its signs, without the newline */
	struct hcl_comment *next;	/* of its group */
};

struct hcl_comments {		/* a group: comments with nothing between them */
	struct hcl_comment *first, *last;
	struct hcl_comments *next;	/* in the order of the text */
	bool attached;		/* to an item or a value: the others stand alone */
};

struct hcl_key {
	struct hcl_pos pos;
	unsigned line;		/* in JSON too */
	struct span text;	/* as written, quotes included */
	bool quoted;
	struct hcl_key *next;
};

enum hcl_type { HCL_STRING, HCL_NUMBER, HCL_BOOL, HCL_NULL, HCL_LIST, HCL_OBJECT };

struct hcl_value {
	enum hcl_type type;
	struct hcl_pos pos, end;	/* of its first sign; end: of the closing brace or bracket */
	unsigned line;		/* in JSON too */
	struct span text;	/* of a scalar, as written: with its quotes, or from << to the mark; empty for null */
	struct hcl_item *items;	/* of an object */
	bool comments;		/* of an object: there are some between its braces */
	struct hcl_value *values;	/* of a list */
	struct hcl_value *next;	/* in a list */
	struct hcl_comments *lead, *trail;	/* in a list; NULL without */
};

struct hcl_item {
	struct hcl_key *keys;	/* one or more */
	uint32_t nkeys;
	bool assign;		/* with a sign between key and value */
	struct hcl_value *value;
	struct hcl_comments *lead, *trail;	/* on the lines above, behind it; NULL without */
	struct hcl_item *next;
};

struct hcl_file {
	struct hcl_item *items;
	struct hcl_comments *comments;	/* all of them */
	bool json;		/* the text begins with a brace */
};

/* A sentence with its place, `At LINE:COLUMN: ...`, without a period; the sentence alone begins at text + place. */
struct hcl_error {
	unsigned line, column, place;
	char text[240];
};

/*
 * The tree of a text.  TV_EFORMAT, TV_ELIMIT (depth) or TV_ENOMEM, all with *err filled in.
 * Carriage returns before newlines are space.
 */
enum tv_err hcl_parse(struct span text, struct arena *a, struct hcl_file *file, struct hcl_error *err);
/*
 * What a key or a string means, without quotes and escapes: a loan from the text, or in the arena.  In HCL `${...}`
 * stays as it is.  A heredoc (<<E) is its lines; those of <<-E lose what its mark is indented by, if all of them are.
 * False for an escape that does not exist, or without memory.
 */
bool hcl_unquote(struct span text, bool quoted, bool json, struct arena *a, struct span *out);
/* Is it a heredoc, which has to be the last on its line? */
bool hcl_is_heredoc(const struct hcl_value *v);
/* The text of a tree in the usual layout, of two spaces a level, without a last newline. */
void hcl_print(const struct hcl_file *file, struct buf *out);

#endif

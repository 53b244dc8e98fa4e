/* What the parts of the filter share: words, the tree, and what a selector means. */
#ifndef TV_COMMON_FILTER_TREE_H
#define TV_COMMON_FILTER_TREE_H

#include "common/text/regex.h"
#include "common/filter/filter.h"

#define PARTS_MAX 8		/* names in a selector that can be valid: far more than any schema is deep */

/* -- words -- */
enum word_kind {
	WORD_END, WORD_OPEN, WORD_CLOSE, WORD_EQ, WORD_NE,
	WORD_NAME,		/* a name, or several joined by dots and ["..."]: selector, keyword or value */
	WORD_NUMBER,
	WORD_TEXT,		/* quoted */
	WORD_OTHER,		/* a character that starts nothing */
};

struct word {
	enum word_kind kind;
	size_t at;		/* offset of its first byte */
	bool spaced;		/* white space stands before it */
	struct span text;	/* unquoted; of names the parts joined by dots */
	struct span parts[PARTS_MAX];
	unsigned part_count;	/* of names; may be more than PARTS_MAX */
};

struct lex {
	struct span in;
	size_t at;
	struct arena *arena;
	struct buf *why;
	bool failed;		/* sticky; why says it */
};

/* Takes the next word; after a failure WORD_END. */
struct word lex_next(struct lex *l);
/* Records the first failure: "1:9 (8): " and the text. */
void lex_fail(struct lex *l, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* -- the tree -- */
enum match_op { MATCH_EQUAL, MATCH_IN, MATCH_EMPTY, MATCH_REGEX };

enum step_kind {
	STEP_FIELD,		/* the index-th value of a record */
	STEP_ANY,		/* each element of a list of objects */
	STEP_KEY,		/* the value of this key in a map of texts */
	STEP_OBJECT,		/* the object of this key */
};

struct step {
	enum step_kind kind;
	unsigned index;
	struct span key;
};

struct match {
	enum match_op op;
	bool negated;
	struct word selector;
	struct span value;
	/* by bind.c */
	struct step steps[2 * PARTS_MAX];
	unsigned step_count;
	enum schema_type type;	/* of what the steps lead to */
	int64_t number;		/* value as the type wants it: also truth values */
	double real;
	struct regex *regex;	/* owned by the filter */
};

enum node_kind { NODE_AND, NODE_OR, NODE_NOT, NODE_MATCH };

struct node_expr {
	enum node_kind kind;
	struct node_expr *first;	/* of AND and OR: their terms; of NOT: the one */
	struct node_expr *next;		/* the term behind this one */
	struct match *match;
};

struct filter {
	const struct schema *schema;
	struct arena arena;
	struct node_expr *root;
	struct regex *regexes[FILTER_PATTERNS_MAX];
	unsigned regex_count;
	uint64_t steps_left;		/* of FILTER_STEPS_MAX */
	enum tv_err err;		/* sticky */
};

/* Builds f->root; false: why says what is wrong. */
bool parse_filter(struct filter *f, struct span text, struct buf *why);
/* Holds every match against the schema and compiles patterns; false: why says what is wrong. */
bool bind_filter(struct filter *f, struct node_expr *n, struct buf *why);
/* Text in double quotes, with escapes where it needs them. */
void put_quoted(struct span text, struct buf *out);

#endif

/* The tree of an expression, by recursive descent: or, and, not, parentheses, match. */
#include "common/filter/tree.h"

#define EXPECT_OPERAND \
	"no match found, expected: \"(\", \"-\", \"0\", \"\\\"\", \"`\", \"not\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"
#define EXPECT_OPERATOR \
	"no match found, expected: \"!=\", \"==\", \"contains\", \"in\", \"is\", \"matches\", \"not\" or [ \\t\\r\\n]"
#define EXPECT_VALUE	"no match found, expected: \"-\", \"0\", \"\\\"\", \"`\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"
#define EXPECT_MORE	"no match found, expected: \"and\", \"or\", [ \\t\\r\\n] or EOF"
#define EXPECT_SPACE	"no match found, expected: [ \\t\\r\\n]"

struct parser {
	struct lex lex;
	struct word word;	/* the next one */
	unsigned depth;
};

static void
advance(struct parser *p)
{
	p->word = lex_next(&p->lex);
}

/* The word behind the next one. */
static struct word
look_behind(const struct parser *p)
{
	struct lex ahead = p->lex;
	struct buf nowhere = BUF_INIT(0);

	ahead.why = &nowhere;
	return lex_next(&ahead);
}

static bool
is_name(const struct word *w, const char *name)
{
	return w->kind == WORD_NAME && span_eqs(w->text, name);
}

/* A keyword between white space. */
static bool
take_keyword(struct parser *p, const char *name)
{
	if (!is_name(&p->word, name))
		return false;
	if (!p->word.spaced)
		lex_fail(&p->lex, p->word.at, EXPECT_SPACE);
	advance(p);
	if (!p->word.spaced && p->word.kind != WORD_END)
		lex_fail(&p->lex, p->word.at, EXPECT_SPACE);
	return !p->lex.failed;
}

static void *
make(struct parser *p, size_t size)
{
	void *m = arena_alloc(p->lex.arena, size);

	if (m == NULL)
		lex_fail(&p->lex, p->word.at, "out of memory");
	return m;
}

static struct node_expr *
make_node(struct parser *p, enum node_kind kind)
{
	struct node_expr *n = make(p, sizeof(*n));

	if (n != NULL)
		n->kind = kind;
	return n;
}

static bool
is_value(const struct word *w)
{
	return w->kind == WORD_NAME || w->kind == WORD_NUMBER || w->kind == WORD_TEXT;
}

/* SELECTOR op VALUE, with op taken. */
static void
value_behind(struct parser *p, struct match *m, struct word left)
{
	if (left.kind != WORD_NAME)
		lex_fail(&p->lex, left.at, "rule \"match\": Invalid selector");
	if (!is_value(&p->word))
		lex_fail(&p->lex, p->word.at, EXPECT_VALUE);
	m->selector = left;
	m->value = p->word.text;
	advance(p);
}

/* VALUE in SELECTOR, with `in` taken. */
static void
selector_behind(struct parser *p, struct match *m, struct word left)
{
	if (p->word.kind != WORD_NAME)
		lex_fail(&p->lex, p->word.at, "rule \"match\": Invalid selector");
	m->op = MATCH_IN;
	m->value = left.text;
	m->selector = p->word;
	advance(p);
}

/* SELECTOR is [not] empty, with `is` taken. */
static void
empty_behind(struct parser *p, struct match *m, struct word left)
{
	m->op = MATCH_EMPTY;
	m->negated = take_keyword(p, "not");
	if (left.kind != WORD_NAME)
		lex_fail(&p->lex, left.at, "rule \"match\": Invalid selector");
	if (!is_name(&p->word, "empty"))
		lex_fail(&p->lex, p->word.at, "no match found, expected: \"empty\"%s or [ \\t\\r\\n]",
		    m->negated ? "" : ", \"not\"");
	m->selector = left;
	advance(p);
}

static void
take_operator(struct parser *p, struct match *m, struct word left)
{
	if (p->word.kind == WORD_EQ || p->word.kind == WORD_NE) {
		m->op = MATCH_EQUAL;
		m->negated = p->word.kind == WORD_NE;
		advance(p);
		value_behind(p, m, left);
		return;
	}
	if (take_keyword(p, "is")) {
		empty_behind(p, m, left);
		return;
	}
	m->negated = take_keyword(p, "not");
	if (take_keyword(p, "in")) {
		selector_behind(p, m, left);
	} else if (take_keyword(p, "contains")) {
		m->op = MATCH_IN;
		value_behind(p, m, left);
	} else if (take_keyword(p, "matches")) {
		m->op = MATCH_REGEX;
		value_behind(p, m, left);
	} else {
		lex_fail(&p->lex, p->word.at, EXPECT_OPERATOR);
	}
}

static struct node_expr *
parse_match(struct parser *p)
{
	struct node_expr *n = make_node(p, NODE_MATCH);
	struct word left = p->word;

	if (n == NULL || (n->match = make(p, sizeof(*n->match))) == NULL)
		return NULL;
	if (!is_value(&left)) {
		lex_fail(&p->lex, left.at, EXPECT_OPERAND);
		return NULL;
	}
	advance(p);
	take_operator(p, n->match, left);
	return n;
}

static struct node_expr *parse_or(struct parser *p);

static struct node_expr *
parse_group(struct parser *p)
{
	advance(p);
	struct node_expr *n = parse_or(p);
	if (p->word.kind != WORD_CLOSE)
		lex_fail(&p->lex, p->word.at, "rule \"grouping\": Unmatched parentheses");
	advance(p);
	return n;
}

/* The next word is `not` before an expression, rather than a value or selector of that name. */
static bool
at_not(const struct parser *p)
{
	static const char *const operators[] = { "in", "is", "contains", "matches" };

	if (!is_name(&p->word, "not"))
		return false;
	struct word then = look_behind(p);
	if (then.kind == WORD_EQ || then.kind == WORD_NE)
		return false;
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (is_name(&then, operators[i]))
			return false;
	return true;
}

static struct node_expr *
parse_not(struct parser *p)
{
	struct node_expr *n = NULL;

	if (++p->depth > FILTER_DEPTH_MAX) {
		lex_fail(&p->lex, p->word.at, "nested too deep (limit: %d)", FILTER_DEPTH_MAX);
	} else if (at_not(p)) {
		n = make_node(p, NODE_NOT);
		advance(p);
		if (!p->word.spaced)
			lex_fail(&p->lex, p->word.at, EXPECT_SPACE);
		if (n != NULL && !p->lex.failed)
			n->first = parse_not(p);
	} else {
		n = p->word.kind == WORD_OPEN ? parse_group(p) : parse_match(p);
	}
	p->depth--;
	return n;
}

/* One or more terms with this word between them; a single term stands for itself. */
static struct node_expr *
parse_terms(struct parser *p, enum node_kind kind, const char *between, struct node_expr *(*term)(struct parser *p))
{
	struct node_expr *all = make_node(p, kind);
	struct node_expr **end = all == NULL ? NULL : &all->first;

	while (!p->lex.failed) {
		struct node_expr *one = term(p);

		if (p->lex.failed)
			break;
		*end = one;
		end = &one->next;
		if (!take_keyword(p, between))
			return all->first->next == NULL ? all->first : all;
	}
	return NULL;
}

static struct node_expr *
parse_and(struct parser *p)
{
	return parse_terms(p, NODE_AND, "and", parse_not);
}

static struct node_expr *
parse_or(struct parser *p)
{
	return parse_terms(p, NODE_OR, "or", parse_and);
}

bool
parse_filter(struct filter *f, struct span text, struct buf *why)
{
	struct parser p = { .lex = { .in = text, .arena = &f->arena, .why = why } };

	if (text.len > FILTER_BYTES_MAX) {
		buf_printf(why, "expression too long (limit: %d bytes)", FILTER_BYTES_MAX);
		return false;
	}
	advance(&p);
	f->root = parse_or(&p);
	if (p.word.kind != WORD_END)
		lex_fail(&p.lex, p.word.at, EXPECT_MORE);
	return !p.lex.failed;
}

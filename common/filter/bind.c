/* What selectors and values of an expression mean for the records of a schema. */
#include <errno.h>
#include <stdlib.h>

#include "common/text/duration.h"
#include "common/filter/tree.h"

void
put_quoted(struct span text, struct buf *out)
{
	buf_u8(out, '"');
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.p[i];

		if (c == '"' || c == '\\')
			buf_u8(out, '\\');
		if (c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_u8(out, c);
	}
	buf_u8(out, '"');
}

/* Answers show it under this name, and it can be told apart from a constant. */
static bool
selectable(const struct schema_field *f)
{
	return !(f->flags & (SF_HIDDEN | SF_READONLY)) &&
	    f->type != ST_CONST && f->type != ST_JSON && f->type != ST_BIN;
}

/* Finds a field from the given one on, and its place in the packed record. */
static const struct schema_field *
find_field(const struct schema *s, unsigned from, struct span name, unsigned *index)
{
	*index = 0;
	for (unsigned i = 0; i < s->count; i++) {
		const struct schema_field *f = &s->fields[i];

		if (i >= from && span_eqs(name, f->name))
			return selectable(f) ? f : NULL;
		*index += f->type != ST_CONST;
	}
	return NULL;
}

static void
add_step(struct match *m, enum step_kind kind, unsigned index, struct span key)
{
	m->steps[m->step_count++] = (struct step){ kind, index, key };
}

/* Turns names into steps; false: there is no such thing. */
static bool
walk(struct match *m, const struct schema *s)
{
	const struct word *w = &m->selector;
	unsigned from = 0, index;		/* fields of s before `from` are not shown */

	for (unsigned i = 0; i < w->part_count; i++) {
		const struct schema_field *f = s == NULL ? NULL : find_field(s, from, w->parts[i], &index);

		if (f == NULL)
			return false;
		add_step(m, STEP_FIELD, index, SPAN_NONE);
		m->type = f->type;
		s = f->sub;
		from = 0;
		if (i + 1 == w->part_count)
			break;
		if (f->type == ST_OBJS) {
			add_step(m, STEP_ANY, 0, SPAN_NONE);
		} else if (f->type == ST_MAP) {
			add_step(m, STEP_KEY, 0, w->parts[++i]);
			m->type = ST_STR;
		} else if (f->type == ST_OBJMAP) {
			add_step(m, STEP_OBJECT, 0, w->parts[++i]);
			m->type = ST_OBJ;
			if (f->flags & SF_LISTS) {
				add_step(m, STEP_FIELD, 1, SPAN_NONE);
				m->type = ST_STRS;
				s = NULL;
			}
			from = f->flags & SF_KEYSHOWN ? 0 : 1;
		}
	}
	return true;
}

static bool
allowed(enum schema_type type, enum match_op op)
{
	switch (type) {
	case ST_STR:
		return op != MATCH_EMPTY;
	case ST_U64:
	case ST_I64:
	case ST_BOOL:
	case ST_F64:
	case ST_DURATION:
		return op == MATCH_EQUAL;
	case ST_STRS:
	case ST_MAP:
	case ST_OBJMAP:
		return op == MATCH_IN || op == MATCH_EMPTY;
	case ST_OBJS:
		return op == MATCH_EMPTY;
	default:
		return false;
	}
}

/* Decimal, or with the prefix 0x, 0o, 0 or 0b.  NULL: fine; else why not. */
static const char *
to_integer(struct span text, int64_t *out)
{
	char copy[80], *p = copy, *end;
	int base = 10;

	if (!span_copy(text, copy, sizeof(copy)))
		return "invalid syntax";
	bool negative = *p == '-';
	p += *p == '-' || *p == '+';
	if (p[0] == '0' && p[1] != '\0') {
		base = p[1] == 'x' || p[1] == 'X' ? 16 : p[1] == 'b' || p[1] == 'B' ? 2 : 8;
		p += base != 8 || p[1] == 'o' || p[1] == 'O' ? 2 : 1;
	}
	if (strchr("+- \t\n\v\f\r", *p) != NULL)	/* also the end: strchr finds the NUL */
		return "invalid syntax";
	errno = 0;
	unsigned long long v = strtoull(p, &end, base);
	if (*end != '\0')
		return "invalid syntax";
	if (errno != 0 || v > (unsigned long long)INT64_MAX)
		return "value out of range";
	*out = negative ? -(int64_t)v : (int64_t)v;
	return NULL;
}

static const char *
to_bool(struct span text, int64_t *out)
{
	static const char *const words[] = {
		"0", "1", "f", "t", "F", "T", "false", "true", "FALSE", "TRUE", "False", "True",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (span_eqs(text, words[i])) {
			*out = i & 1;
			return NULL;
		}
	return "invalid syntax";
}

static const char *
to_real(struct span text, double *out)
{
	char copy[80], *end;

	if (!span_copy(text, copy, sizeof(copy)) || strchr(" \t\n\v\f\r", copy[0]) != NULL)
		return "invalid syntax";
	*out = strtod(copy, &end);
	return *end == '\0' ? NULL : "invalid syntax";
}

/* The value as the type wants it. */
static bool
convert(struct match *m, struct buf *why)
{
	const char *bad = NULL, *how = "ParseInt";

	if (m->type == ST_BOOL) {
		how = "ParseBool";
		bad = to_bool(m->value, &m->number);
	} else if (m->type == ST_F64) {
		how = "ParseFloat";
		bad = to_real(m->value, &m->real);
	} else if (m->type == ST_U64 || m->type == ST_I64 ||
	    (m->type == ST_DURATION && duration_parse(m->value, &m->number) != TV_OK)) {
		bad = to_integer(m->value, &m->number);
	}
	if (bad == NULL)
		return true;
	buf_puts(why, "Failed to coerce value ");
	put_quoted(m->value, why);
	buf_puts(why, " for selector ");
	put_quoted(m->selector.text, why);
	buf_printf(why, ": strconv.%s: parsing ", how);
	put_quoted(m->value, why);
	buf_printf(why, ": %s", bad);
	return false;
}

static bool
compile(struct filter *f, struct match *m, struct buf *why)
{
	if (f->regex_count == FILTER_PATTERNS_MAX) {
		buf_printf(why, "too many regular expressions (limit: %d)", FILTER_PATTERNS_MAX);
		return false;
	}
	struct buf reason = BUF_INIT(4096);
	m->regex = regex_new(m->value, &reason);
	if (m->regex != NULL) {
		f->regexes[f->regex_count++] = m->regex;
	} else {
		buf_puts(why, "Failed to compile regular expression ");
		put_quoted(m->value, why);
		buf_puts(why, ": error parsing regexp: ");
		buf_putspan(why, buf_span(&reason));
	}
	buf_done(&reason);
	return m->regex != NULL;
}

static bool
bind_match(struct filter *f, struct match *m, struct buf *why)
{
	static const char *const names[] = { "Equal", "In", "Is Empty", "Matches" };
	static const char *const negated[] = { "Not Equal", "Not In", "Is Not Empty", "Not Matches" };

	if (m->selector.part_count > PARTS_MAX || !walk(m, f->schema)) {
		buf_puts(why, "Selector ");
		put_quoted(m->selector.text, why);
		buf_puts(why, " is not valid");
		return false;
	}
	if (!allowed(m->type, m->op)) {
		buf_printf(why, "Invalid match operator \"%s\" for selector ", (m->negated ? negated : names)[m->op]);
		put_quoted(m->selector.text, why);
		return false;
	}
	if (m->op == MATCH_REGEX)
		return compile(f, m, why);
	return m->op != MATCH_EQUAL || convert(m, why);
}

bool
bind_filter(struct filter *f, struct node_expr *n, struct buf *why)
{
	if (n->kind == NODE_MATCH)
		return bind_match(f, n->match, why);
	for (n = n->first; n != NULL; n = n->next)
		if (!bind_filter(f, n, why))
			return false;
	return true;
}

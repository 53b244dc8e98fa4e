/* Patterns on PCRE2, with their work counted. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "common/text/json_text.h"
#include "common/text/regex.h"

#define STEPS_FREE	4096		/* what a search may use at first, plus 8 for each byte of text */
#define STEPS_FACTOR	8		/* and each time that it did not suffice, this much more */
#define STEP_BYTES	1024		/* text of which a step costs one more */
#define HEAP_KIB_MAX	8192		/* for backtracking */
#define DEPTH_MAX	40000		/* positions that a search can come back to */

struct regex {
	pcre2_code *code;
	pcre2_match_context *limits;
	pcre2_match_data *data;
	struct buf clean;		/* a text with its bad bytes replaced */
	bool groups;			/* remembers them; the first is the whole match */
};

/*
 * One walk over the text inside the pattern instead of a new start at each byte: PCRE2 counts anew at each
 * start, so only this way its limit bounds the whole search.
 */
#define WALK_BEFORE "\\A(?s:.*?)(?:"
#define WALK_BEFORE_GROUP "\\A(?s:.*?)("
#define WALK_BEHIND ")"

static pcre2_code *
compile(struct span text, bool groups, struct buf *why)
{
	pcre2_compile_context *how = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR message[256];
	PCRE2_SIZE at = 0;
	int err = 0;
	pcre2_code *code;

	if (how == NULL) {
		buf_puts(why, "out of memory");
		return NULL;
	}
	pcre2_set_newline(how, PCRE2_NEWLINE_LF);
	pcre2_set_parens_nest_limit(how, REGEX_NESTING_MAX + 1);
	code = pcre2_compile(text.p, text.len, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
	    (groups ? 0 : PCRE2_NO_AUTO_CAPTURE), &err, &at, how);
	if (code == NULL) {
		pcre2_get_error_message(err, message, sizeof(message));
		buf_puts(why, (const char *)message);
	}
	pcre2_compile_context_free(how);
	return code;
}

static struct regex *
new(struct span pattern, bool groups, struct buf *why)
{
	struct regex *re = calloc(1, sizeof(*re));
	struct buf text = BUF_INIT(16 * REGEX_BYTES_MAX);

	if (re == NULL) {
		buf_puts(why, "out of memory");
		return NULL;
	}
	buf_init(&re->clean, SIZE_MAX);
	re->groups = groups;
	buf_puts(&text, groups ? WALK_BEFORE_GROUP : WALK_BEFORE);
	bool good = regex_translate(pattern, &text, why);
	buf_puts(&text, WALK_BEHIND);
	if (good && !text.failed)
		re->code = compile(buf_span(&text), groups, why);
	buf_done(&text);
	re->limits = pcre2_match_context_create(NULL);
	if (re->code != NULL)
		re->data = groups ? pcre2_match_data_create_from_pattern(re->code, NULL) :
		    pcre2_match_data_create(1, NULL);
	if (re->code == NULL || re->limits == NULL || re->data == NULL) {
		regex_free(re);
		return NULL;
	}
	pcre2_set_heap_limit(re->limits, HEAP_KIB_MAX);
	pcre2_set_depth_limit(re->limits, DEPTH_MAX);
	return re;
}

struct regex *
regex_new(struct span pattern, struct buf *why)
{
	return new(pattern, false, why);
}

struct regex *
regex_new_groups(struct span pattern, struct buf *why)
{
	return new(pattern, true, why);
}

void
regex_free(struct regex *re)
{
	if (re == NULL)
		return;
	pcre2_code_free(re->code);
	pcre2_match_context_free(re->limits);
	pcre2_match_data_free(re->data);
	buf_done(&re->clean);
	free(re);
}

/*
 * Searches within ever larger limits, for PCRE2 does not tell how much it used.  What is within the first is free, so
 * that honest patterns may be held against any number of records; the others are charged.  Within a step,
 * PCRE2 may walk over the whole text: steps in long texts cost more.
 */
static int
search(struct regex *re, struct span text, uint64_t *steps_left, uint32_t options)
{
	const uint64_t first = STEPS_FREE + 8 * (uint64_t)text.len, price = 1 + text.len / STEP_BYTES;

	for (uint64_t limit = first;; limit *= STEPS_FACTOR) {
		if (limit > first && limit > *steps_left / price)
			limit = *steps_left / price;
		pcre2_set_match_limit(re->limits, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
		int rc = pcre2_match(re->code, text.p == NULL ? (PCRE2_SPTR)"" : text.p, text.len, 0, options, re->data,
		    re->limits);
		bool last = limit > first && limit == *steps_left / price;

		if (limit > first)
			*steps_left -= limit * price;
		if (rc != PCRE2_ERROR_MATCHLIMIT || last || *steps_left / price <= first)
			return rc;
	}
}

/* The text with U+FFFD in place of each bad byte. */
static struct span
cleaned(struct regex *re, struct span text)
{
	buf_reset(&re->clean);
	while (text.len > 0) {
		size_t n = *text.p < 0x80 ? 1 : utf8_length(text.p, text.p + text.len);

		if (n > 0)
			buf_put(&re->clean, text.p, n);
		else
			buf_puts(&re->clean, "\xef\xbf\xbd");
		n += n == 0;
		text = span_of(text.p + n, text.len - n);
	}
	return buf_span(&re->clean);
}

/* PCRE2's code; *text is what was searched in the end. */
static int
search_any(struct regex *re, struct span *text, uint64_t *steps_left)
{
	int rc = search(re, *text, steps_left, 0);

	if (rc > PCRE2_ERROR_UTF8_ERR1 || rc < PCRE2_ERROR_UTF8_ERR21)
		return rc;
	*text = cleaned(re, *text);
	return re->clean.failed ? PCRE2_ERROR_NOMEMORY : search(re, *text, steps_left, PCRE2_NO_UTF_CHECK);
}

static enum tv_err
err_of(int rc)
{
	if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
		return TV_OK;
	return rc == PCRE2_ERROR_NOMEMORY ? TV_ENOMEM : TV_ELIMIT;
}

enum tv_err
regex_search(struct regex *re, struct span text, uint64_t *steps_left, bool *found)
{
	int rc = search_any(re, &text, steps_left);

	*found = rc >= 0;
	return err_of(rc);
}

enum tv_err
regex_match(struct regex *re, struct span text, uint64_t *steps_left, struct span *groups, unsigned max,
    unsigned *count)
{
	const size_t *ends = pcre2_get_ovector_pointer(re->data);
	uint32_t all = pcre2_get_ovector_count(re->data);
	int rc = search_any(re, &text, steps_left);

	*count = 0;
	/* The first one has what was walked over, too. */
	for (uint32_t i = 1; re->groups && rc >= 0 && i < all && *count < max; i++)
		groups[(*count)++] = ends[2 * i] == PCRE2_UNSET ? span_of("", 0) :
		    span_of(text.p + ends[2 * i], ends[2 * i + 1] - ends[2 * i]);
	return err_of(rc);
}

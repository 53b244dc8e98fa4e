/* Between the scanner and the parser. */
#ifndef TV_COMMON_CONF_HCL_INT_H
#define TV_COMMON_CONF_HCL_INT_H

#include "common/conf/hcl.h"

enum hcl_token_type {
	HT_EOF, HT_COMMENT, HT_IDENT, HT_NUMBER, HT_BOOL, HT_NULL, HT_STRING, HT_HEREDOC,
	HT_LBRACK, HT_RBRACK, HT_LBRACE, HT_RBRACE, HT_COMMA, HT_ASSIGN, HT_COLON,
	HT_BAD			/* the sentence is in the scanner's err */
};

struct hcl_token {
	enum hcl_token_type type;
	struct hcl_pos pos;
	struct span text;
};

struct hcl_scanner {
	const uint8_t *p, *end;
	struct hcl_pos at;	/* of the character read last: column 0 behind a newline */
	struct hcl_pos before;	/* and of the one before it */
	unsigned last_len;	/* bytes of the character read last; 0 at the end */
	uint32_t line_columns;	/* of the line that ended last */
	bool json;
	enum tv_err failed;	/* TV_OK, or why HT_BAD */
	struct hcl_error *err;
};

void hcl_scan_start(struct hcl_scanner *s, struct span text, bool json, struct hcl_error *err);
struct hcl_token hcl_scan(struct hcl_scanner *s);
/* "LBRACE", "EOF" ... as messages of this language name them. */
const char *hcl_token_name(enum hcl_token_type type);
/* Keeps a sentence, unless there is one; gives err. */
enum tv_err hcl_fail(struct hcl_scanner *s, enum tv_err err, struct hcl_pos pos, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif

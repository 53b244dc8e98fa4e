/* JSON as text: quoting and indenting. */
#ifndef TV_COMMON_TEXT_JSON_TEXT_H
#define TV_COMMON_TEXT_JSON_TEXT_H

#include "common/base/buf.h"

/* A quoted string: escapes as Go's encoder does (<, >, & as \u003c ..., invalid UTF-8 as \ufffd). */
void json_quote(struct span text, struct buf *out);
/* Go's strconv.Quote, for sentences: printable text as it is, but for \" and \\; the rest as \n, \t or \x. */
void text_quote(struct span text, struct buf *out);
/* The shortest number that reads back as v, in the form of Go's encoder; null for what JSON does not know. */
void json_number(double v, struct buf *out);
/* Re-indents compact JSON with 4 spaces and a final newline (?pretty). */
void json_pretty(struct span compact, struct buf *out);
/* How deep a text nests objects and lists, before a parser sees it; brackets in strings do not count. */
unsigned json_depth(struct span text);
/* Length of the valid UTF-8 sequence of two to four bytes at p < end; 0 when there is none (or ASCII). */
size_t utf8_length(const uint8_t *p, const uint8_t *end);

#endif

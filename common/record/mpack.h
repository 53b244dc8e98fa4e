/*
 * Msgpack on top of struct rd and struct buf.
 *
 * Two dialects are written:
 *   internal  str for text, bin for bytes (mpw_str, mpw_bin)
 *   gossip    the old "raw" family for both, never str8 or bin (mpw_raw); this
 *             reproduces Serf's bytes, see doc/wire.md
 * The readers accept all forms of both.  A count or length is believed only as
 * far as bytes are left in the input, so no peer can make a caller allocate.
 */
#ifndef TV_COMMON_RECORD_MPACK_H
#define TV_COMMON_RECORD_MPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/rd.h"

#define MP_DEPTH_MAX 32		/* nesting that mpr_skip follows */

enum mp_type {
	MP_NONE,		/* end of input or an earlier error */
	MP_NIL, MP_BOOL, MP_UINT, MP_INT, MP_FLOAT, MP_STR, MP_BIN, MP_ARRAY, MP_MAP, MP_EXT,
	MP_BAD			/* byte 0xc1 */
};

/* Smallest form that holds the value. */
void mpw_uint(struct buf *b, uint64_t v);
void mpw_int(struct buf *b, int64_t v);		/* unsigned forms when v >= 0 */
void mpw_bool(struct buf *b, bool v);
void mpw_nil(struct buf *b);
void mpw_f64(struct buf *b, double v);
void mpw_str(struct buf *b, struct span s);
void mpw_cstr(struct buf *b, const char *text);
void mpw_bin(struct buf *b, struct span s);
void mpw_raw(struct buf *b, struct span s);	/* gossip dialect: fixstr, str16, str32 */
void mpw_raw_cstr(struct buf *b, const char *text);
void mpw_array(struct buf *b, uint32_t count);
void mpw_map(struct buf *b, uint32_t count);

/* Type of the next value, without taking it. */
enum mp_type mpr_peek(const struct rd *r);
/* Each takes one value; another type, or one out of range, sets TV_EFORMAT. */
uint64_t mpr_uint(struct rd *r, uint64_t max);
int64_t mpr_int(struct rd *r);
bool mpr_bool(struct rd *r);			/* also integers 0 and 1 */
double mpr_f64(struct rd *r);			/* also integers */
struct span mpr_bytes(struct rd *r, size_t max);	/* str or bin; longer than max: TV_ELIMIT */
struct span mpr_bytes_or_nil(struct rd *r, size_t max);	/* nil gives SPAN_NONE (p == NULL) */
uint32_t mpr_array(struct rd *r);		/* element count <= bytes left */
uint32_t mpr_map(struct rd *r);			/* pair count <= bytes left / 2 */
bool mpr_nil(struct rd *r);			/* takes a nil if one is next */
void mpr_skip(struct rd *r);			/* one value of any type, whole */
struct span mpr_value(struct rd *r);		/* mpr_skip, returning its bytes */
/*
 * The end of a body that is an array of `fields`, of which `known` were read: fewer are malformed, more are those of a
 * newer version, and skipped.
 */
enum tv_err mpr_end(struct rd *r, uint32_t fields, uint32_t known);

#endif

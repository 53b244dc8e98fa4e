/*
 * Texts with ${...} in them, as templates of prepared queries have: a subset of HIL, which Consul takes.
 *
 *	text ${name.full} text		a variable
 *	${match(1)}			a group of the expression that the name was held against; "" if there is none
 *	${match(1 + 1)} ${-2 * (3 % 2)}	whole numbers with + - * / %, and brackets
 *	${"a ${name.suffix}"}		text in quotes, in which \" \\ \n \t stand for these
 *	$${				the two characters ${
 *
 * Variables: name.full, name.prefix, name.suffix, agent.segment.  A text where a number is needed has to be one.
 * Pure; the work is in proportion to the text and to what comes out, whatever is nested.
 */
#ifndef TV_COMMON_TEXT_INTERPOLATE_H
#define TV_COMMON_TEXT_INTERPOLATE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/rd.h"

#define INTERPOLATE_NESTING_MAX 32	/* brackets, quotes and calls within each other */

struct interpolation {
	struct span full, prefix, suffix, segment;
	const struct span *groups;	/* of match() */
	unsigned group_count;
};

/*
 * Appends the text with all of it in place to `out`, whose max is the limit.  TV_EFORMAT: it does not read.
 * TV_EINVAL: it names what there is not, or cannot be computed.  Both with a sentence in `why` that begins with
 * "LINE:COLUMN: ".  TV_ELIMIT: it would be longer than `out` may get.  On an error out has a part of it.
 */
enum tv_err interpolate(struct span text, const struct interpolation *v, struct buf *out, struct buf *why);

#endif

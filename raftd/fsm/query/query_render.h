/*
 * Templates of prepared queries.  Pure: the same name gives the same query, wherever it is rendered.  A name that is asked for,
 * and each text of the query's Service with its ${...}, make the query that is carried out.  Source: http-api, section 9.
 */
#ifndef TV_RAFTD_FSM_QUERY_QUERY_RENDER_H
#define TV_RAFTD_FSM_QUERY_QUERY_RENDER_H

#include "common/base/arena.h"
#include "common/record/records.h"

#define QUERY_RENDERED_MAX (1u << 20)	/* bytes of all texts of a rendered query */

bool query_is_template(const struct prepared_query *q);
/*
 * The query as it is for this name; what is not rendered borrows q, the rest is in the arena.  TV_EINVAL with a sentence in `why`: the
 * template is wrong, for this name at least.  TV_ENOMEM.
 */
enum tv_err query_render(const struct prepared_query *q, struct span name, struct arena *a, struct prepared_query *out,
    struct buf *why);

#endif

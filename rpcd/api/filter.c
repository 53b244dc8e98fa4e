/* ?filter of a request: compiled before the question is asked, applied while the answer is written. */
#include "common/base/clock.h"
#include "rpcd/api/api.h"
#include "common/filter/filter.h"

/* false: answered. */
static bool
take_filter(struct request *r, const struct schema *s, const char *before, bool headers)
{
	struct span text = params_get(&r->query, "filter");
	struct buf why = BUF_INIT(8 * FILTER_BYTES_MAX);

	if (text.len == 0)
		return true;
	r->filter = filter_new(s, text, &why);
	if (r->filter == NULL) {
		if (headers)
			api_refused_headers(r);
		answer_text(r, 500, "%s%s", before, buf_cstr(&why));
	}
	buf_done(&why);
	return r->filter != NULL;
}

bool
api_filter(struct request *r, const struct schema *s)
{
	return take_filter(r, s, "Failed to create boolean expression evaluator: ", true);
}

bool
api_filter_plain(struct request *r, const struct schema *s, const char *before)
{
	return take_filter(r, s, before, false);
}

bool
api_passes(struct request *r, struct span packed)
{
	if (r->filter == NULL)
		return true;
	struct mono now = clock_mono();
	if (r->filter_end.ns == 0)
		r->filter_end = mono_add(now, r->api->conf->filter_time_max);
	if (now.ns >= r->filter_end.ns)
		filter_stop(r->filter, TV_ETIMEOUT);
	return filter_match(r->filter, packed);
}

bool
api_filter_failed(struct request *r)
{
	enum tv_err err = r->filter == NULL ? TV_OK : filter_error(r->filter);

	if (err == TV_ETIMEOUT)
		answer_text(r, 500, "Failed to evaluate filter: it takes too long (see limits.filter_time_max)");
	else if (err == TV_ELIMIT)
		answer_text(r, 500, "Failed to evaluate filter: its regular expressions take too long");
	else if (err != TV_OK)
		answer_text(r, 500, "Failed to evaluate filter: %s", tv_strerror(err));
	return err != TV_OK;
}

/* Own tags; see tags.h. */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/wire/serfwire.h"
#include "gossipd/tags.h"

static void
free_tag(struct member_tag *tag)
{
	free((void *)tag->name.p);
	free((void *)tag->value.p);
}

static enum tv_err
set(struct span *at, struct span value)
{
	char *copy = span_dup(value);

	if (copy == NULL)
		return TV_ENOMEM;
	free((void *)at->p);
	*at = span_of(copy, value.len);
	return TV_OK;
}

static enum tv_err
append(struct tagset *t, struct span name, struct span value)
{
	struct member_tag fresh = { SPAN_NONE, SPAN_NONE }, *more;

	if (t->count >= MEMBER_TAGS_MAX)
		return TV_ELIMIT;
	more = realloc(t->tags, (t->count + 1) * sizeof(*more));
	if (more == NULL)
		return TV_ENOMEM;
	t->tags = more;
	if (set(&fresh.name, name) != TV_OK || set(&fresh.value, value) != TV_OK) {
		free_tag(&fresh);
		return TV_ENOMEM;
	}
	t->tags[t->count++] = fresh;
	return TV_OK;
}

enum tv_err
tagset_put(struct tagset *t, struct span name, struct span value)
{
	uint32_t i = 0;

	if (name.len == 0)
		return TV_EINVAL;
	while (i < t->count && !span_eq(t->tags[i].name, name))
		i++;
	if (i == t->count)
		return value.len == 0 ? TV_OK : append(t, name, value);
	if (value.len > 0)
		return set(&t->tags[i].value, value);
	free_tag(&t->tags[i]);
	memmove(&t->tags[i], &t->tags[i + 1], (t->count - i - 1) * sizeof(*t->tags));
	t->count--;
	return TV_OK;
}

enum tv_err
tagset_puts(struct tagset *t, const char *name, const char *value)
{
	return tagset_put(t, span_str(name), span_str(value));
}

enum tv_err
tagset_copy(const struct tagset *t, struct tagset *out)
{
	*out = (struct tagset){ 0 };
	for (uint32_t i = 0; i < t->count; i++) {
		if (append(out, t->tags[i].name, t->tags[i].value) != TV_OK) {
			tagset_done(out);
			return TV_ENOMEM;
		}
	}
	return TV_OK;
}

enum tv_err
tagset_meta(const struct tagset *t, struct buf *out)
{
	return serf_put_meta(out, t->tags, t->count);
}

void
tagset_done(struct tagset *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free_tag(&t->tags[i]);
	free(t->tags);
	*t = (struct tagset){ 0 };
}

/* The options that a call gives, see ctl.h. */
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "ctl/ctl.h"

const struct option *
ctl_option_in(const struct option *list, const char *name)
{
	size_t n = strcspn(name, "= ");

	for (const struct option *o = list; o != NULL && o->form != NULL; o++)
		if (strncmp(o->form, "--", 2) == 0 && strcspn(o->form + 2, " ") == n &&
		    strncmp(o->form + 2, name, n) == 0)
			return o;
	return NULL;
}

const char *
ctl_opt(const struct ctl *ctl, const char *name)
{
	const struct option *o = ctl_option_in(ctl->verb->options, name);
	const char *value = NULL;

	TV_ASSERT(o != NULL);
	for (unsigned i = 0; i < ctl->given_count; i++)
		if (ctl->given[i].option == o)
			value = ctl->given[i].value;
	return value;
}

void
ctl_params(const struct ctl *ctl, struct buf *path)
{
	char name[64];

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(g->option->form + 2, " "), g->option->form + 2);
		if (g->option->flags & OPTION_PARAM)
			ctl_param(path, name, g->value);
	}
}

/* See json_errors.h. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base/rd.h"
#include "ctl/ctl.h"
#include "ctl/json_errors.h"

static struct {
	FILE *real;			/* standard error; NULL: nothing is kept */
	char *text;
	size_t len;
	const char *reason;
} kept;

static void
on_end(int status, void *arg UNUSED)
{
	json_errors_end(status);
}

void
json_errors_begin(void)
{
	static bool registered;
	FILE *f = kept.real == NULL ? open_memstream(&kept.text, &kept.len) : NULL;

	if (f == NULL)
		return;
	kept.real = stderr;
	kept.reason = NULL;
	stderr = f;
	if (!registered)
		registered = on_exit(on_end, NULL) == 0;
}

void
json_errors_reason(const char *reason)
{
	kept.reason = reason;
}

int
json_errors_status(int status)
{
	if (status != 1 || kept.reason == NULL)
		return status;
	return strcmp(kept.reason, REASON_NO_ANSWER) == 0 ? EX_UNAVAILABLE :
	    strcmp(kept.reason, REASON_DENIED) == 0 ? EX_NOPERM : status;
}

/* Standard error is itself again; *text is the caller's. */
static struct span
take_text(char **text)
{
	(void)fclose(stderr);
	stderr = kept.real;
	kept.real = NULL;
	*text = kept.text;
	return span_of(kept.text, kept.len);
}

void
json_errors_release(void)
{
	char *text;

	if (kept.real == NULL)
		return;
	struct span all = take_text(&text);

	(void)fwrite(all.p, 1, all.len, stderr);
	free(text);
}

void
json_errors_end(int status)
{
	char *text, *safe = NULL;
	json_t *error, *v;

	if (kept.real == NULL)
		return;
	if (status == 0) {
		json_errors_release();
		return;
	}
	struct span all = take_text(&text);

	while (all.len > 0 && all.p[all.len - 1] == '\n')
		all.len--;
	error = json_stringn((const char *)all.p, all.len);
	if (error == NULL)		/* no UTF-8 */
		error = json_string(safe = out_safe(all));
	v = json_pack("{s:o,s:s,s:i}", "Error", error, "Reason", kept.reason != NULL ? kept.reason :
	    status == 2 ? REASON_USAGE : REASON_FAILED, "ExitStatus", status);
	if (all.len > 0 && v != NULL && json_dumpf(v, stderr, JSON_COMPACT) == 0)
		fputc('\n', stderr);
	json_decref(v);
	free(safe);
	free(text);
}

/* Following a list by long polls, see follow.h. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "ctl/follow.h"

#define TIMEOUT_S 30
#define WAIT_S 60			/* of one long poll */
#define PATH_BYTES_MAX (256u << 10)

json_t *
follow_ask(struct ctl *ctl, const char *path, uint64_t index, struct client_answer *a)
{
	struct buf full = BUF_INIT(PATH_BYTES_MAX);
	json_t *list = NULL;

	buf_puts(&full, path);
	if (index > 0)
		buf_printf(&full, "%cindex=%" PRIu64 "&wait=%ds", strchr(path, '?') != NULL ? '&' : '?', index, WAIT_S);
	client_quiet(ctl_client(ctl), index > 0);
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&full), SPAN_NONE, WAIT_S + TIMEOUT_S, a))
		list = json_loadb((const char *)a->body.data, a->body.len, JSON_ALLOW_NUL, NULL);
	buf_done(&full);
	return list;
}

int
follow_list(struct ctl *ctl, const struct follow *f)
{
	struct timespec pause = { 0, 500000000 };
	struct client_answer a;
	bool first = true, away = false;
	uint64_t index = 0;

	for (;;) {
		json_t *list = follow_ask(ctl, f->path, index, &a);

		if (list == NULL && (first || a.status != 0 || client_late(ctl->client)))
			break;
		if ((list == NULL) != away)
			(void)ctl_complain(ctl, "%s",
			    away ? "connected again" : "no connection to rpcd, trying again");
		away = list == NULL;
		if (!away)
			f->take(f->ctx, list, first);
		if (!away || f->afresh)
			index = away ? 0 : a.index;
		first = false;
		json_decref(list);
		client_answer_done(&a);
		if (away)
			nanosleep(&pause, NULL);
		if (ferror(stdout))
			return 1;
	}
	client_complain(ctl->client, ctl->verb->words, &a);
	client_answer_done(&a);
	return 1;
}

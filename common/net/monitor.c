/* Log lines over a channel, see monitor.h. */
#include <stdlib.h>

#include "common/net/monitor.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"

#define PENDING_BYTES_MAX (256u << 10)	/* what may wait on the channel */
#define AREA_BYTES_MAX 64
#define TEXT_BYTES_MAX 8192

struct monitor {
	struct chan *chan;
	struct logtap_reader *reader;
	uint64_t lost;
};

static void
send_line(struct chan *c, const struct log_line *line)
{
	struct buf *b = chan_begin(c, MSG_LOG, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 4);
	mpw_uint(b, (uint64_t)line->wall_ms);
	mpw_uint(b, line->level);
	mpw_cstr(b, line->area);
	mpw_cstr(b, line->text);
	(void)chan_end(c);
}

static void
on_line(void *ctx, const struct log_line *line)
{
	struct monitor *m = ctx;
	struct log_line lost;
	char text[96];

	if (chan_pending(m->chan) > PENDING_BYTES_MAX) {
		m->lost++;
		return;
	}
	if (m->lost > 0) {
		log_line_lost(&lost, text, sizeof(text), m->lost);
		m->lost = 0;
		send_line(m->chan, &lost);
	}
	send_line(m->chan, line);
}

enum tv_err
monitor_serve(struct monitor **m, struct logtap *tap, struct chan *c, struct span body)
{
	struct rd r = rd_span_over(body);
	enum log_level level;

	if (mpr_array(&r) != 1)
		rd_fail(&r, TV_EFORMAT);
	level = (enum log_level)mpr_uint(&r, LOG_LVL_DEBUG);
	if (rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	if (*m == NULL && (*m = calloc(1, sizeof(**m))) == NULL)
		return TV_ENOMEM;
	(*m)->chan = c;
	logtap_remove((*m)->reader);
	(*m)->reader = logtap_add(tap, level, on_line, *m);
	return (*m)->reader != NULL ? TV_OK : TV_ENOMEM;
}

void
monitor_stop(struct monitor *m)
{
	if (m == NULL)
		return;
	logtap_remove(m->reader);
	free(m);
}

void
monitor_ask(struct chan *c, enum log_level level)
{
	struct buf *b = chan_begin(c, MSG_MONITOR, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 1);
	mpw_uint(b, level);
	(void)chan_end(c);
}

enum tv_err
monitor_read(struct span body, struct log_line *line, char *area, char *text, size_t cap)
{
	struct rd r = rd_span_over(body);

	if (mpr_array(&r) != 4)
		rd_fail(&r, TV_EFORMAT);
	line->wall_ms = (int64_t)mpr_uint(&r, INT64_MAX / 1000000);
	line->level = (enum log_level)mpr_uint(&r, LOG_LVL_DEBUG);
	line->area = log_safe(mpr_bytes(&r, AREA_BYTES_MAX), area, cap);
	line->text = log_safe(mpr_bytes(&r, TEXT_BYTES_MAX), text, cap);
	return rd_end(&r);
}

/* Log lines over a channel, see monitor.h. */
#include <stdlib.h>

#include "common/net/monitor.h"
#include "common/net/msg.h"

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
	(void)chan_send_record(c, MSG_LOG, 0, &msg_log_schema, &(struct msg_log){ (uint64_t)line->wall_ms, line->level,
	    span_str(line->area), span_str(line->text) });
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
	struct msg_monitor q = { .level = 0 };

	if (msg_read(&msg_monitor_schema, body, NULL, &q) != TV_OK || q.level > LOG_LVL_DEBUG)
		return TV_EFORMAT;
	if (*m == NULL && (*m = calloc(1, sizeof(**m))) == NULL)
		return TV_ENOMEM;
	(*m)->chan = c;
	logtap_remove((*m)->reader);
	(*m)->reader = logtap_add(tap, (enum log_level)q.level, on_line, *m);
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
	(void)chan_send_record(c, MSG_MONITOR, 0, &msg_monitor_schema, &(struct msg_monitor){ level });
}

enum tv_err
monitor_read(struct span body, struct log_line *line, char *area, char *text, size_t cap)
{
	struct msg_log l = { .level = 0 };

	if (msg_read(&msg_log_schema, body, NULL, &l) != TV_OK || l.wall_ms > INT64_MAX / 1000000 ||
	    l.level > LOG_LVL_DEBUG || l.area.len > AREA_BYTES_MAX || l.text.len > TEXT_BYTES_MAX)
		return TV_EFORMAT;
	line->wall_ms = (int64_t)l.wall_ms;
	line->level = (enum log_level)l.level;
	line->area = log_safe(l.area, area, cap);
	line->text = log_safe(l.text, text, cap);
	return TV_OK;
}

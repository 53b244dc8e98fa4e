/* Live logs, see log_streams.h. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/daemon_client.h"
#include "common/net/monitor.h"
#include "common/net/msg.h"
#include "common/text/json_text.h"
#include "rpcd/node/log_streams.h"

#define WAITING_BYTES_MAX (256u << 10)	/* for a client that reads slowly */
#define FRAME_BYTES_MAX (64u << 10)
#define TEXT_BYTES_MAX 16384		/* of one line */
#define AWAY_AFTER 3			/* failed attempts until it is told */

/* One daemon's channel. */
struct source {
	struct log_stream *w;
	const char *daemon;
	struct daemon_client client;
};

struct log_stream {
	struct log_streams *m;
	enum log_level level;
	bool json;
	void (*wake)(void *ctx);
	void *ctx;
	struct buf waiting;
	size_t taken;			/* of `waiting` */
	uint64_t lost;
	struct logtap_reader *own;
	struct source sources[2];
};

struct log_streams {
	struct log_streams_conf conf;
	struct logtap *tap;
	unsigned count;
};

/* -- lines -- */

static void
put_json(struct buf *b, const char *daemon, const struct log_line *line)
{
	char stamp[LOG_TIME_BYTES];

	buf_puts(b, "{\"@level\":\"");
	for (const char *p = log_level_name(line->level); *p != '\0'; p++)
		buf_u8(b, (uint8_t)tolower((unsigned char)*p));
	buf_puts(b, "\",\"@message\":");
	json_quote(span_str(line->text), b);
	buf_printf(b, ",\"@module\":\"%s.", daemon);
	for (const char *p = line->area; *p != '\0'; p++)
		buf_u8(b, *p == '"' || *p == '\\' ? '_' : (uint8_t)*p);
	buf_printf(b, "\",\"@timestamp\":\"%s\"}\n", log_time(line->wall_ms, stamp));
}

static void
put_text(struct buf *b, const char *daemon, const struct log_line *line)
{
	char stamp[LOG_TIME_BYTES];

	buf_printf(b, "%s %s [%s] %s: %s\n", log_time(line->wall_ms, stamp), daemon, log_level_name(line->level),
	    line->area, line->text);
}

/* Whole lines only. */
static bool
put_line(struct log_stream *w, const char *daemon, const struct log_line *line)
{
	size_t before = w->waiting.len;

	(w->json ? put_json : put_text)(&w->waiting, daemon, line);
	if (!w->waiting.failed)
		return true;
	w->waiting.failed = false;
	w->waiting.len = before;
	return false;
}

static void
add_line(struct log_stream *w, const char *daemon, const struct log_line *line)
{
	bool was_empty = w->waiting.len == 0;
	struct log_line lost;
	char text[96];

	if (w->lost > 0) {
		log_line_lost(&lost, text, sizeof(text), w->lost);
		if (put_line(w, "rpcd", &lost))
			w->lost = 0;
	}
	if (w->lost > 0 || !put_line(w, daemon, line))
		w->lost++;
	if (was_empty && w->waiting.len > 0)
		w->wake(w->ctx);
}

size_t
log_stream_read(struct log_stream *w, void *dst, size_t max)
{
	size_t left = w->waiting.len - w->taken, n = left < max ? left : max;

	if (n > 0)
		memcpy(dst, w->waiting.data + w->taken, n);
	w->taken += n;
	if (w->taken == w->waiting.len) {
		buf_reset(&w->waiting);
		w->taken = 0;
	}
	return n;
}

/* -- rpcd's own -- */

static void
on_own_line(void *ctx, const struct log_line *line)
{
	add_line(ctx, "rpcd", line);
}

/* -- the others -- */

static void
tell_away(struct source *s, const char *text)
{
	struct log_line line = { clock_wall_ns() / 1000000, LOG_LVL_WARN, "monitor", text };

	add_line(s->w, s->daemon, &line);
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct source *s = ctx;
	struct log_line line;
	char area[TEXT_BYTES_MAX], text[TEXT_BYTES_MAX];
	enum tv_err err;

	if (f->type != MSG_LOG)		/* members, status: told to everyone, not for us */
		return TV_OK;
	err = monitor_read(f->body, &line, area, text, sizeof(text));
	if (err == TV_OK)
		add_line(s->w, s->daemon, &line);
	return err;
}

static void
on_up(void *ctx, struct chan *c, unsigned failures)
{
	struct source *s = ctx;

	monitor_ask(c, s->w->level);
	if (failures >= AWAY_AFTER)
		tell_away(s, "connected again");
}

static void
on_down(void *ctx, enum tv_err why UNUSED, unsigned failures)
{
	if (failures == AWAY_AFTER)
		tell_away(ctx, "no connection, trying again");
}

static bool
open_source(struct source *s, struct log_stream *w, const char *daemon, const char *path)
{
	*s = (struct source){ .w = w, .daemon = daemon, .client = {
	    .chan = { .loop = w->m->conf.loop, .body_max = FRAME_BYTES_MAX, .out_max = FRAME_BYTES_MAX },
	    .daemon = daemon, .path = path, .role = "rpcd", .node_id = w->m->conf.node_id, .on_up = on_up,
	    .on_frame = on_frame, .on_down = on_down, .ctx = s } };
	return daemon_client_start(&s->client);
}

/* -- life -- */

struct log_stream *
log_stream_start(struct log_streams *m, enum log_level level, unsigned daemons, bool json, void (*wake)(void *ctx),
    void *ctx, enum tv_err *err)
{
	struct log_stream *w = m->count < LOG_STREAMS_MAX ? calloc(1, sizeof(*w)) : NULL;
	bool good = true;

	*err = m->count < LOG_STREAMS_MAX ? TV_ENOMEM : TV_ELIMIT;
	if (w == NULL)
		return NULL;
	m->count++;
	*w = (struct log_stream){ .m = m, .level = level, .json = json, .wake = wake, .ctx = ctx,
		.waiting = BUF_INIT(WAITING_BYTES_MAX) };
	if (daemons & LOG_STREAM_RPCD)
		good = (w->own = logtap_add(m->tap, level, on_own_line, w)) != NULL;
	if (good && daemons & LOG_STREAM_GOSSIPD)
		good = open_source(&w->sources[0], w, "gossipd", m->conf.gossipd_path);
	if (good && daemons & LOG_STREAM_RAFTD && m->conf.raftd_path != NULL)
		good = open_source(&w->sources[1], w, "raftd", m->conf.raftd_path);
	if (good)
		return w;
	log_stream_stop(w);
	return NULL;
}

void
log_stream_stop(struct log_stream *w)
{
	logtap_remove(w->own);
	for (int i = 0; i < 2; i++)
		daemon_client_stop(&w->sources[i].client);
	buf_done(&w->waiting);
	w->m->count--;
	free(w);
}

struct log_streams *
log_streams_new(const struct log_streams_conf *conf)
{
	struct log_streams *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->conf = *conf;
	m->tap = logtap_new(conf->loop);
	if (m->tap != NULL)
		return m;
	free(m);
	return NULL;
}

void
log_streams_free(struct log_streams *m)
{
	if (m == NULL)
		return;
	logtap_free(m->tap);
	free(m);
}

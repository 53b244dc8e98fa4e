/* What the core tells, as log lines in the words that operators know. */
#ifndef TV_GOSSIPD_LOG_NOTICES_H
#define TV_GOSSIPD_LOG_NOTICES_H

#include "common/base/log.h"
#include "gossipd/core/swim.h"

struct log_limits {
	struct log_limit by_type[SWIM_NOTICES];
};

#define LOG_LIMITS_INIT ((struct log_limits){ .by_type = { \
	[0 ... SWIM_NOTICES - 1] = { .burst = 10, .period = MONO_S(10) } } })

#define LOG_REFUSAL_BYTES 1024

/* Why an exchange was refused, as in the log: into text, which is returned.  n is a SWIM_NOTICE_REFUSED. */
const char *log_refusal(const struct swim_notice *n, char *text, size_t cap);
void log_event(const struct swim_event *ev);
/* Lines of one kind are limited; what was dropped is counted in the next one. */
void log_notice(struct log_limits *l, const struct swim_notice *n);

#endif

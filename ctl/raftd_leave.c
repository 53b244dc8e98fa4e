/*
 * Root's leave of a server with access control, without a token: raftd takes it from root's own process alone.  rpcd,
 * which passes on what others ask for, would have to be believed.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/record/messages.h"
#include "ctl/local_socket.h"
#include "ctl/raftd_leave.h"

#define ASK_ID 1
#define ANSWER_BYTES_MAX (1u << 20)

/* The greeting, and the question. */
static void
put_question(struct buf *b, bool force)
{
	struct msg_hello hello = { .version = MSG_VERSIONS.lowest, .role = span_str("clusterctl"),
		.build = span_str(TV_VERSION), .node_id = span_str(""), .highest = MSG_VERSIONS.highest };
	size_t at = frame_open(b, MSG_HELLO, 0, 0);

	schema_pack(&msg_hello_schema, &hello, b);
	frame_close(b, at);
	at = frame_open(b, MSG_RAFT_LEAVE, 0, ASK_ID);
	schema_pack(&msg_raft_leave_schema, &(struct msg_raft_leave){ force, span_str("") }, b);
	frame_close(b, at);
}

static bool
send_all(int fd, struct span s)
{
	while (s.len > 0) {
		ssize_t n = send(fd, s.p, s.len, MSG_NOSIGNAL);

		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		s = span_of(s.p + n, s.len - (size_t)n);
	}
	return true;
}

/* One frame more, behind which the next one may have begun; false: there is none in time, with errno. */
static bool
next_frame(int fd, struct buf *in, struct mono until, struct frame *f, long *used)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct mono now = clock_mono();
		uint8_t *to;
		ssize_t n;

		*used = frame_read(buf_span(in), ANSWER_BYTES_MAX, f);
		if (*used > 0)
			return true;
		errno = *used < 0 ? EPROTO : ETIMEDOUT;
		if (*used < 0 || !mono_before(now, until))
			return false;
		if (poll(&p, 1, (int)((until.ns - now.ns) / 1000000 + 1)) <= 0)
			continue;
		to = buf_add(in, 4096);
		if (to == NULL) {
			errno = ENOMEM;
			return false;
		}
		n = recv(fd, to, 4096, 0);
		in->len -= 4096 - (size_t)(n > 0 ? n : 0);
		if (n == 0)
			errno = ECONNRESET;
		if (n == 0 || (n == -1 && errno != EINTR))
			return false;
	}
}

/* What came is taken frame by frame, until the answer. */
static bool
take_answer(int fd, struct mono until, struct buf *why)
{
	struct buf in = BUF_INIT(2 * ANSWER_BYTES_MAX);
	struct msg_answer a = { .err = TV_EFORMAT };
	struct frame f;
	bool left = false;
	long used;

	for (;;) {
		if (!next_frame(fd, &in, until, &f, &used)) {
			buf_printf(why, "raftd does not answer: %s", strerror(errno));
			break;
		}
		if (f.type == MSG_RAFT_LEAVE && (f.flags & FRAME_REPLY) && f.id == ASK_ID) {
			left = msg_answer_read(f.body, &a, NULL, NULL, NULL) == TV_OK && a.err == TV_OK;
			if (!left)
				buf_putspan(why, a.text.len > 0 ? a.text : span_str(tv_strerror(a.err)));
			break;
		}
		memmove(in.data, in.data + used, in.len - (size_t)used);
		in.len -= (size_t)used;
	}
	buf_done(&in);
	return left;
}

bool
raftd_leave(const char *path, bool force, struct mono timeout, struct buf *why)
{
	struct buf question = BUF_INIT(4096);
	int fd = local_socket_open(path);
	bool left = false;

	put_question(&question, force);
	if (fd == -1 || question.failed || !send_all(fd, buf_span(&question)))
		buf_printf(why, "%s: %s", path, strerror(errno));
	else
		left = take_answer(fd, mono_add(clock_mono(), timeout), why);
	if (fd != -1)
		(void)close(fd);
	buf_done(&question);
	return left;
}

/*
 * Frames in clear: first byte says how the rest is cut into writes and how often the reader pauses.
 * The channel must see exactly the frames that frame_read finds in the whole.
 */
#include "common/net/frame.h"
#include "tests/fuzz/chan_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Frames at the front of the bytes, up to the first that closes a channel (included). */
static unsigned
count_frames(struct span in)
{
	struct frame f;
	unsigned count = 0;
	long n;

	while ((n = frame_read(in, FEED_BODY_MAX, &f)) > 0) {
		TV_ASSERT((size_t)n == FRAME_HEAD_BYTES + f.body.len && (size_t)n <= in.len);
		in.p += n;
		in.len -= (size_t)n;
		count++;
		if (f.type == 0xdead)
			break;
	}
	return count;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t steps[] = { 1 << 16, 1, 3, 16, 17, 100, 1000, 4096 };
	struct feed feed;

	if (size < 1 || size > (1u << 16))
		return 0;
	if (size > 4096 && steps[data[0] & 7] < 100)
		return 0;		/* slow, and no new paths */
	feed_open(&feed, NULL, false);
	feed.pauses = data[0] >> 6;
	feed_bytes(&feed, data + 1, size - 1, steps[data[0] & 7]);
	TV_ASSERT(feed.frames == count_frames(span_of(data + 1, size - 1)));
	feed_done(&feed);
	return 0;
}

/* Noise under a channel: preamble, handshake, sealing in batches. */
#include "common/chan_int.h"

enum tv_err
chan_noise_new(struct chan *c, const struct noise_conf *conf)
{
	(void)c, (void)conf;
	return TV_EINVAL;
}

void
chan_noise_free(struct chan_noise *n)
{
	(void)n;
}

void
chan_noise_start(struct chan *c)
{
	chan_close(c, TV_EINVAL);
}

void
chan_noise_readable(struct chan *c)
{
	chan_close(c, TV_EINVAL);
}

void
chan_noise_flush(struct chan *c)
{
	(void)c;
}

size_t
chan_noise_pending(const struct chan_noise *n)
{
	(void)n;
	return 0;
}

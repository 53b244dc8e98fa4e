/* The life of the server's side of TLS; see tls_server.h. */
#include <stdlib.h>
#include <string.h>

#include "common/net/tls.h"
#include "rpcd/tls/tls_int.h"

#define THREADS 4			/* a signature of a sound signer takes less than a millisecond */
#define WAITING_MAX 1024

bool
tls_server_is_built(void)
{
	return true;
}

enum tv_err
tls_server_begin(char *errbuf, size_t cap)
{
	return tls_begin(errbuf, cap);
}

struct tls_server *
tls_server_new(const struct tls_server_conf *conf)
{
	struct tls_server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->conf = *conf;
	s->refusals = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	s->provider = tls_provider_new(conf->sign, conf->ctx);
	if (s->provider != NULL)
		s->tickets = tickets_new(conf->loop, tls_provider_library(s->provider));
	s->handshakes = handshakes_new(&(struct handshakes_conf){
		.loop = conf->loop, .threads_max = THREADS,
		.waiting_max = conf->waiting_max > 0 ? conf->waiting_max : WAITING_MAX,
		.work = conn_work, .done = conn_returned, .refused = conn_displaced,
	});
	if (s->provider != NULL && s->tickets != NULL && s->handshakes != NULL)
		return s;
	tls_server_free(s);
	return NULL;
}

enum tv_err
tls_server_identify(struct tls_server *s, const struct tls_identity *id, char *errbuf, size_t cap)
{
	struct identity *fresh = identity_new(s, id, errbuf, cap), *old = s->identity;

	if (fresh == NULL)
		return TV_EINVAL;
	if (old != NULL && memcmp(old->binding, fresh->binding, BINDING_BYTES) != 0)
		tickets_forget(s->tickets);
	s->identity = fresh;
	identity_release(old);
	return TV_OK;
}

void
tls_server_set_timeout(struct tls_server *s, struct mono handshake_timeout)
{
	s->conf.handshake_timeout = handshake_timeout;
}

void
tls_server_free(struct tls_server *s)
{
	if (s == NULL)
		return;
	handshakes_free(s->handshakes);		/* its threads' sessions, too */
	identity_release(s->identity);
	tickets_free(s->tickets);
	tls_provider_free(s->provider);
	free(s);
}

void
tls_server_stats(const struct tls_server *s, struct tls_server_stats *out)
{
	*out = s->stats;
	handshakes_stats(s->handshakes, &out->waiting, &out->waiting_most, &out->threads);
}

/* What the server of TLS is, and until when; see tls_renewal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "rpcd/tls/tls_renewal.h"

#define DAY_S 86400
#define LOOK_S 3600
#define SUITES_BYTES 512

enum { OURS, OF_AUTHORITIES, CERTIFICATES };

struct tls_renewal {
	struct ev_loop *loop;
	struct tls_server *server;
	const struct rpcd_conf *conf;
	struct buf chain, ca;		/* the newest files */
	uint64_t key;
	int64_t not_after[CERTIFICATES];	/* s since 1970; 0: none */
	uint64_t warned[CERTIFICATES];	/* how many days were left at the last warning */
	ev_timer look;
};

uint64_t
tls_renewal_days(int64_t not_after, int64_t now)
{
	return not_after <= now ? 0 : (uint64_t)(not_after - now) / DAY_S;
}

bool
tls_renewal_is_due(uint64_t days, uint64_t warned)
{
	static const uint64_t steps[] = { 30, 14, 7, 3, 2, 1 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (days < steps[i] && warned >= steps[i])
			return true;
	return false;
}

static void
warn_of_end(struct tls_renewal *r, unsigned which)
{
	static const char *const names[] = { "the certificate of HTTPS", "the first of the authorities of tls.https" };
	int64_t now = clock_wall_ns() / 1000000000, end = r->not_after[which];
	uint64_t days = tls_renewal_days(end, now);
	char text[LOG_TIME_BYTES];

	if (end == 0 || !tls_renewal_is_due(days, r->warned[which]))
		return;
	r->warned[which] = days;
	log_warn("tls", "%s %s at %s%s", names[which], end <= now ? "has ended" : "ends", log_time(end * 1000, text),
	    days < 14 ? ": renew it now; new files are taken over without a restart" : "");
}

static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	for (unsigned i = 0; i < CERTIFICATES; i++)
		warn_of_end(w->data, i);
}

struct tls_renewal *
tls_renewal_new(struct ev_loop *loop, struct tls_server *server, const struct rpcd_conf *conf)
{
	struct tls_renewal *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->server = server;
	r->conf = conf;
	buf_init(&r->chain, KEYS_CHAIN_BYTES_MAX);
	buf_init(&r->ca, KEYS_CA_BYTES_MAX);
	ev_init(&r->look, on_look);
	r->look.repeat = LOOK_S;
	r->look.data = r;
	ev_timer_again(loop, &r->look);
	return r;
}

void
tls_renewal_free(struct tls_renewal *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->loop, &r->look);
	buf_done(&r->chain);
	buf_done(&r->ca);
	free(r);
}

/* With colons; "": ours. */
static void
put_suites(const struct conf_list *suites, char dst[SUITES_BYTES])
{
	size_t at = 0, len = 0;
	const char *name;

	dst[0] = '\0';
	while ((name = rpcd_tls_suite(suites, &at)) != NULL && len + strlen(name) + 2 <= SUITES_BYTES) {
		if (len > 0)
			dst[len++] = ':';
		len += strlen(strcpy(dst + len, name));
	}
}

static enum tv_err
identify_server(struct tls_renewal *r, struct span chain, struct span ca, uint64_t key)
{
	struct rpcd_tls t = rpcd_tls_for(r->conf, RPCD_TLS_HTTPS);
	char why[512], suites[SUITES_BYTES];
	enum tv_err err;

	put_suites(&t.suites, suites);
	err = tls_server_identify(r->server, &(struct tls_identity){
		.chain = chain, .key = key, .ca = ca,
		.ask = t.verify_incoming ? TLS_REQUIRE : t.ask_incoming ? TLS_ASK : TLS_ASK_NOTHING,
		.only_tls13 = t.min_version == RPCD_TLS_1_3, .ciphers = suites[0] != '\0' ? suites : NULL,
	}, why, sizeof(why));
	if (err != TV_OK)
		log_err("tls", "%s", why);
	return err;
}

enum tv_err
tls_renewal_take(struct tls_renewal *r, const struct keys_files *files)
{
	enum tv_err err = identify_server(r, files->chain, files->ca, files->number);

	if (err != TV_OK)
		return err;
	buf_reset(&r->chain);
	buf_reset(&r->ca);
	buf_putspan(&r->chain, files->chain);
	buf_putspan(&r->ca, files->ca);
	r->key = files->number;
	r->not_after[OURS] = files->not_after;
	r->not_after[OF_AUTHORITIES] = files->ca_not_after;
	for (unsigned i = 0; i < CERTIFICATES; i++) {
		r->warned[i] = UINT64_MAX;
		warn_of_end(r, i);
	}
	return TV_OK;
}

/* Other files come by themselves; authorities that are new to rpcd.conf are awaited: without, nothing can be asked. */
void
tls_renewal_reload(struct tls_renewal *r)
{
	struct rpcd_tls t = rpcd_tls_for(r->conf, RPCD_TLS_HTTPS);

	tls_server_set_timeout(r->server, r->conf->https_handshake_timeout);
	if (r->chain.len == 0 || r->chain.failed || r->ca.failed)
		return;
	if (r->ca.len > 0 || !(t.verify_incoming || t.ask_incoming))
		(void)identify_server(r, buf_span(&r->chain), buf_span(&r->ca), r->key);
}

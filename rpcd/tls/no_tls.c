/*
 * rpcd without OpenSSL: what a program links that serves no TLS, in place of the rest of this room.  libcrypto's tables
 * alone are 0.5 MB that each process relocates for itself, so rpcd has none of it until there is an https_port; then it
 * becomes rpcd-tls (rpcd/opening.c), and nothing here is ever called but with NULL.
 */
#include "common/base/assert.h"
#include "rpcd/tls/tls_server.h"

bool
tls_server_is_built(void)
{
	return false;
}

enum tv_err
tls_server_begin(char *errbuf, size_t cap)
{
	return tv_fail(errbuf, cap, TV_EDISABLED, "this program has no TLS");
}

struct tls_server *
tls_server_new(const struct tls_server_conf *conf UNUSED)
{
	return NULL;
}

enum tv_err
tls_server_identify(struct tls_server *s UNUSED, const struct tls_identity *id UNUSED, char *errbuf, size_t cap)
{
	return tls_server_begin(errbuf, cap);
}

void
tls_server_set_timeout(struct tls_server *s UNUSED, struct mono handshake_timeout UNUSED)
{
}

void
tls_server_free(struct tls_server *s)
{
	TV_ASSERT(s == NULL);
}

struct tls_conn *
tls_accept(struct tls_server *s UNUSED, int fd UNUSED, void (*changed)(void *ctx) UNUSED, void *ctx UNUSED)
{
	return NULL;
}

int
tls_shake(struct tls_conn *t UNUSED)
{
	return -1;
}

bool
tls_wants_write(const struct tls_conn *t UNUSED)
{
	return false;
}

bool
tls_is_away(const struct tls_conn *t UNUSED)
{
	return false;
}

bool
tls_is_h2(const struct tls_conn *t UNUSED)
{
	return false;
}

const char *
tls_peer_san(const struct tls_conn *t UNUSED)
{
	return NULL;
}

void
tls_has_news(struct tls_conn *t UNUSED)
{
}

bool
tls_may_have_more(const struct tls_conn *t UNUSED)
{
	return false;
}

void
tls_say_end(struct tls_conn *t UNUSED)
{
}

void
tls_end(struct tls_conn *t)
{
	TV_ASSERT(t == NULL);
}

void
tls_server_stats(const struct tls_server *s UNUSED, struct tls_server_stats *out)
{
	*out = (struct tls_server_stats){ .full = 0 };
}

const struct stream_seal tls_conn_seal = { .read = NULL };

/* Requests beside each other, see client.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "ctl/client_int.h"
#include "ctl/ctl.h"

struct client_set {
	CURLM *multi;
};

struct client_set *
client_set_new(void)
{
	struct client_set *s = ctl_must(calloc(1, sizeof(*s)));

	s->multi = ctl_must(curl_multi_init());
	return s;
}

void
client_set_free(struct client_set *s)
{
	if (s == NULL)
		return;
	curl_multi_cleanup(s->multi);
	free(s);
}

bool
client_busy(const struct client *c)
{
	return c->out != NULL;
}

void
client_begin(struct client_set *s, struct client *c, const char *method, const char *path, struct span body,
    long timeout_s, struct client_answer *out)
{
	c->left = body;
	c->headers = client_prepare(c, method, path, &c->left, timeout_s, out);
	c->out = out;
	client_limit(c);
	curl_easy_setopt(c->curl, CURLOPT_PRIVATE, c);
	if (curl_multi_add_handle(s->multi, c->curl) != CURLM_OK)
		(void)ctl_must(NULL);
}

static void
end_request(struct client_set *s, struct client *c, CURLcode rc)
{
	struct client_answer *out = c->out;

	c->out = NULL;
	curl_multi_remove_handle(s->multi, c->curl);
	(void)client_settle(c, rc, c->headers, out);		/* *out tells */
}

void
client_cancel(struct client_set *s, struct client *c)
{
	if (client_busy(c))
		end_request(s, c, CURLE_ABORTED_BY_CALLBACK);
}

/* A request that has ended, or NULL. */
static struct client *
ended(struct client_set *s)
{
	struct client *c = NULL;
	int running, left;

	(void)curl_multi_perform(s->multi, &running);
	for (CURLMsg *m; c == NULL && (m = curl_multi_info_read(s->multi, &left)) != NULL;) {
		CURLcode rc = m->data.result;		/* the message goes with the handle */

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
		end_request(s, c, rc);
	}
	return c;
}

struct client *
client_next(struct client_set *s, int fd, struct mono until)
{
	struct curl_waitfd other = { .fd = fd, .events = CURL_WAIT_POLLIN };
	struct client *c;

	while ((c = ended(s)) == NULL) {
		int64_t ms = until.ns == MONO_NEVER.ns ? 60000 : mono_ms(mono_sub(until, clock_mono())) + 1;

		if (until.ns != MONO_NEVER.ns && !mono_before(clock_mono(), until))
			return NULL;
		other.revents = 0;
		(void)curl_multi_poll(s->multi, &other, fd >= 0, ms > 60000 ? 60000 : (int)ms, NULL);
		if (other.revents != 0)
			return NULL;
	}
	return c;
}

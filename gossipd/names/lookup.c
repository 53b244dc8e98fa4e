/* See lookup.h. */
#include "config.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <resolv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "gossipd/names/launch.h"
#include "gossipd/names/lookup.h"

#define SILENT "the name servers of /etc/resolv.conf do not answer"

static void __attribute__((format(printf, 3, 4)))
conclude(struct lookup_end *end, enum target_outcome outcome, const char *fmt, ...)
{
	va_list ap;

	end->outcome = outcome;
	va_start(ap, fmt);
	vsnprintf(end->why, sizeof(end->why), fmt, ap);
	va_end(ap);
}

/* -- hosts -- */

static bool
is_dialable(const struct sockaddr *sa)
{
	struct addr a = addr_of_sock(sa);

	if (a.len == 0 || addr_is_any(&a))
		return false;
	if (a.len == 4)			/* neither multicast nor broadcast */
		return a.ip[0] >> 4 != 14 && memcmp(a.ip, "\xff\xff\xff\xff", 4) != 0;
	return a.ip[0] != 0xff && !(a.ip[0] == 0xfe && a.ip[1] >> 6 == 2);	/* nor of a link */
}

static void
print_addr(const struct sockaddr *sa, uint16_t port, char dst[LOOKUP_ADDR_BYTES])
{
	struct addr a = addr_unmapped(addr_of_sock(sa));

	a.port = port;
	addr_text(&a, dst);
}

static void
add_addr(struct lookup_addrs *out, const struct sockaddr *sa, uint16_t port)
{
	char text[LOOKUP_ADDR_BYTES];

	if (!is_dialable(sa))
		return;
	print_addr(sa, port, text);
	for (unsigned i = 0; i < out->n; i++)
		if (strcmp(out->v[i], text) == 0)
			return;
	if (out->n < TARGET_ADDRS_MAX)
		strcpy(out->v[out->n++], text);
	else
		conclude(&out->end, TARGET_FOUND, "more than %d addresses: the others are left out", TARGET_ADDRS_MAX);
}

/* Of getaddrinfo(). */
static void
host_failed(int rc, int error, struct lookup_end *end)
{
	if (rc == EAI_NONAME || rc == EAI_NODATA || rc == EAI_ADDRFAMILY)
		conclude(end, TARGET_NONE, "no such host");
	else if (rc == EAI_AGAIN)
		conclude(end, TARGET_UNANSWERED, SILENT);
	else
		conclude(end, TARGET_UNANSWERED, "%s", rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc));
}

void
lookup_host(const char *name, uint16_t port, struct lookup_addrs *out)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(name, NULL, &hints, &list);

	out->n = 0;
	conclude(&out->end, TARGET_FOUND, "%s", "");
	if (rc != 0) {
		host_failed(rc, errno, &out->end);
		return;
	}
	for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
		add_addr(out, a->ai_addr, port);
	if (out->n == 0)
		conclude(&out->end, TARGET_NONE, "it has no address that can be dialled");
	freeaddrinfo(list);
}

/* -- SRV records -- */

static bool
add_host(struct lookup_hosts *out, struct span name, uint16_t port)
{
	if (out->n == TARGET_ADDRS_MAX)
		return false;
	if (span_copy(name, out->v[out->n].name, LOOKUP_HOST_BYTES))
		out->v[out->n++].port = port;
	return true;
}

struct record {
	uint16_t priority, port;
	char host[NS_MAXDNAME];
};

/* False: it is none that leads anywhere, as "." does not (RFC 2782). */
static bool
read_record(ns_msg *m, int number, struct record *r)
{
	const uint8_t *data;
	ns_rr rr;

	if (ns_parserr(m, ns_s_an, number, &rr) != 0 || ns_rr_type(rr) != ns_t_srv || ns_rr_class(rr) != ns_c_in ||
	    ns_rr_rdlen(rr) < 7)
		return false;
	data = ns_rr_rdata(rr);
	r->priority = (uint16_t)ns_get16(data);
	r->port = (uint16_t)ns_get16(data + 4);
	return dn_expand(ns_msg_base(*m), ns_msg_end(*m), data + 6, r->host, sizeof(r->host)) > 0 &&
	    r->host[0] != '\0' && r->port > 0;
}

static int
by_priority(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->priority != y->priority ? x->priority - y->priority : strcmp(x->host, y->host);
}

void
lookup_answer(const uint8_t *msg, size_t len, struct lookup_hosts *out)
{
	struct record *records = calloc(TARGET_ADDRS_MAX, sizeof(*records));
	unsigned n = 0;
	struct dial_target t;
	ns_msg m;

	out->n = 0;
	conclude(&out->end, TARGET_FOUND, "%s", "");
	if (records == NULL || ns_initparse(msg, (int)len, &m) != 0) {
		conclude(&out->end, TARGET_UNANSWERED, records == NULL ? "no memory" :
		    "the answer of a name server is malformed");
		free(records);
		return;
	}
	for (int i = 0; i < ns_msg_count(m, ns_s_an) && n < TARGET_ADDRS_MAX; i++)
		n += read_record(&m, i, &records[n]);
	qsort(records, n, sizeof(*records), by_priority);
	for (unsigned i = 0; i < n; i++)
		if (target_parse(span_str(records[i].host), records[i].port, &t, NULL) == TV_OK &&
		    t.kind <= TARGET_NAME)
			(void)add_host(out, span_str(records[i].host), records[i].port);
	if (out->n == 0)
		conclude(&out->end, TARGET_NONE, "there are no SRV records that name a host and a port");
	free(records);
}

void
lookup_srv(const char *name, struct lookup_hosts *out)
{
	struct __res_state *state = calloc(1, sizeof(*state));
	uint8_t *answer = malloc(NS_MAXMSG);
	int n = -1, why = NETDB_INTERNAL;

	out->n = 0;
	if (state != NULL && answer != NULL && res_ninit(state) == 0) {
		n = res_nsearch(state, name, ns_c_in, ns_t_srv, answer, NS_MAXMSG);
		why = state->res_h_errno;
		res_nclose(state);
	}
	if (n >= 0)
		lookup_answer(answer, n < NS_MAXMSG ? (size_t)n : NS_MAXMSG, out);
	else if (why == HOST_NOT_FOUND || why == NO_DATA)
		conclude(&out->end, TARGET_NONE, "there are no such SRV records");
	else
		conclude(&out->end, TARGET_UNANSWERED, why == TRY_AGAIN ? SILENT : "the name servers refuse to answer");
	free(answer);
	free(state);
}

/* -- files -- */

int
lookup_open(const char *path, struct lookup_end *end)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0)
		conclude(end, TARGET_UNANSWERED, "it is no regular file");
	else if (errno == EACCES)
		conclude(end, TARGET_UNANSWERED, "%s; the user " NAMES_USER " must be able to read it, and it must not "
		    "be below /home, /root or /tmp, which the unit hides", strerror(errno));
	else
		conclude(end, TARGET_UNANSWERED, "%s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

void
lookup_lines(struct span text, uint16_t port, struct lookup_hosts *out)
{
	char why[TARGET_WHY_BYTES];
	unsigned number = 0;
	struct span line;
	struct dial_target t;

	out->n = 0;
	conclude(&out->end, TARGET_FOUND, "%s", "");
	while (target_line(&text, &number, &line)) {
		bool good = target_parse(line, port, &t, why) == TV_OK && t.kind <= TARGET_NAME;

		if (!good && out->end.why[0] == '\0')
			conclude(&out->end, TARGET_FOUND, "line %u is neither an address nor a host name, and left out",
			    number);
		if (good && !add_host(out, t.kind == TARGET_NAME ? t.name : span_str(t.ip), t.port)) {
			conclude(&out->end, TARGET_FOUND, "more than %d lines: those from line %u on are left out",
			    TARGET_ADDRS_MAX, number);
			return;
		}
	}
}

void
lookup_file(int fd, uint16_t port, struct lookup_hosts *out)
{
	struct buf text = BUF_INIT(LOOKUP_FILE_BYTES_MAX);
	enum tv_err err = file_read_fd(fd, &text);

	out->n = 0;
	if (err == TV_ELIMIT)
		conclude(&out->end, TARGET_UNANSWERED, "it has more than %u bytes", LOOKUP_FILE_BYTES_MAX);
	else if (err != TV_OK)
		conclude(&out->end, TARGET_UNANSWERED, "%s", strerror(errno));
	else
		lookup_lines(buf_span(&text), port, out);
	buf_done(&text);
}

/*
 * clusterctl without rpcd: a client in whose place answers are given, and calls of the whole program in this process.
 * For one file of tests.
 */
#ifndef TV_TESTS_UNIT_CTL_KIT_H
#define TV_TESTS_UNIT_CTL_KIT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

/* -- in rpcd's place ------------------------------------------------------------ */

struct client { bool keep; } the_client;

#define ANSWERS_MAX 16
static struct fake {
	const char *addr, *token_from;	/* as given */
	char *token, shown[8192];
	struct mono within;
	char asked[4096];		/* "GET /v1/x\n" for each question, a body behind it */
	struct { const char *question, *answer; long status; } answers[ANSWERS_MAX];
} fake;

struct client *
client_new(const struct endpoint_given *given, const char *token, const char *from)
{
	fake.addr = given->addr;
	snprintf(fake.shown, sizeof(fake.shown), "%s", token != NULL ? token : "");
	fake.token = token != NULL ? fake.shown : NULL;
	fake.token_from = from;
	return &the_client;
}

struct client *
client_new_own(const char *addr, const char *token)
{
	return client_new(&(struct endpoint_given){ .addr = addr }, token, NULL);
}

const char *
client_token_from(const struct client *c)
{
	(void)c;
	return fake.token_from;
}

void
client_forget_token(struct client *c)
{
	(void)c;
}

void
client_free(struct client *c)
{
	(void)c;
}

const char *
client_addr(const struct client *c)
{
	(void)c;
	return "here";
}

const char *
client_socket(const struct client *c)
{
	(void)c;
	return NULL;
}

bool
client_do(struct client *c, const char *method, const char *path, struct span body, long timeout_s, struct client_answer *out)
{
	char question[1024];

	(void)c;
	ck_assert_int_gt(timeout_s, 0);
	snprintf(question, sizeof(question), "%s %s", method, path);
	size_t at = strlen(fake.asked);
	snprintf(fake.asked + at, sizeof(fake.asked) - at, "%s%s%.*s\n", question, body.len > 0 ? " " : "", (int)body.len,
	    (const char *)body.p);
	*out = (struct client_answer){ .status = 200, .body = BUF_INIT(1 << 20) };
	for (unsigned i = 0; i < ANSWERS_MAX && fake.answers[i].question != NULL; i++)
		if (strcmp(fake.answers[i].question, question) == 0) {
			out->status = fake.answers[i].status;
			buf_puts(&out->body, fake.answers[i].answer);
		}
	if (out->status == 0)
		snprintf(out->error, sizeof(out->error), "nobody is there");
	return out->status == 200;
}

void
client_within(struct client *c, struct mono limit)
{
	(void)c;
	fake.within = limit;
}

bool
client_late(const struct client *c)
{
	(void)c;
	return false;
}

void
client_quiet(struct client *c, bool on)
{
	(void)c, (void)on;
}

void
client_keep_bytes(struct client *c, bool keep)
{
	c->keep = keep;
}

bool
client_keeps_bytes(const struct client *c)
{
	return c->keep;
}

void
client_answer_done(struct client_answer *a)
{
	buf_done(&a->body);
}

void
client_stream(struct client *c, const char *path, FILE *to, struct client_answer *out)
{
	(void)to;
	client_do(c, "GET", path, SPAN_NONE, 1, out);
}

bool
client_download(struct client *c, const char *path, FILE *to, client_tick *tick, void *ctx, struct client_answer *out)
{
	(void)tick, (void)ctx;
	bool good = client_do(c, "GET", path, SPAN_NONE, 1, out);

	if (good && out->body.len > 0)
		(void)fwrite(out->body.data, 1, out->body.len, to);
	return good;
}

bool
client_upload(struct client *c, const char *path, FILE *from, uint64_t size, client_tick *tick, void *ctx,
    struct client_answer *out)
{
	(void)from, (void)size, (void)tick, (void)ctx;
	return client_do(c, "PUT", path, SPAN_NONE, 1, out);
}

struct client_set *
client_set_new(void)
{
	return NULL;
}

void
client_set_free(struct client_set *set)
{
	(void)set;
}

struct client *
client_new_url(const char *url)
{
	(void)url;
	return &the_client;
}

void
client_set_header(struct client *c, const char *name, const char *value)
{
	(void)c, (void)name, (void)value;
}

static struct client *begun;

void
client_begin(struct client_set *set, struct client *c, const char *method, const char *path, struct span body,
    long timeout_s, struct client_answer *out)
{
	(void)set;
	(void)client_do(c, method, path, body, timeout_s, out);
	out->index = 7;
	begun = c;
}

bool
client_busy(const struct client *c)
{
	return begun == c;
}

struct client *
client_next(struct client_set *set, int fd, struct mono until)
{
	struct client *c = begun;

	(void)set, (void)fd, (void)until;
	begun = NULL;
	return c;
}

void
client_cancel(struct client_set *set, struct client *c)
{
	(void)set, (void)c;
}

/* -- one call ---------------------------------------------------------------------- */

#define WORDS_MAX 32
static char out_text[65536], err_text[65536];

/* Sends a descriptor to a file without a name; returns what it was. */
static int
divert(FILE *f, FILE **file)
{
	int was = dup(fileno(f));

	*file = tmpfile();
	ck_assert(was >= 0 && *file != NULL && fflush(f) == 0 && dup2(fileno(*file), fileno(f)) >= 0);
	return was;
}

static void
restore(FILE *f, int was, FILE *file, char *text, size_t cap)
{
	ssize_t n;

	ck_assert(fflush(f) == 0 && dup2(was, fileno(f)) >= 0);
	n = pread(fileno(file), text, cap - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	close(was);
	fclose(file);
}

/* Words with one space between them; "_" stands for a space in a word.  Returns how many, a NULL behind them. */
static int
split(const char *words, char *argv[WORDS_MAX])
{
	static char text[1024];
	char *save = NULL;
	int argc = 0;

	snprintf(text, sizeof(text), "%s", words);
	for (char *w = strtok_r(text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		ck_assert_int_lt(argc, WORDS_MAX - 1);
		argv[argc++] = w;
		for (; *w != '\0'; w++)
			*w = *w == '_' ? ' ' : *w;
	}
	argv[argc] = NULL;
	return argc;
}

static int
call(const char *words)
{
	static char name[] = "clusterctl";
	char *argv[WORDS_MAX + 1] = { name };
	int argc = 1 + split(words, argv + 1), was[2], rc;
	FILE *files[2];

	fake.asked[0] = '\0';
	fake.addr = fake.token_from = NULL;
	fake.token = NULL;
	fake.within = (struct mono){ 0 };
	was[0] = divert(stdout, &files[0]);
	was[1] = divert(stderr, &files[1]);
	rc = ctl_run(argc, argv);
	restore(stdout, was[0], files[0], out_text, sizeof(out_text));
	restore(stderr, was[1], files[1], err_text, sizeof(err_text));
	return rc;
}

static void
answers(unsigned i, const char *question, long status, const char *answer)
{
	fake.answers[i].question = question;
	fake.answers[i].status = status;
	fake.answers[i].answer = answer;
}

#endif

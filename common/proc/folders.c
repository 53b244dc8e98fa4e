/* Are the folders still there?  See folders.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/folders.h"
#include "common/proc/jobs.h"

#define LOOK 1.0		/* seconds */
#define KEEPS_MAX 8
#define MISSING_LOOKS 5		/* a file that is replaced may be away in one look, or two on a slow disk */
#define SAY_AGAIN MONO_S(60)

struct trouble {
	char text[1200];	/* "" while all is well */
	struct mono said;
};

struct folders {
	struct folders_options opt;
	char *socket;
	dev_t socket_dev;
	ino_t socket_ino;
	bool kept[KEEPS_MAX];	/* was seen there */
	unsigned missing[KEEPS_MAX];
	bool told;		/* opt.lost was called */
	struct trouble data, run;
	ev_timer timer;
	struct jobs *jobs;	/* opt.beside */
	/* What follows is the thread's while a job is there, and so are hold, kept and missing. */
	enum hold_state state;
	const char *gone;	/* a file that is missing; NULL: none */
	char why[1024];
};

/* text: what is wrong now, "" if nothing is. */
static void
judge_folder(struct folders *f, struct trouble *t, const char *text, const char *what)
{
	struct mono now = clock_mono();

	if (text[0] == '\0' && t->text[0] != '\0')
		log_info(f->opt.name, "%s is there again", what);
	if (text[0] != '\0' && (t->text[0] == '\0' || mono_sub(now, t->said).ns >= SAY_AGAIN.ns)) {
		log_err(f->opt.name, "%s", text);
		t->said = now;
	}
	snprintf(t->text, sizeof(t->text), "%s", text);
}

/* The name of a file that is away for longer than a rename takes, or NULL. */
static const char *
file_missing(struct folders *f)
{
	struct stat st;

	for (unsigned i = 0; i < KEEPS_MAX && f->opt.keeps != NULL && f->opt.keeps[i] != NULL; i++) {
		bool there = fstatat(f->opt.hold->dir, f->opt.keeps[i], &st, AT_SYMLINK_NOFOLLOW) == 0;

		if (!there && errno != ENOENT && errno != ENOTDIR)
			continue;		/* it cannot be told now */
		f->missing[i] = there || !f->kept[i] ? 0 : f->missing[i] + 1;
		f->kept[i] = f->kept[i] || there;
		if (f->missing[i] >= MISSING_LOOKS)
			return f->opt.keeps[i];
	}
	return NULL;
}

static void
look_at_data(void *ctx)
{
	struct folders *f = ctx;

	f->why[0] = '\0';
	f->state = hold_check(f->opt.hold, f->why, sizeof(f->why));
	f->gone = f->state == HOLD_LOST ? NULL : file_missing(f);
}

static void
judge_data(void *ctx)
{
	struct folders *f = ctx;
	bool lost = f->state == HOLD_LOST || f->gone != NULL;
	char text[1200] = "";

	if (f->gone != NULL)
		snprintf(f->why, sizeof(f->why), "%s/%s is gone", f->opt.hold->path, f->gone);
	if (lost)
		snprintf(text, sizeof(text), "%.700s: it was removed or replaced while %s runs. %s", f->why,
		    f->opt.name, f->opt.without != NULL ? f->opt.without : "");
	else if (f->state == HOLD_UNSURE)
		snprintf(text, sizeof(text), "%.700s; checking again every second", f->why);
	judge_folder(f, &f->data, text, f->opt.hold->path);
	if (lost && !f->told && f->opt.lost != NULL) {
		f->told = true;
		f->opt.lost(f->opt.ctx);
	}
}

static void
look_at_socket(struct folders *f)
{
	char text[1200] = "";
	struct stat st;

	if (f->socket == NULL)
		return;
	if (lstat(f->socket, &st) != 0 || st.st_dev != f->socket_dev || st.st_ino != f->socket_ino)
		snprintf(text, sizeof(text), "%s: the socket was removed or replaced while %s runs: existing "
		    "connections continue, new ones fail. Restart %s to create the folder and the socket again",
		    f->socket, f->opt.name, f->opt.name);
	judge_folder(f, &f->run, text, f->socket);
}

static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct folders *f = w->data;

	look_at_socket(f);
	if (f->jobs != NULL) {
		(void)jobs_add_only(f->jobs, look_at_data, judge_data, f);	/* else the next time */
		return;
	}
	look_at_data(f);
	judge_data(f);
}

struct folders *
folders_new(const struct folders_options *opt)
{
	struct folders *f = calloc(1, sizeof(*f));
	struct stat st;

	if (f == NULL)
		return NULL;
	f->opt = *opt;
	if (opt->socket != NULL && lstat(opt->socket, &st) == 0) {
		f->socket_dev = st.st_dev;
		f->socket_ino = st.st_ino;
		f->socket = strdup(opt->socket);
		if (f->socket == NULL) {
			free(f);
			return NULL;
		}
	}
	if (opt->beside && (f->jobs = jobs_new(opt->loop, "folders")) == NULL) {
		free(f->socket);
		free(f);
		return NULL;
	}
	ev_timer_init(&f->timer, on_look, LOOK, LOOK);
	f->timer.data = f;
	ev_timer_start(opt->loop, &f->timer);
	return f;
}

void
folders_free(struct folders *f)
{
	if (f == NULL)
		return;
	ev_timer_stop(f->opt.loop, &f->timer);
	f->opt.lost = NULL;
	jobs_free(f->jobs);
	free(f->socket);
	free(f);
}

const char *
folders_status(const struct folders *f)
{
	return f->data.text[0] != '\0' ? f->data.text : f->run.text[0] != '\0' ? f->run.text : "ok";
}

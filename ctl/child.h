/*
 * Commands that are run while something else is watched: each in a process group of its own, which ends with it.
 */
#ifndef TV_CTL_CHILD_H
#define TV_CTL_CHILD_H

#include <sys/types.h>

#include "common/base/rd.h"

#define CHILD_GRACE_S 5		/* between the request to end and the kill, as with Consul */

/*
 * From now on SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGCHLD are not delivered but read from the descriptor that is
 * returned, which poll(2) takes; children get them again.  Exits 1 with a sentence when that fails.
 */
int child_signals(void);
/* Reads all that came: the last of those that ask us to end, or 0. */
int child_asked_to_end(int signals);

struct child_spec {
	/* Ended by NULL.  A single word is a command of /bin/sh; several are a program and its arguments. */
	char *const *argv;
	char *const *variables;	/* "NAME=value", added to the environment; ended by NULL */
	int in;			/* standard input; -1: /dev/null */
	bool terminal;		/* it may read from the terminal that standard input is */
};

/*
 * The process, whose number is that of its group too; -1: errno tells why.  When clusterctl is killed so is it.
 * A program that cannot be run ends with status 127, after a sentence.
 */
pid_t child_start(const struct child_spec *spec);
/* Has it ended?  Then *status is wait(2)'s, and the terminal is ours again. */
bool child_ended(pid_t pid, int *status);
/* Is there still a process of its group? */
bool child_group_lives(pid_t pid);
/* Sends a signal to its group. */
void child_kill(pid_t pid, int sig);
/* Prints how it ended, unless that was with status 0: "clusterctl: WHAT: the command ended with status 1". */
void child_tell(const char *what, int status);
/* A descriptor from which these bytes can be read, to be closed; -1: errno. */
int child_input(struct span bytes);

#endif

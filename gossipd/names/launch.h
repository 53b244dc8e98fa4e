/* How gossipd-names is started: gossipd (gossipd/resolver.c) and the program share it. */
#ifndef TV_GOSSIPD_NAMES_LAUNCH_H
#define TV_GOSSIPD_NAMES_LAUNCH_H

#define NAMES_PROGRAM "gossipd-names"
#define NAMES_TITLE "gossipd: names"
#define NAMES_USER "_names"
#define NAMES_MS 20000			/* for all targets of a process: as long as libc asks three servers */
#define NAMES_LIFE_S 25u		/* of a process, whatever it does */
#define NAMES_TARGETS_MAX 64		/* of one process */

#endif

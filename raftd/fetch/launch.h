/* How raftd-fetch is started: raftd (raftd/login/serve/key_fetch.c) and the program share it. */
#ifndef TV_RAFTD_FETCH_LAUNCH_H
#define TV_RAFTD_FETCH_LAUNCH_H

#define FETCH_PROGRAM "raftd-fetch"
#define FETCH_TITLE "raftd: fetch"
#define FETCH_USER "_fetch"
#define FETCH_MS 10000			/* for a set of keys, discovery included */
#define FETCH_LIFE_S 15u		/* of a process, whatever it does */

#endif

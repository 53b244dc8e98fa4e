/*
 * Makes the log of a stopped raftd end with an entry of a newer version, or takes the last entry away again.
 *
 *	newer_entry LOG-DIRECTORY append|cut
 *
 * The entry is operation 999, which needs version 200 of the state machine.  Files stay those of the directory's owner.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raftd/store/store.h"

static int
failed(const char *what, const char *why)
{
	fprintf(stderr, "newer_entry: %s: %s\n", what, why);
	return 1;
}

int
main(int argc, char **argv)
{
	static const uint8_t payload[] = { 0x93, 0xcd, 999 >> 8, 999 & 0xff, 0x90, 0xcc, 200 };	/* [999, [], 200] */
	struct log_options opt = { .dir = argc == 3 ? argv[1] : "" };
	struct raft_entry e = { .type = RAFT_ENTRY_OP, .size = sizeof(payload), .payload = payload };
	struct log_batch b = { .entries = &e, .count = 1 };
	struct log_store *s;
	struct log_meta m;
	struct stat st;
	char why[512];
	enum tv_err err;

	if (argc != 3 || stat(opt.dir, &st) != 0 || (strcmp(argv[2], "append") != 0 && strcmp(argv[2], "cut") != 0))
		return failed("usage", "newer_entry LOG-DIRECTORY append|cut");
	if (geteuid() != st.st_uid && (setegid(st.st_gid) != 0 || seteuid(st.st_uid) != 0))
		return failed("seteuid", "not permitted");
	if (log_open(&opt, &s, &m, why, sizeof(why)) != TV_OK)
		return failed("log_open", why);
	e.index = m.last + 1;
	e.term = m.term;
	if (strcmp(argv[2], "cut") == 0)
		b = (struct log_batch){ .truncate_from = m.last };
	err = log_write(s, &b);
	log_close(s);
	if (seteuid(getuid()) != 0)		/* a sanitizer's search for leaks needs it */
		return failed("seteuid", "not permitted");
	if (err != TV_OK)
		return failed("log_write", tv_strerror(err));
	printf("%llu\n", (unsigned long long)(argv[2][0] == 'a' ? e.index : m.last));
	return 0;
}

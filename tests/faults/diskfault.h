/*
 * The control file of diskfault.so: what the preloaded library and the test that steers it share.
 *
 * The test makes a file of DISKFAULT_BYTES zeros and names it in TV_DISKFAULT; the library maps it when the process
 * starts, before any sandbox closes, and looks at it at each call.  All fields are u32, little endian.  Block k, at
 * offset 128 * k, is of one kind of file; block 0 holds what is of the process.
 * The other side is tests/system/lib/diskfault.py.
 */
#ifndef TV_TESTS_FAULTS_DISKFAULT_H
#define TV_TESTS_FAULTS_DISKFAULT_H

#define DISKFAULT_BYTES 4096
#define DISKFAULT_BLOCK 128

/* By path: which block rules a file.  Other files are left alone. */
enum diskfault_kind {
	DISKFAULT_OTHER,
	DISKFAULT_LOG,			/* below a folder raftd/log */
	DISKFAULT_STATE,		/* below raftd/state, raftd/state.new, raftd/state.old */
	DISKFAULT_SNAPSHOT,		/* what else is in raftd: snapshots on their way, and the folder itself */
	DISKFAULT_STATE_LOG,		/* Berkeley DB's own log in DISKFAULT_STATE: for reads only, else it is part of that */
	DISKFAULT_TRAIL,		/* rpcd's audit trail: rpcd/NAME.log */
	DISKFAULT_KINDS
};

/* Fields of block 0. */
enum { DISKFAULT_ATTACHED, DISKFAULT_PID };

/* Fields of the others.  The first are written by the test, those after DISKFAULT_COUNTERS by the library. */
enum diskfault_field {
	DISKFAULT_SYNC_ERRNO,		/* fsync, fdatasync fail with it ... */
	DISKFAULT_SYNC_COUNT,		/* ... this many times; DISKFAULT_ALWAYS: until cleared */
	DISKFAULT_WRITE_ERRNO,		/* writes, growing and making files; see diskfault.c */
	DISKFAULT_WRITE_COUNT,
	DISKFAULT_WRITE_AFTER,		/* so many that could fail are let through first */
	DISKFAULT_WRITE_MAKING,		/* 1: only making files and folders fails, as without a free inode */
	DISKFAULT_SYNC_DELAY_MS,	/* each sync takes that much longer */
	DISKFAULT_HANG,			/* bits: DISKFAULT_HANG_* */
	DISKFAULT_READ_ERRNO,
	DISKFAULT_READ_COUNT,
	DISKFAULT_READ_DELAY_MS,	/* each read takes that much longer ... */
	DISKFAULT_READ_DELAY_COUNT,	/* ... this many of them; DISKFAULT_ALWAYS: until cleared */
	DISKFAULT_COUNTERS,
	DISKFAULT_SYNCS = DISKFAULT_COUNTERS,	/* that succeeded */
	DISKFAULT_WRITES,		/* that were let through */
	DISKFAULT_FAILED,		/* calls that were made to fail */
	DISKFAULT_DELAYED,		/* syncs that were delayed */
	DISKFAULT_READS,		/* that were let through */
	DISKFAULT_READS_DELAYED,
	DISKFAULT_HUNG,			/* calls that were held back, ever */
	DISKFAULT_HANGING,		/* calls that are held back now */
	DISKFAULT_FIELDS
};

#define DISKFAULT_ALWAYS 0xffffffffu
#define DISKFAULT_HANG_SYNC 1u
#define DISKFAULT_HANG_WRITE 2u		/* and making, renaming, removing files */
#define DISKFAULT_HANG_READ 4u

#endif

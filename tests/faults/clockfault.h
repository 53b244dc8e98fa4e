/*
 * The control file of clockfault.so: what the preloaded library and the test that steers it share.
 *
 * The test makes a file of CLOCKFAULT_BYTES zeros and names it in TV_CLOCKFAULT; the library maps it when the process
 * starts, before any sandbox closes, and looks at it at each call.  All fields are 64 bits, little endian.
 * The other side is tests/system/lib/clockfault.py.
 */
#ifndef TV_TESTS_FAULTS_CLOCKFAULT_H
#define TV_TESTS_FAULTS_CLOCKFAULT_H

#define CLOCKFAULT_BYTES 4096

/* Written by the test between two steps of CLOCKFAULT_SEQ, which is odd meanwhile. */
enum clockfault_field {
	CLOCKFAULT_SEQ,
	CLOCKFAULT_WALL_NS,		/* signed: added to CLOCK_REALTIME */
	CLOCKFAULT_RATE_PPM,		/* signed: CLOCK_MONOTONIC runs that much faster ... */
	CLOCKFAULT_FROM_NS,		/* ... from this time of the real one on, when ... */
	CLOCKFAULT_BASE_NS,		/* ... it showed this; 0 and 0: it never was another */
	CLOCKFAULT_READS,		/* written by the library: readings of either clock */
	CLOCKFAULT_FIELDS
};

#endif

/*
 * The checksum that Berkeley DB puts on each page and each record of its write-ahead log: h = 33 * h + byte, modulo 2^32.
 *
 * Its own function takes a byte at a time, which was an eighth of raftd's processor time under writes.  It is called
 * through the dynamic linker, where the program's definition of the name comes before the library's: so the library
 * uses ours, with the same results.  Where the library was linked otherwise it uses its own, and nothing else changes.
 */
#ifndef TV_RAFTD_STORE_BDB_STORE_SUM_H
#define TV_RAFTD_STORE_BDB_STORE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include <db.h>

uint32_t store_sum(const void *bytes, size_t n);

/* What Berkeley DB 5.3 calls; defined in store_hooks.c.  db is not used. */
uint32_t __ham_func4(DB *db, const void *bytes, uint32_t n);

#endif

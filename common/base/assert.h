/*
 * TV_ASSERT: for our own mistakes only, never for anything a peer, a file or a
 * user controls.  Active in release builds: stopping beats lying.
 */
#ifndef TV_COMMON_BASE_ASSERT_H
#define TV_COMMON_BASE_ASSERT_H

/* Prints the place and the condition to stderr and aborts. */
_Noreturn void tv_assert_failed(const char *file, int line, const char *cond);

#define TV_ASSERT(cond) \
	((cond) ? (void)0 : tv_assert_failed(__FILE__, __LINE__, #cond))

#endif

/*
 * What a good answer says besides.  It stands where the sentence of an error would: before the value, which may be the
 * rest of the body, and where versions that do not know it look at errors only.
 */
#ifndef TV_COMMON_RECORD_OP_NOTE_H
#define TV_COMMON_RECORD_OP_NOTE_H

/* Access control leaves something out that was asked for. */
#define OP_NOTE_FILTERED "filtered"

#endif

/* The schemas of messages.h. */
#define RECORD_SCHEMAS
#include "common/record/messages.h"

/* How a value of each option type is read, printed, compared and freed: one row per type. */
#ifndef TV_COMMON_CONF_CONF_VALUE_H
#define TV_COMMON_CONF_CONF_VALUE_H

#include "common/conf/conf.h"
#include "common/conf/ucl.h"

#define CONF_STRING_BYTES_MAX 4095
#define CONF_SECRET_BYTES_MAX 255	/* as many as a request can carry: OP_NAME_BYTES_MAX */
#define CONF_LIST_ITEMS_MAX 256

struct conf_value_ops {
	size_t size;		/* of the field */
	/* Sets *field (zeroed before). TV_EINVAL: why gets what was expected; TV_ENOMEM. */
	enum tv_err (*read)(const struct conf_opt *o, const struct ucl_node *n, void *field, char *why, size_t cap);
	/* As it would be written; never called for an unset value. */
	void (*print)(const struct conf_opt *o, const void *field, struct buf *out);
	bool (*equal)(const void *a, const void *b);	/* NULL: their bytes are */
	void (*free)(void *field);	/* NULL: nothing to free */
};

const struct conf_value_ops *conf_value_ops(enum conf_type type);
/* The default of an option into the zeroed field; a default that does not read is our mistake. */
enum tv_err conf_value_default(const struct conf_opt *o, void *field);
/* Nothing was given and there is no default: NULL or an empty list. */
bool conf_value_unset(const struct conf_opt *o, const void *field);

#endif

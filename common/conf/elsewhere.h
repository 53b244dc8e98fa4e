/* Keys of Consul's configuration, and of our other files: where they belong here. */
#ifndef TV_COMMON_CONF_ELSEWHERE_H
#define TV_COMMON_CONF_ELSEWHERE_H

/*
 * What is said of a key, or of a block, that the file in which it stands does not know: a phrase that goes on from its
 * name.  NULL: nothing is known of it.  Static.
 */
const char *conf_elsewhere(const char *key);

#endif

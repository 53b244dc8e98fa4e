/*
 * The definitions of services.d (services.d(5)) as records of the registry: text of files in, records with the place
 * that each came from out.  Pure; def_files.h reads the folder.
 */
#ifndef TV_RPCD_REGISTRY_DEF_SET_H
#define TV_RPCD_REGISTRY_DEF_SET_H

#include "rpcd/registry/definition.h"

#define DEF_SET_BYTES_MAX (64u << 20)	/* of all files with what comes of them */

/* May checks be scripts?  That is decided at the start of rpcd: the process that runs them is there or not. */
enum def_scripts { DEF_SCRIPTS_OFF, DEF_SCRIPTS_ON, DEF_SCRIPTS_AFTER_RESTART };

struct def_set {
	struct arena arena;		/* what the records borrow from; may hold tokens */
	struct registry_definition *v;	/* owned */
	uint32_t n, room;
	unsigned files;
	enum def_scripts scripts;	/* checks may be scripts */
	struct registry *registry;	/* whose sidecars keep their ports; NULL: none is known */
	struct sidecar_ports ports;
	unsigned doubles;		/* definitions that a later one of the same id replaced */
};

enum def_form {
	DEF_OWN,			/* of cluster.conf(5) */
	DEF_JSON, DEF_HCL,		/* Consul's */
};

void def_set_init(struct def_set *s, enum def_scripts scripts, struct registry *registry);
/* Frees and wipes all; may be initialised again. */
void def_set_done(struct def_set *s);
/*
 * Adds the definitions of a file of this form.  TV_EFORMAT (of content too),
 * TV_ELIMIT, TV_ENOMEM: errbuf has one sentence, "PATH:LINE: what is wrong, and what to write"; the set is of no more
 * use then but for def_set_done().
 */
enum tv_err def_set_add(struct def_set *s, const char *path, struct span text, enum def_form form, char *errbuf,
    size_t cap);
/*
 * After the last file: services first, then checks, by id, each once.  The later file wins, and in it the later place,
 * as in Consul; the log warns.
 */
void def_set_finish(struct def_set *s);

#endif

/* What `info` shows of the state machine, and a digest for comparing replicas. */
#include <stdlib.h>

#include <sodium.h>

#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/table/table.h"
#include "raftd/store/bdb/store_behind.h"

static void
put_flushes(struct fsm *f, figure_fn *fn, void *ctx)
{
	struct store_behind_stat st = { 0 };

	if (f->env->behind != NULL)
		store_behind_stat(f->env->behind, &st);
	FIGURES_PUT(fn, ctx, { "flush_bytes", st.bytes }, { "flush_pages", st.deferred },
	    { "flush_slowest_us", st.slowest_ns / 1000 }, { "flush_waits", st.waited }, { "flushes", st.syncs });
}

void
fsm_info(struct fsm *f, figure_fn *fn, void *ctx)
{
	const struct fsm *state = f->owner != NULL ? f->owner : f;
	DB_MPOOL_STAT *st;

	for (unsigned i = 0; i < fsm_table_count; i++)
		if (fsm_tables[i].counted)
			figure_put(fn, ctx, fsm_tables[i].title, f->tally[fsm_tables[i].tally]);
	figure_put(fn, ctx, "acl_since", fsm_acl_since(f));
	fsm_rights_info(f, fn, ctx);
	addresses_info(f, fn, ctx);
	FIGURES_PUT(fn, ctx, { "applied_entries", f->applied_entries }, { "batch_pages_fetched", state->warm.fetched },
	    { "batch_pages_read", state->warm.read }, { "transactions", f->txns }, { "transactions_failed", f->txns_undone });
	put_flushes(f, fn, ctx);
	if (f->env->dbenv == NULL || f->env->dbenv->memp_stat(f->env->dbenv, &st, NULL, 0) != 0)
		return;
	FIGURES_PUT(fn, ctx, { "cache_bytes", (uint64_t)st->st_gbytes << 30 | st->st_bytes },
	    { "cache_hits", st->st_cache_hit }, { "cache_misses", st->st_cache_miss });
	free(st);
}

enum tv_err
fsm_digest(struct fsm *f, uint8_t out[32])
{
	crypto_generichash_state h;
	struct tbl_scan s;
	struct tkey all = { 0 };
	struct span key, val;

	crypto_generichash_init(&h, NULL, 0, 32);
	tbl_scan_begin(f, &s, &all);
	while (tbl_next(&s, &key, &val)) {
		uint32_t lens[2] = { (uint32_t)key.len, (uint32_t)val.len };

		crypto_generichash_update(&h, (const uint8_t *)lens, sizeof(lens));
		crypto_generichash_update(&h, key.p, key.len);
		crypto_generichash_update(&h, val.p, val.len);
	}
	tbl_scan_end(&s);
	crypto_generichash_final(&h, out, 32);
	return store_env_err(f->env, f->failed);
}

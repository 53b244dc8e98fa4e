# raftd

# What is stored: the Raft log, and the state machine's tables.
noinst_LIBRARIES += raftd/libraftstore.a
raftd_libraftstore_a_SOURCES = \
	raftd/store_log.c raftd/store_seg.c raftd/store_meta.c raftd/store_env.c \
	raftd/store.h raftd/store_int.h raftd/store_env.h

# Link line after raftd/libraftstore.a (which needs raftd/libraftcore.a for configurations).
STORE_LIBS = common/libtvcore.a $(SODIUM_LIBS) $(BDB_LIBS) $(ZLIB_LIBS) -lpthread

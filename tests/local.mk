# tests
include tests/bench/http.mk
include tests/bench/gossip.mk
include tests/lint/lint.mk
include tests/route.mk
include tests/fuzz/fuzz.mk
include tests/link.mk
include tests/gossip.mk
include tests/keyring.mk
include tests/raftd.mk
include tests/faults/faults.mk
include tests/nemesis/nemesis.mk
include tests/rt.mk
include tests/rpcd.mk
include tests/gossipwire.mk
include tests/store.mk
include tests/raft.mk
EXTRA_DIST += tests/README.md tests/fuzz/README.md

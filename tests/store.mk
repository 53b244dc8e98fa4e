# The stores: the Raft log and the state machine.
if HAVE_CHECK
FSM_LIBS = raftd/libfsm.a raftd/libraftstore.a $(STORE_LIBS) $(CHECK_LIBS)
FSM_KIT = tests/unit/fsm_kit.c tests/unit/fsm_kit.h
check_PROGRAMS += tests/unit/check_fsm_kv
TESTS += tests/unit/check_fsm_kv
tests_unit_check_fsm_kv_SOURCES = tests/unit/check_fsm_kv.c $(FSM_KIT)
tests_unit_check_fsm_kv_LDADD = $(FSM_LIBS)
endif

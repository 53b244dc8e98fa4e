# raftd

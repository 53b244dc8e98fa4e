# ctl

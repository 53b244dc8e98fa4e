/* Lines of the log that had to wait, see log_drain.h. */
#include "common/base/log.h"
#include "common/proc/log_drain.h"

static void
watch_stop(struct log_drain *d)
{
	if (!ev_is_active(&d->io))
		return;
	ev_ref(d->loop);
	ev_io_stop(d->loop, &d->io);
}

static void
on_room(struct ev_loop *loop UNUSED, ev_io *w, int events UNUSED)
{
	log_flush();
	if (log_waiting_fd() != w->fd)
		watch_stop(w->data);
}

static void
on_prepare(struct ev_loop *loop, ev_prepare *w, int events UNUSED)
{
	struct log_drain *d = w->data;
	int fd = log_waiting_fd();

	if (fd < 0 || ev_is_active(&d->io))
		return;
	ev_io_set(&d->io, fd, EV_WRITE);
	ev_io_start(loop, &d->io);
	ev_unref(loop);
}

void
log_drain_start(struct log_drain *d, struct ev_loop *loop)
{
	d->loop = loop;
	ev_prepare_init(&d->prepare, on_prepare);
	ev_init(&d->io, on_room);
	d->prepare.data = d->io.data = d;
	ev_prepare_start(loop, &d->prepare);
	ev_unref(loop);
}

void
log_drain_stop(struct log_drain *d)
{
	watch_stop(d);
	ev_ref(d->loop);
	ev_prepare_stop(d->loop, &d->prepare);
}

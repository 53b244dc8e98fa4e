/* This machine, as /v1/agent/host shows it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/uuid.h"
#include "common/record/record.h"
#include "common/text/json_text.h"
#include "rpcd/api/params.h"
#include "rpcd/api/v1/host.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define FILE_BYTES_MAX (4u << 20)	/* of /proc/cpuinfo: 1.5 KiB for each processor */
#define LISTS_MEMORY (16u << 20)
#define FIELDS_OF_SYSINFO 6		/* of host_memory; the rest is in /proc/meminfo */

/* As Consul has them.  Numbers are JSON as text: so those that are not known are left out, and 0 is not. */
RECORD_LOCAL(host_memory,
	(JSON, total, SF_OMITEMPTY), (JSON, free, SF_OMITEMPTY), (JSON, buffers, SF_OMITEMPTY),
	(JSON, shared, SF_OMITEMPTY), (JSON, swaptotal, SF_OMITEMPTY), (JSON, swapfree, SF_OMITEMPTY),
	(JSON, available, SF_OMITEMPTY), (JSON, active, SF_OMITEMPTY), (JSON, inactive, SF_OMITEMPTY),
	(JSON, dirty, SF_OMITEMPTY), (JSON, writeback, SF_OMITEMPTY), (JSON, mapped, SF_OMITEMPTY),
	(JSON, slab, SF_OMITEMPTY), (JSON, sreclaimable, SF_OMITEMPTY), (JSON, sunreclaim, SF_OMITEMPTY),
	(JSON, commitlimit, SF_OMITEMPTY), (JSON, committedas, SF_OMITEMPTY), (JSON, cached, SF_OMITEMPTY),
	(JSON, used, SF_OMITEMPTY), (JSON, usedPercent, SF_OMITEMPTY))
RECORD_LOCAL(host_cpu,
	(JSON, cpu), (CONST, cores, "1"), (STR, vendorId, SF_OMITEMPTY), (STR, family, SF_OMITEMPTY),
	(STR, model, SF_OMITEMPTY), (STR, modelName, SF_OMITEMPTY), (JSON, stepping, SF_OMITEMPTY),
	(STR, microcode, SF_OMITEMPTY), (JSON, mhz, SF_OMITEMPTY), (JSON, cacheSize, SF_OMITEMPTY),
	(STR, physicalId, SF_OMITEMPTY), (STR, coreId, SF_OMITEMPTY), (JSON, flags, SF_OMITEMPTY))
RECORD_LOCAL(host_system,
	(CONST, os, "\"linux\""), (STR, platform, SF_OMITEMPTY), (STR, platformFamily, SF_OMITEMPTY),
	(STR, platformVersion, SF_OMITEMPTY), (STR, hostid, SF_OMITEMPTY), (STR, hostname, SF_OMITEMPTY),
	(STR, kernelVersion, SF_OMITEMPTY), (STR, kernelArch, SF_OMITEMPTY), (JSON, uptime, SF_OMITEMPTY),
	(JSON, bootTime, SF_OMITEMPTY))
RECORD_LOCAL(host_disk,
	(STR, path), (STR, fstype, SF_OMITEMPTY), (JSON, total, SF_OMITEMPTY), (JSON, free, SF_OMITEMPTY),
	(JSON, used, SF_OMITEMPTY), (JSON, usedPercent, SF_OMITEMPTY), (JSON, inodesTotal, SF_OMITEMPTY),
	(JSON, inodesUsed, SF_OMITEMPTY), (JSON, inodesFree, SF_OMITEMPTY), (JSON, inodesUsedPercent, SF_OMITEMPTY))
RECORD_LOCAL(host_shown,
	(OBJ, Memory, host_memory), (OBJS, CPU, host_cpu), (OBJ, Host, host_system), (OBJ, Disk, host_disk),
	(I64, CollectionTime), (STRS, Errors, SF_NULLEMPTY))

/* -- files of lines -- */

/* The whole file from its beginning, as text. */
static const char *
file_text(int fd, struct buf *b)
{
	ssize_t n = 1;

	while (fd >= 0 && n > 0 && buf_room(b, 4096) != NULL) {
		n = pread(fd, b->data + b->len, 4096, (off_t)b->len);
		b->len += n > 0 ? (size_t)n : 0;
	}
	return buf_cstr(b);
}

/* Takes the next line off *at, as its name and what follows the separator, without blanks and quotes around them. */
static bool
next_line(struct span *at, char separator, struct span *name, struct span *value)
{
	const uint8_t *end, *mid;

	if (at->len == 0)
		return false;
	end = memchr(at->p, '\n', at->len);
	*name = span_of(at->p, end == NULL ? at->len : (size_t)(end - at->p));
	*at = end == NULL ? SPAN_NONE : span_of(end + 1, at->len - name->len - 1);
	mid = name->len == 0 ? NULL : memchr(name->p, separator, name->len);
	*value = mid == NULL ? SPAN_NONE : span_of(mid + 1, name->len - (size_t)(mid + 1 - name->p));
	name->len -= mid == NULL ? 0 : value->len + 1;
	while (name->len > 0 && strchr(" \t", name->p[name->len - 1]) != NULL)
		name->len--;
	while (value->len > 0 && strchr(" \t\"'", value->p[0]) != NULL)
		*value = span_of(value->p + 1, value->len - 1);
	while (value->len > 0 && strchr(" \t\"'", value->p[value->len - 1]) != NULL)
		value->len--;
	return true;
}

static struct span
leading_digits(struct span text)
{
	size_t n = 0;

	while (n < text.len && text.p[n] >= '0' && text.p[n] <= '9')
		n++;
	return span_of(text.p, n);
}

/* -- before the sandbox -- */

static int
open_file(const char *path, int *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*err = fd < 0 ? errno : 0;
	return fd;
}

/* The first word. */
static void
copy_word(char out[64], struct span value)
{
	snprintf(out, 64, "%.*s", (int)value.len, (const char *)value.p);
	out[strcspn(out, " ")] = '\0';
}

/* os-release(5). */
static void
read_release(struct host *h)
{
	struct buf b = BUF_INIT(65536);
	struct span rest, name, value;
	int err, fd = open_file("/etc/os-release", &err);

	if (fd < 0)
		fd = open_file("/usr/lib/os-release", &err);
	rest = span_str(file_text(fd, &b));
	while (next_line(&rest, '=', &name, &value))
		if (span_eqs(name, "ID"))
			copy_word(h->platform, value);
		else if (span_eqs(name, "VERSION_ID"))
			copy_word(h->version, value);
		else if (span_eqs(name, "ID_LIKE"))
			copy_word(h->family, value);
	if (h->family[0] == '\0')
		memcpy(h->family, h->platform, sizeof(h->family));
	if (fd >= 0)
		close(fd);
	buf_done(&b);
}

/* machine-id(5) is not for the network: what is shown is the same for this machine, and does not tell it. */
static void
read_machine_id(struct host *h)
{
	static const char purpose[] = "triumvir /v1/agent/host hostid";
	struct buf b = BUF_INIT(4096);
	uint8_t id[UUID_BYTES];
	int err, fd = open_file("/etc/machine-id", &err);
	size_t n = strspn(file_text(fd, &b), "0123456789abcdef");

	if (n == 32 && crypto_generichash(id, sizeof(id), (const uint8_t *)purpose, strlen(purpose), b.data, n) == 0)
		uuid_v4(id, h->id);
	if (fd >= 0)
		close(fd);
	buf_done(&b);
}

void
host_open(struct host *h)
{
	*h = (struct host){ .meminfo = -1 };
	h->meminfo = open_file("/proc/meminfo", &h->meminfo_errno);
	h->cpuinfo = open_file("/proc/cpuinfo", &h->cpuinfo_errno);
	read_release(h);
	read_machine_id(h);
}

/* -- the answer -- */

static struct span
number(uint64_t v, struct arena *a)
{
	return arena_printf(a, "%" PRIu64, v);
}

static struct span
percent(uint64_t part, uint64_t of, struct arena *a)
{
	struct buf b = BUF_INIT(64);
	struct span text;

	json_number(of == 0 ? 0 : (double)part * 100 / (double)of, &b);
	text = arena_copy(a, buf_span(&b));
	buf_done(&b);
	return text;
}

/* What the kernel counts as available, and what it uses for files, is in /proc/meminfo alone. */
static void
read_meminfo(struct host_memory *m, struct span rest, const struct sysinfo *s, struct arena *a)
{
	const struct schema_field *f;
	uint64_t total = 0, files = 0, free = 0, kib;
	struct span name, value;

	while (next_line(&rest, ':', &name, &value)) {
		if (u64_parse(leading_digits(value), &kib) != TV_OK)
			kib = 0;
		if (span_eqs(name, "MemTotal"))
			total = kib;
		else if (span_eqs(name, "MemFree"))
			free = kib;
		else if (span_eqs(name, "Cached") || span_eqs(name, "SReclaimable"))
			files += kib;
		if (span_starts(name, span_str("Mem")))
			name = span_of(name.p + 3, name.len - 3);
		/* Fields have the names of lines, without case and underscores. */
		f = schema_field_named(&host_memory_schema, FIELDS_OF_SYSINFO, name, true);
		if (f != NULL)
			*(struct span *)(void *)((uint8_t *)m + f->offset) = number(kib * 1024, a);
	}
	m->cached = number(files * 1024, a);
	files += free + s->bufferram * s->mem_unit / 1024;
	m->used = number(total > files ? (total - files) * 1024 : 0, a);
	m->usedPercent = percent(total > files ? total - files : 0, total, a);
}

static void
read_memory(const struct host *h, struct host_memory *m, struct arena *a)
{
	struct buf text = BUF_INIT(65536);
	struct sysinfo s;

	if (sysinfo(&s) == 0) {
		m->total = number(s.totalram * s.mem_unit, a);
		m->free = number(s.freeram * s.mem_unit, a);
		m->buffers = number(s.bufferram * s.mem_unit, a);
		m->shared = number(s.sharedram * s.mem_unit, a);
		m->swaptotal = number(s.totalswap * s.mem_unit, a);
		m->swapfree = number(s.freeswap * s.mem_unit, a);
		if (file_text(h->meminfo, &text)[0] != '\0')
			read_meminfo(m, buf_span(&text), &s, a);
	}
	buf_done(&text);
}

/* ["fpu","vme"] */
static struct span
list_of_words(struct span text, struct arena *a)
{
	struct buf b = BUF_INIT(FILE_BYTES_MAX);
	const char *before = "[";

	for (size_t n; text.len > 0; text = n < text.len ? span_of(text.p + n + 1, text.len - n - 1) : SPAN_NONE) {
		const uint8_t *end = memchr(text.p, ' ', text.len);

		n = end == NULL ? text.len : (size_t)(end - text.p);
		buf_puts(&b, before);
		json_quote(span_of(text.p, n), &b);
		before = ",";
	}
	buf_puts(&b, before[0] == '[' ? "[]" : "]");
	text = arena_copy(a, buf_span(&b));
	buf_done(&b);
	return text;
}

/* A line of /proc/cpuinfo, if it is one that is shown. */
static void
read_cpu_line(struct host_cpu *c, struct span name, struct span value, struct arena *a)
{
	const struct { const char *name; struct span *to; bool number; } lines[] = {
		{ "vendor_id", &c->vendorId, false }, { "cpu family", &c->family, false },
		{ "model", &c->model, false }, { "stepping", &c->stepping, true },
		{ "physical id", &c->physicalId, false }, { "core id", &c->coreId, false },
		{ "model name", &c->modelName, false }, { "cpu MHz", &c->mhz, true },
		{ "cache size", &c->cacheSize, true }, { "microcode", &c->microcode, false },
	};

	for (size_t i = 0; i < NITEMS(lines); i++)
		if (span_eqs(name, lines[i].name))
			*lines[i].to = lines[i].number ? leading_digits(value) : value;
	if (span_eqs(name, "flags") || span_eqs(name, "Features"))
		c->flags = list_of_words(value, a);
}

/* Without /proc/cpuinfo: the numbers of those that we may run on. */
static uint32_t
allowed_cpus(struct host_cpu v[CPU_SETSIZE], struct arena *a)
{
	uint32_t n = 0;
	cpu_set_t set;

	for (unsigned i = 0; sched_getaffinity(0, sizeof(set), &set) == 0 && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			v[n++].cpu = number(i, a);
	return n;
}

/* The list borrows the text of /proc/cpuinfo. */
static void
read_cpus(struct span text, struct obj_list *out, struct arena *a)
{
	struct span rest = text, name, value;
	struct host_cpu *v;
	uint32_t n = 0;

	while (next_line(&rest, ':', &name, &value))
		n += span_eqs(name, "processor");
	v = arena_array(a, text.len > 0 ? n : CPU_SETSIZE, sizeof(*v));
	if (v != NULL)
		*out = (struct obj_list){ v, text.len > 0 ? n : allowed_cpus(v, a), true };
	for (n = 0, rest = text; v != NULL && next_line(&rest, ':', &name, &value);)
		if (span_eqs(name, "processor"))
			v[n++].cpu = leading_digits(value);
		else if (n > 0)
			read_cpu_line(&v[n - 1], name, value, a);
}

/* By what the kernel says of its kind; "" another one. */
static const char *
file_system(const char *folder)
{
	static const struct { uint32_t magic; const char *name; } known[] = {
		{ 0xef53, "ext2/ext3" }, { 0x58465342, "xfs" }, { 0x9123683e, "btrfs" }, { 0x2fc12fc1, "zfs" },
		{ 0x01021994, "tmpfs" }, { 0x794c7630, "overlayfs" }, { 0xf2f52010, "f2fs" }, { 0x6969, "nfs" },
	};
	struct statfs f;

	for (size_t i = 0; statfs(folder, &f) == 0 && i < NITEMS(known); i++)
		if ((uint32_t)f.f_type == known[i].magic)
			return known[i].name;
	return "";
}

/* 0, or the errno. */
static int
read_disk(const char *folder, struct host_disk *d, struct arena *a)
{
	struct statvfs v;
	uint64_t used, free;

	d->path = span_str(folder);
	if (statvfs(folder, &v) != 0)
		return errno;
	used = (v.f_blocks - v.f_bfree) * v.f_frsize;
	free = v.f_bavail * v.f_frsize;
	d->fstype = span_str(file_system(folder));
	d->total = number(v.f_blocks * v.f_frsize, a);
	d->free = number(free, a);
	d->used = number(used, a);
	d->usedPercent = percent(used, used + free, a);
	d->inodesTotal = number(v.f_files, a);
	d->inodesUsed = number(v.f_files - v.f_ffree, a);
	d->inodesFree = number(v.f_ffree, a);
	d->inodesUsedPercent = percent(v.f_files - v.f_ffree, v.f_files, a);
	return 0;
}

void
host_json(const struct host *h, const char *data_dir, struct buf *out)
{
	struct arena a = ARENA_INIT(LISTS_MEMORY);
	struct buf cpus = BUF_INIT(FILE_BYTES_MAX);
	struct span errors[3];
	struct host_shown v = { .CollectionTime = clock_wall_ns(), .Errors = { .v = errors } };
	struct utsname u = { .nodename = "" };
	struct sysinfo s;

	read_memory(h, &v.Memory, &a);
	read_cpus(span_str(file_text(h->cpuinfo, &cpus)), &v.CPU, &a);
	(void)uname(&u);
	v.Host = (struct host_system){
		.platform = span_str(h->platform), .platformFamily = span_str(h->family),
		.platformVersion = span_str(h->version), .hostid = span_str(h->id), .hostname = span_str(u.nodename),
		.kernelVersion = span_str(u.release), .kernelArch = span_str(u.machine),
	};
	if (sysinfo(&s) == 0) {
		v.Host.uptime = number((uint64_t)s.uptime, &a);
		v.Host.bootTime = number((uint64_t)(v.CollectionTime / 1000000000 - s.uptime), &a);
	}
	const struct { const char *what; int err; } failed[] = {
		{ "/proc/meminfo", h->meminfo_errno }, { "/proc/cpuinfo", h->cpuinfo_errno },
		{ "data_dir", read_disk(data_dir, &v.Disk, &a) },
	};
	for (size_t i = 0; i < NITEMS(failed); i++)
		if (failed[i].err != 0)
			errors[v.Errors.n++] = arena_printf(&a, "%s: %s", failed[i].what, strerror(failed[i].err));
	v.Errors.set = v.Errors.n > 0;
	schema_json_rec(&host_shown_schema, &v, out);
	buf_done(&cpus);
	arena_done(&a);
}

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
#include "common/text/json_text.h"
#include "rpcd/api/v1/host.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define FILE_BYTES_MAX (4u << 20)	/* of /proc/cpuinfo: 1.5 KiB for each processor */

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

/* The digits at the beginning; spans have no end that strtoull() would see. */
static uint64_t
leading_number(struct span text)
{
	uint64_t v = 0;

	for (size_t i = 0; i < text.len && text.p[i] >= '0' && text.p[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(text.p[i] - '0');
	return v;
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
keep(char out[64], struct span value)
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
			keep(h->platform, value);
		else if (span_eqs(name, "VERSION_ID"))
			keep(h->version, value);
		else if (span_eqs(name, "ID_LIKE"))
			keep(h->family, value);
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

static char
last_of(const struct buf *out)
{
	return out->len > 0 ? (char)out->data[out->len - 1] : '\0';
}

static void
put_name(struct buf *out, const char *name)
{
	buf_printf(out, "%s\"%s\":", last_of(out) == '{' ? "" : ",", name);
}

static void
put_number(struct buf *out, const char *name, uint64_t v)
{
	put_name(out, name);
	buf_printf(out, "%" PRIu64, v);
}

static void
put_percent(struct buf *out, const char *name, uint64_t part, uint64_t of)
{
	put_name(out, name);
	json_number(of == 0 ? 0 : (double)part * 100 / (double)of, out);
}

/* "" is left out. */
static void
put_text(struct buf *out, const char *name, struct span text)
{
	if (text.len == 0)
		return;
	put_name(out, name);
	json_quote(text, out);
}

/* What the kernel counts as available, and what it uses for files, is in /proc/meminfo alone. */
static void
put_meminfo(struct buf *out, struct span rest, const struct sysinfo *s)
{
	static const char *const names[][2] = {
		{ "MemAvailable", "available" }, { "Active", "active" }, { "Inactive", "inactive" },
		{ "Dirty", "dirty" }, { "Writeback", "writeback" }, { "Slab", "slab" },
		{ "SReclaimable", "sreclaimable" }, { "SUnreclaim", "sunreclaim" }, { "Mapped", "mapped" },
		{ "CommitLimit", "commitlimit" }, { "Committed_AS", "committedas" },
	};
	uint64_t total = 0, files = 0, free = 0, kib;
	struct span name, value;

	while (next_line(&rest, ':', &name, &value)) {
		kib = leading_number(value);
		if (span_eqs(name, "MemTotal"))
			total = kib;
		else if (span_eqs(name, "MemFree"))
			free = kib;
		else if (span_eqs(name, "Cached") || span_eqs(name, "SReclaimable"))
			files += kib;
		for (size_t i = 0; i < NITEMS(names); i++)
			if (span_eqs(name, names[i][0]))
				put_number(out, names[i][1], kib * 1024);
	}
	put_number(out, "cached", files * 1024);
	files += free + s->bufferram * s->mem_unit / 1024;
	put_number(out, "used", total > files ? (total - files) * 1024 : 0);
	put_percent(out, "usedPercent", total > files ? total - files : 0, total);
}

static void
put_memory(const struct host *h, struct buf *out)
{
	struct buf text = BUF_INIT(65536);
	struct sysinfo s;

	buf_puts(out, "{\"Memory\":{");
	if (sysinfo(&s) == 0) {
		put_number(out, "total", s.totalram * s.mem_unit);
		put_number(out, "free", s.freeram * s.mem_unit);
		put_number(out, "buffers", s.bufferram * s.mem_unit);
		put_number(out, "shared", s.sharedram * s.mem_unit);
		put_number(out, "swaptotal", s.totalswap * s.mem_unit);
		put_number(out, "swapfree", s.freeswap * s.mem_unit);
		if (file_text(h->meminfo, &text)[0] != '\0')
			put_meminfo(out, buf_span(&text), &s);
	}
	buf_u8(out, '}');
	buf_done(&text);
}

static void
put_flags(struct buf *out, struct span flags)
{
	const char *before = "[";

	put_name(out, "flags");
	for (size_t n; flags.len > 0; flags = n < flags.len ? span_of(flags.p + n + 1, flags.len - n - 1) : SPAN_NONE) {
		const uint8_t *end = memchr(flags.p, ' ', flags.len);

		n = end == NULL ? flags.len : (size_t)(end - flags.p);
		buf_puts(out, before);
		json_quote(span_of(flags.p, n), out);
		before = ",";
	}
	buf_puts(out, before[0] == '[' ? "[]" : "]");
}

/* A line of /proc/cpuinfo, if it is one that is shown. */
static void
put_cpuinfo(struct buf *out, struct span name, struct span value)
{
	static const struct { const char *theirs, *ours; bool number; } names[] = {
		{ "vendor_id", "vendorId", false }, { "cpu family", "family", false }, { "model", "model", false },
		{ "stepping", "stepping", true }, { "physical id", "physicalId", false },
		{ "core id", "coreId", false }, { "model name", "modelName", false }, { "cpu MHz", "mhz", true },
		{ "cache size", "cacheSize", true }, { "microcode", "microcode", false },
	};

	for (size_t i = 0; i < NITEMS(names); i++) {
		if (!span_eqs(name, names[i].theirs))
			continue;
		if (!names[i].number) {
			put_text(out, names[i].ours, value);
		} else if (value.len > 0 && value.p[0] >= '0' && value.p[0] <= '9') {
			put_number(out, names[i].ours, leading_number(value));
		}
	}
	if (span_eqs(name, "flags") || span_eqs(name, "Features"))
		put_flags(out, value);
}

/* Without /proc/cpuinfo: the numbers of those that we may run on. */
static void
put_processors(struct buf *out)
{
	const char *before = "";
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return;
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set)) {
			buf_printf(out, "%s{\"cpu\":%u,\"cores\":1}", before, i);
			before = ",";
		}
}

static void
put_cpus(const struct host *h, struct buf *out)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	struct span rest = span_str(file_text(h->cpuinfo, &text)), name, value;
	const char *end = "";

	buf_puts(out, ",\"CPU\":[");
	if (rest.len == 0)
		put_processors(out);
	while (next_line(&rest, ':', &name, &value))
		if (span_eqs(name, "processor")) {
			buf_printf(out, "%s{\"cpu\":%" PRIu64 ",\"cores\":1", end[0] == '\0' ? "" : "},",
			    leading_number(value));
			end = "}";
		} else if (end[0] != '\0') {
			put_cpuinfo(out, name, value);
		}
	buf_printf(out, "%s]", end);
	buf_done(&text);
}

static void
put_host(const struct host *h, int64_t now_ns, struct buf *out)
{
	struct utsname u;
	struct sysinfo s;

	buf_puts(out, ",\"Host\":{");
	put_text(out, "os", span_str("linux"));
	put_text(out, "platform", span_str(h->platform));
	put_text(out, "platformFamily", span_str(h->family));
	put_text(out, "platformVersion", span_str(h->version));
	put_text(out, "hostid", span_str(h->id));
	if (uname(&u) == 0) {
		put_text(out, "hostname", span_str(u.nodename));
		put_text(out, "kernelVersion", span_str(u.release));
		put_text(out, "kernelArch", span_str(u.machine));
	}
	if (sysinfo(&s) == 0) {
		put_number(out, "uptime", (uint64_t)s.uptime);
		put_number(out, "bootTime", (uint64_t)(now_ns / 1000000000 - s.uptime));
	}
	buf_u8(out, '}');
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
put_disk(const char *folder, struct buf *out)
{
	struct statvfs v;
	int err = statvfs(folder, &v) == 0 ? 0 : errno;

	buf_puts(out, ",\"Disk\":{");
	put_text(out, "path", span_str(folder));
	if (err == 0) {
		uint64_t used = (v.f_blocks - v.f_bfree) * v.f_frsize, free = v.f_bavail * v.f_frsize;

		put_text(out, "fstype", span_str(file_system(folder)));
		put_number(out, "total", v.f_blocks * v.f_frsize);
		put_number(out, "free", free);
		put_number(out, "used", used);
		put_percent(out, "usedPercent", used, used + free);
		put_number(out, "inodesTotal", v.f_files);
		put_number(out, "inodesUsed", v.f_files - v.f_ffree);
		put_number(out, "inodesFree", v.f_ffree);
		put_percent(out, "inodesUsedPercent", v.f_files - v.f_ffree, v.f_files);
	}
	buf_u8(out, '}');
	return err;
}

static void
put_error(struct buf *out, const char *what, int err)
{
	if (err == 0)
		return;
	buf_puts(out, last_of(out) == ':' ? "[" : ",");
	buf_printf(out, "\"%s: %s\"", what, strerror(err));
}

void
host_json(const struct host *h, const char *data_dir, struct buf *out)
{
	int64_t now_ns = clock_wall_ns();
	int disk;

	put_memory(h, out);
	put_cpus(h, out);
	put_host(h, now_ns, out);
	disk = put_disk(data_dir, out);
	buf_printf(out, ",\"CollectionTime\":%" PRId64 ",\"Errors\":", now_ns);
	put_error(out, "/proc/meminfo", h->meminfo_errno);
	put_error(out, "/proc/cpuinfo", h->cpuinfo_errno);
	put_error(out, "data_dir", disk);
	buf_puts(out, last_of(out) == ':' ? "null}" : "]}");
}

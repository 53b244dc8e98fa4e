/* clusterctl dns: what DNS answers to a question, and why.  rpcd explains it; this shows it. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

/* "web.service.consul. A over UDP (512 bytes): NOERROR, 3 records, 84 bytes" */
static void
print_head(const json_t *e)
{
	const char *rcode = json_text(e, "Rcode");
	size_t records = json_array_size(json_object_get(e, "Records"));

	printf("%s %s over ", json_text(e, "Name"), json_text(e, "Type"));
	if (strcmp(json_text(e, "Transport"), "tcp") == 0)
		printf("TCP: ");
	else
		printf("UDP (%" JSON_INTEGER_FORMAT " bytes): ", json_int(e, "UDPSize"));
	if (rcode[0] == '\0')
		puts("forwarded");
	else if (json_int(e, "Bytes") == 0)
		puts(rcode);
	else
		printf("%s, %zu record%s, %" JSON_INTEGER_FORMAT " bytes\n", rcode, records, records == 1 ? "" : "s",
		    json_int(e, "Bytes"));
	printf("  it means: %s\n", json_text(e, "Meaning"));
	if (json_text(e, "Why")[0] != '\0')
		printf("  why: %s\n", json_text(e, "Why"));
	if (!json_flag(e, "Served"))
		puts("  but this node serves no DNS: dns_port is 0 in its rpcd.conf");
}

static void
print_sources(const json_t *e)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(e, "Sources"), i, s) {
		const char *error = json_text(s, "Error"), *result = json_text(s, "Result");
		json_int_t n = json_int(s, "Instances");

		printf("  looked up: %s in %s: %s; %s", json_text(s, "Asked"), json_text(s, "Datacenter"),
		    json_text(s, "From"), result);
		if (strcmp(result, "found") == 0 && n != 1)
			printf(", %" JSON_INTEGER_FORMAT " instances", n);
		if (json_int(s, "AgeMs") > 0)
			printf(", %.1f s old", (double)json_int(s, "AgeMs") / 1000);
		if (json_int(s, "LastContactMs") > 0 && !json_flag(s, "Cached"))
			printf(", %" JSON_INTEGER_FORMAT " ms behind the leader", json_int(s, "LastContactMs"));
		printf("%s%s\n", error[0] != '\0' ? ": " : "", error);
	}
}

/* Each time to live, and the key that sets it, once. */
static void
print_ttls(const json_t *records)
{
	const json_t *r, *before;
	size_t i, k;

	json_array_foreach(records, i, r) {
		json_array_foreach(records, k, before)
			if (k >= i || (json_int(before, "TTL") == json_int(r, "TTL") &&
			    strcmp(json_text(before, "TTLFrom"), json_text(r, "TTLFrom")) == 0))
				break;
		if (k == i)
			printf("  TTL %" JSON_INTEGER_FORMAT ": %s\n", json_int(r, "TTL"), json_text(r, "TTLFrom"));
	}
}

static const char *
answered(json_t *row)
{
	const char *reason = json_text(row, "Reason");

	if (json_flag(row, "Answered"))
		return "yes";
	return row_keep(row, "answered", json_sprintf("no: %s", reason));
}

static void
print_explanation(json_t *e)
{
	json_t *list = json_object_get(e, "Records");
	json_int_t hidden = json_int(e, "InstancesNotShown");

	print_head(e);
	print_sources(e);
	print_ttls(list);
	if (json_array_size(list) > 0) {
		putchar('\n');
		out_rows(list, COLUMNS(COL("Section"), COL("Name"), COL("TTL"), COL("Type"), COL("Data")));
	}
	list = json_object_get(e, "Instances");
	if (json_array_size(list) > 0) {
		putchar('\n');
		out_rows(list, COLUMNS(COL("Node"), COL("ID"), COL("Address"), COL("Port"), COL("State"),
		    COL_BY("Answered", answered)));
	}
	if (hidden > 0)
		printf("and %" JSON_INTEGER_FORMAT " more instances, which are not shown\n", hidden);
}

int
cmd_dns(struct ctl *ctl)
{
	return ctl_show(ctl, "/v1/agent/dns/", ctl->argv[0], "", print_explanation);
}

/*
 * What limits and accounts add to a request.
 *
 *	bench_api [REQUESTS]
 *
 * One line for each way, of processor time in nanoseconds: a read of a key by the API without sockets, up to the router,
 * which is a fake, and its end; without limits, with a rate of all, and with those of sources and tokens, too; then what
 * the accounts take of it, and one request in ten thousand sources.
 */
#include "common/base/clock.h"
#include "tests/unit/api_fakes.h"

#define REQUESTS 1000000
#define SOURCES 10000

static double
spent(void)
{
	return (double)clock_thread_cpu().ns;
}

static double
requests_cost(unsigned n, unsigned sources)
{
	char ip[32];
	struct request_head head = { .client_ip = ip, .on_loopback = true, .token = "b1946ac9-2492-4d23-8e3b-1f6c1d5a3c11" };
	double begun = spent();

	for (unsigned i = 0; i < n; i++) {
		snprintf(ip, sizeof(ip), "127.1.%u.%u", i % sources / 250, i % sources % 250);
		api_end(fake_begin("GET", "/v1/kv/app/web/port", NULL, &head));
	}
	return (spent() - begun) / n;
}

static void
rate(enum request_limit limit, uint64_t thousandths)
{
	fake_conf.request_mode = REQUESTS_ENFORCING;
	for (unsigned k = 0; k < 2; k++)
		fake_conf.request_rates[limit][k] = thousandths;
	if (!limits_configure(&fake_api.limits, &fake_conf))
		abort();
}

static double
accounts_cost(unsigned n)
{
	struct request_head head = { .client_ip = "127.1.0.1", .token = "b1946ac9-2492-4d23-8e3b-1f6c1d5a3c11" };
	struct request *r;
	double begun;

	fake_conf.http_plaintext_tokens = true;
	r = fake_begin("GET", "/v1/kv/app/web/port", NULL, &head);
	begun = spent();
	for (unsigned i = 0; i < n; i++)
		accounts_add(r, MONO_MS(1));
	begun = (spent() - begun) / n;
	api_end(r);
	return begun;
}

int
main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : REQUESTS;

	fake_setup();
	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		for (unsigned k = 0; k < 2; k++)
			fake_conf.request_rates[i][k] = CONF_NO_RATE;
	(void)requests_cost(n / 10 + 1, 1);
	printf("no limits     %7.1f ns\n", requests_cost(n, 1));
	rate(LIMIT_ALL, 1000000000);
	printf("a rate of all %7.1f ns\n", requests_cost(n, 1));
	rate(LIMIT_SOURCE, 1000000000);
	rate(LIMIT_TOKEN, 1000000000);
	printf("all three     %7.1f ns\n", requests_cost(n, 1));
	printf("10,000 sources%7.1f ns\n", requests_cost(n, SOURCES));
	printf("accounts      %7.1f ns\n", accounts_cost(n));
	fake_teardown();
	return 0;
}

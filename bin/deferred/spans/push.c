/* SPDX-License-Identifier: MIT */
#include "push.h"

#include "base/clock.h"
#include "base/random.h"
#include "deferred.h"
#include "port/params.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define TRACES "/v1/traces"
#define TOLD_MAX 4096              /* of an answer; more is not kept */
#define ANSWER_MAX (64 * 1024)     /* and beyond this it is not read */
#define RETRY_AFTER_MAX_MS 60000   /* a collector cannot hold us up longer */
#define GIVE_UP_MS (5 * 60 * 1000) /* without --follow */
#define SAY_MS 60000
#define NAP_MS 100

/* https://opentelemetry.io/docs/specs/otlp: other failures are not retried. */
static const long retryable[] = { 429, 502, 503, 504 };

static const struct deferred_backoff backoff = { 1000, 30000, 2, 0, 0 };

struct push {
	CURL *curl;
	char *url;
	struct curl_slist *headers;
	bool patient;
	const volatile sig_atomic_t *ended;
	uint64_t said_ns; /* a failure was reported then */
	char curl_error[CURL_ERROR_SIZE];
	char told[TOLD_MAX + 1]; /* the beginning of the answer */
	size_t told_len, answer_len;
};

/* ---- settings ---------------------------------------------------------------------------------- */

/* Credentials in a URL would be in the list of processes and in messages. */
static char *url_of(const struct cli *cli, const char *endpoint, int *rc)
{
	const char *host = strncasecmp(endpoint, "http://", 7) == 0    ? endpoint + 7
			   : strncasecmp(endpoint, "https://", 8) == 0 ? endpoint + 8
								       : "";
	size_t len = strlen(endpoint);
	char *url = NULL;

	if (!*host || strcspn(host, "/?#@") == 0) {
		*rc = cli_bad_value(cli, "for example http://127.0.0.1:4318", "--endpoint", endpoint,
				    "is not a URL with http or https");
		return NULL;
	}
	if (host[strcspn(host, "/?#@")] == '@') {
		*rc = cli_misuse(cli, "set otlp.headers = \"authorization=Basic ...\" in the config file",
				 "option '--endpoint': a URL with a user name or password is refused");
		return NULL;
	}
	while (len > 0 && endpoint[len - 1] == '/')
		len--;
	if (len > strlen(TRACES) && strncmp(endpoint + len - strlen(TRACES), TRACES, strlen(TRACES)) == 0)
		len -= strlen(TRACES);
	*rc = asprintf(&url, "%.*s%s", (int)len, endpoint, TRACES) < 0 ? EX_OSERR : 0;
	return *rc == 0 ? url : NULL;
}

static bool add_header(struct push *p, const char *line)
{
	struct curl_slist *more = curl_slist_append(p->headers, line);

	p->headers = more ? more : p->headers;
	return more;
}

/* "api-key=abc,authorization=Bearer%20xyz", as in OTEL_EXPORTER_OTLP_HEADERS. */
static int push_headers(struct push *p, const struct cli *cli, const char *text)
{
	static const char token[] = "!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char *copy = strdup(text), *save = NULL;
	struct deferred_error err = { 0 };

	for (char *one = copy ? strtok_r(copy, ",", &save) : NULL; one && !err.code; one = strtok_r(NULL, ",", &save)) {
		char *name = one + strspn(one, " \t"), *equals = strchr(name, '='), *value, *line = NULL;

		if (!equals || equals == name || (size_t)(equals - name) != strspn(name, token)) {
			error_set(&err, DEFERRED_ECONFIG, "config",
				  "setting 'otlp.headers': header %s\nwrite NAME=VALUE, separated by commas",
				  equals ? "has no valid name" : "has no '='");
			break;
		}
		value = curl_easy_unescape(p->curl, equals + 1, 0, NULL);
		*equals = '\0';
		if (value && value[strcspn(value, "\r\n")])
			error_set(&err, DEFERRED_ECONFIG, "config",
				  "setting 'otlp.headers': header '%.64s' has a line end in its value\n"
				  "remove %%0A and %%0D from it",
				  name);
		else if (!value || asprintf(&line, "%s: %s", name, value) < 0 || !add_header(p, line))
			error_set(&err, DEFERRED_ENOMEM, "config", "out of memory");
		curl_free(value);
		free(line);
	}
	free(copy);
	return err.code ? cli_fail(cli, &err) : 0;
}

/* ---- one request ------------------------------------------------------------------------------- */

static size_t keep_answer(char *bytes, size_t size, size_t n, void *data)
{
	struct push *p = data;
	size_t room = TOLD_MAX - p->told_len, len = size * n;

	p->answer_len += len;
	memcpy(p->told + p->told_len, bytes, len < room ? len : room);
	p->told_len += len < room ? len : room;
	return p->answer_len > ANSWER_MAX ? 0 : len;
}

static int look_for_end(void *data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct push *p = data;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return *p->ended;
}

/* Returns the status of the answer; 0: there is none. *wait_ms: what the collector asks for, 0: nothing. */
static long post_line(struct push *p, const char *line, int64_t *wait_ms)
{
	curl_off_t after_s = 0;
	long status = 0;
	CURLcode code;

	p->told_len = p->answer_len = 0;
	p->curl_error[0] = '\0';
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, line);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(line));
	code = curl_easy_perform(p->curl);
	p->told[p->told_len] = '\0';
	*wait_ms = 0;
	/* An answer that is too long is known well enough. */
	if (code != CURLE_OK && (code != CURLE_WRITE_ERROR || p->answer_len <= ANSWER_MAX)) {
		snprintf(p->told, sizeof(p->told), "%s", p->curl_error[0] ? p->curl_error : curl_easy_strerror(code));
		return 0;
	}
	curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
	if (curl_easy_getinfo(p->curl, CURLINFO_RETRY_AFTER, &after_s) == CURLE_OK && after_s > 0)
		*wait_ms = after_s > RETRY_AFTER_MAX_MS / 1000 ? RETRY_AFTER_MAX_MS : (int64_t)after_s * 1000;
	return status;
}

static bool is_retryable(long status)
{
	for (size_t i = 0; i < sizeof(retryable) / sizeof(retryable[0]); i++)
		if (status == retryable[i])
			return true;
	return status == 0;
}

/* A collector may have taken the request and refused some of its spans. They are not sent again. */
static void report_partial(const struct push *p)
{
	const struct params_object *partial;
	const char *number, *message;
	struct params_object *o;
	int64_t rejected;

	if (params_check(p->told, p->told_len, NULL) < 0 || !(o = params_read(p->told, p->told_len)))
		return;
	partial = params_member(o, "partialSuccess");
	if (partial) {
		number = params_text(partial, "rejectedSpans");
		message = params_text(partial, "errorMessage");
		rejected = number ? strtoll(number, NULL, 10) : params_job(partial, "rejectedSpans");
		if (rejected > 0 || (message && *message))
			cli_say("the log of the collector may say more",
				"collector '%s': %" PRId64 " spans rejected: %.300s", p->url, rejected,
				message ? message : "no reason given");
	}
	params_free(o);
}

static void say_retry(struct push *p, long status, int64_t ms)
{
	uint64_t now = clock_ns();

	if (p->said_ns != 0 && now - p->said_ns < (uint64_t)SAY_MS * NS_PER_MS)
		return;
	p->said_ns = now;
	if (status == 0)
		cli_say("check that it runs, and otlp.endpoint", "collector '%s': no answer (%.300s); trying again",
			p->url, p->told);
	else
		cli_say("nothing is lost: the position stays",
			"collector '%s': busy (HTTP %ld); trying again in %.1f s", p->url, status, (double)ms / 1000);
}

static void push_wait(const struct push *p, int64_t ms)
{
	uint64_t until_ns = clock_ns() + (uint64_t)ms * NS_PER_MS;
	const struct timespec nap = { 0, NAP_MS * 1000000L };

	while (!*p->ended && clock_ns() < until_ns)
		nanosleep(&nap, NULL);
}

/* Sends until there is an answer that a retry would not change. *status: of that answer. */
static int post_until_answered(struct push *p, const char *line, long *status, struct deferred_error *err)
{
	struct deferred_backoff b = backoff;
	uint64_t began_ns = clock_ns();
	int64_t asked_ms;

	for (;;) {
		int64_t ms;

		*status = post_line(p, line, &asked_ms);
		if (*p->ended && *status == 0)
			return 1;
		if (!is_retryable(*status))
			break;
		if (!p->patient && clock_ns() - began_ns > (uint64_t)GIVE_UP_MS * NS_PER_MS)
			return error_set(err, DEFERRED_ELOST, "otlp",
					 "collector '%s': no spans accepted for 5 min (%s)\ntry again when it runs",
					 p->url, *status ? "it is busy" : p->told);
		ms = deferred_backoff_empty(&b);
		ms += (int64_t)(random_mix(clock_ns()) % 1000) * ms / 2000;
		ms = asked_ms > ms ? asked_ms : ms;
		say_retry(p, *status, ms);
		push_wait(p, ms);
		if (*p->ended)
			return 1;
	}
	p->said_ns = 0;
	return 0;
}

/* ---- public ------------------------------------------------------------------------------------ */

int push_open(struct push **push, const struct cli *cli, const char *endpoint, bool patient,
	      const volatile sig_atomic_t *ended)
{
	const char *headers = config_text(cli->config, "otlp.headers");
	struct push *p = *push = calloc(1, sizeof(*p));
	int rc = EX_OSERR;

	if (!p || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(p->curl = curl_easy_init())) {
		cli_say("free memory on this host", "out of memory");
		return rc;
	}
	p->patient = patient;
	p->ended = ended;
	p->url = url_of(cli, endpoint, &rc);
	if (p->url && headers)
		rc = push_headers(p, cli, headers);
	if (rc != 0)
		return rc;
	/* Without "Expect:" a large batch would wait for an answer that some servers never give. */
	if (!add_header(p, "Content-Type: application/json") || !add_header(p, "Expect:"))
		return EX_OSERR;
	curl_easy_setopt(p->curl, CURLOPT_URL, p->url);
	curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->headers);
	curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "deferred/" DEFERRED_VERSION);
	curl_easy_setopt(p->curl, CURLOPT_TIMEOUT_MS, (long)config_int(cli->config, "otlp.timeout"));
	curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->curl_error);
	curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, keep_answer);
	curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, p);
	curl_easy_setopt(p->curl, CURLOPT_XFERINFOFUNCTION, look_for_end);
	curl_easy_setopt(p->curl, CURLOPT_XFERINFODATA, p);
	curl_easy_setopt(p->curl, CURLOPT_NOPROGRESS, 0L);
	return 0;
}

int push_send(struct push *p, const struct otlp_span *spans, size_t n, struct deferred_error *err)
{
	char *line = NULL;
	long status = 0;
	int rc = otlp_line(spans, n, &line, err);

	if (rc == 0)
		rc = post_until_answered(p, line, &status, err);
	free(line);
	if (rc != 0)
		return rc;
	if (status >= 200 && status < 300) {
		report_partial(p);
		return 0;
	}
	/* Its content is refused, or it is too large: only the spans that are wrong by themselves are dropped. */
	if ((status == 400 || status == 413) && n > 1) {
		rc = push_send(p, spans, n / 2, err);
		return rc == 0 ? push_send(p, spans + n / 2, n - n / 2, err) : rc;
	}
	if (status == 400 || status == 413) {
		cli_say("the log of the collector may say more",
			"collector '%s': span of job %" PRId64 " attempt %" PRId64 " refused (HTTP %ld): %.300s",
			p->url, spans->job, spans->attempt, status, p->told);
		return 0;
	}
	error_set(err, DEFERRED_ECONFIG, "otlp", "collector '%s': spans refused (HTTP %ld): %.300s", p->url, status,
		  p->told);
	error_hint(err, "%s", status == 401 || status == 403 ? "check otlp.headers" : "check otlp.endpoint");
	return err->code;
}

void push_close(struct push *p)
{
	if (!p)
		return;
	curl_slist_free_all(p->headers);
	curl_easy_cleanup(p->curl);
	free(p->url);
	free(p);
	curl_global_cleanup();
}

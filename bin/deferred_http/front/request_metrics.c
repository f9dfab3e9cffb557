/* SPDX-License-Identifier: MIT */
#include "front/request_metrics.h"

#include "base/advice/histogram.h"
#include "deferred.h"
#include "program/exposition.h"
#include "protocol/route.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define OTHER OPERATIONS /* its place */

enum status_class { CUT_OFF, STATUS_2XX, STATUS_3XX, STATUS_4XX, STATUS_5XX, STATUS_CLASSES };
static const char *const class_names[] = { "none", "2xx", "3xx", "4xx", "5xx" };

/* Those of most requests lie between a transaction alone and a client's patience. */
static const int64_t bounds_us[] = { 250,    500,    1000,   2500,    5000,    10000,   25000,    50000,
				     100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 25000000 };

struct count {
	int64_t of[STATUS_CLASSES], us;
	struct histogram took;
};

struct request_metrics {
	pthread_mutex_t lock;
	struct count count[OPERATIONS + 1];
};

struct request_metrics *request_metrics_new(void)
{
	struct request_metrics *t = calloc(1, sizeof(*t));

	if (t)
		pthread_mutex_init(&t->lock, NULL);
	return t;
}

void request_metrics_free(struct request_metrics *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void request_metrics_add(struct request_metrics *t, const struct operation *op, int status, int64_t us)
{
	struct count *c = &t->count[op ? op->run : OTHER];

	pthread_mutex_lock(&t->lock);
	c->of[status < 200   ? CUT_OFF
	      : status < 300 ? STATUS_2XX
	      : status < 400 ? STATUS_3XX
	      : status < 500 ? STATUS_4XX
			     : STATUS_5XX]++;
	c->us += us;
	histogram_count_us(&c->took, us);
	pthread_mutex_unlock(&t->lock);
}

static const char *name_of_run(int run)
{
	const char *api = route_name((enum operation_run)run);

	return run == OTHER ? "other" : api ? api : operation_name((enum operation_run)run);
}

char *request_metrics_text(struct request_metrics *t, bool open)
{
	struct count *all = malloc(sizeof(t->count));
	struct exposition e;
	char *text = NULL;

	if (!all)
		return NULL;
	pthread_mutex_lock(&t->lock);
	memcpy(all, t->count, sizeof(t->count));
	pthread_mutex_unlock(&t->lock);
	if (exposition_begin(&e, open)) {
		exposition_metric(
			&e, "deferred_http_requests_total", "counter",
			"Requests that ended, by what was asked for and the first digit of the answer's status.");
		for (int run = 0; run <= OPERATIONS; run++)
			for (int class = 0; class < STATUS_CLASSES; class ++) {
				exposition_sample(&e, "",
						  (struct exposition_label[]){ { "operation", name_of_run(run) },
									       { "status", class_names[class] } },
						  2);
				exposition_whole(&e, all[run].of[class]);
			}
		exposition_metric(&e, "deferred_http_request_seconds", "histogram",
				  "Time from the request line to the end of the answer.");
		for (int run = 0; run <= OPERATIONS; run++)
			exposition_histogram(&e, (struct exposition_label[]){ { "operation", name_of_run(run) } }, 1,
					     &all[run].took, all[run].us, bounds_us,
					     sizeof(bounds_us) / sizeof(bounds_us[0]));
		exposition_metric(&e, "deferred_http_build_info", "gauge", "1, with the version of the program.");
		exposition_sample(&e, "", (struct exposition_label[]){ { "version", DEFERRED_VERSION } }, 1);
		exposition_whole(&e, 1);
		text = exposition_end(&e);
	}
	free(all);
	return text;
}

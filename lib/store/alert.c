/* SPDX-License-Identifier: MIT */
#include "store/alert.h"

#include "port/params.h"
#include "rows/alert.h"
#include "store/args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void number(struct params_text *t, const char *key, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	params_string(t, key, text);
}

int store_alert_settings(const struct config *config, bool print, char **json, struct deferred_error *err)
{
	const char *mail_to = config_text(config, "alert.mail_to"), *at = NULL;
	bool hook = config_text(config, "alert.command") != NULL;
	struct params_text t = { 0 };
	char queue[CONFIG_QUEUE_SIZE];
	int64_t ms;

	*json = NULL;
	if (!hook && !mail_to && !print && config_int(config, "breaker.crashes") == 0)
		return 0;
	params_open(&t, NULL, '{');
	if (hook)
		params_flag(&t, "hook", true);
	if (mail_to)
		params_string(&t, "mail_to", mail_to);
	if (print)
		params_flag(&t, "print", true);
	params_string(&t, "queue", config_text(config, "alert.queue") ? config_text(config, "alert.queue") : "alert");
	number(&t, "timeout_ms", config_int(config, "alert.timeout"));
	number(&t, "repeat_ms", config_int(config, "alert.repeat"));
	number(&t, "late_ms", config_int(config, "alert.late"));
	number(&t, "dead", config_int(config, "alert.dead"));
	params_string(&t, "failing", config_text(config, "alert.failing"));
	params_string(&t, "build_ratio", config_text(config, "alert.build_ratio"));
	number(&t, "crashes", config_int(config, "breaker.crashes"));
	number(&t, "retry_ms", config_int(config, "breaker.retry"));
	params_open(&t, "late_queues", '{');
	while (config_late_queue(config, &at, queue, &ms))
		number(&t, queue, ms);
	params_close(&t, '}');
	params_close(&t, '}');
	return params_take(&t, json, err);
}

struct told {
	store_alert_fn *f;
	void *data;
};

static void on_alert(void *data, int tag, const struct pg_result *res)
{
	const struct told *told = data;

	for (size_t i = 0; tag == TAG_ALERT && i < pg_rows(res); i++) {
		struct alert_row r = alert_row(res, i);

		told->f(told->data, &(struct store_alert){ r.cause, r.name, r.text, r.remedy, r.note });
	}
}

int store_alert(struct pg *pg, const char *settings, store_alert_fn *f, void *data, struct deferred_error *err)
{
	struct told told = { f, data };
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_json(&args, settings, strlen(settings));
	return store_run_aside(pg, &sql_alert, &args, TAG_ALERT, on_alert, &told, err);
}

struct crashed {
	struct told told;
	const char *fn;
	bool *paused;
};

static void on_crashed(void *data, int tag, const struct pg_result *res)
{
	const struct crashed *c = data;
	struct crashed_row r;

	if (tag != TAG_ALERT || pg_rows(res) == 0)
		return;
	r = crashed_row(res, 0);
	*c->paused = r.paused;
	if (r.text)
		c->told.f(c->told.data, &(struct store_alert){ "breaker", c->fn, r.text, r.remedy, "" });
}

int store_crashed(struct pg *pg, const char *fn, int64_t n, const struct config *config, store_alert_fn *told,
		  void *data, bool *paused, struct deferred_error *err)
{
	struct crashed crashed = { { told, data }, fn, paused };
	struct pg_args args;

	*paused = false;
	pg_args_init(&args);
	pg_arg_text(&args, fn);
	pg_arg_int8(&args, n);
	pg_arg_int8(&args, config_int(config, "breaker.crashes"));
	pg_arg_int8(&args, config_int(config, "breaker.retry"));
	return store_run(pg, &sql_crashed, &args, TAG_ALERT, on_crashed, &crashed, err);
}

static void on_notice(void *data, int tag, const struct pg_result *res)
{
	bool *more = data;

	if (tag == TAG_ALERT)
		*more = pg_rows(res) > 0 && notice_row(res, 0).more;
}

int store_notice(struct pg *pg, struct deferred_error *err)
{
	bool more = true;
	int rc = 0;

	for (int step = 0; step < STORE_NOTICE_STEPS && more && rc == 0; step++) {
		struct pg_args args;

		pg_args_init(&args);
		rc = store_run_aside(pg, &sql_notice, &args, TAG_ALERT, on_notice, &more, err);
	}
	return rc;
}

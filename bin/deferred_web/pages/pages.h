/* SPDX-License-Identifier: MIT */
/* pages - every page and every action, and the parts that several pages share. */
#ifndef PAGES_H
#define PAGES_H

#include "page/part.h"

/* The number, or NULL for 0: an optional parameter of a statement. */
static inline const int64_t *pages_optional(const int64_t *number)
{
	return *number > 0 ? number : NULL;
}

/* The object of an action: one of these. All of them 0 and NULL: any object. */
struct pages_target {
	int64_t job, flow;
	const char *queue, *fn, *schedule;
};

/* overview_pages.c */
int pages_overview(struct web_request *r, struct deferred_error *err);
/* queue_pages.c */
int pages_queues(struct web_request *r, struct deferred_error *err);
int pages_queue(struct web_request *r, struct deferred_error *err);
int pages_queues_read(struct web_request *r, struct pg_result **res, struct deferred_error *err);
/* Of rows of admin_status_queues.sql: all as a table; the lengths of the queue of the page. */
void pages_queues_table(struct web_request *r, const struct pg_result *res);
void pages_queue_tiles(struct web_request *r, const struct pg_result *res);
void pages_refuse_queue(struct web_request *r);
/* clear_pages.c */
int pages_clear(struct web_request *r, struct deferred_error *err);
int pages_act_clear(struct web_request *r, struct deferred_error *err);
/* job_pages.c */
/* May the visitor see the params, errors and results of a job of that function that this role deferred? */
bool pages_may_see_params(struct web_request *r, const char *fn, const char *by);
void pages_refuse_job(struct web_request *r);
int pages_jobs(struct web_request *r, struct deferred_error *err);
int pages_job(struct web_request *r, struct deferred_error *err);
/* defer_pages.c */
int pages_defer(struct web_request *r, struct deferred_error *err);
int pages_act_defer(struct web_request *r, struct deferred_error *err);
/* edit_pages.c */
int pages_edit(struct web_request *r, struct deferred_error *err);
int pages_act_update(struct web_request *r, struct deferred_error *err);
/* bulk_pages.c: actions on all jobs of a search */
struct search;
int pages_bulk(struct web_request *r, struct deferred_error *err);
int pages_act_retry_all(struct web_request *r, struct deferred_error *err);
int pages_act_cancel_all(struct web_request *r, struct deferred_error *err);
void pages_bulk_links(struct web_request *r, const struct search *s);
/* running_pages.c */
int pages_running(struct web_request *r, struct deferred_error *err);
/* error_pages.c */
int pages_dead(struct web_request *r, struct deferred_error *err);
/* Errors of failed jobs in groups. fn NULL: of all functions. */
int pages_errors(struct web_request *r, const char *fn, struct deferred_error *err);
/* flow_pages.c */
int pages_flows(struct web_request *r, struct deferred_error *err);
int pages_flow(struct web_request *r, struct deferred_error *err);
int pages_act_flow_retry(struct web_request *r, struct deferred_error *err);
int pages_act_flow_cancel(struct web_request *r, struct deferred_error *err);
/* On the page of a job: its flow, its parents and its children. */
int pages_neighbours(struct web_request *r, struct deferred_error *err);
/* flow_graph.c: a drawing of rows of flow_show.sql and flow_edges.sql, of at most PAGES_GRAPH_MAX jobs. */
#define PAGES_GRAPH_MAX 60
void pages_flow_graph(struct web_request *r, const struct pg_result *jobs, const struct pg_result *edges);
/* function_pages.c */
int pages_functions(struct web_request *r, struct deferred_error *err);
int pages_function(struct web_request *r, struct deferred_error *err);
/* limit_pages.c: rows of admin_queue_ls.sql and admin_function_ls.sql */
void pages_queue_settings(struct web_request *r, const struct pg_result *res);
void pages_function_settings(struct web_request *r, const struct pg_result *res);
/* How much of max_running is used. Without it: nothing. */
int pages_limit_used(struct web_request *r, const char *queue, const char *fn, bool has_max, int64_t max_running,
		     struct deferred_error *err);
int pages_act_set(struct web_request *r, struct deferred_error *err);
void pages_after_set(struct web_request *r);
/* schedule_pages.c */
int pages_recurring(struct web_request *r, struct deferred_error *err);
int pages_schedule(struct web_request *r, struct deferred_error *err);
int pages_schedule_form(struct web_request *r, struct deferred_error *err);
int pages_act_schedule(struct web_request *r, struct deferred_error *err);
/* list_pages.c */
/* A page that is one table. hint: markup of ours. The result is freed. Returns rc. */
int pages_list(struct web_request *r, const struct part *part, const char *hint, struct pg_result *res, int rc);
int pages_workers(struct web_request *r, struct deferred_error *err);
int pages_rules(struct web_request *r, struct deferred_error *err);
int pages_accounts(struct web_request *r, struct deferred_error *err);
int pages_tokens(struct web_request *r, struct deferred_error *err);
/* audit_pages.c */
int pages_audit(struct web_request *r, struct deferred_error *err);
/* Actions of operators on an object, as a part of its page. */
int pages_actions(struct web_request *r, const struct pages_target *target, struct deferred_error *err);
int pages_actions_read(struct web_request *r, const struct pages_target *target, int64_t before, struct pg_result **res,
		       struct deferred_error *err);
/* act_pages.c: actions with one button */
int pages_act_retry(struct web_request *r, struct deferred_error *err);
int pages_act_run(struct web_request *r, struct deferred_error *err);
int pages_act_cancel(struct web_request *r, struct deferred_error *err);
int pages_act_event(struct web_request *r, struct deferred_error *err);
int pages_act_pause(struct web_request *r, struct deferred_error *err);
int pages_act_resume(struct web_request *r, struct deferred_error *err);
/* verb "set": settings is a JSON object; else it is NULL. */
int pages_act(struct web_request *r, const char *verb, const char *settings, struct deferred_error *err);
/* On the page that an action leads back to: what became of it. */
void pages_outcome(struct web_request *r);
/* doctor_pages.c */
void pages_before_doctor(struct web_request *r);
int pages_doctor(struct web_request *r, struct deferred_error *err);
/* advice_pages.c */
void pages_before_advice(struct web_request *r);
int pages_advice(struct web_request *r, struct deferred_error *err);
/* metrics_pages.c */
void pages_before_metrics(struct web_request *r);
int pages_metrics(struct web_request *r, struct deferred_error *err);
/* why_pages.c: fold the log into figures; read why jobs wait; and show that. */
void pages_before_figures(struct web_request *r);
void pages_before_backlog(struct web_request *r);
void pages_before_queue(struct web_request *r);
void pages_before_job(struct web_request *r);
void pages_why(struct web_request *r);

#endif

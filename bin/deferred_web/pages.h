/* SPDX-License-Identifier: MIT */
/* pages - what there is to be seen and done, and where. */
#ifndef PAGES_H
#define PAGES_H

#include "page.h"

extern const struct route routes[]; /* ends with path NULL */

/* A number of the query, 0: none. */
int64_t pages_number(struct visit *v, const char *name);
/* A text of the query; NULL: none, or empty. */
const char *pages_text(struct visit *v, const char *name);
/* The same of the form that an action came with. */
int64_t pages_field_number(struct visit *v, const char *name);
const char *pages_field(struct visit *v, const char *name);

/* Functions whose params, errors and results are not for who asks. */
const char **hidden_functions(struct visit *v, size_t *len);
bool pages_hides(struct visit *v); /* some functions' */
/* What operators did to it, as a part of its page. */
int actions_of(struct visit *v, const struct store_web_target *target, struct deferred_error *err);

/* why_pages.c: bring figures up to now before a page; and read v->causes, and tell them on it. */
void before_figures(struct visit *v);
void before_backlog(struct visit *v);
void before_queue(struct visit *v);
void before_job(struct visit *v);
void why_told(struct visit *v);
/* kept_pages.c */
void before_doctor(struct visit *v);
int page_doctor(struct visit *v, struct deferred_error *err);
void before_advice(struct visit *v);
int page_advice(struct visit *v, struct deferred_error *err);
void before_metrics(struct visit *v);
int page_metrics(struct visit *v, struct deferred_error *err);
/* job_pages.c */
int page_jobs(struct visit *v, struct deferred_error *err);
int page_job(struct visit *v, struct deferred_error *err);
int page_defer(struct visit *v, struct deferred_error *err);
int action_defer(struct visit *v, struct deferred_error *err);
/* flow_pages.c */
int page_flows(struct visit *v, struct deferred_error *err);
int page_flow(struct visit *v, struct deferred_error *err);
int action_flow_retry(struct visit *v, struct deferred_error *err);
int action_flow_cancel(struct visit *v, struct deferred_error *err);
/* Its flow, what it waits for and what waits for it, as parts of the page of a job. */
int neighbours_of(struct visit *v, struct deferred_error *err);
/* flow_graph.c: rows of flow_show.sql and flow_edges.sql, at most so many jobs, as a picture. */
#define GRAPH_MAX 60
void flow_graph(struct visit *v, const struct pg_result *jobs, const struct pg_result *edges);
/* recurring_pages.c */
int page_recurring(struct visit *v, struct deferred_error *err);
int page_schedule(struct visit *v, struct deferred_error *err);
int page_schedule_form(struct visit *v, struct deferred_error *err);
int action_schedule(struct visit *v, struct deferred_error *err);
/* running_pages.c */
int page_running(struct visit *v, struct deferred_error *err);
/* function_pages.c */
int page_function(struct visit *v, struct deferred_error *err);
/* What jobs said that ended without success, in groups; fn NULL: of all functions. */
int errors_of(struct visit *v, const char *fn, struct deferred_error *err);
/* settings.c: rows of admin_queue_ls.sql and admin_function_ls.sql. */
void queue_settings(struct visit *v, const struct pg_result *res);
void function_settings(struct visit *v, const struct pg_result *res);
/* How much of the limit on attempts at once is used, as metrics tell it; settings: as above. */
int limit_used(struct visit *v, const char *queue, const char *fn, const struct pg_result *settings,
	       struct deferred_error *err);
/* What the form of them says: a JSON object in the arena; "": nothing is another than it was. */
const char *settings_said(struct visit *v, bool of_queue);
/* actions.c */
int action_set(struct visit *v, struct deferred_error *err);
void after_set(struct visit *v);
int action_retry(struct visit *v, struct deferred_error *err);
int action_run(struct visit *v, struct deferred_error *err);
int action_cancel(struct visit *v, struct deferred_error *err);
int action_pause(struct visit *v, struct deferred_error *err);
int action_resume(struct visit *v, struct deferred_error *err);
/* bulk.c: what is done to all jobs of a search */
int page_bulk(struct visit *v, struct deferred_error *err);
int action_retry_all(struct visit *v, struct deferred_error *err);
int action_cancel_all(struct visit *v, struct deferred_error *err);
/* clear.c */
int page_clear(struct visit *v, struct deferred_error *err);
int action_clear(struct visit *v, struct deferred_error *err);
/* pages.c: what lies in the queue of the page, of rows of admin_status_queues.sql. */
void queue_tiles(struct visit *v, const struct pg_result *res);
struct search;
void bulk_links(struct visit *v, const struct search *s);
/* An action was done, or refused: the answer leads back to where it was asked for. */
void action_leads_back(struct visit *v, const char *verb, bool refused);
/* What the page that an action led to says of it. */
void action_said(struct visit *v);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * form - a form of several fields for an operator. The database checks the values. A form that is refused keeps them.
 */
#ifndef FORM_H
#define FORM_H

#include "page.h"

struct form_field {
	const char *name, *title; /* title NULL: it is hidden */
	const char *hint;         /* NULL: none */
	const char *list;         /* "functions" or "queues", whose names a browser offers; NULL: none */
	const char *const *words; /* the values to choose from, NULL behind them; NULL: any text */
	int most;                 /* characters */
	bool required, is_span;
	bool is_name;          /* of the object: it cannot be changed once that has a version */
	const char *otherwise; /* the value of an empty field; NULL: none */
};

struct form {
	const char *action, *button;
	const char *key;  /* in JSON, of the object that is made */
	const char *hint; /* markup of ours */
	const struct form_field *fields;
	size_t len, shown;           /* the fields behind the first `shown` are folded away */
	size_t first;                /* the first field that is an option */
	bool no_params;              /* they are not shown to the visitor */
	const struct pg_result *was; /* rows of web_schedule_form.sql or web_job_form.sql, to begin with; NULL: none */
};

/* The text in a field, as it was typed. When the form is opened, it comes from f->was or the query. NULL: empty. */
const char *form_typed(struct web_request *r, const struct form *f, const char *name);
const char *form_params(struct web_request *r, const struct form *f);

/* The options as a JSON object in the arena. */
const char *form_options(struct web_request *r, const struct form *f);

/* The fault of the form that the database cannot see: a time span without a unit. NULL: none. */
const char *form_wrong(struct web_request *r, const struct form *f);

/* The page with the form on it. refused: why it was not accepted; NULL: it was not sent yet. */
int form_page(struct web_request *r, const struct form *f, const char *kind, const char *title, const char *refused,
	      struct deferred_error *err);

/* The answer to a form that was accepted. made: a JSON value. HTML leads to the page of the object. */
void form_accepted(struct web_request *r, const struct form *f, const char *verb, const char *made);

#endif

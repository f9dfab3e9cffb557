/* SPDX-License-Identifier: MIT */
/*
 * form - a form of several fields for an operator. The database checks the values. A form that is refused keeps them.
 */
#ifndef FORM_H
#define FORM_H

#include "pages.h"

struct form_field {
	const char *name, *title; /* title NULL: it is hidden */
	const char *hint;         /* NULL: none */
	const char *list;         /* functions or queues: their names are offered; NULL: none */
	const char *const *words; /* the values to choose from, NULL behind them; NULL: any text */
	int most;                 /* characters */
	bool required, is_span;
	bool is_name;          /* of what the form changes: it stays as it is, once it has a version */
	const char *otherwise; /* the value where nothing is typed; NULL: none */
};

struct form {
	const char *action, *button;
	const char *key;  /* in JSON, of what is made */
	const char *hint; /* markup of ours */
	const struct form_field *fields;
	size_t len, shown;           /* those behind the first `shown` are folded away */
	size_t first;                /* the first that is an option */
	const struct pg_result *was; /* names and values to begin with; NULL: none */
};

/* The text in a field: as it was typed, or, when the form is opened, from f->was or the query. NULL: empty. */
const char *form_typed(struct visit *v, const struct form *f, const char *name);
const char *form_params(struct visit *v, const struct form *f);

/* The options as a JSON object in the arena. */
const char *form_options(struct visit *v, const struct form *f);

/* Why the form is wrong, whatever the database says: a time span without a unit; NULL: it is not. */
const char *form_wrong(struct visit *v, const struct form *f);

/* The page with the form on it. refused NULL: nothing was tried yet. */
int form_page(struct visit *v, const struct form *f, const char *kind, const char *title, const char *refused,
	      struct deferred_error *err);

/* The answer to a form that was accepted: made, a JSON value, and in HTML a way to its page. */
void form_done(struct visit *v, const struct form *f, const char *verb, const char *made);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * page - the frame of a page, what a request asks for, and what its visitor may do. The same calls write HTML, or JSON
 * where the request asks for it.
 */
#ifndef PAGE_H
#define PAGE_H

#include "html.h"
#include "server/web_request.h"

/* kind goes in front of the title; NULL: nothing. */
void page_begin(struct web_request *r, const char *kind, const char *title);
void page_end(struct web_request *r);

/* Put the name of the visitor and the token of forms where the page has places for them. A page that is kept for
 * others has only the places. */
void page_fill(struct web_request *r);

/* The answer is an error: a status and one sentence. */
void page_refuse(struct web_request *r, int status, const char *text);
/* The same for a visitor who may not act: why, and what to do. */
void page_refuse_act(struct web_request *r);
/* And for a value of the query: 400. */
void page_refuse_value(struct web_request *r, const char *name, const char *value, const char *remedy);

/* Does the path of the route begin with that? */
bool page_is_below(const struct web_request *r, const char *place);
void page_redirect(struct web_request *r, const char *place); /* place: borrowed for as long as the answer */
/* An action was done, or refused: lead back to the page of its job, flow, queue, function or schedule. */
void page_redirect_back(struct web_request *r, const char *verb, bool refused);

bool page_may_act(const struct web_request *r);
/* The person and the address that are recorded with an action. Address NULL: this machine. */
const char *page_actor(const struct web_request *r);
const char *page_address(const struct web_request *r);

/* Functions whose params, errors and results are hidden from the visitor. */
const char **page_hidden_functions(struct web_request *r, size_t *len);
bool page_hides(struct web_request *r); /* of some functions */

/* A value of the query. NULL: none, or empty. */
const char *page_query(struct web_request *r, const char *name);
/* A number of it; 0: none. False: it is not a number, and the request was refused. */
bool page_query_number(struct web_request *r, const char *name, int64_t *number);
/* The same of the form that an action came with. A number that cannot be read is 0. */
const char *page_field(struct web_request *r, const char *name);
bool page_has_field(struct web_request *r, const char *name); /* it was sent, empty or not */
int64_t page_field_number(struct web_request *r, const char *name);

/* html_url() with the arena of the request. */
const char *page_url(struct web_request *r, const char *text);
/* Moves a text to the arena. */
const char *page_take(struct web_request *r, struct buf *b);

/* A list of names and values, in HTML only. A value that is NULL or empty is left out. */
void page_fact(struct web_request *r, const char *name, const char *value);

/* A remedy for a problem, in HTML only. Commands in it are marked, or link to their page. */
void page_remedy(struct buf *b, const char *text);

/* A form with one button, for operators. confirm: what a browser asks before it sends the form; NULL: nothing. */
void page_button(struct web_request *r, const char *path, const char *label, const char *confirm);

/* The hidden field that proves that a form came from a page of this server. */
void page_token(struct web_request *r);

/* A refusal in the words of the database; NULL: there is none, and nothing is written. In HTML only. */
void page_trouble(struct web_request *r, const char *text);

/* A link to the rows after that id; in JSON the id. place: the link as far as the id. */
void page_next(struct web_request *r, const char *place, const char *label, int64_t after);

/* A span for people: "12 ms", "3.4 s", "2 min 5 s". */
void page_span_us(struct buf *b, int64_t us);
void page_span_s(struct buf *b, int64_t s);

/* Begin and end of an element that page.js replaces while somebody looks. */
void page_live(struct web_request *r, const char *id);
void page_live_end(struct web_request *r);

#endif

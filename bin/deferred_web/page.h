/* SPDX-License-Identifier: MIT */
/*
 * page - what pages are made of. The same calls write HTML or, where the visit asks for it, JSON: a part is a table in
 * the one and an array of objects in the other, by the same columns.
 */
#ifndef PAGE_H
#define PAGE_H

#include "html.h"
#include "web.h"

enum cell {
	CELL_TEXT,
	CELL_TIME, /* in UTC */
	CELL_CODE,
	CELL_INT,
	CELL_BOOL,
	CELL_STATE, /* of a job, or an outcome: a word with a colour */
	CELL_JOB,
	CELL_FLOW, /* id, which leads there */
	CELL_QUEUE,
	CELL_FN,
	CELL_SCHEDULE,
	CELL_AGO,  /* seconds since */
	CELL_IN,   /* seconds until; negative: since */
	CELL_DUE,  /* seconds until a job is due, or since it ended; column 1 is its state. Claimed, waiting: neither */
	CELL_SPAN, /* seconds */
	CELL_US,   /* microseconds */
	CELL_KIB,
	CELL_PROGRESS, /* this column and the next two: done, total, text */
	CELL_RETRY,    /* for operators, in HTML only: this column is a function, the second next one an error of it */
	CELL_PAUSED,   /* of a queue: paused; in HTML also that it is late or limited, by the columns 7 and 8 */
	CELL_HIDDEN,   /* in JSON only */
	CELL_WHOLE     /* in JSON only: an object with all there is, in place of the other columns */
};

struct column {
	int at; /* of the result */
	enum cell cell;
	const char *key;   /* in JSON */
	const char *title; /* of the column; NULL: it is in one with the column before it */
	int more;          /* of a number: the column that says that counting stopped there; 0: none */
};

struct part {
	const char *key;   /* in JSON, and the id of the section */
	const char *title; /* NULL: the table has no heading, and caption names it */
	const char *empty; /* said where there is no row */
	const struct column *columns;
	size_t len;
};
#define PART(key, title, empty, columns) \
	{ \
		key, title, empty, columns, sizeof(columns) / sizeof(columns[0]) \
	}

/* title is shown as it is, so it is escaped; kind goes in front of it, NULL: nothing. */
void page_begin(struct visit *v, const char *kind, const char *title);
void page_end(struct visit *v);

/* Rows for which use() is false are left out; NULL: none are. Returns how many there are. */
size_t page_part(struct visit *v, const struct part *part, const struct pg_result *res,
		 bool (*use)(const struct pg_result *res, size_t row));

/* The first row as a list of names and values; in JSON as page_part(). A column without a title is in JSON only. */
void page_facts(struct visit *v, const struct part *part, const struct pg_result *res);

/* A link to the rows after that id; in JSON the id. place: the link as far as the id. */
void page_next(struct visit *v, const char *place, const char *label, int64_t after);

/* A remedy, in HTML only. Commands in it are marked. A command that is also a page is a link to that page. */
void page_remedy(struct buf *b, const char *text);

/* A list of names and values, in HTML only. A value that is NULL or empty is left out. */
void page_fact(struct visit *v, const char *name, const char *value);
/* The same of a cell of the first row. */
void page_fact_cell(struct visit *v, const char *name, enum cell cell, const struct pg_result *res, int col);
void page_cell(struct visit *v, enum cell cell, const struct pg_result *res, size_t row, int col);

/* A form with one button; confirm: what a browser asks before it is sent, NULL: nothing. */
void page_button(struct visit *v, const char *path, const char *label, const char *confirm);

/* The hidden field that says that a form came from a page of ours. */
void page_token(struct visit *v);

/* The texts of two kinds of holes, to be filled in. */
void page_token_text(struct visit *v);
void page_user_text(struct visit *v);

/* A number in front of people: "12 ms", "3.4 s", "2 min 5 s". */
void page_span_us(struct buf *b, int64_t us);

/* Begin and end of an element whose content is fetched again while somebody looks. */
void page_live(struct visit *v, const char *id);
void page_live_end(struct visit *v);

#endif

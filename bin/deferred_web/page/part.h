/* SPDX-License-Identifier: MIT */
/*
 * part - rows of a page as a table in HTML, or as an array of objects in JSON. One description of their columns gives
 * both.
 *
 *     static const struct column columns[] = {
 *             { AT(web_workers, host), CELL_TEXT, "host", "Host" },
 *             { AT(web_workers, seen_s), CELL_AGO, "seen_s", "Seen" },
 *     };
 *     static const struct part part = PART("workers", NULL, "No worker has run a job yet.", columns);
 *
 *     part_result(r, &part, res);
 *
 * Rows are those of a result, or structs in memory: then a column is a `const char *`, an int64_t, a bool or a double.
 * NULL, PART_NONE and NAN stand for no value, and JSON leaves such a member out.
 */
#ifndef PART_H
#define PART_H

#include "page.h"

#define PART_NONE INT64_MIN

enum cell {
	CELL_TEXT,  /* is cut where it is long */
	CELL_WORD,  /* is not cut */
	CELL_TIME,  /* in UTC */
	CELL_ZONED, /* a text with times such as "2026-01-31 14:30:00 +00:00" */
	CELL_CODE,
	CELL_PROSE, /* sentences, which are wrapped */
	CELL_BOOL,
	CELL_STATE, /* of a job, or an outcome: a word with a colour */
	CELL_QUEUE, /* with a link to its page */
	CELL_FN,
	CELL_SCHEDULE,
	CELL_PAUSED,   /* of a queue; also: seconds that its oldest job is ready, whether it has limits */
	CELL_PROGRESS, /* what is done; also: the total, a text */
	CELL_WHOLE,    /* in JSON only: an object, in place of all other columns */
	CELL_INT,      /* the first of the numbers. also: whether counting stopped there */
	CELL_JOB,
	CELL_FLOW,
	CELL_AGO,  /* seconds since */
	CELL_IN,   /* seconds until; negative: since */
	CELL_DUE,  /* seconds until a job is due, or since it ended; also: its state */
	CELL_SPAN, /* seconds */
	CELL_US,   /* microseconds */
	CELL_KIB,
	CELL_REAL
};

struct rows {
	const struct pg_result *res;
	const void *list;                               /* where there is no result */
	size_t n, size;                                 /* of one element of the list */
	bool (*use)(const struct rows *rows, size_t i); /* rows that it refuses are left out; NULL: none */
	const void *context;                            /* for show() */
};

struct column {
	int at; /* AT(), or offsetof() */
	enum cell cell;
	const char *key;   /* in JSON; NULL: in HTML only */
	const char *title; /* "": in JSON only. NULL: it shares the cell of the column before it */
	int also[2];       /* other columns that the cell depends on; 0: none */
	/* Writes the cell in HTML in place of what its kind says; NULL: that. */
	void (*show)(struct web_request *r, const struct rows *rows, size_t i);
};
#define AT(query, column) query##_at_##column

struct part {
	const char *key;   /* in JSON, and the id of the section */
	const char *title; /* NULL: the table has no heading */
	const char *empty; /* said where there is no row */
	const struct column *columns;
	size_t len;
};
#define PART(key, title, empty, columns) \
	{ \
		key, title, empty, columns, sizeof(columns) / sizeof(columns[0]) \
	}

/* Returns how many rows were used. */
size_t part_write(struct web_request *r, const struct part *part, const struct rows *rows);
size_t part_result(struct web_request *r, const struct part *part, const struct pg_result *res);

/* The first row as a list of names and values; in JSON as part_result(). NULL as title: in JSON only. */
void part_facts(struct web_request *r, const struct part *part, const struct pg_result *res);

/* The same in steps. part_fact() adds a fact that is not a column of the row, and nothing in JSON. The page shows the
 * first letter of its name as a capital. */
void part_facts_open(struct web_request *r, const struct part *part, const struct pg_result *res);
void part_fact(struct web_request *r, const char *name, enum cell cell, const char *value);
void part_facts_close(struct web_request *r);

/* One value of a result, in HTML. */
void part_cell(struct web_request *r, enum cell cell, const struct pg_result *res, size_t i, int at);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * table - aligned columns for people to read.
 *
 * table_begin() with the headers, table_cell() for each cell from left to right, table_end() prints. A header that
 * begins with ">" is aligned to the right. A cell shows its text as visible.h does, so that no text of a job can play
 * with the terminal.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
	int cols;
	const char *const *headers;
	char **cells;
	size_t len, cap;
};

void table_begin(struct table *t, const char *const *headers, int cols);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_number(struct table *t, bool known, int64_t n); /* empty where it is not known */
void table_end(struct table *t);
/* Without rows: "no THINGS" on a terminal, else nothing. */
void table_end_list(struct table *t, const char *things);

/* A span as people say it: 5s, 3min, 2h, 4d. */
#define TABLE_AGE_SIZE 32
const char *table_age(char buf[TABLE_AGE_SIZE], int64_t seconds);

/* How far a job is, and how many seconds ago its function reported that. Each may be NULL. Returns "" without a
 * report. */
#define TABLE_PROGRESS_SIZE 320
const char *table_progress(char buf[TABLE_PROGRESS_SIZE], const int64_t *done, const int64_t *total, const char *text,
			   const int64_t *reported_s);

/* A time in microseconds: 250us, 1.5ms, 12.3s. */
const char *table_us(char buf[TABLE_AGE_SIZE], int64_t us);

/* A copy of text as visible.h shows it, cut to max characters if max > 0. Further lines are indented, so that none
 * looks like one of ours. TABLE_ONE_LINE: there are no further lines. The caller frees it. */
#define TABLE_ONE_LINE (-1)
char *table_clean(const char *text, size_t max, int indent);

/* A member of a JSON object whose text is cleaned so, as one line. */
struct params_text;
void table_string(struct params_text *t, const char *key, const char *value);

#endif

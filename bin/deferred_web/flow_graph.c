/* SPDX-License-Identifier: MIT */
/*
 * A picture of what waits for what: jobs that wait for none on the left, each other one right of all it waits for. It
 * says nothing that the table beside it does not, so it is one image to who cannot see it.
 */
#include "pages.h"

#include <string.h>

#define WIDTH 150
#define HEIGHT 40
#define GAP_X 50
#define GAP_Y 12
#define MARGIN 4
#define TEXT_MAX 20 /* letters of a name */

struct node {
	int column, row;
};

static int x_of(const struct node *n)
{
	return MARGIN + n->column * (WIDTH + GAP_X);
}

static int y_of(const struct node *n)
{
	return MARGIN + n->row * (HEIGHT + GAP_Y);
}

/* GRAPH_MAX: it is not among them. */
static size_t find(const struct pg_result *jobs, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (pg_int(jobs, i, 0) == id)
			return i;
	return GRAPH_MAX;
}

/* A parent is older than its child and edges come in the order of children: one look at each. */
static void place(const struct pg_result *jobs, size_t n, const struct pg_result *edges, struct node nodes[GRAPH_MAX],
		  int *columns, int *rows)
{
	int used[GRAPH_MAX] = { 0 };

	for (size_t i = 0; i < pg_rows(edges); i++) {
		size_t parent = find(jobs, n, pg_int(edges, i, 0)), child = find(jobs, n, pg_int(edges, i, 1));

		if (parent < child && child < n && nodes[child].column <= nodes[parent].column)
			nodes[child].column = nodes[parent].column + 1;
	}
	*columns = *rows = 0;
	for (size_t i = 0; i < n; i++) {
		nodes[i].row = used[nodes[i].column]++;
		if (*columns <= nodes[i].column)
			*columns = nodes[i].column + 1;
		if (*rows <= nodes[i].row)
			*rows = nodes[i].row + 1;
	}
}

static void line(struct buf *b, const struct node *from, const struct node *to, bool is_ok)
{
	int x1 = x_of(from) + WIDTH, y1 = y_of(from) + HEIGHT / 2, x2 = x_of(to), y2 = y_of(to) + HEIGHT / 2;

	buf_printf(b, "<path class=\"%s\" d=\"M%d %dC%d %d %d %d %d %d\"/>", is_ok ? "edge" : "edge else", x1, y1,
		   x1 + GAP_X / 2, y1, x2 - GAP_X / 2, y2, x2, y2);
}

static void some_letters(struct buf *b, const char *text)
{
	size_t len = 0;

	for (int letters = 0; text[len]; len++)
		if (((unsigned char)text[len] & 0xc0) != 0x80 && ++letters > TEXT_MAX)
			break;
	html_text_n(b, text, len);
	if (text[len])
		html_raw(b, "\xe2\x80\xa6");
}

static void box(struct buf *b, const struct pg_result *jobs, size_t row, const struct node *at)
{
	const char *name = pg_text(jobs, row, 1, NULL), *fn = pg_text(jobs, row, 2, NULL),
		   *state = pg_text(jobs, row, 3, NULL);

	/* An image of its own, beyond whose edge no text is drawn. */
	buf_printf(b, "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"node is-", x_of(at), y_of(at), WIDTH,
		   HEIGHT);
	html_text(b, state);
	buf_printf(b, "\"><rect x=\"1\" y=\"1\" width=\"%d\" height=\"%d\" rx=\"5\"/><text x=\"8\" y=\"16\">",
		   WIDTH - 2, HEIGHT - 2);
	some_letters(b, *name ? name : *fn ? fn : pg_text(jobs, row, 0, NULL));
	html_raw(b, "</text><text x=\"8\" y=\"32\">");
	html_text(b, pg_text(jobs, row, 0, NULL));
	html_raw(b, " ");
	html_text(b, state);
	html_raw(b, "</text></svg>");
}

void flow_graph(struct visit *v, const struct pg_result *jobs, const struct pg_result *edges)
{
	size_t n = pg_rows(jobs) < GRAPH_MAX ? pg_rows(jobs) : GRAPH_MAX;
	struct node nodes[GRAPH_MAX] = { { 0, 0 } };
	struct buf *b = &v->reply.body;
	int columns, rows, width, height;

	if (v->json || pg_rows(edges) == 0)
		return;
	place(jobs, n, edges, nodes, &columns, &rows);
	width = 2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X;
	height = 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y;
	buf_printf(b,
		   "<section><h2>Graph</h2><div class=\"scroll graph\" role=\"region\" tabindex=\"0\" "
		   "aria-label=\"Graph\"><svg role=\"img\" width=\"%d\" height=\"%d\" "
		   "viewBox=\"0 0 %d %d\" aria-label=\"Graph of the jobs in the table and what they wait for\">",
		   width, height, width, height);
	for (size_t i = 0; i < pg_rows(edges); i++) {
		size_t parent = find(jobs, n, pg_int(edges, i, 0)), child = find(jobs, n, pg_int(edges, i, 1));

		if (parent < n && child < n)
			line(b, &nodes[parent], &nodes[child], strcmp(pg_text(edges, i, 2, NULL), "ok") == 0);
	}
	for (size_t i = 0; i < n; i++)
		box(b, jobs, i, &nodes[i]);
	html_raw(b, "</svg></div><p class=\"hint\">A job on the right waits for the jobs on its left. A dashed line "
		    "waits for a failure, or for any end."
		    "</p></section>");
}

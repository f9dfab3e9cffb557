/* SPDX-License-Identifier: MIT */
/*
 * A drawing of jobs and what they wait for. Jobs without parents are on the left. Each other job is on the right of all
 * its parents. For those who cannot see it, the drawing is one image: the table below it says the same.
 */
#include "pages.h"

#include "rows/flow.h"

#include <inttypes.h>
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

static int x_of_node(const struct node *n)
{
	return MARGIN + n->column * (WIDTH + GAP_X);
}

static int y_of_node(const struct node *n)
{
	return MARGIN + n->row * (HEIGHT + GAP_Y);
}

/* PAGES_GRAPH_MAX: it is not among them. */
static size_t find_node(const struct pg_result *jobs, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (flow_show_row(jobs, i).id == id)
			return i;
	return PAGES_GRAPH_MAX;
}

/* A parent is older than its child, and edges are in the order of children. So one look at each edge is enough. */
static void arrange(const struct pg_result *jobs, size_t n, const struct pg_result *edges,
		    struct node nodes[PAGES_GRAPH_MAX], int *columns, int *rows)
{
	int used[PAGES_GRAPH_MAX] = { 0 };

	for (size_t i = 0; i < pg_rows(edges); i++) {
		struct flow_edges_row edge = flow_edges_row(edges, i);
		size_t parent = find_node(jobs, n, edge.parent), child = find_node(jobs, n, edge.child);

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

static void draw_edge(struct buf *b, const struct node *from, const struct node *to, bool is_ok)
{
	int x1 = x_of_node(from) + WIDTH, y1 = y_of_node(from) + HEIGHT / 2, x2 = x_of_node(to),
	    y2 = y_of_node(to) + HEIGHT / 2;

	html_printf(b, "<path class=\"%s\" d=\"M%d %dC%d %d %d %d %d %d\"/>", is_ok ? "edge" : "edge else", x1, y1,
		    x1 + GAP_X / 2, y1, x2 - GAP_X / 2, y2, x2, y2);
}

static void add_start(struct buf *b, const char *text)
{
	size_t len = 0;

	for (int letters = 0; text[len]; len++)
		if (((unsigned char)text[len] & 0xc0) != 0x80 && ++letters > TEXT_MAX)
			break;
	html_text_n(b, text, len);
	if (text[len])
		html_raw(b, "\xe2\x80\xa6");
}

static void draw_node(struct buf *b, const struct flow_show_row *job, const struct node *at)
{
	/* A nested image, so that no text is drawn beyond its edge. */
	html_printf(b,
		    "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"node is-%s\">"
		    "<rect x=\"1\" y=\"1\" width=\"%d\" height=\"%d\" rx=\"5\"/><text x=\"8\" y=\"16\">",
		    x_of_node(at), y_of_node(at), WIDTH, HEIGHT, job->state, WIDTH - 2, HEIGHT - 2);
	if (*job->name || *job->fn)
		add_start(b, *job->name ? job->name : job->fn);
	else
		html_printf(b, "%" PRId64, job->id);
	html_printf(b, "</text><text x=\"8\" y=\"32\">%" PRId64 " %s</text></svg>", job->id, job->state);
}

void pages_flow_graph(struct web_request *r, const struct pg_result *jobs, const struct pg_result *edges)
{
	size_t n = pg_rows(jobs) < PAGES_GRAPH_MAX ? pg_rows(jobs) : PAGES_GRAPH_MAX;
	struct node nodes[PAGES_GRAPH_MAX] = { { 0, 0 } };
	struct buf *b = &r->reply.body;
	int columns, rows, width, height;

	if (r->json || pg_rows(edges) == 0)
		return;
	arrange(jobs, n, edges, nodes, &columns, &rows);
	width = 2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X;
	height = 2 * MARGIN + rows * (HEIGHT + GAP_Y) - GAP_Y;
	html_printf(b,
		    "<section><h2>Graph</h2><div class=\"scroll graph\" role=\"region\" tabindex=\"0\" "
		    "aria-label=\"Graph\"><svg role=\"img\" width=\"%d\" height=\"%d\" "
		    "viewBox=\"0 0 %d %d\" aria-label=\"Graph of the jobs in the table and what they wait for\">",
		    width, height, width, height);
	for (size_t i = 0; i < pg_rows(edges); i++) {
		struct flow_edges_row edge = flow_edges_row(edges, i);
		size_t parent = find_node(jobs, n, edge.parent), child = find_node(jobs, n, edge.child);

		if (parent < n && child < n)
			draw_edge(b, &nodes[parent], &nodes[child], strcmp(edge.on, "ok") == 0);
	}
	for (size_t i = 0; i < n; i++) {
		struct flow_show_row job = flow_show_row(jobs, i);

		draw_node(b, &job, &nodes[i]);
	}
	html_raw(b, "</svg></div><p class=\"hint\">A job on the right waits for the jobs on its left. A dashed line "
		    "waits for a failure, or for any end.</p></section>");
}

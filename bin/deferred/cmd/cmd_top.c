/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/clock.h"
#include "port/params.h"
#include "store/admin.h"
#include "rows/admin.h"
#include "table.h"
#include "top.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define LOG_PAGES 100 /* 800 kB, some 8,000 attempts */

enum { OPT_QUEUE = 1, OPT_INTERVAL, OPT_ONCE };

#define INTERVAL_MS 2000
#define INTERVAL_FLOOR_MS 100
#define INTERVAL_CEILING_MS 3600000
#define CTRL_L 12

/* ---- what is shown -------------------------------------------------------------------------------- */

static void top_clear(struct top *top)
{
	store_why_clear(&top->why);
	pg_result_free(top->recent);
	pg_result_free(top->arrivals);
	pg_result_free(top->running);
	top->recent = top->arrivals = top->running = NULL;
	top->causes_len = 0;
}

/* Each statement is bounded and takes no lock; between two looks no transaction is open, so that nothing is kept from
 * being vacuumed. */
static int top_look(struct top *top, struct pg *pg, struct deferred_error *err)
{
	int rc;

	top_clear(top);
	if ((rc = store_why_backlog(pg, top->queue, &top->why, err)) < 0)
		return rc;
	store_why_missed(pg, &top->missed, &top->why);
	top->causes_len = cause_of_backlog(&top->why.backlog, top->causes);
	top_sort_queues(top);
	rc = store_admin_look(pg, STORE_WHY_MS, err);
	if (rc == 0)
		rc = top_arrivals_exec(pg, top->queue, &top->arrivals, err);
	if (rc == 0)
		rc = top_recent_exec(pg, top->queue, LOG_PAGES, &top->recent, err);
	if (rc == 0)
		rc = top_running_exec(pg, top->queue, TOP_JOBS_MAX, &top->running, err);
	if (!pg_broken(pg) && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

static int top_print_json(const struct cli *cli, const struct top *top)
{
	struct top_arrivals_row r;
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	char *why;

	params_open(&t, NULL, '{');
	params_string(&t, "cause", cause_word(top->causes[0].kind));
	table_string(&t, "why", top->causes[0].why);
	table_string(&t, "figure", top->causes[0].figure);
	table_string(&t, "do", top->causes[0].remedy);
	params_close(&t, '}');
	if (params_take(&t, &why, &err) < 0)
		return cli_fail(cli, &err);
	/* The queues as `deferred status` has them. */
	r = top_arrivals_row(top->arrivals, 0);
	printf("{\"now\": %s,\n \"why\": %s,\n \"queues\": ", r.json, why);
	cli_print_json_array(top->why.queues);
	printf(",\n \"ended\": ");
	cli_print_json_array(top->recent);
	printf(",\n \"running\": ");
	cli_print_json_array(top->running);
	puts("}");
	free(why);
	return EX_OK;
}

static int once(struct cli *cli, struct top *top)
{
	struct deferred_error err = { 0 };
	int rc = top_look(top, cli->pg, &err);

	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		return top_print_json(cli, top);
	top_frame(top, stdout, 0, 0, false);
	return EX_OK;
}

/* ---- the terminal --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped, resized;

static void top_on_signal(int number)
{
	if (number == SIGWINCH)
		resized = 1;
	else
		stopped = 1;
}

struct terminal {
	struct termios before;
	sigset_t while_waiting;
};

static void top_put(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, text, len);

		if (n < 0 && errno != EINTR) {
			stopped = 1; /* it is gone */
			return;
		}
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
}

/* Signals come while it waits for a key, and at no other time. */
static bool terminal_begin(struct terminal *t)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH };
	struct sigaction action = { .sa_handler = top_on_signal };
	struct termios raw;
	sigset_t blocked;

	if (tcgetattr(STDIN_FILENO, &t->before) < 0)
		return false;
	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaction(signals[i], &action, NULL);
		sigaddset(&blocked, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, &t->while_waiting);
	raw = t->before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* stopped, it would leave the terminal as it is */
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	top_put("\x1b[?1049h\x1b[?25l", 14);
	return true;
}

static void terminal_end(const struct terminal *t)
{
	top_put("\x1b[?25h\x1b[?1049l", 14);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->before);
	sigprocmask(SIG_SETMASK, &t->while_waiting, NULL);
}

static void top_draw(const struct top *top)
{
	struct winsize size = { 0 };
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	fputs("\x1b[H", out);
	top_frame(top, out, size.ws_row ? size.ws_row : 24, size.ws_col ? size.ws_col : 80, true);
	fputs("\x1b[J", out);
	if (fclose(out) == 0)
		top_put(text, len);
	free(text);
}

/* A key; 0: the time has come, -1: a signal or the end of the terminal. */
static int top_key(const struct terminal *t, int64_t wait_ms)
{
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	struct timespec ts = { wait_ms / 1000, wait_ms % 1000 * 1000000 };
	unsigned char c;
	int n = ppoll(&fd, 1, wait_ms < 0 ? NULL : &ts, &t->while_waiting);

	if (n == 0)
		return 0;
	if (n < 0)
		return -1;
	if (read(STDIN_FILENO, &c, 1) != 1) {
		stopped = 1;
		return -1;
	}
	return c;
}

/* Until a key or a signal ends it. held: a frame stays until it is let go. */
static int live(struct cli *cli, struct top *top, int64_t interval_ms)
{
	struct deferred_error err = { 0 };
	struct terminal t;
	int64_t next = clock_ms();
	bool held = false;
	int rc = 0, pressed;

	if (!terminal_begin(&t))
		return once(cli, top);
	while (!stopped) {
		int64_t now = clock_ms();

		if (!held && now >= next) {
			if ((rc = top_look(top, cli->pg, &err)) < 0)
				break;
			next = clock_ms() + interval_ms;
			top_draw(top);
		}
		pressed = top_key(&t, held ? -1 : next > now ? next - now : 0);
		switch (pressed) {
		case 'q':
			stopped = 1;
			break;
		case ' ':
			held = !held;
			break;
		case 's':
			top->sort = (top->sort + 1) % TOP_SORTS_LEN;
			top_draw(top);
			break;
		case 'l':
		case CTRL_L:
			held = false;
			next = clock_ms();
			break;
		default:
			if (resized)
				top_draw(top);
			resized = 0;
		}
	}
	terminal_end(&t);
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

static int cmd_top_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "queue", "NAME", "show this queue", OPT_QUEUE, "all queues" },
		{ "interval", "SPAN", "refresh this often", OPT_INTERVAL, "2s" },
		{ "once", NULL, "print one frame without escapes", OPT_ONCE },
		{ 0 },
	};
	struct top top = { 0 };
	int64_t interval_ms = INTERVAL_MS;
	bool one = false;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		switch (c) {
		case OPT_QUEUE:
			top.queue = optarg;
			break;
		case OPT_INTERVAL:
			if (!cli_ms(cli, "--interval", optarg, &interval_ms))
				return EX_USAGE;
			if (interval_ms < INTERVAL_FLOOR_MS || interval_ms > INTERVAL_CEILING_MS)
				return cli_bad_value(cli, "use 100ms to 1h", "--interval", optarg, "is out of range");
			break;
		case OPT_ONCE:
			one = true;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = one || cli->json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) ? once(cli, &top)
										 : live(cli, &top, interval_ms);
	top_clear(&top);
	return rc;
}

const struct cmd cmd_top = {
	"top", "[OPTION...]", "watch queues, functions and running jobs", cmd_top_run, "deferred_viewer",
	NULL,  SHARDS_ONE,
};

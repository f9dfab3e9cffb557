/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "port/params.h"
#include "store/admin.h"
#include "store/top.h"
#include "store/web.h"
#include "table.h"
#include "top.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { OPT_QUEUE = 1, OPT_INTERVAL, OPT_ONCE };

#define INTERVAL_MS 2000
#define INTERVAL_FLOOR_MS 100
#define INTERVAL_CEILING_MS 3600000
#define CTRL_L 12

/* ---- what is shown -------------------------------------------------------------------------------- */

static void clear(struct top *top)
{
	store_why_clear(&top->why);
	pg_result_free(top->recent);
	pg_result_free(top->arrivals);
	pg_result_free(top->running);
	pg_result_free(top->dead);
	top->recent = top->arrivals = top->running = top->dead = NULL;
	top->causes_len = 0;
}

static void choose_none(struct top *top)
{
	top->chosen = 0;
	top->chosen_queue[0] = '\0';
	top->of_chosen = false;
}

/* What is done, or is gone, is told of no more. */
static int look_at_chosen(struct top *top, struct pg *pg, struct deferred_error *err)
{
	struct store_why why;
	int rc;

	top->job_causes_len = 0;
	if (top_chosen(top) == top_rows(top))
		choose_none(top);
	if (!top->of_chosen)
		return 0;
	rc = store_why_job(pg, top->chosen, &why, err);
	if (rc == 0)
		top->job_causes_len = cause_of_job(&why.job, top->job_causes);
	store_why_clear(&why);
	return rc;
}

/* Each statement is bounded and takes no lock; between two looks no transaction is open, so that nothing is kept from
 * being vacuumed. */
static int look(struct top *top, struct pg *pg, struct deferred_error *err)
{
	int rc;

	clear(top);
	if ((rc = store_why_backlog(pg, top->queue, &top->why, err)) < 0)
		return rc;
	store_why_missed(pg, &top->missed, &top->why);
	top->causes_len = cause_of_backlog(&top->why.backlog, top->causes);
	top_sort_queues(top);
	rc = store_admin_look(pg, STORE_WHY_MS, err);
	if (rc == 0)
		rc = store_top_arrivals(pg, top->queue, &top->arrivals, err);
	if (rc == 0)
		rc = store_top_recent(pg, top->queue, &top->recent, err);
	if (rc == 0)
		rc = store_top_running(pg, top->queue, TOP_JOBS_MAX, &top->running, err);
	if (rc == 0 && top->panel == TOP_DEAD)
		rc = store_top_dead(pg, top->queue, TOP_JOBS_MAX, &top->dead, err);
	if (!pg_broken(pg) && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	if (rc == 0)
		rc = look_at_chosen(top, pg, err);
	return rc;
}

static void string(struct params_text *t, const char *key, const char *value)
{
	char *clean = table_clean(value, 0, TABLE_ONE_LINE);

	params_string(t, key, clean);
	free(clean);
}

static int print_json(const struct cli *cli, const struct top *top)
{
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	char *why;

	params_open(&t, NULL, '{');
	params_string(&t, "cause", cause_word(top->causes[0].kind));
	string(&t, "why", top->causes[0].why);
	string(&t, "figure", top->causes[0].figure);
	string(&t, "do", top->causes[0].mend);
	params_close(&t, '}');
	if (params_take(&t, &why, &err) < 0)
		return cli_fail(cli, &err);
	/* The queues as `deferred status` has them. */
	printf("{\"now\": %s,\n \"why\": %s,\n \"queues\": ", pg_text(top->arrivals, 0, 6, NULL), why);
	cli_print_json_array(top->why.queues, 9);
	printf(",\n \"ended\": ");
	cli_print_json_array(top->recent, 8);
	printf(",\n \"running\": ");
	cli_print_json_array(top->running, 8);
	puts("}");
	free(why);
	return EX_OK;
}

static int once(struct cli *cli, struct top *top)
{
	struct deferred_error err = { 0 };
	int rc = look(top, cli->pg, &err);

	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		return print_json(cli, top);
	top_frame(top, stdout, 0, 0, false);
	return EX_OK;
}

/* ---- the terminal --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped, resized;

static void on_signal(int number)
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

static void put(const char *text, size_t len)
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
	struct sigaction action = { .sa_handler = on_signal };
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
	put("\x1b[?1049h\x1b[?25l", 14);
	return true;
}

static void terminal_end(const struct terminal *t)
{
	put("\x1b[?25h\x1b[?1049l", 14);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->before);
	sigprocmask(SIG_SETMASK, &t->while_waiting, NULL);
}

static void draw(const struct top *top)
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
		put(text, len);
	free(text);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

enum { KEY_UP = 256, KEY_DOWN, KEY_OTHER };

/* What stands behind an escape: those of an arrow come at once. */
static int escaped(void)
{
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	unsigned char c[2];

	for (size_t i = 0; i < sizeof(c); i++)
		if (poll(&fd, 1, 50) <= 0 || read(STDIN_FILENO, &c[i], 1) != 1)
			return KEY_OTHER;
	return (c[0] == '[' || c[0] == 'O') && (c[1] == 'A' || c[1] == 'B') ? c[1] == 'A' ? KEY_UP : KEY_DOWN
									    : KEY_OTHER;
}

/* A key; 0: the time has come, -1: a signal or the end of the terminal. */
static int key(const struct terminal *t, int64_t wait_ms)
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
	return c == 0x1b ? escaped() : c;
}

/* ---- what is chosen, and done --------------------------------------------------------------------- */

/* The row before or behind the chosen one, or the first. */
static void choose(struct top *top, int step)
{
	size_t n = top_rows(top), at = top_chosen(top);

	top->said[0] = '\0';
	if (n == 0)
		return;
	if (at == n)
		at = 0;
	else if (step < 0 ? at > 0 : at + 1 < n)
		at = step < 0 ? at - 1 : at + 1;
	if (top->panel == TOP_QUEUES)
		snprintf(top->chosen_queue, sizeof(top->chosen_queue), "%s", top->why.backlog.queues[at].name);
	else
		top->chosen = pg_int(top->panel == TOP_DEAD ? top->dead : top->running, at, 0);
}

/* Operators act as on a page, and what they do is written down; others as the commands of that name do, with what
 * rights they have. */
static int act_as_command(struct pg *pg, const char *verb, const struct store_web_target *target,
			  struct deferred_error *err)
{
	static const char *const paused[] = { "paused" }, *const yes[] = { "true" }, *const no[] = { NULL };

	if (strcmp(verb, "cancel") == 0)
		return store_admin_cancel(pg, target->job, err);
	if (strcmp(verb, "retry") == 0)
		return store_admin_retry(pg, target->job, err);
	return store_admin_queue_set(pg, target->queue, paused, strcmp(verb, "pause") == 0 ? yes : no, 1, NULL, false,
				     err);
}

static int act(struct pg *pg, const char *verb, const struct store_web_target *target, char refused[200],
	       struct deferred_error *err)
{
	const struct passwd *user = getpwuid(getuid());
	struct store_web_me me = { 0 };
	struct pg_result *res = NULL;
	int rc = store_web_me(pg, &me, err);

	refused[0] = '\0';
	if (rc < 0)
		return rc;
	if (!me.operator) {
		rc = act_as_command(pg, verb, target, err);
		if (rc == DEFERRED_ENOTFOUND)
			snprintf(refused, 200, "%s",
				 target->queue ? "the queue does not exist" : "nothing can be done here");
		return rc == DEFERRED_ENOTFOUND ? 0 : rc;
	}
	rc = store_web_act(pg, verb, target, NULL, user ? user->pw_name : "deferred top", NULL, &res, err);
	if (rc == 0 && !pg_null(res, 0, 0))
		snprintf(refused, 200, "%.199s", pg_text(res, 0, 0, NULL));
	pg_result_free(res);
	return rc;
}

/* Once y has answered the question. done: "is cancelled". */
static void ask(struct top *top, const struct terminal *t, struct pg *pg, const char *verb, const char *done)
{
	const struct store_web_target target = { .job = top->panel == TOP_QUEUES ? 0 : top->chosen,
						 .queue = top->panel == TOP_QUEUES ? top->chosen_queue : NULL };
	struct deferred_error err = { 0 };
	char what[160], refused[200];
	int answer;

	if (target.queue)
		snprintf(what, sizeof(what), "queue %s", target.queue);
	else
		snprintf(what, sizeof(what), "job %" PRId64, target.job);
	snprintf(top->said, sizeof(top->said), "%s %s? y, or any other key", verb, what);
	draw(top);
	while ((answer = key(t, -1)) < 0 && !stopped)
		draw(top);
	top->said[0] = '\0';
	if (answer != 'y')
		return;
	if (act(pg, verb, &target, refused, &err) < 0)
		snprintf(top->said, sizeof(top->said), "%s: %.90s", what, err.message);
	else
		snprintf(top->said, sizeof(top->said), "%s%s %.90s", what, refused[0] ? ":" : "",
			 refused[0] ? refused : done);
}

/* NULL: the key has something to change. */
static const char *nothing_for(const struct top *top, int pressed)
{
	static const char *const words[TOP_PANELS_LEN] = {
		[TOP_RUNNING] = "no job that is run is chosen: Tab goes to them, arrows choose one",
		[TOP_DEAD] = "no dead job is chosen: Tab goes to them, arrows choose one",
		[TOP_QUEUES] = "no queue is chosen: Tab goes to them, arrows choose one",
	};
	enum top_panel panel = pressed == 'c' ? TOP_RUNNING : pressed == 'r' ? TOP_DEAD : TOP_QUEUES;

	return top->panel == panel && top_chosen(top) < top_rows(top) ? NULL : words[panel];
}

static void change(struct top *top, const struct terminal *t, struct pg *pg, int pressed)
{
	if (pressed == 'c')
		ask(top, t, pg, "cancel", "is cancelled");
	else if (pressed == 'r')
		ask(top, t, pg, "retry", "is ready again");
	else if (top->why.backlog.queues[top_chosen(top)].paused)
		ask(top, t, pg, "resume", "is resumed");
	else
		ask(top, t, pg, "pause", "is paused");
}

/* Until a key or a signal ends it. held: a frame stays until it is let go. */
static int live(struct cli *cli, struct top *top, int64_t interval_ms)
{
	struct deferred_error err = { 0 };
	struct terminal t;
	int64_t next = now_ms();
	bool held = false;
	int rc = 0, pressed;

	if (!terminal_begin(&t))
		return once(cli, top);
	while (!stopped) {
		int64_t now = now_ms();
		const char *nothing;
		bool again = false;

		if (!held && now >= next) {
			if ((rc = look(top, cli->pg, &err)) < 0)
				break;
			next = now_ms() + interval_ms;
			draw(top);
		}
		pressed = key(&t, held ? -1 : next > now ? next - now : 0);
		switch (pressed) {
		case 'q':
			stopped = 1;
			break;
		case ' ':
			held = !held;
			break;
		case 's':
			top->sort = (top->sort + 1) % TOP_SORTS_LEN;
			draw(top);
			break;
		case '\t':
			top->panel = (top->panel + 1) % TOP_PANELS_LEN;
			top->said[0] = '\0';
			choose_none(top);
			again = true;
			break;
		case KEY_UP:
		case KEY_DOWN:
			choose(top, pressed == KEY_UP ? -1 : 1);
			draw(top);
			break;
		case '\n':
		case '\r':
			top->of_chosen = top->chosen && !top->of_chosen;
			again = true;
			break;
		case 'c':
		case 'r':
		case 'p':
			nothing = nothing_for(top, pressed);
			if (nothing) {
				snprintf(top->said, sizeof(top->said), "%s", nothing);
				draw(top);
				break;
			}
			change(top, &t, cli->pg, pressed);
			again = true;
			break;
		case 'l':
		case CTRL_L:
			again = true;
			break;
		default:
			if (resized)
				draw(top);
			resized = 0;
		}
		if (again) {
			held = false;
			next = now_ms();
		}
	}
	terminal_end(&t);
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

static int run(struct cli *cli, int argc, char **argv)
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
			if (!cli_ms(cli, "interval", optarg, &interval_ms))
				return EX_USAGE;
			if (interval_ms < INTERVAL_FLOOR_MS || interval_ms > INTERVAL_CEILING_MS)
				return cli_misuse(cli, "use 100ms to 1h", "--interval \"%.64s\" is out of range",
						  optarg);
			break;
		case OPT_ONCE:
			one = true;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (optind < argc)
		return cli_usage(cli, "argument \"%.64s\" is not expected", argv[optind]);
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = one || cli->json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) ? once(cli, &top)
										 : live(cli, &top, interval_ms);
	clear(&top);
	return rc;
}

const struct cmd cmd_top = {
	"top", "[OPTION...]", "watch queues, functions and running jobs", run, "deferred_viewer", NULL, SHARDS_ONE,
};

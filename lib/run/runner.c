/* SPDX-License-Identifier: MIT */
#include "run/runner.h"

#include "run/cgroup.h"
#include "base/clock.h"
#include "deferred_plugin.h"
#include "run/frame.h"
#include "base/log.h"
#include "run/orphan.h"
#include "run/token.h"
#include "port/params.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_LINE_MAX 1024
#define TAIL_MAX 2048
#define TRACE_MAX 4096
#define RETRY_AFTER_MAX_MS (365ll * 86400 * 1000)
#define USAGE_MAX (1ull << 50)         /* what a runner says of processor time and memory is believed up to this */
#define FUNCTIONS_BYTES_MAX (4u << 20) /* of the names and plugins of functions that a runner may say */
#define BUFFER_KEPT (1u << 20)         /* what a large frame needed beyond is given back */
#define CHANGES_MAX 1000               /* of plugins; who tells of more means harm */
#define REMOVALS_MAX (1u << 20)        /* bytes of requests that wait for a runner to read them */
#define START_NS NS_PER_S              /* a runner begins its next call so soon */
#define STALL_NS (10 * NS_PER_S)       /* one that does not, for so long, is broken */
#define TORN_NS NS_PER_S               /* the rest of a frame comes within that */
#define READS_MAX 17      /* so many reads of 4 KiB take what a pipe holds, unless it was made larger, and its end */
#define NAMESPACE_MS 1000 /* a child has its user namespace by then */
#define READ_NS (5 * NS_PER_MS) /* of a turn, for what one runner prints, and for what it sends */

/* A call that the runner was given, and what came in for it so far. */
struct call_state {
	/* NULL: the slot is not in use, or was recalled, and the runner has still to pass over its frame */
	struct job *job;
	int64_t timeout_ms;
	const char *plugin;
	uint64_t begun_ns; /* it counts as begun since; 0: not yet */
	uint64_t done_ns;  /* it is done on the board, but not all it said has come; 0: not so */
	char *error, *result;
	size_t error_len, result_len;
	struct runner_call *follow, **follow_tail; /* tail NULL: none yet */
	struct runner_path *remove;
	size_t asks, ask_bytes; /* of these two */
	bool asked_too_much;
};

/*
 * What the runner has been given lies in call[] as a ring: `used` slots from `first` on, in the order they were given,
 * which is the order in which it takes them. So only the first can be under way as long as the board does not say that
 * it is done, and it can have begun no earlier than `first_ns`. Nothing that stands on the board moves a call to
 * another place, makes it vanish, or gives it more time.
 */
struct runner {
	pid_t pid;
	int socket, output, stop; /* stop: see FRAME_STOP_FD */
	int cgroup;               /* 0: none */
	bool ready, broken, reaped;
	struct board *board;
	struct frame_buf in, out;
	uint64_t bytes_received; /* of whole frames */
	bool drained;            /* all it had sent was read in the last turn */
	bool paused;             /* nothing of what it sends is read */
	bool forged;             /* its board says what cannot be */
	struct call_state call[BOARD_SLOTS];
	unsigned int first, used;
	uint64_t first_ns; /* since then nothing is ahead of the first one */
	uint64_t ended_ns; /* when the last one taken ended, by what the runner says */
	size_t load;       /* those of them that are jobs */
	struct attempt *ended, **ended_tail;
	struct runner_function *functions;
	size_t functions_len, functions_bytes;
	char line[OUTPUT_LINE_MAX]; /* of output, not yet ended */
	size_t line_len;
	char tail[TAIL_MAX]; /* the last it printed */
	size_t tail_len;
	bool crashing;         /* what it prints is a backtrace */
	char trace[TRACE_MAX]; /* the first of that */
	size_t trace_len;
	char *loading;        /* the plugin it is loading */
	unsigned int changes; /* of plugins, that it told of */
	bool killed;
	int64_t killed_id; /* the job it was at */
	enum job_outcome killed_as;
	char killed_text[256];
};

void runner_init_process(void)
{
	orphan_init();
}

/* ---- starting --------------------------------------------------------------------------------- */

static int put_texts(struct runner *r, enum frame_type type, const char *a, const char *b)
{
	struct frame_part parts[] = { { a, strlen(a) + 1 }, { b ? b : "", b ? strlen(b) + 1 : 0 } };

	return frame_put(&r->out, type, 0, parts, 2);
}

static int put_setting(void *data, const char *name, const char *value)
{
	return put_texts(data, FRAME_SETTING, name, value ? value : "");
}

static int put_command(struct runner *r, const struct config_command *c)
{
	struct frame_function fixed = { c->timeout_ms, c->max_attempts, c->new_privileges ? FRAME_NEW_PRIVILEGES : 0 };
	struct frame_part parts[66] = { { &fixed, sizeof(fixed) }, { c->name, strlen(c->name) + 1 } };
	size_t n = 2;

	for (size_t i = 0; c->argv[i]; i++) {
		if (n == sizeof(parts) / sizeof(parts[0]))
			return -1;
		parts[n++] = (struct frame_part){ c->argv[i], strlen(c->argv[i]) + 1 };
	}
	return frame_put(&r->out, FRAME_COMMAND, 0, parts, n);
}

/* All a runner has to know before its first call. */
static int put_start(struct runner *r, const struct runner_setup *setup)
{
	const struct config *config = setup->config;
	struct frame_start start = {
		.owner_uid = (uint32_t)(setup->switch_user ? setup->uid : geteuid()),
		.isolate_job = strcmp(config_text(config, "isolate"), "job") == 0,
		.cpu_ms = config_int(config, "cpu_limit"),
		.memory_bytes = config_int(config, "memory_limit"),
		.files = config_int(config, "files_limit"),
		.processes = config_int(config, "processes_limit"),
	};
	const char *dir = setup->plugin_dir ? setup->plugin_dir : "";
	struct frame_part parts[] = { { &start, sizeof(start) }, { dir, strlen(dir) + 1 } };
	const struct config_command *commands;
	size_t n;

	if (config_each_public(config, put_setting, r) < 0)
		return -1;
	commands = config_commands(config, &n);
	for (size_t i = 0; i < n; i++)
		if (put_command(r, &commands[i]) < 0)
			return -1;
	for (size_t i = 0; i < setup->passed_over_len; i++)
		if (setup->passed_over[i].until_ns > clock_ns() &&
		    put_texts(r, FRAME_PASS_OVER, setup->passed_over[i].file, NULL) < 0)
			return -1;
	return frame_put(&r->out, FRAME_START, 0, parts, 2);
}

/* The environment of functions: what is needed to find programs and read time and text, nothing of ours. */
#define OWN_NAMES 4 /* so many names below say who it is: not root, where functions run as another user */
static char **environment(const struct runner_setup *setup, char instance[static ORPHAN_COOKIE_SIZE])
{
	static const char *const kept[] = {
		"HOME=",
		"LOGNAME=",
		"SHELL=",
		"USER=",
		"LANG=",
		"LC_ALL=",
		"LC_CTYPE=",
		"TZ=",
#if defined(__SANITIZE_ADDRESS__)
		"ASAN_OPTIONS=",
		"UBSAN_OPTIONS=",
		"LSAN_OPTIONS=",
#endif
	};
	static char *env[sizeof(kept) / sizeof(kept[0]) + OWN_NAMES + 3];
	static char own[OWN_NAMES][600]; /* of the user switched to */
	const char *values[OWN_NAMES] = { setup->home, setup->user, setup->shell, setup->user };
	size_t n = 0;

	for (char **e = environ; *e; e++)
		for (size_t i = setup->switch_user ? OWN_NAMES : 0; i < sizeof(kept) / sizeof(kept[0]); i++)
			if (strncmp(*e, kept[i], strlen(kept[i])) == 0 && n < sizeof(kept) / sizeof(kept[0]))
				env[n++] = *e;
	for (size_t i = 0; i < OWN_NAMES && setup->switch_user; i++) {
		snprintf(own[i], sizeof(own[i]), "%s%s", kept[i], values[i]);
		env[n++] = own[i];
	}
	/* Folders of root alone: what the PATH of who started us names may be others'. */
	env[n++] = (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	snprintf(instance, ORPHAN_COOKIE_SIZE, "DEFERRED_INSTANCE=%s", setup->instance);
	env[n++] = instance;
	env[n] = NULL;
	return env;
}

/* ---- a user namespace for each ----------------------------------------------------------------- */

/*
 * Functions of one user may look into each other's processes, and would find params and receipts there. Not so across
 * user namespaces. In these all ids are as outside. Root alone can make such ones, and not where a program is to gain
 * rights of root.
 */
static bool no_namespaces; /* the kernel, or the container that this runs in, does not let us */

static bool wants_namespace(const struct runner_setup *setup)
{
	const struct config_command *commands;
	size_t n;

	commands = config_commands(setup->config, &n);
	for (size_t i = 0; i < n; i++)
		if (commands[i].new_privileges)
			return false;
	return setup->switch_user && setup->uid != 0 && !no_namespaces;
}

/* In the child, which has no ids in it until its parent has given them. */
static void enter_namespace(int sock)
{
	char said = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';

	if (write(sock, &said, 1) != 1 || read(sock, &said, 1) != 1)
		_exit(126);
}

static bool map_ids(pid_t pid, const char *which)
{
	static const char all[] = "0 0 4294967295\n";
	char path[64];
	bool written;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	written = fd >= 0 && write(fd, all, sizeof(all) - 1) == (ssize_t)sizeof(all) - 1;
	if (fd >= 0)
		close(fd);
	return written;
}

/* A child without ids cannot become the user of functions, and ends; the next one stays outside. */
static void give_ids(pid_t pid, int sock)
{
	struct pollfd fd = { sock, POLLIN, 0 };
	char said;

	if (poll(&fd, 1, NAMESPACE_MS) <= 0 || read(sock, &said, 1) != 1)
		return; /* it has died, or does not get ready and is killed for it */
	no_namespaces = said != 'y' || !map_ids(pid, "uid_map") || !map_ids(pid, "gid_map");
	if (no_namespaces)
		log_line(LOG_L_DEBUG, "runners have no user namespaces: %s", strerror(errno));
	send(sock, &said, 1, MSG_NOSIGNAL);
}

/* In the child, before exec. Only calls that are safe after fork. Ends in exec or _exit. */
static void become_runner(const struct runner_setup *setup, char **env, const char *instance, pid_t parent, int cgroup,
			  bool namespace, int sock, int board, int output, int stop)
{
	char ppid[16], build[64];
	/* The instance stands in the arguments as well: those of a process that nobody may look into can still be read.
	 * */
	char *argv[] = { (char *)"deferred_runner", ppid, build, (char *)instance, NULL };
	int null_fd, oom;
	sigset_t none;

	/* All are blocked since before the fork: no handler of ours, which may write where it must not any more, runs
	 * in here. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	if (cgroup_enter(cgroup) < 0) { /* while we may: then nothing it will start is elsewhere */
		dprintf(output, "cannot enter its control group: %s\n", strerror(errno));
		_exit(126);
	}
	if (namespace)
		enter_namespace(sock);
	if (setup->switch_user &&
	    (initgroups(setup->user, setup->gid) < 0 || setgid(setup->gid) < 0 || setuid(setup->uid) < 0))
		_exit(126);
	if (setup->switch_user) {
		umask(022);
		/* Not where root was, which it may not even be able to read. */
		if (chdir(setup->home) < 0 && chdir("/") < 0)
			_exit(126);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* after setuid, which clears it */
	if (getppid() != parent)
		_exit(126);
	oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (oom >= 0 && write(oom, "500", 3) < 0)
		oom = -1; /* a wish only */
	null_fd = open("/dev/null", O_RDONLY);
	/* Above the target numbers first: one of them may lie on another's place. */
	sock = fcntl(sock, F_DUPFD, 10);
	board = fcntl(board, F_DUPFD, 10);
	output = fcntl(output, F_DUPFD, 10);
	stop = fcntl(stop, F_DUPFD, 10);
	null_fd = fcntl(null_fd, F_DUPFD, 10);
	if (dup2(null_fd, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 || dup2(sock, FRAME_SOCKET_FD) < 0 ||
	    dup2(board, FRAME_BOARD_FD) < 0 || dup2(stop, FRAME_STOP_FD) < 0)
		_exit(126);
	syscall(SYS_close_range, (unsigned int)FRAME_STOP_FD + 1, ~0u, 0u);
	snprintf(ppid, sizeof(ppid), "%d", (int)parent);
	snprintf(build, sizeof(build), FRAME_BUILD_FORMAT, FRAME_BUILD_ARGS);
	execve(setup->program, argv, env);
	dprintf(2, "cannot execute '%s': %s\n", setup->program, strerror(errno));
	_exit(127);
}

/* Its share of what all of them have: none takes from the others what they need to go on. */
static int make_group(const struct config *config, struct deferred_error *err)
{
	int64_t processes = config_int(config, "processes_limit"), share = processes / config_int(config, "runners");

	return cgroup_make(processes > 0 && share == 0 ? 1 : share, config_int(config, "memory_limit"), err);
}

const char *runner_program(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 32);
	char *slash;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		strcpy(slash + 1, "deferred_runner");
		if (access(path, X_OK) == 0)
			return path;
	}
	snprintf(path, PATH_MAX, "%s/deferred_runner", DEFERRED_LIBEXECDIR);
	return path;
}

int runner_spawn(struct runner **out, const struct runner_setup *setup, struct deferred_error *err)
{
	struct runner *r = calloc(1, sizeof(*r));
	int sock[2] = { -1, -1 }, output[2] = { -1, -1 }, board = -1, rc = 0;
	pid_t parent = getpid();
	bool namespace = wants_namespace(setup);
	sigset_t all, mask;
	char instance[ORPHAN_COOKIE_SIZE], **env = environment(setup, instance);

	*out = NULL;
	if (!r)
		return error_set(err, DEFERRED_ENOMEM, "runner", "out of memory");
	r->socket = r->output = r->stop = -1;
	r->board = MAP_FAILED;
	r->ended_tail = &r->ended;
	board = memfd_create("board", MFD_CLOEXEC);
	if (board < 0 || ftruncate(board, sizeof(*r->board)) < 0 ||
	    (r->board = mmap(NULL, sizeof(*r->board), PROT_READ | PROT_WRITE, MAP_SHARED, board, 0)) == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0 || pipe2(output, O_CLOEXEC) < 0 ||
	    (r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
		rc = error_errno(err, DEFERRED_ESYSTEM, "runner",
				 "cannot start a runner\nraise the limits of open files and memory");
		goto done;
	}
	if (put_start(r, setup) < 0) {
		rc = error_set(err, DEFERRED_ENOMEM, "runner", "out of memory");
		goto done;
	}
	r->cgroup = make_group(setup->config, err);
	if (r->cgroup < 0) {
		rc = r->cgroup;
		goto done;
	}
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	r->pid = fork();
	if (r->pid == 0)
		become_runner(setup, env, instance, parent, r->cgroup, namespace, sock[1], board, output[1], r->stop);
	rc = r->pid < 0 ? error_errno(err, DEFERRED_ESYSTEM, "runner",
				      "cannot fork a runner\nraise the limit of processes (ulimit -u, TasksMax)")
			: 0;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (rc < 0)
		goto done;
	setpgid(r->pid, r->pid); /* the child does the same: whoever comes first */
	close(sock[1]);
	sock[1] = -1;
	if (namespace)
		give_ids(r->pid, sock[0]);
	r->socket = sock[0];
	r->output = output[0];
	sock[0] = output[0] = -1;
	fcntl(r->socket, F_SETFL, O_NONBLOCK);
	fcntl(r->output, F_SETFL, O_NONBLOCK);
	*out = r;
	runner_flush(r);
done:
	if (board >= 0)
		close(board);
	for (int i = 0; i < 2; i++) {
		if (sock[i] >= 0)
			close(sock[i]);
		if (output[i] >= 0)
			close(output[i]);
	}
	if (rc < 0)
		runner_free(r);
	return rc;
}

static void free_functions(struct runner *r)
{
	for (size_t i = 0; i < r->functions_len; i++) {
		free(r->functions[i].name);
		free(r->functions[i].plugin);
	}
	free(r->functions);
	r->functions = NULL;
	r->functions_len = 0;
}

void runner_free(struct runner *r)
{
	struct attempt *a;

	if (!r)
		return;
	cgroup_end(r->cgroup);
	job_list_free(runner_recall(r));
	while ((a = runner_take(r)))
		attempt_free(a);
	free_functions(r);
	if (r->socket >= 0)
		close(r->socket);
	if (r->output >= 0)
		close(r->output);
	if (r->stop >= 0)
		close(r->stop);
	if (r->board != MAP_FAILED)
		munmap(r->board, sizeof(*r->board));
	frame_buf_clear(&r->in);
	frame_buf_clear(&r->out);
	free(r->loading);
	free(r);
}

pid_t runner_pid(const struct runner *r)
{
	return r->pid;
}

bool runner_ready(const struct runner *r)
{
	return r->ready && !r->broken && !r->killed;
}

void runner_pollfds(const struct runner *r, struct pollfd fds[2])
{
	fds[0] = (struct pollfd){ r->socket, (short)((r->paused ? 0 : POLLIN) | (r->out.at < r->out.len ? POLLOUT : 0)),
				  0 };
	fds[1] = (struct pollfd){ r->output, POLLIN, 0 };
}

size_t runner_load(const struct runner *r)
{
	return r->load;
}

/* ---- what it prints --------------------------------------------------------------------------- */

static uint32_t state_of(const struct runner *r, unsigned int slot)
{
	return atomic_load_explicit(&r->board->slot[slot].state, memory_order_acquire);
}

/* By the board: is the runner through with this one? */
static bool is_over(const struct runner *r, unsigned int slot)
{
	uint32_t state = state_of(r, slot);

	return r->call[slot].job ? state == BOARD_DONE : state != BOARD_RECALLED;
}

static unsigned int slot_at(const struct runner *r, unsigned int i)
{
	return (r->first + i) % BOARD_SLOTS;
}

/* The one it says it is at: -1 if none. */
static int running_slot(const struct runner *r)
{
	unsigned int i = 0;

	while (i < r->used && is_over(r, slot_at(r, i)))
		i++;
	return i < r->used && state_of(r, slot_at(r, i)) == BOARD_RUNNING ? (int)slot_at(r, i) : -1;
}

static void log_output_line(struct runner *r)
{
	int slot;

	if (r->line_len == 0)
		return;
	slot = running_slot(r);
	if (slot >= 0)
		log_job(LOG_L_INFO, r->call[slot].job, "job %lld %s: %.*s", (long long)r->call[slot].job->id,
			r->call[slot].job->fn, (int)r->line_len, r->line);
	else
		log_line(LOG_L_INFO, "runner %d: %.*s", (int)r->pid, (int)r->line_len, r->line);
	r->line_len = 0;
}

/* May it be read once more in this turn? Who writes faster than we log would never let us go: poll() brings us back.
 * After its death what it left behind is read whole, but not what others that hold its pipe still add. */
static bool may_read(const struct runner *r, int reads, uint64_t began_ns)
{
	return reads < READS_MAX && (r->reaped || clock_ns() < began_ns + READ_NS);
}

/* What follows the mark, and is none of the log's. Of this the first counts, and it is taken for what it should be:
 * names and numbers. */
static void take_trace(struct runner *r, const char *data, size_t n)
{
	for (size_t i = 0; i < n && r->trace_len < TRACE_MAX; i++)
		if (data[i] != FRAME_CRASH_MARK)
			r->trace[r->trace_len++] =
				(data[i] >= ' ' && data[i] <= '~') || data[i] == '\n' ? data[i] : '?';
}

static void take_tail(struct runner *r, const char *data, size_t n)
{
	size_t keep = n < TAIL_MAX ? n : TAIL_MAX;

	if (r->tail_len + keep > TAIL_MAX) {
		size_t drop = r->tail_len + keep - TAIL_MAX;

		memmove(r->tail, r->tail + drop, r->tail_len - drop);
		r->tail_len -= drop;
	}
	memcpy(r->tail + r->tail_len, data + n - keep, keep);
	r->tail_len += keep;
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || r->line_len == sizeof(r->line))
			log_output_line(r);
		if (data[i] != '\n')
			r->line[r->line_len++] = data[i];
	}
}

static void take_output(struct runner *r, const char *data, size_t n)
{
	const char *mark = r->crashing ? NULL : memchr(data, FRAME_CRASH_MARK, n);
	size_t before = r->crashing ? 0 : mark ? (size_t)(mark - data) : n;

	take_tail(r, data, before);
	if (mark) {
		log_output_line(r);
		r->crashing = true;
		r->trace_len = 0;
	}
	take_trace(r, data + before, n - before);
}

static void read_output(struct runner *r)
{
	uint64_t began_ns = clock_ns();
	char buf[4096];
	ssize_t n = 1;

	if (r->output < 0)
		return;
	for (int reads = 0; may_read(r, reads, began_ns) && (n = read(r->output, buf, sizeof(buf))) > 0; reads++)
		take_output(r, buf, (size_t)n);
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		close(r->output);
		r->output = -1;
		log_output_line(r);
	}
}

/* ---- what it sends ---------------------------------------------------------------------------- */

static int take_function(struct runner *r, bool clash, const char *payload, size_t len)
{
	struct frame_function fixed;
	struct runner_function *bigger, *f;
	size_t at = sizeof(fixed);
	const char *name, *plugin;

	if (len < sizeof(fixed))
		return -1;
	memcpy(&fixed, payload, sizeof(fixed));
	name = frame_text(payload, len, &at);
	plugin = name ? frame_text(payload, len, &at) : NULL;
	r->functions_bytes += len + sizeof(*f);
	if (!plugin || r->functions_bytes > FUNCTIONS_BYTES_MAX)
		return -1;
	bigger = realloc(r->functions, (r->functions_len + 1) * sizeof(*bigger));
	if (!bigger)
		return -1;
	r->functions = bigger;
	f = &r->functions[r->functions_len++];
	f->name = strdup(name);
	f->plugin = strdup(plugin);
	f->timeout_ms = fixed.timeout_ms;
	f->max_attempts = fixed.max_attempts;
	f->flags = fixed.flags;
	f->clash = clash;
	if (clash)
		f->max_attempts = -1;
	return f->name && f->plugin ? 0 : -1;
}

static void drop_asks(struct call_state *c)
{
	struct attempt rest = { .follow = c->follow };

	attempt_drop_follow(&rest);
	while (c->remove) {
		struct runner_path *path = c->remove;

		c->remove = path->next;
		free(path);
	}
	c->follow = NULL;
	c->follow_tail = NULL;
}

/* The runner counts too, and says so to the function: who is beyond this one lies. */
static bool may_ask(struct call_state *c, size_t len)
{
	c->asks++;
	c->ask_bytes += len + FRAME_ASK_BYTES;
	if (c->asks > FRAME_ASKS_MAX || c->ask_bytes > FRAME_ASK_BYTES_MAX) {
		c->asked_too_much = true;
		drop_asks(c);
	}
	return !c->asked_too_much;
}

static int take_follow(struct call_state *c, const char *payload, size_t len)
{
	struct runner_call *call = malloc(sizeof(*call) + len + 1);
	size_t at = 0;

	if (!call)
		return -1;
	memcpy(call->text, payload, len + 1);
	call->next = NULL;
	call->fn = frame_text(call->text, len, &at);
	call->params = call->fn ? frame_text(call->text, len, &at) : NULL;
	call->opts = call->params ? frame_text(call->text, len, &at) : NULL;
	if (!call->opts) {
		free(call);
		return -1;
	}
	if (!*call->opts)
		call->opts = NULL;
	*(c->follow_tail ? c->follow_tail : &c->follow) = call;
	c->follow_tail = &call->next;
	return 0;
}

static int take_path(struct call_state *c, const char *payload, size_t len)
{
	struct runner_path *path;

	if (len < 2 || payload[0] != '/' || payload[len - 1] != '\0')
		return -1;
	path = malloc(sizeof(*path) + len);
	if (!path)
		return -1;
	memcpy(path->path, payload, len);
	path->next = c->remove;
	c->remove = path;
	return 0;
}

static void take_log(const struct job *job, const char *payload, size_t len)
{
	char *text = NULL;
	int32_t level;

	if (len < sizeof(level))
		return;
	memcpy(&level, payload, sizeof(level));
	if (level < LOG_L_ERROR || level > LOG_L_DEBUG)
		level = LOG_L_INFO;
	attempt_set_text(&text, &len, payload + sizeof(level), len - sizeof(level));
	log_job((enum log_level)level, job, "job %lld %s: %s", (long long)job->id, job->fn, text ? text : "");
	free(text);
}

/* Runners load, and copy, their plugins each for itself. */
static int tell_changed(struct runner *r, const struct frame_head *head, const char *payload)
{
	if (++r->changes > CHANGES_MAX)
		return -1;
	log_line(LOG_L_WARNING,
		 "plugin '%s' %s: runner %d goes on with what it has loaded, until the next start or SIGHUP", payload,
		 head->slot ? "is gone" : "has changed", (int)r->pid);
	return 0;
}

/* One frame. Returns 0, -1 for nonsense, or DEFERRED_EPLUGIN or DEFERRED_ECONFIG with err. */
static int take_frame(struct runner *r, const struct frame_head *head, const char *payload, struct deferred_error *err)
{
	struct call_state *c = head->slot < BOARD_SLOTS ? &r->call[head->slot] : NULL;
	size_t at = 0;
	const char *a, *b;

	if (head->type == FRAME_CHANGED)
		return tell_changed(r, head, payload);
	if (head->type == FRAME_BELL)
		return 0;
	switch (r->ready ? 0 : head->type) { /* afterwards nothing of this is news */
	case FRAME_FUNCTION:
	case FRAME_CLASH:
		return take_function(r, head->type == FRAME_CLASH, payload, head->len);
	case FRAME_LOADING:
		free(r->loading);
		r->loading = strdup(payload);
		return r->loading ? 0 : -1;
	case FRAME_REFUSED:
	case FRAME_FATAL:
		a = frame_text(payload, head->len, &at);
		b = a ? frame_text(payload, head->len, &at) : NULL;
		if (!b)
			return -1;
		if (head->type == FRAME_REFUSED) {
			log_line(LOG_L_WARNING, "plugin '%s' not loaded: %s", a, b);
			return 0;
		}
		error_set(err, head->slot ? DEFERRED_ECONFIG : DEFERRED_EPLUGIN, "plugin", "%s", a);
		error_hint(err, "%s", b);
		return head->slot ? DEFERRED_ECONFIG : DEFERRED_EPLUGIN;
	case FRAME_READY:
		r->ready = true;
		return 0;
	}
	if (!c || !c->job)
		return -1;
	switch (head->type) {
	case FRAME_RESULT:
		attempt_set_text(&c->result, &c->result_len, payload, head->len);
		return 0;
	case FRAME_ERROR:
		attempt_set_text(&c->error, &c->error_len, payload, head->len);
		return 0;
	case FRAME_LOG:
		take_log(c->job, payload, head->len);
		return 0;
	case FRAME_FOLLOW:
		return may_ask(c, head->len) ? take_follow(c, payload, head->len) : 0;
	case FRAME_REMOVE_AFTER:
		return may_ask(c, head->len) ? take_path(c, payload, head->len) : 0;
	}
	return -1;
}

static int drain_socket(struct runner *r, struct deferred_error *err)
{
	uint64_t began_ns = clock_ns();
	struct frame_head head;
	char *payload;
	int rc;

	r->drained = false;
	if (r->paused && !r->reaped)
		return 0;
	for (int reads = 0; r->socket >= 0 && !r->broken; reads++) {
		if (!may_read(r, reads, began_ns))
			return 0;
		rc = frame_fill(&r->in, r->socket, MSG_DONTWAIT);
		if (rc < 0)
			break;
		if (rc == 0) {
			close(r->socket);
			r->socket = -1;
			break;
		}
		while ((rc = frame_take(&r->in, &head, &payload, FRAME_FROM_RUNNER_MAX)) == 1) {
			int what = take_frame(r, &head, payload, err);

			if (what == DEFERRED_EPLUGIN || what == DEFERRED_ECONFIG)
				return what;
			if (what < 0) {
				rc = -1;
				break;
			}
			r->bytes_received += sizeof(head) + head.len;
		}
		if (rc < 0) {
			r->broken = true;
			close(r->socket);
			r->socket = -1;
		}
	}
	r->drained = true;
	if (r->in.at == r->in.len && r->in.cap > BUFFER_KEPT)
		frame_buf_clear(&r->in);
	if (r->broken)
		return error_set(err, DEFERRED_EFAILED, "runner",
				 "runner %d wrote to its socket what it must not\nfind the function that does so",
				 (int)r->pid);
	return 0;
}

/* ---- calls ------------------------------------------------------------------------------------ */

bool runner_send(struct runner *r, struct job *job, int64_t timeout_ms, const char *plugin, bool plain_crash)
{
	unsigned int slot = slot_at(r, r->used);
	struct call_state *c = &r->call[slot];
	struct board_slot *s = &r->board->slot[slot];
	struct frame_call fixed = {
		.id = job->id,
		.created_at_us = job->created_at_us,
		.ready_at_us = job->ready_at_us,
		.tick_us = job->tick_us,
		.previous_tick_us = job->previous_tick_us,
		.timeout_ms = timeout_ms,
		.token = token_of(job->receipt, job->id),
		.attempt = job->attempt,
		.params_len = job->params_len,
		.parents_len = job->parents_len,
	};
	struct frame_part parts[] = {
		{ &fixed, sizeof(fixed) },
		{ job->fn, strlen(job->fn) + 1 },
		{ job->label, strlen(job->label) + 1 },
		{ job->params, (size_t)job->params_len + 1 },
		{ job->parents, (size_t)job->parents_len + 1 },
	};

	if (r->socket < 0 || r->used == BOARD_SLOTS)
		return false;
	fixed.plain_crash = plain_crash;
	memcpy(fixed.traceparent, job->traceparent, sizeof(fixed.traceparent));
	if (frame_put(&r->out, FRAME_CALL, slot, parts, 5) < 0)
		return false;
	atomic_store_explicit(&s->cancelled, 0, memory_order_relaxed);
	atomic_store_explicit(&s->state, BOARD_QUEUED, memory_order_release);
	c->job = job;
	c->timeout_ms = timeout_ms;
	c->plugin = plugin;
	if (r->used++ == 0)
		r->first_ns = clock_ns();
	r->load++;
	return true;
}

bool runner_remove_file(struct runner *r, const char *path)
{
	return r->socket >= 0 && r->out.len - r->out.at < REMOVALS_MAX && put_texts(r, FRAME_REMOVE, path, NULL) == 0;
}

int runner_flush(struct runner *r)
{
	if (r->socket < 0 || r->out.at == r->out.len)
		return 0;
	return frame_flush(&r->out, r->socket, MSG_DONTWAIT);
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* The first of the ring is out of it. */
static void drop_first(struct runner *r, uint64_t now)
{
	atomic_store_explicit(&r->board->slot[r->first].state, BOARD_FREE, memory_order_relaxed);
	memset(&r->call[r->first], 0, sizeof(r->call[r->first]));
	r->first = slot_at(r, 1);
	r->first_ns = now;
	r->used--;
}

/* The first one has ended. said: what the board tells of it, which is taken within what is possible. */
static struct attempt *end_call(struct runner *r, enum job_outcome outcome, const struct board_slot *said)
{
	struct call_state *c = &r->call[r->first];
	struct attempt *a = calloc(1, sizeof(*a));
	uint64_t now = clock_ns(), earliest = c->job->claimed_ns > r->ended_ns ? c->job->claimed_ns : r->ended_ns;

	if (!a)
		abort(); /* an attempt that cannot be noted down must not be lost in silence */
	a->job = c->job;
	a->outcome = outcome;
	a->plugin = c->plugin;
	a->retry_after_ms = -1;
	a->exit_code = -1;
	a->finished_ns = clamp(said->finished_ns, earliest, now);
	a->started_ns = clamp(said->started_ns, earliest, a->finished_ns);
	a->user_us = clamp(said->user_us, 0, USAGE_MAX);
	a->sys_us = clamp(said->sys_us, 0, USAGE_MAX);
	a->max_rss_kb = clamp(said->max_rss_kb, 0, USAGE_MAX);
	a->error = c->error;
	a->error_len = c->error_len;
	a->result = c->result;
	a->result_len = c->result_len;
	a->follow = c->follow;
	a->remove = c->remove;
	attempt_hold(a, c->ask_bytes);
	r->ended_ns = a->finished_ns;
	r->crashing = false;
	drop_first(r, now);
	r->load--;
	*r->ended_tail = a;
	r->ended_tail = &a->next;
	return a;
}

static void __attribute__((format(printf, 2, 3))) attempt_error(struct attempt *a, const char *fmt, ...)
{
	char text[JOB_TEXT_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	attempt_set_text(&a->error, &a->error_len, text,
			 n < 0                      ? 0
			 : (size_t)n < sizeof(text) ? (size_t)n
						    : sizeof(text) - 1);
}

/* What is known of an end, with what a command had said of it, the last that was printed, and the backtrace. */
static void __attribute__((format(printf, 3, 4)))
describe_end(const struct runner *r, struct attempt *a, const char *fmt, ...)
{
	bool apart = r->tail_len && r->trace_len && r->tail[r->tail_len - 1] != '\n';
	size_t trace_len = r->trace_len;
	char what[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	while (trace_len > 0 && r->trace[trace_len - 1] == '\n')
		trace_len--;
	attempt_error(a, "%s%s%.*s%s%.*s%s%.*s", what, a->error_len ? "\n" : "", (int)a->error_len,
		      a->error_len ? a->error : "", r->tail_len || r->trace_len ? "\n" : "", (int)r->tail_len, r->tail,
		      apart ? "\n" : "", (int)trace_len, r->trace);
}

static void describe_signal(struct runner *r, struct attempt *a, int sig)
{
	a->outcome = JOB_CRASHED;
	a->signal = sig;
	describe_end(r, a, "killed by signal %d (%s)", sig, strsignal(sig));
}

static void describe_exit(struct runner *r, struct attempt *a, int exit_code)
{
	a->outcome = JOB_FAILED;
	a->exit_code = exit_code;
	describe_end(r, a, "the function ended its process with status %d", exit_code);
}

static void tell_answer_lost(struct attempt *a)
{
	attempt_error(a, "the function wrote into, or closed, a descriptor that is not its own: its answer is lost");
}

static void take_result(struct runner *r, struct attempt *a, const struct board_slot *said)
{
	a->exit_code = said->exit_code;
	if (said->result == -1 && said->signal > 0 && said->signal < NSIG) {
		describe_signal(r, a, said->signal);
	} else if (said->result == -1 && said->exit_code >= 0) {
		describe_exit(r, a, said->exit_code);
	} else if (said->result == BOARD_ANSWER_LOST) {
		tell_answer_lost(a);
	} else if (said->result == DEFERRED_OK) {
		a->outcome = JOB_OK;
	} else {
		if (said->result == DEFERRED_CANCEL)
			a->outcome = JOB_CANCELLED;
		else if (said->result == DEFERRED_SNOOZE)
			a->outcome = JOB_SNOOZED;
		a->dead = said->result == DEFERRED_DEAD;
		a->unready = said->result == DEFERRED_UNREADY;
		/* Without a delay given, the usual one: 0 would use up all attempts at once. */
		if ((said->result == DEFERRED_LATER || said->result == DEFERRED_SNOOZE) && said->retry_after_ms >= 0)
			a->retry_after_ms =
				said->retry_after_ms < RETRY_AFTER_MAX_MS ? said->retry_after_ms : RETRY_AFTER_MAX_MS;
		if (a->error_len == 0 && said->result >= DEFERRED_FAILED && said->result <= DEFERRED_SNOOZE)
			attempt_error(a, "without saying why");
		else if (a->error_len == 0)
			attempt_error(a, "returned %d", said->result);
	}
}

/* Part of a frame came. What comes behind it, and at least the bell does, tells whether it is one. */
static bool is_torn(const struct runner *r)
{
	return !r->reaped && r->socket >= 0 && !r->paused && r->in.at < r->in.len;
}

/* The first one is done, by the board. */
static void take_done(struct runner *r)
{
	const struct board_slot said = r->board->slot[r->first]; /* a copy: it may change while it is looked at */
	bool asked_too_much = r->call[r->first].asked_too_much;
	struct attempt *a = end_call(r, JOB_FAILED, &said);

	if (said.bytes_sent > r->bytes_received)
		attempt_error(a, "the answer of the function did not arrive whole");
	else if ((r->broken || is_torn(r)) && said.bytes_sent == r->bytes_received)
		tell_answer_lost(a); /* what is no frame came right behind it */
	else if (asked_too_much)
		attempt_error(a, "%s", FRAME_ASKS_TEXT);
	else
		take_result(r, a, &said);
	r->trace_len = 0;
}

/* Has all come that the first one, which is done, said, or will no more of it? */
static bool is_whole(const struct runner *r)
{
	uint64_t sent = r->board->slot[r->first].bytes_sent, done_ns = r->call[r->first].done_ns;

	if (sent != r->bytes_received)
		return sent < r->bytes_received || r->drained;
	return !is_torn(r) || (done_ns && clock_ns() >= done_ns + TORN_NS);
}

/* Those at the front that the runner is through with, `most` at the most. One whose texts may still be in the socket
 * waits for a later turn, and all behind it. */
static void take_over(struct runner *r, unsigned int most)
{
	for (; most > 0 && r->used > 0 && is_over(r, r->first); most--) {
		struct call_state *c = &r->call[r->first];

		if (!c->job) {
			drop_first(r, clock_ns());
		} else if (is_whole(r)) {
			take_done(r);
		} else {
			if (!c->done_ns)
				c->done_ns = clock_ns();
			return;
		}
	}
}

/* The first one is queued, running or done, in this order: nothing else is possible, for nobody but us would make it
 * so. */
static bool is_forged(const struct runner *r)
{
	const struct call_state *c = &r->call[r->first];
	uint32_t state = r->used > 0 && c->job ? state_of(r, r->first) : BOARD_DONE;

	return r->forged || (state != BOARD_RUNNING && state != BOARD_DONE && (state != BOARD_QUEUED || c->begun_ns));
}

int runner_read(struct runner *r, struct deferred_error *err)
{
	unsigned int over = 0;
	int rc;

	/* First the board, then the socket: the texts of a call that is done on the board have been sent. */
	while (over < r->used && is_over(r, slot_at(r, over)))
		over++;
	read_output(r);
	rc = drain_socket(r, err);
	take_over(r, over);
	if (rc == 0 && is_forged(r))
		rc = error_set(err, DEFERRED_EFAILED, "runner",
			       "the shared memory of runner %d was overwritten\nfind the function that does so",
			       (int)r->pid);
	return rc;
}

void runner_pause(struct runner *r, bool pause)
{
	r->paused = pause;
}

struct attempt *runner_take(struct runner *r)
{
	struct attempt *a = r->ended;

	if (a) {
		r->ended = a->next;
		if (!r->ended)
			r->ended_tail = &r->ended;
		a->next = NULL;
	}
	return a;
}

struct runner_function *runner_take_functions(struct runner *r, size_t *len)
{
	struct runner_function *f = r->functions;

	*len = r->functions_len;
	r->functions = NULL;
	r->functions_len = 0;
	return f;
}

/* Take one back. Returns false when the runner was quicker: then all before it have ended, as it takes them in turn. */
static bool recall(struct runner *r, unsigned int i)
{
	uint32_t expected = BOARD_QUEUED;

	if (!r->call[slot_at(r, i)].job || r->reaped ||
	    atomic_compare_exchange_strong(&r->board->slot[slot_at(r, i)].state, &expected, BOARD_RECALLED))
		return true;
	while (i-- > 0)
		r->forged |= r->call[slot_at(r, i)].job && state_of(r, slot_at(r, i)) != BOARD_DONE;
	return false;
}

/* The job of a call, of which nothing else is kept. */
static struct job *take_job(struct runner *r, struct call_state *c)
{
	struct job *job = c->job;

	drop_asks(c);
	free(c->error);
	free(c->result);
	memset(c, 0, sizeof(*c));
	r->load--;
	return job;
}

struct job *runner_recall(struct runner *r)
{
	unsigned int first = r->reaped ? 0 : 1;
	struct job *list = NULL;

	/* From the end, so that the runner is met once. The first one stays: it is being begun, or has been. */
	for (unsigned int i = r->used; i-- > first && recall(r, i);)
		if (r->call[slot_at(r, i)].job)
			job_list_push(&list, take_job(r, &r->call[slot_at(r, i)]));
	return list;
}

/* Since when the first one runs. It counts as begun from START_NS after it could have been, whatever the runner says;
 * what it says is looked at once. 0: not begun. */
static uint64_t begun_ns(struct runner *r)
{
	struct call_state *c = &r->call[r->first];
	uint64_t said = r->board->slot[r->first].started_ns;

	if (!c->begun_ns && state_of(r, r->first) != BOARD_QUEUED)
		c->begun_ns = clamp(clamp(said, c->job->claimed_ns, clock_ns()), r->ended_ns, r->first_ns + START_NS);
	return c->begun_ns;
}

const struct job *runner_running(struct runner *r, uint64_t *started_ns, int64_t *timeout_ms)
{
	int slot = r->load > 0 ? running_slot(r) : -1;

	if (slot < 0)
		return NULL;
	*started_ns =
		slot == (int)r->first ? begun_ns(r) : clamp(r->board->slot[slot].started_ns, r->ended_ns, clock_ns());
	*timeout_ms = r->call[slot].timeout_ms;
	return r->call[slot].job;
}

static unsigned int current_slot(const struct runner *r)
{
	int slot = r->load > 0 ? running_slot(r) : -1;

	return slot >= 0 ? (unsigned int)slot : r->first;
}

const struct job *runner_current(const struct runner *r)
{
	return r->call[current_slot(r)].job;
}

/* A limit may be as long as an int64 holds: longer than the clock runs. */
static uint64_t later_ns(uint64_t start_ns, int64_t ms)
{
	return (uint64_t)ms > (UINT64_MAX - start_ns) / NS_PER_MS ? UINT64_MAX : start_ns + (uint64_t)ms * NS_PER_MS;
}

uint64_t runner_limit_ns(struct runner *r, int64_t *timeout_ms)
{
	const struct call_state *c = &r->call[r->first];
	uint64_t stall_ns = r->first_ns + STALL_NS, begun, limit_ns;

	*timeout_ms = 0;
	if (r->used == 0)
		return UINT64_MAX;
	if (!c->job)
		return stall_ns;
	begun = begun_ns(r);
	if (c->done_ns) /* what it sends is to come, if we read it */
		stall_ns = r->paused ? UINT64_MAX : c->done_ns + STALL_NS;
	else if (begun)
		stall_ns = UINT64_MAX;
	limit_ns = c->timeout_ms > 0 && !(c->done_ns && r->paused)
			   ? later_ns(begun ? begun : r->first_ns + START_NS, c->timeout_ms)
			   : UINT64_MAX;
	if (limit_ns >= stall_ns)
		return stall_ns;
	*timeout_ms = begun ? c->timeout_ms : 0;
	return limit_ns;
}

void runner_each_job(const struct runner *r, void (*f)(void *data, struct job *job), void *data)
{
	for (unsigned int i = 0; i < BOARD_SLOTS; i++)
		if (r->call[i].job)
			f(data, r->call[i].job);
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void ring(const struct runner *r)
{
	static const uint64_t one = 1;

	if (write(r->stop, &one, sizeof(one)) < 0)
		return; /* it has rung already */
}

void runner_ask_stop(struct runner *r)
{
	atomic_store(&r->board->stop, 1);
	ring(r);
}

void runner_ask_cancelled(struct runner *r)
{
	if (!runner_current(r))
		return;
	atomic_store(&r->board->slot[current_slot(r)].cancelled, 1);
	ring(r);
}

bool runner_progress(const struct runner *r, struct job_progress *progress)
{
	struct board_progress copy;
	char *text = NULL;
	size_t len = 0;
	int slot = r->load > 0 ? running_slot(r) : -1;

	if (slot < 0 || !board_read_progress(&r->board->progress, &copy) || copy.slot != (uint32_t)slot)
		return false;
	progress->job = r->call[slot].job;
	progress->number = copy.seq;
	progress->done = copy.done;
	progress->total = copy.total;
	progress->reported_ns = clamp(copy.reported_ns, progress->job->claimed_ns, clock_ns());
	attempt_set_text(&text, &len, copy.text, copy.text_len);
	snprintf(progress->text, sizeof(progress->text), "%s", text ? text : "");
	free(text);
	return true;
}

void runner_kill(struct runner *r, int sig, enum job_outcome why, const char *text)
{
	if (!r->killed) {
		const struct job *job = runner_current(r);

		r->killed = true;
		r->killed_id = job ? job->id : 0;
		r->killed_as = why;
		snprintf(r->killed_text, sizeof(r->killed_text), "%s", text);
	}
	if (!r->reaped && r->pid > 0 && kill(-r->pid, sig) < 0)
		kill(r->pid, sig); /* not yet the leader of its group */
}

bool runner_deaf(const struct runner *r)
{
	return r->socket < 0 && !r->reaped;
}

bool runner_killed(const struct runner *r)
{
	return r->killed;
}

void runner_quit(struct runner *r)
{
	if (r->socket >= 0)
		shutdown(r->socket, SHUT_WR);
}

/* The one it was at when it died. */
static void end_first(struct runner *r, int status)
{
	struct board_slot said = r->board->slot[r->first];
	struct attempt *a;

	said.finished_ns = UINT64_MAX;
	a = end_call(r, JOB_FAILED, &said);
	if (r->killed && r->killed_id != a->job->id) {
		a->outcome = JOB_INTERRUPTED; /* it began when the one that was meant had just ended */
		attempt_error(a, "its runner was killed for another job");
	} else if (r->killed) {
		a->outcome = r->killed_as;
		a->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		attempt_error(a, "%s%s%.*s", r->killed_text, a->error_len ? "\n" : "", (int)a->error_len,
			      a->error_len ? a->error : "");
	} else if (WIFSIGNALED(status)) {
		describe_signal(r, a, WTERMSIG(status));
	} else {
		describe_exit(r, a, WEXITSTATUS(status));
	}
}

/* A job may be found unbegun by a runner that leaves, once: who dies of it and says that it had not begun is not
 * believed twice. */
static bool was_begun(struct runner *r)
{
	struct job *job = r->call[r->first].job;
	bool queued = state_of(r, r->first) == BOARD_QUEUED,
	     begun = !queued || r->call[r->first].begun_ns || job->found_unbegun;

	job->found_unbegun = queued;
	return begun;
}

const char *runner_reaped(struct runner *r, int status)
{
	/* Its group may have members left: they must not outlive it. */
	kill(-r->pid, SIGKILL);
	r->reaped = true;
	runner_read(r, NULL);
	r->drained = true; /* nothing more can come */
	take_over(r, r->used);
	while (r->used > 0 && !r->call[r->first].job)
		drop_first(r, clock_ns());
	if (r->used > 0 && was_begun(r))
		end_first(r, status);
	if (r->socket >= 0)
		close(r->socket);
	r->socket = -1;
	return r->ready ? NULL : r->loading;
}

void runner_tell_alive(const struct runner *r)
{
	const struct job *job = r->used > 0 ? r->call[r->first].job : NULL;

	if (job && job->id == r->killed_id)
		log_job(LOG_L_WARNING, job, "job %lld %s attempt %d: %s; its runner %d was killed and does not die",
			(long long)job->id, job->fn, job->attempt, r->killed_text, (int)r->pid);
	else
		log_line(LOG_L_WARNING, "runner %d was killed and does not die: %s", (int)r->pid, r->killed_text);
}

struct job *runner_give_up(struct runner *r)
{
	struct job *job = r->used > 0 ? r->call[r->first].job : NULL;

	r->reaped = true; /* for us it is */
	log_line(LOG_L_ERROR, "runner %d cannot be ended: it is stuck in the kernel, and left to itself", (int)r->pid);
	if (!job)
		return NULL;
	log_job(LOG_L_ERROR, job,
		"job %lld %s attempt %d: given up with its runner; it stays claimed until its lease ends",
		(long long)job->id, job->fn, job->attempt);
	return take_job(r, &r->call[r->first]);
}

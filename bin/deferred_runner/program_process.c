/* SPDX-License-Identifier: MIT */
#include "base/random.h"
#include "program_process.h"

#include "base/clock.h"
#include "base/text/names.h"
#include "port/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM_IN 3 /* descriptors of a program */
#define PROGRAM_OUT 4
#define PROTOCOL 1
#define FUNCTIONS_MAX 1000
#define BACK_OFF_MAX_S 60
#define WATCH_NS NS_PER_S
#define READ_SIZE 65536
#define BUFFER_KEPT (1u << 20)
#define READS_MAX 64   /* of output in a turn: a program that prints without end delays nobody */
#define CLOSED_MS 1000 /* a process that has closed its pipe because it ends has ended within this time */

const struct process_handlers *process_handlers;
static struct process *processes;

/* ---- its output --------------------------------------------------------------------------------- */

/* Lines go to the log of the job that the process has, else to that of the runner. */
static void end_output_line(struct process *p)
{
	if (p->line_len == 0)
		return;
	if (p->state == PROCESS_BUSY)
		process_handlers->log(p->line, p->line_len);
	else
		fprintf(stderr, "program '%s': %.*s\n", p->program->name, (int)p->line_len, p->line);
	p->line_len = 0;
}

static void add_to_tail(struct process *p, const char *data, size_t n)
{
	size_t keep = n < PROCESS_TAIL_MAX ? n : PROCESS_TAIL_MAX, drop;

	drop = p->tail_len + keep > PROCESS_TAIL_MAX ? p->tail_len + keep - PROCESS_TAIL_MAX : 0;
	memmove(p->tail, p->tail + drop, p->tail_len - drop);
	p->tail_len -= drop;
	memcpy(p->tail + p->tail_len, data + n - keep, keep);
	p->tail_len += keep;
	p->tail[p->tail_len] = '\0';
}

static void take_output(struct process *p, const char *data, size_t n)
{
	add_to_tail(p, data, n);
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || p->line_len == sizeof(p->line))
			end_output_line(p);
		if (data[i] != '\n')
			p->line[p->line_len++] = data[i];
	}
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void read_process_output(struct process *p)
{
	char buf[4096];
	ssize_t n = -1;

	for (int reads = 0; p->output >= 0 && reads < READS_MAX && (n = read(p->output, buf, sizeof(buf))) > 0; reads++)
		take_output(p, buf, (size_t)n);
	if (n == 0)
		close_end(&p->output);
}

void process_drain_output(struct process *p)
{
	read_process_output(p);
	end_output_line(p);
}

/* ---- its start ---------------------------------------------------------------------------------- */

static void free_functions(struct announced *functions, size_t len)
{
	for (size_t i = 0; i < len; i++)
		free(functions[i].name);
	free(functions);
}

static void free_process(struct process *p)
{
	struct process **at = &processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->program->now == p)
		p->program->now = NULL;
	close_end(&p->to);
	close_end(&p->from);
	close_end(&p->output);
	close_end(&p->pidfd);
	close_end(&p->statm);
	free_functions(p->functions, p->functions_len);
	free(p->settings);
	free(p->outgoing);
	free(p->out);
	free(p->watched);
	free(p->in);
	free(p);
}

/* The start failed. n failures in a row delay the next one by 2^(n-1) seconds. */
static void __attribute__((format(printf, 3, 4)))
fail_start(struct program *program, const char *tail, const char *fmt, ...)
{
	uint64_t wait_s = program->failures < 6 ? 1u << program->failures : BACK_OFF_MAX_S;
	int n = snprintf(program->why, sizeof(program->why), "program '%s' ", program->name);
	va_list ap;

	va_start(ap, fmt);
	n += vsnprintf(program->why + n, 512, fmt, ap);
	va_end(ap);
	n = (int)strlen(program->why);
	snprintf(program->why + n, sizeof(program->why) - (size_t)n, "%s%s", *tail ? "\n" : "", tail);
	for (n = (int)strlen(program->why); n > 0 && program->why[n - 1] == '\n'; n--)
		program->why[n - 1] = '\0';
	program->failures++;
	program->retry_ns = clock_ns() + wait_s * NS_PER_S;
}

static void look_at_watched(const struct program *program, struct stat *watched)
{
	for (size_t i = 0; program->watch[i]; i++)
		if (stat(program->watch[i], &watched[i]) < 0)
			memset(&watched[i], 0, sizeof(watched[i]));
}

static size_t count_texts(char **list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return n;
}

bool process_watched_changed(struct process *p, uint64_t now_ns)
{
	size_t n = count_texts(p->program->watch);
	bool changed = false;
	struct stat *now;

	if (n == 0 || now_ns < p->program->looked_ns + WATCH_NS || !(now = calloc(n, sizeof(*now))))
		return false;
	p->program->looked_ns = now_ns;
	look_at_watched(p->program, now);
	for (size_t i = 0; i < n; i++)
		changed |= now[i].st_dev != p->watched[i].st_dev || now[i].st_ino != p->watched[i].st_ino ||
			   now[i].st_mtim.tv_sec != p->watched[i].st_mtim.tv_sec ||
			   now[i].st_mtim.tv_nsec != p->watched[i].st_mtim.tv_nsec;
	free(now);
	return changed;
}

/* The settings of the section that has its name, each as a message. Returns the one that is too long, or NULL. */
static const char *put_settings(struct process *p)
{
	static struct message_head head;
	char prefix[96];
	size_t prefix_len = (size_t)snprintf(prefix, sizeof(prefix), "settings.%s.", p->program->name), len = 0;

	for (size_t i = 0; i + 1 < state.settings_len; i += 2) {
		const char *name = state.settings[i];
		char *bigger;

		if (strncmp(name, prefix, prefix_len) != 0)
			continue;
		message_begin(&head, "setting");
		message_put_text(&head, "name", name + prefix_len);
		message_put_text(&head, "value", state.settings[i + 1]);
		message_end(&head);
		bigger = realloc(p->settings, len + head.len);
		if (head.too_long || !bigger)
			return name;
		p->settings = bigger;
		memcpy(bigger + len, head.data, head.len);
		len += head.len;
	}
	if (len > 0)
		process_send(p, p->settings, len);
	return NULL;
}

static void __attribute__((noreturn))
exec_program(const struct program *program, pid_t parent, int in, int out, int output)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR); /* it died before that */
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	keep_privileges();
	setenv("DEFERRED_PROGRAM", "1", 1);
	/* Above the final numbers first, because one end may lie on the number of another. */
	in = fcntl(in, F_DUPFD, 10);
	out = fcntl(out, F_DUPFD, 10);
	output = fcntl(output, F_DUPFD, 10);
	if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0 || dup2(in, PROGRAM_IN) < 0 ||
	    dup2(out, PROGRAM_OUT) < 0)
		_exit(EX_OSERR);
	syscall(SYS_close_range, (unsigned int)PROGRAM_OUT + 1, ~0u, 0u);
	if (program->directory[0] && chdir(program->directory) < 0) {
		dprintf(STDERR_FILENO, "cannot change to directory '%s': %s", program->directory, strerror(errno));
		_exit(127);
	}
	execv(program->argv[0], program->argv);
	dprintf(STDERR_FILENO, "cannot execute '%s': %s", program->argv[0], strerror(errno));
	_exit(127);
}

/* Returns 0, or -1 with errno. */
static int fork_program(struct process *p)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, output[2] = { -1, -1 }, saved;
	pid_t self = getpid();
	char path[64];

	if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0)
		p->pid = fork();
	if (p->pid == 0)
		exec_program(p->program, self, in[0], out[1], output[1]);
	saved = errno;
	p->to = in[1];
	p->from = out[0];
	p->output = output[0];
	close_end(&in[0]);
	close_end(&out[1]);
	close_end(&output[1]);
	errno = saved;
	if (p->pid < 0)
		return -1;
	setpgid(p->pid, p->pid); /* the child does the same: one of both comes first */
	fcntl(p->to, F_SETFL, O_NONBLOCK);
	fcntl(p->from, F_SETFL, O_NONBLOCK);
	fcntl(p->output, F_SETFL, O_NONBLOCK);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)p->pid);
	p->statm = open(path, O_RDONLY | O_CLOEXEC);
	if (p->pidfd >= 0 && clock_getcpuclockid(p->pid, &p->cpu_clock) == 0)
		return 0;
	saved = errno;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	errno = saved;
	return -1;
}

/* Processes that were started together do not leave together: their number of jobs varies by 10 %. */
static int64_t draw_jobs_max(int64_t max_jobs)
{
	uint64_t drawn = random_mix(clock_ns() ^ (uint64_t)state.pid << 32);

	return max_jobs <= 0 ? INT64_MAX : max_jobs - (int64_t)(drawn % (uint64_t)(max_jobs / 10 + 1));
}

bool process_start(struct program *program)
{
	struct process *p = calloc(1, sizeof(*p));
	struct deferred_error err = { 0 };
	const char *too_long = NULL;

	if (p)
		p->watched = calloc(count_texts(program->watch) + 1, sizeof(*p->watched));
	if (!p || !p->watched)
		_exit(EX_OSERR);
	p->program = program;
	p->state = PROCESS_STARTING;
	p->pid = p->to = p->from = p->output = p->pidfd = p->statm = -1;
	p->limit_ns = clock_ns() + (uint64_t)program->limits.start_timeout_ms * NS_PER_MS;
	p->jobs_max = draw_jobs_max(program->limits.max_jobs);
	p->next = processes;
	processes = p;
	program->now = p;
	program->looked_ns = clock_ns();
	look_at_watched(program, p->watched);
	if (trusted_check_program(program->argv[0], state.start.owner_uid, &err) < 0)
		fail_start(program, "", "is refused: %s", err.message);
	else if ((too_long = put_settings(p)))
		fail_start(program, "", "cannot be given setting '%.200s', which is longer than 16 KiB", too_long);
	else if (fork_program(p) < 0)
		fail_start(program, "", "cannot be started: %s", strerror(errno));
	else
		return true;
	free_process(p);
	return false;
}

/* ---- its end ------------------------------------------------------------------------------------ */

void process_leave(struct process *p, bool replace)
{
	close_end(&p->to);
	p->out_len = 0;
	p->state = PROCESS_LEAVING;
	p->limit_ns = clock_ns() + (uint64_t)state.start.kill_after_ms * NS_PER_MS;
	if (p->program->now != p)
		return;
	p->program->now = NULL;
	if (replace)
		process_start(p->program);
}

void process_kill(struct process *p)
{
	process_leave(p, false);
	close_end(&p->from);
	kill(-p->pid, SIGKILL);
	p->limit_ns = UINT64_MAX;
}

/* A message of the process breaks the protocol. */
static void fault_process(struct process *p, const char *text)
{
	struct program *program = p->program;
	int before = (int)p->state;

	process_drain_output(p);
	if (before == PROCESS_STARTING)
		fail_start(program, p->tail, "broke the protocol before it was ready: %s", text);
	else if (before == PROCESS_BUSY)
		process_handlers->faulted(p, text);
	else
		fprintf(stderr, "program '%s' broke the protocol between jobs, and is replaced: %s\n", program->name,
			text);
	process_kill(p);
}

static void describe_status(int status, char text[static 64])
{
	if (WIFSIGNALED(status))
		snprintf(text, 64, "signal %d", WTERMSIG(status));
	else
		snprintf(text, 64, "exit status %d", WEXITSTATUS(status));
}

/* It has ended. Its group must not outlive it; as long as it is not reaped, nobody else has its number. */
static void bury_process(struct process *p)
{
	struct rusage used = { 0 };
	const char *hint;
	char text[64];
	int status = 0;

	kill(-p->pid, SIGKILL);
	while (wait4(p->pid, &status, 0, &used) < 0 && errno == EINTR)
		;
	process_drain_output(p);
	hint = WIFSIGNALED(status) ? memory_limit_hint(WTERMSIG(status)) : NULL;
	if (hint) {
		if (p->tail_len > 0 && p->tail[p->tail_len - 1] != '\n')
			add_to_tail(p, "\n", 1);
		add_to_tail(p, hint, strlen(hint));
	}
	describe_status(status, text);
	if (p->state == PROCESS_STARTING)
		fail_start(p->program, p->tail, "ended before it was ready (%s)", text);
	else if (p->state == PROCESS_BUSY)
		process_handlers->ended(p, status, &used);
	else if (p->state == PROCESS_IDLE)
		fprintf(stderr, "program '%s' ended between jobs (%s)\n", p->program->name, text);
	free_process(p);
}

void process_forget_all(void)
{
	for (struct process *p = processes; p; p = p->next) {
		close_end(&p->to);
		close_end(&p->from);
		close_end(&p->output);
	}
}

/* ---- messages ----------------------------------------------------------------------------------- */

static const char *add_announced(struct process *p, const struct message *m)
{
	struct announced *bigger;

	if (!names_is_function(m->name))
		return "it announces a function whose name is not valid";
	if (m->batch < 0 || m->batch > DEFERRED_BATCH_MAX || m->batch_wait_ms < 0 ||
	    m->batch_wait_ms > DEFERRED_BATCH_WAIT_MAX_MS)
		return "its batch is not 1 to 128, or its batch_wait_ms not 0 to 60000";
	if (p->functions_len == FUNCTIONS_MAX)
		return "it announces more than 1000 functions";
	bigger = realloc(p->functions, (p->functions_len + 1) * sizeof(*bigger));
	if (!bigger)
		_exit(EX_OSERR);
	p->functions = bigger;
	bigger[p->functions_len] = (struct announced){
		.name = strdup(m->name),
		.timeout_ms = m->timeout_ms > 0 ? m->timeout_ms : p->program->limits.timeout_ms,
		.max_attempts = m->max_attempts > 0 && m->max_attempts <= INT32_MAX ? (int32_t)m->max_attempts
										    : p->program->limits.max_attempts,
		.batch = (int32_t)m->batch,
		.batch_wait_ms = (int32_t)m->batch_wait_ms,
		.progress_resets = m->progress_resets == 1,
	};
	if (!bigger[p->functions_len++].name)
		_exit(EX_OSERR);
	return NULL;
}

/* Not the same, in the same order, as those of the process that was ready before. */
static bool functions_differ(const struct process *p)
{
	const struct announced *before = p->program->functions;
	bool differ = p->functions_len != p->program->functions_len;

	for (size_t i = 0; !differ && i < p->functions_len; i++)
		differ = strcmp(p->functions[i].name, before[i].name) != 0 ||
			 p->functions[i].timeout_ms != before[i].timeout_ms ||
			 p->functions[i].max_attempts != before[i].max_attempts ||
			 p->functions[i].batch != before[i].batch ||
			 p->functions[i].batch_wait_ms != before[i].batch_wait_ms ||
			 p->functions[i].progress_resets != before[i].progress_resets;
	return differ;
}

static const char *become_ready(struct process *p, const struct message *m)
{
	struct program *program = p->program;
	char version[sizeof(program->version)];
	size_t n = 0;

	if (m->protocol != PROTOCOL)
		return "it speaks another version of the protocol than 1";
	for (const char *v = m->version; *v && n < sizeof(version) - 1; v++)
		version[n++] = *v > ' ' && *v <= '~' ? *v : '_';
	version[n] = '\0';
	program->changed |= program->known && (strcmp(version, program->version) != 0 || functions_differ(p));
	program->known = true;
	strcpy(program->version, version);
	free_functions(program->functions, program->functions_len);
	program->functions = p->functions;
	program->functions_len = p->functions_len;
	p->functions = NULL;
	p->functions_len = 0;
	program->failures = 0;
	end_output_line(p);
	p->state = PROCESS_IDLE;
	p->limit_ns = UINT64_MAX;
	if (process_is_large(p))
		fprintf(stderr,
			"program '%s' has %llu KiB before its first job, more than max_memory: it is replaced "
			"after each job\n",
			program->name, (unsigned long long)process_rss_kb(p));
	return NULL;
}

static const char *dispatch_message(struct process *p, const struct message *m, const char *body)
{
	if (p->state == PROCESS_BUSY)
		return process_handlers->take(p, m, body);
	if (p->state == PROCESS_STARTING && m->type == MESSAGE_FUNCTION)
		return add_announced(p, m);
	if (p->state == PROCESS_STARTING && m->type == MESSAGE_READY)
		return become_ready(p, m);
	return p->state == PROCESS_STARTING ? "its first messages are not 'function' and 'ready'"
					    : "it sent a message without having a job";
}

/* Quote the first n bytes that were read in the text of a fault. */
static void quote_bytes(const char *wrong, const char *bytes, size_t n, char text[static 256])
{
	size_t len = (size_t)snprintf(text, 160, "%s: '", wrong);

	for (size_t i = 0; i < n && i < 64; i++)
		text[len++] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
	snprintf(text + len, 2, "'");
}

/* Take the messages that are whole. Returns NULL, or what is wrong, in `text`. */
static const char *take_messages(struct process *p, char text[static 256])
{
	size_t at = 0;
	const char *wrong = NULL;

	while (!wrong && at < p->in_len && p->state != PROCESS_LEAVING) {
		char *head = p->in + at, copy[64], *end;
		size_t left = p->in_len - at, len, copied;
		struct message m;

		/* A head whose body is not complete is read again with it, so it must not be overwritten. */
		end = memchr(head + p->in_scanned, '\n', left - p->in_scanned);
		len = end ? (size_t)(end - head) : left;
		copied = len < sizeof(copy) ? len : sizeof(copy);
		memcpy(copy, head, copied);
		if (*head != '{')
			wrong = "it is not JSON";
		else if (len >= MESSAGE_HEAD_MAX)
			wrong = "its head is longer than 16 KiB";
		if (!wrong && !end) {
			p->in_scanned = left;
			break;
		}
		if (!wrong) {
			static char line[MESSAGE_HEAD_MAX];

			memcpy(line, head, len);
			p->in_scanned = len;
			if (!(wrong = message_read(line, len, &m))) {
				if (left - len - 1 < (size_t)m.bytes)
					break;
				wrong = dispatch_message(p, &m, end + 1);
				p->in_scanned = 0;
				at += len + 1 + (size_t)m.bytes;
			}
		}
		if (wrong)
			quote_bytes(wrong, copy, copied, text);
	}
	memmove(p->in, p->in + at, p->in_len - at);
	p->in_len -= at;
	return wrong ? text : NULL;
}

/* Returns false at the end of the stream. */
static bool read_messages(struct process *p)
{
	char text[256];
	ssize_t n;

	if (p->state == PROCESS_LEAVING)
		p->in_len = p->in_scanned = 0; /* nobody waits for it */
	if (p->in_cap - p->in_len < READ_SIZE) {
		size_t cap = 2 * p->in_cap + READ_SIZE;
		char *bigger = realloc(p->in, cap);

		if (!bigger) {
			fault_process(p, "no memory for its message");
			return true;
		}
		p->in = bigger;
		p->in_cap = cap;
	}
	n = read(p->from, p->in + p->in_len, p->in_cap - p->in_len);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	p->in_len += (size_t)n;
	if (p->state != PROCESS_LEAVING && take_messages(p, text))
		fault_process(p, text);
	if (p->in_len == 0 && p->in_cap > BUFFER_KEPT) {
		free(p->in);
		p->in = NULL;
		p->in_cap = 0;
	}
	return true;
}

void process_send(struct process *p, const void *data, size_t len)
{
	if (len == 0)
		return;
	if (p->out_len == p->out_cap) {
		p->out_cap = 2 * p->out_cap + 8;
		p->out = realloc(p->out, p->out_cap * sizeof(*p->out));
		if (!p->out)
			_exit(EX_OSERR);
	}
	p->out[p->out_len++] = (struct iovec){ (void *)data, len };
}

void process_flush(struct process *p)
{
	ssize_t n = p->out_len > 0 ? writev(p->to, p->out, (int)p->out_len) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		p->out_len = 0; /* it has closed its end, and its answer or its end says what that means */
	while (n > 0 && (size_t)n >= p->out[0].iov_len) {
		n -= (ssize_t)p->out[0].iov_len;
		memmove(p->out, p->out + 1, --p->out_len * sizeof(p->out[0]));
		if (p->out_len == 0)
			return;
	}
	if (n > 0) {
		p->out[0].iov_base = (char *)p->out[0].iov_base + n;
		p->out[0].iov_len -= (size_t)n;
	}
}

/* ---- what it uses ------------------------------------------------------------------------------- */

uint64_t process_cpu_us(const struct process *p)
{
	struct timespec used;

	if (clock_gettime(p->cpu_clock, &used) < 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

uint64_t process_rss_kb(const struct process *p)
{
	unsigned long pages;
	char text[128];
	ssize_t n = p->statm < 0 ? -1 : pread(p->statm, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*u %lu", &pages) == 1 ? (uint64_t)pages * (uint64_t)(sysconf(_SC_PAGESIZE) / 1024) : 0;
}

bool process_is_large(const struct process *p)
{
	int64_t most = p->program->limits.max_memory;

	return most > 0 && process_rss_kb(p) > (uint64_t)most / 1024;
}

/* ---- events ------------------------------------------------------------------------------------- */

static void check_process_limit(struct process *p, uint64_t now)
{
	if (now < p->limit_ns)
		return;
	process_drain_output(p);
	if (p->state == PROCESS_STARTING)
		fail_start(p->program, p->tail, "was not ready within %lld ms",
			   (long long)p->program->limits.start_timeout_ms);
	process_kill(p);
}

enum { FD_FROM, FD_OUTPUT, FD_PID, FD_TO, FDS };

static void handle_events(struct process *p, const struct pollfd *fds, uint64_t now)
{
	bool ended = fds[FD_PID].revents != 0, open = true;

	if (fds[FD_TO].revents)
		process_flush(p);
	if (fds[FD_OUTPUT].revents)
		read_process_output(p);
	if (fds[FD_FROM].revents)
		open = read_messages(p);
	if (!open && !ended) {
		struct pollfd pidfd = { p->pidfd, POLLIN, 0 };

		if (p->state == PROCESS_LEAVING)
			close_end(&p->from);
		else if (!(ended = poll(&pidfd, 1, CLOSED_MS) > 0))
			fault_process(p, "it closed descriptor 4");
	}
	while (ended && open && p->from >= 0 && poll(&(struct pollfd){ p->from, POLLIN, 0 }, 1, 0) > 0)
		open = read_messages(p); /* what it sent before its end */
	if (ended)
		bury_process(p);
	else
		check_process_limit(p, now);
}

void process_poll(const struct process *busy, struct pollfd *more, size_t n, uint64_t limit_ns)
{
	static struct pollfd fds[8 + FDS * 256];
	struct process *watched[256], *p;
	size_t count = 0;
	uint64_t now = clock_ns();
	int ms;

	memcpy(fds, more, n * sizeof(*more));
	for (p = processes; p && count < 256; p = p->next) {
		struct pollfd *own = &fds[n + FDS * count];

		if (busy && p != busy && p->state == PROCESS_IDLE)
			continue;
		own[FD_FROM] = (struct pollfd){ p->from, POLLIN, 0 };
		own[FD_OUTPUT] = (struct pollfd){ p->output, POLLIN, 0 };
		own[FD_PID] = (struct pollfd){ p->pidfd, POLLIN, 0 };
		own[FD_TO] = (struct pollfd){ p->out_len > 0 ? p->to : -1, POLLOUT, 0 };
		watched[count++] = p;
		if (p->limit_ns < limit_ns)
			limit_ns = p->limit_ns;
	}
	ms = limit_ns == UINT64_MAX             ? -1
	     : limit_ns <= now                  ? 0
	     : limit_ns - now > 3600 * NS_PER_S ? 3600000
						: (int)((limit_ns - now) / NS_PER_MS) + 1;
	if (poll(fds, n + FDS * count, ms) < 0)
		for (size_t i = 0; i < n + FDS * count; i++)
			fds[i].revents = 0;
	memcpy(more, fds, n * sizeof(*more));
	now = clock_ns();
	for (size_t i = 0; i < count; i++)
		handle_events(watched[i], &fds[n + FDS * i], now);
}

bool process_any(void)
{
	return processes != NULL;
}

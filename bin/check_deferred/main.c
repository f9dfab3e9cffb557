/* SPDX-License-Identifier: MIT */
/*
 * check_deferred - what cron starts: take the pidfile, ask whether there is work, and if so do it.
 *
 * The way through the code: main -> worker_run (lib/engine/worker.c) -> store_cycle_claim
 * (lib/store/cycle/cycle_claim.c, sql/queries/claim/job_claim.sql) -> pool_dispatch (lib/run/pool/pool_dispatch.c) ->
 * runner_send (lib/run/runner.c) -> call_run (bin/deferred_runner/call.c) -> store_cycle_record
 * (lib/store/cycle/cycle_record.c, sql/queries/claim/job_finish.sql).
 */
#include "port/config.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/names.h"
#include "base/text/plural.h"
#include "program/notify.h"
#include "run/cgroup.h"
#include "run/orphan.h"
#include "port/pg.h"
#include "lineage.h"
#include "pidfile.h"
#include "port/plugin.h"
#include "probes.h"
#include "program/program.h"
#include "run/user.h"
#include "store/spool/spool_drain.h"
#include "engine/worker.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define LAST_WORDS_MS 500 /* the last lines wait so long for somebody who reads the log */

static const struct program_option options[] = {
	{ "cnt", "N", "most attempts; 0: no limit", .setting = "cnt", .def = "1; with --loop 0" },
	{ "pidfile", "FILE", "run one copy per file", .setting = "pidfile", .def = "/run/defer_APPLICATION" },
	{ "if-running", "WHAT", "reaction to a copy that runs", .setting = "if_running" },
	{ "queue", "NAME", "serve this queue; may be repeated", .setting = "queue", .def = "all queues" },
	{ "runners", "N", "child processes; MIN..MAX follows the queue", .setting = "runners" },
	{ "balance", "GROUP:N", "keep workers of a group within N attempts", .setting = "balance", .empty = true },
	{ "plugin-dir", "DIR", "folder of the plugins", .setting = "plugin_dir" },
	{ "isolate", "WHAT", "what runs in one process", .setting = "isolate" },
	{ "user", "NAME", "run functions as this user if started as root", .setting = "user" },
	{ "allow-root", NULL, "let functions run as root", .setting = "allow_root" },
	{ "timeout", "SPAN", "default limit of one attempt", .setting = "timeout" },
	{ "grace", "SPAN", "time for running functions after SIGTERM", .setting = "grace" },
	{ "lease", "SPAN", "duration of a claim unless it is renewed", .setting = "lease" },
	{ "loop", NULL, "run as a service that waits for more jobs", .setting = "loop" },
	{ "listen", NULL, "with --loop: let the database wake the worker", .setting = "listen" },
	{ "interval-floor", "SPAN", "with --loop: first sleep if no job is ready", .setting = "interval_floor" },
	{ "interval-ceiling", "SPAN", "with --loop: longest sleep", .setting = "interval_ceiling" },
	{ "exponent", "X", "with --loop: factor from sleep to sleep", .setting = "exponent" },
	{ "gradual-decrease", NULL, "with --loop: shorten the sleep step by step", .setting = "gradual_decrease" },
	{ "health", "ADDR", "with --loop: answer probes at HOST:PORT", .setting = "health.listen", .def = "none",
	  .empty = true },
	{ "window", "N", "draw among the first N ready jobs", .setting = "window" },
	{ "batch", "N", "claim at most N jobs at once", .setting = "batch" },
	{ "seed", "N", "seed of the random choice; 0: random", .setting = "seed" },
	{ "db", "CONNINFO", "connection string of libpq", .setting = "database.conninfo" },
	{ "shard", "NAME", "which database of the config file", .setting = "database.shard" },
	{ "log-level", "LEVEL", "lines to log", .setting = "log_level" },
	{ "log-format", "FORMAT", "format of log lines", .setting = "log_format" },
	{ 0 },
};

static const struct program check_deferred = {
	.name = "check_deferred",
	.about = "Runs deferred jobs that are due.",
	.manual = "check_deferred(1)",
	.version = program_version,
	.options = options,
	.list = "queue",
};

/* Errors that recur until somebody changes something. */
struct refusal {
	const char *sqlstate;
	int exit_code;
	const char *remedy;
};

static const struct refusal *find_refusal(const struct deferred_error *err)
{
	static const struct refusal refusals[] = {
		{ "42501", EX_NOPERM, "grant deferred_worker to the role of database.conninfo" },
		{ "25006", EX_UNAVAILABLE,
		  "name the server that takes writes, or all of them with target_session_attrs=read-write; or reset "
		  "default_transaction_read_only" },
	};

	for (size_t i = 0; err->code == DEFERRED_EDB && i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (strcmp(err->sqlstate, refusals[i].sqlstate) == 0)
			return &refusals[i];
	return NULL;
}

/* Exit codes are interface: each is listed in check_deferred(1). */
static int exit_code_of(int code, const struct deferred_error *err)
{
	switch (code) {
	case 0:
		return 0;
	case DEFERRED_ESCHEMA:
	case DEFERRED_ECONFIG:
		return EX_CONFIG;
	case DEFERRED_EPLUGIN:
		return EX_NOPERM;
	case DEFERRED_ENOMEM:
	case DEFERRED_ESYSTEM:
		return EX_OSERR;
	case DEFERRED_ECONNECT:
		return strcmp(err->where, PG_CONNINFO) == 0 ? EX_CONFIG : EX_UNAVAILABLE;
	case DEFERRED_EDB:
		return find_refusal(err) ? find_refusal(err)->exit_code : EX_UNAVAILABLE;
	default:
		return EX_UNAVAILABLE;
	}
}

struct settings {
	const struct program_line *line;
	struct config *config;
	char *queues_text, **queues;
	size_t queues_len;
};

static bool given_as_option(const struct settings *s, const char *setting)
{
	for (size_t i = 0; options[i].name; i++)
		if (strcmp(options[i].setting, setting) == 0)
			return s->line->given[i] != NULL;
	return false;
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, " \t");
	for (end = text + strlen(text); end > text && strchr(" \t", end[-1]); end--)
		;
	*end = '\0';
	return text;
}

/* Returns 0, or an exit code with err. A name that no queue can have would be waited for in vain. */
static int split_queues(struct settings *s, struct deferred_error *err)
{
	const char *text = config_text(s->config, "queue");
	char *rest;

	if (!text || !*text)
		return 0;
	s->queues_text = strdup(text);
	s->queues = calloc(strlen(text) + 1, sizeof(*s->queues));
	if (!s->queues_text || !s->queues) {
		error_set(err, DEFERRED_ENOMEM, "config", "out of memory");
		return EX_OSERR;
	}
	rest = s->queues_text;
	for (char *q; (q = strsep(&rest, ","));) {
		q = trim(q);
		if (!names_is_queue(q)) {
			error_set(err, DEFERRED_ECONFIG, "config", "setting 'queue': queue name '%.100s' is invalid",
				  q);
			error_hint(err, "a name has 1 to 88 letters, digits, '_', '.' and '-'; several are "
					"separated by commas");
			return given_as_option(s, "queue") ? EX_USAGE : EX_CONFIG;
		}
		s->queues[s->queues_len++] = q;
	}
	return 0;
}

/* Two settings can contradict each other. */
static int check_intervals(const struct config *c, struct deferred_error *err)
{
	struct deferred_backoff b = {
		config_int(c, "interval_floor"),
		config_int(c, "interval_ceiling"),
		config_real(c, "exponent"),
		config_flag(c, "gradual_decrease"),
		0,
	};

	return deferred_backoff_check(&b, err);
}

/* Settings that only a service has. In a configuration file they may be for another line of the same host. */
static int check_service_options(const struct settings *s, struct deferred_error *err)
{
	static const char *const names[] = {
		"listen", "interval_floor", "interval_ceiling", "exponent", "gradual_decrease", "health.listen",
	};
	const struct program_option *o = options;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (config_flag(s->config, "loop") || !given_as_option(s, names[i]))
			continue;
		while (strcmp(o->setting, names[i]) != 0)
			o++;
		error_set(err, DEFERRED_ECONFIG, "config", "option '--%s' has no effect without --loop", o->name);
		error_hint(err, "add --loop to run a service, or remove --%s", o->name);
		return EX_USAGE;
	}
	return 0;
}

/* Returns 0, or an exit code with err. */
static int main_read_settings(struct settings *s, struct deferred_error *err)
{
	int rc = program_load_config(s->line, &s->config, err);

	if (rc != 0)
		return rc;
	if (check_intervals(s->config, err) < 0)
		return EX_CONFIG;
	rc = check_service_options(s, err);
	return rc != 0 ? rc : split_queues(s, err);
}

static void free_settings(struct settings *s)
{
	free(s->queues_text);
	free(s->queues);
	config_free(s->config);
	memset(s, 0, sizeof(*s));
}

struct run {
	struct settings *settings;
	struct runner_setup runners;
	struct worker_setup worker;
	struct worker_pulse pulse;
	struct pidfile pidfile;
	char program[PATH_MAX];
	char instance[PATH_MAX + 400];
	char other_pidfile[PATH_MAX]; /* than the default */
	char queues[520], who[PATH_MAX + 600];
	char host[256];
	uint64_t started_ns;
	sigset_t signals;
	bool began; /* there was work */
};

static struct run run;

/* Until there is work nothing has been claimed: a signal ends the process at once, and in order. */
static void main_leave(int sig)
{
	(void)sig;
	/* Remains of a predecessor that died are still there, so the mark stays. */
	if (run.pidfile.held && !run.pidfile.unclean && ftruncate(run.pidfile.fd, 0) < 0)
		_exit(EX_OSERR);
	_exit(0);
}

/* ---- which of several it is, for people ---------------------------------------------------------- */

static void name_who(void)
{
	const struct settings *s = run.settings;
	bool pidfile = *run.other_pidfile, queues = s->queues_len > 0;

	run.queues[0] = run.who[0] = '\0';
	if (queues)
		snprintf(run.queues, sizeof(run.queues), "queue%s %.500s", s->queues_len > 1 ? "s" : "",
			 config_text(s->config, "queue"));
	if (pidfile || queues)
		snprintf(run.who, sizeof(run.who), " (%s%s%s%s)", pidfile ? "pidfile " : "", run.other_pidfile,
			 pidfile && queues ? ", " : "", run.queues);
}

static void tell_service(void)
{
	const struct config *c = run.settings->config;
	long long min = config_range_min(c, "runners"), max = config_int(c, "runners");
	char runners[64];

	if (max > min)
		snprintf(runners, sizeof(runners), "%lld to %lld runners", min, max);
	else
		snprintf(runners, sizeof(runners), "%lld runner%s", max, plural(max));
	log_line(LOG_L_INFO, "serves %s with %s; looks for jobs every %g to %g s%s%s%s",
		 run.queues[0] ? run.queues : "all queues", runners, (double)config_int(c, "interval_floor") / 1000,
		 (double)config_int(c, "interval_ceiling") / 1000,
		 config_flag(c, "listen") ? ", and is woken by each (listen)" : "",
		 *run.other_pidfile ? "; pidfile " : "", run.other_pidfile);
}

static int find_plugin_dir(struct runner_setup *runners, const struct config *config, struct deferred_error *err)
{
	struct stat st;

	runners->plugin_dir = config_plugin_dir(config);
	if (stat(runners->plugin_dir, &st) < 0) {
		if (config_has_functions(config) && !config_text(config, "plugin_dir")) {
			runners->plugin_dir = NULL; /* commands and programs alone will do */
			return 0;
		}
		error_errno(err, DEFERRED_ECONFIG, "plugin", "cannot use plugin folder '%s'", runners->plugin_dir);
		error_hint(err, "set --plugin-dir, DEFERRED_PLUGIN_DIR or plugin_dir");
		return DEFERRED_ECONFIG;
	}
	return plugin_dir_check(runners->plugin_dir, geteuid(), err);
}

/* ---- what a service does besides ---------------------------------------------------------------- */

/* Settings that hold for the life of the process: what they decided cannot be taken back under way. */
static const char *const lasting[] = { "application", "database.conninfo", "database.shard", "pidfile", "user",
				       "allow_root",  "balance",           "lease",          "seed",    "loop",
				       "cgroup",      "health.listen" };

static int keep_lasting(struct settings *fresh, struct deferred_error *err)
{
	for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
		const char *old = config_text(run.settings->config, lasting[i]),
			   *new = config_text(fresh->config, lasting[i]);
		char ms[32];

		if (strcmp(old ? old : "", new ? new : "") == 0)
			continue;
		log_line(LOG_L_WARNING, "setting '%s' has changed; hint: restart to apply it", lasting[i]);
		/* The canonical text of a span is a number of milliseconds, a bare number would be seconds. */
		snprintf(ms, sizeof(ms), "%sms", old ? old : "");
		if (config_override(fresh->config, lasting[i],
				    strcmp(lasting[i], "lease") == 0 ? ms
				    : old                            ? old
								     : "",
				    lasting[i], err) < 0)
			return err->code;
	}
	return 0;
}

/* SIGHUP. All is checked before anything is put in place. */
static int main_reload(void *data, struct deferred_error *err)
{
	struct settings fresh = { .line = run.settings->line };
	struct runner_setup runners = run.runners;
	int rc = main_read_settings(&fresh, err) == 0 ? 0 : err->code;

	(void)data;
	if (rc == 0)
		rc = keep_lasting(&fresh, err);
	if (rc == 0)
		rc = find_plugin_dir(&runners, fresh.config, err);
	if (rc < 0) {
		free_settings(&fresh);
		return rc;
	}
	runners.config = fresh.config;
	runners.user = config_text(fresh.config, "user");
	run.runners = runners;
	run.worker.config = fresh.config;
	run.worker.queues = (const char *const *)fresh.queues;
	run.worker.queues_len = fresh.queues_len;
	free_settings(run.settings);
	*run.settings = fresh;
	program_set_log_level(run.settings->config);
	name_who();
	tell_service();
	return 0;
}

static void tell_manager(void *data, enum worker_event event)
{
	(void)data;
	switch (event) {
	case WORKER_READY:
		notify_send("READY=1\nSTATUS=running");
		break;
	case WORKER_RELOADING:
		notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)notify_monotonic_us());
		break;
	case WORKER_RELOADED:
		notify_send("READY=1");
		break;
	case WORKER_STOPPING:
		notify_send("STOPPING=1\nSTATUS=finishing what runs");
		break;
	case WORKER_ALIVE:
		if (notify_watchdog_ms() > 0)
			notify_send("WATCHDOG=1");
		pidfile_alive(&run.pidfile);
		probes_tick();
		break;
	}
}

/* The names are those of the lock, see name_instance(). */
static void use_cgroups(const char *how)
{
	char name[48];

	if (strcmp(how, "0") == 0)
		return;
	snprintf(name, sizeof(name), "%llx.%llx", (unsigned long long)run.pidfile.device,
		 (unsigned long long)run.pidfile.inode);
	cgroup_init(name, strcmp(how, "1") == 0);
}

/* Otherwise the first failed attempt would say it, which may come days later. */
static void warn_of_missing_commands(const struct config *config)
{
	size_t n;
	const struct config_command *commands = config_commands(config, &n);

	for (size_t i = 0; i < n; i++)
		if (access(commands[i].argv[0], X_OK) < 0)
			log_line(LOG_L_WARNING,
				 "function '%s': cannot execute '%s' (%s); hint: install that program, or correct the "
				 "path in the config file",
				 commands[i].name, commands[i].argv[0], strerror(errno));
}

/* Only a run that has work pays for this. Until here a signal simply ended the process: nothing was claimed. */
static int before_work(void *data, struct deferred_error *err)
{
	(void)data;
	/* A start by cron does not warn, or cron would mail the warning each minute. deferred doctor reports it. */
	if (config_flag(run.settings->config, "loop")) {
		tell_service();
		if (geteuid() == 0 && (!run.runners.switch_user || run.runners.uid == 0))
			log_line(LOG_L_WARNING, "functions run as root because allow_root = 1; hint: set 'user' to a "
						"user with fewer rights");
	}
	warn_of_missing_commands(run.settings->config);
	sigemptyset(&run.signals);
	sigaddset(&run.signals, SIGTERM);
	sigaddset(&run.signals, SIGINT);
	sigaddset(&run.signals, SIGHUP);
	sigaddset(&run.signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &run.signals, NULL);
	run.worker.signal_fd = signalfd(-1, &run.signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (run.worker.signal_fd < 0)
		return error_errno(err, DEFERRED_ESYSTEM, "signalfd",
				   "cannot watch signals\nraise the limit of open files (ulimit -n)");
	orphan_init();
	if (run.pidfile.unclean || run.pidfile.replaced)
		orphan_sweep_instance(run.instance);
	use_cgroups(config_text(run.settings->config, "cgroup"));
	run.began = true;
	return 0;
}

static int check_lineage(void *data, const char *system, int64_t timeline, struct deferred_error *err)
{
	(void)data;
	return lineage_check(run.pidfile.path, system, timeline, err);
}

/*
 * Names the lock that this run holds: host and path for people, then the mark of the file. Every run keeps its file
 * open and locked while it lives. The holder of that lock therefore knows that all others of this name are gone. It
 * may free what they claimed and kill what they started. After a reboot, or with a new file, leases are waited for.
 */
static void name_instance(const char *pidfile)
{
	char resolved[PATH_MAX];

	if (gethostname(run.host, sizeof(run.host) - 1) < 0)
		snprintf(run.host, sizeof(run.host), "unknown");
	snprintf(run.instance, sizeof(run.instance), "%s:%s%s", run.host,
		 realpath(pidfile, resolved) ? resolved : pidfile, run.pidfile.mark);
}

static bool is_proven_dead(void *data, const char *instance)
{
	(void)data;
	return pidfile_is_left(&run.pidfile, instance);
}

static void summarize(const struct worker_summary *summary)
{
	const struct record_counts *s = &summary->counts;
	char others[80] = "", unready[64] = "";

	if (s->attempts + s->refused + s->unready == 0)
		return;
	if (s->cancelled + s->snoozed > 0)
		snprintf(others, sizeof(others), ", %lld cancelled, %lld snoozed", s->cancelled, s->snoozed);
	if (s->unready > 0)
		snprintf(unready, sizeof(unready), ", %lld could not run on this host", s->unready);
	log_line(LOG_L_INFO,
		 "run ended: %lld attempt%s, %lld ok, %lld failed (%lld to be tried again, %lld dead)%s%s, %.1f s%s",
		 s->attempts, plural(s->attempts), s->ok, s->retried + s->dead, s->retried, s->dead, others, unready,
		 summary->seconds, run.who);
}

/* How often we show that we live: to the manager of services, and to the next start. */
static int64_t alive_ms(int64_t lease_ms)
{
	int64_t watchdog_ms = notify_watchdog_ms() / 2,
		own_ms = lease_ms / 4 < PIDFILE_ALIVE_MS ? lease_ms / 4 : PIDFILE_ALIVE_MS;

	return watchdog_ms > 0 && watchdog_ms < own_ms ? watchdog_ms : own_ms;
}

/* A folder without entries of this user costs no connection. The next start finds entries that cannot be stored. */
static void drain_spool(const struct config *config)
{
	const char *path = config_text(config, "spool");
	struct deferred_error err = { 0 };
	struct spool_drained done;

	if (!path || !*path)
		return;
	if (spool_drain(path, config_text(config, "database.conninfo"), 0, false, &done, &err) < 0)
		log_line(LOG_L_WARNING, "%s; hint: %s", err.message, err.hint);
	if (done.stored > 0)
		log_line(LOG_L_INFO, "stored %zu job%s of the spool", done.stored, plural((int64_t)done.stored));
	if (done.refused > 0)
		log_line(LOG_L_WARNING,
			 "spool '%s': refused, and moved to the folder refused: %zu; hint: read *.reason there", path,
			 done.refused);
}

static int run_with_pidfile(void)
{
	const struct config *config = run.settings->config;
	struct deferred_error err = { 0 };
	struct worker_summary summary = { 0 };
	const char *pidfile;
	static char path[PATH_MAX]; /* reading the settings again frees the old ones */
	char default_path[PATH_MAX];
	bool replace = strcmp(config_text(config, "if_running"), "replace") == 0;
	struct pidfile_terms terms;
	enum pidfile_result held;
	int rc;

	/* Before all else: an administrator should learn of it at once, not when there is work. */
	if (runner_user_find(&run.runners, config, &err) < 0)
		return program_complain(&err, EX_CONFIG);
	if (find_plugin_dir(&run.runners, config, &err) < 0)
		return program_complain(&err, err.code == DEFERRED_ECONFIG ? EX_CONFIG : EX_NOPERM);
	snprintf(default_path, sizeof(default_path), "/run/defer_%s", config_text(config, "application"));
	pidfile = config_pidfile(config, path, sizeof(path));
	if (strcmp(pidfile, default_path) != 0)
		snprintf(run.other_pidfile, sizeof(run.other_pidfile), "%s", pidfile);
	name_who();
	if (config_flag(config, "loop")) {
		/* SIGHUP is kept for the event loop. */
		sigemptyset(&run.signals);
		sigaddset(&run.signals, SIGHUP);
		sigprocmask(SIG_BLOCK, &run.signals, NULL);
		notify_init();
	}
	signal(SIGTERM, main_leave);
	signal(SIGINT, main_leave);
	terms = (struct pidfile_terms){ replace, config_int(config, "grace") + config_int(config, "kill_after") + 3000,
					config_int(config, "lease") };
	held = pidfile_take(&run.pidfile, pidfile, &terms, &err);
	if (held != PIDFILE_HELD) {
		if (held == PIDFILE_BUSY && !replace && !run.pidfile.silent)
			return EX_TEMPFAIL; /* as asked, and no news: the copy that runs does the work */
		return program_complain(&err, held == PIDFILE_BUSY     ? EX_TEMPFAIL
					      : held == PIDFILE_CANNOT ? EX_CANTCREAT
								       : EX_NOPERM);
	}
	if (pidfile != path)
		snprintf(path, sizeof(path), "%s", pidfile);
	run.pidfile.path = path;
	name_instance(pidfile);
	run.runners.config = config;
	run.runners.program = runner_setup_program(run.program);
	run.runners.instance = run.instance;
	run.worker = (struct worker_setup){
		.config = config,
		.runners = &run.runners,
		.queues = (const char *const *)run.settings->queues,
		.queues_len = run.settings->queues_len,
		.instance = run.instance,
		.host = run.host,
		.who = run.who,
		.started_ns = run.started_ns,
		.signal_fd = -1,
		.pidfile = run.pidfile.path,
		.predecessor_killed = run.pidfile.replaced,
		.before_work = before_work,
		.lineage = check_lineage,
		.is_dead = is_proven_dead,
		.reload = main_reload,
		.event = tell_manager,
		.alive_ms = alive_ms(config_int(config, "lease")),
		.pulse = &run.pulse,
		.data = NULL,
	};
	/* Not earlier: until here a copy that ran may have had the address. */
	if (config_flag(config, "loop") && probes_start(config, &run.pulse, &err) < 0)
		return program_complain(&err, err.code == DEFERRED_ECONFIG ? EX_CONFIG : EX_OSERR);
	drain_spool(config);
	rc = worker_run(&run.worker, &summary, &err);
	probes_stop();
	cgroup_leave();
	summarize(&summary);
	if (rc < 0) {
		if (find_refusal(&err))
			error_hint(&err, "%s", find_refusal(&err)->remedy);
		program_complain(&err, 0);
	}
	/* After a failure the next start must look for remains of this process. If nothing was due, it must look for
	 * those of a predecessor that died. */
	if (rc == 0 && (run.began || !run.pidfile.unclean))
		pidfile_release(&run.pidfile);
	return exit_code_of(rc, &err);
}

int main(int argc, char **argv)
{
	struct program_line line;
	struct settings settings = { .line = &line };
	struct deferred_error err = { 0 };
	int rc;

	run.started_ns = clock_ns();
	program_open_descriptors();
	program_keep_secrets();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a pidfile that cannot grow is an error like others */
	signal(SIGUSR1, SIG_IGN); /* sent by mistake they would end it, and what runs */
	signal(SIGUSR2, SIG_IGN);
	signal(SIGCHLD, SIG_DFL); /* who started us may have it ignored, and the kernel would reap our children */
	log_init(check_deferred.name, LOG_L_INFO);
	log_never_wait();
	rc = program_read_line(&line, &check_deferred, argc, argv);
	if (rc < 0) {
		rc = main_read_settings(&settings, &err);
		if (rc != 0) {
			program_complain(&err, rc);
		} else {
			program_set_log_level(settings.config);
			run.settings = &settings;
			rc = run_with_pidfile();
		}
	}
	free_settings(&settings);
	program_free_line(&line);
	log_flush(LAST_WORDS_MS);
	return rc;
}

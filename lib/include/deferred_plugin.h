/* SPDX-License-Identifier: MIT */
#ifndef DEFERRED_PLUGIN_H
#define DEFERRED_PLUGIN_H

/*
 * The plugin ABI: how a shared object offers functions to check_deferred.
 *
 * A plugin exports one object, `deferred_plugin`, a constant table of functions. The function of a job is looked up in
 * these tables only, never with dlsym(). A producer can therefore call the listed functions and nothing else.
 *
 *     #include <deferred_plugin.h>
 *
 *     static int hello(const struct deferred_call *call)
 *     {
 *             call->host->result(call, "hello", 5);
 *             return DEFERRED_OK;
 *     }
 *
 *     static const struct deferred_function functions[] = {
 *             { .name = "hello", .run = hello, .timeout_ms = 5000 },
 *     };
 *
 *     DEFERRED_PLUGIN("greetings", "1.0", functions);
 *
 *     cc -shared -fPIC -o greetings.so greetings.c
 *
 * Rules.
 * - Functions run in a runner, a child process of check_deferred that holds no database connection;
 *   one function at a time, in one thread. The runner may be killed at any moment.
 * - A function with run_many gets a batch: several jobs in one call. The end of the process then ends the attempts of
 *   all of them. None of these attempts counts, and each job is tried again alone, in a batch of one.
 * - A job may run more than once; a function should be able to bear that (id is stable).
 * - Text crosses as pointer and length and is borrowed for the call; nobody frees the other's memory.
 * - Ending the process in a function (exit, a signal) is a failed attempt.
 * - The file and its folder must belong to root or to the user of check_deferred, and be writable
 *   by nobody else. Replace a plugin by rename, never in place.
 *
 * A function with its own database connection may extend its lease with deferred_extend_conn() of <deferred.h>. With
 * deferred_finish_conn() it records its success in the transaction of its work. Both take the id and the receipt of the
 * call.
 *
 * Compatibility. Members are only added at the end, and the size tells which are there. A plugin that may be run by
 * an older check_deferred asks first:
 *
 *             if (DEFERRED_HAS(call->host, progress))
 *                     call->host->progress(call, done, total, "", 0);
 *
 * This header includes no other header of the project.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DEFERRED_PLUGIN_ABI 1u

/* The result of a function. Any other value counts as DEFERRED_FAILED. */
enum deferred_result {
	DEFERRED_OK = 0,     /* done */
	DEFERRED_FAILED = 1, /* failed; to be tried again after the usual delay */
	/* failed; it is tried again after the delay given to host->retry_after, else after the usual one */
	DEFERRED_LATER = 2,
	DEFERRED_DEAD = 3, /* failed for good; not to be tried again */
	/* The operator has to act first: a setting is missing, or a server does not answer. It is tried again without
	 * end, at growing intervals, and the log names it once a run. An older check_deferred takes it for
	 * DEFERRED_FAILED. */
	DEFERRED_UNREADY = 4,
	/* An older check_deferred takes these two as DEFERRED_FAILED. */
	/* The job is not needed any more: it is cancelled, and host->error has said why. This is no failure. */
	DEFERRED_CANCEL = 5,
	/* Not yet. This is no failure, and uses up no attempt. It is tried again after the delay given to
	 * host->retry_after, at least 1 s, else after the usual delay, which grows with each attempt. */
	DEFERRED_SNOOZE = 6
};

enum deferred_log_level {
	DEFERRED_LOG_ERROR = 1,
	DEFERRED_LOG_WARNING = 2,
	DEFERRED_LOG_INFO = 3,
	DEFERRED_LOG_DEBUG = 4
};

/* Is that member of a struct deferred_call or deferred_host there? The argument is a pointer to it. */
#define DEFERRED_HAS(thing, member) \
	((size_t)((const char *)(&(thing)->member + 1) - (const char *)(thing)) <= (size_t)(thing)->size)

struct deferred_host;

/* The call, as a function sees it. Valid until the function returns. */
struct deferred_call {
	uint32_t size;                    /* bytes of this struct */
	int32_t attempt;                  /* number of this attempt, from 1 */
	int64_t id;                       /* job id; 0 outside a queue (deferred run) */
	int64_t created_at_us;            /* when it was deferred: microseconds since 1970, database clock */
	int64_t timeout_ms;               /* limit of this attempt; 0: none */
	const char *fn;                   /* name it was called by, NUL-terminated */
	const char *params;               /* JSON text as deferred, NUL-terminated */
	size_t params_len;                /* bytes, without the NUL */
	const char *label;                /* "" if none */
	const struct deferred_host *host; /* what the function may ask for */
	void *host_data;                  /* of the host; leave alone */
	int64_t receipt; /* by which this job may be finished and extended, no other; 0 outside a queue */
	/* When its schedule was due, or somebody ran it: microseconds since 1970, database clock. 0: no schedule made
	 * it. An older check_deferred does not have it: DEFERRED_HAS. */
	int64_t tick;
	/* W3C trace context it was deferred in, 55 characters; "" if none was given. DEFERRED_HAS, too */
	const char *traceparent;
	/* the outcomes of the jobs and events that this one waited for, NUL-terminated; "" if there are none. Check
	 * DEFERRED_HAS. A JSON object with a member for each of the first 1,000. Its name is that of option "after" or
	 * of the flow, or a number: {"pack": {"id": 17, "outcome": "ok", "result": "three boxes"}}. The outcome is ok,
	 * failed or skipped, or null before the end. The result is null if there is none. An event has "event", its
	 * name, instead of an id, and its payload as the result, as JSON text. Beyond 64 KiB of results they
	 * have "cut": true instead. With a database connection, deferred.parents() returns them all */
	const char *parents;
	size_t parents_len; /* bytes, without the NUL */
	/* The tick of the job that the schedule made before; a report covers the time between. 0: none. DEFERRED_HAS */
	int64_t previous_tick;
	int64_t ready_at; /* since when this attempt could run: microseconds since 1970, database clock. For a delayed
	                              * job and for a retry, the time it was due; for a job that waited for others, the
	                              * time they had ended. 0 outside a queue. DEFERRED_HAS, too */
	/* The steps that earlier attempts have saved, NUL-terminated; "" if there are none. A JSON object with a member
	 * for each step, in the order in which they were first saved. Check DEFERRED_HAS. */
	const char *steps;
	size_t steps_len; /* bytes, without the NUL */
};

/* The result of host->step. */
enum deferred_step {
	DEFERRED_STEP_SAVED = 0,    /* the database has it */
	DEFERRED_STEP_INVALID = -1, /* the name is not valid, or the value is not JSON or larger than 64 KiB */
	DEFERRED_STEP_FULL = -2,    /* the job has 1,000 steps, or they would have more than 1 MiB */
	/* The lease has ended, or the job was cancelled or is finished. Another attempt may run. The function should
	 * end without further effects. */
	DEFERRED_STEP_GONE = -3,
	DEFERRED_STEP_REFUSED = -4 /* the database cannot store it; the log of the worker says why */
};

/* The callbacks of the runner. Each takes the call it was given. */
struct deferred_host {
	uint32_t size; /* bytes of this struct */

	/* Hand back a result, at most 8 KiB are kept. A second call replaces the first. */
	void (*result)(const struct deferred_call *call, const char *text, size_t len);

	/* Say what went wrong, for the log and the operator; at most 8 KiB. */
	void (*error)(const struct deferred_call *call, const char *text, size_t len);

	/* Delay to the next attempt after DEFERRED_LATER or DEFERRED_SNOOZE, milliseconds. */
	void (*retry_after)(const struct deferred_call *call, int64_t delay_ms);

	/* 1 when the function should come to an end soon: the worker stops, or the job was cancelled. Cheap. */
	int (*stop_asked)(const struct deferred_call *call);

	/* Write a line to the worker's log. */
	void (*log)(const struct deferred_call *call, int level, const char *text, size_t len);

	/* The value of a setting ("mail.host", "settings.PLUGIN.NAME") as text. A number is in its base unit
	 * (milliseconds, bytes), a flag is 1 or 0. settings.PLUGIN.NAME is the unchanged text of the file. NULL: there
	 * is none. The database connection string is not available. */
	const char *(*setting)(const struct deferred_call *call, const char *name);

	/* Defer another call in the transaction that records the success of this attempt. The JSON object opts is that
	 * of deferred.defer(), or NULL; {"flow": true} adds it to the flow of this job. Without success nothing is
	 * deferred. A function that records its success itself must defer on its own connection. Returns 0, or -1 if an
	 * argument is invalid or too long: fn, params (JSON) or opts (object). An attempt may hand over 10,000 calls
	 * and paths (remove_after), of 4 MiB together. Each counts as its texts and 64 bytes. Beyond that it gets -1
	 * and fails, whatever it returns. Other faults, such as an unknown option or a full queue, make the attempt
	 * fail when it is recorded. */
	int (*defer)(const struct deferred_call *call, const char *fn, const char *params, const char *opts);

	/* Have a file removed once the success of this attempt has been recorded, not before. Returns 0,
	 * or -1 if path is not absolute or too long, or the attempt has handed over too much (see defer). */
	int (*remove_after)(const struct deferred_call *call, const char *path);

	/* 1 when the job was cancelled: whatever the function returns now, the job is recorded as cancelled. It is
	 * killed after `kill_after` of the settings. stop_asked() says so too, and cannot tell why. */
	int (*cancelled)(const struct deferred_call *call);

	/* Report progress for people: `deferred show` and `deferred ls --running` print it. Any unit will do for done
	 * and total; below 0: not known. The text has at most 200 bytes and may be empty. The call only copies them, so
	 * it may be made at each step. About one report a second goes to the database. */
	void (*progress)(const struct deferred_call *call, int64_t done, int64_t total, const char *text, size_t len);

	/* Like remove_after(), for a file whose path somebody else chose. The open file is fd. The folder dir,
	 * absolute, contains it. The path is relative to dir, or begins with it. The path is removed only if it then
	 * still lies below dir and still is the file of fd. Returns 0, or -1 if the file is not below dir. */
	int (*remove_beneath)(const struct deferred_call *call, const char *dir, const char *path, int fd);

	/* One of the jobs that this one waited for, by its name in call->parents. Sets *outcome and *result to the
	 * values there, null as NULL. They are valid until the function returns; either pointer may be NULL. Returns 0;
	 * 1: its result was cut; -1: there is no such job. */
	int (*parent)(const struct deferred_call *call, const char *name, const char **outcome, const char **result);

	/* In run_many: the outcome of this job is that enum deferred_result, whatever run_many returns. A second call
	 * replaces the first. */
	void (*outcome)(const struct deferred_call *call, int result);

	/* Save a step: a result that a later attempt of this job can use. The next attempt gets all steps. The name
	 * follows the rule for function names. The value is one JSON value of at most 64 KiB. A second step of a name
	 * replaces the value. The call returns when the database has stored the value, so it takes one round trip.
	 * While the database is away it waits. Returns enum deferred_step. The steps of a job are deleted when it has
	 * succeeded. */
	int (*step)(const struct deferred_call *call, const char *name, const char *value);

	/* The value of a step that this or an earlier attempt has saved, as JSON text. It is valid until the function
	 * returns. NULL: there is no such step. */
	const char *(*step_get)(const struct deferred_call *call, const char *name);
};

enum deferred_function_flags {
	DEFERRED_ISOLATE_JOB = 1, /* each attempt in a process of its own, forked for it */
	/* An attempt that saved a step of a new name does not count against max_attempts. An older check_deferred
	 * counts it. */
	DEFERRED_PROGRESS_RESETS = 2
};

/* The most jobs of a batch, and the longest time that a job waits for others, milliseconds. */
#define DEFERRED_BATCH_MAX 128
#define DEFERRED_BATCH_WAIT_MAX_MS 60000

/* A function. Zero means the worker's default. It has run or run_many. With both, run is for an older check_deferred,
 * which has no batches. */
struct deferred_function {
	const char *name; /* [A-Za-z_][A-Za-z0-9_.]*, at most 127 bytes; also reachable as PLUGIN.NAME */
	int (*run)(const struct deferred_call *call); /* returns enum deferred_result */
	int64_t timeout_ms;                           /* limit of one attempt */
	int32_t max_attempts;
	uint32_t flags;       /* enum deferred_function_flags */
	int64_t cpu_ms;       /* limit of processor time an attempt; implies DEFERRED_ISOLATE_JOB */
	int64_t memory_bytes; /* limit of address space; implies DEFERRED_ISOLATE_JOB */
	int32_t files;        /* limit of open files; implies DEFERRED_ISOLATE_JOB */
	int32_t reserved;
	const char *const *aliases; /* further names, ended by NULL; NULL: none */
	/* Run n jobs in one call. Each callback of the host takes the call of the job that it is about. The returned
	 * enum deferred_result is that of the jobs for which host->outcome was not called. The time limit of the batch
	 * is the longest one of its jobs, and each call has it. With DEFERRED_ISOLATE_JOB or isolate = job, n is 1.
	 * It is 1 too for a job that may be attempted only once, and for a job whose batch was cut off. */
	int (*run_many)(const struct deferred_call *const *calls, size_t n);
	int32_t batch;         /* of run_many: at most this number of jobs, up to DEFERRED_BATCH_MAX; 0: 100 */
	int32_t batch_wait_ms; /* a claimed job waits at most so long until the batch is full; 0: not at all */
};

struct deferred_plugin {
	uint32_t abi;     /* DEFERRED_PLUGIN_ABI */
	uint32_t size;    /* sizeof(struct deferred_plugin) */
	const char *name; /* [A-Za-z_][A-Za-z0-9_]* */
	const char *version;
	const struct deferred_function *functions;
	uint32_t functions_len;
	uint32_t function_size; /* sizeof(struct deferred_function) */
};

#if defined(__GNUC__)
#define DEFERRED_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define DEFERRED_PLUGIN_EXPORT
#endif

/* Defines the one exported object. `functions` is an array. */
#ifdef __cplusplus
#define DEFERRED_PLUGIN_LINKAGE extern "C"
#else
#define DEFERRED_PLUGIN_LINKAGE extern
#endif
#define DEFERRED_PLUGIN(plugin_name, plugin_version, functions_array) \
	DEFERRED_PLUGIN_LINKAGE DEFERRED_PLUGIN_EXPORT const struct deferred_plugin deferred_plugin; \
	const struct deferred_plugin deferred_plugin = { DEFERRED_PLUGIN_ABI, \
							 (uint32_t)sizeof(struct deferred_plugin), \
							 plugin_name, \
							 plugin_version, \
							 functions_array, \
							 (uint32_t)(sizeof(functions_array) / \
								    sizeof((functions_array)[0])), \
							 (uint32_t)sizeof((functions_array)[0]) }

#ifdef __cplusplus
}
#endif

#endif

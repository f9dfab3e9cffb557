/* SPDX-License-Identifier: MIT */
/*
 * deferred_runner - the child process of check_deferred in which functions run. It is exec'd, so its memory never held
 * a database secret. It gets a socket (frame.h) and a board (board.h). Its standard output and error are a pipe to the
 * parent's log.
 *
 *     runner_state.c  what all share: frames to the parent, settings, commands
 *     runner_child.c  a process and its forks: who is who, what each may use and has used
 *     main.c     settings come in, then calls, one after the other
 *     catalog.c  the plugins and the functions in them
 *     call.c     one call: what the function is offered, in this process or a fork of it
 *     command.c  functions that are commands of the config file
 *     steps.c    what a function saves for its next attempt
 *     program_*  functions of programs, which execute one job after another
 *     crash.c    a backtrace before dying
 */
#ifndef DEFERRED_RUNNER_H
#define DEFERRED_RUNNER_H

#include "run/board.h"
#include "run/frame.h"
#include "port/plugin.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

/* A function that is a command. */
struct command {
	char *name;
	char **argv; /* ends with NULL */
	int64_t timeout_ms;
	int32_t max_attempts;
	int32_t batch, batch_wait_ms; /* jobs that it takes at once; 0: one, without the list */
	bool new_privileges;          /* setuid programs gain rights in it */
	bool progress_resets;         /* see DEFERRED_PROGRESS_RESETS */
	struct program *program;      /* NULL: it is a command. Else it has no argv */
};

/* The state of the process. */
struct runner_state {
	pid_t pid;              /* of this process */
	bool below_tool;        /* a tool is our parent, perhaps a debugger */
	struct board *board;    /* NULL in the process of a call */
	_Atomic uint32_t *stop; /* what the function being run reaches: of the board, or of the page of its process */
	struct frame_buf in, out;
	uint64_t bytes_sent; /* frames handed to the socket, in all */
	struct command *commands;
	size_t commands_len;
	char **settings; /* name, value, name, value, ... */
	size_t settings_len;
	char **passed_over; /* plugin files not to load */
	size_t passed_over_len;
	struct frame_start start;
	const char *plugin; /* of the function being run; NULL: none */
	bool plain_crash;   /* it has crashed lately: no symbols */
	int64_t cpu_ms;     /* limit of processor time of the call this process is for; 0: none */
};
extern struct runner_state state;

/* One more element, and a copy of a text. Without memory this process ends. */
void *state_grow(void *array, size_t *len, size_t size);
char *state_copy(const char *text);

/* From here on this process is the one that works; what it forks is a copy. */
void begin_process(void);

/* Asked once a job, in place of a system call. */
bool is_a_copy(void);

/* The board is not for a process in which code of others runs and that need not have it. */
void leave_board(void);

/* Make the end of a pair of sockets the one to talk to: what this process sends goes to the runner, not to the parent.
 * */
void talk_to_runner(const int pair[2]);

/* A debugger above us stops here. The value of the signal is the address of the function; 0: of a command. */
void stop_for_debugger(const struct plugin_function *fn);

/* Is it still what is where we have it? */
bool socket_is_ours(void);

/* Append a frame and account for it; an unusable socket ends the process. */
void send_frame(enum frame_type type, unsigned int slot, const struct frame_part *parts, size_t n);
void flush_frames(void);

/* The steps of a call. One function sends a step and returns 0, or refuses it with enum deferred_step. Another one
 * returns true once the worker has answered that step. A third one does both, and waits in between. */
struct steps {
	const struct deferred_call *call;
	unsigned int slot_no;
	uint32_t number;          /* of the last step that was sent */
	bool read;                /* the steps of the call are in the list */
	struct known_step *known; /* the newest first */
	struct known_step *sent;  /* not yet answered; NULL: none */
};
void steps_begin(struct steps *steps, const struct deferred_call *call, unsigned int slot_no);
int steps_send(struct steps *steps, const char *name, const char *value);
bool steps_answered(struct steps *steps, struct board_slot *slot, int *result);
int steps_save(struct steps *steps, struct board_slot *slot, const char *name, const char *value);
const char *steps_get(struct steps *steps, const char *name);

/* The same for a call. */
int call_send_step(const struct deferred_call *call, const char *name, const char *value);
bool call_step_answered(const struct deferred_call *call, int *result);

/* Load the plugins of a folder, or with `isolate_job` each when one of its functions is first called. Report the
 * functions to the parent, and that we are ready. Where the plugins as a whole cannot be used, ends the process. */
void catalog_load(const char *dir);

/* Tell the parent of plugins that have changed since they were copied, if it is time to look. */
void catalog_look(uint64_t now_ns);

/* NULL: not there, or cannot be loaded, as err says. */
const struct plugin_function *catalog_find(const char *name, struct deferred_error *err);

/* Make one call: payload of FRAME_CALL. A call of a batch waits for the others. */
void call_run(unsigned int slot, const char *payload, size_t len);
bool call_waits(void); /* does one? */

/* How many jobs a function of a plugin, or of the config file, takes at once, at most. */
int32_t call_batch(const struct plugin_function *fn, const struct command *command);

/* SIGTERM goes to the whole group, and a child dies with this process. So while a child does the work, the signal waits
 * for it to have ended: then, with the mask `before` restored, it ends this process. */
void hold_sigterm(sigset_t *before);

/* The resources used by a process that has been waited for, and by those that it waited for. */
void take_usage(struct board_slot *slot, const struct rusage *used);

uint64_t tv_us(struct timeval tv);

/* Limit a resource of this process, for good; and its processor time, 0 being no limit. */
void set_limit(int resource, int64_t soft, int64_t hard);
void limit_cpu(int64_t ms);

/* A process without memory often ends by a signal and does not name the limit. Returns a text that names it for the
 * error, or NULL if memory is not limited or the signal has another cause. */
const char *memory_limit_hint(int sig);

/* Neither this process nor what it executes gains rights from now on. */
void keep_privileges(void);

/* Add a function that is a command, or one of a program. */
struct command *command_add(const char *name, int64_t timeout_ms, int32_t max_attempts);

/* Sort them, then find one by its name. NULL: there is none. */
void commands_sort(void);
const struct command *command_find(const char *name);

/* Run a command for a call, or for a batch, through the callbacks of the host. Its exit status or signal, and what it
 * used, go to the slot. Returns enum deferred_result, -1 when a signal ended it, or BOARD_BROKEN. */
int command_run(const struct command *command, const struct deferred_call *const *calls, size_t n,
		struct board_slot *slot);

/* Take a program of the config file: payload of FRAME_PROGRAM. */
void program_take(const char *payload, size_t len);
struct program *program_find(const char *name);
void program_describe(const struct program *program, char *text, size_t size); /* as the log has it: name and version */

/* Start the programs that announce their functions, and add these. Those that fail are reported. */
void programs_start(void);

/* Look after programs until the parent has sent something. */
void programs_wait(void);

/* Has one become ready with other functions, or another version, than were reported? Then this process leaves. */
bool programs_changed(void);

void programs_end(void);
size_t programs_files(void); /* how many files they need in this process, at most */

/* As command_run(). Returns also BOARD_TIMED_OUT. */
int program_run(struct program *program, const struct deferred_call *const *calls, size_t n, struct board_slot *slot);

/* In a fork that executes the code of others: it does not reach programs. */
void process_forget_all(void);

/* Have a backtrace told before dying of a signal. Anew after each plugin: what is loaded then is known to it. */
void crash_init(void);
void crash_note_modules(void);

#endif

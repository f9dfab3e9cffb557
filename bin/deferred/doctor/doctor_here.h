/* SPDX-License-Identifier: MIT */
/*
 * doctor_here - the checks of `deferred doctor` that need a host that runs jobs. The others, and what a check is, are
 * in program/doctor.h. All are in the table of cmd_doctor.c.
 *
 *     doctor_session.c   who is connected, and through what
 *     doctor_host.c      this host: user, pidfile, spool, certificates
 *     doctor_plugins.c   plugins and commands here
 *     doctor_programs.c  programs here: one runner starts them all
 *     doctor_mail.c      the mail server
 *     doctor_child.c     a child process for what may crash or hang
 */
#ifndef DOCTOR_HERE_H
#define DOCTOR_HERE_H

#include "cmd.h"
#include "port/params.h"
#include "program/doctor.h"
#include "run/user.h"

struct doctor_host {
	struct cli *cli;
	struct params_text json;
	struct deferred_error lost; /* why there is no connection */
	struct runner_setup user;   /* whom functions run as */
};

/*
 * Call f in a child process, as the user of functions if this one is root. Each doctor_tell() of f calls take() with a
 * letter and a text. Returns NULL, or the reason if f did not end within 10 s; `what` then names its last step.
 */
typedef void doctor_child(struct doctor *d, int fd);
typedef void doctor_take(struct doctor *d, char letter, const char *text);
const char *doctor_in_child(struct doctor *d, doctor_child *f, doctor_take *take);
void doctor_tell(int fd, char letter, const char *text);

/* The checks. */
void doctor_config(struct doctor *d);
void doctor_connection(struct doctor *d);
void doctor_role(struct doctor *d);
void doctor_plugins(struct doctor *d); /* with doctor_programs() */
void doctor_programs(struct doctor *d, void (*add)(struct doctor *d, const char *function)); /* add: it is known here */
void doctor_mail(struct doctor *d);
void doctor_intervals(struct doctor *d); /* doctor_superseded(), and what the limits of functions say */
void doctor_user(struct doctor *d);
void doctor_pidfile(struct doctor *d);
void doctor_spool(struct doctor *d);
void doctor_certificates(struct doctor *d);
void doctor_listen(struct doctor *d);
void doctor_zone(struct doctor *d);

#endif

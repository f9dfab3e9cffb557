/* SPDX-License-Identifier: MIT */
/*
 * doctor_here - the checks of `deferred doctor` that only who is on a host that runs jobs can make (program/doctor.h
 * has the others, and what a check is). cmd_doctor.c has the table of them.
 *
 *     doctor_session.c   who is connected, and through what
 *     doctor_host.c      this host: user, pidfile, certificates
 *     doctor_plugins.c   plugins here
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
 * Have f called in a child process, as the user of functions where this one is root. What it says with doctor_tell() is
 * handed to take(), a letter and a text each time. Returns NULL; or, where it did not come to its end in 10 s, why:
 * then, `what` was being done.
 */
typedef void doctor_child(struct doctor *d, int fd);
typedef void doctor_take(struct doctor *d, char letter, const char *text);
const char *doctor_in_child(struct doctor *d, doctor_child *f, doctor_take *take);
void doctor_tell(int fd, char letter, const char *text);

/* The checks. */
void doctor_config(struct doctor *d);
void doctor_connection(struct doctor *d);
void doctor_role(struct doctor *d);
void doctor_plugins(struct doctor *d);
void doctor_mail(struct doctor *d);
void doctor_intervals(struct doctor *d); /* doctor_superseded(), and what the limits of functions say */
void doctor_user(struct doctor *d);
void doctor_pidfile(struct doctor *d);
void doctor_certificates(struct doctor *d);
void doctor_listen(struct doctor *d);

#endif

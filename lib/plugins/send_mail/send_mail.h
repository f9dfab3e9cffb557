/* SPDX-License-Identifier: MIT */
/*
 * One call of send_mail, and the steps it goes through.
 *
 *   mail_params.c   take_params()   what the params ask for, checked; attachments are open from here on
 *   mail_text.c     compose()       the message as libcurl's MIME parts and header lines
 *   smtp.c          talk()          the conversation with the server, and what it answered to each command
 *   main.c          send_mail()     the steps in order, then what the answers make of the job
 *   sending.c       fail()          the reason of a failure, and settings: for all steps
 *
 * Each step returns DEFERRED_OK, or the result of the call with the reason in `why`.
 */
#ifndef SEND_MAIL_H
#define SEND_MAIL_H

#include "base/mail_rules.h"

#include <curl/curl.h>
#include <deferred_plugin.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sending;

struct address {
	char mail[MAIL_ADDRESS_MAX + 1];
	const char *label; /* borrowed, not terminated */
	size_t label_len;
	bool escaped; /* the label is the inside of a quoted string: a backslash takes the next letter as it is */
	bool utf8;    /* has letters outside of ASCII: for servers that offer SMTPUTF8 */
	int code;     /* server's answer to RCPT TO; 0: none */
	char answer[160];
};

struct addresses {
	struct address *v;
	size_t len;
};

struct attachment {
	struct sending *sending;
	const char *path, *name, *type;
	const char *content; /* in place of a file; path is NULL then */
	char *decoded;       /* the content where we made it, else NULL */
	char *own_type;      /* the type where we made it, else NULL */
	bool seven_bit;      /* a message, which is not encoded */
	const char *cid;     /* it is shown by the HTML, which refers to it by that; NULL: it is not */
	bool remove;
	int fd;        /* -1: none */
	size_t size;   /* when it was opened; it must still have it when it is sent */
	size_t offset; /* of what is read next */
};

/* A header that the mail brings along. */
struct own_header {
	const char *name, *text;
	bool plain; /* ASCII that is not to be encoded; else text for people */
};

/* How far the talk with the server has come: the command sent last. */
enum stage { CONNECT, EHLO, HELO, STARTTLS, AUTH, MAIL_FROM, RCPT_TO, DATA, MESSAGE, QUIT };

struct stage_info {
	const char *command; /* beginning of its line; NULL: not a command */
	const char *text;
	/* what is refused with 5xx here is refused for good; else it is about the server, or our settings */
	bool about_mail;
};

/* One call of the function. */
struct sending {
	const struct deferred_call *call;
	char why[1024]; /* what to report */

	json_t *params; /* all text below is borrowed from these */
	struct addresses from, reply_to, to, cc, bcc, rcpt;
	bool redirected;
	const char *subject, *text, *html, *calendar;
	char method[MAIL_METHOD_MAX + 1]; /* of the calendar */
	struct attachment *attachments;
	size_t attachments_len, shown_len; /* shown_len: of them, with a cid */
	struct own_header *own;
	size_t own_len;
	char message_id[512]; /* without the angle brackets */

	curl_mime *mime; /* of several parts; else NULL, and `message` is all of it */
	struct curl_slist *headers;
	char *message;
	size_t message_len;

	size_t asked;     /* recipients at the front of rcpt for whom the server is asked */
	bool utf8;        /* the envelope has letters outside of ASCII, and so may the headers */
	bool no_utf8;     /* the server does not take that: nothing was sent */
	char where[300];  /* HOST:PORT */
	enum stage stage; /* the last one before QUIT */
	size_t rcpt_at;   /* number of RCPT commands sent */
	bool reply_ended;
	bool over;         /* QUIT was sent: what follows says nothing about the mail */
	int reply_code;    /* last complete reply */
	bool message_sent; /* the server said go ahead; from here on the outcome may be unknown */
	char reply[512];
	char curl_error[CURL_ERROR_SIZE];
};

/* Says why. Returns `result`. */
int fail(struct sending *s, int result, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Value of a setting, NULL where it is not set or empty. Borrowed for the call. */
const char *setting(const struct sending *s, const char *name);

/* A number, of a time span that of its milliseconds. */
long setting_number(const struct sending *s, const char *name, long def);

int take_params(struct sending *s);
int compose(struct sending *s);

/* With CRLF for each line end. Given: free(). NULL: out of memory. */
char *with_crlf(const char *text, size_t len);

/* Without the addresses outside of ASCII: these are now at the end of rcpt, as refused. The message must be composed
 * again. */
int leave_out_utf8(struct sending *s);

/* The handle of this process, kept from mail to mail with its connection. NULL: libcurl does not start. */
CURL *smtp_handle(void);

/* Sends the message of compose(). The result is in *code and in the fields from `stage` on. */
int talk(struct sending *s, CURLcode *code);

/* A reply of the server decides only where curl failed because of it; see also judge(). */
bool failed_by_reply(const struct sending *s, CURLcode code);

extern const struct stage_info stages[QUIT + 1];

#endif

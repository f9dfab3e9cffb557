/* SPDX-License-Identifier: MIT */
/*
 * The conversation with the server, led by libcurl. The answer to each command is read too: a mail to several
 * recipients gets several, and libcurl keeps one.
 */
#include "send_mail.h"

#include "port/secret_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

const struct stage_info stages[QUIT + 1] = {
	[CONNECT] = { NULL, "connect", false },      [EHLO] = { "EHLO ", "EHLO", false },
	[HELO] = { "HELO ", "HELO", false },         [STARTTLS] = { "STARTTLS\r\n", "STARTTLS", false },
	[AUTH] = { "AUTH ", "AUTH", false },         [MAIL_FROM] = { "MAIL FROM:", "MAIL FROM", true },
	[RCPT_TO] = { "RCPT TO:", "RCPT TO", true }, [DATA] = { "DATA\r\n", "DATA", true },
	[MESSAGE] = { NULL, "message", true },       [QUIT] = { "QUIT\r\n", "QUIT", false },
};

static CURL *curl;     /* kept: its connection serves the next mail */
static pid_t curl_pid; /* of the process that made it */
static bool curl_utf8; /* the server of that connection offers SMTPUTF8 */

static void on_command(struct sending *s, const char *line, size_t len)
{
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		const char *command = stages[i].command;

		if (!command || len < strlen(command) || memcmp(line, command, strlen(command)) != 0)
			continue;
		s->rcpt_at += i == RCPT_TO;
		if (i == EHLO)
			curl_utf8 = false;
		if (i == QUIT)
			s->over = true;
		else
			s->stage = (enum stage)i;
	}
}

/* A whole reply has come: remember whom it is about. */
static void on_reply(struct sending *s, int code)
{
	s->reply_code = code;
	if (s->stage == RCPT_TO && s->rcpt_at > 0 && s->rcpt_at <= s->asked) {
		struct address *a = &s->rcpt.v[s->rcpt_at - 1];

		a->code = code;
		snprintf(a->answer, sizeof(a->answer), "%.150s", s->reply);
	}
	if (s->stage == DATA && code / 100 == 3) {
		s->stage = MESSAGE;
		s->message_sent = true;
	}
}

static void on_reply_line(struct sending *s, const char *line, size_t len)
{
	size_t at;

	if (s->over)
		return;
	if (s->stage == EHLO && len >= 12 && strncasecmp(line + 4, "SMTPUTF8", 8) == 0 &&
	    strchr(" \r\n", len > 12 ? line[12] : ' '))
		curl_utf8 = true;
	if (s->reply_ended)
		s->reply[0] = '\0';
	s->reply_ended = false;
	at = strlen(s->reply);
	while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
		len--;
	if (at)
		at += (size_t)snprintf(s->reply + at, sizeof(s->reply) - at, " / ");
	for (size_t i = 0; i < len && at + 1 < sizeof(s->reply); i++)
		s->reply[at++] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
	s->reply[at < sizeof(s->reply) ? at : sizeof(s->reply) - 1] = '\0';
	if (len >= 3 && isdigit((unsigned char)line[0]) && (len == 3 || line[3] == ' ')) {
		s->reply_ended = true;
		on_reply(s, atoi(line));
	}
}

static int on_debug(CURL *handle, curl_infotype type, char *data, size_t size, void *user)
{
	(void)handle;
	if (type == CURLINFO_HEADER_OUT)
		on_command(user, data, size);
	else if (type == CURLINFO_HEADER_IN)
		on_reply_line(user, data, size);
	return 0;
}

/* The server has said what it offers, and the mail was not begun: libcurl would send the addresses all the same. */
static int on_begin(void *user, char *to_ip, char *from_ip, int to_port, int from_port)
{
	struct sending *s = user;

	(void)to_ip;
	(void)from_ip;
	(void)to_port;
	(void)from_port;
	s->no_utf8 = s->utf8 && !curl_utf8;
	return s->no_utf8 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Letters that can stand in the host or path of the URL as they are. */
static bool url_text_ok(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr(".-_:", *p))
			return false;
	return true;
}

static int read_password(struct sending *s, char *password, size_t size)
{
	const char *path = setting(s, "mail.password_file"), *text = setting(s, "mail.password");
	FILE *f;

	snprintf(password, size, "%s", text ? text : "");
	if (!path && !text)
		return fail(s, DEFERRED_UNREADY,
			    "setting 'mail.user' is set, and its password is missing; hint: write it to the first line "
			    "of a file and set mail { password_file = \"FILE\" }");
	if (!path)
		return DEFERRED_OK;
	if (!(f = secret_file_open(path, "mail.password_file", s->why, sizeof(s->why))))
		return DEFERRED_UNREADY;
	if (!fgets(password, (int)size, f))
		password[0] = '\0';
	fclose(f);
	password[strcspn(password, "\r\n")] = '\0';
	return DEFERRED_OK;
}

static void *stop_reading(void *fd)
{
	static const struct timespec patience = { 1, 0 };

	nanosleep(&patience, NULL);
	shutdown(*(int *)fd, SHUT_RD);
	return NULL;
}

/* libcurl sends QUIT, and would wait two minutes for the answer. Reading cannot be stopped at once: libcurl 8.14 then
 * sends nothing where the connection is encrypted. */
static void close_connection(void)
{
	curl_socket_t used = CURL_SOCKET_BAD;
	pthread_t timer;
	bool timed;
	int fd;

	if (!curl || curl_pid != getpid())
		return;
	curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &used);
	fd = fcntl(used, F_DUPFD_CLOEXEC, 0);
	timed = fd >= 0 && pthread_create(&timer, NULL, stop_reading, &fd) == 0;
	if (fd >= 0 && !timed)
		shutdown(fd, SHUT_RD);
	curl_easy_cleanup(curl);
	curl = NULL;
	if (timed) {
		pthread_cancel(timer);
		pthread_join(timer, NULL);
	}
	if (fd >= 0)
		close(fd);
}

/* A child must not use the connection of its parent. */
CURL *smtp_handle(void)
{
	static bool registered;

	if (!curl || curl_pid != getpid()) {
		curl = curl_easy_init();
		curl_pid = getpid();
	}
	/* Only now: what is registered later runs earlier, and OpenSSL's own handler ends what this one needs.
	 * It runs when the plugin is unloaded, too. */
	if (curl && !registered)
		registered = atexit(close_connection) == 0;
	return curl;
}

static int smtp_set_up(struct sending *s, struct curl_slist *rcpt, FILE *message)
{
	const char *host = setting(s, "mail.host"), *tls = setting(s, "mail.tls");
	const char *helo = setting(s, "mail.helo"), *user = setting(s, "mail.user"), *ca = setting(s, "mail.ca_file");
	bool implicit = tls && strcmp(tls, "tls") == 0, starttls = tls && strcmp(tls, "starttls") == 0, v6;
	long port = setting_number(s, "mail.port", 0), timeout = setting_number(s, "mail.timeout", 60000);
	char url[800], password[512];
	int rc;

	/* End the attempt here, while its reason is known. */
	if (s->call->timeout_ms > 0 && timeout > s->call->timeout_ms - s->call->timeout_ms / 10)
		timeout = (long)(s->call->timeout_ms - s->call->timeout_ms / 10);
	if (!host)
		host = "localhost";
	if (port == 0)
		port = implicit ? 465 : starttls ? 587 : 25;
	v6 = strchr(host, ':') != NULL;
	snprintf(s->where, sizeof(s->where), "%s%.250s%s:%ld", v6 ? "[" : "", host, v6 ? "]" : "", port);
	if (!url_text_ok(host) || port < 1 || port > 65535 || (helo && !url_text_ok(helo)))
		return fail(s, DEFERRED_UNREADY,
			    "server '%s' has an invalid name or port; hint: correct mail { host, port, helo }",
			    s->where);
	/* Neither on loopback: whoever gets the port first would get the password. */
	if (user && !implicit && !starttls && setting_number(s, "mail.plain_login", 0) != 1)
		return fail(s, DEFERRED_UNREADY,
			    "the password of mail.user would cross the network in clear text; hint: set mail.tls to "
			    "starttls or tls, or mail.plain_login = 1");
	if (user && (rc = read_password(s, password, sizeof(password))) != DEFERRED_OK)
		return rc;
	snprintf(url, sizeof(url), "%s://%s/%s", implicit ? "smtps" : "smtp", s->where, helo ? helo : "");

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_USE_SSL, (long)(starttls ? CURLUSESSL_ALL : CURLUSESSL_NONE));
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
	if (ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, ca);
	if (user) {
		curl_easy_setopt(curl, CURLOPT_USERNAME, user);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, password);
	}
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, timeout);
	curl_easy_setopt(curl, CURLOPT_MAIL_FROM, s->from.v[0].mail);
	curl_easy_setopt(curl, CURLOPT_MAIL_RCPT, rcpt);
	curl_easy_setopt(curl, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
	if (s->mime) {
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, s->headers);
		curl_easy_setopt(curl, CURLOPT_MIMEPOST, s->mime);
	}
	if (s->message) {
		curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(curl, CURLOPT_READDATA, message);
		curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)s->message_len);
	}
	curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, on_begin);
	curl_easy_setopt(curl, CURLOPT_PREREQDATA, s);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, s->curl_error);
	/* The only way to see which reply belongs to which command. */
	curl_easy_setopt(curl, CURLOPT_VERBOSE, 1L);
	curl_easy_setopt(curl, CURLOPT_DEBUGFUNCTION, on_debug);
	curl_easy_setopt(curl, CURLOPT_DEBUGDATA, s);
	explicit_bzero(password, sizeof(password));
	return DEFERRED_OK;
}

static CURLcode perform_once(struct sending *s, FILE *message)
{
	if (message)
		rewind(message);
	s->stage = CONNECT;
	s->rcpt_at = 0;
	s->reply_ended = true;
	s->over = false;
	s->reply_code = 0;
	s->no_utf8 = false;
	s->reply[0] = s->curl_error[0] = s->why[0] = '\0';
	for (size_t i = 0; i < s->asked; i++)
		s->rcpt.v[i].code = 0;
	return curl_easy_perform(curl);
}

bool failed_by_reply(const struct sending *s, CURLcode code)
{
	return (code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_SEND_ERROR || code == CURLE_LOGIN_DENIED) &&
	       s->reply_ended && s->reply_code >= 400;
}

int talk(struct sending *s, CURLcode *code)
{
	FILE *message = s->message ? fmemopen(s->message, s->message_len, "r") : NULL;
	struct curl_slist *rcpt = NULL, *more;
	int rc = s->message && !message ? fail(s, DEFERRED_FAILED, "out of memory") : DEFERRED_OK;
	long made = 1;

	for (size_t i = 0; i < s->asked && rc == DEFERRED_OK; i++) {
		if ((more = curl_slist_append(rcpt, s->rcpt.v[i].mail)))
			rcpt = more;
		else
			rc = fail(s, DEFERRED_FAILED, "out of memory");
	}
	if (rc == DEFERRED_OK && (rc = smtp_set_up(s, rcpt, message)) == DEFERRED_OK) {
		*code = perform_once(s, message);
		curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &made);
		/* The server had closed the connection kept from the last mail: that says nothing about this one. */
		if (*code != CURLE_OK && made == 0 && !s->no_utf8 && !s->message_sent &&
		    (s->reply_code == 421 || !failed_by_reply(s, *code))) {
			curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
			*code = perform_once(s, message);
		}
	}
	/* It borrowed what ends with this call; the connection stays. */
	curl_easy_reset(curl);
	curl_slist_free_all(rcpt);
	if (message)
		fclose(message);
	return rc;
}

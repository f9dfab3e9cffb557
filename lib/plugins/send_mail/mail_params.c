/* SPDX-License-Identifier: MIT */
/*
 * The params of a call: addresses, texts, envelope, Message-ID and attachments, each checked before anything is sent.
 * The first fault ends the call, and for good if a repeat would not help. Faults of the settings come last, so that a
 * mail that can never go out does not wait for them.
 */
#include "send_mail.h"

#include "base/text/base64.h"
#include "base/mail_rules.h"
#include "port/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- addresses --------------------------------------------------------------------------------- */

static int add_address(struct sending *s, struct addresses *list, const char *field, const char *mail, size_t mail_len,
		       const char *label, size_t label_len)
{
	const char *wrong = mail_address_wrong(mail, mail_len);
	bool in_mail = mail_line_wrong(mail, mail_len);
	struct address *v;

	if (in_mail || mail_line_wrong(label, label_len))
		return fail(s, DEFERRED_DEAD, "%s: the %s has a control character; hint: write one line of text", field,
			    in_mail ? "address" : "name");
	if (wrong)
		return fail(s, DEFERRED_DEAD, "%s: '%.*s' %s; hint: write an address such as ann@example.org", field,
			    (int)(mail_len < 200 ? mail_len : 200), mail, wrong);
	if (!(v = realloc(list->v, (list->len + 1) * sizeof(*v))))
		return fail(s, DEFERRED_FAILED, "out of memory");
	list->v = v;
	v += list->len++;
	memset(v, 0, sizeof(*v));
	memcpy(v->mail, mail, mail_len);
	v->label = label;
	v->label_len = label_len;
	v->utf8 = !mail_is_ascii(mail, mail_len);
	return DEFERRED_OK;
}

/* A name in quotes, the last of which no backslash takes for a letter of it. */
static bool is_quoted(const char *name, size_t len)
{
	size_t escapes = 0;

	while (len > 2 && escapes < len - 2 && name[len - 2 - escapes] == '\\')
		escapes++;
	return len >= 2 && name[0] == '"' && name[len - 1] == '"' && escapes % 2 == 0;
}

/* "a@b" or "Name <a@b>"; quotes around the name are taken off. */
static int add_address_text(struct sending *s, struct addresses *list, const char *field, const char *text)
{
	size_t len = strlen(text), label_len;
	const char *open;
	bool quoted;
	int rc;

	if (len == 0 || text[len - 1] != '>' || !(open = strrchr(text, '<')))
		return add_address(s, list, field, text, len, "", 0);
	label_len = (size_t)(open - text);
	while (label_len && text[label_len - 1] == ' ')
		label_len--;
	quoted = is_quoted(text, label_len);
	rc = add_address(s, list, field, open + 1, len - (size_t)(open - text) - 2, text + quoted,
			 label_len - 2 * quoted);
	if (rc == DEFERRED_OK)
		list->v[list->len - 1].escaped = quoted;
	return rc;
}

/* The first key of an object that is none of `known`, which ends with NULL; NULL if there is none. */
static const char *unknown_key(const json_t *object, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		size_t i = 0;

		while (known[i] && strcmp(key, known[i]) != 0)
			i++;
		if (!known[i])
			return key;
	}
	return NULL;
}

static int add_address_json(struct sending *s, struct addresses *list, const char *field, const json_t *value)
{
	static const char *const known[] = { "mail", "label", NULL };
	const json_t *mail = json_object_get(value, "mail"), *label = json_object_get(value, "label");
	const char *key, *name = json_string_value(label);

	if (json_is_string(value))
		return add_address_text(s, list, field, json_string_value(value));
	if ((key = unknown_key(value, known)))
		return fail(s, DEFERRED_DEAD, "%s: member '%.100s' of the address is unknown; hint: use mail and label",
			    field, key);
	if (!json_is_string(mail) || (label && !name && !json_is_null(label)))
		return fail(s, DEFERRED_DEAD,
			    "%s: the address is invalid; hint: write \"ann@example.org\" or "
			    "{\"mail\": \"ann@example.org\", \"label\": \"Ann\"}",
			    field);
	return add_address(s, list, field, json_string_value(mail), json_string_length(mail), name ? name : "",
			   name ? strlen(name) : 0);
}

/* An address of the settings: of that which is wrong there the mail knows nothing. */
static int add_address_setting(struct sending *s, struct addresses *list, const char *name, const char *text)
{
	int rc = add_address_text(s, list, name, text);

	if (rc == DEFERRED_OK && list->v[list->len - 1].utf8)
		return fail(
			s, DEFERRED_UNREADY,
			"setting '%s': '%.200s' has letters outside of ASCII, which not every server takes; hint: use "
			"an address in ASCII",
			name, text);
	return rc == DEFERRED_DEAD ? DEFERRED_UNREADY : rc;
}

/* ---- params ----------------------------------------------------------------------------------- */

static int take_addresses(struct sending *s, const char *field, struct addresses *list, size_t max)
{
	const json_t *value = json_object_get(s->params, field), *item;
	int rc = DEFERRED_OK;
	size_t i;

	if (!value || json_is_null(value))
		return DEFERRED_OK;
	if (!json_is_array(value))
		return add_address_json(s, list, field, value);
	if (json_array_size(value) > max)
		return fail(s, DEFERRED_DEAD, "%s: more than %zu addresses; hint: send several mails", field, max);
	json_array_foreach(value, i, item) if ((rc = add_address_json(s, list, field, item)) != DEFERRED_OK) break;
	return rc;
}

static int take_text(struct sending *s, const json_t *from, const char *field, const char **text, bool one_line)
{
	const json_t *value = json_object_get(from, field);

	if (!value || json_is_null(value))
		return DEFERRED_OK;
	if (!json_is_string(value))
		return fail(s, DEFERRED_DEAD, "%s: the value is not a JSON string; hint: put it in double quotes",
			    field);
	*text = json_string_value(value);
	if (one_line && mail_line_wrong(*text, strlen(*text)))
		return fail(s, DEFERRED_DEAD, "%s: the value has a control character; hint: write one line of text",
			    field);
	return DEFERRED_OK;
}

/* ---- headers of the mail's own ------------------------------------------------------------------ */

static int take_own_headers(struct sending *s)
{
	const json_t *headers = json_object_get(s->params, "headers");
	const char *key, *wrong;
	json_t *value;

	if (!headers || json_is_null(headers))
		return DEFERRED_OK;
	if (!json_is_object(headers) || json_object_size(headers) > MAIL_HEADERS_MAX)
		return fail(s, DEFERRED_DEAD,
			    "headers: the value is not an object of at most %d headers; hint: for example "
			    "{\"Auto-Submitted\": \"auto-generated\"}",
			    MAIL_HEADERS_MAX);
	s->own = calloc(json_object_size(headers) + 1, sizeof(*s->own));
	if (!s->own)
		return fail(s, DEFERRED_FAILED, "out of memory");
	json_object_foreach((json_t *)headers, key, value)
	{
		struct own_header *h = &s->own[s->own_len];

		*h = (struct own_header){ .name = key, .text = json_string_value(value) };
		if ((wrong = mail_header_wrong(key, h->text, &h->plain)))
			return fail(s, DEFERRED_DEAD,
				    "headers: '%.100s' %s; hint: deferred_functions(7) lists the headers",
				    mail_line_wrong(key, strlen(key)) ? "?" : key, wrong);
		for (size_t i = 0; i < s->own_len; i++)
			if (strcasecmp(s->own[i].name, key) == 0)
				return fail(s, DEFERRED_DEAD, "headers: '%s' is there twice; hint: remove one", key);
		s->own_len++;
	}
	return DEFERRED_OK;
}

/* ---- attachments -------------------------------------------------------------------------------- */

static const char *type_of_name(const char *name)
{
	static const char *const types[][2] = {
		{ "pdf", "application/pdf" },
		{ "txt", "text/plain; charset=UTF-8" },
		{ "csv", "text/csv; charset=UTF-8" },
		{ "html", "text/html; charset=UTF-8" },
		{ "htm", "text/html; charset=UTF-8" },
		{ "xml", "application/xml" },
		{ "json", "application/json" },
		{ "zip", "application/zip" },
		{ "gz", "application/gzip" },
		{ "png", "image/png" },
		{ "jpg", "image/jpeg" },
		{ "jpeg", "image/jpeg" },
		{ "gif", "image/gif" },
		{ "svg", "image/svg+xml" },
		{ "ics", "text/calendar; charset=UTF-8" },
		{ "eml", "message/rfc822" },
		{ "doc", "application/msword" },
		{ "xls", "application/vnd.ms-excel" },
		{ "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
		{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	};
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
		if (strcasecmp(dot + 1, types[i][0]) == 0)
			return types[i][1];
	return "application/octet-stream";
}

static int open_attachment(struct sending *s, struct attachment *a)
{
	const char *dir = setting(s, "mail.attachment_dir"), *why;
	struct stat st;

	if (!dir)
		return fail(
			s, DEFERRED_DEAD,
			"attachment '%.300s' is refused: setting 'mail.attachment_dir' is not set; hint: set it to the "
			"folder of the files, or pass 'content'",
			a->path);
	if (dir[0] != '/' || stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return fail(s, DEFERRED_UNREADY,
			    "setting 'mail.attachment_dir': '%.300s' is not the absolute path of a folder; hint: "
			    "correct it",
			    dir);
	a->fd = beneath_open(dir, a->path, O_RDONLY, 0, &why);
	if (a->fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO))
		return fail(s, DEFERRED_FAILED, "cannot read attachment '%.300s': %s", a->path, why);
	if (a->fd < 0)
		return fail(s, DEFERRED_DEAD, "cannot read attachment '%.300s' below mail.attachment_dir '%.200s': %s",
			    a->path, dir, why);
	if (fstat(a->fd, &st) < 0)
		return fail(s, DEFERRED_FAILED, "cannot read attachment '%.300s': %s", a->path, strerror(errno));
	a->size = (size_t)st.st_size;
	return DEFERRED_OK;
}

/* The content that the mail carries itself, so that no file is read here. */
static int take_content(struct sending *s, struct attachment *a, const char *text, const char *base64)
{
	a->content = text;
	a->size = text ? strlen(text) : 0;
	if (!base64)
		return DEFERRED_OK;
	a->content = a->decoded = malloc(strlen(base64) / 4 * 3 + 3);
	if (!a->decoded)
		return fail(s, DEFERRED_FAILED, "out of memory");
	if (!base64_decode(base64, a->decoded, &a->size))
		return fail(s, DEFERRED_DEAD,
			    "attachment '%.100s' has content_base64 that is not Base64; hint: pass text as content",
			    a->name);
	return DEFERRED_OK;
}

static char *read_attachment(struct attachment *a)
{
	char *text = malloc(a->size + 1);
	size_t at = 0;
	ssize_t n;

	while (text && at < a->size && (n = pread(a->fd, text + at, a->size - at, (off_t)at)) > 0)
		at += (size_t)n;
	if (text && at < a->size) {
		free(text);
		return NULL;
	}
	return text;
}

/* Lines that a server takes as they are, with line ends that can be written as CRLF. */
static bool is_seven_bit(const char *text, size_t len)
{
	for (size_t i = 0, line = 0; i < len; i++) {
		line = text[i] == '\n' ? 0 : line + 1;
		if (!text[i] || (unsigned char)text[i] >= 0x80 || line > 998u + (text[i] == '\r') ||
		    (text[i] == '\r' && i + 1 < len && text[i + 1] != '\n'))
			return false;
	}
	return true;
}

/*
 * A message within a mail is not encoded (RFC 2046, 5.2.1). A message that not every server accepts goes out as a file
 * of bytes. It is never sent as 8bit, because libcurl does not announce that. Nor is it sent as message/global (RFC
 * 6532, 3.7), because few readers decode that.
 */
static int take_message(struct sending *s, struct attachment *a)
{
	char *text;

	if (!a->content && !(a->content = a->decoded = read_attachment(a)))
		return fail(s, DEFERRED_FAILED, "cannot read attachment '%.300s'", a->path);
	if (!is_seven_bit(a->content, a->size)) {
		a->type = "application/octet-stream";
		return DEFERRED_OK;
	}
	if (!(text = with_crlf(a->content, a->size)))
		return fail(s, DEFERRED_FAILED, "out of memory");
	free(a->decoded);
	a->content = a->decoded = text;
	a->size = strlen(text);
	a->seven_bit = true;
	return DEFERRED_OK;
}

/* Text in the params is UTF-8, and the mail declares it. */
static int add_charset(struct sending *s, struct attachment *a)
{
	if (asprintf(&a->own_type, "%s; charset=UTF-8", a->type) < 0) {
		a->own_type = NULL;
		return fail(s, DEFERRED_FAILED, "out of memory");
	}
	a->type = a->own_type;
	return DEFERRED_OK;
}

static const char *params_repeated_cid(const struct sending *s, const char *cid)
{
	for (size_t i = 0; i + 1 < s->attachments_len; i++)
		if (s->attachments[i].cid && strcmp(s->attachments[i].cid, cid) == 0)
			return "has a cid that is there twice";
	return NULL;
}

static int take_attachment(struct sending *s, const json_t *value)
{
	static const char *const known[] = {
		"path", "name", "type", "content", "content_base64", "cid", "delete_after_send", NULL
	};
	struct attachment *a = &s->attachments[s->attachments_len++];
	const json_t *remove = json_object_get(value, "delete_after_send");
	const char *key = unknown_key(value, known), *text = NULL, *base64 = NULL, *wrong;
	int rc;

	a->sending = s;
	a->fd = -1;
	if (!json_is_object(value))
		return fail(s, DEFERRED_DEAD,
			    "attachments: an element is not an object; hint: for example [{\"name\": \"a.csv\", "
			    "\"content\": \"1;2\"}]");
	if (key)
		return fail(s, DEFERRED_DEAD,
			    "attachments: member '%.100s' is unknown; hint: deferred_functions(7) lists the members",
			    key);
	if ((rc = take_text(s, value, "path", &a->path, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "name", &a->name, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "type", &a->type, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "cid", &a->cid, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "content", &text, false)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "content_base64", &base64, false)) != DEFERRED_OK)
		return rc;
	if (remove && !json_is_boolean(remove) && !json_is_null(remove))
		return fail(
			s, DEFERRED_DEAD,
			"delete_after_send: the value is not true or false; hint: write one of them without quotes");
	wrong = mail_file_wrong(&(struct mail_file){ a->path, a->name, a->type, a->cid, text, base64, s->html });
	if (!wrong && a->cid)
		wrong = params_repeated_cid(s, a->cid);
	if (wrong)
		return fail(s, DEFERRED_DEAD, "attachment '%.255s' %s; hint: deferred_functions(7) lists the members",
			    a->name   ? a->name
			    : a->path ? a->path
				      : "",
			    wrong);
	s->shown_len += a->cid != NULL;
	a->remove = a->path && json_is_true(remove);
	if (!a->name || !*a->name)
		a->name = strrchr(a->path, '/') + 1;
	if (!a->type || !*a->type)
		a->type = type_of_name(a->name);
	if ((rc = a->path ? open_attachment(s, a) : take_content(s, a, text, base64)) != DEFERRED_OK)
		return rc;
	if (strncasecmp(a->type, "message/rfc822", 14) == 0)
		return take_message(s, a);
	if (text && strncasecmp(a->type, "text/", 5) == 0 && !mail_type_has_charset(a->type))
		return add_charset(s, a);
	return DEFERRED_OK;
}

static int take_attachments(struct sending *s)
{
	const json_t *list = json_object_get(s->params, "attachments"), *item;
	int rc = DEFERRED_OK;
	size_t i;

	if (!list || json_is_null(list))
		return DEFERRED_OK;
	if (!json_is_array(list))
		return fail(s, DEFERRED_DEAD,
			    "attachments: the value is not an array; hint: for example [{\"name\": \"a.csv\", "
			    "\"content\": \"1;2\"}]");
	s->attachments = calloc(json_array_size(list) + 1, sizeof(*s->attachments));
	if (!s->attachments)
		return fail(s, DEFERRED_FAILED, "out of memory");
	json_array_foreach(list, i, item) if ((rc = take_attachment(s, item)) != DEFERRED_OK) break;
	return rc;
}

static bool same_address(const char *a, const char *b)
{
	size_t local = (size_t)(strrchr(a, '@') - a);

	return strncmp(a, b, local + 1) == 0 && strcasecmp(a + local, b + local) == 0;
}

/* The recipients of RCPT TO, each once. */
static int take_envelope(struct sending *s, size_t max)
{
	const struct addresses *all[] = { &s->to, &s->cc, &s->bcc };
	const char *redirect = setting(s, "mail.to");
	int rc;

	if (s->to.len + s->cc.len + s->bcc.len == 0)
		return fail(s, DEFERRED_DEAD, "the recipient is missing: to, cc and bcc are empty; hint: set to");
	if (redirect) {
		s->redirected = true;
		return add_address_setting(s, &s->rcpt, "mail.to", redirect);
	}
	if ((rc = take_addresses(s, "deliver_to", &s->rcpt, max)) != DEFERRED_OK)
		return rc;
	for (size_t i = 0; i < 3 && !json_object_get(s->params, "deliver_to"); i++)
		for (size_t j = 0; j < all[i]->len; j++) {
			const char *mail = all[i]->v[j].mail;
			size_t k = 0;

			while (k < s->rcpt.len && !same_address(s->rcpt.v[k].mail, mail))
				k++;
			if (k == s->rcpt.len &&
			    (rc = add_address(s, &s->rcpt, "to", mail, strlen(mail), "", 0)) != DEFERRED_OK)
				return rc;
		}
	if (s->rcpt.len == 0)
		return fail(s, DEFERRED_DEAD,
			    "deliver_to: the list is empty; hint: name an address, or leave deliver_to out");
	if (s->rcpt.len > max)
		return fail(s, DEFERRED_DEAD,
			    "the mail has %zu recipients, and mail.recipients_max allows %zu; hint: send several mails",
			    s->rcpt.len, max);
	return DEFERRED_OK;
}

/* Once all of it is known: does it need a server with SMTPUTF8? */
static void weigh_envelope(struct sending *s)
{
	s->asked = s->rcpt.len;
	s->utf8 = s->from.v[0].utf8;
	for (size_t i = 0; i < s->rcpt.len; i++)
		s->utf8 |= s->rcpt.v[i].utf8;
}

/* It stands in the header, which a mail to others may have to do without. */
static int check_reply_to(struct sending *s)
{
	if (s->reply_to.len && s->reply_to.v[0].utf8)
		return fail(s, DEFERRED_DEAD, "reply_to: '%s' " MAIL_REPLY_TO_WRONG, s->reply_to.v[0].mail);
	return DEFERRED_OK;
}

static int check_bodies(struct sending *s)
{
	const char *wrong = s->calendar ? mail_calendar_wrong(s->calendar, s->method) : NULL;

	if (!s->text && !s->html)
		return fail(s, DEFERRED_DEAD, "text and html are both missing; hint: set at least one");
	return wrong ? fail(s, DEFERRED_DEAD, "calendar: %s; hint: begin with BEGIN:VCALENDAR", wrong) : DEFERRED_OK;
}

static void refuse_utf8(struct address *a)
{
	a->code = 553;
	snprintf(a->answer, sizeof(a->answer),
		 "letters outside of ASCII take a server that offers SMTPUTF8, which this one does not%s",
		 mail_is_ascii(a->mail, (size_t)(strrchr(a->mail, '@') - a->mail))
			 ? "; or write the domain in its xn-- form"
			 : "");
}

int leave_out_utf8(struct sending *s)
{
	struct address one;

	s->utf8 = false;
	s->asked = 0;
	for (size_t i = 0; i < s->rcpt.len; i++) {
		one = s->rcpt.v[i];
		if (one.utf8) {
			refuse_utf8(&s->rcpt.v[i]);
			continue;
		}
		s->rcpt.v[i] = s->rcpt.v[s->asked];
		s->rcpt.v[s->asked++] = one;
	}
	if (s->from.v[0].utf8) {
		refuse_utf8(&s->from.v[0]);
		return fail(s, DEFERRED_DEAD, "%s: from: %s: %s", s->where, s->from.v[0].mail, s->from.v[0].answer);
	}
	if (s->asked == 0)
		return fail(s, DEFERRED_DEAD, "%s: RCPT TO: %s: %s", s->where, s->rcpt.v[0].mail, s->rcpt.v[0].answer);
	return DEFERRED_OK;
}

/* Stable over the attempts of a job, so that a repeat can be recognised. */
static int take_message_id(struct sending *s)
{
	const char *given = NULL, *wrong, *at = strrchr(s->from.v[0].mail, '@') + 1;
	const char *domain = mail_is_ascii(at, strlen(at)) ? at : "mail.invalid";
	unsigned long long random;
	size_t len;
	int rc = take_text(s, s->params, "message_id", &given, true);

	if (rc != DEFERRED_OK)
		return rc;
	if (!given && s->call->id > 0) {
		snprintf(s->message_id, sizeof(s->message_id), "deferred.%lld.%lld@%s", (long long)s->call->id,
			 (long long)s->call->created_at_us, domain);
		return DEFERRED_OK;
	}
	if (!given) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return fail(s, DEFERRED_FAILED, "cannot read random numbers: %s", strerror(errno));
		snprintf(s->message_id, sizeof(s->message_id), "deferred.%llx.%lld@%s", random, (long long)time(NULL),
			 domain);
		return DEFERRED_OK;
	}
	len = strlen(given);
	if (len > 2 && given[0] == '<' && given[len - 1] == '>') {
		given++;
		len -= 2;
	}
	if ((wrong = mail_message_id_wrong(given, len)))
		return fail(s, DEFERRED_DEAD, "message_id: '%.*s' %s", (int)(len < 250 ? len : 250), given, wrong);
	snprintf(s->message_id, sizeof(s->message_id), "%.*s", (int)len, given);
	return DEFERRED_OK;
}

static int take_sender(struct sending *s)
{
	const char *from = setting(s, "mail.from");
	int rc = s->from.len || !from ? DEFERRED_OK : add_address_setting(s, &s->from, "mail.from", from);

	if (rc != DEFERRED_OK || s->from.len)
		return rc;
	return fail(s, DEFERRED_UNREADY,
		    "the sender is missing: the mail has no 'from', and setting 'mail.from' is not set; hint: add mail "
		    "{ from "
		    "= \"you@example.org\" } to the config file");
}

int take_params(struct sending *s)
{
	static const char *const known[] = { "from",    "to",         "cc",    "bcc",        "reply_to",
					     "subject", "text",       "html",  "calendar",   "attachments",
					     "headers", "message_id", "label", "deliver_to", NULL };
	const char *key;
	size_t max = (size_t)setting_number(s, "mail.recipients_max", 100);
	const struct {
		const char *field;
		struct addresses *list;
		size_t max;
	} lists[] = { { "from", &s->from, 1 },
		      { "reply_to", &s->reply_to, 1 },
		      { "to", &s->to, max },
		      { "cc", &s->cc, max },
		      { "bcc", &s->bcc, max } };
	json_error_t why;
	int rc;

	s->params = json_loadb(s->call->params, s->call->params_len, JSON_REJECT_DUPLICATES, &why);
	if (!s->params || !json_is_object(s->params))
		return fail(s, DEFERRED_DEAD,
			    "params are not a JSON object: %s; hint: for example {\"to\": \"ann@example.org\", "
			    "\"text\": \"Hi\"}",
			    s->params ? "another JSON value was given" : why.text);
	if ((key = unknown_key(s->params, known)))
		return fail(s, DEFERRED_DEAD, "field '%.100s' is unknown; hint: deferred_functions(7) lists the fields",
			    key);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if ((rc = take_addresses(s, lists[i].field, lists[i].list, lists[i].max)) != DEFERRED_OK)
			return rc;
	if ((rc = take_text(s, s->params, "subject", &s->subject, true)) != DEFERRED_OK ||
	    (rc = take_text(s, s->params, "text", &s->text, false)) != DEFERRED_OK ||
	    (rc = take_text(s, s->params, "html", &s->html, false)) != DEFERRED_OK ||
	    (rc = take_text(s, s->params, "calendar", &s->calendar, false)) != DEFERRED_OK ||
	    (rc = take_own_headers(s)) != DEFERRED_OK || (rc = take_envelope(s, max)) != DEFERRED_OK ||
	    (rc = check_bodies(s)) != DEFERRED_OK || (rc = take_attachments(s)) != DEFERRED_OK ||
	    (rc = check_reply_to(s)) != DEFERRED_OK || (rc = take_sender(s)) != DEFERRED_OK)
		return rc;
	weigh_envelope(s);
	return take_message_id(s);
}

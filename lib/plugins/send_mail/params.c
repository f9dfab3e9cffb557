/* SPDX-License-Identifier: MIT */
/*
 * What a call asks for: addresses, texts, envelope, Message-ID and attachments, each checked before
 * anything is sent. The first thing found wrong ends the call, and for good where a repeat would not help; what is wrong with the
 * settings is told last, so that a mail which could never go out does not wait for these.
 */
#include "send_mail.h"

#include "port/beneath.h"

#include <ctype.h>
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

#define OWN_HEADERS_MAX 50
#define LOCAL_MAX 64 /* bytes before the @: RFC 5321, 4.5.3.1.1 */

/* ---- checks: what must not get to the server -------------------------------------------------- */

/* No control character, of C0, DEL and C1. The text is valid UTF-8. */
static bool check_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f)
			return false;
		if (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0)
			return false;
	}
	return true;
}

static bool is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

/* May it stand in an address? Letters outside of ASCII may, RFC 6531. */
static bool is_address_letter(char c, const char *others)
{
	return (unsigned char)c >= 0x80 || isalnum((unsigned char)c) || strchr(others, c);
}

/* Returns what is wrong with an address, or NULL. */
static const char *check_address(const char *mail, size_t len)
{
	static const char atext[] = "!#$%&'*+-/=?^_`{|}~.";
	const char *at = memrchr(mail, '@', len);
	size_t local = at ? (size_t)(at - mail) : 0, domain = at ? len - local - 1 : 0;

	if (!check_text(mail, len))
		return "has a control character";
	if (len > ADDRESS_MAX || local > LOCAL_MAX)
		return "is too long";
	if (!local || !domain)
		return "is no mail address";
	if (mail[0] == '.' || at[-1] == '.' || memmem(mail, local, "..", 2))
		return "has a dot out of place";
	for (size_t i = 0; i < local; i++)
		if (!is_address_letter(mail[i], atext))
			return "has a character that is not allowed before the @";
	if (at[1] == '[' && mail[len - 1] == ']') {
		for (size_t i = 2; i < domain; i++)
			if (!isalnum((unsigned char)at[i]) && !strchr(".:-", at[i]))
				return "has no valid address literal after the @";
		return NULL;
	}
	if (at[1] == '.' || mail[len - 1] == '.' || memmem(at, domain + 1, "..", 2))
		return "has a dot out of place";
	for (size_t i = 1; i <= domain; i++)
		if (!is_address_letter(at[i], ".-_"))
			return "has a character that is not allowed after the @";
	return NULL;
}

static int add_address(struct sending *s, struct addresses *list, const char *field, const char *mail, size_t mail_len,
		       const char *label, size_t label_len)
{
	const char *wrong = check_address(mail, mail_len);
	struct address *v;

	if (wrong && check_text(mail, mail_len))
		return fail(s, DEFERRED_DEAD, "%s: \"%.*s\" %s", field, (int)(mail_len < 200 ? mail_len : 200), mail, wrong);
	if (wrong || !check_text(label, label_len))
		return fail(s, DEFERRED_DEAD, "%s: %s has a control character", field, wrong ? "the address" : "the name");
	if (!(v = realloc(list->v, (list->len + 1) * sizeof(*v))))
		return fail(s, DEFERRED_FAILED, "out of memory");
	list->v = v;
	v += list->len++;
	memset(v, 0, sizeof(*v));
	memcpy(v->mail, mail, mail_len);
	v->label = label;
	v->label_len = label_len;
	v->utf8 = !is_ascii(mail, mail_len);
	return DEFERRED_OK;
}

/* "a@b" or "Name <a@b>"; quotes around the name are taken off. */
static int add_address_text(struct sending *s, struct addresses *list, const char *field, const char *text)
{
	size_t len = strlen(text), label_len;
	const char *open;

	if (len == 0 || text[len - 1] != '>' || !(open = strrchr(text, '<')))
		return add_address(s, list, field, text, len, "", 0);
	label_len = (size_t)(open - text);
	while (label_len && text[label_len - 1] == ' ')
		label_len--;
	if (label_len >= 2 && text[0] == '"' && text[label_len - 1] == '"')
		return add_address(s, list, field, open + 1, len - (size_t)(open - text) - 2, text + 1, label_len - 2);
	return add_address(s, list, field, open + 1, len - (size_t)(open - text) - 2, text, label_len);
}

/* The first key of an object that is none of `known`, which ends with NULL; NULL if there is none. */
static const char *unknown_key(const json_t *object, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
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
		return fail(s, DEFERRED_DEAD, "%s: unknown member \"%.100s\" of an address", field, key);
	if (!json_is_string(mail) || (label && !name && !json_is_null(label)))
		return fail(s, DEFERRED_DEAD, "%s: an address is \"a@b\" or {\"mail\": \"a@b\", \"label\": \"Name\"}", field);
	return add_address(s, list, field, json_string_value(mail), json_string_length(mail), name ? name : "",
			   name ? strlen(name) : 0);
}

/* An address of the settings: of that which is wrong there the mail knows nothing. */
static int add_address_setting(struct sending *s, struct addresses *list, const char *name, const char *text)
{
	int rc = add_address_text(s, list, name, text);

	if (rc == DEFERRED_OK && list->v[list->len - 1].utf8)
		return fail(s, DEFERRED_UNREADY, "%s: \"%.200s\" has letters outside of ASCII, which not every server takes", name, text);
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
		return fail(s, DEFERRED_DEAD, "%s: more than %zu addresses", field, max);
	json_array_foreach(value, i, item)
		if ((rc = add_address_json(s, list, field, item)) != DEFERRED_OK)
			break;
	return rc;
}

static int take_text(struct sending *s, const json_t *from, const char *field, const char **text, bool one_line)
{
	const json_t *value = json_object_get(from, field);

	if (!value || json_is_null(value))
		return DEFERRED_OK;
	if (!json_is_string(value))
		return fail(s, DEFERRED_DEAD, "%s: no string", field);
	*text = json_string_value(value);
	if (one_line && !check_text(*text, strlen(*text)))
		return fail(s, DEFERRED_DEAD, "%s: has a control character", field);
	return DEFERRED_OK;
}

/* ---- headers of the mail's own ------------------------------------------------------------------ */

static bool is_one_of(const char *name, const char *const *names, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* In words that can be folded, and nothing but ASCII, which may not be encoded there. */
static bool plain_ok(const char *text)
{
	size_t word = 0;

	if (text[0] == ' ' || text[strlen(text) - 1] == ' ' || !is_ascii(text, strlen(text)))
		return false;
	for (; *text; text++) {
		word = *text == ' ' ? 0 : word + 1;
		if (word > 500)
			return false;
	}
	return true;
}

/* Any name of X- but those that servers and filters go by, or that we write. */
static bool extension_ok(const char *name)
{
	static const char *const taken[] = { "deferred-", "spam", "original-", "envelope-" };

	if (strncasecmp(name, "X-", 2) != 0 || !name[2] || strcasecmp(name, "X-SMTPAPI") == 0)
		return false;
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (strncasecmp(name + 2, taken[i], strlen(taken[i])) == 0)
			return false;
	return true;
}

/*
 * Returns what is wrong with a header, or NULL. The list is one of what may be there: a name that is forgotten on it is missed by
 * somebody, one forgotten on a list of what may not be would let a mail name recipients, or pass for checked.
 */
static const char *check_own_header(struct own_header *h)
{
	static const char *const plain[] = { "In-Reply-To", "References", "Auto-Submitted", "Precedence", "Importance", "Priority", "Feedback-ID",
					     "Archived-At", "Thread-Index", "List-Id", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Archive",
					     "List-Help", "List-Owner", "List-Post", "List-Subscribe" };
	static const char *const text[] = { "Keywords", "Comments", "Organization", "Thread-Topic" };
	size_t len = strspn(h->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-");

	if (h->name[len] || len < 1 || len > 50)
		return "is no name of a header";
	h->plain = is_one_of(h->name, plain, sizeof(plain) / sizeof(plain[0]));
	if (!h->plain && !is_one_of(h->name, text, sizeof(text) / sizeof(text[0])) && !extension_ok(h->name))
		return "is not among those that a mail may set itself";
	if (!h->text)
		return "is no text";
	if (!check_text(h->text, strlen(h->text)))
		return "has a control character";
	if (!*h->text || strlen(h->text) > 2000)
		return "is empty or longer than 2000 bytes";
	if (h->plain && !plain_ok(h->text))
		return "takes ASCII alone, in words of at most 500 bytes and without blanks around them";
	return NULL;
}

static int take_own_headers(struct sending *s)
{
	const json_t *headers = json_object_get(s->params, "headers");
	const char *key, *wrong;
	json_t *value;

	if (!headers || json_is_null(headers))
		return DEFERRED_OK;
	if (!json_is_object(headers) || json_object_size(headers) > OWN_HEADERS_MAX)
		return fail(s, DEFERRED_DEAD, "headers: no object of at most %d headers", OWN_HEADERS_MAX);
	s->own = calloc(json_object_size(headers) + 1, sizeof(*s->own));
	if (!s->own)
		return fail(s, DEFERRED_FAILED, "out of memory");
	json_object_foreach((json_t *)headers, key, value) {
		struct own_header *h = &s->own[s->own_len];

		*h = (struct own_header){ .name = key, .text = json_string_value(value) };
		if ((wrong = check_own_header(h)))
			return fail(s, DEFERRED_DEAD, "headers: \"%.100s\" %s", check_text(key, strlen(key)) ? key : "?", wrong);
		for (size_t i = 0; i < s->own_len; i++)
			if (strcasecmp(s->own[i].name, key) == 0)
				return fail(s, DEFERRED_DEAD, "headers: \"%s\" is there twice", key);
		s->own_len++;
	}
	return DEFERRED_OK;
}

/* ---- attachments -------------------------------------------------------------------------------- */

/* TYPE/SUBTYPE with optional parameters; a multipart would promise a structure that is not there. */
static bool type_ok(const char *type)
{
	size_t n = strcspn(type, "/");

	if (strlen(type) > 127 || n == 0 || !type[n] || !isalnum((unsigned char)type[n + 1]))
		return false;
	if (strncasecmp(type, "multipart/", 10) == 0)
		return false;
	for (const char *p = type; *p; p++)
		if (*p < ' ' || *p > '~' || ((size_t)(p - type) < n && !isalnum((unsigned char)*p) && !strchr("-.+", *p)))
			return false;
	return true;
}

static const char *type_of_name(const char *name)
{
	static const char *const types[][2] = {
		{ "pdf", "application/pdf" }, { "txt", "text/plain; charset=UTF-8" }, { "csv", "text/csv; charset=UTF-8" },
		{ "html", "text/html; charset=UTF-8" }, { "htm", "text/html; charset=UTF-8" }, { "xml", "application/xml" },
		{ "json", "application/json" }, { "zip", "application/zip" }, { "gz", "application/gzip" }, { "png", "image/png" },
		{ "jpg", "image/jpeg" }, { "jpeg", "image/jpeg" }, { "gif", "image/gif" }, { "svg", "image/svg+xml" },
		{ "ics", "text/calendar; charset=UTF-8" }, { "doc", "application/msword" }, { "xls", "application/vnd.ms-excel" },
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
		return fail(s, DEFERRED_DEAD, "attachment \"%.300s\" is refused: files are sent from the folder of the setting "
			    "mail.attachment_dir only, which is not set; \"content\" needs none", a->path);
	if (dir[0] != '/' || stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return fail(s, DEFERRED_UNREADY, "mail.attachment_dir \"%.300s\" is no absolute path of a folder that is there", dir);
	a->fd = beneath_open(dir, a->path, O_RDONLY, 0, &why);
	if (a->fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO))
		return fail(s, DEFERRED_FAILED, "cannot read attachment \"%.300s\": %s", a->path, why);
	if (a->fd < 0)
		return fail(s, DEFERRED_DEAD, "cannot read attachment \"%.300s\" below mail.attachment_dir \"%.200s\": %s", a->path, dir, why);
	if (fstat(a->fd, &st) < 0)
		return fail(s, DEFERRED_FAILED, "cannot read attachment \"%.300s\": %s", a->path, strerror(errno));
	a->size = (size_t)st.st_size;
	return DEFERRED_OK;
}

static int base64_value(char c)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? (int)(at - letters) : -1;
}

/* RFC 4648, with line ends between and padding at the end or not. Given: free(). NULL with *valid: out of memory. */
static char *decode_base64(const char *text, size_t *len, bool *valid)
{
	char *out = malloc(strlen(text) / 4 * 3 + 4);
	unsigned int bits = 0;
	size_t letters = 0;

	*len = 0;
	*valid = true;
	for (; out && *text && *text != '='; text++) {
		int value = base64_value(*text);

		if (*text == '\r' || *text == '\n')
			continue;
		*valid &= value >= 0;
		bits = bits << 6 | ((unsigned int)value & 63);
		if (++letters % 4 != 1)
			out[(*len)++] = (char)(bits >> (6 - 2 * ((letters - 1) % 4)));
	}
	text += strspn(text, "=\r\n");
	*valid &= *text == '\0' && letters % 4 != 1;
	return out;
}

/* What the mail carries itself, so that nothing is read here. */
static int take_content(struct sending *s, struct attachment *a, const char *text, const char *base64)
{
	bool valid;

	if (!!text + !!base64 + !!a->path != 1)
		return fail(s, DEFERRED_DEAD, "attachments: one of \"content\", \"content_base64\" and \"path\" is wanted");
	if (a->path && a->path[0] != '/')
		return fail(s, DEFERRED_DEAD, "attachments: \"path\" is no absolute path");
	if (text) {
		a->content = text;
		a->size = strlen(text);
	} else if (base64) {
		a->content = a->decoded = decode_base64(base64, &a->size, &valid);
		if (!a->decoded)
			return fail(s, DEFERRED_FAILED, "out of memory");
		if (!valid)
			return fail(s, DEFERRED_DEAD, "attachments: \"content_base64\" is no Base64");
	}
	return DEFERRED_OK;
}

/* What the HTML says after "cid:", each but once. */
static int check_cid(struct sending *s, const char *cid)
{
	size_t len = strspn(cid, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@+-");

	if (cid[len] || len < 1 || len > 200)
		return fail(s, DEFERRED_DEAD, "attachments: a \"cid\" has 1 to 200 letters, digits, \".\", \"_\", \"-\", \"+\" and \"@\"");
	if (!s->html)
		return fail(s, DEFERRED_DEAD, "attachments: cid \"%s\" without html that could show it", cid);
	for (size_t i = 0; i + 1 < s->attachments_len; i++)
		if (s->attachments[i].cid && strcmp(s->attachments[i].cid, cid) == 0)
			return fail(s, DEFERRED_DEAD, "attachments: cid \"%s\" is there twice", cid);
	s->shown_len++;
	return DEFERRED_OK;
}

static int take_attachment(struct sending *s, const json_t *value)
{
	static const char *const known[] = { "path", "name", "type", "content", "content_base64", "cid", "delete_after_send", NULL };
	struct attachment *a = &s->attachments[s->attachments_len++];
	const json_t *remove = json_object_get(value, "delete_after_send");
	const char *key = unknown_key(value, known), *text = NULL, *base64 = NULL;
	int rc;

	a->sending = s;
	a->fd = -1;
	if (key)
		return fail(s, DEFERRED_DEAD, "attachments: unknown member \"%.100s\"", key);
	if ((rc = take_text(s, value, "path", &a->path, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "name", &a->name, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "type", &a->type, true)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "cid", &a->cid, true)) != DEFERRED_OK || (a->cid && (rc = check_cid(s, a->cid)) != DEFERRED_OK) ||
	    (rc = take_text(s, value, "content", &text, false)) != DEFERRED_OK ||
	    (rc = take_text(s, value, "content_base64", &base64, false)) != DEFERRED_OK ||
	    (rc = take_content(s, a, text, base64)) != DEFERRED_OK)
		return rc;
	a->remove = a->path && (json_is_true(remove) || json_integer_value(remove) != 0);
	if (!a->name || !*a->name)
		a->name = a->path ? strrchr(a->path, '/') + 1 : "";
	if ((!*a->name && !a->path) || strchr(a->name, '/') || strlen(a->name) > 255)
		return fail(s, DEFERRED_DEAD, "attachments: name \"%.255s\" is missing, too long or has a slash", a->name);
	if (!a->type || !*a->type)
		a->type = type_of_name(a->name);
	if (!type_ok(a->type))
		return fail(s, DEFERRED_DEAD, "attachments: \"%.100s\" is no type that a file can have", a->type);
	return a->path ? open_attachment(s, a) : DEFERRED_OK;
}

static int take_attachments(struct sending *s)
{
	const json_t *list = json_object_get(s->params, "attachments"), *item;
	int rc = DEFERRED_OK;
	size_t i;

	if (!list || json_is_null(list))
		return DEFERRED_OK;
	if (!json_is_array(list))
		return fail(s, DEFERRED_DEAD, "attachments: no list");
	s->attachments = calloc(json_array_size(list) + 1, sizeof(*s->attachments));
	if (!s->attachments)
		return fail(s, DEFERRED_FAILED, "out of memory");
	json_array_foreach(list, i, item)
		if ((rc = take_attachment(s, item)) != DEFERRED_OK)
			break;
	return rc;
}

static bool same_address(const char *a, const char *b)
{
	size_t local = (size_t)(strrchr(a, '@') - a);

	return strncmp(a, b, local + 1) == 0 && strcasecmp(a + local, b + local) == 0;
}

/* Who is named in RCPT TO, each once. */
static int take_envelope(struct sending *s, size_t max)
{
	const struct addresses *all[] = { &s->to, &s->cc, &s->bcc };
	const char *redirect = setting(s, "mail.to");
	int rc;

	if (s->to.len + s->cc.len + s->bcc.len == 0)
		return fail(s, DEFERRED_DEAD, "no recipient: to, cc and bcc are empty");
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
			if (k == s->rcpt.len && (rc = add_address(s, &s->rcpt, "to", mail, strlen(mail), "", 0)) != DEFERRED_OK)
				return rc;
		}
	if (s->rcpt.len == 0)
		return fail(s, DEFERRED_DEAD, "deliver_to: no recipient");
	if (s->rcpt.len > max)
		return fail(s, DEFERRED_DEAD, "%zu recipients, mail.recipients_max allows %zu", s->rcpt.len, max);
	return DEFERRED_OK;
}

/* Once all of it is known: does it want a server with SMTPUTF8? */
static int weigh_envelope(struct sending *s)
{
	s->asked = s->rcpt.len;
	s->utf8 = s->from.v[0].utf8;
	for (size_t i = 0; i < s->rcpt.len; i++)
		s->utf8 |= s->rcpt.v[i].utf8;
	/* In the header, which a mail to others may have to do without. */
	if (s->reply_to.len && s->reply_to.v[0].utf8)
		return fail(s, DEFERRED_DEAD, "reply_to: \"%s\" has letters outside of ASCII, and not everybody could answer", s->reply_to.v[0].mail);
	return DEFERRED_OK;
}

static void refuse_utf8(struct address *a)
{
	a->code = 553;
	snprintf(a->answer, sizeof(a->answer), "letters outside of ASCII take a server that offers SMTPUTF8, which this one does not%s",
		 is_ascii(a->mail, (size_t)(strrchr(a->mail, '@') - a->mail)) ? "; or write the domain in its xn-- form" : "");
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
	const char *given = NULL, *at = strrchr(s->from.v[0].mail, '@') + 1, *domain = is_ascii(at, strlen(at)) ? at : "mail.invalid";
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
			return fail(s, DEFERRED_FAILED, "no random number: %s", strerror(errno));
		snprintf(s->message_id, sizeof(s->message_id), "deferred.%llx.%lld@%s", random, (long long)time(NULL), domain);
		return DEFERRED_OK;
	}
	len = strlen(given);
	if (len > 2 && given[0] == '<' && given[len - 1] == '>') {
		given++;
		len -= 2;
	}
	if (len < 3 || len > 250 || !memchr(given, '@', len))
		return fail(s, DEFERRED_DEAD, "message_id: no LEFT@RIGHT of at most 250 bytes");
	for (size_t i = 0; i < len; i++)
		if (given[i] <= ' ' || given[i] > '~' || strchr("<>()[],;:\\\"", given[i]))
			return fail(s, DEFERRED_DEAD, "message_id: has a character that is not allowed");
	snprintf(s->message_id, sizeof(s->message_id), "%.*s", (int)len, given);
	return DEFERRED_OK;
}

static int take_sender(struct sending *s)
{
	const char *from = setting(s, "mail.from");
	int rc = s->from.len || !from ? DEFERRED_OK : add_address_setting(s, &s->from, "mail.from", from);

	if (rc != DEFERRED_OK || s->from.len)
		return rc;
	return fail(s, DEFERRED_UNREADY, "no sender: the mail has no \"from\", and the config file no mail { from = \"you@example.org\" }");
}

int take_params(struct sending *s)
{
	static const char *const known[] = { "from", "to", "cc", "bcc", "reply_to", "subject", "text", "html", "attachments",
					     "headers", "message_id", "label", "deliver_to", NULL };
	const char *key;
	size_t max = (size_t)setting_number(s, "mail.recipients_max", 100);
	const struct {
		const char *field;
		struct addresses *list;
		size_t max;
	} lists[] = { { "from", &s->from, 1 }, { "reply_to", &s->reply_to, 1 },
		      { "to", &s->to, max }, { "cc", &s->cc, max }, { "bcc", &s->bcc, max } };
	json_error_t why;
	int rc;

	s->params = json_loadb(s->call->params, s->call->params_len, 0, &why);
	if (!s->params || !json_is_object(s->params))
		return fail(s, DEFERRED_DEAD, "params are no object: %s", s->params ? "another JSON value" : why.text);
	if ((key = unknown_key(s->params, known)))
		return fail(s, DEFERRED_DEAD, "unknown field \"%.100s\"", key);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if ((rc = take_addresses(s, lists[i].field, lists[i].list, lists[i].max)) != DEFERRED_OK)
			return rc;
	if ((rc = take_text(s, s->params, "subject", &s->subject, true)) != DEFERRED_OK ||
	    (rc = take_text(s, s->params, "text", &s->text, false)) != DEFERRED_OK ||
	    (rc = take_text(s, s->params, "html", &s->html, false)) != DEFERRED_OK ||
	    (rc = take_own_headers(s)) != DEFERRED_OK || (rc = take_envelope(s, max)) != DEFERRED_OK || (rc = take_attachments(s)) != DEFERRED_OK || (rc = take_sender(s)) != DEFERRED_OK ||
	    (rc = weigh_envelope(s)) != DEFERRED_OK)
		return rc;
	return take_message_id(s);
}

/* SPDX-License-Identifier: MIT */
#include "base/mail_rules.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define LOCAL_MAX 64 /* bytes before the @: RFC 5321, 4.5.3.1.1 */
#define ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define ATEXT ALNUM "!#$%&'*+-/=?^_`{|}~"
#define TOKEN ALNUM "!#$%&'*+-.^_`{|}~" /* RFC 2045, 5.1 */

bool mail_is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return true;
}

/* C0, DEL and C1. */
const char *mail_line_wrong(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f || (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0))
			return "has a control character";
	}
	return NULL;
}

/* ---- addresses -------------------------------------------------------------------------------- */

/* Words of these letters, and of any outside of ASCII (RFC 6531), with single dots between them. */
static bool is_dotted(const char *text, size_t len, const char *letters)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '.' ? i == 0 || i + 1 == len || text[i - 1] == '.'
				   : (unsigned char)text[i] < 0x80 && !strchr(letters, text[i]))
			return false;
	}
	return true;
}

const char *mail_address_wrong(const char *mail, size_t len)
{
	const char *at = memrchr(mail, '@', len);
	size_t local = at ? (size_t)(at - mail) : 0, domain = at ? len - local - 1 : 0;

	if (mail_line_wrong(mail, len))
		return "has a control character";
	if (len > MAIL_ADDRESS_MAX || local > LOCAL_MAX)
		return "is too long";
	if (!local || !domain)
		return "is not a mail address";
	if (!is_dotted(mail, local, ATEXT))
		return "is not valid before the @";
	if (domain > 2 && at[1] == '[' && mail[len - 1] == ']' ? strspn(at + 2, ALNUM ".:-") != domain - 2
							       : !is_dotted(at + 1, domain, ALNUM "-_"))
		return "is not valid after the @";
	return NULL;
}

/* ---- headers ---------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcasecmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

/* Any name of X- except those that servers and filters go by, or that we write. */
static bool is_extension(const char *name)
{
	static const char *const taken[] = { "X-Deferred-", "X-Spam", "X-Original-", "X-Envelope-" };

	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (strncasecmp(name, taken[i], strlen(taken[i])) == 0)
			return false;
	return strncasecmp(name, "X-", 2) == 0 && name[2] && strcasecmp(name, "X-SMTPAPI") != 0;
}

/* In words that can be folded, and in ASCII, since nothing is encoded there. */
static bool mail_rules_is_plain(const char *text)
{
	size_t word = 0, len = strlen(text);

	if (text[0] == ' ' || text[len - 1] == ' ' || !mail_is_ascii(text, len))
		return false;
	for (; *text; text++) {
		word = *text == ' ' ? 0 : word + 1;
		if (word > 500)
			return false;
	}
	return true;
}

/*
 * The lists name what is allowed. A name forgotten on them is missed by somebody. A name forgotten on a list of what is
 * forbidden would let a mail name recipients, or pass for checked.
 */
const char *mail_header_wrong(const char *name, const char *text, bool *plain)
{
	static const char *const plain_names[] = { "In-Reply-To",  "References",       "Auto-Submitted",
						   "Precedence",   "Importance",       "Priority",
						   "Feedback-ID",  "Archived-At",      "Thread-Index",
						   "List-Id",      "List-Unsubscribe", "List-Unsubscribe-Post",
						   "List-Archive", "List-Help",        "List-Owner",
						   "List-Post",    "List-Subscribe",   NULL };
	static const char *const text_names[] = { "Keywords", "Comments", "Organization", "Thread-Topic", NULL };
	size_t len = strspn(name, ALNUM "-");

	if (name[len] || len < 1 || len > 50)
		return "is not the name of a header";
	*plain = is_one_of(name, plain_names);
	if (!*plain && !is_one_of(name, text_names) && !is_extension(name))
		return "is not among those that a mail may set itself";
	if (!text)
		return "is not text";
	if (mail_line_wrong(text, strlen(text)))
		return "has a control character";
	if (!*text)
		return "is empty";
	if (strlen(text) > 2000)
		return "is longer than 2000 bytes";
	if (*plain && !mail_rules_is_plain(text))
		return "takes ASCII alone, in words of at most 500 bytes and without blanks around them";
	return NULL;
}

const char *mail_message_id_wrong(const char *id, size_t len)
{
	const char *at = memchr(id, '@', len);

	if (len < 3 || len > 250 || !at || at == id || at == id + len - 1 ||
	    memchr(at + 1, '@', (size_t)(id + len - at - 1)))
		return "is not LEFT@RIGHT of at most 250 bytes";
	for (size_t i = 0; i < len; i++)
		if (id[i] <= ' ' || id[i] > '~' || strchr("<>()[],;:\\\"", id[i]))
			return "has a character that is not allowed";
	return NULL;
}

/* ---- files ------------------------------------------------------------------------------------ */

/* "; name=value", with *name and *value in it. Returns its length; 0: there is none. */
static size_t parameter(const char *text, const char **name, const char **value)
{
	const char *p = text + strspn(text, " ");
	size_t len;

	if (*p++ != ';')
		return 0;
	p += strspn(p, " ");
	*name = p;
	len = strspn(p, TOKEN);
	if (len == 0 || p[len] != '=')
		return 0;
	*value = p += len + 1;
	if (*p == '"') {
		len = strcspn(p + 1, "\"\\") + 2;
		return p[len - 1] == '"' ? (size_t)(p - text) + len : 0;
	}
	len = strspn(p, TOKEN);
	return len ? (size_t)(p - text) + len : 0;
}

/* A charset that the type names; NULL: it names none. */
static const char *charset_of(const char *type)
{
	const char *name, *value;
	size_t len;

	for (type += strcspn(type, " ;"); (len = parameter(type, &name, &value)); type += len)
		if (strncasecmp(name, "charset=", 8) == 0)
			return value + (*value == '"');
	return NULL;
}

bool mail_type_has_charset(const char *type)
{
	return charset_of(type) != NULL;
}

/* TYPE/SUBTYPE with parameters. A multipart would promise parts that are not there, and so would most of message. */
static const char *type_wrong(const char *type, bool text)
{
	size_t main = strspn(type, TOKEN), sub = type[main] == '/' ? strspn(type + main + 1, TOKEN) : 0, len;
	const char *p = type + main + 1 + sub, *name, *value, *charset;

	if (strlen(type) > 127 || !isalnum((unsigned char)type[0]) || sub == 0 ||
	    !isalnum((unsigned char)type[main + 1]) || !mail_is_ascii(type, strlen(type)))
		return "has a type that is not TYPE/SUBTYPE";
	while ((len = parameter(p, &name, &value)))
		p += len;
	if (*p)
		return "has a type whose parameters are not '; NAME=VALUE'";
	if ((main == 9 && strncasecmp(type, "multipart", 9) == 0) ||
	    (main == 7 && strncasecmp(type, "message", 7) == 0 &&
	     (sub != 6 || (strncasecmp(type + 8, "rfc822", 6) != 0 && strncasecmp(type + 8, "global", 6) != 0))))
		return "has a type that a file cannot have";
	charset = text && main == 4 && strncasecmp(type, "text", 4) == 0 ? charset_of(type) : NULL;
	if (charset && (strncasecmp(charset, "utf-8", 5) != 0 || strspn(charset + 5, TOKEN) != 0))
		return "has content in UTF-8 and a type of another charset: give it as content_base64";
	return NULL;
}

const char *mail_file_wrong(const struct mail_file *f)
{
	const struct {
		const char *text, *wrong;
	} lines[] = {
		{ f->path, "has a control character in its path" },
		{ f->name, "has a control character in its name" },
		{ f->type, "has a control character in its type" },
		{ f->cid, "has a control character in its cid" },
	};
	size_t cid = f->cid ? strspn(f->cid, ALNUM "._@+-") : 1;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i].text && mail_line_wrong(lines[i].text, strlen(lines[i].text)))
			return lines[i].wrong;
	if (f->text + f->bytes + (f->path != NULL) != 1)
		return "needs one of 'content', 'content_base64' and 'path'";
	if (f->path && f->path[0] != '/')
		return "has a path that is not absolute";
	if ((!f->name || !*f->name) && (!f->path || f->path[strlen(f->path) - 1] == '/'))
		return "has no name";
	if (f->name && strchr(f->name, '/'))
		return "has a name with a slash";
	if (f->name && strlen(f->name) > 255)
		return "has a name longer than 255 bytes";
	if (cid < 1 || cid > 200 || (f->cid && f->cid[cid]))
		return "has a cid that is not 1 to 200 letters, digits, '.', '_', '-', '+' and '@'";
	if (f->cid && !f->html)
		return "has a cid without html that could show it";
	return f->type && *f->type ? type_wrong(f->type, f->text) : NULL;
}

/* ---- calendar --------------------------------------------------------------------------------- */

const char *mail_calendar_wrong(const char *calendar, char method[MAIL_METHOD_MAX + 1])
{
	static const char begin[] = "BEGIN:VCALENDAR", name[] = "METHOD:";
	const char *p = calendar + strlen(begin);
	size_t len;

	if (strncasecmp(calendar, begin, strlen(begin)) != 0 || (*p != '\n' && strncmp(p, "\r\n", 2) != 0))
		return "does not begin with the line BEGIN:VCALENDAR";
	while ((p = strchr(p, '\n')) && strncasecmp(++p, name, strlen(name)) != 0)
		;
	if (!p)
		return "has no line METHOD, such as METHOD:REQUEST";
	p += strlen(name);
	len = strspn(p, ALNUM "-");
	if (len < 1 || len > MAIL_METHOD_MAX || (p[len] && p[len] != '\n' && strncmp(p + len, "\r\n", 2) != 0))
		return "has a METHOD that is not a word of at most 20 letters";
	memcpy(method, p, len);
	method[len] = '\0';
	return NULL;
}

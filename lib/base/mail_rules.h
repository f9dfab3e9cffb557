/* SPDX-License-Identifier: MIT */
/*
 * mail_rules - what a mail may hold, for those who store mails and for the plugin that sends them.
 *
 * SQL has the same rules in sql/functions/mail/__mail_*_wrong.sql. tests/plugins/test_mail_rules.py compares the
 * verdicts. Texts are UTF-8. Each function that ends in _wrong returns what is wrong, or NULL.
 */
#ifndef MAIL_RULES_H
#define MAIL_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define MAIL_ADDRESS_MAX 254 /* bytes: RFC 5321, 4.5.3.1.3 */
#define MAIL_HEADERS_MAX 50
#define MAIL_RECIPIENTS_MAX 10000 /* the largest value of mail.recipients_max */
#define MAIL_METHOD_MAX 20
#define MAIL_REPLY_TO_WRONG "has letters outside of ASCII, and not everybody could answer"

bool mail_is_ascii(const char *text, size_t len);

/* Text of one line: a header is made of it. */
const char *mail_line_wrong(const char *text, size_t len);

const char *mail_address_wrong(const char *mail, size_t len);

/* *plain: the text goes out as it is; else in encoded words where that is needed. */
const char *mail_header_wrong(const char *name, const char *text, bool *plain);

struct mail_file {
	const char *path, *name, *type, *cid; /* NULL: not given */
	bool text, bytes;                     /* the mail carries the content itself: as text in UTF-8, or as bytes */
	bool html;                            /* the mail has HTML, which may show the file */
};
const char *mail_file_wrong(const struct mail_file *file);

/* Does a type that is not wrong name a charset? */
bool mail_type_has_charset(const char *type);

const char *mail_message_id_wrong(const char *id, size_t len);

/* An iCalendar object. `method` receives the value of its line METHOD. */
const char *mail_calendar_wrong(const char *calendar, char method[MAIL_METHOD_MAX + 1]);

#endif

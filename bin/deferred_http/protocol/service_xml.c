/* SPDX-License-Identifier: MIT */
#include "protocol/service_xml.h"

#include "http/text.h"
#include "protocol/cors.h"
#include "protocol/xml.h"

#include <string.h>

#define CORS_MAX_BYTES 2048

enum kind { VERSION, FLAG, DAYS };

/* Members in the order in which they are written. The retention policy is an element of its own around the last two. */
#define RETENTION "RetentionPolicy"
static const struct section {
	const char *name;
	struct {
		const char *name;
		enum kind kind;
		bool retention, optional;
	} member[6];
	size_t len;
} sections[3] = {
	{ "Logging",
	  { { "Version", VERSION, false, false },
	    { "Delete", FLAG, false, false },
	    { "Read", FLAG, false, false },
	    { "Write", FLAG, false, false },
	    { "Enabled", FLAG, true, false },
	    { "Days", DAYS, true, true } },
	  6 },
	{ "HourMetrics",
	  { { "Version", VERSION, false, false },
	    { "Enabled", FLAG, false, false },
	    { "IncludeAPIs", FLAG, false, true },
	    { "Enabled", FLAG, true, false },
	    { "Days", DAYS, true, true } },
	  5 },
	{ "MinuteMetrics",
	  { { "Version", VERSION, false, false },
	    { "Enabled", FLAG, false, false },
	    { "IncludeAPIs", FLAG, false, true },
	    { "Enabled", FLAG, true, false },
	    { "Days", DAYS, true, true } },
	  5 },
};

/* Names in the kept list: those of the retention policy with "Retention" in front, so that no two are the same. */
static const char *kept_name(const struct section *s, size_t i)
{
	if (!s->member[i].retention)
		return s->member[i].name;
	return s->member[i].kind == DAYS ? "RetentionDays" : "RetentionEnabled";
}

static const char *stored_value(const struct service_properties *p, size_t section, const char *name)
{
	for (size_t i = 0; i < p->section_len[section]; i++)
		if (strcmp(p->section[section][i].name, name) == 0)
			return p->section[section][i].value;
	return NULL;
}

static const char *xml_value_of(const struct service_properties *p, size_t section, size_t i)
{
	const struct section *s = &sections[section];
	const char *value = p->section[section] ? stored_value(p, section, kept_name(s, i)) : NULL;

	if (value || s->member[i].optional)
		return value;
	return s->member[i].kind == VERSION ? "1.0" : "false";
}

static void write_section(const struct service_properties *p, size_t section, struct buf *out)
{
	const struct section *s = &sections[section];
	bool in_retention = false;

	xml_open(out, s->name);
	for (size_t i = 0; i < s->len; i++) {
		const char *value = xml_value_of(p, section, i);

		if (s->member[i].retention && !in_retention)
			xml_open(out, RETENTION);
		in_retention = s->member[i].retention;
		if (value)
			xml_element(out, s->member[i].name, value);
	}
	xml_close(out, RETENTION);
	xml_close(out, s->name);
}

void service_xml_write(const struct service_properties *p, struct buf *out)
{
	xml_start(out);
	xml_open(out, "StorageServiceProperties");
	for (size_t i = 0; i < 3; i++)
		write_section(p, i, out);
	buf_text(out, p->cors_len > 0 ? "<Cors>" : "<Cors/>");
	for (size_t i = 0; i < p->cors_len; i++) {
		const struct cors_rule *rule = &p->cors[i];

		xml_open(out, "CorsRule");
		xml_element(out, "AllowedOrigins", rule->origins);
		xml_element(out, "AllowedMethods", rule->methods);
		xml_element(out, "AllowedHeaders", rule->allowed_headers);
		xml_element(out, "ExposedHeaders", rule->exposed_headers);
		xml_element(out, "MaxAgeInSeconds", rule->max_age);
		xml_close(out, "CorsRule");
	}
	if (p->cors_len > 0)
		xml_close(out, "Cors");
	xml_close(out, "StorageServiceProperties");
}

static bool number_within(const char *text, int64_t min, int64_t max)
{
	int64_t n;

	return text_whole(text, &n) && n >= min && n <= max;
}

static bool is_valid_value(enum kind kind, const char *text)
{
	switch (kind) {
	case VERSION:
		return text[0] && strlen(text) <= 8 && !text[strspn(text, "0123456789.")];
	case FLAG:
		return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
	case DAYS:
		return number_within(text, 1, 365);
	}
	return false;
}

static enum fault read_xml_section(struct arena *arena, const struct xml_node *node, size_t section,
				   struct service_properties *p)
{
	const struct section *s = &sections[section];
	struct json_pair *pairs = arena_alloc(arena, s->len * sizeof(*pairs));
	const struct xml_node *retention = xml_child(node, RETENTION);
	size_t n = 0;

	for (size_t i = 0; i < s->len; i++) {
		const char *text = xml_child_text(s->member[i].retention ? retention : node, s->member[i].name);

		if (!text && !s->member[i].optional)
			return FAULT_MissingRequiredXmlNode;
		if (!text)
			continue;
		if (!is_valid_value(s->member[i].kind, text))
			return FAULT_InvalidXmlNodeValue;
		pairs[n++] = (struct json_pair){ kept_name(s, i), text };
	}
	p->section[section] = pairs;
	p->section_len[section] = n;
	return FAULT_NONE;
}

static bool methods_are_known(const char *list)
{
	static const char known[] = "DELETE,GET,HEAD,MERGE,OPTIONS,PATCH,POST,PUT";

	while (*list) {
		size_t len = strcspn(list, ",");

		while (len > 0 && *list == ' ')
			list++, len--;
		if (len == 0 || memchr(list, '*', len) || !cors_list_has(known, list, len))
			return false;
		list += len + (list[len] == ',');
	}
	return true;
}

/* The value becomes a header of an answer, so it must not end the line. */
static bool is_one_line(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static enum fault read_cors(const struct xml_node *node, struct service_properties *p)
{
	size_t bytes = 0;

	p->cors_len = 0;
	for (node = node->first; node; node = node->next) {
		struct cors_rule rule = { xml_child_text(node, "AllowedOrigins"),
					  xml_child_text(node, "AllowedMethods"),
					  xml_child_text(node, "AllowedHeaders"),
					  xml_child_text(node, "ExposedHeaders"),
					  xml_child_text(node, "MaxAgeInSeconds") };

		if (strcmp(node->name, "CorsRule") != 0 || p->cors_len == JSON_CORS_MAX)
			return FAULT_InvalidXmlDocument;
		if (!rule.origins || !rule.methods || !rule.allowed_headers || !rule.exposed_headers || !rule.max_age)
			return FAULT_MissingRequiredXmlNode;
		if (!rule.origins[0] || !rule.methods[0] || !methods_are_known(rule.methods) ||
		    !number_within(rule.max_age, 0, 2147483647) || !is_one_line(rule.origins) ||
		    !is_one_line(rule.methods) || !is_one_line(rule.allowed_headers) ||
		    !is_one_line(rule.exposed_headers))
			return FAULT_InvalidXmlNodeValue;
		bytes += strlen(rule.origins) + strlen(rule.methods) + strlen(rule.allowed_headers) +
			 strlen(rule.exposed_headers);
		p->cors[p->cors_len++] = rule;
	}
	return bytes > CORS_MAX_BYTES ? FAULT_InvalidXmlDocument : FAULT_NONE;
}

enum fault service_xml_read(struct arena *arena, const char *document, size_t len, struct service_properties *p)
{
	const struct xml_node *root = len > 0 ? xml_parse(arena, document, len) : NULL, *node;
	enum fault fault = FAULT_NONE;

	if (!root || strcmp(root->name, "StorageServiceProperties") != 0)
		return FAULT_InvalidXmlDocument;
	for (size_t i = 0; i < 3 && fault == FAULT_NONE; i++)
		if ((node = xml_child(root, sections[i].name)))
			fault = read_xml_section(arena, node, i, p);
	if (fault == FAULT_NONE && (node = xml_child(root, "Cors")))
		fault = read_cors(node, p);
	return fault;
}

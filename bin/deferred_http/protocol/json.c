/* SPDX-License-Identifier: MIT */
#include "protocol/json.h"

#include <jansson.h>
#include <string.h>

static const char *const sections[] = { "logging", "hour_metrics", "minute_metrics" };

static char *dump_json(json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	json_decref(value);
	return text;
}

static const char *keep_text(struct arena *arena, const json_t *text)
{
	return json_is_string(text) ? arena_copy(arena, json_string_value(text), json_string_length(text)) : "";
}

static json_t *load_json(const char *text)
{
	return text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
}

static json_t *object_of(const struct json_pair *pairs, size_t n)
{
	json_t *object = json_object();

	for (size_t i = 0; i < n; i++) {
		if (json_object_set_new(object, pairs[i].name, json_string(pairs[i].value)) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

static struct json_pair *pairs_of(struct arena *arena, json_t *object, size_t *n)
{
	struct json_pair *pairs = arena_alloc(arena, (json_object_size(object) + 1) * sizeof(*pairs));
	const char *name;
	json_t *value;

	*n = 0;
	json_object_foreach(object, name, value) if (json_is_string(value)) pairs[(*n)++] =
		(struct json_pair){ arena_copy(arena, name, strlen(name)), keep_text(arena, value) };
	return pairs;
}

char *json_write_pairs(const struct json_pair *pairs, size_t n)
{
	return dump_json(object_of(pairs, n));
}

struct json_pair *json_read_pairs(struct arena *arena, const char *text, size_t *n)
{
	json_t *object = load_json(text);
	struct json_pair *pairs = pairs_of(arena, object, n);

	json_decref(object);
	return pairs;
}

char *json_write_policies(const struct sas_policy *policies, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{ss, ss, ss, ss}", "id", policies[i].id, "start", policies[i].start,
						"expiry", policies[i].expiry, "permission", policies[i].permission));
	return dump_json(list);
}

size_t json_read_policies(struct arena *arena, const char *text, struct sas_policy policies[JSON_POLICIES_MAX])
{
	json_t *list = load_json(text), *policy;
	size_t i, n = 0;

	json_array_foreach(list, i, policy) if (n < JSON_POLICIES_MAX && json_is_string(json_object_get(policy, "id")))
		policies[n++] = (struct sas_policy){ keep_text(arena, json_object_get(policy, "id")),
						     keep_text(arena, json_object_get(policy, "start")),
						     keep_text(arena, json_object_get(policy, "expiry")),
						     keep_text(arena, json_object_get(policy, "permission")) };
	json_decref(list);
	return n;
}

char *json_write_properties(const struct service_properties *p)
{
	json_t *object = json_object(), *rules = json_array();

	for (size_t i = 0; i < 3; i++)
		if (p->section[i])
			json_object_set_new(object, sections[i], object_of(p->section[i], p->section_len[i]));
	for (size_t i = 0; i < p->cors_len; i++)
		json_array_append_new(rules, json_pack("{ss, ss, ss, ss, ss}", "origins", p->cors[i].origins, "methods",
						       p->cors[i].methods, "allowed_headers",
						       p->cors[i].allowed_headers, "exposed_headers",
						       p->cors[i].exposed_headers, "max_age", p->cors[i].max_age));
	json_object_set_new(object, "cors", rules);
	return dump_json(object);
}

void json_read_properties(struct arena *arena, const char *text, struct service_properties *p)
{
	json_t *object = load_json(text), *rule;
	size_t i;

	*p = (struct service_properties){ 0 };
	for (i = 0; i < 3; i++) {
		json_t *section = json_object_get(object, sections[i]);

		if (json_is_object(section))
			p->section[i] = pairs_of(arena, section, &p->section_len[i]);
	}
	json_array_foreach(json_object_get(object, "cors"), i, rule) if (p->cors_len < JSON_CORS_MAX)
		p->cors[p->cors_len++] = (struct cors_rule){
		keep_text(arena, json_object_get(rule, "origins")),
		keep_text(arena, json_object_get(rule, "methods")),
		keep_text(arena, json_object_get(rule, "allowed_headers")),
		keep_text(arena, json_object_get(rule, "exposed_headers")),
		keep_text(arena, json_object_get(rule, "max_age")),
	};
	json_decref(object);
}

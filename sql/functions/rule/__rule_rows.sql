-- The rows of the rule that __rule_open() prepared, numbered in the order of their keys. The keys
-- of its owner begin with own. Column hot is the job that has this key. Column bad is why the row
-- cannot become a job. Column taken counts the jobs that the rows up to this one make.
create or replace function deferred.__rule_rows(queue text, own text, max_bytes integer,
                                                now timestamptz)
returns table (n bigint, key text, params json, hot bigint, bad text, taken bigint)
language sql stable
as $$
    select row_number() over w, f.key, f.params, f.hot, f.bad,
           count(*) filter (where f.hot is null and f.bad is null) over (w rows unbounded preceding)
    from (select f.key, case when h.id is null then f.params end as params,
                 coalesce(h.id, case when deferred.__key_held(k) > $4
                                     then k.job_id end) as hot,
                 case when f.key is null then 'its key is NULL'
                      when length(f.key) not between 1 and 1000
                      then format('its key has %s characters, 1 to 1000 are taken', length(f.key))
                      when octet_length(f.key) > 2500
                      then format('its key has %s bytes, at most 2500 are taken',
                                  octet_length(f.key))
                      when octet_length(f.params::text) > $3
                      then format('params have %s bytes, but queue ''%s'' allows %s',
                                  octet_length(f.params::text), $1, $3)
                      when octet_length(f.params::text) > 512 and not deferred.__depth_ok(f.params)
                      then 'params nest deeper than 512 levels' end as bad
          from deferred.__rule_fetch() f
          left join deferred.__deferred_hot h on h.queue = $1 and h.key = $2 || f.key
          left join deferred.__deferred_key k on k.queue = $1 and k.key = $2 || f.key) f
    window w as (order by f.key collate "C")
$$;

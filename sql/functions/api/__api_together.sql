-- Part of deferred.__api_many(): all or none. Jobs of one token are stored in one statement.
create or replace function deferred.__api_together(tokens text[], bodies text[], keys text[])
returns table (item integer, status integer, answer text, location text, replayed boolean,
               retry_after integer, who text)
language plpgsql
as $$
#variable_conflict use_column
declare
    t       deferred.__deferred_token;
    v_token text;
    v_jobs  json[];
    v_items integer[];
    v_ids   bigint[];
begin
    for v_token in select distinct x from unnest($1) x order by x loop
        t := deferred.__api_begin(v_token, 'defer');
        select array_agg(i.n::integer order by i.n), array_agg(i.body::json order by i.n)
        into v_items, v_jobs
        from unnest($1, $2) with ordinality i(token, body, n) where i.token = v_token;
        if num_nonnulls(t.functions, t.queues) > 0 then
            perform deferred.__api_may(t, array_agg(j->>'fn'), array_agg(j->>'queue'))
            from unnest(v_jobs) j;
        end if;
        if exists (select from unnest(v_items) i where $3[i] is not null
                   and deferred.__api_answered(t.name, $3[i], deferred.__api_hash('defer', null,
                                                                                  $2[i]))
                       is not null) then
            raise unique_violation;
        end if;
        v_ids := array(select deferred.defer_many(to_json(v_jobs)));
        return query
        select j.n, case when j.id is null then 200 else 201 end,
               deferred.__api_stored(j.id), '/v1/jobs/' || j.id, false,
               null::integer, t.name
        from unnest(v_items, v_ids) j(n, id);
        if num_nonnulls(variadic $3) > 0 then
            insert into deferred.__deferred_idempotency (token, key, hash, answer)
            select t.name, $3[j.n], deferred.__api_hash('defer', null, $2[j.n]),
                   deferred.__api_stored(j.id)
            from unnest(v_items, v_ids) j(n, id) where $3[j.n] is not null order by $3[j.n];
        end if;
    end loop;
end
$$;

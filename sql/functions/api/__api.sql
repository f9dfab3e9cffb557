-- One request of the JSON API in one transaction: sql/queries/api/api_call.sql. An error that the
-- client can do something about becomes the answer. Another error is raised. So the answer of a
-- request with a key is stored exactly if its effects are.
create or replace function deferred.__api(
    token text, op text, arg text, names text[], given text[], body text, key text, look boolean,
    out status integer, out answer text, out location text, out replayed boolean,
    out retry_after integer, out wait_ms bigint, out waits_for bigint, out who text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    t      deferred.__deferred_token;
    v_hash bytea;
    v_hint text;
    v_at   text;
begin
    replayed := false;
    for v_try in 1..2 loop
        begin
            t := deferred.__api_begin(token, op);
            who := t.name;
            status := case when op in ('defer', 'batch') then 201 when op = 'event' then 202
                           else 200 end;
            if look then return; end if;
            if key is not null then
                v_hash := deferred.__api_hash(op, arg, body);
                answer := deferred.__api_answered(t.name, key, v_hash);
                replayed := answer is not null;
            end if;
            if not replayed then
                answer := deferred.__api_run(t, op, arg, json_object(names, given), body);
            end if;
            if op = 'defer' then
                location := '/v1/jobs/' || (answer::json->>'id');
                if location is null then status := 200; end if;
            elsif op = 'job' and 'wait' = any (names) then
                wait_ms := deferred.__api_wait(given[array_position(names, 'wait')]);
                waits_for := (select h.id from deferred.__deferred_hot h where h.id = arg::bigint);
            end if;
            if key is not null and not replayed then
                insert into deferred.__deferred_idempotency (token, key, hash, answer)
                values (t.name, key, v_hash, answer);
            end if;
            return;
        exception when others then
            get stacked diagnostics v_hint = pg_exception_hint, v_at = constraint_name;
            -- Another request with this key has come first: its answer is there now.
            continue when v_try = 1 and sqlstate = '23505'
                and v_at = '__deferred_idempotency_pkey';
            status := deferred.__api_status(sqlstate);
            if status is null then raise; end if;
            answer := deferred.__api_problem(sqlstate, sqlerrm, v_hint);
            location := null;
            retry_after := case when status in (429, 503) then 5 end;
            return;
        end;
    end loop;
end
$$;
comment on function deferred.__api is 'part of the JSON API of deferred_http: one request';
grant execute on function deferred.__api to deferred_http;

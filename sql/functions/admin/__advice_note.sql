-- Who may ask may have it written down; that is bounded, whoever asks how often.
create or replace function deferred.__advice_note(queue text, share double precision, within_us bigint, headroom double precision, lines text[], interval_us bigint, cnt bigint,
    runners integer, instances integer, p50_us bigint, p95_us bigint, predicted_us bigint, bound_us bigint, arrive_hour double precision) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id bigint;
begin
    if octet_length($5::text) > 200000 or cardinality($5) not between 1 and 64 or octet_length($1) > 88 then
        raise exception using errcode = '22023',
            message = format('advice of %s lines is too long to be stored', cardinality($5)),
            hint = 'advise about one queue at a time';
    end if;
    insert into deferred.__deferred_advice (who, queue, share, within_us, headroom, lines, interval_us, cnt, runners, instances, p50_us, p95_us, predicted_us, bound_us, arrive_hour)
    values (deferred.__actor(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
    returning id into v_id;
    delete from deferred.__deferred_advice a where a.ctid = any (array(
        select y.ctid from deferred.__deferred_advice y
        where y.at < now() - interval '400 days'
           or y.id <= (select x.id from deferred.__deferred_advice x
                       order by x.id desc offset 1000 limit 1)
        for update skip locked));
    return v_id;
end
$$;
comment on function deferred.__advice_note is 'writes down what deferred advise answers; returns its number';
grant execute on function deferred.__advice_note to deferred_viewer;

create or replace function deferred.__message_metadata_read(queue text, metadata json,
    out ok boolean, out fn text, out max_dequeue integer, out own json)
language plpgsql stable
as $$
declare
    v_fn  text;
    v_max text;
begin
    select max(e.value) filter (where e.setting = 'deferredfunction'),
           max(e.value) filter (where e.setting = 'deferredmaxdequeue'),
           coalesce(json_object_agg(e.key, case when e.setting is null then e.value else '' end
                                    order by e.n), '{}'),
           count(*) filter (where e.setting = 'deferredfunction') <= 1
               and count(*) filter (where e.setting = 'deferredmaxdequeue') <= 1
    into v_fn, v_max, own, ok
    from (select e.*, deferred.__message_setting(e.key) as setting
          from json_each_text(coalesce($2, '{}')) with ordinality as e(key, value, n)) e;
    v_fn := nullif(v_fn, '');
    v_max := nullif(v_max, '');
    -- NAME-poison has to be a name too, within what the protocol allows.
    ok := ok and (v_fn is null or v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$')
        and (v_max is null or (v_max ~ '^[0-9]{1,4}$'
                               and length(substr($1, strpos($1, '.') + 1)) <= 56));
    if ok and v_max is not null then ok := v_max::integer between 1 and 1000; end if;
    if ok then
        fn := v_fn;
        max_dequeue := v_max;
    end if;
exception when data_exception then
    ok := false;
end
$$;
comment on function deferred.__message_metadata_read is
    'what metadata say of the two settings, and all of them, those two without value';

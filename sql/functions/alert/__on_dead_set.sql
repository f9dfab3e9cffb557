-- Sets what is deferred for each dead job; part of deferred.__queue_set() and
-- deferred.__function_set(). A change of the function keeps the time of the first setting.
create or replace function deferred.__on_dead_set(p_kind text, p_name text, p_fn text) returns void
language plpgsql
as $$
begin
    if p_fn is null then
        delete from deferred.__deferred_on_dead o where (o.kind, o.name) = (p_kind, p_name);
    elsif p_fn !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' then
        raise exception using errcode = '22023',
            message = format('%s ''%s'': on_dead ''%s'' is not the name of a function',
                             p_kind, left(p_name, 200), left(p_fn, 200)),
            hint =
                'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins with a letter or '
                '''_''';
    else
        perform deferred.__defer_check(deferred.__actor(), case p_kind when 'queue' then p_name end,
                                       p_fn);
        insert into deferred.__deferred_on_dead as o (kind, name, fn)
        values (p_kind, p_name, p_fn) on conflict (kind, name) do update set fn = excluded.fn;
    end if;
end
$$;

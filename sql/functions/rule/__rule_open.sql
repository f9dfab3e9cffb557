-- Takes a rule, and makes the function from which __rule_run() reads its rows.
--
-- A rule belongs to the role that added it, and another role may run it, for example a superuser in
-- a crontab. The query must not get the rights of the role that runs it. SET ROLE is not enough,
-- because a function that the query calls can RESET ROLE. A SECURITY DEFINER function cannot be
-- left. Only roles that may SET ROLE to the owner can make one for the owner. So __rule_make()
-- makes it for each run, in the temporary schema of the session. It is called in the same
-- transaction: no other session can alter it before the commit. Its body passes the text of the
-- query to EXECUTE, because parsing alone can call functions of the owner: '(x)'::some_type.
--
-- In addition __rule_make() sets the role to the owner until the transaction ends. Otherwise
-- deferred.__actor() would return the role that runs the rule, and the query would see what that
-- role may see. So __rule_run() too has the rights of the owner at most. The role that runs a rule
-- is a member of the owner's role, and the owner has the right to create temporary objects.
--
-- The query can leave things behind in the session:
-- - settings: __rule_fetch() pins search_path right after the call, by a statement that looks up
--   no name;
-- - a cursor WITH HOLD, whose query would run at commit with the rights of the session: refused;
-- - prepared statements, session settings and locks: the program clears them when the transaction
--   ends.
create or replace function deferred.__rule_open(name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    r deferred.__deferred_rule := deferred.__rule_get($1, true);
begin
    perform deferred.__rule_make(r, '__deferred_rule_rows() returns table (key text, params json)',
                                 'stable', format($f$
declare
    v_row json; v_columns text[]; v_extra text; v_query text;
begin%s
    return query execute v_query;
end$f$, deferred.__rule_prologue(r)));
end
$$;
grant execute on function deferred.__rule_open to deferred_producer;

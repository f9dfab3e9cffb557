-- function_unoffered: whether workers have offered functions, but none has offered this one.
-- params: fn text
-- returns: unoffered bool
-- Locks: none. Reads the functions of all workers
select exists (select from deferred.__deferred_offer)
   and not exists (select from deferred.__offered o where o.fn = $1::text) as unoffered

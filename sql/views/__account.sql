-- Accounts of the HTTP front, without their keys.
create or replace view deferred.__account as
    select a.name, a.enabled, a.functions, a.created_at, a.key1_since, a.key2_since
    from deferred.__deferred_account a;
grant select on deferred.__account to deferred_viewer;

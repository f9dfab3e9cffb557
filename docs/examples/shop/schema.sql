-- Tables of the shop, and its nightly report.
create table orders (
    id bigint generated always as identity primary key,
    customer text not null,
    item text not null
);
create table invoices (
    order_id bigint primary key references orders,
    amount int not null,
    created_at timestamptz not null default now()
);
select deferred.schedule('nightly_report', '0 7 * * *', 'daily_report');

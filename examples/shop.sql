-- What the programs in python/, node/, go/, java/ and cpp/ work with.
--   psql -v ON_ERROR_STOP=1 -f examples/shop.sql

create table orders (id bigint primary key, total bigint not null, paid boolean not null default false);
select baton.create_outbox('order_events');
select baton.create_inbox('payments');

-- What a shop's orders imply, kept up to date and published without a line that publishes: revenue per product, and who bought what.

create table orders (
    id       bigint generated always as identity primary key,
    customer text not null,
    product  text not null,
    amount   numeric(12, 2) not null
);

select baton.create_stream_table('product_revenue', $$
    select product, sum(amount) as revenue, count(*) as orders from orders group by product
$$);
create unique index on product_revenue (product);                             -- the key of the events
select baton.enable_outbox('product_revenue', format => 'rows');

select baton.create_stream_table('purchases', $$
    select customer, product, count(*) as times from orders group by customer, product
$$);
create unique index on purchases (customer, product);
select baton.enable_outbox('purchases', format => 'rows');

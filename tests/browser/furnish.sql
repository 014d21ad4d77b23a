-- What the browser's tests look at. What is read was committed before.
begin;
select baton.create_outbox('orders'), baton.create_outbox('invoices'), baton.create_outbox('claims');
select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 1);
select baton.create_consumer_group('search', 'orders', 'earliest', max_attempts => 1, on_poison => 'block_key');
select baton.publish('orders', (array['order.placed', 'order.paid', 'order.shipped'])[1 + n % 3],
                     jsonb_build_object('order', n, 'total', 10 + n, 'customer', jsonb_build_object('name', 'Ada Lovelace', 'email', 'ada@example.org')),
                     'order', n % 20, headers => '{"region": "eu", "source": "shop"}')
  from generate_series(1, 60) n;
select baton.publish('invoices', 'invoice.sent', jsonb_build_object('invoice', n, 'total', n * 10), 'invoice', n) from generate_series(1, 5) n;
select baton.publish('invoices', 'invoice.sent', '{"invoice": "needs-mending", "total": null, "exact": 12345678901234567890123, "rate": 1.10}', 'invoice', 6);
commit;
begin;
select baton.fail_events('billing', 'worker-1', array_agg(id), 'card declined: insufficient funds (issuer code 51)', lease_token => (array_agg(lease_token))[1])
  from baton.poll_outbox('billing', 'worker-1', 6);
select baton.fail_events('search', 'indexer-1', array_agg(id), 'mapping conflict: field "total" is text in index orders-v7', lease_token => (array_agg(lease_token))[1])
  from baton.poll_outbox('search', 'indexer-1', 2);

select baton.create_inbox('payments');
select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num');
select baton.receive('payments', 'payment-' || n, 'payment.received', jsonb_build_object('amount', 12.50, 'n', n), aggregate_id => 'account-17', sequence_num => n) from unnest('{1,2,5,6}'::int[]) n;
select baton.receive('payments', 'refund-1', 'payment.refunded', '{"amount": 3}', aggregate_id => 'account-20', sequence_num => 1);
select baton.fail_inbox('payments', '{refund-1}'::text[], 'no such account: 20', permanent => true);

create table sales (product text, amount int);
insert into sales select 'product ' || n % 5, n from generate_series(1, 100) n;
select baton.create_stream_table('revenue', 'select product, sum(amount) as revenue, count(*) as sold from sales group by product', '1s');
select baton.enable_outbox('revenue');
commit;

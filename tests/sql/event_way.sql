-- Where an event stands at every group, and where an event with an id is.
select no_plan();
update baton.jobs set enabled = false;
select baton.create_outbox('orders');
select baton.create_outbox('others');
select baton.create_consumer_group(g, 'orders', 'earliest', max_attempts => 1) from unnest('{reader,failing,idle}'::text[]) g;
select baton.publish('orders', 'made', jsonb_build_object('n', n), aggregate_id => n) from generate_series(1, 5) n;

create function way(id bigint) returns setof text language sql as $$ select group_name || ' ' || state from baton.event_deliveries('orders', id) order by 1 $$;
select results_eq('select way(1)', $$ values ('failing waiting'), ('idle waiting'), ('reader waiting') $$, 'nobody has read an event');
create temporary table polled as select * from baton.poll_outbox('reader', 'r1', 3);
select results_eq('select way(3)', $$ values ('failing waiting'), ('idle waiting'), ('reader leased') $$, 'one has');
select is((select consumer || ' ' || (leased_until > now()) from baton.event_deliveries('orders', 3) where group_name = 'reader'), 'r1 true', 'who, and until when');
select results_eq('select way(4)', $$ values ('failing waiting'), ('idle waiting'), ('reader waiting') $$, 'the rest waits');
select baton.commit_events('reader', 'r1', '{1}', (select lease_token from polled limit 1));
select results_eq('select way(1)', $$ values ('failing waiting'), ('idle waiting'), ('reader settled') $$, 'an event is settled');
select results_eq('select way(2)', $$ values ('failing waiting'), ('idle waiting'), ('reader leased') $$, 'its neighbour is not');
select baton.commit_events('reader', 'r1', '{2,3}', (select lease_token from polled limit 1));
select results_eq('select way(3)', $$ values ('failing waiting'), ('idle waiting'), ('reader settled') $$, 'then it is, too');
select state from baton.fail_events('failing', 'f1', '{1}', 'no', lease_token => (select lease_token from baton.poll_outbox('failing', 'f1', 1)));
select is((select concat_ws(' ', state, error, dead_letter is not null) from baton.event_deliveries('orders', 1) where group_name = 'failing'), 'dead no t', 'an event is dead, and why');
select is((select dead_letter from baton.event_deliveries('orders', 1) where group_name = 'failing'), (select id from baton.dead_letters), 'the dead letter is named');
select is_empty('select way(99)', 'of an event that is not there nothing is said');

create table known as select id, event_id from orders;
select results_eq($$ select f.event_offset from known k cross join lateral baton.find_event(k.event_id) f order by 1 $$, 'select id from known order by 1', 'each event is found by its id');
select is_empty($$ select * from baton.find_event(gen_random_uuid()) $$, 'what is not there is not found');
select is_empty($$ select * from baton.find_event((select event_id from known limit 1), 'others') $$, 'nor in another outbox');
-- an id that was made long before it was published, and one without a time
select baton.publish('orders', 'old', '{}', event_id => baton.uuid_v7('2020-01-01')), baton.publish('orders', 'timeless', '{}', event_id => 'ffffffff-ffff-4fff-8fff-ffffffffffff');
select results_eq($$ select e.event_type from orders e cross join lateral baton.find_event(e.event_id) f where f.event_offset = e.id and e.event_type in ('old', 'timeless') order by 1 $$,
                  $$ values ('old'), ('timeless') $$, 'ids that say another time are found, too');
select * from finish();

-- A relay owns a group alone: leases, epochs, taking over what consumers left, and parking.
begin;
select no_plan();

select baton.create_outbox('orders');
select baton_internal.prepare_group('g', 'orders', retry_base => '1 hour', retry_limit => '2 hours');
select baton.publish('orders', 't', '{}'::jsonb, aggregate_id => k) from unnest('{a,b,a,c,a}'::text[]) k;

select is((baton_internal.take_group('g', 'one')).epoch, 1::bigint, 'a free group is taken');
select is((baton_internal.take_group('g', 'two')).epoch, null, 'and not by a second relay');
select is((baton_internal.take_group('g', 'two')).held_by, 'one', 'which gets to know who has it');
select is((baton_internal.take_group('g', 'one')).epoch, 2::bigint, 'the owner may take it anew, with another epoch');
select throws_ok($$select baton_internal.renew_group(group_id, 1) from baton_internal.group_positions$$, 'BT001', null, 'the old epoch is over');
select lives_ok($$select baton_internal.renew_group(group_id, 2) from baton_internal.group_positions$$, 'the new one is not');
update baton_internal.group_positions set owned_until = clock_timestamp() - interval '1 s';
select is((baton_internal.take_group('g', 'two')).epoch, 3::bigint, 'a lease that ran out can be taken over');
select throws_ok($$select baton_internal.release_group(group_id, 2) from baton_internal.group_positions$$, 'BT001', null, 'the first cannot give it back any more');
select lives_ok($$select baton_internal.release_group(group_id, 3) from baton_internal.group_positions$$, 'the owner can');

-- the policy follows the pipeline, the position stays
select is(baton_internal.prepare_group('g', 'orders', max_attempts => 3, on_poison => 'block_key', retry_base => '1 hour', retry_limit => '2 hours'),
          (select group_id from baton.consumer_groups), 'preparing again finds the group');
select is((select on_poison || max_attempts from baton.consumer_groups), 'block_key3', 'and gives it the policy');
select baton.create_outbox('others');
select throws_ok($$select baton_internal.prepare_group('g', 'others')$$, '42710', null, 'a group of another outbox is refused');

select is((select count(*) from baton_internal.parked), 0::bigint, 'nothing is parked');
select baton_internal.take_group('g', 'one');
create temp table own as select group_id, owner_epoch as epoch from baton_internal.group_positions;
select is((select baton_internal.set_aside(group_id, epoch, '{1,2}', '{a,b}', array[null, clock_timestamp() + interval '1 hour']) from own), '{2}'::bigint[],
          'an event that is not due is set aside');
select is((select state from baton_internal.parked where id = 2), 'scheduled', 'as scheduled');
select lives_ok($$select baton_internal.park_group_events(group_id, epoch, '{1,3}', '{a,a}', '{1,1}', '{broken,""}', '{retry,blocked}') from own$$,
                'a failed event and the one behind it are parked');
select results_eq($$select id, state, attempt from baton_internal.parked order by id$$,
                  $$values (1::bigint, 'retry', 1), (2, 'scheduled', 0), (3, 'blocked', 0)$$, 'as retry and blocked');
select is((select baton_internal.set_aside(group_id, epoch, '{4,5}', '{c,a}', '{null,null}') from own), '{5}'::bigint[], 'a later event of the key is set aside');
select is((select blocking from own, baton_internal.renew_group(group_id, epoch)), true, 'the owner knows that keys are held back');
update baton_internal.parked set due_at = clock_timestamp() where id = 1;
select results_eq($$select p.id, p.attempt from own, baton_internal.lease_group_parked(group_id, epoch, 10) p order by id$$,
                  $$values (1::bigint, 2), (3, 1), (5, 1)$$, 'a due event comes with those behind it');
select lives_ok($$select baton_internal.give_back_parked(group_id, epoch, '{5}') from own$$, 'one that there was no room for is given back');
select results_eq($$select attempt, lease_token is null from baton_internal.parked where id = 5$$, $$values (0, true)$$, 'which is no attempt');
select throws_ok($$select baton_internal.give_back_parked(group_id, epoch - 1, '{1}') from own$$, 'BT001', null, 'nobody but the owner gives back');
select results_eq($$select p.id, p.attempt from own, baton_internal.lease_group_parked(group_id, epoch, 10) p$$, $$select 5::bigint, 1 where false$$,
                  'it waits for those before it, which are under way');
select lives_ok($$select baton_internal.settle_group_parked(group_id, epoch, '{1}') from own$$, 'one is settled');
select lives_ok($$select baton_internal.park_group_events(group_id, epoch, '{3,5}', '{a,a}', '{1,1}', '{poison,""}', '{dead,blocked}') from own$$, 'the next is poison');
select results_eq($$select id, state from baton_internal.parked where key = 'a' order by id$$, $$values (3::bigint, 'dead'), (5, 'blocked')$$,
                  'and holds its key back, as the policy says');
select is((select event ->> 'event_type' from baton_internal.parked where id = 3), 't', 'a dead letter has a copy of its event');
select throws_ok($$select baton_internal.take_group('g', 'x', '0 s')$$, '22023', null, 'a lease needs a duration');
select throws_ok($$select baton_internal.take_group('nobody', 'x')$$, '42704', null, 'an unknown group cannot be taken');

-- what a relay held that is gone for good
select baton.create_outbox('left_behind');
select baton_internal.prepare_group('left', 'left_behind', retry_base => '1 hour', retry_limit => '2 hours');
select baton.publish('left_behind', 't', '{}'::jsonb, aggregate_id => 'a') from generate_series(1, 2);
select baton_internal.take_group('left', 'one');
create temp table gone as select p.group_id, p.owner_epoch as epoch from baton_internal.group_positions p join baton.consumer_groups g using (group_id) where g.group_name = 'left';
select baton_internal.park_group_events(group_id, epoch, '{1,2}', '{a,a}', '{1,1}', '{broken,""}', '{retry,blocked}') from gone;
update baton_internal.parked p set due_at = clock_timestamp() from gone where p.group_id = gone.group_id and p.id = 1;
select is((select count(*)::int from gone, baton_internal.lease_group_parked(group_id, epoch, 10)), 2, 'a relay holds parked events');
select is_empty($$select * from baton.poll_outbox('left', 'c')$$, 'which nobody gets while it works the group');
update baton_internal.group_positions p set owned_until = clock_timestamp() - interval '1 s' from gone where p.group_id = gone.group_id;
select results_eq($$select id, attempt from baton.poll_outbox('left', 'c')$$, $$values (1::bigint, 3), (2, 2)$$, 'a consumer gets them once the relay''s lease is over');
select throws_ok($$select baton_internal.settle_group_parked(group_id, epoch, '{1}') from gone$$, 'BT001', null, 'and the relay cannot settle them any more');

select * from finish();
rollback;

-- An event that kills its consumer: it comes again in smaller leases, at last alone, and ends as a dead letter; its neighbours do not.
select no_plan();
select baton.create_outbox('events');
-- Let all leases of a group run out, as if its consumers had died.
create function kill(name text) returns void language sql as $$
    update baton_internal.pieces set leased_until = now() - interval '1 second'
     where lease_token is not null and group_id = (select group_id from baton.consumer_groups where group_name = name);
    update baton_internal.parked set leased_until = now() - interval '1 second'
     where lease_token is not null and group_id = (select group_id from baton.consumer_groups where group_name = name);
$$;
-- Work a group until nothing is given, with consumers that settle all they get and die of one event before they settle anything.
-- Returns the size of each lease that held that event.
create function work_with(name text, poison bigint, batch int) returns int[] language plpgsql as $$
declare
    sizes int[] := '{}';
    got record;
begin
    for round in 1..500 loop
        select array_agg(id) as ids, min(lease_token::text)::uuid as token into got from baton.poll_outbox(name, 'c' || round, batch);
        exit when got.ids is null;
        if poison = any (got.ids) then
            sizes := sizes || cardinality(got.ids);
            perform kill(name);
        else
            perform baton.commit_events(name, 'c' || round, got.ids, got.token);
        end if;
    end loop;
    return sizes;
end
$$;

-- one poison among many, in order and without
select baton.create_consumer_group('g', 'events', 'earliest', max_attempts => 4);
select baton.create_consumer_group('free', 'events', 'earliest', ordered => false, max_attempts => 4);
insert into events (event_type, partition_key) select 'e', 'k' || i % 7 from generate_series(1, 100) i;
select is(work_with('g', 37, 64), '{64,16,4,1}'::int[], 'each lost lease makes the next one smaller, the last holds the event alone');
select is((select array_agg(event_offset) from baton.dead_letters where group_name = 'g'), '{37}'::bigint[], 'it is a dead letter then, and nothing else is');
select results_eq($$ select attempts, error ~ 'lease ran out' from baton.dead_letters where group_name = 'g' $$, $$ values (4, true) $$, 'after its attempts, with the reason');
select is((select lag_rows from baton.consumer_lag('g') limit 1), 0::bigint, 'everything else is settled');
select is(work_with('free', 37, 64), '{64,16,4,1}'::int[], 'without order it is the same');
select is((select array_agg(event_offset) from baton.dead_letters where group_name = 'free'), '{37}'::bigint[], 'one dead letter');
select is((select lag_rows from baton.consumer_lag('free') limit 1), 0::bigint, 'and the rest is settled');

-- few attempts: the last one is made alone even so
select baton.create_consumer_group('once', 'events', 'earliest', max_attempts => 1);
select is(work_with('once', 99, 64), '{36,1}'::int[], 'with one attempt there is a second one, alone');
select is((select array_agg(event_offset) from baton.dead_letters where group_name = 'once'), '{99}'::bigint[], 'before the event is given up');
select is((select lag_rows from baton.consumer_lag('once') limit 1), 0::bigint, 'and no other');

-- what follows of the key waits or goes on, by the group's policy
select baton.create_consumer_group('strict', 'events', 'earliest', max_attempts => 2, on_poison => 'block_key');
select is((work_with('strict', 37, 64))[2], 1, 'where a dead letter blocks its key');
select is((select array_agg(id order by id) from baton_internal.parked join baton.consumer_groups using (group_id) where group_name = 'strict'),
          array(select id from events where id >= 37 and id % 7 = 2), 'the key stands still behind the event');
select is((select count(*)::int from baton.dead_letters where group_name = 'strict'), 1, 'which alone is dead');
select is((select array_agg(distinct state) from baton_internal.parked join baton.consumer_groups using (group_id) where group_name = 'strict' and id > 37),
          '{blocked}'::text[], 'while the others are blocked');

-- who tries an event for the last time has nothing else in hand
select baton.create_consumer_group('alone', 'events', 'earliest', max_attempts => 2, ordered => false);
select is((select count(*)::int from baton.poll_outbox('alone', 'a', 2)), 2, 'two events');
select kill('alone');
select is((select count(*)::int from baton.poll_outbox('alone', 'b', 2)), 1, 'come again one by one');
select is((select count(*)::int from baton.poll_outbox('alone', 'b', 2)), 0, 'and who has one gets nothing else');
select is((select count(*)::int from baton.poll_outbox('alone', 'c', 2)), 1, 'another gets the other');
select is((select count(*)::int from baton.poll_outbox('alone', 'd', 2)), 2, 'and a third what is no suspect');
select baton.release_lease('alone', 'b');
select is((select count(*)::int from baton.poll_outbox('alone', 'd', 2)), 0, 'who holds something is not given a last attempt, nor anything that would keep it from one');
select is((select count(*)::int from baton.poll_outbox('alone', 'e', 2)), 1, 'who holds nothing is');
select kill('alone');
select is((select count(*)::int from baton.poll_outbox('alone', 'f', 2)), 1, 'when all die, two were alone with theirs, and the third one''s come one by one');
select is((select array_agg(event_offset order by event_offset) from baton.dead_letters where group_name = 'alone'), '{1,2}'::bigint[], 'so the two are dead');

-- also while others' leases run out
select baton.create_consumer_group('probation', 'events', 'earliest', max_attempts => 3, ordered => false);
select is((select count(*)::int from baton.poll_outbox('probation', 'a', 1)), 1, 'an event');
select kill('probation');
select is((select count(*)::int from baton.poll_outbox('probation', 'a2', 1)), 1, 'that was lost twice');
select kill('probation');
select is((select array_agg(id) from baton.poll_outbox('probation', 'b', 1)), '{1}'::bigint[], 'has its last attempt');
select is((select count(*)::int from baton.poll_outbox('probation', 'c', 3)), 3, 'another has three more');
update baton_internal.pieces set leased_until = now() - interval '1 second' where consumer_id = 'c';
select is((select count(*)::int from baton.poll_outbox('probation', 'b', 3)), 0, 'and loses them, but not to who has the first');

-- attempts that are used up in company are no proof
select baton.create_consumer_group('company', 'events', 'earliest', max_attempts => 2, retry_base => '1 ms', retry_limit => '1 ms', ordered => false);
select is((select count(*)::int from baton.poll_outbox('company', 'a', 2)), 2, 'two events');
select is((select count(*)::int from baton.fail_events('company', 'a', '{1,2}', 'not now')), 2, 'fail');
update baton_internal.parked set due_at = now() - interval '1 second' where state = 'retry';
select is((select count(*)::int from baton.poll_outbox('company', 'b', 2)), 2, 'and are tried for the last time, together');
select kill('company');
select is((select array_agg(id) from baton.poll_outbox('company', 'c', 2)), '{1}'::bigint[], 'when their consumer dies each is tried alone');
select is((select count(*)::int from baton.dead_letters where group_name = 'company'), 0, 'and none is dead');

-- what a consumer says of an event clears it
select baton.create_consumer_group('talks', 'events', 'earliest', max_attempts => 5, retry_base => '1 ms', retry_limit => '1 ms', ordered => false);
select is((select count(*)::int from baton.poll_outbox('talks', 'a', 4)), 4, 'four events');
select is((select count(*)::int from baton.fail_events('talks', 'a', '{1,2}', 'not now')), 2, 'two fail');
update baton_internal.parked set due_at = now() - interval '1 second' where state = 'retry';
select is((select count(*)::int from baton.poll_outbox('talks', 'b', 2)), 2, 'and come again');
select kill('talks');
select is((select array_agg(id) from baton.poll_outbox('talks', 'c', 2)), '{1}'::bigint[], 'after their consumer died they are suspects');
select is((select count(*)::int from baton.fail_events('talks', 'c', '{1}', 'not now')), 1, 'one is failed in good order');
select is((select (attempt, lost)::text from baton_internal.parked join baton.consumer_groups using (group_id) where group_name = 'talks' and id = 1), '(3,0)',
          'its attempts count, and it is no suspect any more');
select is((select array_agg(id) from baton.poll_outbox('talks', 'c', 2)), '{2}'::bigint[], 'the other one is');
select baton.release_lease('talks', 'c');
select is((select (attempt, lost)::text from baton_internal.parked join baton.consumer_groups using (group_id) where group_name = 'talks' and id = 2), '(2,1)',
          'what is given back was no attempt');

-- a replayed one begins anew
select is(baton.replay_dead_letters(array(select id from baton.dead_letters where group_name = 'g')), 1, 'a dead letter can be replayed');
select is((select (id, attempt)::text from baton.poll_outbox('g', 'z')), '(37,1)', 'with all its attempts');
select is(baton.commit_offset('g', 'z', 37), true, 'and be settled');

select * from finish();

-- Retention: partitions come and go whole, and never while a group needs them.
select no_plan();
update baton.jobs set enabled = false;  -- nobody but this test maintains anything
select baton.create_outbox('events', partition_interval => '1 hour', retention => '2 hours');
-- Pretend that everything happened some time earlier.
create function time_passes(t interval) returns void language sql as $$ update baton_internal.outbox_partitions set since = since - t $$;
create function partitions() returns int language sql as $$ select count(*)::int from pg_inherits where inhparent = 'events'::regclass $$;
create function in_state(wanted text, outbox regclass default 'events') returns int language sql as $$
    select count(*)::int from baton_internal.outbox_partitions p join baton.outboxes o using (outbox_id) where o.relation = $2 and p.state = $1
$$;
select baton.create_consumer_group('slow', 'events', 'earliest', retry_base => '1 hour', retry_limit => '1 hour'), baton.create_consumer_group('quick', 'events', 'earliest');
insert into events (event_type, partition_key) select 'e', 'k' || i from generate_series(1, 5) i;
call baton.run_maintenance();
select is(partitions(), 3, 'partitions are made ahead');
select is(baton.publish('events', 'e', '{}'), 6::bigint, 'within the hour the log stays');
select time_passes('61 minutes');
call baton.run_maintenance();
select is(baton.publish('events', 'e', '{}') >= 1000000000, true, 'after it the log moves into the next partition');
select time_passes('121 minutes');
call baton.run_maintenance();
select is(in_state('left'), 2, 'nothing is dropped that a group has not read');
select is((select count(*)::int from baton.poll_outbox('quick', 'c')), 7, 'the quick one reads');
select baton.commit_offset('quick', 'c', 1000000000);
call baton.run_maintenance('events');
select is(in_state('left'), 2, 'the slow one counts');
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 5)), 5, 'it reads a part');
call baton.run_maintenance('events');
select is(in_state('left'), 2, 'a part is not enough');
select baton.commit_offset('slow', 'c', 5);
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 1)), 1, 'the last one of the old partition');
call baton.run_maintenance('events');
select is(in_state('left'), 2, 'leased is not settled');
select baton.commit_offset('slow', 'c', 6);
select is((select count(*)::int from baton.poll_outbox('slow', 'c', 5)), 1, 'it moves on');
call baton.run_maintenance('events');
select is((select min(id) from events), 1000000000::bigint, 'now the old partition goes, with all that was in it');
select is((select (last_drained_count, last_drained_at between now() - interval '1 hour' and clock_timestamp() + interval '1 day')::text from baton.outbox_status('events')), '(6,t)',
          'the status tells when and how many');
select baton.commit_offset('slow', 'c', 1000000000);
select time_passes('121 minutes');
call baton.run_maintenance('events');
select is((select count(*)::int from events), 0, 'a quiet log is retired too: nobody polls or publishes meanwhile');
select is((in_state('open'), in_state('ahead') + in_state('new'), in_state('left')), (1, 2, 0), 'an empty partition stays open');

-- a parked event is saved from its partition
select is(baton.publish('events', 'e', '{"keep": "me"}', partition_key => 'p') > 0, true, 'one that fails');
create temporary table failing as select id from baton.poll_outbox('slow', 'c');
select count(*) from baton.fail_events('slow', 'c', array(select id from failing), 'boom');
select baton.commit_offset('quick', 'c', max(id)) from baton.poll_outbox('quick', 'c');
select time_passes('61 minutes');
call baton.run_maintenance();
insert into events (event_type) values ('next');
select baton.commit_offset('quick', 'c', max(id)) from baton.poll_outbox('quick', 'c');
select baton.commit_offset('slow', 'c', max(id)) from baton.poll_outbox('slow', 'c');
select count(*) from baton.poll_outbox('slow', 'c') union all select count(*) from baton.poll_outbox('quick', 'c');
select time_passes('121 minutes');
call baton.run_maintenance('events');
select is((select count(*)::int from events where id in (select id from failing)), 0, 'the log has it no more');
select baton.seek_offset('slow', 'c', place => 'beginning');
update baton_internal.parked set due_at = now() - interval '1 second';
create temporary table polled as select id, payload, lease_token from baton.poll_outbox('slow', 'c');
select is((select payload ->> 'keep' from polled where id in (select id from failing)), 'me', 'but it is delivered all the same, even after a seek to before it');
select is((select baton.commit_offset('slow', 'c', f.id, p.lease_token) from failing f join polled p using (id)), true, 'and settled');
select baton.commit_offset('slow', 'c', max(id), (array_agg(lease_token))[1]) from polled where id not in (select id from failing) having count(*) > 0;

-- archive
select baton.alter_outbox('events', archive_for => '10 hours');
select baton.publish('events', 'archived', '{}');
select baton.commit_offset(g, 'c', (select max(id) from baton.poll_outbox(g, 'c'))) from unnest('{slow,quick}'::text[]) g;
select time_passes('61 minutes');
call baton.run_maintenance();
select time_passes('121 minutes');
call baton.run_maintenance('events');
select is((select array_agg(event_type) from events where event_type = 'archived'), null, 'with an archive the partition leaves the log');
select is((select array_agg(event_type) from events_archive where event_type = 'archived'), '{archived}', 'into the archive');
select time_passes('601 minutes');
call baton.run_maintenance('events');
select is((select count(*)::int from events_archive where event_type = 'archived'), 0, 'and later leaves that, for good');
select baton.alter_outbox('events', reset => '{archive_for}');

-- by force
insert into events (event_type) values ('forced');
select time_passes('61 minutes');
call baton.run_maintenance();
insert into events (event_type) values ('and on');
select time_passes('121 minutes');
call baton.run_maintenance('events');
select is((select count(*)::int from events where event_type = 'forced'), 1, 'unread events stay');
select set_config('baton.outbox_force_retention', 'on', false), set_config('baton.outbox_retention_hours', '0', false);
call baton.run_maintenance('events');
select is((select count(*)::int from events where event_type = 'forced'), 1, 'whatever a session says');
select is(baton_internal.detach_partition(o, p), 'held', 'nor what somebody decided before the lock')
  from baton.outboxes o join baton_internal.outbox_partitions p using (outbox_id) where o.relation = 'events'::regclass and p.state = 'left';
select baton.set_setting('outbox_force_retention', 'on');
call baton.run_maintenance('events');
select is((select count(*)::int from events where event_type = 'forced'), 0, 'unless the operator insists');
select ok(exists (select from baton.audit_trail where action = 'force_retention'), 'which is on record');
select baton.set_setting('outbox_force_retention', 'off');
reset all;
insert into events (event_type) values ('after');
select is((select array_agg(event_type) from baton.poll_outbox('slow', 'c')), '{"and on",after}', 'the group goes on with what is left');

-- step by step, for callers that commit themselves
create function steps(outbox text) returns int language plpgsql as $$
declare
    resume jsonb;
    taken int := 0;
begin
    loop
        resume := baton.maintenance_step(resume, outbox);
        exit when resume is null;
        taken := taken + 1;
    end loop;
    return taken;
end $$;
select cmp_ok(steps('events'), '>', 4, 'a step at a time, also in a transaction');
begin isolation level repeatable read;
insert into events (event_type) values ('old snapshot');
select baton.set_setting('outbox_force_retention', 'on');
update baton_internal.outbox_partitions set since = since - interval '1 day';
select steps('events');
select time_passes('1 day'), steps('events');
select matches((select maintenance_error from baton.outboxes where relation = 'events'::regclass), '^55000', 'an old snapshot cannot judge');
rollback;

-- one outbox in trouble does not stop the others
select baton.create_outbox('troubled', partition_interval => '1 hour', retention => '2 hours');
select baton.create_outbox('fine', partition_interval => '1 hour', retention => '2 hours');
insert into troubled (event_type) values ('x');
insert into fine (event_type) values ('x');
alter sequence troubled_id_seq cache 20;
select time_passes('61 minutes');
set client_min_messages = error;
call baton.run_maintenance();
reset client_min_messages;
select is(in_state('left', 'troubled'), 0, 'a sequence that hands out ids in advance is not moved');
select matches((select maintenance_error from baton.outboxes where relation = 'troubled'::regclass), '^55000.*in advance', 'which is on record');
select is(in_state('left', 'fine'), 1, 'and stops nobody else');
alter sequence troubled_id_seq cache 1;
call baton.run_maintenance();
select is((select maintenance_error from baton.outboxes where relation = 'troubled'::regclass), null, 'until it is mended');
select is(in_state('left', 'troubled'), 1, 'then the log moves on');
select setval('troubled_id_seq', 1);
set client_min_messages = error;
call baton.run_maintenance('troubled');
reset client_min_messages;
select matches((select maintenance_error from baton.outboxes where relation = 'troubled'::regclass), '^55000', 'a sequence that was moved back is refused');
select baton.drop_outbox('troubled');

-- ids that somebody made up (overriding system value, COPY): one that was not handed out is refused, any other is delivered
select baton.create_outbox('own', partition_interval => '1 hour', retention => '2 hours'), baton.create_consumer_group('owns', 'own', 'earliest');
create table accepted (id bigint);
create table refused (id bigint, state text, message text, hint text);
create function insert_as(wanted bigint) returns void language plpgsql as $$
declare
    said refused;
begin
    insert into own (id, event_type) overriding system value values (wanted, 'own');
    insert into accepted values (wanted);
exception when others then
    get stacked diagnostics said.state = returned_sqlstate, said.message = message_text, said.hint = pg_exception_hint;
    said.id := wanted;
    insert into refused select said.*;
end $$;
create function read_own() returns bigint[] language plpgsql as $$
declare
    got bigint[];
    token uuid;
begin
    select array_agg(p.id order by p.id), (array_agg(p.lease_token))[1] into got, token from baton.poll_outbox('owns', 'c', 1000) p where p.event_type = 'own';
    perform baton.commit_offset('owns', 'c', max(q.upto_id), token) from baton_internal.pieces q where q.lease_token = token;
    return got;
end $$;
select insert_as(1);
select is((select state from refused), '428C9', 'the first id is not handed out before the first event');
insert into own (event_type) select 'own' from generate_series(1, 10);
select is(read_own(), array(select generate_series(1, 10))::bigint[], 'the log is read');
delete from refused;
select insert_as(-1), insert_as(0);
select is((select count(*)::int from accepted), 0, 'an id that no partition takes is refused');
delete from refused;
select insert_as(11);
select row_eq('select * from refused', row(11, '428C9', 'event id 11 was not handed out: the last id of outbox public.own is 10',
              'leave id out, the outbox numbers its events')::refused, 'the very next id is refused, too, with what to do');
select insert_as(15), insert_as(999999999), insert_as(1000000000);
select is((select array_agg(distinct state) from refused), '{428C9}', 'so is any id ahead of the sequence, in this partition or in another');
select throws_ok($$ insert into own (id, event_type, idempotency_key) overriding system value values (15, 'own', 'k') $$, '428C9', null, 'with a key as well');
select throws_ok($$ insert into own_p1 (id, event_type) values (15, 'own') $$, '428C9', null, 'and past the outbox, in a partition');
select is((select count(*)::int from own), 10, 'nothing of them is in the log');
insert into own (id, event_type) overriding user value values (15, 'own');
insert into own (id, event_type) values (default, 'own'), (default, 'own');
insert into own (event_type) select 'own' from generate_series(1, 7);
select is(read_own(), array(select generate_series(11, 20))::bigint[], 'publishers have these ids, and nobody fails');
begin;
insert into own (event_type) select 'own' from generate_series(1, 20);
rollback;
select insert_as(22);
select is(read_own(), '{22}', 'an id that was handed out and lost in a rollback is taken, and delivered');
select time_passes('121 minutes');
call baton.run_maintenance('own');
call baton.run_maintenance('own');
select ok(baton.publish('own', 'own', '{}') >= 1000000000, 'the log has moved on');
select time_passes('121 minutes');
truncate accepted;
select insert_as(24);
select is((select id from accepted), 24::bigint, 'one behind the log is taken');
call baton.run_maintenance('own');
call baton.run_maintenance('own');
select is((select array_agg(id) from own where id = 24), '{24}', 'its partition stays until it is read');
select is(read_own(), '{24,1000000000}', 'and it is');
call baton.run_maintenance('own');
select is((select min(id) > 1000 from own), true, 'then the partition goes');

-- a sequence that hands out ids in advance is refused by the next session that publishes
select baton.create_outbox('hurried');
alter sequence hurried_id_seq cache 20;
select throws_ok($$ insert into hurried (event_type) values ('e') $$, '55000', null, 'ids in advance are refused');
alter sequence hurried_id_seq cache 1;
select lives_ok($$ insert into hurried (event_type) values ('e') $$, 'until the sequence is mended');

-- by size
select baton.create_outbox('big', partition_interval => null, partition_bytes => 100000);
insert into big (event_type, payload) select 'x', to_jsonb(repeat(md5(i::text), 20)) from generate_series(1, 300) i;
call baton.run_maintenance('big');
select ok(baton.publish('big', 'e', '{}') >= 1000000000, 'a partition is left at its size');
select is((select storage_status from baton.outbox_status('big')), 'ok', 'storage is fine');
select baton.set_setting('outbox_storage_critical_mb', '0');
select is((select storage_status from baton.outbox_status('big')), 'critical', 'until it is not');
call baton.run_maintenance('big');
select isnt((select storage_alert_at from baton.outboxes where relation = 'big'::regclass), null, 'which maintenance reports');

-- consumers
select baton.consumer_heartbeat('slow', 'dead one');
select is((select count(*)::int from baton.poll_outbox('slow', 'dead one')), 0, 'a consumer');
update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours', registered_at = now() - interval '8 days' where consumer_id = 'dead one';
call baton.run_maintenance();
select is((select count(*)::int from baton_internal.consumers where consumer_id = 'dead one'), 0, 'that is dead and stale is forgotten');
update baton_internal.consumers set last_heartbeat_at = now() - interval '25 hours' where consumer_id = 'c';
call baton.run_maintenance();
select is((select count(*)::int from baton_internal.consumers where consumer_id = 'c' and reaped_at is null), 0, 'one that is only dead is reaped');
select is((select count(*)::int from baton_internal.pieces where consumer_id = 'c' and leased_until > now()), 0, 'and its leases have run out');

select * from finish();

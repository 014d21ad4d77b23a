-- An event that is kept beside the log, because it was parked, comes back as it was.
select no_plan();
update baton.jobs set enabled = false;
-- How a relay reads the parked events of a group.
create function read_by_relay(group_name text, relation regclass) returns table (id bigint, payload text) language plpgsql as $$
declare
    taken baton_internal.group_lease := baton_internal.take_group(group_name, 'r');
begin
    return query execute format('select e.id, e.payload::text from (%s) e (id, c2, c3, c4, c5, c6, c7, c8, c9, payload)', baton_internal.parked_statement(relation))
        using taken.group_id, taken.epoch, 100, 1000000, 1000000;
end $$;

-- A log of each type of payload, with these payloads in it.
create table logs (payload_type text, payloads text[]);
insert into logs values ('jsonb', array['{}', 'null', null, '"null"', 'false', '[null]']), ('json', array['{}', 'null', null, '"null"', 'false', '[null]']),
                        ('text', array['', 'null', null, '"null"', 'false', '[null]']);
do $$
declare
    l logs;
    log text;
begin
    for l in select * from logs loop
        log := 'log_' || l.payload_type;
        perform baton.create_outbox(log, payload_type => l.payload_type);
        perform baton.create_consumer_group(log || '_c', log, 'earliest', ordered => false), baton.create_consumer_group(log || '_r', log, 'earliest', ordered => false);
        execute format('insert into %I (event_type, payload) select ''t'', p::%s from unnest($1) with ordinality u (p, n) order by n', log, l.payload_type) using l.payloads;
    end loop;
end $$;

-- What became of them when their events were dead letters: as consumers get them, and as a relay does.
create function come_back(l logs) returns setof text language plpgsql as $$
declare
    log constant text := 'log_' || l.payload_type;
    ids constant bigint[] := array(select generate_series(1, cardinality(l.payloads)));
    given constant text[] := array(select coalesce(payload::text, 'missing') from baton.poll_outbox(log || '_c', 'c') order by id);
begin
    perform baton.poll_outbox(log || '_r', 'c');
    perform baton.fail_events(log || '_c', 'c', ids, 'no', permanent => true), baton.fail_events(log || '_r', 'c', ids, 'no', permanent => true);
    return next is(array(select coalesce(payload::text, 'missing') from baton.dead_letters where group_name = log || '_c' order by event_offset), given,
                   l.payload_type || ': dead letters show their payload');
    perform baton.replay_dead_letters();
    return next is(array(select coalesce(payload::text, 'missing') from baton.poll_outbox(log || '_c', 'c') order by id), given,
                   l.payload_type || ': and are replayed with it');
    return next is(array(select payload from read_by_relay(log || '_r', log::regclass) order by id), l.payloads, l.payload_type || ': also to a relay');
end $$;
select come_back(l) from logs l;

-- a bytea has no dead letter to be read, but a relay gets its bytes
select baton.create_outbox('bytes', payload_type => 'bytea');
select baton.create_consumer_group('b', 'bytes', 'earliest', ordered => false);
insert into bytes (event_type, payload) values ('t', 'null'), ('t', null), ('t', ''), ('t', '\x00ff5c');
create temp table given as select id, payload, payload_bytes from baton.poll_outbox('b', 'c');
set bytea_output = 'escape';
select is((select count(*)::int from baton.fail_events('b', 'c', '{1,2,3,4}', 'no', permanent => true)), 4, 'bytes are parked, however the session writes them');
reset bytea_output;
select is(baton.replay_dead_letters(), 4, 'and replayed');
select results_eq($$ select id, payload, payload_bytes from baton.poll_outbox('b', 'c') order by id $$, $$ select * from given order by id $$, 'bytea: a copy comes back as it was');

-- copies that are made when a partition leaves the log
select baton.create_outbox('leaving', partition_interval => '1 microsecond', retention => '0');
select baton.create_consumer_group('l', 'leaving', 'earliest', ordered => false);
insert into leaving (event_type, payload, available_at) values ('t', 'null', now() + interval '1 hour'), ('t', null, now() + interval '1 hour');
select is((select count(*)::int from baton.poll_outbox('l', 'c')), 0, 'events wait for their time');
call baton.run_maintenance('leaving');
call baton.run_maintenance('leaving');
call baton.run_maintenance('leaving');
select is((select count(*)::int from leaving), 0, 'and outlive their partition');
update baton_internal.parked set due_at = now() where state = 'scheduled';
select results_eq($$ select payload from baton.poll_outbox('l', 'c') order by id $$, $$ values ('null'::jsonb), (null) $$, 'then null is null still, and a missing payload is missing');

select * from finish();

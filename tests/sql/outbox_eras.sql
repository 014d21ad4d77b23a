-- Where a log came with a restore, an era is over: what the groups know of ids is of that era, and nothing is taken that nobody would get.
select no_plan();
update baton.jobs set enabled = false;
select baton.create_outbox('events'), baton.create_consumer_group('g', 'events', 'earliest'), baton.create_consumer_group('relayed', 'events', 'earliest');

create procedure settle(name text) language plpgsql as $$
declare
    ids bigint[];
    token uuid;
begin
    loop
        select array_agg(p.id), (array_agg(p.lease_token))[1] into ids, token from baton.poll_outbox(name, 'c', 50) p;
        exit when ids is null;
        commit;
        perform baton.commit_offset(name, 'c', max(q.upto_id), token) from baton_internal.pieces q where q.lease_token = token;
        commit;
    end loop;
end $$;

begin;
insert into events (event_type) select 'lost' from generate_series(1, 40);  -- ids that nobody has
rollback;
insert into events (event_type) select 'e' from generate_series(41, 100);
call settle('g');
call settle('relayed');
insert into events (event_type) select 'e' from generate_series(101, 103);
call settle('g');
select ok(bool_and(fresh_id is not null), 'groups have floors') from baton_internal.group_positions;

-- the log is one out of a dump
update baton_internal.outbox_eras set relation_id = 1;
select baton_internal.settle_log(e, 'events') from baton_internal.outbox_eras e;
select is((select array_agg(last_id order by era) from baton_internal.outbox_eras), '{103,null}', 'the era is over, another has begun');
insert into events (event_type) select 'new' from generate_series(104, 106);

-- a relay comes through, and asks on
select open_sql from baton_internal.take_group('relayed', 'a relay') \gset
prepare open as :open_sql;
create temp table at as select p.* from baton_internal.group_positions p join baton.consumer_groups g using (group_id) where g.group_name = 'relayed';
create temp table opened as select (o.opened).* from at, baton_internal.open_group_window(group_id, window_number + 1, era, seen, fresh_id, fresh_xid, late_id) o;
select is((select array[era, last_id, start_id] from opened), '{1,103,101}', 'a window of the old era ends where the era does');
select baton_internal.checkpoint_group(o.group_id, p.owner_epoch, row(o.*)::baton_internal.windows, 103, true) from opened o, baton_internal.group_positions p where p.group_id = o.group_id;
truncate at;
insert into at select p.* from baton_internal.group_positions p join opened o using (group_id);
select format('execute open(%s, %s, %s, %L, %L, %L, %s)', group_id, window_number + 1, era, seen, fresh_id, fresh_xid, late_id) as again from at \gset
select lives_ok(:'again', 'behind the era the relay''s statement answers');
select is((select array[(o.opened).era, (o.opened).start_id] from at, baton_internal.open_group_window(group_id, window_number + 1, era, seen, fresh_id, fresh_xid, late_id) o),
          '{2,104}', 'the next window is of the new era');
select baton_internal.release_group(group_id, owner_epoch) from at;

-- ids of the old era
select throws_ok($$insert into events (id, event_type) overriding system value values (7, 'own')$$, '428C9', null, 'an id of an era that is over is refused');
select results_eq($$select id from baton.poll_outbox('g', 'c')$$, $$values (104::bigint), (105), (106)$$, 'a consumer gets what is new');
select * from finish();

-- A commit settles in delivery order, also where that is not the order of ids.
select no_plan();
select baton.create_outbox('events');
select baton.create_consumer_group('g', 'events', 'earliest');
-- two keys whose lanes differ
create temporary table keys as
    select (array_agg(k order by k))[1] as a, (array_agg(k order by k))[2] as b
      from (select distinct on (baton_internal.lane(k, 0)) k from (select 'k' || i as k from generate_series(1, 50) i) x) y;
insert into events (event_type, partition_key) select 'e', case when i = 4 then a else b end from keys, generate_series(1, 5) i order by i;
select is((select array_agg(id) from baton.poll_outbox('g', 'x', 5)), '{1,2,3,4,5}'::bigint[], 'five events of two keys');
-- as if they had been leased apart: one piece per lane; the first has its first event late
with old as (delete from baton_internal.pieces returning *)
insert into baton_internal.pieces (group_id, window_number, after_id, upto_id, lanes, attempt)
select group_id, window_number, 0, 4, 1::bigint << baton_internal.lane((select a from keys), 0), 1 from old
union all select group_id, window_number, 1, 5, 1::bigint << baton_internal.lane((select b from keys), 0), 1 from old;
create temporary table polled as select row_number() over () as n, p.* from baton.poll_outbox('g', 'y', 10) p;
select is((select array_agg(id order by n) from polled), '{4,2,3,5}'::bigint[], 'given piece by piece');
select is((select baton.commit_offset('g', 'y', id, lease_token) from polled order by n desc limit 1), true, 'the last one given settles all');
select is((select count(*)::int from baton_internal.pieces), 0, 'nothing stays behind');
select * from finish();

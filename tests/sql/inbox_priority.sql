-- Priority tiers: urgent first, nothing starves; and sharing work between workers.
begin;
select no_plan();
select baton.create_inbox('pri');
select lives_ok($$select baton.enable_inbox_priority('pri')$$, 'priorities are switched on');
select lives_ok($$select baton.enable_inbox_priority('pri', 'priority')$$, 'again the same is no error');
select results_eq($$select t.name, t.low, t.high, t.schedule from baton.inboxes i, baton_internal.parse_inbox_tiers(i.priority_tiers) t where i.name = 'pri' order by t.place$$,
    $$values ('critical', 1::bigint, 2::bigint, interval '1 s'), ('normal', 3, 6, '5 s'), ('background', 7, 9, '30 s')$$, 'with the documented tiers');

insert into pri (event_id, event_type, priority)
values ('p1', 't', 1), ('p2', 't', 2), ('p3', 't', 3), ('p6', 't', 6), ('p7', 't', 7), ('p9', 't', 9), ('p0', 't', 0), ('p99', 't', 99), ('none', 't', null);
select results_eq('select event_id from pending_pri_critical order by 1', $$values ('p1'), ('p2')$$, 'critical');
select results_eq('select event_id from pending_pri_normal order by 1', $$values ('p3'), ('p6')$$, 'normal');
select results_eq('select event_id from pending_pri_background order by 1', $$values ('none'), ('p0'), ('p7'), ('p9'), ('p99')$$,
                  'background takes the rest, so that no message is outside');
select is((select count(*) from pending_pri), 9::bigint, 'the unified view stays');
update pri set available_at = now(), received_at = now();
select results_eq($$select p.priority::int from baton.claim_inbox('pri', 'w', 4) c join pri p using (event_id) order by 1$$, $$values (1), (2), (3), (6)$$,
                  'urgent tiers are claimed first');

-- aging
delete from pri;
insert into pri (event_id, event_type, priority, available_at) select 'crit' || n, 't', 1, now() - interval '5 s' from generate_series(1, 20) n;
insert into pri (event_id, event_type, priority, available_at) values ('old', 't', 9, now() - interval '1 minute'), ('young', 't', 9, now() - interval '5 s');
select ok('old' in (select event_id from baton.claim_inbox('pri', 'w', 5)), 'a background message that waited past its schedule goes before newer critical ones');
select is((select leased_by from pri where event_id = 'young'), null, 'one within its schedule waits');
select results_eq($$select event_id from baton.claim_inbox('pri', 'w', 5, tier => 'background')$$, $$values ('young')$$, 'a worker can ask for one tier');
select throws_ok($$select * from baton.claim_inbox('pri', 'w', 5, tier => 'nosuch')$$, '42704', null, 'if there is such a tier');
insert into pri (event_id, event_type, priority, available_at) values ('later', 't', 1, now() + interval '1 minute');
select is((select count(*) from baton.claim_inbox('pri', 'w', 100) where event_id = 'later'), 0::bigint, 'what is not available yet is not due');
set local enable_seqscan = off;
set local enable_sort = off;
create function plan_of(statement text) returns text language plpgsql as $$
declare line text; plan text := '';
begin for line in execute 'explain ' || statement loop plan := plan || line || E'\n'; end loop; return plan; end $$;
select matches(plan_of((select format('select 1 from pri t where %s order by %s limit 10', t.pending, t.due)
                          from baton.inboxes i, baton_internal.inbox_terms(i) t where i.name = 'pri')), 'Index Scan using pri_due', 'claims read the index by due time');
reset enable_seqscan;
reset enable_sort;

-- order and priority exclude each other
select throws_ok($$select baton.enable_inbox_ordering('pri')$$, '22023', null, 'an inbox with priorities cannot be ordered');
select lives_ok($$select baton.disable_inbox_priority('pri')$$, 'priorities are switched off');
select hasnt_view('pending_pri_critical');
select has_view('pending_pri');
select hasnt_index('pri', 'pri_due');
select throws_ok($$select baton.disable_inbox_priority('pri')$$, 'BT004', null, 'once');
select lives_ok($$select baton.disable_inbox_priority('pri', true)$$, 'or with if_exists');
select throws_ok($$select * from baton.claim_inbox('pri', 'w', tier => 'critical')$$, 'BT004', null, 'a plain inbox has no tiers');
select lives_ok($$select baton.enable_inbox_ordering('pri')$$, 'then it can be ordered');
select throws_ok($$select baton.enable_inbox_priority('pri')$$, '22023', null, 'and not have priorities');

-- own tiers
select baton.create_inbox('own');
select lives_ok($$select baton.enable_inbox_priority('own', 'retry_count', '[{"name": "only", "min": 0, "max": 9, "schedule": "1 minute"}]')$$, 'own column and a single tier');
insert into own (event_id, event_type) values ('o1', 't');
select results_eq($$select event_id from baton.claim_inbox('own', 'w')$$, $$values ('o1')$$, 'work as well');
select throws_ok($$select baton.enable_inbox_priority('own', 'priority')$$, '42710', null, 'other priorities need disabling first');
select throws_ok(format($$select baton.enable_inbox_priority('own', 'priority', %L)$$, tiers), '22023', null, why)
  from (values ('{}', 'tiers are an array'), ('[]', 'with a tier'), ('[1]', 'of objects'), ('[{"name": "a", "min": 1}]', 'with a range'),
               ('[{"name": "a", "min": 2, "max": 1, "schedule": "1s"}]', 'that is not empty'), ('[{"name": "a", "min": 1, "max": 1, "schedule": "x"}]', 'and a schedule'),
               ('[{"name": "a", "min": 1, "max": 5, "schedule": "1s"}, {"name": "b", "min": 5, "max": 6, "schedule": "1s"}]', 'they do not overlap'),
               ('[{"name": "a", "min": 1, "max": 2, "schedule": "1s"}, {"name": "a", "min": 5, "max": 6, "schedule": "1s"}]', 'or share a name')) v (tiers, why);
select baton.create_inbox('cols');
select throws_ok($$select baton.enable_inbox_priority('cols', 'nosuch')$$, '42703', null, 'unknown column');
select throws_ok($$select baton.enable_inbox_priority('cols', 'payload')$$, '42804', null, 'a column that cannot be a priority');
select baton.create_inbox('cols_critical');
select throws_ok($$select baton.enable_inbox_priority('cols')$$, '42P07', null, 'a tier view never replaces another inbox''s view');

-- partitions
select is((select count(*) from generate_series(1, 1000) a where (select count(*) from generate_series(0, 6) w where baton.inbox_is_my_partition(a::text, w, 7)) <> 1),
          0::bigint, 'each aggregate belongs to exactly one of seven workers');
select is((select count(*) from generate_series(0, 6) w where baton.inbox_is_my_partition(null, w, 7)), 1::bigint, 'no aggregate belongs to one too');
select ok((select count(*) filter (where baton.inbox_is_my_partition(a::text, 0, 4)) between 150 and 350 from generate_series(1, 1000) a), 'shares are about even');
select is((select provolatile from pg_proc where proname = 'inbox_is_my_partition'), 'i', 'and stable');
select throws_ok($$select baton.inbox_is_my_partition('a', 0, 0)$$, '22023', null, 'no workers');
select throws_ok($$select baton.inbox_is_my_partition('a', 3, 3)$$, '22023', null, 'a worker beyond the last');
select throws_ok($$select baton.inbox_is_my_partition('a', -1, 3)$$, '22023', null, 'or before the first');
select throws_ok($$select baton.inbox_is_my_partition('a', null, 3)$$, '22023', null, 'or none');

select * from finish();
rollback;

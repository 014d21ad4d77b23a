-- What the pipelines of all relays have counted is seen while their relays live.
begin;
select no_plan();

create function pg_temp.noted(pipeline text, delivered bigint, seconds float8 default 60)
returns jsonb language sql as $$
    select jsonb_build_object('pipeline', pipeline, 'group', pipeline, 'state', 'running', 'detail', '', 'trouble', '', 'delivered', delivered, 'failed', 1,
                              'buffered', 2, 'latency', '[0, 3, 1]'::jsonb, 'seconds', seconds)
$$;

select is_empty($$select * from baton.relay_pipelines$$, 'no relay, no pipeline');
select baton_internal.note_pipelines('one', jsonb_build_array(pg_temp.noted('a', 10), pg_temp.noted('b', 20)));
select baton_internal.note_pipelines('two', jsonb_build_array(pg_temp.noted('a', 5)));
select results_eq($$select relay, pipeline, group_name, state, detail, trouble, delivered, failed, buffered, latency from baton.relay_pipelines order by 1, 2$$,
                  $$values ('one', 'a', 'a', 'running', null::text, null::text, 10::bigint, 1::bigint, 2::bigint, '{0,3,1}'::bigint[]),
                           ('one', 'b', 'b', 'running', null, null, 20, 1, 2, '{0,3,1}'), ('two', 'a', 'a', 'running', null, null, 5, 1, 2, '{0,3,1}')$$,
                  'every relay says what its pipelines have counted');
select ok((select bool_and(noted_at - began between '59 s' and '61 s') from baton.relay_pipelines), 'and since when it counts, by the clock of this server');

select baton_internal.note_pipelines('one', jsonb_build_array(pg_temp.noted('a', 11) || '{"state": "retrying", "detail": "no route", "trouble": "timed out"}'));
select results_eq($$select pipeline, state, detail, trouble, delivered from baton.relay_pipelines where relay = 'one'$$, $$values ('a', 'retrying', 'no route', 'timed out', 11::bigint)$$,
                  'what it says next counts, and a pipeline that it does not name has ended');

update baton_internal.noted_pipelines set until = clock_timestamp() - interval '1 s' where relay = 'two';
select results_eq($$select distinct relay from baton.relay_pipelines$$, $$values ('one')$$, 'a relay that says nothing any more does not count');
select baton_internal.note_pipelines('one', jsonb_build_array(pg_temp.noted('a', 12)));
select is((select count(*) from baton_internal.noted_pipelines), 2::bigint, 'it may only be late');
update baton_internal.noted_pipelines set until = clock_timestamp() - interval '2 minutes' where relay = 'two';
select baton_internal.note_pipelines('one', jsonb_build_array(pg_temp.noted('a', 13)));
select results_eq($$select relay from baton_internal.noted_pipelines$$, $$values ('one')$$, 'what it left is taken away by the next one that writes');
update baton_internal.noted_pipelines set until = clock_timestamp() + interval '1 day';
select is_empty($$select * from baton.relay_pipelines$$, 'what was written while the clock was ahead does not count for a day');

select baton_internal.note_pipelines('one', '[]');
select is_empty($$select * from baton_internal.noted_pipelines$$, 'who ends takes its notes along');

select ok(has_table_privilege('baton_viewer', 'baton.relay_pipelines', 'select'), 'a viewer may look');
select ok(not has_function_privilege('baton_viewer', 'baton_internal.note_pipelines(text, jsonb, interval)', 'execute'), 'and note nothing');
select * from finish();
rollback;

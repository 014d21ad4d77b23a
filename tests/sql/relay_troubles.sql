-- What hinders relays is seen while it lasts and while the relay lives.
begin;
select no_plan();

select baton.create_outbox('orders');
select baton.create_consumer_group('out', 'orders', 'earliest');
select is_empty($$select * from baton.relay_troubles$$, 'no relay, no trouble');

select baton_internal.note_troubles('one', '[{"pipeline": "out", "group": "out", "state": "running", "trouble": "connection refused"},
                                             {"pipeline": "", "group": "", "state": "not reloaded", "trouble": "no such file"}]');
select results_eq($$select pipeline, group_name, state, trouble, relay from baton.relay_troubles order by 1$$,
                  $$values ('out', 'out', 'running', 'connection refused', 'one'), (null, null, 'not reloaded', 'no such file', 'one')$$, 'a relay says what hinders it');
create temporary table noted as select pipeline, since from baton.relay_troubles;
select baton_internal.note_troubles('one', '[{"pipeline": "out", "group": "out", "state": "running", "trouble": "timed out"}]');
select results_eq($$select t.pipeline, t.trouble, t.since = n.since from baton.relay_troubles t join noted n using (pipeline)$$, $$values ('out', 'timed out', true)$$,
                  'what changed is changed, and began when it began; what is over is gone');
select is((select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and mode = 'ShareLock'), 1::bigint, 'one lock is held, however often it writes');

select is((baton_internal.take_group('out', 'two')).held_by, 'two', 'another relay takes the group');
select is_empty($$select * from baton.relay_troubles$$, 'and the words of the first are of the past');
update baton_internal.group_positions set owner = null, owned_until = null;
select isnt_empty($$select * from baton.relay_troubles$$, 'they count while nobody has the group');

select pg_advisory_unlock_all();
select is_empty($$select * from baton.relay_troubles$$, 'a relay whose session has ended says nothing');
select baton_internal.note_troubles('two', '[{"pipeline": "p", "group": null, "state": "halted", "trouble": "x"}]', lease => '1 minute');
select results_eq($$select relay, pipeline from baton_internal.noted_troubles$$, $$values ('two', 'p')$$, 'what it left is taken away by the next one that writes');
select is((select trouble from baton.relay_troubles), 'x', 'behind a pooler a lease stands for the session');
select is((select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and mode = 'ShareLock'), 0::bigint, 'and nothing is locked');
update baton_internal.noted_troubles set until = clock_timestamp() - interval '1 s';
select is_empty($$select * from baton.relay_troubles$$, 'until it runs out');

select baton_internal.note_troubles('one', jsonb_build_array(jsonb_build_object('pipeline', 'long', 'state', 'running', 'trouble', repeat('x', 5000))));
select is((select length(trouble) from baton.relay_troubles), 2000, 'long words are cut');
select baton_internal.note_troubles('one', '[]');
select is_empty($$select * from baton_internal.noted_troubles$$, 'nothing is left');
select is((select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and mode = 'ShareLock'), 0::bigint, 'and nothing is locked');

select ok(has_table_privilege('baton_viewer', 'baton.relay_troubles', 'select'), 'a viewer may look');
select ok(not has_function_privilege('baton_viewer', 'baton_internal.note_troubles(text, jsonb, interval)', 'execute'), 'and note nothing');
select ok(not has_table_privilege('baton_viewer', 'baton_internal.noted_troubles', 'select'), 'what is of the past is nobody''s business');
select * from finish();
rollback;

-- A row that is in a table all the same, whatever it holds, stops neither the others nor a view.
select no_plan();
update baton.jobs set enabled = false;

-- adopted outbox: json that is no jsonb, headers alike, times at infinity
create table jsons (id int primary key, payload json, meta json, at timestamptz not null default now(), done_at timestamptz, tries int not null default 0);
select baton.adopt_outbox('jsons', mapping => '{"columns": {"id": "id", "payload": "payload", "headers": "meta", "occurred_at": "at", "created_at": "at",
    "processed_at": "done_at", "attempts": "tries"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
insert into jsons (id, payload, meta) values (1, '{"n": 1}', '{"a": 1}'), (2, '{"n": "\u0000"}', null), (3, '[1e999999]', '{"a": "\u0000"}'), (4, '{"n": 4}', '[1]');
insert into jsons (id, payload, at) values (5, '5', 'infinity'), (6, '6', '-infinity');
select results_eq($$ select id, payload, headers from baton.claim_adopted('jsons', 'w') order by 1 $$,
    $$ values ('1', '{"n": 1}'::jsonb, '{"a": 1}'::jsonb), ('2', to_jsonb('{"n": "\u0000"}'::text), '{}'), ('3', to_jsonb('[1e999999]'::text), jsonb_build_object('unreadable-headers', '{"a": "\u0000"}'::text)),
              ('4', '{"n": 4}', '{"unreadable-headers": [1]}'), ('5', '5', '{}'), ('6', '6', '{}') $$,
    'a claim gives JSON that is no jsonb as text, and all others as they are');
select results_eq($$ select id, payload, headers from baton_internal.claim_rows_for_relay((select outbox_id from baton.adopted_outboxes), 'r', 10, 30, '{}', '{}') order by 1 $$,
    $$ values ('1', '{"n": 1}', '{"a": 1}'), ('2', '{"n": "\u0000"}', '{}'), ('3', '[1e999999]', '{"a": "\u0000"}'), ('4', '{"n": 4}', '[1]'), ('5', '5', '{}'), ('6', '6', '{}') $$,
    'a relay gets it as it is');
select is((select count(*)::int from unnest('{2,3}'::text[]) i, baton.fail_adopted('jsons', i, 'no', true)), 2, 'such a row can be failed');
select results_eq($$ select id, payload from baton.adopted_dead_letters('jsons') order by 1 $$, $$ values ('2', to_jsonb('{"n": "\u0000"}'::text)), ('3', to_jsonb('[1e999999]'::text)) $$, 'listed as a dead letter');
select is((select count(*)::int from baton.ack_adopted('jsons', '{1,4,5,6}')), 4, 'and the others are settled');
select lives_ok($$ select baton.outbox_status(), baton.adopted_status() $$, 'an event at infinity spoils no view');

-- adopted inbox
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload json, headers json, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
insert into arrivals (event_id, event_type, payload, headers, received_at)
values ('1', 't', '{"n": 1}', '{"a": 1}', now() - interval '5 s'), ('2', 't', '"\u0000"', null, now() - interval '4 s'), ('3', 't', '3', '"\ud800"', now() - interval '3 s'),
       ('4', 't', '4', null, '-infinity');
select results_eq($$ select event_id, payload, headers from baton.claim_inbox('arrivals', 'w') order by 1 $$,
    $$ values ('1', '{"n": 1}'::jsonb, '{"a": 1}'::jsonb), ('2', to_jsonb('"\u0000"'::text), null), ('3', '3', to_jsonb('"\ud800"'::text)), ('4', '4', null) $$, 'a claim of an inbox goes the same way');
select lives_ok($$ select baton.inbox_status() $$, 'and every view shows');
select lives_ok($$ select * from baton.inbox_health('arrivals') $$, 'also of its health');
select * from finish();

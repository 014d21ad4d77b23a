-- Where else an event is: adopted outboxes, inboxes of every kind; when it was committed, and what people did about it.
select no_plan();
update baton.jobs set enabled = false;
select baton.create_outbox('orders');
select baton.create_inbox('payments', max_retries => 1);
select baton.publish('orders', 'made', '{"n": 1}', aggregate_id => 'a', event_id => '0190a0a0-0000-7000-8000-000000000001');

-- when: only where the server keeps it
select is((select baton.event_committed_at('orders', id) is not null from orders), current_setting('track_commit_timestamp') = 'on', 'when an event was committed is told where the server keeps it');
select is(baton.event_committed_at('orders', 99), null, 'of an event that is not there nothing is said');

-- inboxes: managed, adopted with ids of another kind, adopted with a state
create table arrivals (event_id int primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
create table letters (event_id text primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                      retry_count int not null default 0, error text);
select baton.adopt_inbox('letters', max_retries => 2);
create table processed_events (event_id uuid primary key, consumer_group text not null, processed_at timestamptz not null default now(), expires_at timestamptz not null default now() + interval '1 day');
select baton.adopt_inbox('processed_events', consumer_group => 'billing');

create function receipts() returns setof text language sql as $$
    select concat_ws(' ', inbox, state, attempts, received_at is not null, processed_at is not null, dead_letter ~ '^inbox:[0-9]+:0190') from baton.event_receipts('0190a0a0-0000-7000-8000-000000000001') order by 1 $$;
select is_empty('select receipts()', 'nobody has received it');
select baton.receive('payments', '0190a0a0-0000-7000-8000-000000000001', 'made', '{"n": 1}');
insert into letters (event_id, event_type, payload, retry_count) values ('0190a0a0-0000-7000-8000-000000000001', 'made', '{}', 2);
insert into processed_events (event_id, consumer_group) values ('0190a0a0-0000-7000-8000-000000000001', 'billing');
select results_eq('select receipts()', $$ values ('public.letters dead 2 t f t'), ('public.payments pending 0 t f'), ('public.processed_events processed f t') $$,
                  'received, dead in an adopted inbox, and marked in one that keeps ids only');
create temp table claimed as select * from baton.claim_inbox('payments', 'w');
select is((select leased_by from baton.event_receipts('0190a0a0-0000-7000-8000-000000000001') where inbox = 'public.payments'), 'w', 'who works on it');
select baton.complete_inbox('payments', (select array_agg(event_id) from claimed), lease_token => (select lease_token from claimed limit 1));
select is((select concat_ws(' ', state, processed_at is not null) from baton.event_receipts('0190a0a0-0000-7000-8000-000000000001') where inbox = 'public.payments'), 'processed t', 'and handled');

-- adopted outboxes: ids of their own, and none
create table mails (id int primary key, event uuid, kind text, payload text, at timestamptz not null default now(), done_at timestamptz, tries int not null default 0,
                    taken timestamptz, taker text, why text);
select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "event_id": "event", "event_type": "kind", "payload": "payload", "occurred_at": "at", "processed_at": "done_at",
    "attempts": "tries", "locked_at": "taken", "locked_by": "taker", "last_error": "why"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
create table plain (id bigserial primary key, data json not null);
select baton.adopt_outbox('plain', mapping => '{"columns": {"id": "id", "payload": "data"}, "done": {"as": "delete"}, "attempts": {"limit": 2}, "dead": {"as": "move", "table": "plain_dead"},
    "backoff": {"kind": "none"}}');
insert into mails (id, event, kind, payload) values (7, '0190a0a0-0000-7000-8000-000000000002', 'sent', '{"n": 12345678901234567890}');
insert into plain (data) values ('{"n": 1}');
select results_eq($$ select outbox, row_id, state, event ->> 'payload' from baton.find_adopted_events('0190a0a0-0000-7000-8000-000000000002') $$,
                  $$ values ('public.mails', '7', 'waiting', '{"n": 12345678901234567890}') $$, 'an event of an adopted outbox is found by its id');
select results_eq($$ select row_id, event ->> 'event_type' from baton.find_adopted_events('7', 'mails') $$, $$ values ('7', 'sent') $$, 'or by its row, in a named one');
select is_empty($$ select * from baton.find_adopted_events('7') $$, 'a row alone is no event');
select is_empty($$ select * from baton.find_adopted_events('no uuid') $$, 'an id of another kind is in none');
select is_empty($$ select * from baton.find_adopted_events('0190a0a0-0000-7000-8000-000000000002', 'plain') $$, 'nor is it in another table');
select results_eq($$ select outbox, row_id, state, event ->> 'event_id' from baton.find_adopted_events('public.plain:1') $$, $$ values ('public.plain', '1', 'waiting', 'public.plain:1') $$,
                  'a table without ids has those that a relay sends');
select count(*) from baton.claim_adopted('mails', 'w1');
select results_eq($$ select state, worker from baton.find_adopted_events('7', 'mails') $$, $$ values ('leased', 'w1') $$, 'leased');
select count(*) from baton.fail_adopted('mails', '7', 'no answer');
select results_eq($$ select state, attempts, error from baton.find_adopted_events('7', 'mails') $$, $$ values ('retry', 1, 'no answer') $$, 'to be tried again, and why');
select count(*) from baton.fail_adopted('mails', '7', 'no answer', true);
select results_eq($$ select state, dead_letter from baton.find_adopted_events('7', 'mails') $$, $$ select 'dead', letter from baton.all_dead_letters('mails') $$, 'dead, with the name of its letter');
select baton.replay_adopted('mails', '{7}');
select baton.ack_adopted('mails', '{7}');
select results_eq($$ select state, settled_at is not null from baton.find_adopted_events('7', 'mails') $$, $$ values ('settled', true) $$, 'settled, and when');
select count(*) from baton.fail_adopted('plain', '1', 'not now');
select results_eq($$ select state, attempts, error from baton.find_adopted_events('1', 'plain') $$, $$ values ('retry', 1, 'not now') $$, 'attempts that the table does not count are told once');
select count(*) from baton.fail_adopted('plain', '1', 'never');
select results_eq($$ select state, attempts, error from baton.find_adopted_events('1', 'plain') $$, $$ values ('dead', 2, 'never') $$, 'a dead letter that was moved to its own table');

-- what people did
select baton.edit_inbox_message('letters', '0190a0a0-0000-7000-8000-000000000001', '{"n": 2}');
select baton.replay_inbox_messages('letters', '{0190a0a0-0000-7000-8000-000000000001}'::text[]);
select results_eq($$ select action || ' ' || object from baton.event_actions('orders', '0190a0a0-0000-7000-8000-000000000001', 1) $$,
                  $$ values ('edit_inbox_message public.letters'), ('replay_inbox_messages public.letters') $$, 'what was done with it in inboxes');
update letters set retry_count = 2;
select baton.discard_inbox_messages('letters', '{0190a0a0-0000-7000-8000-000000000001}'::text[], 'test');
select is((select count(*) from baton.event_actions('orders', '0190a0a0-0000-7000-8000-000000000001', 1) where action = 'discard_inbox_message'), 1::bigint, 'discarded, too');
select results_eq($$ select action from baton.event_actions('public.mails', '0190a0a0-0000-7000-8000-000000000002', null, '7') $$, $$ values ('replay_adopted') $$, 'and with a row of an adopted outbox');

-- who may not read a table is told of the rest
create role event_reader;
grant baton_viewer to event_reader;
grant select on plain to event_reader;
insert into plain (id, data) values (2, '{}');
grant event_reader to current_user;
set role event_reader;
select is((select count(*) from baton.find_adopted_events('0190a0a0-0000-7000-8000-000000000002')), 0::bigint, 'a reader without rights on a table is told of none of its rows');
select is((select string_agg(inbox, ' ') from baton.event_receipts('0190a0a0-0000-7000-8000-000000000001')), 'public.payments', 'nor of an adopted inbox');
select is((select count(*) from baton.event_actions('orders', '0190a0a0-0000-7000-8000-000000000001', 1)), 0::bigint, 'and the audit trail is the operators''');
select results_eq($$ select row_id, state from baton.find_adopted_events('2', 'plain') $$, $$ values ('2', 'waiting') $$, 'who may read an adopted table finds its rows');
select is_empty($$ select * from baton.find_adopted_events('1', 'plain') $$, 'and not those of the table of its dead letters');
reset role;
grant select on plain_dead to event_reader;
set role event_reader;
select results_eq($$ select row_id, state from baton.find_adopted_events('1', 'plain') $$, $$ values ('1', 'dead') $$, 'unless they may read that one, too');
reset role;
alter table plain_dead enable row level security;
set role event_reader;
select is_empty($$ select * from baton.find_adopted_events('1', 'plain') $$, 'in full');
reset role;
revoke all on plain, plain_dead from event_reader;
drop role event_reader;
select * from finish();

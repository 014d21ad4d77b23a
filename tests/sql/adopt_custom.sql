-- Tables that no preset describes, mappings that make no sense, and what must not happen to a table.
begin;
select no_plan();
set local client_min_messages = warning;

-- a table with an enum, a claimed state, text payload, no retry time and no error column
create type "Mail State" as enum ('new', 'working', 'gone', 'broken');
create table "Odd ""Mails""" (
    "No" int primary key,
    state "Mail State" not null default 'new',
    body text,
    tries int not null default 0,
    taken timestamptz,
    sent timestamptz
);
select is(baton.adopt_outbox('"Odd ""Mails"""', mapping => '{
    "columns": {"id": "No", "payload": "body", "status": "state", "attempts": "tries", "locked_at": "taken", "processed_at": "sent"},
    "states": {"pending": "new", "claimed": "working", "done": "gone", "dead": "broken"},
    "attempts": {"limit": 2}, "backoff": {"kind": "fixed", "base_seconds": 60}, "retention": {"done_after": "1 day"}}'),
    'public."Odd ""Mails"""', 'a table none of the presets describes is adopted by its mapping');
insert into "Odd ""Mails""" ("No", body) values (1, '{"a": 1}'), (2, 'not json'), (3, null);
select results_eq($$select id, payload, headers, attempt from baton.claim_adopted('"Odd ""Mails"""', 'w', 2)$$,
                  $$values ('1', '{"a": 1}'::jsonb, '{}'::jsonb, 1), ('2', '"not json"', '{}', 1)$$, 'text is given as JSON where it is JSON, else as a string');
select is((select array_agg(state::text order by "No") from "Odd ""Mails"""), '{working,working,new}', 'claimed rows are in the claimed state');
select results_eq($$select id from baton.claim_adopted('"Odd ""Mails"""', 'w')$$, $$values ('3')$$, 'and not claimed again');
select is((select count(*) from baton.ack_adopted('"Odd ""Mails"""', '{1}')), 1::bigint, 'a claimed row is acknowledged');
select is((select f.due from baton.fail_adopted('"Odd ""Mails"""', '2', 'bounced') f), now() + interval '60 seconds', 'another fails');
select is((select array_agg(state::text order by "No") from "Odd ""Mails"""), '{gone,new,working}', 'each comes into its state');
select is_empty($$select id from baton.claim_adopted('"Odd ""Mails"""', 'w')$$, 'the failed one waits');
update "Odd ""Mails""" set taken = now() - interval '5 minutes 1 second' where "No" = 3;
select is((select affected from baton.run_adopted_maintenance('"Odd ""Mails"""') where action = 'locks_freed'), 1::bigint, 'a stale claim is freed');
select is((select f.dead from baton.fail_adopted('"Odd ""Mails"""', '2', 'bounced twice') f), true, 'the second failure is the last');
select results_eq($$select id, error from baton.adopted_dead_letters('"Odd ""Mails"""')$$, $$values ('2', 'bounced twice')$$, 'it is a dead letter');

-- a table where done rows are deleted, with no state at all
create table plain (id bigserial primary key, data json not null);
select lives_ok($$select baton.adopt_outbox('plain', mapping => '{"columns": {"id": "id", "payload": "data"}, "done": {"as": "delete"},
    "attempts": {"limit": 3}, "dead": {"as": "move", "table": "plain_dead"}, "backoff": {"kind": "none"}}')$$, 'a bare table is adopted');
insert into plain (data) values ('{"n": 1}'), ('{"n": 2}');
select is((select count(*) from baton.claim_adopted('plain', 'w')), 2::bigint, 'its rows are claimed');
select is((select count(*) from baton.ack_adopted('plain', '{1}')), 1::bigint, 'acknowledged');
select is((select count(*) from plain), 1::bigint, 'and deleted');
select is((select array_agg(f.dead order by n) from generate_series(1, 3) n, lateral baton.fail_adopted('plain', '2', 'e' || n) f), '{f,f,t}'::boolean[],
          'attempts are counted though the table has no column for them');
select is((select count(*) from plain_dead), 1::bigint, 'and the dead row moves');
select results_eq($$select baton.replay_adopted('plain', '{2}')$$, $$values ('2')$$, 'and back');

-- a table where a row is dead by its count alone
create table counted (id int primary key, payload jsonb, done_at timestamptz, n int not null default 0);
select lives_ok($$select baton.adopt_outbox('counted', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "attempts": "n"},
    "attempts": {"limit": 4}, "backoff": {"kind": "none"}}')$$, 'a table with attempts and a limit is adopted');
insert into counted values (1), (2);
select is((select (f.dead, f.attempts) = (true, 4) from baton.fail_adopted('counted', '1', 'never', true) f), true, 'a permanent failure uses up all attempts');
select results_eq($$select id from baton.claim_adopted('counted', 'w')$$, $$values ('2')$$, 'such a row is not claimed');
select results_eq($$select id, attempts, error from baton.adopted_dead_letters('counted')$$, $$values ('1', 4, 'never')$$, 'it is a dead letter');
select results_eq($$select baton.replay_adopted('counted', '{1,2}')$$, $$values ('1')$$, 'only dead letters are replayed');
select results_eq($$select id, dead, attempts from baton.fail_adopted('counted', array['1', '2', '99'], 'not now') order by 1$$, $$values ('1', false, 1), ('2', false, 1)$$,
                  'several events fail at once, as several are acknowledged');
select results_eq($$select baton.ack_adopted('counted', '{1,2}') order by 1$$, $$values ('1'), ('2')$$, 'and are settled at last');
update counted set done_at = null, n = 0;

-- one name in two schemas
create schema other;
create table other.counted (like counted including all);
select throws_ok($$select * from baton.claim_adopted('other.counted', 'w')$$, '42704', null, 'a table of the same name elsewhere is not adopted');
select lives_ok($$select baton.adopt_outbox('other.counted', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}')$$, 'it can be');
insert into other.counted values (7);
select results_eq($$select id from baton.claim_adopted('other.counted', 'w')$$, $$values ('7')$$, 'and is found by its schema');
set local search_path = other, public;
select results_eq($$select id from baton.claim_adopted('counted', 'w')$$, $$values ('7')$$, 'or by the search path');
set local search_path = public;

create schema "Odd Schema";
create table "Odd Schema"."Odd Table" (id int primary key, payload jsonb, done_at timestamptz);
select is(baton.adopt_outbox('"Odd Schema"."Odd Table"', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"},
    "dead": {"table": "{table} dead"}}'), '"Odd Schema"."Odd Table"', 'names that need quotes are quoted');
insert into "Odd Schema"."Odd Table" values (1, '{}');
select is((select f.dead from baton.fail_adopted('"Odd Schema"."Odd Table"', '1', 'x', true) f), true, 'everywhere');
select is((select count(*) from "Odd Schema"."Odd Table dead"), 1::bigint, 'in the names of companions too');

-- what is refused
create view a_view as select * from counted;
create table no_key (id int not null, payload jsonb, done_at timestamptz);
create table composite (id int, part int, payload jsonb, done_at timestamptz, primary key (id, part));
create table nullable (id int unique, payload jsonb, done_at timestamptz);
create table typed (id int primary key, payload jsonb, done_at text, n text, status smallint);
do $$
begin
    create foreign data wrapper nowhere;
    create server nowhere foreign data wrapper nowhere;
    create foreign table a_foreign_table (id int, payload jsonb) server nowhere;
exception when insufficient_privilege then null;  -- only a superuser can; the test below is skipped for others
end
$$;
create temp table a_temp_table (id int primary key, payload jsonb, done_at timestamptz);
create function refused(name text, mapping text, state text, about text) returns text language sql as $$
    select throws_ok(format('select baton.adopt_outbox(%L, mapping => %L)', name, mapping), state, null, about)
$$;
select refused('nowhere.at_all', '{}', '42P01', 'a table that is not there');
select refused('a_view', '{}', '42809', 'a view');
select case when to_regclass('a_foreign_table') is null then skip('only a superuser can make a foreign table')
            else refused('a_foreign_table', '{}', '42809', 'a foreign table') end;
select refused('a_temp_table', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}', '42809', 'a temporary table');
select refused('baton.settings', '{}', '42809', 'a table of baton''s own');
select isnt(baton.create_outbox('a_log'), null, 'baton has an outbox of its own');
select refused('a_log', '{}', 'BT004', 'an outbox of baton''s own');
select refused('a.b.c', '{}', '42602', 'a name with too many parts');
select refused('x; drop table counted', '{}', '42602', 'a name with more than a name in it');
select refused(repeat('x', 200), '{}', '42622', 'a name too long');
select refused('', '{}', '22023', 'an empty name');
select refused('typed', '{}', '22023', 'a table none of the presets describes, without a mapping');
select refused('no_key', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}', '22023', 'an id that is not unique');
select refused('composite', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}', '22023', 'an id that is unique only with something else');
select refused('nullable', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}', '22023', 'an id that may be null');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_on"}}', '42703', 'a column that is not there');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}', '42804', 'a time that is not a time');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "attempts": "n"}, "done": {"as": "delete"}}', '42804', 'a count that is not a number');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "trace_id": {"column": "n", "key": "t"}}, "done": {"as": "delete"}}', '42804', 'a key in a column that is not JSON');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "status": "status"}, "states": {"pending": "new", "done": 1}}', '22023', 'a state that its column cannot hold');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "status": "status"}, "states": {"pending": 0, "done": 70000}}', '22023', 'a state that is too large');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "status": "status"}, "states": {"pending": 1, "done": 1}}', '22023', 'two states with one value');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "status": "status"}, "states": {"done": 1}}', '22023', 'no pending state');
select refused('typed', '{"columns": {"id": "id", "payload": "payload", "status": "status"}, "states": {"pending": 0, "done": 1, "claimed": 2}}', '22023', 'a claimed state without a lock time');
select refused('counted', '{"columns": {"id": "id", "payload": "payload"}}', '22023', 'no way to be done');
select refused('counted', '{"columns": {"payload": "payload"}}', '22023', 'no id');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at", "available_at": "done_at"}}', '22023', 'one column for two parts of the state');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "dead": {"as": "attempts"}}', '22023', 'dead by attempts without a count');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "colour": {"as": "red"}}', '22023', 'an unknown part');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "finished": "done_at"}}', '22023', 'an unknown role');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "backoff": {"base_seconds": -1}}', '22023', 'a negative wait');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "retention": {"done_after": "soon"}}', '22023', 'an age that is none');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "order": ["topic"]}', '22023', 'an order by something not mapped');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "offsets": {"table": "x", "partition": "topic"}}', '22023', 'offsets partitioned by something not mapped');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "archive": {"table": "x", "after": "1 day"}}', '22023', 'an archive with nothing to partition by');
select refused('counted', '[]', '22023', 'a mapping that is no object');
select refused('counted', '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}, "dead": {"table": "composite"}}', '42703', 'a table for dead letters that has no room for the row');
select throws_ok($$select baton.adopt_outbox('typed', 'rainbow')$$, '42704', null, 'an unknown preset');
select throws_ok($$select baton.adopt_outbox('typed', 'ulid')$$, '42703', null, 'a preset whose columns the table lacks');

-- bad calls
select throws_ok($$select * from baton.claim_adopted('counted', 'w', 0)$$, '22023', null, 'an empty batch is refused');
select throws_ok($$select * from baton.claim_adopted('counted', 'w', -5)$$, '22023', null, 'a negative batch is refused');
select throws_ok($$select * from baton.claim_adopted('counted', null)$$, '22023', null, 'a claim without a worker is refused');
select throws_ok($$select * from baton.ack_adopted('counted', null)$$, '22004', null, 'ids that are null are refused');
select throws_ok($$select * from baton.ack_adopted('counted', '{1,null}')$$, '22004', null, 'an id that is null is refused');
select throws_ok($$select * from baton.ack_adopted('counted', '{one}')$$, '22P02', null, 'an id of the wrong type is refused');
select throws_ok($$select baton.replay_adopted('counted', null)$$, '22004', null, 'a replay of null is refused');
select throws_ok($$select * from baton.read_consumer_batch('counted', 'c')$$, 'BT004', null, 'offsets need their table');
drop table other.counted;
select throws_ok($$select * from baton.claim_adopted('other.counted', 'w')$$, '42P01', null, 'a dropped table is told');
select isnt((select problem from baton.adopted_status('other.counted')), null, 'and shown by the status');
select is((select array_agg(action) from baton.run_adopted_maintenance('other.counted')), '{failed}', 'and by maintenance, which goes on with the others');
select lives_ok($$select baton.unadopt_outbox('other.counted')$$, 'its adoption can end');

-- rights
create role adopt_stranger;
grant baton_operator, baton_relay to adopt_stranger;
create role adopt_owner;
grant adopt_owner, adopt_stranger to current_user;
grant baton_operator to adopt_owner;
grant create, usage on schema public to adopt_owner;
create table owned (id int primary key, payload jsonb, done_at timestamptz);
select form = 'extension' as as_owner, current_user as me from baton.installation \gset
alter table owned owner to adopt_owner;
set local role adopt_stranger;
select throws_ok($$select baton.adopt_outbox('owned', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}')$$, '42501', null, 'only its owner adopts a table');
select throws_ok($$select baton_internal.save_adopted('owned', 'custom', '{}')$$, '42501', null, 'also not by the back door');
set local role adopt_owner;
\if :as_owner
select lives_ok($$select baton.adopt_outbox('owned', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}')$$, 'the owner does, without being a superuser');
insert into owned values (1, '{}');
set local role adopt_stranger;
select throws_ok($$select * from baton.claim_adopted('owned', 'w')$$, '42501', null, 'a relay has no rights on the table but its own');
select throws_ok($$select baton.unadopt_outbox('owned')$$, '42501', null, 'only the owner ends an adoption');
set local role adopt_owner;
grant select, update on owned to adopt_stranger;
set local role adopt_stranger;
select is((select count(*) from baton.claim_adopted('owned', 'w')), 1::bigint, 'with the rights granted it claims');
select is((select count(*) from baton.ack_adopted('owned', '{1}')), 1::bigint, 'and acknowledges');
\else
select throws_ok($$select baton.adopt_outbox('owned', mapping => '{"columns": {"id": "id", "payload": "payload", "processed_at": "done_at"}}')$$, '42501', null,
                 'without the extension baton works no table of an owner who may not act as baton''s');
\endif
reset role;

select * from finish();
rollback;

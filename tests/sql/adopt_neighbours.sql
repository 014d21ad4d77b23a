-- Tables of other products: presets where they can be adopted safely, a clear no where not; and the dry run of any adoption.
select no_plan();
set client_min_messages = warning;

-- a dry run shows everything and changes nothing
create table mails (mail_no bigserial primary key, kind text not null, body jsonb not null, state text not null default 'new', made_at timestamptz not null default now());
create function rehearsed(name text, mapping jsonb default '{}', preset text default null) returns jsonb language sql as
    $$ select baton.adopt_outbox(name, preset, mapping, dry_run => true)::jsonb $$;
create temp table told as select rehearsed('mails', '{"columns": {"id": "mail_no", "event_type": "kind", "payload": "body", "status": "state", "created_at": "made_at"},
    "states": {"pending": "new", "done": "sent"}, "dead": {"as": "move", "table": "dead_mails"}, "attempts": {"limit": 3}}') as report;
select is(report - '{statements,mapping,notes}'::text[], '{"table": "public.mails", "preset": "custom", "creates": ["public.dead_mails"]}', 'a dry run says what would be made') from told;
select is(report #>> '{mapping,states,done}', 'sent', 'the mapping in full') from told;
select is(report #> '{mapping,order}', '["created_at"]', 'with what it leaves open') from told;
select bag_eq($$ select jsonb_array_elements_text(report -> 'notes') from told $$,
    $$ values ('there are no lock columns: a claim is an open transaction'), ('there is no partition key: nothing keeps events in order'),
              ('there is no column for attempts: baton counts them in baton_internal.adopted_failures'),
              ('there is no column for the error: baton keeps it in baton_internal.adopted_failures') $$, 'what one should know');
select bag_eq($$ select jsonb_object_keys(report -> 'statements') from told $$, $$ values ('claim'), ('acknowledge'), ('fail'), ('list dead letters'), ('replay') $$, 'and the statements');
select matches((select report #>> '{statements,claim}' from told), 'skip locked', 'as they would run');
select is(to_regclass('dead_mails'), null, 'nothing was made');
select is((select count(*)::int from baton.adopted_outboxes), 0, 'nothing was adopted');
select is(rehearsed('mails') #>> '{refused,message}', 'the layout of public.mails is none of the presets', 'what is missing is told, not raised');
select is(rehearsed('mails', '{"columns": {"id": "nr", "payload": "body"}, "done": {"as": "delete"}}') #>> '{refused,message}',
          'column "nr" of public.mails does not exist, but is mapped as id', 'so is what does not fit');
select matches(rehearsed('mails', '{"columns": {"id": "nr", "payload": "body"}, "done": {"as": "delete"}}') #>> '{refused,hint}', 'map another one', 'with the hint');
select throws_ok($$ select baton.adopt_outbox('no_mails', dry_run => true) $$, '42P01', null, 'a table that is not there has no dry run');

-- what one of these tables does with its events: claimed, settled, failed to the end, and replayed
create function worked(name text, ids text[]) returns setof text language plpgsql as $$
declare
    last record;
begin
    return next is(array(select id from baton.claim_adopted(name, 'w')), ids, name || ': all events come in order');
    return next is(array(select baton.ack_adopted(name, ids[1:1])), ids[1:1], name || ': one is settled');
    execute format('select count(*) from %s', name) into last;
    return next is(last.count::int, cardinality(ids) - 1, name || ': and deleted, as was asked');
    last := baton.fail_adopted(name, ids[2], 'not today');
    return next is((last.dead, last.due > now()), (false, true), name || ': one fails and waits');
    return next is(array(select id from baton.claim_adopted(name, 'w')), ids[3:], name || ': only the others come');
    last := baton.fail_adopted(name, ids[2], 'never', true);
    return next is(array(select id from baton.adopted_dead_letters(name)), ids[2:2], name || ': a dead letter is kept');
    return next is(array(select baton.replay_adopted(name, ids[2:2])), ids[2:2], name || ': and replayed');
    return next is(array(select id from baton.claim_adopted(name, 'w')), ids[2:], name || ': then it comes again');
end $$;

-- Debezium's outbox event router
create table outboxevent (id uuid not null primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb);
insert into outboxevent select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'order', n, 'OrderCreated', jsonb_build_object('n', n) from generate_series(1, 3) n;
select throws_ok($$ select baton.adopt_outbox('outboxevent') $$, '22023', 'no column of public.outboxevent (preset outboxevent) says that an event is done', 'nothing is deleted unasked');
select is(rehearsed('outboxevent') - 'refused', '{"table": "public.outboxevent", "preset": "outboxevent"}', 'the table is recognised');
select ok(rehearsed('outboxevent', '{"done": {"as": "delete"}}') -> 'notes' ? 'rows are deleted when they are delivered', 'a dry run warns');
select is(baton.adopt_outbox('outboxevent', mapping => '{"done": {"as": "delete"}}'), 'public.outboxevent', 'Debezium''s table is adopted');
select results_eq($$ select event_id, aggregate_type, aggregate_id, event_type, payload from baton.claim_adopted('outboxevent', 'w', 1) $$,
    $$ values ('00000000-0000-0000-0000-000000000001', 'order', '1', 'OrderCreated', '{"n": 1}'::jsonb) $$, 'its columns are understood');
select worked('outboxevent', array(select id::text from outboxevent order by 1));
create table outbox_of_quarkus (id uuid not null primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, type varchar(255) not null,
    "timestamp" timestamp not null, payload varchar(8000), tracingspancontext varchar(256));
select is(rehearsed('outbox_of_quarkus', '{"done": {"as": "delete"}, "columns": {"created_at": "timestamp", "occurred_at": "timestamp"}, "order": ["created_at"]}') -> 'refused', null,
          'with more columns, too');

-- pgmq
create schema pgmq;
create table pgmq.q_orders (msg_id bigint primary key generated always as identity, read_ct int default 0 not null, enqueued_at timestamptz default now() not null,
    vt timestamptz not null, message jsonb, headers jsonb);
insert into pgmq.q_orders (vt, message) select now() + case n when 4 then interval '1 hour' else '0' end, jsonb_build_object('n', n) from generate_series(1, 4) n;
select throws_ok($$ select baton.adopt_outbox('pgmq.q_orders') $$, '22023', null, 'nothing of a queue is deleted unasked');
select is(baton.adopt_outbox('pgmq.q_orders', mapping => '{"done": {"as": "delete"}, "columns": {"headers": "headers"}}'), 'pgmq.q_orders', 'a queue of pgmq is adopted');
delete from pgmq.q_orders where msg_id = 4 and 4 <> all (select c.id::int from baton.claim_adopted('pgmq.q_orders', 'w') c);
select is((select count(*)::int from pgmq.q_orders), 3, 'what is not visible yet does not come');
select worked('pgmq.q_orders', '{1,2,3}');

-- MassTransit
create table "OutboxMessage" ("SequenceNumber" bigint generated by default as identity primary key, "EnqueueTime" timestamptz, "SentTime" timestamptz not null, "Headers" text, "Properties" text,
    "InboxMessageId" uuid, "InboxConsumerId" uuid, "OutboxId" uuid, "MessageId" uuid not null, "ContentType" varchar(256) not null, "MessageType" text not null, "Body" text not null,
    "ConversationId" uuid, "CorrelationId" uuid, "InitiatorId" uuid, "RequestId" uuid, "SourceAddress" varchar(256), "DestinationAddress" varchar(256), "ResponseAddress" varchar(256),
    "FaultAddress" varchar(256), "ExpirationTime" timestamptz);
insert into "OutboxMessage" ("SentTime", "MessageId", "ContentType", "MessageType", "Body", "CorrelationId")
select now(), ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'application/json', 'urn:message:Shop:OrderPlaced', '{"n": 1}', '00000000-0000-0000-0000-00000000000c' from generate_series(1, 3) n;
select is(baton.adopt_outbox('"OutboxMessage"', mapping => '{"done": {"as": "delete"}}'), 'public."OutboxMessage"', 'MassTransit''s table is adopted');
select results_eq($$ select event_id, event_type, payload, correlation_id from baton.claim_adopted('"OutboxMessage"', 'w', 1) $$,
    $$ values ('00000000-0000-0000-0000-000000000001', 'urn:message:Shop:OrderPlaced', '{"n": 1}'::jsonb, '00000000-0000-0000-0000-00000000000c') $$, 'its columns are understood');
select worked('"OutboxMessage"', '{1,2,3}');

-- a clear no
create table event_publication (id uuid not null primary key, listener_id text not null, event_type text not null, serialized_event text not null,
    publication_date timestamptz not null, completion_date timestamptz);
create table wolverine_outgoing_envelopes (id uuid not null primary key, owner_id int not null, destination varchar not null, deliver_by timestamptz, body bytea not null,
    attempts int default 0, message_type varchar not null);
create table event_1_0 (ev_id bigint not null, ev_time timestamptz not null, ev_txid bigint not null, ev_owner int, ev_retry int, ev_type text, ev_data text, ev_extra1 text,
    ev_extra2 text, ev_extra3 text, ev_extra4 text);
select throws_ok($$ select baton.adopt_outbox('event_publication') $$, '0A000', 'public.event_publication looks like Spring Modulith''s event_publication, which cannot be adopted safely',
                 'a publication belongs to its listener');
select throws_ok($$ select baton.adopt_outbox('wolverine_outgoing_envelopes') $$, '0A000', null, 'an envelope belongs to its node');
select throws_ok($$ select baton.adopt_outbox('event_1_0') $$, '0A000', null, 'a table of PgQ is emptied by PgQ');
select is(rehearsed('event_publication') #>> '{refused,sqlstate}', '0A000', 'a dry run says so, too');
select matches(rehearsed('event_publication') #>> '{refused,detail}', 'lost for that listener', 'with the reason');
select is(rehearsed('event_publication', '{"columns": {"id": "id", "event_id": "id", "event_type": "event_type", "payload": "serialized_event", "processed_at": "completion_date",
    "created_at": "publication_date", "occurred_at": "publication_date"}}') -> 'refused', null, 'who maps every column knows what he does');

-- a dry run gives no rights
select 'lodger_' || current_database() as lodger \gset
create role :"lodger";
grant :"lodger" to current_user;
grant baton_operator to :"lodger";
set role :"lodger";
select matches(rehearsed('mails', '{"columns": {"id": "mail_no", "payload": "body"}, "done": {"as": "delete"}}') #>> '{refused,sqlstate}', '42501', 'who may not adopt a table learns that');
reset role;
drop role :"lodger";

select * from finish();

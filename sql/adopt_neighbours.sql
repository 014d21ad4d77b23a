-- Presets for tables of other products, as those products publish them, and tables that look like an outbox and cannot be one.

-- None of these tables says what is done: a delivered row can only be deleted, and that the user has to ask for (check_done_is_said()).
insert into baton.adoption_presets (preset, description, layout) values
('outboxevent', 'what Debezium''s outbox event router reads: aggregatetype, aggregateid, type and payload; done rows are deleted, when asked', '{
    "columns": {"id": "id", "event_id": "id", "aggregate_type": "aggregatetype", "aggregate_id": "aggregateid", "event_type": "type",
                "payload": "payload"},
    "order": ["id"],
    "attempts": {"limit": 10, "rule": "reaches"},
    "dead": {"as": "move", "table": "{table}_dlq"}
}'),
('pgmq', 'a queue of pgmq: vt says when a message may be read; done rows are deleted, when asked', '{
    "columns": {"id": "msg_id", "payload": "message", "attempts": "read_ct", "available_at": "vt", "occurred_at": "enqueued_at",
                "created_at": "enqueued_at"},
    "order": ["id"],
    "attempts": {"limit": 10, "rule": "reaches"},
    "dead": {"as": "move", "table": "{table}_dlq"}
}'),
('masstransit', 'the table OutboxMessage of MassTransit with Entity Framework; done rows are deleted, when asked', '{
    "columns": {"id": "SequenceNumber", "event_id": "MessageId", "event_type": "MessageType", "payload": "Body",
                "correlation_id": "CorrelationId", "causation_id": "InitiatorId", "available_at": "EnqueueTime",
                "occurred_at": "SentTime", "created_at": "SentTime"},
    "order": ["id"],
    "attempts": {"limit": 10, "rule": "reaches"},
    "dead": {"as": "move", "table": "{table}_dlq"}
}');

-- Tables that are recognised by their columns and not adopted, unless somebody maps every column and so takes the responsibility.
create table baton_internal.adoption_refusals (
    layout  text   primary key,
    columns text[] not null,
    why     text   not null,
    hint    text   not null
);
comment on table baton_internal.adoption_refusals is 'layouts of other products that cannot be adopted safely, by their columns';

insert into baton_internal.adoption_refusals (layout, columns, why, hint) values
('Spring Modulith''s event_publication', '{id,listener_id,event_type,serialized_event,publication_date,completion_date}',
 'a row belongs to one listener of the application, which may be at work on it right now and holds no lock; completed by another, it is lost for that listener',
 'let a listener write what is to leave the application into an outbox of baton, in its own transaction; where no listener of the application works the table, map its columns'),
('Wolverine''s wolverine_outgoing_envelopes', '{id,owner_id,destination,deliver_by,body}',
 'the body is Wolverine''s own binary envelope, and a row is in the hands of the node that owner_id names',
 'publish with baton.publish() in the handler''s transaction instead'),
('an event table of PgQ', '{ev_id,ev_time,ev_txid,ev_owner,ev_retry,ev_type,ev_data,ev_extra1}',
 'PgQ empties its tables in turn when its own consumers have read them, whatever others have read, and no row has a state',
 'read it as a consumer of PgQ that calls baton.publish_many() in the transaction that finishes the batch');

-- The refusal that a table meets by its columns, or null.
create function baton_internal.find_refusal(relation regclass)
returns baton_internal.adoption_refusals
language sql stable
as $$
    select r from baton_internal.adoption_refusals r
     where r.columns <@ (select array_agg(a.attname::text) from pg_catalog.pg_attribute a
                          where a.attrelid = relation and a.attnum > 0 and not a.attisdropped)
     limit 1
$$;
comment on function baton_internal.find_refusal(regclass) is 'why a table of a known layout is not adopted; null for all others';

-- Refuse a preset whose layout cannot say what is done, unless the user has done rows deleted.
create function baton_internal.check_done_is_said(relation regclass, preset text, layout jsonb)
returns void
language plpgsql immutable
as $$
begin
    if preset <> 'custom' and not layout -> 'columns' ?| '{status,processed_at}' and layout #>> '{done,as}' is distinct from 'delete' then
        raise exception 'no column of % (preset %) says that an event is done', relation, preset using errcode = 'invalid_parameter_value',
            detail = 'a delivered row would have to be deleted, and baton deletes nothing unasked',
            hint = 'see to it that nobody else reads or deletes these rows, then pass mapping => ''{"done": {"as": "delete"}}''';
    end if;
end
$$;
comment on function baton_internal.check_done_is_said(regclass, text, jsonb) is 'raises where rows could only be deleted and nobody asked for that';

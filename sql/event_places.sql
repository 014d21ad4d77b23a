-- Where else an event is: adopted outboxes, inboxes of every kind, and what people did about it.

-- When an event was committed: null where the server keeps no times of commits (track_commit_timestamp), or none as old as this.
create function baton.event_committed_at(outbox regclass, event_offset bigint)
returns timestamptz
language plpgsql stable
as $$
declare
    writer xid8;
begin
    if current_setting('track_commit_timestamp') <> 'on' then
        return null;
    end if;
    -- A transaction of an earlier server, before a restore, says nothing here, and neither does one whose short number came again.
    execute pg_catalog.format('select e.xid from %s e where e.id = $1 and exists (select from baton_internal.outbox_eras o join baton.outboxes b using (outbox_id)
                                where b.relation = $2 and o.last_id is null and e.id > coalesce((select max(p.last_id) from baton_internal.outbox_eras p
                                                                                                  where p.outbox_id = o.outbox_id), 0))', outbox)
       into writer using event_offset, outbox;
    if pg_snapshot_xmax(pg_current_snapshot())::text::numeric - writer::text::numeric between 0 and 2000000000 then
        return pg_xact_commit_timestamp(xid(writer));
    end if;
    return null;
end
$$;
comment on function baton.event_committed_at(regclass, bigint) is 'when an event was committed, where the server keeps that';

-- Whether the caller may see all rows of a table that baton reads as its owner.
create function baton_internal.shows_all_rows(relation regclass)
returns boolean
language plpgsql stable
as $$
begin
    perform baton_internal.check_table_grants(relation, '{select}');
    return true;
exception when insufficient_privilege then
    return false;
end
$$;
comment on function baton_internal.shows_all_rows(regclass) is 'whether the caller may see all rows of an adopted table';

-- Read rows of an adopted outbox, and of its dead letters where the caller may read those: the one that has an event's id, or the id of a row; or the
-- latest that fit {"type", "key", "since", "until", "moment", "before"}, the last two saying behind which row.
create function baton_internal.adopted_rows_wanted(outbox_id int, event_id text default null, row_id text default null, wanted jsonb default null, most int default 10)
returns table (event baton.adopted_event, state text, worker text, error text, settled_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.adopted_outboxes := baton_internal.adopted_by_id(outbox_id);
    relation regclass := baton_internal.adopted_table(outbox);
    layout constant jsonb := outbox.layout;
    parts jsonb := baton_internal.adopted_parts(relation, layout);
    own_ids constant boolean := layout -> 'columns' ? 'event_id';
    prefix constant text := format('%s.%s:', outbox.schema_name, outbox.table_name);
    text_payload constant boolean := not baton_internal.is_jsonb(relation, layout, 'payload') and not baton_internal.is_bytea(relation, layout, 'payload');
    text_headers constant boolean := not baton_internal.is_jsonb(relation, layout, 'headers');
    dead_letters constant regclass := case when layout #>> '{dead,as}' = 'move' then to_regclass(layout #>> '{dead,table}') end;
    statement text;
    found_row record;
begin
    perform baton_internal.check_table_grants(relation, '{select}');
    if row_id is null and not own_ids and starts_with(event_id, prefix) then
        row_id := substr(event_id, length(prefix) + 1);
    end if;
    if row_id is null and not own_ids and wanted is null then
        return;
    end if;
    parts := parts || jsonb_build_object(
        'event', baton_internal.event_sql(relation, layout, parts ->> 'attempts'),
        'locked', coalesce(baton_internal.role_column(layout, 'locked_at') || ' is not null', 'false'),
        'worker', coalesce(baton_internal.role_text(layout, 'locked_by'), 'null::text'),
        'error', case when layout -> 'columns' ? 'last_error' then baton_internal.role_text(layout, 'last_error') else 'null::text' end,
        'settled_at', case when layout -> 'columns' ? 'processed_at' then baton_internal.role_column(layout, 'processed_at') || '::timestamptz' else 'null::timestamptz' end,
        'named', case when wanted is not null then format($sql$
                          ($3 ->> 'type' is null or e.event_type = $3 ->> 'type') and ($3 ->> 'key' is null or coalesce(e.partition_key, e.aggregate_id) = $3 ->> 'key')
                          and ($3 ->> 'since' is null or e.occurred_at >= ($3 ->> 'since')::timestamptz) and ($3 ->> 'until' is null or e.occurred_at <= ($3 ->> 'until')::timestamptz)
                          and ($3 ->> 'moment' is null or (%s, e.id collate "C") < (($3 ->> 'moment')::timestamptz, $3 ->> 'before' collate "C"))$sql$,
                          baton_internal.page_moment_sql('e.occurred_at'))
                      when row_id is not null then parts ->> 'chosen'
                      when baton_internal.mapped_key(layout, 'event_id') is not null then baton_internal.role_text(layout, 'event_id') || ' = any ($2)'
                      else format('t.%I = any ($2::%s[])', baton_internal.mapped_column(layout, 'event_id'), baton_internal.role_type(relation, layout, 'event_id')) end);
    statement := baton_internal.fill($query$
        select e.*, case when {done} then 'settled' when {dead} then 'dead' when {locked} then 'leased' when {attempts} > 0 then 'retry' else 'waiting' end,
               {worker}, {error}, case when {done} then {settled_at} end
          from {relation} t, lateral (select {event}) e where {named}$query$, parts);
    if dead_letters is not null and baton_internal.shows_all_rows(dead_letters) then
        statement := statement || baton_internal.fill(' union all select e.*, ''dead'', null, {error}, null from {dead_table} t, lateral (select {event}) e where {named}',
                                                      parts || jsonb_build_object('dead_table', layout #>> '{dead,table}'));
    end if;
    if wanted is not null then
        statement := format('select e.* from (%s) e order by %s desc, e.id collate "C" desc', statement, baton_internal.page_moment_sql('e.occurred_at'));
    end if;
    for found_row in
        select r.* from baton_internal.run_as_owner(relation, statement || format(' limit %s', most), ids => array[coalesce(row_id, event_id)],
                                                    arguments => coalesce(wanted, '{}') || jsonb_build_object('attempts', baton_internal.adopted_attempts(outbox.outbox_id)),
                                                    companions => baton_internal.adopted_companions(outbox))
            as r (id text, event_id text, tenant_id text, aggregate_type text, aggregate_id text, event_type text, schema_version text,
                  topic text, partition_key text, routing_keys text[], payload jsonb, headers jsonb, trace_id text, correlation_id text,
                  causation_id text, idempotency_key text, occurred_at timestamptz, attempt int, state text, worker text, error text, settled_at timestamptz)
    loop
        event := row(found_row.id, found_row.event_id, found_row.tenant_id, found_row.aggregate_type, found_row.aggregate_id, found_row.event_type, found_row.schema_version,
                     found_row.topic, found_row.partition_key, found_row.routing_keys, found_row.payload, found_row.headers, found_row.trace_id, found_row.correlation_id,
                     found_row.causation_id, found_row.idempotency_key, found_row.occurred_at, found_row.attempt);
        if text_payload or text_headers then
            event := baton_internal.complete_adopted_event(event, outbox.outbox_id, text_payload, text_headers);
        end if;
        state := found_row.state;
        worker := found_row.worker;
        error := coalesce(found_row.error, (select f.error from baton_internal.adopted_failures f where f.outbox_id = outbox.outbox_id and f.row_id = found_row.id));
        event.attempt := found_row.attempt;
        settled_at := found_row.settled_at;
        return next;
    end loop;
end
$$;
comment on function baton_internal.adopted_rows_wanted(int, text, text, jsonb, int) is 'rows of an adopted outbox that have the id of an event, or of a row, or that a search finds';

-- Find an event in adopted outboxes: by its id; in a named one also by the id of its row. Tables that the caller may not read, or whose ids
-- are of another kind, are left out.
create function baton.find_adopted_events(event_id text, in_outbox text default null)
returns table (outbox text, row_id text, state text, attempts int, worker text, error text, settled_at timestamptz, dead_letter text, event json)
language plpgsql
as $$
declare
    box record;
    by_row text;
begin
    for box in select a.outbox_id, pg_catalog.format('%I.%I', a.schema_name, a.table_name) as name from baton.adopted_outboxes a order by 1 loop
        continue when in_outbox is not null and baton_internal.known_table(in_outbox) is distinct from baton_internal.known_table(box.name);
        foreach by_row in array case when in_outbox is null then array[null] else array[null, find_adopted_events.event_id] end loop
            begin
                return query
                    select box.name, (r.event).id, r.state, greatest((r.event).attempt - 1, 0), r.worker, r.error, r.settled_at,
                           case when r.state = 'dead' then pg_catalog.format('outbox:%s:%s', box.outbox_id, (r.event).id) end,
                           pg_catalog.json_build_object('offset', null, 'event_id', (r.event).event_id, 'event_type', (r.event).event_type,
                               'aggregate_type', (r.event).aggregate_type, 'aggregate_id', (r.event).aggregate_id,
                               'key', coalesce((r.event).partition_key, (r.event).aggregate_id), 'topic', (r.event).topic, 'tenant_id', (r.event).tenant_id,
                               'trace_id', (r.event).trace_id, 'occurred_at', (r.event).occurred_at, 'payload', (r.event).payload, 'headers', (r.event).headers)
                      from baton_internal.adopted_rows_wanted(box.outbox_id, find_adopted_events.event_id, by_row) r;
                exit when found;
            exception when insufficient_privilege or undefined_table or undefined_column or data_exception then
                null;
            end;
        end loop;
    end loop;
end
$$;
comment on function baton.find_adopted_events(text, text) is 'an event in adopted outboxes, with its state there';

-- What one inbox knows of a message.
create function baton_internal.inbox_receipt(inbox_id int, message_id text)
returns table (state text, attempts int, error text, received_at timestamptz, processed_at timestamptz, leased_by text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    box baton.inboxes;
begin
    select * into box from baton.inboxes i where i.id = inbox_id;
    perform baton_internal.check_inbox_grants(box, '{select}');
    return query select 'processed', null::int, null::text, null::timestamptz, r.at, null::text
                   from baton_internal.run_as_owner(box.relation, format('select t.%I::timestamptz from %s t where t.%I = any ($2::%s[])%s limit 1',
                            box.processed_at_column, box.relation, box.id_column, baton_internal.inbox_column_type(box, box.id_column),
                            baton_internal.inbox_group_condition(box, 't.')), ids => array[message_id]) as r (at timestamptz);
end
$$;
comment on function baton_internal.inbox_receipt(int, text) is 'the mark of a message in an inbox that keeps ids only';

-- Tell which inboxes of this database have received an event, and what became of it there. An inbox that the caller may not read is left out.
create function baton.event_receipts(event_id text)
returns table (inbox text, state text, attempts int, error text, received_at timestamptz, processed_at timestamptz, leased_by text, dead_letter text)
language plpgsql
as $$
declare
    box record;
begin
    for box in select i.id, i.name, i.layout, pg_catalog.format('%I.%I', i.schema_name, i.name) as whole_name from baton.inboxes i order by i.name, i.id loop
        begin
            if box.layout = 'processed_events' then
                return query select box.whole_name, r.*, null::text from baton_internal.inbox_receipt(box.id, event_receipts.event_id) r;
            else
                return query select box.whole_name, m.state, m.attempts, m.error, m.received_at, m.processed_at, m.leased_by,
                                    case when m.state = 'dead' then pg_catalog.format('inbox:%s:%s', box.id, m.event_id) end
                               from baton.inbox_messages(box.whole_name, id => event_receipts.event_id) m;
            end if;
        exception when insufficient_privilege or undefined_table or undefined_column or data_exception or ambiguous_parameter then
            null;
        end;
    end loop;
end
$$;
comment on function baton.event_receipts(text) is 'the inboxes of this database that have an event, and what became of it';

-- Tell what people did about an event: with its dead letters at groups, and with its messages in inboxes and adopted outboxes. Who may not read the audit
-- trail is told of nothing.
create function baton.event_actions(outbox text, event_id text, event_offset bigint default null, row_id text default null)
returns table (at timestamptz, actor text, acting_for text, action text, object text)
language plpgsql stable
as $$
begin
    return query
        select t.at, t.actor, t.details ->> 'acting_for', t.action, t.object from baton.audit_trail t
         where t.action like '%dead\_letter' and t.details ->> 'offset' = event_offset::text
               and t.object in (select g.group_name from baton.consumer_groups g join baton.outboxes o using (outbox_id) where o.relation = baton_internal.known_table(outbox))
            or t.action in ('discard_inbox_message', 'edit_inbox_message') and t.details ->> 'event_id' = event_actions.event_id
            or t.action = 'replay_inbox_messages' and t.details -> 'event_ids' ? event_actions.event_id
            or t.action = 'replay_adopted' and t.object = outbox and t.details -> 'ids' ? row_id
         order by t.entry_id limit 100;
exception when insufficient_privilege then
    return;
end
$$;
comment on function baton.event_actions(text, text, bigint, text) is 'what people did about an event';

select baton_internal.declare_privileges('execute', '{baton_operator,baton_viewer}',
    '{event_committed_at,adopted_rows_wanted,find_adopted_events,inbox_receipt,event_receipts,event_actions}');

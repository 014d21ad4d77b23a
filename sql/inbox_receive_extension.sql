-- Receiving by name: the module remembers which function stores messages of which inbox, until some inbox changes.

create function baton_internal.receive_message(inbox text, event_id text, event_type text, payload jsonb, source text, aggregate_id text, headers jsonb,
                                               trace_id text, sequence_num bigint, priority int, available_at timestamptz, path name[])
returns text
language c
as 'MODULE_PATHNAME', 'baton_receive';
comment on function baton_internal.receive_message(text, text, text, jsonb, text, text, jsonb, text, bigint, int, timestamptz, name[]) is
    'stores one message; called by receive()';

-- Tell all sessions that what they remember of a table's rows is old.
create function baton_internal.announce_change()
returns trigger
language c
as 'MODULE_PATHNAME', 'baton_announce_change';
comment on function baton_internal.announce_change() is 'statement trigger: sessions forget what they know of the table';

create trigger announce_change after insert or update or delete or truncate on baton.inboxes for each statement execute function baton_internal.announce_change();
alter table baton.inboxes enable always trigger announce_change;

-- Receiving by name: the inbox's own function has its plans, and only the call is planned here.

create function baton_internal.receive_message(inbox text, event_id text, event_type text, payload jsonb, source text, aggregate_id text, headers jsonb,
                                               trace_id text, sequence_num bigint, priority int, available_at timestamptz, path name[])
returns text
language plpgsql
as $$
declare
    own constant oid := baton_internal.receiving(inbox, path);
    outcome text;
begin
    if own is null then
        return baton_internal.receive_generally(inbox, event_id, event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority, available_at, path);
    end if;
    execute pg_catalog.concat('select ', own::pg_catalog.regproc, '($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)') into outcome
      using event_id, event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority, available_at;
    return outcome;
end
$$;
comment on function baton_internal.receive_message(text, text, text, jsonb, text, text, jsonb, text, bigint, int, timestamptz, name[]) is
    'stores one message; called by receive()';

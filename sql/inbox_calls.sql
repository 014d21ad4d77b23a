-- Calls: for each managed inbox without tenants a function whose statements name its table, so that a session plans them once. baton_internal.receive_N belongs to the
-- inbox with that number. It has the rights of baton's owner and no search path of its own, which would cost each call: everything in it is named
-- with its schema, operators as well. What is out of the ordinary goes the general way, and so does everything when the table's name and number no longer belong together
-- (see sql/outbox_calls.sql).

-- The functions of an inbox, where it can have some.
create function baton_internal.make_inbox_calls(box baton.inboxes)
returns void
language plpgsql
as $make$
declare
    own constant text := 'receive_' || box.id;
begin
    if box.layout <> 'managed' or box.tenancy or baton_internal.full_name(box.relation) is null then
        return;
    end if;
    perform baton_internal.define_call(own,
        'event_id text, event_type text, payload jsonb, source text default null, aggregate_id text default null, headers jsonb default null, '
        'trace_id text default null, sequence_num bigint default null, priority int default null, available_at timestamptz default null', 'text',
        baton_internal.fill($body$
#variable_conflict use_column
declare
    moment constant timestamptz := pg_catalog.clock_timestamp();
    stored boolean;
    ignored text;
begin
    if (pg_catalog.to_regclass({name}) operator(pg_catalog.=) {number}::pg_catalog.oid and baton_internal.receiving_is_on()
        and pg_catalog.octet_length($1) operator(pg_catalog.>) 0 and $10 is null
        and greatest(pg_catalog.octet_length($1), pg_catalog.octet_length($2), pg_catalog.octet_length($4), pg_catalog.octet_length($5),
                     pg_catalog.octet_length($7)) operator(pg_catalog.<=) 1000
        and pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) 'read committed') is not true then
        return baton_internal.receive_generally({inbox}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
    end if;
    ignored := pg_catalog.set_config('baton.receiving', '{inbox}', true);
    insert into {relation} (event_id, event_type, payload, source, aggregate_id, headers, trace_id, sequence_num, priority, received_at, available_at)
    select $1, coalesce($2, 'unknown'), $3, $4, $5, $6, $7, $8, $9::pg_catalog.int2, moment, moment
     where {name}::pg_catalog.regclass operator(pg_catalog.=) {number}::pg_catalog.oid
       and not exists (select 1 from baton_internal.inbox_keys k where k.inbox operator(pg_catalog.=) {inbox} and k.event_id operator(pg_catalog.=) $1)
        on conflict (event_id) do nothing;
    stored := found;
    ignored := pg_catalog.set_config('baton.receiving', '', true);
    if stored and not exists (select 1 from baton_internal.inbox_keys k where k.inbox operator(pg_catalog.=) {inbox} and k.event_id operator(pg_catalog.=) $1) then
        return 'new';
    elsif stored then  -- its row was being deleted when its id was looked up
        delete from {relation} t where t.event_id operator(pg_catalog.=) $1;
    elsif not exists (select 1 from {relation} t where t.event_id operator(pg_catalog.=) $1 and {name}::pg_catalog.regclass operator(pg_catalog.=) {number}::pg_catalog.oid)
          and not exists (select 1 from baton_internal.inbox_keys k where k.inbox operator(pg_catalog.=) {inbox} and k.event_id operator(pg_catalog.=) $1) then
        return baton_internal.receive_generally({inbox}, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10);  -- renamed while the statement waited
    end if;
    insert into baton_internal.inbox_duplicates (inbox, duplicates) values ({inbox}, 1);
    return 'duplicate';
end
$body$, baton_internal.log_parts(box.relation) || jsonb_build_object('inbox', box.id::text)),
        '{baton_consumer,baton_relay,baton_operator}', 'stores a message in one inbox; returns new or duplicate', true);
    if not exists (select from baton_internal.inbox_objects o where o.inbox = box.id and o.object_name = own) then
        perform baton_internal.note_inbox_object(box.id, 'core', 'function', 'baton_internal', own);
    end if;
end
$make$;
comment on function baton_internal.make_inbox_calls(baton.inboxes) is 'makes the functions through which messages come into one inbox';

-- Return the function that stores a message of the named inbox; null where only the general way leads.
create function baton_internal.receiving(inbox text, path name[])
returns oid
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select to_regproc(concat('baton_internal.receive_', b.id))::oid from baton_internal.need_inbox(inbox, path) b where b.layout = 'managed' and not b.tenancy
$$;
comment on function baton_internal.receiving(text, name[]) is 'the function that stores a message in an inbox; null when there is none';

select baton_internal.declare_privileges('execute', '{baton_consumer,baton_relay,baton_operator}', '{receiving}');

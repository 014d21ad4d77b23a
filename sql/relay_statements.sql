-- Statements that a relay runs itself: baton writes their text once, when the relay takes the group.

-- The select list of an event `e` as the relay reads it: every column in its own type.
create function baton_internal.relay_columns()
returns text
language sql immutable
as $$
    select 'e.id, e.event_id, e.tenant_id, e.aggregate_type, e.aggregate_id, e.event_type, e.schema_version, e.topic, e.partition_key, '
           'e.payload, e.headers, e.trace_id, e.correlation_id, e.causation_id, e.idempotency_key, e.occurred_at, e.available_at'
$$;
comment on function baton_internal.relay_columns() is 'select list of an event for the relay';

-- How many bytes payload and headers of an event `e` have when they are sent, as an expression. Only text and bytea know that without
-- being unpacked.
create function baton_internal.event_size(payload_type text)
returns text
language sql immutable
as $$
    select format('(coalesce(octet_length(e.payload%s), 0) + coalesce(octet_length(e.headers::text), 0))',
                  case when payload_type not in ('text', 'bytea') then '::text' end)
$$;
comment on function baton_internal.event_size(text) is 'expression for the bytes of an event''s payload and headers';

-- The select list of an event where payload and headers come only on a condition; the size stands in a last column otherwise.
create function baton_internal.columns_where(condition text, size text)
returns text
language sql immutable
as $$
    select replace(replace(baton_internal.relay_columns(), 'e.payload,', format('case when %s then e.payload end,', condition)),
                   'e.headers,', format('case when %s then e.headers end,', condition))
           || format(', case when not %s then %s end', condition, size)
$$;
comment on function baton_internal.columns_where(text, text) is 'select list of an event for the relay; payload and headers come only on a condition';

-- The same for reading a window: what is stored in more than 8 kB or compressed is left out, so that one row is small whatever it
-- unpacks to. How many rows fit into the relay's memory is not known before they are read; so they come without what
-- is large, and the relay fetches that as far as it has room.
create function baton_internal.window_columns(payload_type text)
returns text
language sql immutable
as $$
    select baton_internal.columns_where(
        '(coalesce(pg_column_size(e.payload) <= 8192, true) and pg_column_compression(e.payload) is null '
        'and coalesce(pg_column_size(e.headers) <= 8192, true) and pg_column_compression(e.headers) is null)',
        baton_internal.event_size(payload_type))
$$;
comment on function baton_internal.window_columns(text) is 'select list of an event in a window for the relay, without large payloads';

-- The statement with which a relay opens the next window of the current era, prepared once: $1 group, $2 window number, $3 era, $4 seen, and what
-- the position knows of ids: $5 fresh_id, $6 fresh_xid, $7 late_id. It does what baton_internal.open_window() does, under one snapshot: its own.
-- `unsure` says that this was not the place to ask: ask baton_internal.open_group_window(). So with strays, and in the first window of an era.
-- Ids are compared with $7 itself: by a parameter the server leaves out old partitions before it looks into any.
create function baton_internal.open_statement(outbox baton.outboxes)
returns text
language sql stable
as $$
    select format($sql$
        with now as materialized (
            select pg_current_snapshot() as sight, pg_current_wal_insert_lsn() as lsn, pg_snapshot_xmax($4)::text::bigint as from_xid,
                   pg_current_xact_id_if_assigned() is not null or $6::xid8 is null or $6::text::bigint - pg_snapshot_xmax($4)::text::bigint > 1000
                   or exists (select from baton_internal.outbox_eras e where e.outbox_id = %2$s and (e.era > $3 or e.era < $3 and e.last_id > $7::bigint))
                   or exists (select from baton_internal.stray_events s where s.outbox_id = %2$s and s.xid >= pg_snapshot_xmin($4)
                                 and not pg_visible_in_snapshot(s.xid, $4)) as unsure
        ), bound as materialized (
            select least(greatest($5::bigint, $7) + 1, min(one.id)) as first_id
              from generate_series((select from_xid from now), (select case when unsure then from_xid else $6::text::bigint end - 1 from now)) x
             cross join lateral (select t.id from %1$s t where (t.xid, t.id) > (x::text::xid8, $7) and (t.xid, t.id) < (x::text::xid8, 9223372036854775807)
                                    and t.id > $7 order by t.xid, t.id limit 1) one
             where pg_visible_in_snapshot(x::text::xid8, (select sight from now))
        ), fresh as materialized (
            select case when exists (
                       select from now n cross join lateral baton_internal.ended_xids($4, n.sight) r
                        cross join lateral (select from %1$s t where (t.xid, t.id) > (r.after_xid, 9223372036854775807) and (t.xid, t.id) < (r.before_xid, 0)
                                               and t.id > $7 order by t.xid, t.id limit 1) one)
                   then (select first_id from bound) end as first_id
        ), late as materialized (
            select coalesce(array_agg(r.xid), '{}') as xids, min(one.id) as first_id
              from (select x from pg_snapshot_xip($4) x where pg_visible_in_snapshot(x, (select sight from now)) offset 0) r (xid)
             cross join lateral (select t.id from %1$s t where (t.xid, t.id) > (r.xid, $7)
                                    and (t.xid, t.id) < (r.xid, coalesce((select first_id from fresh), 9223372036854775807))
                                    and t.id > $7 order by t.xid, t.id limit 1) one
        )
        select case when not n.unsure and (f.first_id is not null or l.xids <> '{}')
                    then ($1::int, $2::bigint, $3::int, $4::pg_snapshot, n.sight, n.lsn, l.xids, f.first_id, null, least(f.first_id, l.first_id),
                          greatest($7, case when $6 <= pg_snapshot_xmin(n.sight) then $5 end))::baton_internal.windows
               end as opened,
               pg_current_wal_flush_lsn() >= n.lsn
               and not exists (select from baton.settings s where s.name = 'outbox_publish_after_standbys' and s.value <> '0') as flushed, n.unsure
          from now n, fresh f, late l$sql$, outbox.relation, outbox.outbox_id)
$$;
comment on function baton_internal.open_statement(baton.outboxes) is 'text of the statement that opens a window for a relay';

-- The statement with which the owner leases and reads parked events: $1 group, $2 epoch, $3 how many, $4 the most bytes that one may have,
-- $5 the most that they may have together. Behind the columns of an event come its size, when payload and headers were left out, and the
-- attempt. Those without a payload that are not over $4 go back with baton_internal.give_back_parked(); the first one always comes.
create function baton_internal.parked_statement(relation regclass)
returns text
language sql stable
as $$
    select format('select %2$s, e.attempt from (select e.*, sum(case when e.bytes <= $4 then e.bytes else 0 end) over (order by e.id) as upto '
                  'from (select e.*, p.attempt, %3$s::bigint as bytes from baton_internal.lease_group_parked($1, $2, $3) p cross join lateral '
                  '(%1$s) e) e) e order by e.id',
                  baton_internal.parked_event_query(o), baton_internal.columns_where('(e.bytes <= $4 and (e.upto <= $5 or e.upto = e.bytes))', 'e.bytes::int'),
                  baton_internal.event_size(o.payload_type))
      from baton_internal.find_outbox(relation) o
$$;
comment on function baton_internal.parked_statement(regclass) is 'text of the statement that leases and reads parked events';

select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator}',
    '{parked_statement,relay_columns,read_statement,open_statement,ended_xids}');

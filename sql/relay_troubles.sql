-- What hinders relays, in their own words, for whoever looks by command, API or SQL. A relay writes when a trouble begins, changes or ends, never per event.
-- A note counts while its relay lives: its session holds a shared advisory lock. Behind a pooler a session belongs to nobody, and the note is renewed instead.

create table baton_internal.noted_troubles (
    relay      text        not null,
    pipeline   text        not null,  -- empty: the relay as a whole
    group_name text,                  -- the group whose position the pipeline moves
    state      text        not null,
    trouble    text        not null,
    since      timestamptz not null default clock_timestamp(),
    until      timestamptz,           -- null: for as long as the session lives
    primary key (relay, pipeline)
);
comment on table baton_internal.noted_troubles is 'what relays noted; read relay_troubles, which knows of the relays that live';

-- The two numbers of the lock by which a relay shows that it lives.
create function baton_internal.trouble_lock(relay text, out class int, out object int)
returns record
language sql immutable
set search_path = pg_catalog, pg_temp
as $$ select hashtext('baton.relay_troubles'), hashtext(relay) $$;
comment on function baton_internal.trouble_lock(text) is 'the advisory lock that a relay in trouble holds';

-- A relay that froze may still have its session while another one has taken over its group: then its words are of the past.
create view baton.relay_troubles as
select nullif(t.pipeline, '') as pipeline, t.group_name, t.state, t.trouble, t.since, t.relay
  from baton_internal.noted_troubles t cross join lateral baton_internal.trouble_lock(t.relay) k
 where case when t.until is not null then t.until > clock_timestamp()
            else exists (select from pg_catalog.pg_locks l
                          where l.locktype = 'advisory' and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
                            and l.classid = (k.class::bigint & 4294967295)::oid and l.objid = (k.object::bigint & 4294967295)::oid and l.objsubid = 2 and l.granted) end
   and not exists (select from baton.consumer_groups g join baton_internal.group_positions p using (group_id)
                    where g.group_name = t.group_name and p.owner <> t.relay and p.owned_until > clock_timestamp());
comment on view baton.relay_troubles is 'what hinders the relays that run now: pipeline, what its sink said, and since when';

-- Write down all that hinders a relay: [{"pipeline", "group", "state", "trouble"}]; nothing more does. `lease` is for a relay behind a pooler.
create function baton_internal.note_troubles(relay text, troubles jsonb, lease interval default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    k record := baton_internal.trouble_lock(relay);
    held constant boolean := exists (select from pg_locks l where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.objsubid = 2
                                        and l.classid = (k.class::bigint & 4294967295)::oid and l.objid = (k.object::bigint & 4294967295)::oid);
begin
    perform set_config('synchronous_commit', 'off', true);
    -- what relays left that have ended goes along
    delete from baton_internal.noted_troubles t
     where case when t.relay = note_troubles.relay then not exists (select from jsonb_array_elements(troubles) n where n ->> 'pipeline' = t.pipeline)
                else not exists (select from baton.relay_troubles v where v.relay = t.relay and coalesce(v.pipeline, '') = t.pipeline) end;
    insert into baton_internal.noted_troubles as t (relay, pipeline, group_name, state, trouble, until)
    select note_troubles.relay, n ->> 'pipeline', nullif(n ->> 'group', ''), n ->> 'state', left(n ->> 'trouble', 2000), clock_timestamp() + lease
      from jsonb_array_elements(troubles) n
    on conflict on constraint noted_troubles_pkey do update
       set group_name = excluded.group_name, state = excluded.state, trouble = excluded.trouble, until = excluded.until;
    if lease is null and troubles <> '[]' and not held then
        perform pg_try_advisory_lock_shared(k.class, k.object);
    elsif troubles = '[]' and held then
        perform pg_advisory_unlock_shared(k.class, k.object);
    end if;
end
$$;
comment on function baton_internal.note_troubles(text, jsonb, interval) is 'writes down what hinders a relay; see relay_troubles';

select baton_internal.declare_privileges('execute', '{baton_relay}', '{note_troubles}');
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{trouble_lock}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{relay_troubles}');

-- What the pipelines of all relays do and have counted, for whoever watches more than one relay: the dashboard, commands, the API, SQL.
-- A relay writes every few seconds, all its pipelines in one statement. A note counts until it runs out: who was killed says nothing after that.

create table baton_internal.noted_pipelines (
    relay      text        not null,
    pipeline   text        not null,
    group_name text,                  -- the group whose position the pipeline moves
    state      text        not null,
    detail     text,                  -- why it is in this state
    trouble    text,                  -- why nothing gets through
    delivered  bigint      not null,  -- counted since `began`, as what follows
    failed     bigint      not null,
    buffered   bigint      not null,
    latency    bigint[]    not null,  -- events by the time from commit to acknowledgement: how many fell under each bound
    began      timestamptz not null,
    noted_at   timestamptz not null,
    until      timestamptz not null,
    primary key (relay, pipeline)
) with (fillfactor = 50);
comment on table baton_internal.noted_pipelines is 'what relays noted of their pipelines; read relay_pipelines, which knows of the relays that live';

-- A lease that is longer than anybody takes was written while the clock was ahead.
create view baton.relay_pipelines as
select n.relay, n.pipeline, n.group_name, n.state, n.detail, n.trouble, n.delivered, n.failed, n.buffered, n.latency, n.began, n.noted_at
  from baton_internal.noted_pipelines n
 where n.until > clock_timestamp() and n.until < clock_timestamp() + interval '5 minutes';
comment on view baton.relay_pipelines is 'pipelines of the relays that run now: state, what each has counted since it began, and when it said so';

-- Write down what all pipelines of a relay do: [{"pipeline", "group", "state", "detail", "trouble", "delivered", "failed", "buffered", "latency", "seconds"}],
-- seconds being how long it has counted. What the relay does not name has ended.
create function baton_internal.note_pipelines(relay text, pipelines jsonb, lease interval default '15 seconds')
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    now_is constant timestamptz := clock_timestamp();
begin
    perform set_config('synchronous_commit', 'off', true);
    -- What relays left that have ended goes along. Two relays that write do not wait for each other.
    delete from baton_internal.noted_pipelines n
     where (n.relay, n.pipeline) in (select o.relay, o.pipeline from baton_internal.noted_pipelines o
                                      where case when o.relay = note_pipelines.relay then not exists (select from jsonb_array_elements(pipelines) p where p ->> 'pipeline' = o.pipeline)
                                                 else o.until < now_is - interval '1 minute' end
                                        for update skip locked);
    insert into baton_internal.noted_pipelines as n (relay, pipeline, group_name, state, detail, trouble, delivered, failed, buffered, latency, began, noted_at, until)
    select note_pipelines.relay, p ->> 'pipeline', nullif(p ->> 'group', ''), p ->> 'state', nullif(left(p ->> 'detail', 2000), ''), nullif(left(p ->> 'trouble', 2000), ''),
           (p ->> 'delivered')::bigint, (p ->> 'failed')::bigint, (p ->> 'buffered')::bigint, array(select jsonb_array_elements_text(p -> 'latency')::bigint),
           now_is - make_interval(secs => (p ->> 'seconds')::float8), now_is, now_is + lease
      from jsonb_array_elements(pipelines) p
    on conflict on constraint noted_pipelines_pkey do update
       set group_name = excluded.group_name, state = excluded.state, detail = excluded.detail, trouble = excluded.trouble, delivered = excluded.delivered,
           failed = excluded.failed, buffered = excluded.buffered, latency = excluded.latency, began = excluded.began, noted_at = excluded.noted_at, until = excluded.until;
end
$$;
comment on function baton_internal.note_pipelines(text, jsonb, interval) is 'writes down what a relay''s pipelines do and have counted; see relay_pipelines';

select baton_internal.declare_privileges('execute', '{baton_relay}', '{note_pipelines}');
select baton_internal.declare_privileges('select', '{baton_relay,baton_operator,baton_viewer}', '{relay_pipelines}');

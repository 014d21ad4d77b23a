-- How a stream table is refreshed: by the difference between query and table (FULL), which is always right and needs nothing, or from the changes of
-- the tables that the query reads (DIFFERENTIAL), which takes the extension and a query that its compiler knows.

-- Decide how a stream table is refreshed from now on. A mode that was asked for by name and cannot be had is refused.
create function baton_internal.choose_stream_mode(stream baton.stream_tables)
returns void
language plpgsql
as $$
declare
    chosen record;
begin
    if stream.refresh_mode = 'IMMEDIATE' and exists (select from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id) then
        raise exception 'stream table % has an outbox, which IMMEDIATE does not write', stream.relation
            using errcode = 'feature_not_supported', hint = 'use refresh_mode DIFFERENTIAL with schedule ''live'', or end the outbox with baton.disable_outbox()';
    end if;
    select null::text as delta, null::text as tree, null::text as obstacle into chosen;
    if stream.refresh_mode <> 'FULL' then
        if (select i.form from baton.installation i) = 'extension' then
            chosen := baton_internal.prepare_differential(stream);
        else
            chosen.obstacle := 'changes are captured by the extension, and this is the install without it';
        end if;
        if stream.refresh_mode <> 'AUTO' and chosen.obstacle is not null then
            raise exception 'stream table % cannot be refreshed %: %', stream.relation,
                            case stream.refresh_mode when 'IMMEDIATE' then 'immediately' else 'differentially' end, chosen.obstacle
                using errcode = 'feature_not_supported', hint = 'use refresh_mode AUTO or FULL';
        end if;
    end if;
    update baton.stream_tables s
       set effective_mode = case when stream.refresh_mode = 'FULL' or chosen.obstacle is not null then 'FULL'
                                 when stream.refresh_mode = 'IMMEDIATE' then 'IMMEDIATE' else 'DIFFERENTIAL' end,
           reason = chosen.obstacle, delta = chosen.delta, tree = chosen.tree, source_state = null, costs = null  -- what was captured or measured before is not relied on
     where s.stream_id = stream.stream_id;
end
$$;
comment on function baton_internal.choose_stream_mode(baton.stream_tables) is 'decides how a stream table is refreshed';

-- What a refresh took: a moving average each of a full one, of a small differential one, and of one change more. `changes` null: it was full.
create function baton_internal.learned_costs(costs jsonb, changes bigint, took numeric)
returns jsonb
language sql immutable
as $$
    with seen as (select (costs ->> 'full')::numeric as full_ms, (costs ->> 'base')::numeric as base_ms, (costs ->> 'change')::numeric as change_ms),
    now as (select case when changes is null then 'full' when changes < 100 then 'base' else 'change' end as kind,
                   case when changes is null or changes < 100 then took else greatest(took - coalesce(s.base_ms, 0), 0.001) / changes end as value from seen s)
    select coalesce(costs, '{}') || jsonb_build_object(n.kind, round(coalesce(((costs ->> n.kind)::numeric + n.value) / 2, n.value), 6)) from now n
$$;
comment on function baton_internal.learned_costs(jsonb, bigint, numeric) is 'what refreshes of a stream table cost, with one more';

-- Whether to compute everything is cheaper than to follow so many changes, by what refreshes took. The present way is left only for one that is
-- clearly better, so that costs which are alike do not make it go to and fro.
create function baton_internal.is_full_cheaper(stream baton.stream_tables, changes bigint)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case when stream.refresh_mode <> 'AUTO' or changes < 1000 or c.full_ms is null then false
                when c.change_ms is null then changes > (select sum(greatest(r.reltuples, pg_relation_size(r.oid) / 100)) / 2 from pg_class r where r.oid = any (baton_internal.tables_of_stream(stream.stream_id)))
                else c.base_ms + c.change_ms * changes > c.full_ms * case stream.last_mode when 'FULL' then 0.8 else 1.25 end end
      from (select (stream.costs ->> 'full')::numeric as full_ms, coalesce((stream.costs ->> 'base')::numeric, 0) as base_ms,
                   (stream.costs ->> 'change')::numeric as change_ms) c
$$;
comment on function baton_internal.is_full_cheaper(baton.stream_tables, bigint) is 'whether a stream table in AUTO is better computed anew';

-- Compute and apply a refresh, differentially where nothing speaks against it. In doubt it is full.
create function baton_internal.compute_refresh(stream baton.stream_tables, recompute boolean, held boolean, out mode text, out inserted bigint, out deleted bigint,
                                               out sight pg_snapshot, out step int, out source_state jsonb, out event_id bigint, out costs jsonb)
language plpgsql
as $$
declare
    wants_changes constant boolean := exists (select from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id);
    begun timestamptz;
    wanted bigint;
    outcome record;
begin
    costs := stream.costs;
    if stream.effective_mode <> 'FULL' then
        outcome := baton_internal.refresh_differentially(stream, recompute, held, wants_changes);
        if outcome.inserted is not null then
            select 'DIFFERENTIAL', outcome.inserted, outcome.deleted, outcome.sight, outcome.step, outcome.source_state, outcome.event_id, outcome.costs
              into mode, inserted, deleted, sight, step, source_state, event_id, costs;
            return;
        end if;
        source_state := outcome.source_state;
        step := outcome.step;
        select s.* into stream from baton.stream_tables s where s.stream_id = stream.stream_id;  -- with other names, maybe
    else
        stream := baton_internal.follow_renames(stream);
        perform baton_internal.check_stream_columns(stream);
        if not held or not baton_internal.holds_state() then
            perform baton_internal.hold_state(baton_internal.tables_of_stream(stream.stream_id));
        end if;
    end if;
    mode := 'FULL';
    begun := clock_timestamp();
    select a.* into inserted, deleted, wanted, sight, event_id
      from baton_internal.apply_refresh(stream, baton_internal.full_statement(stream.relation, stream.qualified, wants_changes), 'FULL', null) a;
    costs := baton_internal.learned_costs(costs, null, extract(epoch from clock_timestamp() - begun) * 1000);
    if stream.effective_mode <> 'FULL' then  -- what following changes costs is looked at again some day
        costs := costs || jsonb_strip_nulls(jsonb_build_object('change', round((costs ->> 'change')::numeric * 0.97, 6)));
    end if;
end
$$;
comment on function baton_internal.compute_refresh(baton.stream_tables, boolean, boolean) is 'computes and applies the changes of a stream table';

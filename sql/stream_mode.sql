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

-- What refreshes took, with one more; `changes` null: it was full. Moving averages:
--   full            a full one
--   base, fewest    a differential one of the fewest changes that were seen, and how many these were; less than a hundred are as many
--   change          one change more than these. A line through zero would call a hundred changes expensive that pay for the refresh as such, and
--                   ten thousand a hundred times as expensive
-- This and what follows is asked by every refresh: the server keeps plans of plpgsql, and parses SQL functions anew each time.
create function baton_internal.learned_costs(costs jsonb, changes bigint, took numeric)
returns jsonb
language plpgsql immutable
as $$
declare
    known constant jsonb := coalesce(costs, '{}');
    base constant numeric := costs ->> 'base';
    fewest constant bigint := costs ->> 'fewest';
    change constant numeric := costs ->> 'change';
    many constant bigint := greatest(changes, 100);
    more numeric;
begin
    if changes is null then
        return known || jsonb_build_object('full', round(coalesce(((costs ->> 'full')::numeric + took) / 2, took), 6));
    elsif fewest is null or many * 2 < fewest then  -- what was the fewest before is many now
        return known || jsonb_build_object('base', round(took, 6), 'fewest', many)
               || jsonb_strip_nulls(jsonb_build_object('change', coalesce(change, round(greatest(base - took, 0.001) / (fewest - many), 6))));
    elsif many <= fewest * 2 then
        return known || jsonb_build_object('base', round((base + took) / 2, 6));
    end if;
    more := greatest(took - base, 0.001) / (many - fewest);
    return known || jsonb_build_object('change', round(coalesce((change + more) / 2, more), 6));
end
$$;
comment on function baton_internal.learned_costs(jsonb, bigint, numeric) is 'what refreshes of a stream table cost, with one more';

-- Whether to compute everything is cheaper than to follow so many changes, by what refreshes took. The present way is left only for one that is
-- clearly better, so that costs which are alike do not make it go to and fro.
create function baton_internal.is_full_cheaper(stream baton.stream_tables, changes bigint)
returns boolean
language plpgsql stable
as $$
declare
    full_ms constant numeric := stream.costs ->> 'full';
    base_ms constant numeric := stream.costs ->> 'base';
    change_ms constant numeric := stream.costs ->> 'change';
begin
    if stream.refresh_mode <> 'AUTO' or changes < 1000 or full_ms is null then
        return false;
    elsif change_ms is null and (base_ms is null or changes > (stream.costs ->> 'fewest')::bigint * 2) then  -- nobody knows yet what so many cost
        return changes > (select sum(greatest(r.reltuples, pg_catalog.pg_relation_size(r.oid) / 100)) / 2 from pg_catalog.pg_class r
                           where r.oid = any (baton_internal.tables_of_stream(stream.stream_id)));
    end if;
    return base_ms + coalesce(change_ms, 0) * greatest(changes - (stream.costs ->> 'fewest')::bigint, 0)
           > full_ms * case stream.last_mode when 'FULL' then 0.8 else 1.25 end;
end
$$;
comment on function baton_internal.is_full_cheaper(baton.stream_tables, bigint) is 'whether a stream table in AUTO is better computed anew';

-- Compute and apply a refresh, differentially where nothing speaks against it. In doubt it is full.
create function baton_internal.compute_refresh(stream baton.stream_tables, recompute boolean, held jsonb, out mode text, out inserted bigint, out deleted bigint,
                                               out sight pg_snapshot, out step int, out source_state jsonb, out event_id bigint, out costs jsonb)
language plpgsql
as $$
declare
    link constant baton_internal.stream_outboxes := (select o from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id);
    wants_changes constant boolean := link.stream_id is not null;
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
        perform baton_internal.check_stream_columns(stream), baton_internal.check_stream_guard(stream);
        if held is null or not baton_internal.holds_state() then
            perform baton_internal.hold_state(baton_internal.tables_of_stream(stream.stream_id));
        end if;
    end if;
    mode := 'FULL';
    begun := clock_timestamp();
    select a.* into inserted, deleted, wanted, sight, event_id
      from baton_internal.apply_refresh(stream, baton_internal.full_statement(stream.relation, stream.qualified, wants_changes and not baton_internal.publishes_snapshots(link)), 'FULL', null) a;
    costs := baton_internal.learned_costs(costs, null, extract(epoch from clock_timestamp() - begun) * 1000);
    if wants_changes and stream.effective_mode <> 'FULL' and stream.frontier is not null then
        perform baton_internal.alert('outbox_full_refresh', stream.relation::text,
            jsonb_build_object('inserted', inserted, 'deleted', deleted, 'event_id', event_id,
                               'outbox', (select o.relation::text from baton.outboxes o where o.outbox_id = link.outbox_id)));
    end if;
    if stream.effective_mode <> 'FULL' then  -- what following changes costs is looked at again some day
        costs := costs || jsonb_strip_nulls(jsonb_build_object('change', round((costs ->> 'change')::numeric * 0.97, 6), 'base', round((costs ->> 'base')::numeric * 0.97, 6)));
    end if;
end
$$;
comment on function baton_internal.compute_refresh(baton.stream_tables, boolean, jsonb) is 'computes and applies the changes of a stream table';

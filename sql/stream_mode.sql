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
    if stream.refresh_mode <> 'FULL' then
        if (select i.form from baton.installation i) = 'extension' then
            chosen := baton_internal.prepare_differential(stream);
        else
            select null::text as delta, null::text as tree, 'changes are captured by the extension, and this is the install without it' as obstacle into chosen;
        end if;
        if stream.refresh_mode = 'DIFFERENTIAL' and chosen.obstacle is not null then
            raise exception 'stream table % cannot be refreshed differentially: %', stream.relation, chosen.obstacle
                using errcode = 'feature_not_supported', hint = 'use refresh_mode AUTO or FULL';
        end if;
        update baton.stream_tables s
           set effective_mode = case when chosen.obstacle is null then 'DIFFERENTIAL' else 'FULL' end, reason = chosen.obstacle, delta = chosen.delta, tree = chosen.tree
         where s.stream_id = stream.stream_id;
    else
        update baton.stream_tables s set effective_mode = 'FULL', reason = null, delta = null, tree = null where s.stream_id = stream.stream_id;
    end if;
    update baton.stream_tables s set source_state = null where s.stream_id = stream.stream_id;  -- what was captured before is not relied on
end
$$;
comment on function baton_internal.choose_stream_mode(baton.stream_tables) is 'decides how a stream table is refreshed';

-- Compute and apply a refresh, differentially where nothing speaks against it. In doubt it is full.
create function baton_internal.compute_refresh(stream baton.stream_tables, recompute boolean, out mode text, out inserted bigint, out deleted bigint,
                                               out sight pg_snapshot, out step int, out source_state jsonb, out event_id bigint)
language plpgsql
as $$
declare
    wants_changes constant boolean := exists (select from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id);
    wanted bigint;
    outcome record;
begin
    if stream.effective_mode = 'DIFFERENTIAL' then
        outcome := baton_internal.refresh_differentially(stream, recompute, wants_changes);
        if outcome.inserted is not null then
            select 'DIFFERENTIAL', outcome.inserted, outcome.deleted, outcome.sight, outcome.step, outcome.source_state, outcome.event_id
              into mode, inserted, deleted, sight, step, source_state, event_id;
            return;
        end if;
        source_state := outcome.source_state;
        step := outcome.step;
    end if;
    mode := 'FULL';
    select a.* into inserted, deleted, wanted, sight, event_id
      from baton_internal.apply_refresh(stream, baton_internal.full_statement(stream.relation, stream.qualified, wants_changes), 'FULL') a;
end
$$;
comment on function baton_internal.compute_refresh(baton.stream_tables, boolean) is 'computes and applies the changes of a stream table';

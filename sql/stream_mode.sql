-- How a stream table is refreshed: by the difference between query and table (FULL), which is always right and needs nothing, or from the changes of
-- the tables that the query reads (DIFFERENTIAL), which takes the extension and a query that its compiler knows.

-- Decide how a stream table is refreshed from now on. A mode that was asked for by name and cannot be had is refused.
create function baton_internal.choose_stream_mode(stream baton.stream_tables)
returns void
language plpgsql
as $$
declare
    why text;
begin
    if stream.refresh_mode <> 'FULL' then
        why := case when (select i.form from baton.installation i) = 'sql' then 'changes are captured by the extension, and this is the install without it'
                    else 'this version has no compiler for differential refreshes' end;
    end if;
    if stream.refresh_mode = 'DIFFERENTIAL' and why is not null then
        raise exception 'stream table % cannot be refreshed differentially: %', stream.relation, why
            using errcode = 'feature_not_supported', hint = 'use refresh_mode AUTO or FULL';
    end if;
    update baton.stream_tables s set effective_mode = 'FULL', reason = why, delta = null, tree = null where s.stream_id = stream.stream_id;
end
$$;
comment on function baton_internal.choose_stream_mode(baton.stream_tables) is 'decides how a stream table is refreshed';

-- Compute and apply a refresh.
create function baton_internal.compute_refresh(stream baton.stream_tables, recompute boolean, out mode text, out inserted bigint, out deleted bigint,
                                               out sight pg_snapshot, out step int, out source_state jsonb, out event_id bigint)
language plpgsql
as $$
declare
    wanted bigint;
begin
    mode := 'FULL';
    select a.* into inserted, deleted, wanted, sight, event_id
      from baton_internal.apply_refresh(stream, baton_internal.full_statement(stream.relation, stream.qualified,
               exists (select from baton_internal.stream_outboxes o where o.stream_id = stream.stream_id)), 'FULL') a;
end
$$;
comment on function baton_internal.compute_refresh(baton.stream_tables, boolean) is 'computes and applies the changes of a stream table';

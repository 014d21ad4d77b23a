-- Sources that were unlogged for a while. A crash empties an unlogged table, and no trigger tells of that; once it is logged again, the table does not show where it was.

create table baton_internal.unlogged_sources (
    relation oid         not null,
    noted_at timestamptz not null default clock_timestamp()
);
alter table baton_internal.unlogged_sources replica identity full;
comment on table baton_internal.unlogged_sources is 'captured tables that were made unlogged or logged, one row each time';
create index unlogged_sources_relation on baton_internal.unlogged_sources (relation);

-- Note that a captured table becomes unlogged or logged.
create function baton_internal.note_unlogged()
returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_event_trigger_table_rewrite_reason() & 1 <> 0
       and exists (select from pg_trigger t where t.tgrelid = pg_event_trigger_table_rewrite_oid() and t.tgfoid = 'baton_internal.capture_changes()'::regprocedure) then
        insert into baton_internal.unlogged_sources (relation) values (pg_event_trigger_table_rewrite_oid());
    end if;
end
$$;
comment on function baton_internal.note_unlogged() is 'event trigger: notes that a captured table becomes unlogged or logged';

create event trigger baton_note_unlogged on table_rewrite execute function baton_internal.note_unlogged();
comment on event trigger baton_note_unlogged is 'stream tables do not rely on a source that a crash may have emptied';

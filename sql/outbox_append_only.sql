-- An outbox is append-only: rows that change or go under a reader's position would never be delivered, or differently to each
-- group. So UPDATE, DELETE and TRUNCATE are refused, by triggers per statement that an insert does not meet. Retention detaches and
-- drops partitions, which is no statement on rows.

create table baton_internal.outbox_repairs (
    outbox_id int         not null references baton.outboxes on delete cascade,
    xid       xid8        not null,  -- the transaction that may change rows
    at        timestamptz not null,  -- and when it began, because a restored cluster counts transactions anew
    primary key (outbox_id, xid)
);
comment on table baton_internal.outbox_repairs is 'transactions that may change rows of an outbox, see baton.repair_outbox()';

-- Refuse a statement that changes or removes events, unless its transaction was let in.
create function baton_internal.refuse_change()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from baton_internal.outbox_repairs r where r.outbox_id = tg_argv[0]::int and r.xid = pg_current_xact_id_if_assigned() and r.at = now()) then
        raise exception '% of outbox %.% is refused: an outbox is append-only', tg_op, quote_ident(tg_table_schema), quote_ident(tg_table_name)
            using errcode = 'object_not_in_prerequisite_state', detail = 'readers would miss the change, or see it differently',
                  hint = 'retention removes what every group has settled; for a repair call baton.repair_outbox() in the same transaction';
    end if;
    return null;
end
$$;
comment on function baton_internal.refuse_change() is 'statement trigger of an outbox and its partitions: refuses UPDATE, DELETE and TRUNCATE';

-- Make a table of an outbox append-only: the log itself or one of its partitions.
create function baton_internal.make_append_only(relation regclass, outbox_id int)
returns void
language plpgsql
as $$
begin
    execute format('create trigger baton_append_only before update or delete or truncate on %s for each statement'
                   ' execute function baton_internal.refuse_change(%L)', relation, outbox_id);
end
$$;
comment on function baton_internal.make_append_only(regclass, int) is 'makes a table of an outbox append-only';

-- Let this transaction change rows of an outbox, for a repair by hand. The reason is kept in the audit trail.
create function baton.repair_outbox(name text, reason text)
returns void
language sql
as $$ select baton_internal.permit_repair(baton_internal.resolve_table(name), reason) $$;
comment on function baton.repair_outbox(text, text) is 'lets the current transaction UPDATE, DELETE or TRUNCATE an outbox';

-- Note that the present transaction may change rows.
create function baton_internal.permit_repair(relation regclass, reason text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    outbox baton.outboxes := baton_internal.find_outbox(relation);
begin
    if coalesce(btrim(reason), '') = '' then
        raise exception 'a reason is needed to repair an outbox' using errcode = 'invalid_parameter_value';
    end if;
    delete from baton_internal.outbox_repairs r where r.outbox_id = outbox.outbox_id and r.xid <> pg_current_xact_id();
    insert into baton_internal.outbox_repairs (outbox_id, xid, at) values (outbox.outbox_id, pg_current_xact_id(), now())
    on conflict (outbox_id, xid) do update set at = excluded.at;
    perform baton_internal.record_action('repair_outbox', relation::text, jsonb_build_object('reason', reason));
end
$$;
comment on function baton_internal.permit_repair(regclass, text) is 'opens an outbox for the current transaction; called by repair_outbox()';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{repair_outbox,permit_repair}');

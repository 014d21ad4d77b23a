-- Monthly partitions of adopted tables and their archives, named <table>_YYYYMM. Months are cut in
-- UTC; a table whose months were cut in another zone keeps them, and only what is missing is added.

-- List the range partitions of a table by time; null bounds are open.
create function baton_internal.range_partitions(parent regclass)
returns table (partition regclass, lower timestamptz, upper timestamptz)
language sql stable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
    select c.oid::regclass,
           coalesce(substring(b.bound from $re$FROM \('([^']+)'\)$re$)::timestamptz, '-infinity'),
           coalesce(substring(b.bound from $re$TO \('([^']+)'\)$re$)::timestamptz, 'infinity')
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
     cross join lateral (select pg_get_expr(c.relpartbound, c.oid)) b (bound)
     where i.inhparent = parent and b.bound like 'FOR VALUES FROM %'
$$;
comment on function baton_internal.range_partitions(regclass) is 'partitions of a table with their time bounds';

-- Say whether a table is partitioned by ranges of one time column.
create function baton_internal.partitioned_by_time(relation regclass)
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_partitioned_table p
                     join pg_attribute a on a.attrelid = p.partrelid and a.attnum = p.partattrs[0]
                    where p.partrelid = relation and p.partstrat = 'r' and p.partnatts = 1
                      and a.atttypid in ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype))
$$;
comment on function baton_internal.partitioned_by_time(regclass) is 'true for a table whose monthly partitions baton can keep';

-- Attach a partition for a stretch of time, as the table's owner. Attaching, unlike creating in place, does not block writers.
create function baton_internal.add_partition(parent regclass, lower timestamptz, upper timestamptz)
returns regclass
language plpgsql
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
declare
    home name;
    base name;
    child name;
    suffix text := to_char(lower, '"_"YYYYMM');
    copy int := 1;
begin
    select n.nspname, c.relname into home, base
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = parent;
    child := baton_internal.derived_name('', base, suffix);
    while to_regclass(format('%I.%I', home, child)) is not null loop
        copy := copy + 1;
        child := baton_internal.derived_name('', base, suffix || '_' || copy);
    end loop;
    perform baton_internal.change_as_owner(parent, format('create table %I.%I (like %s including defaults including constraints including generated including storage)',
                                                          home, child, parent));
    perform baton_internal.change_as_owner(parent, format('alter table %s attach partition %I.%I for values from (%L) to (%L)',
                                                          parent, home, child, lower, upper));
    return format('%I.%I', home, child)::regclass;
end
$$;
comment on function baton_internal.add_partition(regclass, timestamptz, timestamptz) is 'adds a partition for a stretch of time';

-- Make sure that every month from one time to another has its partitions; returns how many were made.
create function baton_internal.ensure_months(parent regclass, since timestamptz, until timestamptz)
returns int
language plpgsql
set timezone = 'UTC'
as $$
declare
    month timestamptz;
    reached timestamptz;
    known record;
    made int := 0;
begin
    for month in select generate_series(date_trunc('month', since), until, interval '1 month') loop
        reached := month;
        for known in select p.lower, p.upper from baton_internal.range_partitions(parent) p
                      where p.upper > month and p.lower < month + interval '1 month' order by p.lower loop
            if known.lower > reached then
                perform baton_internal.add_partition(parent, reached, known.lower);
                made := made + 1;
            end if;
            reached := greatest(reached, known.upper);
        end loop;
        if reached < month + interval '1 month' then
            perform baton_internal.add_partition(parent, reached, month + interval '1 month');
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;
comment on function baton_internal.ensure_months(regclass, timestamptz, timestamptz) is 'creates the missing monthly partitions of a stretch of time';

-- Drop the partitions that end before a time; returns how many.
create function baton_internal.drop_partitions_before(parent regclass, horizon timestamptz)
returns int
language plpgsql
as $$
declare
    old record;
    dropped int := 0;
begin
    for old in select p.partition from baton_internal.range_partitions(parent) p where p.upper <= horizon loop
        perform baton_internal.change_as_owner(parent, format('drop table %s', old.partition));
        dropped := dropped + 1;
    end loop;
    return dropped;
end
$$;
comment on function baton_internal.drop_partitions_before(regclass, timestamptz) is 'drops partitions whose rows are all older than a time';

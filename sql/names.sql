-- Names: how a table is named by users, and how derived objects get theirs.

-- Split a possibly qualified, possibly quoted name; the schema defaults to the current one.
create function baton_internal.parse_table_name(name text, default_schema text default null, out schema_name text, out table_name text)
language plpgsql stable
as $$
declare
    parts text[];
begin
    if name is null or btrim(name) = '' then
        raise exception 'a table name is needed'
            using errcode = 'invalid_parameter_value', hint = 'give it as ''order_events'' or ''shop.order_events''';
    end if;
    begin
        parts := pg_catalog.parse_ident(name);
    exception when invalid_parameter_value then
        raise exception 'invalid table name: %', left(name, 100)
            using errcode = 'invalid_name',
                  hint = 'use letters, digits and underscores, or put the name in double quotes: ''"Order Events"''';
    end;
    if pg_catalog.cardinality(parts) > 2 then
        raise exception 'invalid table name: %', left(name, 100)
            using errcode = 'invalid_name', hint = 'a name has at most a schema and a table: shop.order_events';
    end if;
    table_name := parts[pg_catalog.cardinality(parts)];
    schema_name := coalesce(case when pg_catalog.cardinality(parts) = 2 then parts[1] end, default_schema, current_schema());
    if schema_name is null then
        raise exception 'no schema to use for "%"', table_name
            using errcode = 'invalid_schema_name', hint = 'qualify the name, or set search_path';
    end if;
    perform baton_internal.check_identifier(schema_name);
    perform baton_internal.check_identifier(table_name);
end
$$;
comment on function baton_internal.parse_table_name(text, text) is 'schema and table of a user-given name';

-- Refuse an identifier that the server would cut.
create function baton_internal.check_identifier(identifier text, room int default 0)
returns void
language plpgsql immutable
as $$
begin
    if octet_length(identifier) > 63 - room then
        raise exception 'name too long: % has % bytes, at most % are allowed',
                        quote_ident(left(identifier, 40)) || '...', octet_length(identifier), 63 - room
            using errcode = 'name_too_long', hint = 'choose a shorter name; baton never cuts names';
    end if;
end
$$;
comment on function baton_internal.check_identifier(text, int) is 'raises name_too_long where the server would truncate';

-- Name a derived object: readable while it fits, with a digest of the whole when it does not.
create function baton_internal.derived_name(prefix text, base text, suffix text default '')
returns name
language sql immutable
as $$
    select (case when octet_length(prefix || base || suffix) <= 63 then prefix || base || suffix
                 else prefix || left(base, 63 - 9 - octet_length(prefix || suffix) - (octet_length(base) - length(base)))
                      || '_' || left(md5(base), 8) || suffix end)::name
$$;
comment on function baton_internal.derived_name(text, text, text) is 'collision-free name of at most 63 bytes for an object derived from another';

-- Name a derived table as nobody else's is named: with a number when the name is taken.
create function baton_internal.unused_name(schema_name text, base text, suffix text)
returns name
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    candidate name := baton_internal.derived_name('', base, suffix);
    number int := 1;
begin
    while to_regclass(format('%I.%I', schema_name, candidate)) is not null or to_regtype(format('%I.%I', schema_name, candidate)) is not null loop
        number := number + 1;
        candidate := baton_internal.derived_name('', base, suffix || '_' || number);
    end loop;
    return candidate;
end
$$;
comment on function baton_internal.unused_name(text, text, text) is 'name of a derived table that no other relation has';

-- Quote a name for a shell, where it needs it.
create function baton_internal.shell_word(word text)
returns text
language sql immutable
as $$ select case when word ~ '^[A-Za-z0-9_./:-]+$' then word else '''' || replace(word, '''', '''\''''') || '''' end $$;
comment on function baton_internal.shell_word(text) is 'a word as a shell reads it back';
select baton_internal.declare_privileges('execute', '{baton_relay,baton_operator,baton_viewer}', '{shell_word}');

-- Parameters of a session on which the result of a query may depend. A refresh, by whomever and in whose transaction ever, and a comparison take the same ones:
-- those that say how values are read and written are those of the maker's session, those that say how statements are read and run are fixed.

create function baton_internal.result_parameters()
returns table (name text, value text, is_makers boolean)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query values ('TimeZone', 'UTC', true), ('timezone_abbreviations', 'Default', true), ('DateStyle', 'ISO, MDY', true), ('IntervalStyle', 'postgres', true),
           ('extra_float_digits', '1', true), ('bytea_output', 'hex', true), ('array_nulls', 'on', true), ('xmlbinary', 'base64', true), ('xmloption', 'content', true),
           ('lc_monetary', 'C', true), ('lc_numeric', 'C', true), ('lc_time', 'C', true), ('default_text_search_config', 'pg_catalog.simple', true),
           ('standard_conforming_strings', 'on', false), ('backslash_quote', 'safe_encoding', false), ('transform_null_equals', 'off', false), ('quote_all_identifiers', 'off', false),
           ('row_security', 'on', false), ('gin_fuzzy_search_limit', '0', false), ('jit', 'off', false);
end
$$;
comment on function baton_internal.result_parameters() is 'parameters of a session on which results depend';

-- The parameters of this session that a refresh uses again.
create function baton_internal.session_parameters()
returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select jsonb_object_agg(p.name, current_setting(p.name)) from baton_internal.result_parameters() p where p.is_makers $$;
comment on function baton_internal.session_parameters() is 'parameters of the session that a refresh uses again';

-- Let a function run with values of its own for all of these parameters. What it sets them to itself ends with the function, too.
create function baton_internal.pin_parameters(function regprocedure)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    parameter record;
begin
    for parameter in select * from baton_internal.result_parameters() loop
        execute format('alter function %s set %s = %L', function, parameter.name, parameter.value);
    end loop;
end
$$;
comment on function baton_internal.pin_parameters(regprocedure) is 'lets a function run with parameters that no session changes';

-- Take the parameters of a stream table's maker, in a function that pin_parameters() was called for. No others, whatever is noted.
create function baton_internal.use_maker_parameters(stream baton.stream_tables)
returns void
language plpgsql
as $$
begin
    perform set_config(p.name, stream.parameters ->> p.name, true)
       from baton_internal.result_parameters() p
      where p.is_makers and stream.parameters ->> p.name is distinct from current_setting(p.name) and stream.parameters ? p.name;
end
$$;
comment on function baton_internal.use_maker_parameters(baton.stream_tables) is 'takes the parameters in which a stream table was made';

select baton_internal.declare_privileges('execute', '{baton_operator}', '{session_parameters,result_parameters}');

-- Templates: a statement that is made for one table is written as the SQL that results, with {name} where a part goes.

-- Fill the places of a template. A part is SQL: whoever makes the part has quoted names and values. Parts are not searched for
-- places, so a column that is called "{relation}" keeps its name. Braces around anything else than a lower-case name stay.
create function baton_internal.fill(template text, parts jsonb)
returns text
language plpgsql immutable
as $$
declare
    pieces text[] := string_to_array(template, '{');
    filled text := pieces[1];
    place text;
begin
    for i in 2 .. cardinality(pieces) loop
        place := substring(pieces[i] from '^([a-z_]+)\}');
        if place is null then
            filled := filled || '{' || pieces[i];
        elsif parts ->> place is null then
            raise exception 'the part "%" of a statement is missing', place using errcode = 'internal_error', detail = template;
        else
            filled := filled || (parts ->> place) || substr(pieces[i], length(place) + 2);
        end if;
    end loop;
    return filled;
end
$$;
comment on function baton_internal.fill(text, jsonb) is 'a template of SQL with its parts in the places named {part}';

-- What tells two rows of a stream table apart, without the extension: the text of a value, written with settings that lose nothing. A cast to text
-- would run casts that users made, and cuts the blanks of bpchar.

-- Give the image of a value; null for null.
create function baton_internal.image(value anyelement)
returns bytea
language sql stable parallel safe
set search_path = pg_catalog, pg_temp
set datestyle = iso set timezone = utc set intervalstyle = postgres set extra_float_digits = 3 set bytea_output = hex
as $$ select case when num_nulls(value) = 0 then convert_to(format('%s', value), getdatabaseencoding()) end $$;
comment on function baton_internal.image(anyelement) is 'bytes that are equal for values which nobody can tell apart';

-- One of several values that have the same image. array_agg() would do, but not for arrays.
create function baton_internal.keep_first(kept anyelement, value anyelement)
returns anyelement
language sql immutable strict parallel safe
as $$ select $1 $$;
comment on function baton_internal.keep_first(anyelement, anyelement) is 'the first of two values';

create aggregate baton_internal.one_of(anyelement) (sfunc = baton_internal.keep_first, stype = anyelement, combinefunc = baton_internal.keep_first, parallel = safe);
comment on aggregate baton_internal.one_of(anyelement) is 'one of several values, null if there is none but null';

select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_operator}', '{image,keep_first,one_of}');

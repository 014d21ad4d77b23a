-- What tells two rows of a stream table apart: images of values. Two values of a type have the same image when nobody can tell them apart. `=` is
-- coarser: 1.0 = 1.00, 0.0 = -0.0, '24 hours' = '1 day', and some collations call different strings equal.

-- Give the image of a value: its bytes, however they are stored; null for null.
create function baton_internal.image(value anyelement)
returns bytea
language c immutable parallel safe
as 'MODULE_PATHNAME', 'baton_image';
comment on function baton_internal.image(anyelement) is 'bytes that are equal for values which nobody can tell apart';

-- Hash the images of a row's columns, null among them, for an index in which a row is found again.
create function baton_internal.row_hash(row_value record)
returns bigint
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'baton_row_hash';
comment on function baton_internal.row_hash(record) is 'hash of the images of a row''s columns';

-- One of several values that have the same image. array_agg() would do, but not for arrays.
create function baton_internal.keep_first(kept anyelement, value anyelement)
returns anyelement
language c immutable strict parallel safe
as 'MODULE_PATHNAME', 'baton_keep_first';
comment on function baton_internal.keep_first(anyelement, anyelement) is 'the first of two values';

create aggregate baton_internal.one_of(anyelement) (sfunc = baton_internal.keep_first, stype = anyelement, combinefunc = baton_internal.keep_first, parallel = safe);
comment on aggregate baton_internal.one_of(anyelement) is 'one of several values, null if there is none but null';

-- What to_jsonb() gives for a row, sooner.
create function baton_internal.row_json(row_value record)
returns jsonb
language c stable strict
as 'MODULE_PATHNAME', 'baton_row_json';
comment on function baton_internal.row_json(record) is 'a row as jsonb, as to_jsonb() gives it';

-- The payload of a delta, of rows that come so often as their weight says, or go where it is negative. Null when its text has more bytes than that for sure.
create function baton_internal.delta_json_add(delta internal, weight bigint, row_value record, most_bytes bigint)
returns internal
language c stable
as 'MODULE_PATHNAME', 'baton_delta_json_add';
comment on function baton_internal.delta_json_add(internal, bigint, record, bigint) is 'a delta with one row more';
create function baton_internal.delta_json_end(delta internal)
returns jsonb
language c stable
as 'MODULE_PATHNAME', 'baton_delta_json_end';
comment on function baton_internal.delta_json_end(internal) is 'payload of a delta';
create aggregate baton_internal.delta_json(weight bigint, row_value record, most_bytes bigint) (
    sfunc = baton_internal.delta_json_add, stype = internal, finalfunc = baton_internal.delta_json_end);
comment on aggregate baton_internal.delta_json(bigint, record, bigint) is 'payload of an event with the changes of a stream table';

-- Whoever owns a stream table: the functions are in the statements of a refresh, and in an index of the table.
select baton_internal.declare_privileges('execute', '{baton_producer,baton_consumer,baton_operator}', '{image,row_hash,keep_first,one_of,row_json,delta_json,delta_json_add,delta_json_end}');

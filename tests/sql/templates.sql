-- Templates: SQL with named places, from which statements for one table are made.
begin;
select no_plan();

select is(baton_internal.fill('select {id} from {relation} t where {id} > 0', '{"id": "t.id", "relation": "shop.orders"}'),
          'select t.id from shop.orders t where t.id > 0', 'every place is filled with its part');
select is(baton_internal.fill('select {id} from t', '{"id": "\"{relation}\"", "relation": "secrets"}'), 'select "{relation}" from t',
          'a part that looks like a place stays as it is');
select is(baton_internal.fill($$select '{}'::jsonb, '{1,2}'::int[], '{a,b}'::text[], $1$$, '{}'), $$select '{}'::jsonb, '{1,2}'::int[], '{a,b}'::text[], $1$$,
          'other braces stay');
select is(baton_internal.fill('{one}{two}', '{"one": "a", "two": ""}'), 'a', 'an empty part leaves nothing');
select throws_ok($$select baton_internal.fill('select {id} from {relation}', '{"id": "t.id"}')$$, 'XX000', 'the part "relation" of a statement is missing',
                 'a part that is not given is an error');
select throws_ok($$select baton_internal.fill('select {id}', '{"id": null}')$$, 'XX000', 'the part "id" of a statement is missing', 'and so is one that is null');

select * from finish();
rollback;

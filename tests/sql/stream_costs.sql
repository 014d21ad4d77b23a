-- How AUTO chooses: what refreshes took is a line over the number of changes, and is compared with what a full one took.
select no_plan();
create function learn(costs jsonb, variadic seen numeric[]) returns jsonb language plpgsql as $$  -- pairs of changes and milliseconds
begin
    for i in 1 .. cardinality(seen) by 2 loop
        costs := baton_internal.learned_costs(costs, seen[i]::bigint, seen[i + 1]);
    end loop;
    return costs;
end $$;
create table orders (id int primary key, amount int);
insert into orders select g, g from generate_series(1, 100000) g;
analyze orders;
select baton.create_stream_table('totals', 'select amount % 10 as tenth, sum(amount) as total from orders group by 1', null);
create function prefers_full(costs jsonb, changes bigint, last_mode text default 'DIFFERENTIAL') returns boolean language plpgsql as $$
declare
    stream baton.stream_tables := (select s from baton.stream_tables s where s.relation = 'totals'::regclass);
begin
    stream.costs := costs;
    stream.last_mode := last_mode;
    return baton_internal.is_full_cheaper(stream, changes);
end $$;

select ok(not prefers_full(learn('{"full": 30}', 200, 17), 2000), 'what a refresh costs as such is not counted for each change');
select ok(not prefers_full(learn('{"full": 30}', 200, 17, 2000, 19), 8000), 'a line that rises slowly is followed');
select ok(prefers_full(learn('{"full": 30}', 200, 17, 2000, 19), 40000), 'until everything is cheaper');
select ok(prefers_full(learn('{"full": 30}', 50, 1, 1000, 20), 5000), 'a line that rises steeply is left early');
select ok(prefers_full(learn('{"full": 30}', 20000, 100, 50, 1), 10000), 'a small one tells what a large one before it cost for each change');
select ok(not prefers_full(learn('{"full": 30}', 20000, 100, 50, 1), 1000), 'and that a small one is cheap');
select is(learn(null, 60, 4, 90, 8) -> 'fewest', '100', 'less than a hundred changes are as many');
select is((learn(null, 60, 4, 90, 8) ->> 'base')::numeric, 6.0, 'and what they took is averaged');
select ok(not prefers_full('{}', 90000) and not prefers_full(learn(null, 60, 4), 90000), 'without a full one to compare with nothing is left');
select ok(prefers_full('{"full": 30}', 60000), 'with nothing else to go by, half of the rows are too many');
select ok(not prefers_full('{"full": 30}', 40000), 'and fewer are tried');
select ok(not prefers_full('{"full": 30, "base": 33, "change": 0, "fewest": 100}', 2000) and prefers_full('{"full": 30, "base": 33, "change": 0, "fewest": 100}', 2000, 'FULL'),
          'costs that are alike do not make it go to and fro');
select is((learn(null, 1000, 5, 3000, 1) ->> 'change')::numeric >= 0, true, 'more changes that took less time make no change free of cost');
select * from finish();

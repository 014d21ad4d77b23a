-- Following an inbox: nothing is left out, however many come at once and in whatever order they commit.
select no_plan();
update baton.jobs set enabled = false;
select baton.create_inbox('payments', max_retries => 1);

create temp table place (next text);
insert into place values (null);
create temp table known (event_id text primary key, item jsonb);
-- One look: what it brings, in the order of the answer. The place goes on. While an older transaction is under way, of another test say, messages
-- come again as they are: a follower passes over what it knows.
create function look(most int default 100, type text default null, in_aggregate text default null, box text default 'payments') returns setof text language plpgsql as $$
declare
    answer json := baton.tail_messages(box, (select next from place), type, in_aggregate, most);
begin
    update place set next = answer ->> 'next';
    return query
        with items as (select i::jsonb as item, nr from json_array_elements(answer -> 'items') with ordinality a (i, nr)),
             news as (insert into known as k select i.item ->> 'event_id', i.item from items i
                      on conflict (event_id) do update set item = excluded.item where k.item <> excluded.item returning k.event_id)
        select concat_ws(' ', i.item ->> 'event_id', i.item ->> 'state', i.item ->> 'attempts')
          from items i join news n on n.event_id = i.item ->> 'event_id' order by i.nr;
end
$$;

select baton.receive('payments', 'old' || n, 'paid', '{}') from generate_series(1, 5) n;
select results_eq('select right(m, 1) is not null from look(2) m', 'values (true), (true)', 'the first look shows the last ones');
update place set next = null;
select is((select count(*) from look()), 3::bigint, 'a larger one shows more');
select is_empty('select look()', 'nothing has come since');
select baton.receive('payments', 'p' || n, case n when 7 then 'rare' else 'paid' end, '{}', aggregate_id => 'a' || n % 2) from generate_series(1, 10) n;
select bag_eq('select m from generate_series(1, 5) n cross join lateral look(3 + n * 0) m', $$ select 'p' || n || ' pending 0' from generate_series(1, 10) n $$, 'more than an answer holds comes in several');
select is_empty('select look()', 'and once');

-- changes
create temp table claimed as select * from baton.claim_inbox('payments', 'w', 100);
select is((select count(*) from look() m where m like 'p%'), 10::bigint, 'a lease is a change of a message');
select baton.complete_inbox('payments', '{p1,p2}'::text[], lease_token => (select lease_token from claimed where event_id = 'p1'));
select baton.fail_inbox('payments', '{p3}'::text[], 'no', true, lease_token => (select lease_token from claimed where event_id = 'p3'));
select bag_eq('select look()', $$ values ('p1 processed 0'), ('p2 processed 0'), ('p3 dead 1') $$, 'handled and dead');
select baton.replay_inbox_messages('payments', '{p1,p3}'::text[]);
select bag_eq('select look()', $$ values ('p1 pending 0'), ('p3 pending 0') $$, 'replayed');

-- subtransactions have numbers of their own, which no snapshot knows
do $$
begin
    for n in 1 .. 3 loop
        begin
            perform baton.receive('payments', 's' || n, 'paid', '{}');
        exception when division_by_zero then
            null;
        end;
    end loop;
end
$$;
select bag_eq('select look()', $$ select 's' || n || ' pending 0' from generate_series(1, 3) n $$, 'what subtransactions wrote comes');

-- filters
update place set next = (baton.tail_messages('payments', most => 1) ->> 'next');
update payments set trace_id = 't' where event_id like 'p%';
select results_eq($$ select look(type => 'rare') $$, $$ select 'p7 pending 0' $$, 'by type');
update payments set trace_id = 'u' where event_id like 'p%';
select is((select count(*) from look(in_aggregate => 'a1')), 5::bigint, 'by aggregate');
select throws_ok($$ select baton.tail_messages('payments', 'x') $$, '22023', null, 'a cursor that is none is refused');

-- an adopted inbox
create table arrivals (event_id int primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz default now(), processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
insert into arrivals (event_id, event_type, payload) select n, 't', '{}' from generate_series(1, 3) n;
update place set next = null;
select is((select count(*) from look(box => 'arrivals')), 3::bigint, 'an adopted inbox is followed, too');
update arrivals set processed_at = now() where event_id = 2;
insert into arrivals (event_id, event_type, payload) values (4, 't', '{}');
select bag_eq($$ select look(box => 'arrivals') $$, $$ values ('2 processed 0'), ('4 pending 0') $$, 'what an application changes itself is seen');
select * from finish();

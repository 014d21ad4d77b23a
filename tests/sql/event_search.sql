-- All outboxes are searched at once, adopted ones too: by type, key and time, a page after the other.
select no_plan();
update baton.jobs set enabled = false;
select baton.create_outbox('orders'), baton.create_outbox('parcels');
select baton.publish('orders', 'made', jsonb_build_object('n', n), aggregate_id => 'k' || n % 2, occurred_at => '2026-01-01 00:00+00'::timestamptz + n * interval '3 minutes') from generate_series(1, 6) n;
select baton.publish('parcels', 'sent', jsonb_build_object('n', n), aggregate_id => 'k' || n % 2, occurred_at => '2026-01-01 00:01+00'::timestamptz + n * interval '3 minutes') from generate_series(1, 6) n;
create table mails (id int primary key, event uuid not null default gen_random_uuid(), kind text, whose text, payload jsonb, at timestamptz not null, done_at timestamptz, tries int not null default 0);
select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "event_id": "event", "event_type": "kind", "aggregate_id": "whose", "payload": "payload", "occurred_at": "at",
    "processed_at": "done_at", "attempts": "tries"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
insert into mails select n, gen_random_uuid(), 'written', 'k' || n % 2, jsonb_build_object('n', n), '2026-01-01 00:02+00'::timestamptz + n * interval '3 minutes', case when n < 3 then now() end
  from generate_series(1, 6) n;
create table plain (id bigserial primary key, data json not null);
select baton.adopt_outbox('plain', mapping => '{"columns": {"id": "id", "payload": "data"}, "done": {"as": "delete"}, "attempts": {"limit": 2}, "dead": {"as": "move", "table": "plain_dead"},
    "backoff": {"kind": "none"}}');

select is((select string_agg(concat(left(replace(outbox, 'public.', ''), 1), payload ->> 'n'), ' ') from (select * from baton.search_all_events()) e),
          'm6 p6 o6 m5 p5 o5 m4 p4 o4 m3 p3 o3 m2 p2 o2 m1 p1 o1', 'all outboxes, the latest first, settled or not');
select is((select string_agg(concat(left(replace(outbox, 'public.', ''), 1), payload ->> 'n'), ' ') from baton.search_all_events(in_key => 'k1')), 'm5 p5 o5 m3 p3 o3 m1 p1 o1', 'of a key');
select is((select string_agg(concat(left(replace(outbox, 'public.', ''), 1), payload ->> 'n'), ' ') from baton.search_all_events(type => 'written')), 'm6 m5 m4 m3 m2 m1', 'of a type');
select is((select string_agg(concat(left(replace(outbox, 'public.', ''), 1), payload ->> 'n'), ' ') from baton.search_all_events(since => '2026-01-01 00:07+00', until => '2026-01-01 00:11+00')),
          'm3 p3 o3 m2 p2', 'of a time, both ends within');
select is((select string_agg(payload ->> 'n', ' ') from baton.search_all_events('parcels', in_key => 'k0')), '6 4 2', 'of one outbox');
select is((select string_agg(concat_ws(' ', kind, outbox, "row", event_type, key), ',') from baton.search_all_events('public.mails', most => 1)), 'adopted public.mails 6 written k0', 'or of an adopted one');
select is((select count(*) from baton.search_all_events('nobodys')), 0::bigint, 'in one that is not there nothing is found');

-- pages: none twice, none left out, and what comes meanwhile moves nothing
create function pages(most int) returns text language plpgsql as $$
declare
    at text;
    said text := '';
    part record;
begin
    for turn in 1 .. 50 loop
        select string_agg(concat(left(replace(e.outbox, 'public.', ''), 1), e.payload ->> 'n'), ' ') as words, (array_agg(e.cursor))[count(*)] as last into part
          from baton.search_all_events(after => at, most => pages.most) e;
        exit when part.words is null;
        said := concat_ws(' ', nullif(said, ''), part.words);
        at := part.last;
        insert into mails values (100 + turn, gen_random_uuid(), 'meanwhile', 'k', '{"n": "new"}', '2026-03-01');
    end loop;
    return said;
end
$$;
select is(pages(1), 'm6 p6 o6 m5 p5 o5 m4 p4 o4 m3 p3 o3 m2 p2 o2 m1 p1 o1', 'one by one');
delete from mails where kind = 'meanwhile';
select is(pages(4), 'm6 p6 o6 m5 p5 o5 m4 p4 o4 m3 p3 o3 m2 p2 o2 m1 p1 o1', 'and four by four');
delete from mails where kind = 'meanwhile';

-- an outbox keeps its order, whatever time its events say; rows without a time come last, by their ids
select baton.publish('orders', 'late', '{"n": "late"}', occurred_at => '2020-01-01');
insert into plain (data) values ('{"n": "a"}'), ('{"n": "b"}');
insert into mails values (70, gen_random_uuid(), 'same', 'k', '{"n": "s70"}', '2026-02-01'), (71, gen_random_uuid(), 'same', 'k', '{"n": "s71"}', '2026-02-01');
select is(pages(3), 'ms71 ms70 m6 p6 m5 p5 m4 p4 m3 p3 m2 p2 m1 p1 olate o6 o5 o4 o3 o2 o1 pb pa', 'late events and rows of the same moment, or of none');

select throws_ok($$ select * from baton.search_all_events(after => 'x') $$, '22023', '"x" is no cursor', 'what is no cursor is refused');
select throws_ok($$ select * from baton.search_all_events(after => '{"o1": "1; drop table orders"}') $$, '22023', null, 'nor is what looks like one');

-- a neighbour that cannot be read hides no other
begin;
select count(*) as others from baton.search_all_events(most => 1000) e where e.outbox <> 'public.mails' \gset
alter table mails drop constraint mails_pkey;
select is((select count(*) from baton.search_all_events(most => 1000)), :others::bigint, 'what cannot be read is left out, and nothing else');
select throws_ok($$ select * from baton.search_all_events('mails') $$, null, null, 'who asks for it alone is told why');
rollback;

-- who may not read a table finds what stands in the others
create role event_seeker;
grant baton_viewer to event_seeker;
grant select on parcels to event_seeker;
grant event_seeker to current_user;
set role event_seeker;
select is((select string_agg(distinct outbox, ' ') from baton.search_all_events()), 'parcels', 'only what the caller may read is searched');
select is((select count(*) from baton.search_events('parcels')), 6::bigint, 'such a reader may search one outbox');
select is(json_array_length(baton.tail_events('parcels') -> 'items'), 6, 'and follow it');
select throws_ok($$ select * from baton.search_events('pg_class') $$, '42704', null, 'and is told what is no outbox');
reset role;
revoke all on parcels from event_seeker;
drop role event_seeker;
select * from finish();

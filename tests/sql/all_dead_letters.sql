-- Dead letters of groups, inboxes and adopted outboxes: every one comes, however many there are and whatever is asked for.
select no_plan();
update baton.jobs set enabled = false;

-- Read page by page, as commands and the page do.
create function pages(most int, of_kind text default null, type text default null, in_place text default null)
returns table (n bigint, letter text, died_at timestamptz)
language plpgsql
as $$
declare
    place text;
    page record;
    found_one boolean := true;
begin
    n := 0;
    while found_one loop
        found_one := false;
        for page in select * from baton.all_dead_letters(in_place, of_kind, pages.type, place, most) loop
            found_one := true;
            place := page.cursor;
            n := n + 1;
            letter := page.letter;
            died_at := page.died_at;
            return next;
        end loop;
    end loop;
end
$$;

-- a group: twenty letters, ten of one transaction
select baton.create_outbox('orders');
select baton.create_consumer_group('billing', 'orders', 'earliest', max_attempts => 1, ordered => false);
select baton.publish('orders', case n % 5 when 0 then 'rare' else 'often' end, '{}', aggregate_id => n) from generate_series(1, 20) n;
select count(*) from (select baton.fail_events('billing', 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) from baton.poll_outbox('billing', 'c', 10)) f;
select count(*) from (select baton.fail_events('billing', 'c', array_agg(id), 'no', true, (array_agg(lease_token))[1]) from baton.poll_outbox('billing', 'c', 10)) f;

-- inboxes: far more than a page of one moment, and the rare ones behind more than ten thousand others
select baton.create_inbox('crowded');
select baton.create_inbox('quiet');
insert into crowded (event_id, event_type, payload, retry_count, received_at, available_at)
select 'm' || n, case when n > 10500 then 'rare' else 'often' end, '{}', 5, timestamptz '2026-01-02' - case when n > 3000 then make_interval(secs => n) else '0' end, 'infinity'
  from generate_series(1, 10503) n;
insert into quiet (event_id, event_type, payload, retry_count, received_at, available_at)
select 'q' || n, 'often', '{}', 5, '2026-01-02', 'infinity' from generate_series(1, 30) n;
insert into quiet (event_id, event_type, payload) values ('alive', 'often', '{}');

-- an adopted inbox that does not say when a message came, or says that it was never
create table arrivals (event_id text primary key, event_type text, aggregate_id text, payload jsonb, headers jsonb, received_at timestamptz, processed_at timestamptz,
                       retry_count int not null default 0, error text);
select baton.adopt_inbox('arrivals');
insert into arrivals (event_id, event_type, payload, received_at, retry_count)
select 'a' || n, 'often', '{}', case n % 3 when 1 then 'infinity'::timestamptz when 2 then '-infinity' end, 99 from generate_series(1, 9) n;

-- an adopted outbox: more than a thousand, the rare ones first
create table mails (id int primary key, kind text, payload jsonb, at timestamptz not null, done_at timestamptz, tries int not null default 0);
select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "event_type": "kind", "payload": "payload", "occurred_at": "at", "processed_at": "done_at", "attempts": "tries"},
    "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
insert into mails select n, case when n <= 3 then 'rare' else 'often' end, '{}', timestamptz '2026-01-02' + case when n > 500 then interval '0' else make_interval(secs => n - 1000) end, null, 2
  from generate_series(1, 1203) n;
insert into mails values (2000, 'often', '{}', now(), null, 0);

create temp table expected as
    select id::text as letter from baton.dead_letters
    union all select format('inbox:%s:%s', i.id, m.event_id)
                from baton.inboxes i join (select 'crowded' as name, event_id from crowded union all select 'quiet', event_id from quiet where retry_count > 0
                                           union all select 'arrivals', event_id from arrivals) m on m.name = i.name
    union all select format('outbox:%s:%s', a.outbox_id, m.id) from baton.adopted_outboxes a, mails m where m.tries > 1;
select is((select count(*) from expected), 20 + 10503 + 30 + 9 + 1203::bigint, 'there are letters everywhere');

create temp table found_letters as select * from pages(1000);
select is((select count(*) from found_letters), (select count(*) from expected), 'as many come as there are');
select is_empty('select letter from expected except select letter from found_letters', 'each comes');
select is_empty($$ select * from (select letter, coalesce(died_at, 'epoch') as at, lag(coalesce(died_at, 'epoch')) over (order by n) as before from found_letters) f where before < at $$,
                'the latest first');
select set_eq($$ select letter from pages(7, 'group') $$, $$ select id::text from baton.dead_letters $$, 'also in small pages: of groups');
select is((select count(distinct letter) || ' ' || count(*) from pages(7, in_place => 'quiet')), '30 30', 'of an inbox, all of one moment');
select is((select count(distinct letter) || ' ' || count(*) from pages(4, in_place => 'arrivals')), '9 9', 'of an inbox without moments');
select is((select count(distinct letter) || ' ' || count(*) from pages(100, 'outbox')), '1203 1203', 'of an adopted outbox');

select is((select string_agg(right(letter, 5), ' ' order by n) from pages(1000, 'inbox', 'rare')), '10501 10502 10503', 'a type that is far behind others is found: in an inbox');
select is((select count(*) from pages(1000, 'outbox', 'rare')), 3::bigint, 'in an adopted outbox');
select is((select count(*) from pages(1000, 'group', 'rare')), 4::bigint, 'in a group');
select is((select count(*) from pages(2, type => 'rare')), 10::bigint, 'and everywhere');

-- one by its name, however far behind it is
select is((select count(*) from expected e cross join lateral baton.all_dead_letters(named => e.letter) d
            where d.letter = e.letter and (e.letter ~ '^[0-9]+$' or e.letter ~ ':(m10503|m1|a[1-9]|q30|1|1203)$')), 20 + 2 + 9 + 1 + 2::bigint, 'one is found by its name');
select is((select event_type || ' ' || place from baton.all_dead_letters(named => (select letter from expected where letter like '%:m10503'))), 'rare public.crowded', 'with what it says');
select is_empty($$ select * from baton.all_dead_letters(named => (select letter || '9' from expected where letter like '%:m10503')) $$, 'none of another name');
select is_empty($$ select * from baton.all_dead_letters(named => format('inbox:%s:alive', (select id from baton.inboxes where name = 'quiet'))) $$, 'nor a message that is not dead');
select is_empty($$ select * from baton.all_dead_letters(named => format('outbox:%s:2000', (select outbox_id from baton.adopted_outboxes))) $$, 'nor a row that is not dead');

-- chosen by time, error, key and tenant, wherever they are
create function chosen(since timestamptz default null, until timestamptz default null, error_part text default null, in_key text default null, tenant text default null)
returns bigint language sql as $$
    select count(*) from baton.all_dead_letters(most => 100000, since => chosen.since, until => chosen.until, error_part => chosen.error_part, in_key => chosen.in_key, tenant => chosen.tenant) $$;
select is(chosen(since => '2026-01-02', until => '2026-01-02 00:00:00.000001'), (select count(*) from found_letters where died_at = '2026-01-02'), 'of a moment');
select is(chosen(until => '2026-01-01 22:30'), (select count(*) from found_letters where coalesce(died_at, 'epoch') < '2026-01-01 22:30'), 'older ones');
select is(chosen(since => '2026-01-01 22:30'), (select count(*) from found_letters where died_at >= '2026-01-01 22:30'), 'younger ones');
select baton.create_outbox('tales');
select baton.create_consumer_group('tellers', 'tales', 'earliest', max_attempts => 1);
select baton.publish('tales', 'told', '{}', partition_key => 'k' || n % 2, tenant_id => 't' || n) from generate_series(1, 4) n;
select count(*) from (select baton.fail_events('tellers', 'c', array_agg(id), 'HTTP 503 at Gate', true, (array_agg(lease_token))[1]) from baton.poll_outbox('tellers', 'c', 10)) f;
select baton.receive_many('quiet', '[{"event_id": "e1", "aggregate_id": "k1", "tenant_id": "t1"}, {"event_id": "e2", "aggregate_id": "k2"}]');
select baton.fail_inbox('quiet', '{e1,e2}'::text[], 'the gate is shut', permanent => true);
insert into arrivals (event_id, event_type, aggregate_id, payload, retry_count, error) values ('e3', 'often', 'k1', '{}', 99, 'gate?'), ('e4', 'often', 'k1', '{}', 99, null);
create table parcels (id int primary key, kind text, customer text, firm text, payload jsonb, at timestamptz not null, done_at timestamptz, tries int not null default 0, why text);
select baton.adopt_outbox('parcels', mapping => '{"columns": {"id": "id", "event_type": "kind", "aggregate_id": "customer", "tenant_id": "firm", "payload": "payload", "occurred_at": "at",
    "processed_at": "done_at", "attempts": "tries", "last_error": "why"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
insert into parcels values (1, 'sent', 'k1', 't1', '{}', now(), null, 2, 'no GATE'), (2, 'sent', 'k2', 't2', '{}', now(), null, 2, 'lost');
insert into mails values (3000, 'often', '{}', now(), null, 0);
select count(*) from (select baton.fail_adopted('mails', e.id, 'gateway', permanent => true) from baton.claim_adopted('mails', 'w', 10) e where e.id = '3000') f;
select is((select string_agg(kind || ':' || letters, ' ' order by kind collate "C") from (select kind, count(*) as letters from baton.all_dead_letters(error_part => 'gate') group by 1) k),
          'group:4 inbox:3 outbox:2', 'by a part of their error');
select is(chosen(error_part => '%'), 0::bigint, 'which is no pattern');
select is((select string_agg(kind || ':' || letters, ' ' order by kind collate "C") from (select kind, count(*) as letters from baton.all_dead_letters(in_key => 'k1') group by 1) k),
          'group:2 inbox:3 outbox:1', 'by their key');
select is((select string_agg(kind || ':' || letters, ' ' order by kind collate "C") from (select kind, count(*) as letters from baton.all_dead_letters(tenant => 't1') group by 1) k),
          'group:1 inbox:1 outbox:1', 'by their tenant');
select is(chosen(error_part => 'gate', in_key => 'k1', tenant => 't1'), 3::bigint, 'and by all of it');
-- a neighbour that cannot be read hides no other
create temporary table before_that as select count(*) as letters, count(*) filter (where place <> 'public.parcels') as others from baton.all_dead_letters(most => 100000);
update parcels set tries = 2147483647;
select is((select count(*) from baton.all_dead_letters(most => 100000)), (select others from before_that), 'what cannot be read is left out, and nothing else');
select throws_ok($$ select * from baton.all_dead_letters('parcels') $$, '22003', null, 'who asks for it alone is told why');
update parcels set tries = 2;
select is((select count(*) from baton.all_dead_letters(most => 100000)), (select letters from before_that), 'once it is mended it is back');
select throws_ok($$ select * from baton.all_dead_letters(after => 'x') $$, '22023', null, 'a cursor that is none is refused');

-- the messages of an inbox go the same way
create function message_pages(inbox text, most int) returns setof text language plpgsql as $$
declare
    place text;
    page record;
    found_one boolean := true;
begin
    while found_one loop
        found_one := false;
        for page in select * from baton.inbox_messages(inbox, 'dead', after => place, most => message_pages.most) loop
            found_one := true;
            place := page.cursor;
            return next page.event_id;
        end loop;
    end loop;
end
$$;
select bag_eq($$ select message_pages('arrivals', 4) $$, 'select event_id from arrivals', 'messages without moments are paged, too');
select bag_eq($$ select message_pages('quiet', 7) $$, 'select event_id from quiet where retry_count > 0', 'and those of one moment');
select * from finish();

-- Rows of Nexmark by our own generator: persons sell and bid, a bid every tenth of a second, an auction every second, and hot auctions get most bids. Each has
-- a total order in what the queries order by, so that their results are decided.
create function moment(n numeric) returns timestamp language sql immutable as $$ select timestamp '2026-01-01 23:58:00' + n * interval '100 ms' $$;
create function new_persons(first int, last int) returns void language sql as $$
    insert into person select n, 'name ' || n % 17, 'mail' || n || '@example.com', lpad(n::text, 16, '4'), (array['Phoenix', 'Portland', 'Boise', 'Bend'])[1 + n % 4],
           (array['AZ', 'OR', 'ID', 'CA', 'WA'])[1 + n % 5], moment(n * 10), repeat('c', n % 5) from generate_series(first, last) n $$;
create function new_auctions(first int, last int) returns void language sql as $$
    insert into auction select n, 'item ' || n % 23, 'description', 100 + n % 50, 200 + n % 70, moment(n * 10), moment(n * 10 + 50 + n % 200), n / 2 % 60, 10 + n % 5, 'x'
      from generate_series(first, last) n $$;
create function new_bids(first int, last int) returns void language sql as $$
    insert into bid select case when n % 3 = 0 then n / 100 * 10 else n / 10 - n % 7 end, n * 7 % 60, 100 + n * 37 % 1000, (array['Google', 'Facebook', 'Baidu', 'Apple', 'channel-' || n % 40])[1 + n % 5],
           format('https://example.com/%s/%s/item.htm?query=1&channel_id=%s', n % 9, n % 11, n % 40), moment(n), repeat('abc', n % 4) from generate_series(first, last) n $$;
insert into side_input select n, 'side ' || n from generate_series(0, 19) n;
select new_persons(0, 59), new_auctions(0, 199), new_bids(0, 1999);

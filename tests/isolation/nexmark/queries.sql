-- The queries of Nexmark over tables, q0 to q22. Windows of time are computed from the events' own times. q12 is left out: it counts by the time at which an event
-- is processed, which tables do not know. The orders of q9, q18 and q19 tell all bids apart: within a query only such are followed by changes.
-- q0: pass through
select auction, bidder, price, date_time, extra from bid;
-- q1: another currency
select auction, bidder, 0.908 * price as price, date_time, extra from bid;
-- q2: some auctions
select auction, price from bid where auction % 7 = 0;
-- q3: who sells in some states
select p.name, p.city, p.state, a.id from auction a join person p on a.seller = p.id where a.category = 10 and p.state in ('OR', 'ID', 'CA');
-- q4: average price of a category
select q.category, avg(q.final) as average from (select max(b.price) as final, a.category from auction a, bid b where a.id = b.auction and b.date_time between a.date_time and a.expires group by a.id, a.category) q group by q.category;
-- q5: hot items of sliding windows
with counts as (
    select b.auction, w.begins, count(*) as num from bid b, generate_series(date_bin('2 s', b.date_time, timestamp '2000-01-01') - interval '8 s', date_bin('2 s', b.date_time, timestamp '2000-01-01'), '2 s') w (begins)
     group by b.auction, w.begins)
select c.auction, c.num, c.begins from counts c join (select max(num) as most, begins from counts group by begins) m on m.begins = c.begins and c.num >= m.most;
-- q6: average price of a seller's last auctions
select q.seller, q.id, avg(q.final) over (partition by q.seller order by q.closed, q.id rows between 10 preceding and current row) as average
  from (select a.seller, a.id, max(b.price) as final, max(b.date_time) as closed from auction a, bid b where a.id = b.auction and b.date_time between a.date_time and a.expires group by a.id, a.seller) q;
-- q7: highest bids of windows
select b.auction, b.price, b.bidder, b.date_time from bid b join (select max(price) as highest, date_bin('10 s', date_time, timestamp '2000-01-01') as begins from bid group by 2) m
    on b.price = m.highest and date_bin('10 s', b.date_time, timestamp '2000-01-01') = m.begins;
-- q8: new users who sell at once
select p.id, p.name, p.begins from (select distinct id, name, date_bin('10 s', date_time, timestamp '2000-01-01') as begins from person) p
  join (select distinct seller, date_bin('10 s', date_time, timestamp '2000-01-01') as begins from auction) a on p.id = a.seller and p.begins = a.begins;
-- q9: winning bids
select q.id, q.item_name, q.seller, q.category, q.auction, q.bidder, q.price, q.bid_at from (
    select a.id, a.item_name, a.seller, a.category, b.auction, b.bidder, b.price, b.date_time as bid_at, row_number() over (partition by a.id order by b.price desc, b.date_time, b.bidder, b.auction) as place
      from auction a, bid b where a.id = b.auction and b.date_time between a.date_time and a.expires) q where q.place = 1;
-- q10: by day and minute
select auction, bidder, price, date_time, extra, to_char(date_time, 'yyyy-MM-dd') as day, to_char(date_time, 'HH:MI') as minute from bid;
-- q11: sessions of bidders
select s.bidder, count(*) as bids, min(s.date_time) as begins, max(s.date_time) as ends from (
    select r.bidder, r.date_time, sum(r.is_first) over (partition by r.bidder order by r.date_time) as session from (
        select bidder, date_time, case when date_time - lag(date_time) over (partition by bidder order by date_time) <= interval '10 s' then 0 else 1 end as is_first from bid) r) s
 group by s.bidder, s.session;
-- q13: beside a small table
select b.auction, b.bidder, b.price, b.date_time, s.value from bid b join side_input s on b.auction % 20 = s.key;
-- q14: calculations
select auction, bidder, 0.908 * price as price, case when extract(hour from date_time) between 8 and 18 then 'day' when extract(hour from date_time) < 6 or extract(hour from date_time) > 20 then 'night' else 'other' end as time,
       date_time, length(extra) - length(replace(extra, 'c', '')) as c_counts from bid where 0.908 * price > 500;
-- q15: statistics of a day
select to_char(date_time, 'yyyy-MM-dd') as day, count(*) as bids, count(*) filter (where price < 400) as low, count(*) filter (where price >= 400 and price < 800) as middle, count(distinct bidder) as bidders,
       count(distinct bidder) filter (where price < 400) as low_bidders, count(distinct auction) as auctions, count(distinct auction) filter (where price >= 800) as high_auctions from bid group by 1;
-- q16: statistics of a channel
select channel, to_char(date_time, 'yyyy-MM-dd') as day, max(to_char(date_time, 'HH24:MI')) as minute, count(*) as bids, count(*) filter (where price < 400) as low, count(distinct bidder) as bidders,
       count(distinct auction) filter (where price >= 800) as high_auctions from bid group by channel, 2;
-- q17: statistics of an auction
select auction, to_char(date_time, 'yyyy-MM-dd') as day, count(*) as bids, count(*) filter (where price < 400) as low, min(price) as least, max(price) as most, avg(price) as average, sum(price) as total
  from bid group by auction, 2;
-- q18: the last bid of each
select q.auction, q.bidder, q.price, q.date_time from (select auction, bidder, price, date_time, row_number() over (partition by bidder, auction order by date_time desc, price) as place from bid) q where q.place <= 1;
-- q19: the highest bids of an auction
select q.auction, q.bidder, q.price, q.date_time, q.place from (select auction, bidder, price, date_time, row_number() over (partition by auction order by price desc, date_time, bidder) as place from bid) q where q.place <= 10;
-- q20: bids with their auction
select b.auction, b.bidder, b.price, b.channel, b.date_time, a.item_name, a.seller, a.category, a.expires from bid b join auction a on b.auction = a.id where a.category = 10;
-- q21: the channel's id
select auction, bidder, price, channel, case lower(channel) when 'apple' then '0' when 'google' then '1' when 'facebook' then '2' when 'baidu' then '3' else substring(url from '(?:&|^)channel_id=([^&]*)') end as channel_id
  from bid where substring(url from '(?:&|^)channel_id=([^&]*)') is not null or lower(channel) in ('apple', 'google', 'facebook', 'baidu');
-- q22: directories
select auction, bidder, price, channel, split_part(url, '/', 4) as dir1, split_part(url, '/', 5) as dir2, split_part(url, '/', 6) as dir3 from bid;

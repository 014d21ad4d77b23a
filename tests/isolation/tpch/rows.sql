-- Rows of TPC-H at scale 0.002, by our own generator: what the queries ask for is more frequent than in the original, so that they give
-- rows. Each call of pick() takes one of several texts.
create function pick(choices text[]) returns text language sql volatile as $$ select choices[1 + floor(random() * cardinality(choices))::int] $$;
create function day(first date, days int) returns date language sql volatile as $$ select first + floor(random() * days)::int $$;
create function cents(low numeric, high numeric) returns numeric language sql volatile as $$ select round(low + random()::numeric * (high - low), 2) $$;

insert into region select n, (array['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'])[n + 1] from generate_series(0, 4) n;
insert into nation select n, (array['BRAZIL', 'CANADA', 'FRANCE', 'GERMANY', 'SAUDI ARABIA', 'INDIA', 'JAPAN', 'KENYA', 'PERU', 'EGYPT'])[n + 1], (array[1, 1, 3, 3, 4, 2, 2, 0, 1, 0])[n + 1]
  from generate_series(0, 9) n;

create function new_suppliers(first int, last int) returns void language sql as $$
    insert into supplier select n, 'Supplier#' || n, 'address ' || n, floor(random() * 10)::int, pick('{13,31,23,99}') || '-555-' || n, cents(-900, 9000),
           pick('{quick,slow,"bold Customer of many Complaints"}') from generate_series(first, last) n $$;
create function new_customers(first int, last int) returns void language sql as $$
    insert into customer select n, 'Customer#' || n, 'address ' || n, floor(random() * 10)::int, pick('{13,31,23,29,30,18,17,42}') || '-555-' || n, cents(-900, 9000),
           pick('{BUILDING,AUTOMOBILE,MACHINERY}'), 'c' || n from generate_series(first, last) n $$;
create function new_parts(first int, last int) returns void language sql as $$
    insert into part select n, pick('{forest,blue,red}') || ' ' || pick('{green,pink}'), 'Manufacturer#' || n % 5, pick('{Brand#12,Brand#23,Brand#34,Brand#45}'),
           pick('{"ECONOMY ANODIZED STEEL","PROMO BURNISHED COPPER","LARGE BRASS","MEDIUM POLISHED TIN"}'), (array[15, 49, 14, 23, 3, 5, 9, 1])[1 + floor(random() * 8)::int],
           pick('{"SM CASE","MED BOX","LG BOX","MED BAG"}'), cents(900, 2000) from generate_series(first, last) n;
    insert into partsupp select n, (n + s * 7) % 100, floor(random() * 1000)::int, cents(1, 1000) from generate_series(first, last) n, generate_series(0, 3) s
        on conflict do nothing $$;
create function new_orders(first int, last int) returns void language sql as $$
    insert into orders select n, floor(random() * 300)::int, pick('{F,O,P}'), cents(1000, 100000), day('1993-01-01', 1500), pick('{1-URGENT,2-HIGH,3-MEDIUM,5-LOW}'), 0,
           pick('{ordinary,"special and urgent requests"}') from generate_series(first, last) n;
    insert into lineitem select o, l, p, (p + floor(random() * 4)::int * 7) % 100, floor(random() * 50)::int, cents(1000, 50000), (floor(random() * 10) / 100)::numeric(15,2), 0.05, pick('{R,A,N}'), pick('{O,F}'),
           shipped, day(shipped - 20, 60), day(shipped + 1, 30), pick('{"DELIVER IN PERSON",NONE}'), pick('{AIR,"REG AIR",MAIL,SHIP}')
      from (select o, l, floor(random() * 400)::int as p, day('1993-01-01', 2000) as shipped from generate_series(first, last) o, generate_series(1, 4) l) d $$;

select setseed(0.42);
select new_suppliers(0, 99), new_customers(0, 299), new_parts(0, 399), new_orders(0, 2999);
create index on lineitem (l_partkey);
create index on lineitem (l_suppkey);
create index on orders (o_custkey);
create index on partsupp (ps_suppkey);
analyze;

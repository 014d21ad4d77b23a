begin;
select no_plan();

select is(substr(baton.uuid_v7()::text, 15, 1), '7', 'a version 7 uuid says so');
select ok(substr(baton.uuid_v7()::text, 20, 1) in ('8', '9', 'a', 'b'), 'and has the standard variant');
select ok(baton.uuid_v7('2026-01-01') < baton.uuid_v7('2026-01-01 00:00:00.002'), 'later ones sort after earlier ones');
select is(baton.uuid_v7_time(baton.uuid_v7('2026-01-01 12:34:56.789+00')), '2026-01-01 12:34:56.789+00'::timestamptz,
          'the time can be read back');
select is(count(distinct baton.uuid_v7()), 1000::bigint, 'a thousand in a row are all different') from generate_series(1, 1000);

select matches(baton.ulid(), '^[0-7][0-9A-HJKMNP-TV-Z]{25}$', 'a ulid has 26 characters of Crockford base 32');
select is(baton.uuid_to_ulid('00000000-0000-0000-0000-000000000000'), '00000000000000000000000000', 'the lowest');
select is(baton.uuid_to_ulid('ffffffff-ffff-ffff-ffff-ffffffffffff'), '7ZZZZZZZZZZZZZZZZZZZZZZZZZ', 'the highest');
select is(baton.ulid_to_uuid('01arz3ndektsv4rrffq69g5fav'), '01563e3a-b5d3-d676-4c61-efb99302bd5b'::uuid, 'lower case is read too');
select ok(bool_and(baton.ulid_to_uuid(baton.uuid_to_ulid(u)) = u), 'conversion loses nothing')
  from (select gen_random_uuid() u from generate_series(1, 500)) x;
select throws_ok($$ select baton.ulid_to_uuid('not a ulid') $$, '22P02', null, 'anything else is refused');
select throws_ok($$ select baton.ulid_to_uuid('8ZZZZZZZZZZZZZZZZZZZZZZZZZ') $$, '22P02', null, 'and so is one above 128 bits');

select * from finish();
rollback;

#include "cli/demo_shop.hpp"

#include <random>

#include "baton/error.hpp"

namespace baton::cli {

using namespace std::chrono_literals;
using postgres::Connection;

namespace {

constexpr const char* schema = R"(
create schema shop;
comment on schema shop is 'baton demo';
create table shop.orders (
    order_id bigint generated always as identity primary key,
    product  text not null default (array['tea', 'coffee', 'cocoa', 'juice', 'water'])[1 + floor(random() * 5)::int],
    status   text not null default 'open',
    total    numeric not null,
    n        int not null default 1);  -- events so far
create index on shop.orders (order_id) where status = 'open';
create table shop.books (event_type text primary key, events bigint not null, amount numeric not null);
create table shop.last_seen (order_id text primary key, n int not null, disorder int not null);

-- An order and its event are written in one transaction: both are there, or neither is.
create function shop.place(amount numeric) returns bigint language plpgsql as $$
declare
    o shop.orders;
begin
    insert into shop.orders (total) values (amount) returning * into o;
    return baton.publish('shop.events', 'order.placed', jsonb_build_object('n', o.n, 'amount', amount),
                         aggregate_type => 'order', aggregate_id => o.order_id::text);
end $$;

-- Change some open order; null when there is none to be had.
create function shop.change(what text, amount numeric) returns bigint language plpgsql as $$
declare
    o shop.orders;
    newest bigint := coalesce((select max(order_id) from shop.orders), 0);
begin
    update shop.orders set n = n + 1, total = total + amount, status = case what when 'order.item_added' then 'open' else 'closed' end
     where order_id = (select order_id from shop.orders
                        where status = 'open' and order_id >= newest - random() * 300 order by order_id limit 1 for update skip locked)
    returning * into o;
    if not found then
        return null;
    end if;
    return baton.publish('shop.events', what, jsonb_build_object('n', o.n, 'amount', amount),
                         aggregate_type => 'order', aggregate_id => o.order_id::text);
end $$;
)";

// The handler's own work: the books get each amount once, and each order's events are expected in their
// order.
constexpr const char* bookkeeping = R"(
with message as (
    select * from jsonb_to_recordset($1::jsonb) as m (position int, order_id text, event_type text, n int, amount numeric)
), booked as (
    insert into shop.books as b (event_type, events, amount)
    select event_type, count(*), sum(amount) from message group by event_type
    on conflict (event_type) do update set events = b.events + excluded.events, amount = b.amount + excluded.amount
), step as (
    select m.order_id, m.n, m.n <> 1 + coalesce(lag(m.n) over (partition by m.order_id order by m.position), l.n, 0) as wrong
      from message m left join shop.last_seen l using (order_id)
)
insert into shop.last_seen as l (order_id, n, disorder)
select order_id, max(n), count(*) filter (where wrong) from step group by order_id
on conflict (order_id) do update set n = excluded.n, disorder = l.disorder + excluded.disorder)";

constexpr const char* claim = R"(
select coalesce(jsonb_agg(jsonb_build_object('position', position, 'order_id', aggregate_id, 'event_type', event_type,
                                             'n', payload -> 'n', 'amount', payload -> 'amount')), '[]'),
       array_agg(event_id), count(*), min(lease_token::text)
  from baton.claim_inbox('shop.accounting', 'bookkeeper', 200) with ordinality
       as c (event_id, event_type, source, aggregate_id, payload, headers, trace_id, received_at, sequence_num, attempt, lease_token,
             leased_until, correlation_id, causation_id, idempotency_key, schema_version, position))";

// What the data implies, without a line that publishes it: each refresh writes its delta to the outbox.
constexpr const char* revenue = R"(
select baton.create_stream_table('shop.revenue',
    'select product, sum(total) as revenue, count(*) as orders from shop.orders group by product',
    case form when 'extension' then 'live' else '1s' end) from baton.installation;
select baton.enable_outbox('shop.revenue');
)";

std::string amount(std::mt19937& random) {
    return std::to_string(1 + random() % 200) + "." + std::to_string(10 + random() % 90);
}

}  // namespace

void Shop::build(const std::string& url) {
    Connection db(url);
    if (db.value("select count(*) from pg_namespace where nspname = 'shop' and obj_description(oid) is "
                 "distinct from 'baton demo'") != "0")
        throw Error("the database has a schema \"shop\" that is not the demo's",
                    "run the demo in another --data-dir");
    db.exec("set client_min_messages = warning");
    if (db.value("select count(*) from pg_namespace where nspname = 'shop'") != "0") {
        db.exec("select baton.drop_stream_table('shop.revenue', true, true)");
        db.exec("select baton.drop_outbox('shop.events', true, true)");
        db.exec("select baton.drop_outbox('shop.parcels', true, true)");
        db.exec("select baton.drop_inbox('shop.accounting', true, true)");
        db.exec("drop schema shop cascade");
    }
    db.exec(schema);
    db.exec("select baton.create_outbox('shop.events')");
    db.exec("select baton.create_outbox('shop.parcels')");
    db.exec("select baton.create_inbox('accounting', 'shop')");
    db.exec(revenue);
}

Shop::~Shop() {
    abandon();
}

void Shop::abandon() {
    abandoned_ = true;
    wait_until_closed();
    if (handler_.joinable()) handler_.join();
    if (follower_.joinable()) follower_.join();
}

std::string Shop::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

template <class Work>
std::thread Shop::run(Work work) {
    return std::thread([this, work] {
        try {
            work();
        } catch (const std::exception& error) {
            const std::lock_guard lock(mutex_);
            if (failure_.empty()) failure_ = error.what();
            abandoned_ = true;
        }
    });
}

void Shop::open(int writers, std::chrono::milliseconds duration, std::chrono::milliseconds pace) {
    const auto now = DemoClock::now();
    const auto end = now + duration;
    for (int i = 0; i < writers; ++i)
        writers_.push_back(run([this, i, end, pace] { write(static_cast<unsigned>(i), end, pace); }));
    writers_.push_back(run([this, now, duration] { hold_one_open(now + duration / 6, now + duration / 2); }));
    handler_ = run([this] { keep_books(); });
    follower_ = run([this] { follow_revenue(); });
}

void Shop::wait_until_closed() {
    for (auto& writer : writers_)
        if (writer.joinable()) writer.join();
}

void Shop::close_books() {
    closing_books_ = true;
    if (handler_.joinable()) handler_.join();
}

long Shop::close_revenue() {
    closing_revenue_ = true;
    if (follower_.joinable()) follower_.join();
    return Connection(db_).query("select count(*) from shop.outbox_revenue").number<long>(0, 0);
}

bool Shop::nap(std::chrono::milliseconds time) const {
    const auto end = DemoClock::now() + time;
    while (!abandoned_ && DemoClock::now() < end)
        std::this_thread::sleep_for(std::min<DemoClock::duration>(end - DemoClock::now(), 20ms));
    return !abandoned_;
}

// One transaction after the other: one to three events each, one in eight rolled back.
void Shop::write(unsigned seed, DemoClock::time_point until, std::chrono::milliseconds pace) {
    Connection db(db_, "baton demo writer");
    std::mt19937 random(seed);
    while (DemoClock::now() < until && !abandoned_) {
        std::vector<std::int64_t> ids;
        long placed = 0, changed = 0, paid = 0, cancelled = 0;
        db.exec("begin");
        const auto steps = 1 + random() % 3;
        for (unsigned i = 0; i < steps; ++i) {
            const auto dice = random() % 100;
            const char* what = dice < 70 ? "order.item_added" : dice < 92 ? "order.paid" : "order.cancelled";
            const bool places = random() % 3 == 0;
            const auto id = places ? db.query("select shop.place($1)", {amount(random)})
                                   : db.query("select shop.change($1, $2)", {what, amount(random)});
            if (id.is_null(0, 0)) continue;
            ids.push_back(id.number<std::int64_t>(0, 0));
            ++(places ? placed : dice < 70 ? changed : dice < 92 ? paid : cancelled);
        }
        if (random() % 8 == 0) {
            db.exec("rollback");
            counts_.rolled_back += static_cast<long>(ids.size());
        } else {
            db.exec("commit");
            for (const auto id : ids) commits_.note(id);
            counts_.committed += static_cast<long>(ids.size());
            counts_.placed += placed;
            counts_.changed += changed;
            counts_.paid += paid;
            counts_.cancelled += cancelled;
        }
        nap(pace + std::chrono::milliseconds(1 + random() % 12));
    }
}

// A transaction that stays open for long: only its own events are late.
void Shop::hold_one_open(DemoClock::time_point from, DemoClock::time_point until) {
    if (!nap(std::chrono::duration_cast<std::chrono::milliseconds>(from - DemoClock::now()))) return;
    Connection db(db_, "baton demo writer");
    std::vector<std::int64_t> ids;
    db.exec("begin");
    for (int i = 0; i < 3; ++i) ids.push_back(db.query("select shop.place(10)").number<std::int64_t>(0, 0));
    counts_.held_open = static_cast<int>(ids.size());
    nap(std::chrono::duration_cast<std::chrono::milliseconds>(until - DemoClock::now()));
    db.exec("commit");
    for (const auto id : ids) commits_.note(id);
    counts_.committed += 3;
    counts_.placed += 3;
    counts_.held_open = 0;
}

// Claim, book and complete; now and then everything is rolled back halfway, as a crash would do.
void Shop::keep_books() {
    Connection db(db_, "baton demo handler");
    for (unsigned round = 1; !abandoned_; ++round) {
        if (handle_batch(db, round % 25 == 0)) continue;
        if (closing_books_) return;
        nap(5ms);
    }
}

// Refresh as the scheduler does. A server without its worker has nobody else who would.
void Shop::follow_revenue() {
    Connection db(db_, "baton demo refresh");
    while (!abandoned_) {
        const bool last = closing_revenue_;
        db.query("select * from baton.refresh_stream_table('shop.revenue')");
        if (last) return;
        for (int i = 0; i < 20 && !closing_revenue_; ++i) nap(25ms);
    }
}

bool Shop::handle_batch(Connection& db, bool roll_back) {
    const auto batch = db.query(claim);
    const long count = batch.number<long>(0, 2);
    if (count == 0) return false;
    db.exec("begin");
    db.query(bookkeeping, {batch.text(0, 0)});
    if (roll_back) {
        db.exec("rollback");
        db.query("select baton.release_inbox('shop.accounting', $1::text[], $2::uuid)",
                 {batch.text(0, 1), batch.text(0, 3)});
        counts_.handler_rollbacks += 1;
        return true;
    }
    db.query("select baton.complete_inbox('shop.accounting', $1::text[], $2::uuid)",
             {batch.text(0, 1), batch.text(0, 3)});
    db.exec("commit");
    counts_.handled += count;
    return true;
}

}  // namespace baton::cli

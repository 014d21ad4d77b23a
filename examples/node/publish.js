// Places an order and publishes the event, in one transaction: node publish.js URL ORDER TOTAL
//
// Needs examples/shop.sql, and `npm ci` in this folder.

import pg from "pg";

async function placeOrder(db, order, total) {
  await db.query("begin"); // the order and its event: both, or neither
  try {
    await db.query("insert into orders (id, total) values ($1, $2)", [order, total]);
    const published = await db.query(
      "select baton.publish('order_events', 'order.placed', $1::jsonb, 'order', $2::bigint) as id",
      [{ order, total }, order],
    );
    await db.query("commit");
    return published.rows[0].id;
  } catch (error) {
    await db.query("rollback");
    throw error;
  }
}

const [url, order, total] = process.argv.slice(2);
const db = new pg.Client(url);
await db.connect();
try {
  console.log("event", await placeOrder(db, Number(order), Number(total)));
} finally {
  await db.end();
}

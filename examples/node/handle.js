// Handles the messages of the inbox "payments", each exactly once, until SIGTERM: node handle.js URL
//
// Needs examples/shop.sql, and `npm ci` in this folder. Start as many as you like.

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const stopping = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stopping.abort());

// The message can never be handled.
class Reject extends Error {}

// Do the work, in the transaction that is open.
async function handle(db, message) {
  if (message.event_type !== "payment.received") throw new Reject(`what is a ${message.event_type}?`);
  const payment = message.payload;
  const paid = await db.query("update orders set paid = true where id = $1 and total <= $2", [
    payment.order,
    payment.amount,
  ]);
  if (paid.rowCount === 0) throw new Error("no such order yet, or not enough"); // comes again later
  await db.query("select baton.publish('order_events', 'order.paid', $1::jsonb, 'order', $2::bigint)", [
    payment,
    payment.order,
  ]);
}

async function run(db, message) {
  await db.query("begin"); // the work and the note that it is done: both, or neither
  try {
    await handle(db, message);
    await db.query("select baton.complete('payments', $1::text, $2)", [message.event_id, message.lease_token]);
    await db.query("commit");
  } catch (error) {
    await db.query("rollback");
    if (error.code === "BT001") return; // the lease is lost: somebody else has the message
    await db.query("select baton.fail('payments', $1::text, $2, $3, $4)", [
      message.event_id,
      error.message,
      error instanceof Reject,
      message.lease_token,
    ]);
  }
}

const db = new pg.Client(process.argv[2]);
await db.connect();
const worker = `${hostname()}-${process.pid}`;
while (!stopping.signal.aborted) {
  const claimed = await db.query("select * from baton.claim_inbox('payments', $1, 20, 30)", [worker]);
  for (const message of claimed.rows) await run(db, message);
  if (claimed.rowCount === 0) await sleep(200, undefined, { signal: stopping.signal }).catch(() => {});
}
await db.end();

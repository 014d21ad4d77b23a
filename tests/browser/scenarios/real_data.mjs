import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

const number = async (locator) => Number((await locator.innerText()).replace(/[^0-9.]/g, ""));

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  const id = await theatre.sql("select event_id from orders where id = 7");
  await theatre.until("the broker has the events", async () => (await theatre.ask("broker has", id)) === "yes");

  // The overview tells of what flows now, and goes on telling without a reload.
  await theatre.go(page, "/");
  await page.getByRole("row", { name: /orders-to-redis.*running/ }).first().waitFor();
  const published = page.getByText(/events published/);
  const before = await number(published.locator("xpath=."));
  await theatre.until("the number of events grows by itself", async () => (await number(published)) > before);
  await page.getByRole("img", { name: /^Events per second\. published: now/ }).waitFor();

  // An outbox, its groups and its events.
  await page.getByRole("link", { name: "Outboxes", exact: false }).first().click();
  await page.getByRole("link", { name: "invoices", exact: true }).click();
  await page.getByRole("heading", { name: /invoices/, level: 1 }).waitFor();
  await page.getByRole("row", { name: /invoices-to-webhook/ }).waitFor();
  await page.getByRole("row", { name: /invoice\.sent.*"invoice": 3/ }).waitFor();

  // Search by type and key, then the event by its id and its whole way.
  await theatre.go(page, "/events?outbox=orders");
  await page.getByLabel("Type", { exact: true }).fill("order.paid");
  await page.getByLabel("Key", { exact: true }).fill("7");
  await page.waitForURL(/type=order.paid/);
  await page.waitForURL(/key=7/);
  await theatre.until("only these are left", async () => {
    const rows = await page.locator("tbody tr").allInnerTexts();
    return rows.length > 0 && rows.every((row) => row.includes("order.paid"));
  });
  await page.getByLabel("Id or offset").fill(id);
  await page.getByRole("heading", { name: /order\.paid|order\.placed|order\.shipped/, level: 1 }).waitFor();
  const way = page.locator(".timeline");
  await way.getByText("published to").waitFor();
  await way.getByText("orders-to-redis").waitFor();
  await way.getByText("delivered and settled").first().waitFor();
  await page.getByLabel("payload").getByText("Ada Lovelace").waitFor();

  // All outboxes are searched at once, adopted tables too: by key, then page after page, and a row leads to its way.
  const back = page.url();
  await theatre.run(`create table mails (id int primary key, event uuid not null default gen_random_uuid(), kind text, whose text, payload jsonb, at timestamptz not null, done_at timestamptz, tries int not null default 0);
    select baton.adopt_outbox('mails', mapping => '{"columns": {"id": "id", "event_id": "event", "event_type": "kind", "aggregate_id": "whose", "payload": "payload", "occurred_at": "at", "processed_at": "done_at", "attempts": "tries"}, "attempts": {"limit": 2}, "backoff": {"kind": "none"}}');
    insert into mails select n, gen_random_uuid(), 'mail.written', 'everywhere', '{"mail": "hello"}', now() - interval '1 minute', now() from generate_series(1, 70) n;
    select baton.publish('orders', 'order.placed', '{"here": 1}', 'order', 'everywhere'), baton.publish('invoices', 'invoice.sent', '{"here": 1, "total": 1}', 'invoice', 'everywhere')`);
  await theatre.go(page, "/events");
  await page.getByRole("columnheader", { name: "outbox" }).waitFor();
  await page.getByLabel("Key", { exact: true }).fill("everywhere");
  await page.waitForURL(/key=everywhere/);
  const found = page.getByRole("region", { name: "events", exact: true }).locator("tbody tr");
  await theatre.until("all outboxes were searched", async () => {
    const rows = (await found.allInnerTexts()).join("\n");
    return ["orders", "invoices", "mails"].every((name) => rows.includes(name)) && !rows.includes("order.paid");
  });
  await theatre.shoot(page, "light/events_everywhere");
  await page.getByRole("button", { name: /more/i }).click();
  await theatre.until("the second page is there", async () => (await found.count()) === 72);
  await page.getByLabel("Type", { exact: true }).fill("mail.written");
  await theatre.until("only mails are left", async () => (await found.filter({ hasText: "order.placed" }).count()) === 0 && (await found.count()) >= 50);
  await found.filter({ hasText: "mail.written" }).first().getByRole("link", { name: "mail.written" }).click();
  await page.locator(".timeline").getByText("the row of").waitFor();
  await theatre.run("select baton.unadopt_outbox('mails'); drop table mails");
  await page.goto(back);
  await theatre.settle(page);

  // It goes on in an inbox of this database, and the page follows.
  await theatre.sql("select baton.create_inbox('courier')");
  await theatre.sql(`select baton.receive('courier', '${id}', 'order.paid', '{}')`);
  await way.getByText("received by inbox").waitFor();
  await way.getByText("waits to be handled in").waitFor();
  await theatre.sql("select baton.complete_inbox('courier', array_agg(event_id), lease_token => (array_agg(lease_token))[1]) from baton.claim_inbox('courier', 'w')");
  await way.locator("li.good").getByText("handled in").waitFor();

  // What a pipeline would send; settings; partitions; jobs.
  await theatre.go(page, "/pipelines/orders-to-redis");
  await page.getByLabel("settings", { exact: true }).getByText("shop.orders").waitFor();
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.locator("[data-waiting]").waitFor();
  await page.locator(".rendered").first().getByText("shop.orders").waitFor();
  // Of an outbox that is all delivered the last events are shown, and which of them would not be sent, and why.
  await theatre.go(page, "/pipelines/claims-to-redis");
  await theatre.sql(`select baton.publish('claims', 'claim.made', '{"claim": "first"}', 'claim', 9)`);
  await theatre.until("the claim is delivered", async () => (await theatre.ask("broker has claim", "first")) === "yes");
  await theatre.until("it is settled", async () => (await theatre.sql("select lag_rows from baton.group_lag where group_name = 'claims-to-redis'")) === "0");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.locator('[data-waiting="false"]', { hasText: "Nothing waits" }).waitFor();
  await page.locator(".rendered", { hasText: "first" }).waitFor();
  await theatre.go(page, "/storage");
  await page.getByRole("row", { name: /orders.*open/ }).first().waitFor();

  // A change of a setting holds, and the audit trail says who made it.
  await theatre.go(page, "/settings?find=outbox_retention");
  await page.getByRole("button", { name: "change outbox_retention_hours" }).click();
  await page.getByLabel(/^Value/).fill("36");
  await page.getByRole("button", { name: "Set", exact: true }).click();
  await page.getByRole("row", { name: /outbox_retention_hours 36/ }).waitFor();
  assert.equal(await theatre.sql("select baton.setting('outbox_retention_hours')"), "36");
  await theatre.go(page, "/audit");
  await page.getByRole("row", { name: /ann by dashboard.*outbox_retention_hours/ }).first().waitFor();

  // An event that is published here is delivered.
  await theatre.go(page, "/outboxes/orders");
  await page.getByRole("button", { name: "Publish…" }).click();
  await page.getByLabel("Type", { exact: true }).fill("order.by_hand");
  await page.getByLabel("Payload, JSON").fill('{"by": "hand", "digits": 98765432109876543210.50}');
  await page.getByRole("dialog").getByRole("button", { name: "Publish" }).click();
  const kind = "select jsonb_typeof(max(payload)::jsonb) from (select payload::text from orders where event_type = 'order.by_hand') published";
  await theatre.until("it is in the outbox, as an object", async () => (await theatre.sql(kind)) === "object");
  await theatre.until("the broker has it, with all digits", async () => (await theatre.ask("broker has", "98765432109876543210.50")) === "yes");
}

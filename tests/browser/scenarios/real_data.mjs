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
  await page.locator(".rendered, .panel-body .faint").first().waitFor();
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

// What an operator changes by clicking: a group is moved, a pipeline is switched and edited, a stream table is refreshed, verified and paused, a message of an
// inbox is mended. Each time the database says that it was done.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  const click = (name) => page.getByRole("button", { name, exact: true }).click();
  const sql = (text) => theatre.sql(text);

  // A group is moved to the end, and to an offset.
  await sql("select baton.create_consumer_group('wanderer', 'invoices', 'earliest')");
  const lag = () => sql("select lag_rows from baton.group_lag where group_name = 'wanderer'");
  const all = await sql("select count(*) from invoices");
  assert.equal(await lag(), all);
  await theatre.go(page, "/groups/wanderer");
  await click("Move it…");
  await click("Cancel");
  assert.equal(await lag(), all);
  await click("Move it…");
  await click("Move the group");
  await page.getByText("wanderer was moved: 0 events to read").waitFor();
  assert.equal(await lag(), "0");
  await click("Move it…");
  await click("Offset");
  await page.getByLabel("Read on behind this offset").fill("4");
  await click("Move the group");
  await page.getByText(`wanderer was moved: ${all - 4} events to read`).waitFor();
  assert.equal(await lag(), String(all - 4));
  await click("Move it…");
  await click("Time");
  await page.getByLabel("From the first event that occurred then").fill("2020-01-01T00:00:01");
  await click("Move the group");
  await page.getByText(`wanderer was moved: ${all} events to read`).waitFor();
  assert.equal(await lag(), all);

  // A pipeline is disabled, edited with what changes beside it, and enabled.
  const pipeline = (what) => sql(`select ${what} from baton.pipelines where name = 'invoices-to-webhook'`);
  await theatre.go(page, "/pipelines/invoices-to-webhook");
  await click("Disable…");
  await click("Disable the pipeline");
  await page.getByText("invoices-to-webhook was disabled").waitFor();
  assert.equal(await pipeline("enabled"), "f");
  await click("Edit…");
  const settings = page.getByLabel("Settings, as in a relay's file");
  const before = await settings.inputValue();
  assert.ok(await page.getByRole("button", { name: "Save", exact: true }).isDisabled(), "nothing changed yet");
  await settings.fill("{");
  assert.ok(await page.getByRole("button", { name: "Save", exact: true }).isDisabled(), "no JSON");
  await settings.fill(before.replace('"max_attempts": 1', '"max_attempts": 2'));
  await page.getByLabel("changes").locator(".line.new", { hasText: '"max_attempts": 2' }).first().waitFor();
  await page.getByLabel("changes").locator(".line.gone", { hasText: '"max_attempts": 1' }).first().waitFor();
  await click("Save");
  await page.getByText("saved: relays take it over now").waitFor();
  assert.equal(await pipeline("settings #>> '{failure,max_attempts}'"), "2");
  assert.equal(await pipeline("enabled"), "f", "an edit switches nothing");
  await click("Enable");
  await page.getByText("invoices-to-webhook was enabled").waitFor();
  assert.equal(await pipeline("enabled"), "t");

  // A stream table is refreshed, verified, paused and resumed.
  await theatre.go(page, "/stream-tables/public.revenue");
  await click("Refresh");
  await page.getByText(/^[A-Z_]+: \+\d+ −\d+ rows in /).waitFor();
  await click("Verify");
  await page.getByText("it holds exactly what its query gives").waitFor();
  await click("Pause");
  await page.getByText("it is not refreshed by schedule any more").waitFor();
  const state = () => sql("select state from baton.stream_table_status('revenue')");
  assert.equal(await state(), "paused");
  await click("Resume");
  await page.getByText("it is refreshed by schedule again").waitFor();
  assert.notEqual(await state(), "paused");
  // Its rows were changed behind its back while it was paused: the page finds that out, and computes it anew.
  await click("Pause");
  await theatre.until("it rests", async () => (await state()) === "paused");
  await theatre.run("alter table revenue disable trigger baton_stream; delete from revenue where product = 'product 1'; alter table revenue enable always trigger baton_stream");
  await click("Verify");
  await page.getByText("1 row missing").waitFor();
  await click("Repair…");
  await click("Compute it anew");
  await page.getByText(/^[A-Z_]+: \+1 −0 rows in /).waitFor();
  await click("Verify");
  await page.getByText("it holds exactly what its query gives").last().waitFor();
  assert.equal(await sql("select count(*) from revenue"), "5");

  // A new pipeline is written: a name that is taken and settings that no relay could run are refused, in the server's words; then it is there, and switched off.
  await theatre.go(page, "/pipelines");
  await click("New pipeline…");
  await page.getByLabel("Name", { exact: true }).fill("orders-to-redis");
  await page.getByText("there is a pipeline of this name").waitFor();
  assert.ok(await page.getByRole("button", { name: "Make the pipeline" }).isDisabled());
  await page.getByLabel("Name", { exact: true }).fill("old-orders");
  await page.getByLabel("Reads").selectOption({ label: "orders" });
  assert.equal(JSON.parse(await settings.inputValue()).source.outbox, "public.orders");
  await settings.fill('{"source": {"outbox": "orders"}, "sink": {"type": "pigeon"}}');
  await page.getByLabel("Relays run it at once").uncheck();
  theatre.forgives = /status of 400/;
  await click("Make the pipeline");
  await page.getByRole("dialog").getByRole("alert").getByText(/pigeon/).waitFor();
  await theatre.shoot(page, "light/pipeline_refused");
  assert.deepEqual(await theatre.axe(page), []);
  await settings.fill('{"source": {"outbox": "orders"}, "sink": {"type": "null"}}');
  await click("Make the pipeline");
  await page.getByText("old-orders was made").waitFor();
  theatre.forgives = null;
  assert.equal(await sql("select enabled || ' ' || (settings #>> '{sink,type}') || ' ' || (select details ->> 'acting_for' from baton.audit_trail where action = 'set_pipeline' and object = 'old-orders') from baton.pipelines where name = 'old-orders'"), "false null ann by dashboard");

  // It is deleted after a question; its group stays.
  await page.getByRole("heading", { name: /old-orders/, level: 1 }).waitFor();
  await page.getByText("No relay runs it; its group keeps its place").waitFor();
  await click("Delete…");
  await click("Cancel");
  assert.equal(await sql("select count(*) from baton.pipelines where name = 'old-orders'"), "1");
  await click("Delete…");
  await click("Delete the pipeline");
  await page.getByText("old-orders was deleted").waitFor();
  await page.waitForURL(/\/pipelines$/);
  await page.getByRole("row", { name: /old-orders/ }).waitFor({ state: "detached" });
  assert.equal(await sql("select count(*) from baton.pipelines where name = 'old-orders'"), "0");

  // A dead message of an inbox is edited and replayed.
  await sql("select baton.create_inbox('desk')");
  await sql("select baton.receive('desk', 'note-1', 'note.taken', '{\"total\": null}')");
  await sql("select baton.fail_inbox('desk', '{note-1}'::text[], 'total is missing', permanent => true)");
  await theatre.go(page, "/dead-letters?kind=inbox");
  await page.getByRole("row", { name: /note\.taken.*total is missing/ }).getByRole("link", { name: "note.taken" }).click();
  await click("Edit");
  await page.getByLabel("Payload, JSON").fill('{"total": 12345678901234567890.50}');
  theatre.forgives = /status of 404/; // the page may ask for the letter once more
  await click("Save and replay");
  await page.getByText("replayed: it is delivered again").waitFor();
  assert.equal(await sql("select payload ->> 'total' from baton.inbox_messages('desk')"), "12345678901234567890.50");

  // Events are found by their time.
  await theatre.go(page, "/events?outbox=invoices");
  const rows = page.locator("tbody tr");
  await theatre.until("all are shown", async () => (await rows.count()) >= 6);
  await page.getByLabel("Until").fill("2020-01-01T00:00:01");
  await page.waitForURL(/until=2020/);
  await rows.filter({ hasText: "invoice.sent" }).first().waitFor({ state: "detached" });
  await page.getByLabel("Until").fill("");
  await page.getByLabel("Since").fill("2020-01-01T00:00:01");
  await page.waitForURL(/since=2020/);
  await theatre.until("all are shown again", async () => (await rows.count()) >= 6);
}

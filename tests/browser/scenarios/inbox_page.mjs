// The page of an inbox: what waits, what was handled, what is dead, found by type and aggregate, and its numbers as they change.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.sql("select baton.create_inbox('mail')");
  for (const [id, type, aggregate] of [["m-1", "letter.came", "ann"], ["m-2", "letter.came", "bob"], ["m-3", "parcel.came", "bob"], ["m-4", "parcel.came", "cat"]])
    await theatre.sql(`select baton.receive('mail', '${id}', '${type}', '{"id": "${id}"}', aggregate_id => '${aggregate}')`);
  await theatre.go(page, "/inboxes");
  await page.getByRole("row", { name: /mail/ }).getByRole("link", { name: "mail" }).click();
  await page.getByRole("heading", { name: /mail/, level: 1 }).waitFor();
  const shown = (label) => page.locator(".stat", { hasText: label }).locator(".stat-value").innerText();
  const messages = page.getByRole("region", { name: "messages", exact: true }).locator("tbody tr");
  const ids = async () => (await messages.allInnerTexts()).map((text) => /m-\d/.exec(text)[0]).sort().join(" ");
  const show = (expected) => theatre.until(`${expected} is shown`, async () => (await ids()) === expected);
  await show("m-1 m-2 m-3 m-4");
  assert.equal(await shown("Waiting"), "4");

  await page.getByLabel("Type", { exact: true }).fill("parcel.came");
  await show("m-3 m-4");
  await page.getByLabel("Aggregate", { exact: true }).fill("bob");
  await show("m-3");
  await page.getByLabel("Type", { exact: true }).fill("");
  await page.getByLabel("Aggregate", { exact: true }).fill("");
  await show("m-1 m-2 m-3 m-4");

  // One is handled and one dies; the page follows.
  await theatre.sql("select baton.complete_inbox('mail', '{m-1}'::text[])");
  await theatre.sql("select baton.fail_inbox('mail', '{m-2}'::text[], 'no such street', permanent => true)");
  await theatre.until("the numbers follow", async () => (await shown("Waiting")) === "2" && (await shown("Dead letters")) === "1");
  await show("m-3 m-4");
  await page.getByRole("button", { name: "Handled", exact: true }).click();
  await show("m-1");
  await page.getByRole("button", { name: "Dead", exact: true }).click();
  await messages.filter({ hasText: "no such street" }).waitFor();

  // It is replayed here, and waits again.
  await page.getByRole("region", { name: "Dead letters", exact: true }).getByRole("link", { name: "letter.came" }).click();
  theatre.forgives = /status of 404/; // the page may ask for the letter once more
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await theatre.until("it waits again", async () => (await theatre.sql("select count(*) from baton.inbox_messages('mail', in_state => 'pending')")) === "3");
}

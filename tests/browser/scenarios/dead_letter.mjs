// An invoice that the webhook refuses is found, mended and replayed by clicking, and arrives.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/");
  const finding = page.locator(".findings li", { hasText: "invoices-to-webhook" }).filter({ hasText: "dead letter" });
  await finding.getByRole("link", { name: "Look at the dead letters" }).click();
  await page.getByRole("row", { name: /invoice\.sent.*422/ }).getByRole("link", { name: "invoice.sent" }).click();
  await page.locator("[data-error]").getByText("422").waitFor();
  await page.getByLabel("payload", { exact: true }).getByText("needs-mending").waitFor();

  await page.getByLabel("failed attempts").getByText("422").first().waitFor();

  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const editor = page.getByLabel("Payload, JSON");
  const before = await editor.inputValue();
  assert.ok(before.includes("12345678901234567890123") && before.includes("1.10"), before);
  await editor.fill(before.replace('"total": null', '"total": 66'));
  const changes = page.getByLabel("changes");
  await changes.getByText('added: "total": 66').or(changes.locator(".line.new", { hasText: '"total": 66' })).first().waitFor();
  await changes.locator(".line.gone", { hasText: '"total": null' }).waitFor();
  await theatre.shoot(page, "light/dead_letter_edit");
  await theatre.picture(page, "dashboard-dead_letter_edit-light");
  assert.deepEqual(await theatre.axe(page), []);
  theatre.forgives = /status of 404/; // the page may have asked for the letter just before it was gone
  await page.getByRole("button", { name: "Save and replay" }).click();
  await page.getByText("replayed: it is delivered again").waitFor();

  await theatre.until("the webhook has it", async () => (await theatre.ask("webhook has", "needs-mending")) === "yes");
  assert.equal(await theatre.ask("webhook has", "12345678901234567890123"), "yes");
  assert.equal(await theatre.ask("webhook has", "1.10"), "yes");
  assert.equal(await theatre.ask("webhook has", '"total": 66'), "yes", "an object arrives, not its text");
  await page.getByText("No dead letters").waitFor();
  const who = await theatre.sql("select string_agg(distinct details ->> 'acting_for', ',') from baton.audit_trail where action in ('edit_dead_letter', 'replay_dead_letter')");
  assert.equal(who, "ann by dashboard");
}

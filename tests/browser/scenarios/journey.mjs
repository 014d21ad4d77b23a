// From a broken broker to a replayed dead letter: the broker goes down, the page says so, the broker is back, what it refuses is found, mended and sent again, and
// arrives. Everything by clicking what the page offers.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/");
  const finding = page.locator(".findings li", { hasText: "claims-to-redis" });
  const letter = finding.filter({ hasText: "dead letter" });

  await theatre.ask("stop broker");
  await theatre.sql(`select baton.publish('claims', 'claim.made', '{"claim": "waits-for-the-broker"}', 'claim', 1)`);
  await theatre.sql(`select baton.publish('claims', 'claim.made', jsonb_build_object('claim', 'too-large', 'photo', repeat('x', 2000)), 'claim', 2)`);
  await finding.filter({ hasText: /connect|refused/i }).waitFor();
  assert.equal(await letter.count(), 0, "a broker that is away costs no event");

  await theatre.ask("start broker");
  await finding.filter({ hasText: /connect|refused/i }).waitFor({ state: "detached" });
  await theatre.until("what waited has arrived", async () => (await theatre.ask("broker has claim", "waits-for-the-broker")) === "yes");

  await letter.getByRole("link", { name: "Look at the dead letters" }).click();
  await page.getByRole("row", { name: /claim\.made.*at most 1000/ }).getByRole("link", { name: "claim.made" }).click();
  await page.locator("[data-error]").getByText("the sink takes at most 1000").waitFor();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const editor = page.getByLabel("Payload, JSON");
  assert.ok((await editor.inputValue()).includes("too-large"));
  await editor.fill('{"claim": "small-enough"}');
  await page.getByLabel("changes").locator(".line.new", { hasText: "small-enough" }).first().waitFor();
  theatre.forgives = /status of 404/; // the page may ask for the letter once more
  await page.getByRole("button", { name: "Save and replay" }).click();
  await page.getByText("replayed: it is delivered again").waitFor();
  await theatre.until("it has arrived", async () => (await theatre.ask("broker has claim", "small-enough")) === "yes");
  await page.getByText("No dead letters").waitFor();
  await theatre.go(page, "/");
  await finding.waitFor({ state: "detached" });
}

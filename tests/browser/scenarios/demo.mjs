// What somebody sees who opens the link that the demo prints: signed in, with an outage and a dead letter to play with, and both can be mended.

import assert from "node:assert/strict";

export default async function (theatre) {
  const link = new URL(theatre.url);
  theatre.url = link.origin;
  const page = await theatre.visit();
  await page.goto(link.href);
  await theatre.settle(page);
  await page.locator(".account").getByRole("button", { name: "Sign out" }).waitFor();
  assert.equal(new URL(page.url()).hash, "", "the token leaves the address");
  const finding = page.locator(".findings li", { hasText: "demo_parcels" });
  await finding.filter({ hasText: /refused|connect/i }).waitFor();
  await page.getByRole("row", { name: /demo_file.*running/ }).waitFor();
  await page.getByRole("img", { name: /^Events per second\. published: now/ }).waitFor();
  await theatre.shoot(page, "light/demo");

  await finding.filter({ hasText: "dead letter" }).getByRole("link", { name: "Look at the dead letters" }).click();
  await page.getByRole("row", { name: /parcel\.sent.*422/ }).getByRole("link", { name: "parcel.sent" }).click();
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const editor = page.getByLabel("Payload, JSON");
  await editor.fill((await editor.inputValue()).replace('"grams": null', '"grams": 250'));
  theatre.forgives = /status of 404/; // the page may ask for the letter once more
  await page.getByRole("button", { name: "Save and replay" }).click();
  await page.getByText("replayed: it is delivered again").waitFor();

  await theatre.ask("press enter");
  await theatre.go(page, "/pipelines/demo_parcels");
  await page.locator(".note.good").waitFor();
  await theatre.go(page, "/");
  await finding.waitFor({ state: "detached" });
  await page.locator('[data-health="good"]').waitFor();
}

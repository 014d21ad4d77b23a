// The page of `baton dashboard`: what relays do is seen from the database, with what hinders them and since when.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

const shown = (page, label) => page.locator(".stat", { hasText: label }).locator(".stat-value").innerText();

export default async function (theatre) {
  theatre.url = await theatre.ask("start dashboard");
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/");
  const running = page.getByRole("region", { name: "pipelines that run" });
  await running.getByRole("row", { name: /orders-to-redis.*running/ }).waitFor();
  await theatre.until("events are delivered in some time", async () => Number.parseFloat(await shown(page, "Delivered")) > 0 && /^[0-9]/.test(await shown(page, "Commit to ack")));
  assert.match(await shown(page, "Failures"), /^[0-9]/);
  assert.equal(await running.getByRole("columnheader", { name: "relay" }).count(), 0, "one relay need not be named");
  await theatre.shoot(page, "light/overview_without_relay");

  await theatre.ask("stop broker");
  await theatre.go(page, "/pipelines");
  const row = page.getByRole("row", { name: /orders-to-redis/ });
  await row.filter({ hasText: /connect|refused/i }).filter({ hasText: /since/ }).waitFor();
  await theatre.shoot(page, "light/pipelines_outage");
  await row.getByRole("link", { name: "orders-to-redis" }).click();
  await page.locator(".note.bad [data-trouble]", { hasText: /connect|refused/i }).waitFor();
  await page.locator("[data-since] time").first().waitFor();
  await theatre.shoot(page, "light/pipeline_outage");

  await theatre.ask("start broker");
  await page.locator(".note.good").waitFor();

  // A relay that was killed is missed once its notes have run out, and seen again when another one has begun.
  await theatre.go(page, "/");
  await theatre.ask("kill relay");
  await running.getByText("No relay runs").or(page.getByText("No relay runs", { exact: true })).first().waitFor();
  await theatre.go(page, "/pipelines/orders-to-redis");
  await page.locator(".note.bad", { hasText: "no relay" }).waitFor();
  await theatre.ask("start relay");
  await page.locator(".note.good").waitFor();
  await theatre.ask("stop dashboard");
}

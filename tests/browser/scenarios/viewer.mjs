// Who may only look sees no control that changes something, and the server refuses what is sent all the same.

import assert from "node:assert/strict";
import { operator, viewer } from "../theatre.mjs";
import { allPages } from "./every_page.mjs";

const enabled = (page) => page.locator("[data-change]:not(:disabled)");

export default async function (theatre) {
  const page = await theatre.visit();
  await theatre.go(page, "/dead-letters/1");
  assert.equal(await enabled(page).count(), 0);

  // A wrong token is refused with a reason, a viewer's is taken.
  theatre.forgives = /status of 401|status of 403/;
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Token").fill("not-a-token-at-all");
  await page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(viewer);
  await page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
  await page.locator(".account", { hasText: "vic" }).waitFor();

  let controls = 0;
  for (const path of Object.values(allPages)) {
    await theatre.go(page, path);
    controls += await page.locator("[data-change]").count();
    assert.equal(await enabled(page).count(), 0, path);
  }
  assert.ok(controls > 20, "there are controls, switched off");
  const refused = await page.evaluate(async () => {
    const { csrf } = await (await fetch("/api/v1/session")).json();
    const answer = await fetch("/api/v1/dead-letters/replay", { method: "POST", headers: { "Content-Type": "application/json", "X-Baton-CSRF": csrf ?? "" }, body: '{"letters":["1"]}' });
    return answer.status;
  });
  assert.equal(refused, 403);

  // An operator's session without what only the page knows is refused, too.
  const other = await theatre.visit({ token: operator });
  await theatre.go(other, "/dead-letters/1");
  assert.ok((await enabled(other).count()) >= 3);
  const forged = await other.evaluate(async () => (await fetch("/api/v1/dead-letters/replay", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"letters":["1"]}' })).status);
  assert.equal(forged, 403);
  assert.equal(await theatre.sql("select count(*) from baton.dead_letters where id = 1"), "1");

  // After signing out nothing can be changed any more.
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("button", { name: "Sign in" }).waitFor();
  assert.equal(await enabled(other).count(), 0);
}

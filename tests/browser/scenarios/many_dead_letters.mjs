import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  const left = () => theatre.sql("select count(*) from baton.dead_letters where group_name = 'billing'");
  const all = Number(await left());
  assert.ok(all >= 5);
  await theatre.go(page, "/dead-letters?place=billing");

  // A part of the error chooses them, too.
  await page.getByLabel("Error").fill("INSUFFICIENT");
  await page.waitForURL(/error=INSUFFICIENT/);
  await theatre.until("all fit", async () => (await page.locator("tbody tr").count()) === all);
  await page.getByLabel("Error").fill("no such error");
  await page.getByText("Nothing was given up that fits").waitFor();
  await theatre.go(page, "/dead-letters?place=billing");

  // Two are discarded: a reason is asked for, and Cancel changes nothing.
  const boxes = page.locator("tbody input[type=checkbox]");
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByText("2 selected").waitFor();
  await page.getByRole("button", { name: "Discard…" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(Number(await left()), all);
  await page.getByRole("button", { name: "Discard…" }).click();
  await page.getByLabel("Why").fill("test orders of the staging shop");
  await page.getByRole("button", { name: "Discard 2 dead letters" }).click();
  await page.getByText("2 dead letters discarded").waitFor();
  assert.equal(Number(await left()), all - 2);

  // Two are replayed.
  await theatre.until("the list is short by two", async () => (await boxes.count()) === all - 2);
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole("group", { name: "what is selected" }).getByRole("button", { name: "Replay" }).click();
  await page.getByRole("button", { name: "Replay 2 dead letters" }).click();
  await page.getByText("2 dead letters replayed").waitFor();
  assert.equal(Number(await left()), all - 4);

  // And all the others.
  await page.getByRole("button", { name: "Replay all…" }).click();
  await page.getByRole("button", { name: "Replay all", exact: true }).click();
  await page.getByText(`${all - 4} dead letter`).first().waitFor();
  await page.getByText("No dead letters").waitFor();
  assert.equal(Number(await left()), 0);
}

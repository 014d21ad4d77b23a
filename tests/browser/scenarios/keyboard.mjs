// From the first key to a question and back, without a mouse; the focus is always seen.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return { text: (element.getAttribute("aria-label") ?? element.textContent).trim(), tag: element.tagName, id: element.id, seen: element.matches(":focus-visible") && style.outlineStyle !== "none" };
});

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/");

  await page.keyboard.press("Tab");
  assert.match((await focused(page)).text, /Skip to the page/);
  await page.keyboard.press("Enter");
  assert.equal((await focused(page)).id, "main");

  // Every stop of the Tab key is seen.
  await page.evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 25; i++) {
    await page.keyboard.press("Tab");
    const at = await focused(page);
    assert.ok(at.seen || at.tag === "BODY", `${i}: ${at.tag} ${at.text}`);
  }

  // The slash goes to the search, arrows choose, Enter goes there; the heading has the focus then.
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("/");
  await page.keyboard.type("billing");
  await page.getByRole("option", { name: /billing group/ }).waitFor();
  assert.equal(await page.getByRole("combobox").getAttribute("aria-expanded"), "true");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /billing/, level: 1 }).waitFor();
  assert.match(page.url(), /\/groups\/billing$/);
  await theatre.until("the heading has the focus", async () => (await focused(page)).tag === "H1");

  // A question takes the focus, keeps it, and gives it back.
  await theatre.go(page, "/dead-letters/1");
  const discard = page.getByRole("button", { name: "Discard…" });
  await discard.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  for (let i = 0; i < 12; i++) {
    // Between the last and the first, the browser's own bar has its turn.
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null));
    await page.keyboard.press("Tab");
  }
  assert.ok(await page.getByRole("dialog").getByRole("button", { name: "Discard it" }).isDisabled(), "a reason is needed");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.match((await focused(page)).text, /Discard/);
  assert.equal(await theatre.sql("select count(*) from baton.dead_letters where id = 1"), "1");

  // What is said is said to a screen reader as well.
  assert.equal(await page.locator("[role=status][aria-live=polite]").count(), 1);
  for (const landmark of ["banner", "navigation", "main"]) assert.ok((await page.getByRole(landmark).count()) >= 1, landmark);
}

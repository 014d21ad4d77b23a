// Names, types, keys, errors and payloads of somebody who means harm (hostile.sql): all of them are shown, none runs.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

const outbox = '"<img src=x onerror=hacked()>"';
const group = "<script>hacked()</script>";

export default async function (theatre) {
  await theatre.ask("sql file", "hostile.sql");
  const page = await theatre.visit({ token: operator });
  await page.addInitScript(() => {
    window.hacks = 0;
    window.hacked = () => window.hacks++;
  });
  const letter = await theatre.sql(`select id from baton.dead_letters where group_name = '${group}'`);
  const pipeline = "<img src=x onerror=hacked()>"; // and a tenant
  const message = await theatre.sql(`select letter from baton.all_dead_letters(of_kind => 'inbox') where event_id like '<i %'`);
  const id = await theatre.sql(`select event_id from ${outbox}`);
  const at = encodeURIComponent;
  const places = {
    "/": group,
    "/outboxes": "<img src=x onerror=hacked()>",
    [`/outboxes/${at(outbox)}`]: '"><svg onload=hacked()>',
    "/groups": group,
    [`/groups/${at(group)}`]: "<b onmouseover=hacked()>worker",
    [`/events?outbox=${at(outbox)}`]: '"><svg onload=hacked()>',
    [`/events/${id}`]: "</pre><script>hacked()</script>",
    "/dead-letters": "<img src=x onerror=hacked()>",
    [`/dead-letters/${letter}`]: "</pre><script>hacked()</script>",
    "/inboxes": "<svg onload=hacked()>",
    [`/inboxes/${at('public."<svg onload=hacked()>"')}`]: "<svg onload=hacked()>",
    [`/dead-letters/${at(message)}`]: "<script>hacked()</script>",
    "/pipelines": pipeline,
    [`/pipelines/${at(pipeline)}`]: pipeline,
    "/stream-tables": "<iframe src=javascript:hacked()>",
    [`/stream-tables/${at('public."<iframe src=javascript:hacked()>"')}`]: "<iframe src=javascript:hacked()>",
    [`/groups/${at("of a tenant")}`]: pipeline,
    "/events?outbox=tenants": "made",
    "/doctor": group,
    "/leases": "Leases",
    "/audit": "Audit",
    [`/nowhere/${at("<script>hacked()</script>")}`]: "Nothing is here",
  };
  for (const [path, text] of Object.entries(places)) {
    await theatre.go(page, path);
    await page.getByText(text, { exact: false }).first().waitFor();
    const found = await page.evaluate(() => ({
      hacks: window.hacks,
      foreign: document.querySelectorAll("img, iframe, object, embed, svg[onload], [onmouseover], [onerror], a[href^='javascript:']").length,
      scripts: document.querySelectorAll("script").length,
      turned: /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText),
    }));
    assert.deepEqual(found, { hacks: 0, foreign: 0, scripts: 1, turned: false }, path);
  }

  // 100,000 letters are shown in part, and all of them when somebody asks; the editor keeps them all.
  await theatre.go(page, `/dead-letters/${letter}`);
  assert.ok((await page.getByLabel("payload", { exact: true }).innerText()).length < 30_000);
  await page.getByRole("button", { name: /show all/ }).click();
  await page.waitForFunction(() => document.querySelector(".json pre").textContent.length > 90_000);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const editor = page.getByLabel("Payload, JSON");
  const whole = await editor.inputValue();
  assert.ok(whole.includes("\\u202egpj.exe") && whole.length > 90_000);
  await editor.fill('{"html": "<b>');
  await page.getByText(/the end is not expected here|is not expected here/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Save", exact: true }).isDisabled());

  // The search finds such a name, too.
  await page.keyboard.press("Escape");
  await page.getByRole("combobox").fill("<script>");
  await page.getByRole("option", { name: /hacked\(\)<\/script> group/ }).click();
  await page.getByRole("heading", { name: group, level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => window.hacks), 0);
}

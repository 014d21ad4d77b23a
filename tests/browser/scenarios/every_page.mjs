// Every page, in light and dark and on a phone: no finding of axe, nothing wider than the screen, a picture of each.

import assert from "node:assert/strict";
import { operator, phone } from "../theatre.mjs";

export const allPages = {
  overview: "/",
  outboxes: "/outboxes",
  outbox: "/outboxes/orders",
  groups: "/groups",
  group: "/groups/billing",
  pipelines: "/pipelines",
  pipeline: "/pipelines/orders-to-redis",
  inboxes: "/inboxes",
  inbox: "/inboxes/public.payments",
  stream_tables: "/stream-tables",
  stream_table: "/stream-tables/public.revenue",
  events: "/events?outbox=orders",
  event: "/events/3?outbox=orders",
  dead_letters: "/dead-letters",
  dead_letter: "/dead-letters/1",
  blocked: "/blocked",
  leases: "/leases",
  storage: "/storage",
  jobs: "/jobs",
  settings: "/settings",
  doctor: "/doctor",
  alerts: "/alerts",
  audit: "/audit",
  not_found: "/nowhere",
};

// Pages that docs/dashboard.md shows, and how.
const pictures = { overview: ["light", "dark"], event: ["light"], dead_letters: ["phone"] };

export default async function (theatre) {
  await theatre.until("an invoice is given up", async () => (await theatre.sql("select count(*) from baton.dead_letters where group_name = 'invoices-to-webhook'")) === "1");
  const looks = {
    light: await theatre.visit({ token: operator }),
    dark: await theatre.visit({ token: operator, colorScheme: "dark" }),
    phone: await theatre.visit({ token: operator, viewport: phone }),
  };
  const findings = [];
  const visit = async (page, look, name, path) => {
    await theatre.go(page, path);
    if (name === "overview") await page.waitForFunction(() => document.querySelectorAll(".spark path").length >= 5);
    findings.push(...(await theatre.axe(page)).map((finding) => `${path} ${look}: ${finding}`));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) findings.push(`${path} ${look}: ${wide} pixels wider than the screen`);
    await theatre.shoot(page, `${look}/${name}`);
    if (pictures[name]?.includes(look)) await theatre.picture(page, `dashboard-${name}-${look}`);
  };
  // The overview comes last: its charts have something to show then.
  for (const [name, path] of Object.entries(allPages).reverse()) await Promise.all(Object.entries(looks).map(([look, page]) => visit(page, look, name, path)));
  assert.deepEqual(findings, []);
}

import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  const other = await theatre.visit({ token: operator });
  await theatre.go(page, "/");
  await theatre.go(other, "/pipelines/orders-to-redis");
  await page.getByRole("row", { name: /orders-to-redis.*running/ }).first().waitFor();

  await theatre.ask("stop broker");
  await page.locator(".findings li", { hasText: "orders-to-redis" }).filter({ hasText: /retrying|connect|refused/i }).waitFor({ timeout: 60_000 });
  await other.locator(".note.bad [data-trouble]").waitFor({ timeout: 60_000 });
  await other.getByText("Nothing is lost").waitFor();
  await theatre.shoot(page, "light/overview_outage");
  await theatre.picture(page, "dashboard-outage-light");

  await theatre.ask("start broker");
  await page.locator(".findings li", { hasText: "orders-to-redis" }).waitFor({ state: "detached", timeout: 60_000 });
  await other.locator(".note.good").waitFor({ timeout: 60_000 });
  const late = await theatre.sql("select max(id) from orders");
  const id = await theatre.sql(`select event_id from orders where id = ${late}`);
  await theatre.until("the broker has what waited", async () => (await theatre.ask("broker has", id)) === "yes");
}

// Pages that tell what goes on behind: alerts as they come, leases and who has published without a commit, jobs and one that fails, what the doctor finds.

import assert from "node:assert/strict";
import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  const row = (name) => page.getByRole("row", { name });

  // An alert is shown when it is told, without a reload, with its object and its detail.
  await theatre.go(page, "/alerts");
  await theatre.sql(`select baton_internal.alert('disk_filling', 'public.orders', '{"free_bytes": 12345}')`);
  await row(/disk filling.*public\.orders.*12345/).waitFor();
  await theatre.sql(`select pg_notify('baton_alert', 'by hand: look here')`);
  await row(/other.*by hand: look here/).waitFor();
  assert.match(await page.locator("tbody tr").first().innerText(), /by hand/, "the newest stands first");

  // A consumer's lease comes and goes; a relay owns its group; a transaction that has published and stays open is named.
  await theatre.go(page, "/leases");
  const leases = page.getByRole("region", { name: "leases", exact: true });
  await page.getByRole("region", { name: "groups that a relay owns" }).getByRole("row", { name: /orders-to-redis/ }).waitFor();
  await theatre.sql("select baton.create_consumer_group('night', 'invoices', 'earliest')");
  const taken = JSON.parse(await theatre.sql("select json_build_object('ids', json_agg(id), 'token', min(lease_token::text)) from baton.poll_outbox('night', 'night-worker', 3)"));
  await leases.getByRole("row", { name: /night.*night-worker/ }).waitFor();
  await theatre.sql(`select baton.commit_events('night', 'night-worker', '{${taken.ids}}', '${taken.token}')`);
  await leases.getByRole("row", { name: /night-worker/ }).waitFor({ state: "detached" });
  await theatre.run("select baton.drop_consumer_group('night')");
  await theatre.ask("begin", "select baton.publish('orders', 'order.open', '{}')");
  await row(/night shift/).waitFor();
  await theatre.ask("rollback");
  await row(/night shift/).waitFor({ state: "detached" });

  // A job runs by itself. One that fails says why, the doctor finds it and leads there; when it is mended and has run again, the doctor says so.
  await theatre.go(page, "/jobs");
  await row(/maintain outboxes.*ok/).waitFor();
  await theatre.run("create function public.close_the_books() returns void language plpgsql as $$ begin raise 'the ledger is locked'; end $$");
  await theatre.run("insert into baton.jobs (name, routine, every) values ('close the books', 'public.close_the_books', '1 second')");
  const books = row(/close the books/);
  await books.filter({ hasText: "the ledger is locked" }).filter({ hasText: /failed \d+ times?/ }).waitFor();
  await theatre.shoot(page, "light/jobs_failing");
  await theatre.go(page, "/doctor");
  const finding = page.locator(".findings li", { hasText: "close the books" });
  await finding.getByText("the ledger is locked").waitFor();
  await page.locator(".checks li", { hasText: /error.*jobs/ }).waitFor();
  await finding.getByRole("link", { name: "Look at the jobs" }).click();
  await books.waitFor();
  await theatre.run("create or replace function public.close_the_books() returns void language sql as ''");
  await theatre.run("update baton.jobs set next_due = '-infinity' where name = 'close the books'");
  await books.filter({ hasText: "ok" }).waitFor();
  await theatre.go(page, "/doctor");
  await theatre.until("nothing is wrong with the jobs", async () => {
    await page.getByRole("button", { name: "Look again" }).click();
    return (await finding.count()) === 0 && (await page.locator(".checks li", { hasText: /ok.*jobs/ }).count()) > 0;
  });
  assert.ok((await page.locator(".checks li").count()) > 10);
  await theatre.run("delete from baton.jobs where name = 'close the books'");
}

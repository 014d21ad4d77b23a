import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/blocked");

  // An aggregate goes on without the messages that did not come.
  const gap = page.getByRole("row", { name: /account-17/ });
  await gap.getByRole("button", { name: "Skip…" }).click();
  await page.getByRole("button", { name: "Skip 2 messages" }).click();
  await page.getByText("account-17 goes on behind sequence 4").waitFor();
  await gap.waitFor({ state: "detached" });

  // Aggregates of an inbox go on: one by a replay, one without its message.
  for (const account of ["30", "31"]) {
    for (const n of [1, 2]) await theatre.sql(`select baton.receive('payments', 'charge-${account}-${n}', 'payment.charged', '{}', aggregate_id => 'account-${account}', sequence_num => ${n})`);
    await theatre.sql(`select baton.fail_inbox('payments', '{charge-${account}-1}'::text[], 'account ${account} is closed', permanent => true)`);
  }
  const aggregates = page.getByRole("region", { name: "blocked aggregates of public.payments" });
  const charge = (account) => aggregates.getByRole("row", { name: new RegExp(`account ${account} is closed`) });
  await charge(30).getByRole("button", { name: "Replay" }).click();
  await page.getByText("account-30 goes on: its message is handled again").waitFor();
  await charge(30).waitFor({ state: "detached" });
  await charge(31).getByRole("button", { name: "Skip" }).click();
  await page.getByLabel("Why").fill("the account was closed by its owner");
  await page.getByRole("button", { name: "Discard the message" }).click();
  await page.getByText("account-31 goes on without the message").waitFor();
  await charge(31).waitFor({ state: "detached" });
  await theatre.until("both go on", async () => (await theatre.sql("select string_agg(aggregate_id, ' ' order by aggregate_id) from baton.claim_inbox('payments', 'w', 100) where aggregate_id like 'account-3%'")) === "account-30 account-31");

  // Of two keys behind dead letters one is replayed (and waits for a consumer), and the other goes on without its event.
  const keys = page.getByRole("region", { name: "blocked keys of search" }).locator("tbody tr");
  await keys.nth(1).waitFor();
  await keys.nth(0).getByRole("button", { name: "Replay" }).click();
  await keys.filter({ hasText: "retry" }).waitFor();
  await keys.filter({ hasText: "dead" }).getByRole("button", { name: "Skip" }).click();
  await page.getByLabel("Why").fill("the index was rebuilt");
  await page.getByRole("button", { name: "Discard the event" }).click();
  await keys.filter({ hasText: "dead" }).waitFor({ state: "detached" });
  await theatre.until("none is dead any more", async () => (await theatre.sql("select count(*) from baton.dead_letters where group_name = 'search'")) === "0");
}

import { operator } from "../theatre.mjs";

export default async function (theatre) {
  const page = await theatre.visit({ token: operator });
  await theatre.go(page, "/groups");
  theatre.forgives = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|status of 401/;
  await theatre.ask("kill relay");
  await page.getByRole("alert").getByText("Connection lost.").waitFor();
  await page.locator('[data-live="lost"]').waitFor();
  await theatre.shoot(page, "light/connection_lost");
  await theatre.ask("start relay");
  await page.locator('[data-live="live"]').waitFor();
  await page.getByText("Connection lost.").waitFor({ state: "detached" });
  await page.getByRole("row", { name: /billing/ }).waitFor();
}

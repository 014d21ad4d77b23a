// node play.mjs SCENARIO URL FOLDER OUTPUT: play a scenario in Chromium. FOLDER is where questions to the stage
// go; OUTPUT takes screenshots. Exit code 1 when the scenario, or the page by itself, failed.

import { chromium } from "playwright-core";
import { Theatre } from "./theatre.mjs";

const [scenario, url, folder, output] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.BATON_CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
});
const theatre = new Theatre(browser, { url, folder, output });
try {
  const { default: play } = await import(`./scenarios/${scenario}.mjs`);
  await play(theatre);
  await theatre.quiet();
  if (theatre.troubles.length > 0) throw new Error("the page complained:\n" + theatre.troubles.join("\n"));
} catch (error) {
  console.log(error.stack ?? String(error));
  await theatre.keepPictures(scenario);
  process.exitCode = 1;
} finally {
  await browser.close();
}

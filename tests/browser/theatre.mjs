// What scenarios are played with.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

export const operator = "operators-token-0123456789";
export const viewer = "viewers-token-0123456789";
export const desk = { width: 1360, height: 940 };
export const phone = { width: 390, height: 844 };

const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const patience = 30_000;
// A busy server closes connections on which nothing came yet, as browsers open them ahead of time. The page asks again.
const hiccup = /ERR_SOCKET_NOT_CONNECTED/;
const busy = /status of 503 \(Service Unavailable\)/;

export class Theatre {
  troubles = []; // what a page complained about by itself
  forgives = null; // complaints that a scenario provokes
  turnedAway = new Set(); // addresses that a busy server refused and that were not asked for again with success
  pages = [];

  constructor(browser, { url, folder, output }) {
    Object.assign(this, { browser, url, folder, output });
  }

  // A new visitor with an own browser profile; signed in when a token is given.
  async visit({ token, colorScheme = "light", viewport = desk } = {}) {
    const context = await this.browser.newContext({ colorScheme, viewport, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"] });
    context.setDefaultTimeout(patience);
    if (token) assert.equal((await context.request.post(`${this.url}/api/v1/session`, { data: { token } })).status(), 200);
    const page = await context.newPage();
    this.pages.push(page);
    const complain = (what) => hiccup.test(what) || this.forgives?.test(what) || this.troubles.push(what);
    // Chromium logs the refusal of a busy server although the page asks once more: the second answer is the one that counts.
    page.on("response", (answer) => (answer.status() === 503 ? this.turnedAway.add(answer.url()) : answer.ok() && this.turnedAway.delete(answer.url())));
    page.on("framenavigated", () => this.turnedAway.clear()); // what a page has left is not asked for again
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && !busy.test(message.text()) && complain(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => complain(`exception: ${error.message}`));
    page.on("dialog", (dialog) => (complain(`dialog: ${dialog.message()}`), dialog.dismiss()));
    return page;
  }

  async go(page, path) {
    const load = () => page.goto(this.url + path);
    await load().catch((error) => {
      if (!hiccup.test(error.message)) throw error;
      return load();
    });
    await this.settle(page);
  }

  // The page is live and shows what it asked for.
  async settle(page) {
    await page.locator('[data-live="live"]').waitFor();
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector(".loading"));
  }

  // Ask the stage: see Stage::answer.
  async ask(what, words = "") {
    const question = join(this.folder, "ask");
    const answer = join(this.folder, "answer");
    rmSync(answer, { force: true });
    writeFileSync(`${question}.new`, JSON.stringify({ what, words }));
    renameSync(`${question}.new`, question);
    await this.until(`the stage answers "${what}"`, () => existsSync(answer), 60_000);
    const said = JSON.parse(readFileSync(answer, "utf8"));
    if (said.error) throw new Error(`${what}: ${said.error}`);
    return said.answer;
  }
  sql(text) {
    return this.ask("sql", text);
  }
  run(statements) {
    return this.ask("run", statements);
  }

  async until(what, condition, deadline = 60_000) {
    for (const end = Date.now() + deadline; !(await condition()); await new Promise((resume) => setTimeout(resume, 50)))
      if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
  }

  // Whoever was turned away by a busy server has had an answer since.
  async quiet() {
    const open = () => this.pages.some((page) => !page.isClosed());
    if (this.turnedAway.size > 0 && open()) await this.until(`a busy server answers ${[...this.turnedAway]}`, () => this.turnedAway.size === 0, 10_000).catch((error) => this.troubles.push(error.message));
  }

  // What axe finds that is serious or worse.
  async axe(page) {
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(readFileSync(axePath, "utf8") + ";0");
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, help, nodes }) => nodes.slice(0, 3).map((node) => `${id} (${help}): ${node.html.slice(0, 200)} ${node.any.concat(node.all, node.none).map((one) => one.message).join("; ").slice(0, 300)}`));
  }

  async shoot(page, name) {
    const file = join(this.output, `${name}.png`);
    mkdirSync(dirname(file), { recursive: true });
    await page.screenshot({ path: file });
  }
  // A picture for the docs: as small as its pixels allow.
  async picture(page, name) {
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 88 });
    const file = join(this.output, "pictures", `${name}.webp`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
  // How every page looked when a scenario failed.
  async keepPictures(scenario) {
    for (const [i, page] of this.pages.entries())
      if (!page.isClosed()) await this.shoot(page, `failed/${scenario}-${i}`).catch(() => undefined);
  }
}

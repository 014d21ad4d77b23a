import assert from "node:assert/strict";

export default async function (theatre) {
  const page = await theatre.visit();
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  let bytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
  const origins = new Set();
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  await theatre.go(page, "/");
  assert.deepEqual([...origins], [theatre.url]);
  assert.ok(bytes > 20_000 && bytes < 300_000, `${bytes} bytes`);

  // The policy holds: nothing but files of the page's own can run.
  const answer = await page.request.get(theatre.url + "/outboxes/public.orders", { headers: { Accept: "text/html" } });
  assert.equal(answer.status(), 200);
  assert.match(answer.headers()["content-security-policy"], /default-src 'none'; script-src 'self'/);
  theatre.forgives = /Content Security Policy/;
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.head.append(script);
  });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
}

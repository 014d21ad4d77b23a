// What the server tells by itself: a tick every two seconds, and alerts. The stream is opened again when it
// breaks, and the page says so meanwhile.

import { base } from "./api";
import { parseAnswer } from "./json";
import { Store } from "./store";
import type { Alert, Tick } from "./types";

export interface Live {
  state: "connecting" | "live" | "lost";
  tick: Tick | null;
  lostAt: number; // milliseconds; 0 while all is well
}

export const live = new Store<Live>({ state: "connecting", tick: null, lostAt: 0 });
export const newestAlert = new Store<Alert | null>(null);

const silence = 12_000; // six ticks: longer than a server that is merely busy
const longestWait = 15_000;

let stream: EventSource | null = null;
let watchdog = 0;
let again = 0;
let failures = 0;

function lost(): void {
  const now = live.get();
  if (now.state !== "lost") live.set({ ...now, state: "lost", lostAt: Date.now() });
}

function heard(tick: Tick): void {
  failures = 0;
  live.set({ state: "live", tick, lostAt: 0 });
  watch();
}

function watch(): void {
  clearTimeout(watchdog);
  watchdog = window.setTimeout(reopen, silence);
}

function reopen(): void {
  lost();
  connect();
}

// Open the stream, or open it again at once.
export function connect(): void {
  disconnect();
  const opened = new EventSource(`${base}/live`);
  stream = opened;
  opened.addEventListener("tick", (event) => heard(parseAnswer<Tick>((event as MessageEvent<string>).data)));
  opened.addEventListener("alert", (event) => newestAlert.set(parseAnswer<Alert>((event as MessageEvent<string>).data)));
  opened.addEventListener("error", () => {
    if (stream !== opened) return;
    lost();
    // The browser tries again by itself only after some failures: do it for all of them.
    disconnect();
    again = window.setTimeout(connect, Math.min(longestWait, 500 * 2 ** failures++) * (0.8 + Math.random() * 0.4));
  });
  watch();
}

export function disconnect(): void {
  clearTimeout(watchdog);
  clearTimeout(again);
  stream?.close();
  stream = null;
}

// A page that nobody looks at does not keep its stream: the server has few, and a browser has six connections for all
// its pages together. It is up to date at once when somebody looks.
export function followVisibility(): void {
  let leave = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leave);
    if (document.hidden) leave = window.setTimeout(disconnect, 5000);
    else if (!stream) connect();
  });
}

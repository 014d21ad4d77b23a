// The HTTP API: one function that asks, and who is signed in.

import { parseAnswer } from "./json";
import { Store } from "./store";
import type { Session } from "./types";

export const base = "/api/v1";

// One of several things that are wrong with settings.
export interface WrongSetting {
  setting: string | null;
  what: string;
  hint: string;
}

// What the API says when it refuses.
export class Problem extends Error {
  constructor(
    title: string,
    readonly hint = "",
    readonly status = 0,
    readonly sqlstate = "",
    readonly problems: WrongSetting[] = [],
  ) {
    super(title);
  }
}

// A path with names in it, as a URL has them: path`/groups/${name}`.
export function path(parts: TemplateStringsArray, ...names: (string | number)[]): string {
  return parts.reduce((all, part, i) => all + encodeURIComponent(names[i - 1]!) + part);
}

export type Query = Record<string, string | number | boolean | null | undefined>;

// The path with a query string of what is not empty.
export function withQuery(where: string, query: Query): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") words.set(name, String(value));
  const text = words.toString();
  return text ? `${where}?${text}` : where;
}

export const session = new Store<Session | null>(null);
export const signingIn = new Store(false); // the dialog is open

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const said = JSON.parse(text) as { title?: string; hint?: string; sqlstate?: string; problems?: WrongSetting[] };
    if (said.title) return new Problem(said.title, said.hint ?? "", answer.status, said.sqlstate ?? "", said.problems);
  } catch {
    // not the API's own words
  }
  return new Problem(`the server answered ${answer.status}`, "look at the log of the program that serves this page", answer.status);
}

// A busy server may close a connection before it has heard anything, or say that it is busy: looking is tried twice, changing is not.
async function send(where: string, request: RequestInit, again = request.method === "GET"): Promise<Response> {
  try {
    const answer = await fetch(where, request);
    if (answer.status !== 503 || !again) return answer;
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    if (!again) throw new Problem("the server does not answer", "is the program that serves this page still running?");
  }
  await new Promise((resume) => setTimeout(resume, 300));
  return send(where, request, false);
}

// JSON that somebody wrote, in a body: it goes as it is, so that its numbers keep their digits.
export class Written {
  constructor(readonly text: string) {}
}

function written(body: unknown): string {
  if (body instanceof Written) return body.text;
  if (body === null || typeof body !== "object" || Array.isArray(body)) return JSON.stringify(body);
  const members = Object.entries(body).filter(([, value]) => value !== undefined);
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}: ${written(value)}`).join(", ")}}`;
}

async function ask<T>(method: string, where: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const csrf = session.get()?.csrf;
  if (method !== "GET" && csrf) headers["X-Baton-CSRF"] = csrf;
  const answer = await send(base + where, {
    method,
    headers,
    body: body === undefined ? null : written(body),
    signal: signal ?? null,
    credentials: "same-origin",
  });
  if (!answer.ok) {
    if (answer.status === 401 && where !== "/session") void loadSession();
    throw await problemOf(answer);
  }
  return parseAnswer<T>(await answer.text());
}

export const get = <T>(where: string, signal?: AbortSignal): Promise<T> => ask<T>("GET", where, undefined, signal);

// Counts changes: everything on the page is asked for again after one.
export const changes = new Store(0);

// `moreFollows`: what is on the page is asked for after the change that follows.
export async function change<T>(method: "POST" | "PUT" | "DELETE", where: string, body: unknown = {}, moreFollows = false): Promise<T> {
  const answer = await ask<T>(method, where, body);
  // The caller goes first: it may leave a page whose subject is gone now.
  if (!moreFollows) setTimeout(() => changes.set(changes.get() + 1), 0);
  return answer;
}

export async function loadSession(): Promise<void> {
  session.set(await ask<Session>("GET", "/session"));
}

export async function signIn(token: string): Promise<void> {
  session.set(await ask<Session>("POST", "/session", { token }));
  changes.set(changes.get() + 1);
}

export async function signOut(): Promise<void> {
  await ask("DELETE", "/session", {});
  await loadSession();
  changes.set(changes.get() + 1);
}

// What can be done with dead letters, one or many.

import { change, get, withQuery } from "./api";
import type { Letter, PageOf } from "./types";

export interface LetterFilter {
  place?: string;
  kind?: string;
  event_type?: string;
  error?: string;
  key?: string;
  tenant?: string;
  since?: string;
  until?: string;
}

// What a filter found may be gone when its turn comes: somebody else is at work on it too.
export type Gone = "refused" | "passed over";

export const atOnce = 500; // the API takes up to 1000 in one call

export async function replayLetters(letters: string[], gone: Gone = "refused"): Promise<number> {
  return (await change<{ replayed: number }>("POST", "/dead-letters/replay", { letters, missing_ok: gone === "passed over" })).replayed;
}

export async function discardLetters(letters: string[], reason: string, gone: Gone = "refused"): Promise<number> {
  return (await change<{ discarded: number }>("POST", "/dead-letters/discard", { letters, reason, missing_ok: gone === "passed over" })).discarded;
}

// The application whose table it is in settles such a letter; everybody else can replay it.
export const isOfAdoptedTable = (letter: string): boolean => letter.startsWith("outbox:");

export interface Visited {
  done: number;
  left: number; // to the application
}

// Do it with all letters that fit and were there at the beginning: one that dies again meanwhile is not done twice.
export async function visitLetters(filter: LetterFilter, fits: (letter: string) => boolean, work: (letters: string[]) => Promise<number>, tell: (done: number) => void): Promise<Visited> {
  const all: string[] = [];
  let after: string | null = null;
  do {
    const page: PageOf<Letter> = await get<PageOf<Letter>>(withQuery("/dead-letters", { ...filter, after, limit: atOnce }));
    all.push(...page.items.map((letter) => letter.letter));
    after = page.next;
  } while (after !== null);
  const fitting = all.filter(fits);
  let done = 0;
  for (let from = 0; from < fitting.length; from += atOnce) {
    done += await work(fitting.slice(from, from + atOnce));
    tell(done);
  }
  return { done, left: all.length - fitting.length };
}

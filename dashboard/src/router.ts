// Where the page is. Links are plain links; a click on one of ours changes the path without loading anew.

import { useStore, Store } from "./store";

export interface Place {
  path: string;
  query: URLSearchParams;
}

const here = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = new Store<Place>(here());
export const usePlace = (): Place => useStore(place);

let moved = false;
// True behind the first change of place: a page that was just loaded leaves the focus where the browser has it.
export const wasMoved = (): boolean => moved;

export function navigate(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  moved = true;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  place.set(here());
}

// Change some words of the query string; empty ones go.
export function setQuery(words: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(words)) if (value) query.set(name, value); else query.delete(name);
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ""), true);
}

export function followLinks(): void {
  addEventListener("popstate", () => {
    moved = true;
    place.set(here());
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest("a");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/") || link.hash) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
    scrollTo(0, 0);
  });
}

// The names in a path, if the pattern fits: match("/groups/:", "/groups/billing") is ["billing"].
export function match(pattern: string, where: string): string[] | null {
  const wanted = pattern.split("/");
  const given = where.replace(/\/+$/, "").split("/");
  if (wanted.length !== given.length) return null;
  const names: string[] = [];
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i] === ":") {
      try {
        names.push(decodeURIComponent(given[i]!));
      } catch {
        return null;
      }
    } else if (wanted[i] !== given[i]) return null;
  }
  return names;
}

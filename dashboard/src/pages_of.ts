// A list that comes in pages, one after the other.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { changes, get, Problem, withQuery, type Query } from "./api";
import { live } from "./live";
import type { PageOf } from "./types";

export interface Pages<T> {
  items: T[];
  loading: boolean;
  problem: Problem | null;
  more: (() => void) | null; // asks for the next page, if there is one
  reload: () => void;
}

const pageSize = 50;

// The first page is asked for again every few seconds, as long as nobody has asked for a second one.
export function usePages<T>(where: string | null, query: Query, every = 5000): Pages<T> {
  const address = where === null ? null : withQuery(where, { ...query, limit: pageSize });
  const [items, setItems] = useState<T[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  const [problem, setProblem] = useState<Problem | null>(null);
  const turn = useRef(0);
  const asked = useRef(0);
  const pages = useRef(1);

  const load = useCallback((after: string | null) => {
    if (address === null) return;
    const mine = ++turn.current;
    asked.current = Date.now();
    get<PageOf<T>>(after === null ? address : `${address}&after=${encodeURIComponent(after)}`).then(
      (page) => {
        if (mine !== turn.current) return;
        pages.current = after === null ? 1 : pages.current + 1;
        setItems((before) => (after === null ? page.items : [...before, ...page.items]));
        setNext(page.next);
        setProblem(null);
        setLoading(false);
      },
      (error: unknown) => {
        if (mine !== turn.current) return;
        setProblem(error instanceof Problem ? error : new Problem(String(error)));
        setLoading(false);
      },
    );
  }, [address]);

  useEffect(() => {
    setItems([]);
    setNext(null);
    setLoading(address !== null);
    setProblem(null);
    load(null);
    const endChanges = changes.subscribe(() => load(null));
    const endLive = live.subscribe((now) => {
      if (every > 0 && now.state === "live" && !document.hidden && pages.current === 1 && Date.now() - asked.current >= every) load(null);
    });
    return () => {
      turn.current++;
      endChanges();
      endLive();
    };
  }, [load, every]);

  return { items, loading, problem, more: next === null ? null : () => load(next), reload: () => load(null) };
}

// Something the API tells, asked for again as time goes by and after every change.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { changes, get, Problem } from "./api";
import { live } from "./live";

export interface Resource<T> {
  data: T | null;
  problem: Problem | null;
  loading: boolean; // nothing is known yet
  reload: () => void;
}

interface State<T> {
  where: string | null;
  data: T | null;
  problem: Problem | null;
}

// `every` is in milliseconds; 0 asks once. What was known stays in view while it is asked for again.
export function useResource<T>(where: string | null, every = 4000): Resource<T> {
  const [state, setState] = useState<State<T>>({ where, data: null, problem: null });
  const asked = useRef(0);
  const running = useRef<AbortController | null>(null);

  const load = useCallback(() => {
    if (where === null) return;
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    asked.current = Date.now();
    get<T>(where, controller.signal).then(
      (data) => setState({ where, data, problem: null }),
      (problem: unknown) => {
        if (controller.signal.aborted) return;
        const known = problem instanceof Problem ? problem : new Problem(String(problem));
        setState((before) => ({ where, data: before.where === where ? before.data : null, problem: known }));
      },
    ).finally(() => {
      if (running.current === controller) running.current = null;
    });
  }, [where]);

  useEffect(() => {
    load();
    const endings = [changes.subscribe(load)];
    if (every > 0)
      endings.push(
        live.subscribe((now) => {
          if (now.state === "live" && !running.current && !document.hidden && Date.now() - asked.current >= every) load();
        }),
      );
    return () => {
      endings.forEach((end) => end());
      running.current?.abort();
      running.current = null;
    };
  }, [load, every]);

  const current = state.where === where;
  const data = current ? state.data : null;
  const problem = current ? state.problem : null;
  return { data, problem, loading: where !== null && !data && !problem, reload: load };
}

// A value that several parts of the page look at.

import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly listeners = new Set<(value: T) => void>();
  constructor(private value: T) {}

  get(): T {
    return this.value;
  }
  set(value: T): void {
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }
  // Returns what ends it.
  subscribe(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(() => store.get());
  useEffect(() => {
    setValue(() => store.get()); // what came between the first look and now
    return store.subscribe((next) => setValue(() => next));
  }, [store]);
  return value;
}

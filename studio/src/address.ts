/** The page's place as its address has it: a shared address opens the same thread, checkpoint and node. */

import { useCallback, useSyncExternalStore } from "react";

export interface Place {
  assistant?: string;
  thread?: string;
  checkpoint?: string;
  node?: string;
  tab?: string;
  /** The other side of a comparison: a thread, or `thread:checkpoint`. */
  with?: string;
}

const KEYS = ["assistant", "thread", "checkpoint", "node", "tab", "with"] as const;
const changed = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  changed.add(listener);
  addEventListener("popstate", listener);
  return () => {
    changed.delete(listener);
    removeEventListener("popstate", listener);
  };
}

export function hrefOf(place: Place): string {
  const query = new URLSearchParams();
  for (const key of KEYS) if (place[key]) query.set(key, place[key]);
  const text = query.toString();
  return text ? `?${text}` : location.pathname;
}

export function usePlace(): [Place, (change: Place, replace?: boolean) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const query = new URLSearchParams(search);
  const place = Object.fromEntries(KEYS.map((key) => [key, query.get(key) ?? undefined])) as Place;
  const go = useCallback((change: Place, replace = false) => {
    const now = new URLSearchParams(location.search);
    const before = Object.fromEntries(KEYS.map((key) => [key, now.get(key) ?? undefined]));
    history[replace ? "replaceState" : "pushState"](null, "", hrefOf({ ...before, ...change }));
    for (const listener of changed) listener();
  }, []);
  return [place, go];
}

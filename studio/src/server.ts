/** The server's API: LangGraph's by its own client, and the lookups of hopgraph/studio/lookups.py. */

import { Client } from "@langchain/langgraph-sdk";
import type { Checkpoint, Passage, RunRecord, Settings } from "./types";

export const client = new Client({ apiUrl: location.origin, apiKey: null, callerOptions: { maxRetries: 1 } });

async function ask<T>(path: string, body?: unknown): Promise<T> {
  const options: RequestInit =
    body === undefined
      ? {}
      : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`api/${path}`, options);
  const found = await answer.json().catch(() => ({ error: { message: `the server answered ${answer.status}` } }));
  if (!answer.ok) throw new Error([found.error?.message, found.error?.hint].filter(Boolean).join("; "));
  return found as T;
}

const part = encodeURIComponent;

export const lookups = {
  indexes: () => ask<string[]>("indexes"),
  check: (method: string, context: Settings) =>
    ask<{ problem: string; hint: string }>("settings", { method, context }),
  passages: (index: string | null, ids: string[]) => ask<Record<string, Passage>>("passages", { index, ids }),
  threads: (limit?: number) =>
    ask<{ id: string; method: string; question: string; updated: string }[]>(`threads${limit ? `?limit=${limit}` : ""}`),
  history: (thread: string, method: string) =>
    ask<Checkpoint[]>(`threads/${part(thread)}/history?method=${part(method)}`),
  record: (thread: string) => ask<RunRecord>(`threads/${part(thread)}/record`),
};

/** An error's words, without the client's technical frame. */
export function words(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const detail = /"detail":\s*"((?:[^"\\]|\\.)*)"/.exec(text);
  return detail?.[1] ?? text;
}

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
  questions: (ids: string[]) => ask<Record<string, string>>("questions", { ids }),
  served: (thread: string) => ask<{ id: string; method: string; question: string }>(`threads/${part(thread)}/served`, {}),
  history: (thread: string, method: string) =>
    ask<Checkpoint[]>(`threads/${part(thread)}/history?method=${part(method)}`),
  record: (thread: string) => ask<RunRecord>(`threads/${part(thread)}/record`),
};

/**
 * The id that LangGraph's API takes for a thread, and its method. A thread of the checkpoint store becomes known to it.
 * Null if there is no such thread.
 */
export async function served(thread: string): Promise<{ id: string; method: string } | null> {
  const kept = await lookups.served(thread);
  if (!kept.method) {
    const row = await client.threads.get(thread).catch(() => null);
    return row && { id: thread, method: String(row.metadata?.graph_id ?? "") };
  }
  await client.threads.create({ threadId: kept.id, graphId: kept.method, ifExists: "do_nothing", metadata: { question: kept.question, thread } });
  return kept;
}

/** An error's words, without the client's technical frame. */
export function words(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/failed to fetch|unable to connect/i.test(text)) return "The server can't be reached: is `hopgraph studio` still running?";
  const detail = /"detail":\s*"((?:[^"\\]|\\.)*)"/.exec(text);
  return detail?.[1] ?? text;
}

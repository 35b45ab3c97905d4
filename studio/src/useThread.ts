/** A thread: its state, checkpoints and calls, and the run that goes on in it. */

import { useCallback, useEffect, useRef, useState } from "react";
import { begin, follow, type Live } from "./live";
import { client, lookups, words } from "./server";
import type { Checkpoint, Decision, RunRecord, Settings, Values } from "./types";

export interface Shown {
  values: Values;
  next: string[];
  decisions: Decision[];
  failure: string;
}

export interface RunOptions {
  thread: string;
  method: string;
  input: { question: string } | null;
  context: Settings;
  before: string[] | "*";
  after: string[];
  checkpoint?: string | undefined;
  resume?: Record<string, unknown>;
}

const EMPTY: Shown = { values: {}, next: [], decisions: [], failure: "" };

export function useThread(thread: string | undefined, checkpoint: string | undefined, method: string) {
  const [shown, setShown] = useState<Shown>(EMPTY);
  const [history, setHistory] = useState<Checkpoint[]>([]);
  const [record, setRecord] = useState<RunRecord | null>(null);
  const [live, setLive] = useState<Live | null>(null);
  const [run, setRun] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [loading, setLoading] = useState(false);
  const open = useRef<string | undefined>(undefined);
  open.current = thread;

  /** Counts loads: an answer that comes after a later load was begun is not shown. */
  const loads = useRef(0);

  const load = useCallback(async () => {
    const mine = ++loads.current;
    const current = () => loads.current === mine;
    if (!thread || !method) return setLoading(false);
    setLoading(true);
    try {
      const state = await client.threads.getState<Values>(thread, checkpoint);
      if (!current()) return;
      setShown(shownOf(state));
      if (!state.checkpoint?.checkpoint_id) return;
      // These take long for a long run, whose steps are in the state already.
      await Promise.all([
        lookups.record(thread).then((kept) => current() && setRecord(kept), () => undefined),
        lookups.history(thread, method).then((rows) => current() && setHistory(rows)),
      ]);
    } catch (error) {
      if (current()) setProblem(words(error));
    } finally {
      if (current()) setLoading(false);
    }
  }, [thread, checkpoint, method]);

  const listen = useCallback(
    async (of: string, first: Live, stream: AsyncIterable<{ event: string; data: unknown }>) => {
      let now = first;
      let frame = 0;
      const show = () => {
        frame = 0;
        if (open.current === of) setLive(now);
      };
      setLive(now);
      try {
        for await (const { event, data } of stream) {
          if (event.startsWith("tasks")) {
            now = follow(now, event, data as Parameters<typeof follow>[2]);
            frame ||= requestAnimationFrame(show);
          } else if (event.startsWith("error")) {
            const { message, error } = data as { message?: string; error?: string };
            if (open.current === of) setProblem(message ?? error ?? "the run failed");
          }
        }
      } catch (error) {
        if (open.current === of) setProblem(words(error));
      }
      cancelAnimationFrame(frame);
    },
    [],
  );

  /** The run that this page has started and still reads. */
  const started = useRef<{ thread: string; ended: AbortController } | null>(null);

  useEffect(() => {
    if (started.current?.thread !== thread) {
      started.current?.ended.abort();
      started.current = null;
      setLive(null);
      setRun(null);
    }
    setProblem("");
    setShown(EMPTY);
    setHistory([]);
    setRecord(null);
  }, [thread]);

  useEffect(() => void load(), [load]);

  const again = useRef(load);
  again.current = load;

  /** Follow a run that another page or an earlier view of this one has started. */
  useEffect(() => {
    if (!thread || !method || started.current) return;
    const ended = new AbortController();
    void (async () => {
      const rows = await client.runs.list(thread, { limit: 5 }).catch(() => []);
      const active = rows.find((row) => row.status === "running" || row.status === "pending");
      if (!active || started.current || ended.signal.aborted) return;
      setRun(active.run_id);
      const stream = client.runs.joinStream(thread, active.run_id, { lastEventId: "-1", signal: ended.signal });
      await listen(thread, begin({}, null), stream as AsyncIterable<{ event: string; data: unknown }>);
      if (!ended.signal.aborted) await again.current();
      if (ended.signal.aborted) return;
      setRun(null);
      setLive(null);
    })();
    return () => ended.abort();
  }, [thread, method, listen]);

  const start = useCallback(
    async (options: RunOptions, base: Values) => {
      const ended = new AbortController();
      started.current = { thread: options.thread, ended };
      setProblem("");
      setRun("");
      const stream = client.runs.stream(options.thread, options.method, {
        input: options.resume ? undefined : options.input,
        ...(options.resume ? { command: { resume: options.resume } } : {}),
        context: options.context,
        ...(options.before.length ? { interruptBefore: options.before as "*" } : {}),
        ...(options.after.length ? { interruptAfter: options.after as never } : {}),
        ...(options.checkpoint ? { checkpointId: options.checkpoint } : {}),
        streamMode: ["tasks"],
        streamSubgraphs: true,
        streamResumable: true,
        onDisconnect: "continue",
        signal: ended.signal,
        onRunCreated: ({ run_id }) => !ended.signal.aborted && setRun(run_id),
      });
      open.current = options.thread;
      await listen(options.thread, begin(base, record), stream as AsyncIterable<{ event: string; data: unknown }>);
      if (!ended.signal.aborted) await again.current();
      if (ended.signal.aborted) return;
      started.current = null;
      setRun(null);
      setLive(null);
    },
    [listen, record],
  );

  const stop = useCallback(async () => {
    if (thread && run) await client.runs.cancel(thread, run, true).catch((error) => setProblem(words(error)));
  }, [thread, run]);

  return { shown, history, record, live, running: run !== null, problem, setProblem, loading, start, stop };
}

function shownOf(state: { values: Values; next: string[]; tasks: unknown[] }): Shown {
  const tasks = state.tasks as { name: string; error?: unknown; interrupts?: { id?: string; value?: unknown }[] }[];
  const decisions = tasks.flatMap((task) =>
    (task.interrupts ?? [])
      .filter((row) => typeof row.value === "object" && row.value !== null && "decisions" in row.value)
      .map((row) => ({ id: row.id ?? "", node: task.name, value: row.value as Decision["value"] })),
  );
  const failed = tasks.map((task) => task.error).find(Boolean);
  return {
    values: state.values ?? {},
    next: state.next ?? [],
    decisions,
    failure: failed ? String(failed) : (state.values?.error?.message ?? ""),
  };
}

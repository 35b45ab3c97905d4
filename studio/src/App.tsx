/** The page: threads, the question and its controls, the graph, and what is known of the run. */

import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { usePlace } from "./address";
import { Compare } from "./Compare";
import { Decisions } from "./Decisions";
import { type Breakpoints, GraphView } from "./GraphView";
import { History } from "./History";
import { client, served, words } from "./server";
import { SettingsForm } from "./SettingsForm";
import { StateEditor } from "./StateEditor";
import { Passages, Steps } from "./Steps";
import { Threads, useThreads } from "./Threads";
import type { Settings, Values } from "./types";
import { useAssistants, useMethod, useProblem } from "./useMethod";
import { useThread } from "./useThread";

const TABS = ["steps", "state", "history", "settings"] as const;

export function App() {
  const [place, go] = usePlace();
  const { assistants, methods, indexes, problem: unreachable } = useAssistants();
  const [question, setQuestion] = useState("");
  const [settings, setSettings] = useState<Settings>({});
  const [breakpoints, setBreakpoints] = useState<Breakpoints>({});
  /** The thread of the address as the server knows it. */
  const [opened, setOpened] = useState<{ thread: string; id: string; method: string } | null>(null);
  const [menu, setMenu] = useState(false);
  const chosen = assistants.find((row) => row.assistant_id === place.assistant) ?? methods.find((row) => row.graph_id === "parrag");
  const here = opened?.thread === place.thread ? opened : null;
  const method = place.thread ? (here?.method ?? "") : (chosen?.graph_id ?? "");
  const { graph, schemas, problem: unread } = useMethod(method, methods);
  const thread = useThread(here?.id, place.checkpoint, method);
  const rows = useThreads(thread.running);
  const wrong = useProblem(method, settings);
  const { shown, record, live, running, history } = thread;
  const values = shown.values;

  useEffect(() => {
    if (!place.thread || here) return;
    let current = true;
    const wanted = place.thread;
    const fail = (text: string) => current && thread.setProblem(text);
    served(wanted).then(
      (known) => known ? current && setOpened({ thread: wanted, ...known }) : fail(`Unknown thread ${wanted}: choose one of the list, or ask a question.`),
      (error) => fail(words(error)));
    return () => void (current = false);
  }, [place.thread, here === null]);

  useEffect(() => {
    if (!place.thread && chosen) setSettings({ ...(indexes.length === 1 ? { index: indexes[0] } : {}), ...(chosen.context as Settings) });
  }, [chosen?.assistant_id, place.thread, indexes]);
  useEffect(() => {
    if (record) setSettings(record.context);
    else if (values.settings) setSettings(values.settings);
  }, [place.thread, record === null, values.settings === undefined]);
  useEffect(() => setBreakpoints({}), [method]);

  const run = useCallback(async (mode: "run" | "step", resume?: Record<string, unknown>) => {
    const points = Object.entries(breakpoints);
    let id = place.thread;
    let given: { question: string } | null = null;
    if (!id) {
      if (!question.trim()) return;
      given = { question: question.trim() };
      id = (await client.threads.create({ graphId: method, metadata: { question: given.question } })).thread_id;
      setOpened({ thread: id, id, method });
      go({ thread: id, assistant: undefined, tab: "steps" });
    } else go({ checkpoint: undefined, with: undefined, tab: "steps" });
    await thread.start({
      thread: here?.id ?? id, method, input: given, context: settings, checkpoint: place.checkpoint, ...(resume ? { resume } : {}),
      before: mode === "step" ? "*" : points.filter(([, row]) => row.before).map(([name]) => name),
      after: mode === "step" ? [] : points.filter(([, row]) => row.after).map(([name]) => name),
    }, given ? {} : values);
  }, [place, question, method, settings, breakpoints, thread.start, values, go]);
  const attempt = (mode: "run" | "step", resume?: Record<string, unknown>) =>
    void run(mode, resume).catch((error) => thread.setProblem(words(error)));

  const toggle = useCallback((node: string, side: "before" | "after") =>
    setBreakpoints((points) => ({ ...points, [node]: { ...points[node], [side]: !points[node]?.[side] } })), []);
  const select = useCallback((node: string | undefined) => go({ node }, true), [go]);
  const save = async (edited: Values, asNode: string | undefined) => {
    const saved = await client.threads.updateState(here!.id, { values: edited, ...(asNode ? { asNode } : {}), ...(place.checkpoint ? { checkpointId: place.checkpoint } : {}) });
    const made = (saved as { checkpoint?: { checkpoint_id?: string } }).checkpoint?.checkpoint_id;
    go({ checkpoint: made }); // which loads it
  };

  const steps = live?.steps ?? values.trajectory ?? [];
  const ledger = live?.ledger ?? values.ledger ?? [];
  const titles = useMemo(() => titlesOf(values), [values]);
  const index = values.index?.name ?? (typeof settings.index === "string" ? settings.index : null);
  const current = history.find((row) => row.id === place.checkpoint) ?? history[0];
  const writers = current?.ran.length ? [...new Set(current.ran)] : [];
  const cost = useMemo(() => costOf(ledger), [ledger]);
  const can = !running && !wrong && (place.thread ? shown.next.length > 0 && shown.decisions.length === 0 : question.trim() !== "");
  const tab = place.tab ?? (place.thread ? "steps" : "settings");

  const keys = useRef<(event: KeyboardEvent) => void>(() => undefined);
  keys.current = (event) => {
    const field = event.target instanceof HTMLElement && event.target.closest("input, textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || field) return;
    const act: Record<string, () => void> = {
      "/": () => { setMenu(true); document.querySelector<HTMLElement>(".threads input")?.focus(); },
      n: () => { go(NEW); document.querySelector<HTMLElement>("#question")?.focus(); },
      s: () => can && attempt("step"),
      c: () => can && attempt("run"),
      x: () => running && void thread.stop(),
      b: () => place.node && !place.node.includes(":") && toggle(place.node, "before"),
      a: () => place.node && !place.node.includes(":") && toggle(place.node, "after"),
      ...Object.fromEntries(TABS.map((name, at) => [String(at + 1), () => go({ tab: name, with: undefined }, true)])),
    };
    if (act[event.key]) { event.preventDefault(); act[event.key]!(); }
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent) => keys.current(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  useEffect(() => { document.title = values.question ? `${values.question} · Hopgraph Studio` : "Hopgraph Studio"; }, [values.question]);

  const state = running ? "running" : shown.decisions.length ? "waits for a decision" : shown.next.length ? `stopped before ${[...new Set(shown.next)].join(", ")}` : (values.status ?? "");
  return (
    <div className={`page ${menu ? "menu" : ""}`}>
      <aside>
        <header className="brand">
          <h1>Hopgraph <span>Studio</span></h1>
          <button type="button" onClick={() => { go(NEW); setMenu(false); }}>New question</button>
        </header>
        <Threads rows={rows} selected={place.thread}
          onOpen={(row) => { setMenu(false); go({ ...NEW, thread: row.id }); }}
          onCompare={place.thread ? (row) => go({ with: row.id }) : undefined} />
      </aside>
      <main data-method={schemas.context && graph ? method : undefined}>
        <section className="top" aria-label="Question">
          <button type="button" className="burger" aria-label="Threads" aria-expanded={menu} onClick={() => setMenu(!menu)}>☰</button>
          {place.thread ? (
            <div className="asked">
              <p className="dim">{method} {index && `· ${index}`}</p>
              <h2>{values.question ?? question}</h2>
              {!running && values.status && !shown.next.length && <p className={`final ${values.status}`}>{values.answer || values.status}</p>}
              {values.evidence && values.evidence.length > 0 && !running && !shown.next.length && <Passages ids={values.evidence.map((row) => row.id)} marked={values.sentences as [string, number][]} titles={titles} index={index} />}
            </div>
          ) : (
            <div className="composer">
              <select aria-label="Method or assistant" value={chosen?.assistant_id ?? ""} onChange={(event) => go({ assistant: event.target.value }, true)}>
                <optgroup label="Methods">{methods.map((row) => <option key={row.assistant_id} value={row.assistant_id}>{row.graph_id}</option>)}</optgroup>
                <optgroup label="Assistants">{assistants.filter((row) => !methods.includes(row)).map((row) => <option key={row.assistant_id} value={row.assistant_id}>{row.name}</option>)}</optgroup>
              </select>
              <select aria-label="Index" value={String(settings.index ?? "")} onChange={(event) => setSettings({ ...settings, index: event.target.value })}>
                <option value="">no index</option>{indexes.map((name) => <option key={name}>{name}</option>)}
              </select>
              <textarea id="question" aria-label="Question" rows={2} autoFocus placeholder="Ask a question…" value={question} onChange={(event) => setQuestion(event.target.value)}
                onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); if (can) attempt("run"); } }} />
            </div>
          )}
          <div className="controls" role="toolbar" aria-label="Run">
            <button type="button" className="primary" disabled={!can} title={place.thread ? "c" : "Enter"} onClick={() => attempt("run")}>{place.thread ? (place.checkpoint ? "Continue from here" : "Continue") : "Ask"}</button>
            <button type="button" disabled={!can} title="s" onClick={() => attempt("step")}>Step</button>
            <button type="button" disabled={!running} title="x" onClick={() => void thread.stop()}>Stop</button>
            <span className={`now ${running ? "busy" : ""}`} role="status">{state}</span>
            {ledger.length > 0 && <span className="dim cost">{cost}</span>}
          </div>
          {(thread.problem || shown.failure || unreachable || unread || wrong) && <p className="warn" role="alert">{thread.problem || shown.failure || unreachable || unread || wrong}</p>}
          {!running && shown.decisions.length > 0 && <Decisions key={shown.decisions.map((row) => row.id).join()} decisions={shown.decisions} onDecide={(resume) => attempt("run", resume)} />}
        </section>
        <section className="canvas" aria-label="Graph">
          <GraphView graph={graph} visits={live?.visits ?? record?.visits ?? NONE} running={live?.running ?? NOTHING} waiting={running ? [] : shown.next}
            breakpoints={breakpoints} selected={place.node} onSelect={select} onBreak={toggle} />
        </section>
        <section className="inspector" aria-label="Inspector">
          <div role="tablist" className="tabs">
            {TABS.map((name, at) => <button key={name} role="tab" type="button" title={String(at + 1)} aria-selected={!place.with && tab === name} onClick={() => go({ tab: name, with: undefined }, true)}>{name}</button>)}
          </div>
          {place.with ? <Compare values={values} other={place.with} onClose={() => go({ with: undefined })} />
            : tab === "state" ? <StateEditor key={`${place.thread} ${place.checkpoint}`} values={values} schema={schemas.state} writers={writers} disabled={running || !place.thread} onSave={save} />
            : tab === "history" ? <History rows={history} selected={place.checkpoint ?? history[0]?.id} compared={undefined} onSelect={(id) => go({ checkpoint: id })} onCompare={(id) => go({ with: `${place.thread}:${id}` })} />
            : tab === "settings" ? <SettingsForm schema={schemas.context} values={settings} indexes={indexes} problem={wrong} onChange={setSettings} />
            : <Steps steps={steps} ledger={ledger} calls={live?.calls ?? record?.calls ?? {}} thresholds={record?.thresholds ?? {}} titles={titles} index={index} node={place.node} onNode={select} loading={thread.loading} />}
        </section>
      </main>
    </div>
  );
}

const NEW = { thread: undefined, checkpoint: undefined, node: undefined, with: undefined, tab: undefined };
const NONE: Record<string, number> = {};
const NOTHING: Record<string, string> = {};

/** Titles of all passages that a state refers to. */
function titlesOf(value: unknown, found: Record<string, string> = {}): Record<string, string> {
  if (Array.isArray(value)) for (const row of value) titlesOf(row, found);
  else if (typeof value === "object" && value !== null) {
    const row = value as Record<string, unknown>;
    if (typeof row.id === "string" && typeof row.title === "string") found[row.id] = row.title;
    else for (const part of Object.values(row)) titlesOf(part, found);
  }
  return found;
}

function costOf(ledger: { kind: string; prompt_tokens: number; completion_tokens: number; seconds: number; cached: boolean }[]): string {
  const made = ledger.filter((call) => call.kind === "model" && !call.cached);
  const sum = (of: (call: (typeof made)[number]) => number) => made.reduce((all, call) => all + of(call), 0);
  const counted = (count: number, word: string) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  return [counted(made.length, "call"), counted(ledger.filter((call) => call.kind === "search").length, "search").replace("searchs", "searches"),
    `${sum((call) => call.prompt_tokens).toLocaleString("en")} + ${sum((call) => call.completion_tokens).toLocaleString("en")} tokens`,
    `${sum((call) => call.seconds).toFixed(1)} s`].join(" · ");
}

/** All threads: those of the server and those of the checkpoint store, searched and filtered. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { hrefOf } from "./address";
import { client, lookups } from "./server";
import type { ThreadRow } from "./types";

const NEWEST = 100;
const PAGE = 1000;
/** Milliseconds between two looks for threads that others have begun or ended. */
const INTERVAL = 5000;

/** Pages of threads, of the server and of the checkpoint store: the newest of both, and with `all` then the others. */
async function* pages(all: boolean): AsyncGenerator<ThreadRow[]> {
  let page = await served(NEWEST, 0);
  yield page;
  yield await kept(NEWEST);
  if (!all) return;
  for (let offset = NEWEST; page.length === (offset === NEWEST ? NEWEST : PAGE); offset += PAGE) {
    page = await served(PAGE, offset);
    yield page;
  }
  yield await kept();
}

async function served(limit: number, offset: number): Promise<ThreadRow[]> {
  const page = await client.threads.search({
    limit, offset, sortBy: "updated_at", sortOrder: "desc", select: ["thread_id", "updated_at", "metadata", "status"],
  });
  return page.map((row) => ({
    id: String(row.metadata?.thread ?? row.thread_id), method: String(row.metadata?.graph_id ?? ""), question: String(row.metadata?.question ?? ""),
    status: row.status, updated: row.updated_at,
  }));
}

const kept = async (limit?: number): Promise<ThreadRow[]> => (await lookups.threads(limit)).map((row) => ({ ...row, status: "" }));

/** All threads, the most recently used first. They are read once; then the newest are read again and again. */
export function useThreads(changes: unknown) {
  const [rows, setRows] = useState<ThreadRow[]>([]);
  const known = useRef(new Map<string, ThreadRow>());
  const reading = useRef(false);
  const show = (whole: Map<string, ThreadRow>) => setRows([...whole.values()].sort((a, b) => Date.parse(b.updated) - Date.parse(a.updated)));
  const reload = useCallback(async () => {
    if (reading.current) return;
    reading.current = true;
    const whole = known.current.size > 0 ? known.current : new Map<string, ThreadRow>();
    try {
      for await (const page of pages(whole.size === 0))
        if (page.filter((row) => added(whole, row)).length) show(whole);
      known.current = whole;
      if (await named(whole)) show(whole);
    } finally {
      reading.current = false;
    }
  }, []);
  useEffect(() => {
    const look = () => document.visibilityState === "visible" && void reload().catch(() => undefined);
    look();
    const timer = setInterval(look, INTERVAL);
    return () => clearInterval(timer);
  }, [reload, changes]);
  return rows;
}

/** Adds what a row says to the known ones; whether anything is new. */
function added(known: Map<string, ThreadRow>, row: ThreadRow): boolean {
  const old = known.get(row.id);
  const now = old && {
    ...old,
    question: row.question || old.question,
    status: row.status || old.status,
    updated: Date.parse(row.updated) > Date.parse(old.updated) ? row.updated : old.updated,
  };
  known.set(row.id, now ?? row);
  return !now || now.question !== old.question || now.status !== old.status || now.updated !== old.updated;
}

const QUESTIONS = 100;
/** Of a row, in pixels, as in styles.css: two lines of the question, and one about it. */
const HEIGHT = 78;

/** Gives threads without a question in their metadata the one of their state, newest first; whether there are any. */
async function named(known: Map<string, ThreadRow>): Promise<boolean> {
  const nameless = [...known.values()].filter((row) => !row.question && row.tried !== row.updated)
    .sort((a, b) => Date.parse(b.updated) - Date.parse(a.updated)).slice(0, QUESTIONS);
  if (!nameless.length) return false;
  const found = await lookups.questions(nameless.map((row) => row.id));
  for (const row of nameless) known.set(row.id, { ...row, question: found[row.id] ?? "", tried: row.updated });
  return true;
}

/** What a list shows of a thread: its question; else its method and the beginning of its id. */
const titleOf = (row: ThreadRow) => row.question || `${row.method || "thread"} ${row.id.slice(0, 8)}`;

interface Props {
  rows: ThreadRow[];
  selected: string | undefined;
  onOpen: (row: ThreadRow) => void;
  onCompare: ((row: ThreadRow) => void) | undefined;
}

export function Threads({ rows, selected, onOpen, onCompare }: Props) {
  const [text, setText] = useState("");
  const [method, setMethod] = useState("");
  const [status, setStatus] = useState("");
  const scroll = useRef<HTMLDivElement>(null);
  const methods = useMemo(() => [...new Set(rows.map((row) => row.method))].filter(Boolean).sort(), [rows]);
  const found = useMemo(() => {
    const wanted = text.toLowerCase().trim();
    return rows.filter((row) => (!method || row.method === method) && (!status || row.status === status) &&
      (!wanted || row.question.toLowerCase().includes(wanted) || row.id.startsWith(wanted)));
  }, [rows, text, method, status]);
  const list = useVirtualizer({ count: found.length, getScrollElement: () => scroll.current, estimateSize: () => HEIGHT, overscan: 8 });
  return (
    <nav className="threads" aria-label="Threads">
      <div className="filters">
        <input type="search" aria-label="Search threads" placeholder="Search threads  /" value={text} onChange={(event) => setText(event.target.value)} />
        <select aria-label="Method of threads" value={method} onChange={(event) => setMethod(event.target.value)}>
          <option value="">all methods</option>{methods.map((name) => <option key={name}>{name}</option>)}
        </select>
        <select aria-label="Status of threads" value={status} onChange={(event) => setStatus(event.target.value)}>
          <option value="">any status</option>{["idle", "busy", "interrupted", "error"].map((name) => <option key={name}>{name}</option>)}
        </select>
        <span className="dim count" aria-live="polite">{found.length.toLocaleString("en")}</span>
      </div>
      <div className="scroll" ref={scroll}>
        <ul style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const row = found[item.index]!;
            return (
              <li key={row.id} style={{ transform: `translateY(${item.start}px)` }} className={row.id === selected ? "selected" : ""}>
                <a href={hrefOf({ thread: row.id })} aria-current={row.id === selected ? "page" : undefined} onClick={(event) => {
                  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
                  event.preventDefault();
                  onOpen(row);
                }}>
                  <span className="title" title={row.question || row.id}>{titleOf(row)}</span>
                  <span className="dim">{row.method} · {when(row.updated)}{row.status && row.status !== "idle" && <b className={`status ${row.status}`}> {row.status}</b>}</span>
                </a>
                {onCompare && row.id !== selected && <button type="button" className="link" aria-label={`Compare with ${titleOf(row)}`} onClick={() => onCompare(row)}>compare</button>}
              </li>
            );
          })}
        </ul>
        {found.length === 0 && <p className="hint">{rows.length ? "No thread matches." : "No threads yet. Ask a question."}</p>}
      </div>
    </nav>
  );
}

function when(text: string): string {
  const date = new Date(text);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString("en", today ? { hour: "2-digit", minute: "2-digit", hour12: false } : { day: "numeric", month: "short" });
}

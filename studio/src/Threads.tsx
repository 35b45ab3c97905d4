/** All threads: those of the server and those of the checkpoint store, searched and filtered. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { hrefOf } from "./address";
import { client, lookups } from "./server";
import type { ThreadRow } from "./types";

const PAGE = 1000;

export function useThreads(changes: unknown) {
  const [rows, setRows] = useState<ThreadRow[]>([]);
  const reload = useCallback(async () => {
    const found = new Map<string, ThreadRow>();
    for (let offset = 0; ; offset += PAGE) {
      const page = await client.threads.search({
        limit: offset ? PAGE : 100, offset: offset ? offset - PAGE + 100 : 0, sortBy: "updated_at", sortOrder: "desc",
        select: ["thread_id", "updated_at", "metadata", "status"],
      });
      for (const row of page)
        found.set(row.thread_id, {
          id: row.thread_id, method: String(row.metadata?.graph_id ?? ""), question: String(row.metadata?.question ?? ""),
          status: row.status, updated: row.updated_at,
        });
      setRows([...found.values()]);
      if (page.length < (offset ? PAGE : 100)) break;
    }
    for (const row of await lookups.threads()) {
      const kept = found.get(row.id);
      if (!kept) found.set(row.id, { ...row, status: "", updated: "" });
      else if (!kept.question) kept.question = row.question;
    }
    setRows([...found.values()]);
  }, []);
  useEffect(() => void reload().catch(() => undefined), [reload, changes]);
  return rows;
}

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
  const list = useVirtualizer({ count: found.length, getScrollElement: () => scroll.current, estimateSize: () => 58, overscan: 8 });
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
                  <span className="title">{row.question || row.id}</span>
                  <span className="dim">{row.method}{row.updated && ` · ${when(row.updated)}`}{row.status && row.status !== "idle" && <b className={`status ${row.status}`}> {row.status}</b>}</span>
                </a>
                {onCompare && row.id !== selected && <button type="button" className="link" aria-label={`Compare with ${row.question || row.id}`} onClick={() => onCompare(row)}>compare</button>}
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

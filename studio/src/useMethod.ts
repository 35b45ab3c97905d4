/** The assistants, and the chosen one's graph and schemas. */

import type { Assistant } from "@langchain/langgraph-sdk";
import { useEffect, useMemo, useState } from "react";
import type { Graph } from "./GraphView";
import { client, lookups, words } from "./server";
import type { Schema, Settings } from "./types";

export interface Schemas {
  context: Schema | null;
  state: Schema | null;
}

export function useAssistants() {
  const [assistants, setAssistants] = useState<Assistant[]>([]);
  const [indexes, setIndexes] = useState<string[]>([]);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const fail = (error: unknown) => setProblem(words(error));
    client.assistants.search({ limit: 1000 }).then(setAssistants, fail);
    lookups.indexes().then(setIndexes, fail);
  }, []);
  const methods = useMemo(() => assistants.filter((row) => row.metadata?.created_by === "system"), [assistants]);
  return { assistants, methods, indexes, problem };
}

export function useMethod(method: string, methods: Assistant[]) {
  const [graph, setGraph] = useState<Graph | null>(null);
  const [schemas, setSchemas] = useState<Schemas>({ context: null, state: null });
  const [problem, setProblem] = useState("");
  const id = methods.find((row) => row.graph_id === method)?.assistant_id;
  useEffect(() => {
    if (!id) return;
    let current = true;
    setGraph(null);
    setSchemas({ context: null, state: null });
    setProblem("");
    const fail = (error: unknown) => current && setProblem(words(error));
    client.assistants.getGraph(id, { xray: true }).then((made) => current && setGraph(made as unknown as Graph), fail);
    client.assistants.getSchemas(id).then((found) =>
      current && setSchemas({ context: found.context_schema as Schema, state: found.state_schema as Schema }), fail);
    return () => void (current = false);
  }, [id]);
  return { graph, schemas, problem };
}

/** What is wrong with settings, asked of the server a moment after the last change. */
export function useProblem(method: string, settings: Settings): string {
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!method) return;
    let current = true;
    const show = (text: string) => current && setProblem(text);
    const timer = setTimeout(() => {
      lookups.check(method, settings).then(
        (found) => show(found.problem && [found.problem, found.hint].filter(Boolean).join("; ")),
        () => show("")); // nothing is known against these settings; who asks with them hears what is the matter
    }, 250);
    return () => { current = false; clearTimeout(timer); };
  }, [method, settings]);
  return problem;
}

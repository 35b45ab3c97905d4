/** The graph of a method, subgraphs open, with what runs, what has run and what waits; breakpoints before and after. */

import {
  Background,
  BaseEdge,
  Controls,
  type Edge,
  type EdgeProps,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  getViewportForBounds,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { type Drawing, layOut } from "./layout";

const MIN_ZOOM = 0.2;

export type Breakpoints = Record<string, { before?: boolean; after?: boolean }>;

export interface Graph {
  nodes: { id: string | number }[];
  edges: { source: string; target: string; data?: string; conditional?: boolean }[];
}

interface Props {
  graph: Graph | null;
  visits: Record<string, number>;
  running: Record<string, string>;
  waiting: string[];
  breakpoints: Breakpoints;
  selected: string | undefined;
  onSelect: (node: string | undefined) => void;
  onBreak: (node: string, side: "before" | "after") => void;
}

interface Data extends Record<string, unknown> {
  label: string;
  state: "idle" | "running" | "waiting" | "done";
  times: number;
  active: number;
  points: { before?: boolean; after?: boolean };
  stops: boolean;
  selected: boolean;
  onSelect: () => void;
  onBreak: (side: "before" | "after") => void;
}

const Step = memo(function Step({ data }: NodeProps<Node<Data>>) {
  const { label, state, times, active, points } = data;
  const said = [label, state === "idle" ? "has not run" : state === "done" ? "" : state, times ? `ran ${times} times` : ""];
  return (
    <div className={`node ${state} ${data.selected ? "selected" : ""}`} data-node={label} data-state={state} data-times={times}>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <button type="button" className="nodrag name" aria-pressed={data.selected} onClick={data.onSelect}
        aria-label={said.filter(Boolean).join(", ")}>
        {label}
        {active > 1 && <span className="active">{active} at once</span>}
        {times > 0 && <span className="times">{times > 1 ? `×${times}` : "✓"}</span>}
      </button>
      {data.stops && <Stops label={label} points={points} onBreak={data.onBreak} />}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
});

function Stops({ label, points, onBreak }: Pick<Data, "label" | "points" | "onBreak">) {
  return (["before", "after"] as const).map((side) => (
    <button key={side} type="button" className={`nodrag stop ${side}`} aria-pressed={points[side] ?? false}
      aria-label={`Breakpoint ${side} ${label}`} title={`Stop ${side} this node`} onClick={() => onBreak(side)} />
  ));
}

const Terminal = ({ data }: NodeProps<Node<{ label: string }>>) => (
  <div className="terminal">
    <Handle type="target" position={Position.Top} isConnectable={false} />
    {data.label}
    <Handle type="source" position={Position.Bottom} isConnectable={false} />
  </div>
);
const Group = ({ data }: NodeProps<Node<Data>>) => (
  <div className={`subgraph node ${data.state}`} data-node={data.label} data-state={data.state}>
    {data.label}
    <Stops label={data.label} points={data.points} onBreak={data.onBreak} />
  </div>
);
const Routed = ({ data, markerEnd }: EdgeProps<Edge<{ path: string; label: string; x: number; y: number }>>) => (
  <BaseEdge path={data!.path} label={data!.label} labelX={data!.x} labelY={data!.y} labelBgPadding={[3, 1]} {...(markerEnd ? { markerEnd } : {})} />
);
const EDGES = { routed: Routed };
const TYPES = { step: Step, terminal: Terminal, group: Group };

function Canvas(props: Props) {
  const { graph, visits, running, waiting, breakpoints, selected, onSelect, onBreak } = props;
  const [drawing, setDrawing] = useState<Drawing | null>(null);
  const { setViewport } = useReactFlow();
  const [width, height] = [useStore((store) => store.width), useStore((store) => store.height)];
  /** Whether a person has moved the drawing, which is then left where it is. */
  const moved = useRef(false);

  useEffect(() => {
    let current = true;
    moved.current = false;
    setDrawing(null);
    if (graph) void layOut(graph).then((made) => current && setDrawing(made));
    return () => void (current = false);
  }, [graph]);
  useEffect(() => {
    if (!drawing || !width || !height || moved.current) return;
    // Unlike fitView it has regard to edges outside of all nodes.
    void setViewport(getViewportForBounds({ x: 0, y: 0, ...drawing.size }, width, height, MIN_ZOOM, 1.15, 0.06));
  }, [drawing, width, height, setViewport]);

  const nodes = useMemo(
    () =>
      (drawing?.nodes ?? []).map((node) => {
        if (node.type === "terminal") return node;
        const active = Object.values(running).filter((name) => name === node.id).length;
        const times = visits[node.id] ?? 0;
        const state: Data["state"] = active ? "running" : waiting.includes(node.id) ? "waiting" : times ? "done" : "idle";
        const data: Data = {
          label: String(node.data.label), state, times, active,
          points: breakpoints[node.id] ?? {},
          stops: !node.id.includes(":"),
          selected: selected === node.id,
          onSelect: () => onSelect(selected === node.id ? undefined : node.id),
          onBreak: (side) => onBreak(node.id, side),
        };
        return { ...node, data };
      }),
    [drawing, visits, running, waiting, breakpoints, selected, onSelect, onBreak],
  );

  return (
    <ReactFlow nodes={nodes} edges={drawing?.edges ?? []} nodeTypes={TYPES} edgeTypes={EDGES} nodesDraggable={false} nodesConnectable={false}
      nodesFocusable={false} edgesFocusable={false} elementsSelectable={false} minZoom={MIN_ZOOM} onMoveStart={(event) => { if (event) moved.current = true; }}
      proOptions={{ hideAttribution: true }} aria-label="Graph of the method">
      <Background gap={22} size={1} />
      <Controls showInteractive={false} />
    </ReactFlow>
  );
}

export const GraphView = (props: Props) => (
  <ReactFlowProvider>
    <Canvas {...props} />
  </ReactFlowProvider>
);

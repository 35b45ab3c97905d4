/** Places of a graph's nodes and edges, by ELK's layered layout; a subgraph's nodes lie in a box. */

import type { Edge, Node } from "@xyflow/react";
import { MarkerType, Position } from "@xyflow/react";
import type { ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import type { Graph } from "./GraphView";

export interface Drawing {
  nodes: Node[];
  edges: Edge[];
  size: { width: number; height: number };
}

const HEIGHT = 36;
/** Large, so it is fetched beside everything else and not only when the first graph is there. */
const elk = import("elkjs/lib/elk.bundled.js");

export async function layOut(graph: Graph): Promise<Drawing> {
  const { default: Elk } = await elk;
  const names = graph.nodes.map((node) => String(node.id));
  const boxes = [...new Set(names.filter((name) => name.includes(":")).map((name) => name.split(":")[0]!))];
  const leaf = (name: string): ElkNode => ({ id: name, width: widthOf(name), height: HEIGHT });
  const children = [
    ...names.filter((name) => !name.includes(":")).map(leaf),
    ...boxes.map((box) => ({
      id: box,
      children: names.filter((name) => name.startsWith(`${box}:`)).map(leaf),
      layoutOptions: { "elk.padding": "[top=34,left=16,bottom=16,right=16]" },
    })),
  ];
  const edges: ElkExtendedEdge[] = graph.edges.map((edge, at) => ({
    id: `e${at}`,
    sources: [edge.source],
    targets: [edge.target],
    labels: edge.data ? [{ text: edge.data, width: edge.data.length * 5.6 + 8, height: 15 }] : [],
  }));
  const placed: ElkNode = await new Elk().layout({
    id: "root",
    children,
    edges,
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.hierarchyHandling": "INCLUDE_CHILDREN",
      "elk.json.edgeCoords": "ROOT",
      "elk.edgeRouting": "ORTHOGONAL",
      "elk.spacing.nodeNode": "34",
      "elk.layered.spacing.nodeNodeBetweenLayers": "26",
      "elk.spacing.edgeLabel": "3",
      "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
    },
  });
  const nodes: Node[] = [];
  for (const child of placed.children ?? []) {
    const inner = child.children ?? [];
    nodes.push(nodeOf(child, inner.length > 0));
    for (const own of inner) nodes.push({ ...nodeOf(own, false), parentId: child.id });
  }
  return {
    nodes,
    edges: graph.edges.map((edge, at) => edgeOf(edge, placed.edges?.[at], at)),
    size: { width: placed.width ?? 1, height: placed.height ?? 1 },
  };
}

const widthOf = (name: string) => (name.startsWith("__") ? 64 : Math.max(110, labelOf(name).length * 7.6 + 56));
const labelOf = (name: string) =>
  name.startsWith("__") ? name.replaceAll("_", "") : name.slice(name.indexOf(":") + 1).replaceAll("_", " ");

function nodeOf(node: ElkNode, box: boolean): Node {
  const [width, height] = [node.width ?? 120, node.height ?? HEIGHT];
  const handle = { x: width / 2, width: 1, height: 1, id: null };
  return {
    id: node.id,
    type: box ? "group" : node.id.startsWith("__") ? "terminal" : "step",
    position: { x: node.x ?? 0, y: node.y ?? 0 },
    width,
    height,
    measured: { width, height },
    handles: [
      { ...handle, type: "target", position: Position.Top, y: 0 },
      { ...handle, type: "source", position: Position.Bottom, y: height },
    ],
    data: { label: labelOf(node.id) },
  };
}

function edgeOf(edge: Graph["edges"][number], placed: ElkExtendedEdge | undefined, at: number): Edge {
  const section = placed?.sections?.[0];
  const label = placed?.labels?.[0];
  const points = section ? [section.startPoint, ...(section.bendPoints ?? []), section.endPoint] : [];
  return {
    id: `e${at}`,
    type: "routed",
    source: edge.source,
    target: edge.target,
    className: edge.conditional ? "conditional" : "",
    markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16 },
    data: {
      path: rounded(points),
      label: edge.data ?? "",
      x: (label?.x ?? 0) + (label?.width ?? 0) / 2,
      y: (label?.y ?? 0) + (label?.height ?? 0) / 2,
    },
  };
}

/** A path through points, with round corners. */
function rounded(points: { x: number; y: number }[]): string {
  const parts = points.map((point, at) => {
    const [before, after] = [points[at - 1], points[at + 1]];
    if (!before) return `M${point.x},${point.y}`;
    if (!after) return `L${point.x},${point.y}`;
    const [from, to] = [before, after].map((other) => {
      const length = Math.hypot(other.x - point.x, other.y - point.y) || 1;
      const share = Math.min(7, length / 2) / length;
      return `${point.x + (other.x - point.x) * share},${point.y + (other.y - point.y) * share}`;
    });
    return `L${from}Q${point.x},${point.y} ${to}`;
  });
  return parts.join("");
}

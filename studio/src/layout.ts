/** Places of a graph's nodes and edges, by ELK's layered layout; a subgraph's nodes lie in a box. */

import type { Edge, Node } from "@xyflow/react";
import { MarkerType } from "@xyflow/react";
import type { ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import type { Graph } from "./GraphView";

export interface Drawing {
  nodes: Node[];
  edges: Edge[];
}

const HEIGHT = 36;

export async function layOut(graph: Graph): Promise<Drawing> {
  const { default: Elk } = await import("elkjs/lib/elk.bundled.js");
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
  const edges: ElkExtendedEdge[] = graph.edges.map((edge, at) => ({ id: `e${at}`, sources: [edge.source], targets: [edge.target] }));
  const placed = await new Elk().layout({
    id: "root",
    children,
    edges,
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.hierarchyHandling": "INCLUDE_CHILDREN",
      "elk.spacing.nodeNode": "38",
      "elk.layered.spacing.nodeNodeBetweenLayers": "52",
      "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
    },
  });
  const nodes: Node[] = [];
  for (const child of placed.children ?? []) {
    const inner = child.children ?? [];
    nodes.push(nodeOf(child, inner.length > 0));
    for (const own of inner) nodes.push({ ...nodeOf(own, false), parentId: child.id });
  }
  return { nodes, edges: graph.edges.map((edge, at) => edgeOf(edge, at)) };
}

const widthOf = (name: string) => (name.startsWith("__") ? 64 : Math.max(110, labelOf(name).length * 7.6 + 56));
const labelOf = (name: string) =>
  name.startsWith("__") ? name.replaceAll("_", "") : name.slice(name.indexOf(":") + 1).replaceAll("_", " ");

function nodeOf(node: ElkNode, box: boolean): Node {
  return {
    id: node.id,
    type: box ? "group" : node.id.startsWith("__") ? "terminal" : "step",
    position: { x: node.x ?? 0, y: node.y ?? 0 },
    width: node.width ?? 120,
    height: node.height ?? HEIGHT,
    data: { label: labelOf(node.id) },
  };
}

function edgeOf(edge: Graph["edges"][number], at: number): Edge {
  return {
    id: `e${at}`,
    source: edge.source,
    target: edge.target,
    className: edge.conditional ? "conditional" : "",
    markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14 },
    ...(edge.data ? { label: edge.data } : {}),
  };
}

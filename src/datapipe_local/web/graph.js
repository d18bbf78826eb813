// Dependency graph as SVG, in columns from left to right. Every node is a link, with its inputs and outputs as a label.

import { h } from "./dom.js";

const NODE = { width: 176, height: 46 };
const GAP = { x: 64, y: 16 };
const EDGE = 10;
const PASSED = 4;
export const MOST = 150;

// nodes: {id, label, title, note, kind, href}; edges: [from, to]. Return the positions of the nodes and the paths of the edges.
// An edge that crosses a column has a position of its own there.
export function layout(nodes, edges) {
  const ids = new Set(nodes.map((node) => node.id));
  const known = edges.filter(([from, to]) => ids.has(from) && ids.has(to) && from !== to);
  const depths = new Map();
  const above = group(known, 1, 0);
  nodes.forEach((node) => depth(node.id, above, depths));
  const columns = [];
  const put = (id, number) => (columns[number] ||= []).push(id);
  nodes.forEach((node) => put(node.id, depths.get(node.id)));
  const ways = known.map(([from, to]) => {
    const way = [from];
    for (let number = depths.get(from) + 1; number < depths.get(to); number++) {
      const passed = `${number} ${from} ${to}`;
      put(passed, number);
      way.push(passed);
    }
    return [...way, to];
  });
  const steps = ways.flatMap((way) => way.slice(1).map((to, index) => [way[index], to]));
  order(columns, group(steps, 1, 0), group(steps, 0, 1));
  const high = (id) => (ids.has(id) ? NODE.height : PASSED);
  const heights = columns.map((column) => column.reduce((sum, id) => sum + high(id) + GAP.y, -GAP.y));
  const tallest = Math.max(...heights, NODE.height);
  const places = new Map();
  columns.forEach((column, number) => {
    let y = EDGE + (tallest - heights[number]) / 2;
    for (const id of column) {
      places.set(id, { x: EDGE + number * (NODE.width + GAP.x), y, middle: y + high(id) / 2 });
      y += high(id) + GAP.y;
    }
  });
  return {
    places, edges: known, ways,
    width: 2 * EDGE + columns.length * (NODE.width + GAP.x) - GAP.x,
    height: 2 * EDGE + tallest,
  };
}

function group(edges, by, other) {
  const groups = new Map();
  for (const edge of edges) groups.set(edge[by], [...(groups.get(edge[by]) || []), edge[other]]);
  return groups;
}

// Longest path from a source. Drafts can contain cycles, which are cut.
function depth(id, above, depths) {
  const stack = [[id, false]];
  const open = new Set();
  while (stack.length) {
    const [one, done] = stack.pop();
    if (done) {
      open.delete(one);
      depths.set(one, Math.max(-1, ...(above.get(one) || []).map((before) => depths.get(before) ?? -1)) + 1);
    } else if (!depths.has(one) && !open.has(one)) {
      open.add(one);
      stack.push([one, true]);
      for (const before of above.get(one) || []) stack.push([before, false]);
    }
  }
}

// Fewer crossings: move each node to the middle of its neighbors, alternating between both sides.
function order(columns, above, below) {
  for (let turn = 0; turn < 4; turn++) {
    const [sides, sequence] = turn % 2 ? [below, [...columns].reverse()] : [above, columns];
    const at = new Map(columns.flatMap((column) => column.map((id, index) => [id, index / column.length])));
    for (const column of sequence) {
      const middle = new Map(column.map((id) => {
        const near = (sides.get(id) || []).map((one) => at.get(one) ?? 0);
        return [id, near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : at.get(id)];
      }));
      column.sort((a, b) => middle.get(a) - middle.get(b));
      column.forEach((id, index) => at.set(id, index / column.length));
    }
  }
}

// Return the nodes that some nodes depend on, or that depend on them.
export function around(ids, edges) {
  const found = new Set(ids);
  for (const [by, other] of [[1, 0], [0, 1]]) {
    const groups = group(edges, by, other);
    const ahead = [...ids];
    const seen = new Set(ids);
    while (ahead.length) {
      for (const next of groups.get(ahead.pop()) || []) {
        if (!seen.has(next)) {
          seen.add(next);
          found.add(next);
          ahead.push(next);
        }
      }
    }
  }
  return found;
}

export function graph(nodes, edges, { label, current = null, active = null, onactive = () => {} }) {
  const { places, edges: drawn, ways, width, height } = layout(nodes, edges);
  const names = new Map(nodes.map((node) => [node.id, node.label]));
  const near = (id) => id === active || drawn.some(([from, to]) => (from === active && to === id) || (to === active && from === id));
  return h(
    "div", { class: `graph${active ? " some" : ""}`, tabindex: "0", role: "region", "aria-label": label },
    h(
      "svg", { role: "group", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` },
      h("defs", null, h(
        "marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
        h("path", { d: "M0 0.5L8 4L0 7.5z", class: "head" }),
      )),
      drawn.map(([from, to], index) => h("path", {
        key: `${from} ${to}`,
        class: `edge${from === active || to === active ? " on" : ""}`,
        d: curve(ways[index].map((id) => places.get(id))), "marker-end": "url(#arrow)", "data-from": from, "data-to": to,
      })),
      nodes.map((node) => drawNode(node, places.get(node.id), {
        reads: drawn.filter(([, to]) => to === node.id).map(([from]) => names.get(from)),
        readers: drawn.filter(([from]) => from === node.id).map(([, to]) => names.get(to)),
        classes: `node ${node.kind}${node.id === current ? " current" : ""}${near(node.id) ? " on" : ""}`,
        onactive,
      })),
    ),
  );
}

function drawNode(node, place, { reads, readers, classes, onactive }) {
  const description = [
    `${node.note}: ${node.label}`,
    reads.length ? `reads ${reads.join(", ")}` : null,
    readers.length ? `read by ${readers.join(", ")}` : null,
  ].filter(Boolean).join("; ");
  const inside = [
    h("title", null, description),
    h("rect", { width: NODE.width, height: NODE.height, rx: 8 }),
    h("rect", { class: "stripe", width: 5, height: NODE.height - 16, x: 8, y: 8, rx: 2.5 }),
    h("text", { class: "name", x: 22, y: 20 }, shortened(node.title || node.label, 18)),
    h("text", { class: "what", x: 22, y: 36 }, shortened(node.note, 26)),
  ];
  const props = {
    key: node.id, class: classes, transform: `translate(${place.x} ${place.y})`, "aria-label": description, "data-node": node.id,
    onmouseenter: () => onactive(node.id), onmouseleave: () => onactive(null),
    onfocus: () => onactive(node.id), onblur: () => onactive(null),
  };
  return node.href ? h("a", { ...props, href: `#${node.href}` }, inside) : h("g", { ...props, role: "img" }, inside);
}

function curve(places) {
  const [first, ...others] = places;
  let [x, y] = [first.x + NODE.width, first.middle];
  let path = `M${x} ${y}`;
  others.forEach((place, index) => {
    // Edge of a cycle.
    const bend = Math.max(GAP.x / 2, Math.abs(place.x - x) / 2);
    const isLast = index === others.length - 1;
    path += `C${x + bend} ${y} ${place.x - bend} ${place.middle} ${place.x - (isLast ? 1 : 0)} ${place.middle}`;
    if (!isLast) path += `H${place.x + NODE.width}`;
    [x, y] = [place.x + NODE.width, place.middle];
  });
  return path;
}

function shortened(text, most) {
  const characters = [...text];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
}

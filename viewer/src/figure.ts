// F1 against tokens: further up is better, further left is cheaper.

import { h, s } from "./dom.ts";
import { interval, mean } from "./format.ts";
import type { Cell } from "./schema.ts";

const WIDTH = 620;
const HEIGHT = 330;
const LEFT = 44;
const RIGHT = 120;
const TOP = 26;
const BOTTOM = 44;
const LINE = 15;
// Over the questions that the F1 is over: a dataset without F1 has tokens too.
const COST = "tokens_beside_f1";

export interface Spot { readonly cell: Cell; readonly x: number; readonly y: number; label: number }

/** The largest number of a scale that holds all values: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return power * ([1, 2, 5, 10].find((step) => value <= step * power) ?? 10);
}

/** Where each method lies, with labels pushed apart where they would cover each other. */
export function spots(cells: readonly Cell[], most: number): Spot[] {
  const placed = cells.flatMap((cell) => {
    const f1 = cell.measures["f1"];
    const tokens = cell.measures[COST];
    return f1 && tokens ? [{ cell, x: across(tokens.mean, most), y: up(f1.mean), label: up(f1.mean) }] : [];
  });
  placed.sort((a, b) => a.y - b.y);
  placed.forEach((spot, place) => {
    for (const other of placed.slice(0, place)) {
      if (Math.abs(other.x - spot.x) < 90 && spot.label < other.label + LINE && spot.label > other.label - LINE) spot.label = other.label + LINE;
    }
  });
  return placed;
}

function across(tokens: number, most: number): number {
  return LEFT + ((WIDTH - LEFT - RIGHT) * tokens) / most;
}

function up(f1: number): number {
  return TOP + (HEIGHT - TOP - BOTTOM) * (1 - f1);
}

export function figure(cells: readonly Cell[], over: string): HTMLElement {
  const largest = Math.max(...cells.map((cell) => cell.measures[COST]?.high ?? cell.measures[COST]?.mean ?? 0), 0);
  const most = roundUp(largest);
  const placed = spots(cells, most);
  if (placed.length === 0) return h("p", { class: "muted" }, "There is no F1 to draw yet.");
  const told = placed.map(({ cell }) => `${cell.method_title} F1 ${mean("f1", cell.measures["f1"])} with ${mean("tokens", cell.measures[COST])} tokens`);
  return h(
    "figure",
    { class: "scatter" },
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `F1 against tokens, ${over}: ${told.join("; ")}` },
      [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => [
        s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: up(share), y2: up(share) }),
        s("text", { class: "axis", x: LEFT - 6, y: up(share) + 4, "text-anchor": "end" }, share.toFixed(1)),
        s("text", { class: "axis", x: across(most * share, most), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, Math.round(most * share).toLocaleString("en")),
      ]),
      s("text", { class: "axis", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "mean tokens per question"),
      s("text", { class: "axis", x: LEFT - 6, y: TOP - 13, "text-anchor": "end" }, "F1"),
      placed.map((spot) => point(spot, most)),
    ),
    h("figcaption", { class: "muted" }, `F1 against tokens, ${over}. Lines are 95 % intervals.`),
  );
}

function point({ cell, x, y, label }: Spot, most: number): SVGElement {
  const f1 = cell.measures["f1"];
  const tokens = cell.measures[COST];
  return s(
    "g",
    { class: cell.method === "beliefrag" ? "spot ours" : "spot" },
    s("title", {}, `${cell.method_title}: F1 ${mean("f1", f1)} (${interval("f1", f1)}), ${mean("tokens", tokens)} tokens (${interval("tokens", tokens)})`),
    f1 && f1.low !== null && f1.high !== null && s("line", { x1: x, x2: x, y1: up(f1.low), y2: up(f1.high) }),
    tokens && tokens.low !== null && tokens.high !== null && s("line", { y1: y, y2: y, x1: across(tokens.low, most), x2: across(tokens.high, most) }),
    s("circle", { cx: x, cy: y, r: 5 }),
    s("text", { x: x + 8, y: label - 7 }, cell.method_title),
  );
}

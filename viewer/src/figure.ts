// F1 against tokens: further up is better, further left is cheaper.

import { h, s } from "./dom.ts";
import { interval, mean } from "./format.ts";
import { placeLabels, type Box } from "./labels.ts";
import type { Cell } from "./schema.ts";

const WIDE = 620;
const NARROW = 360;
const HEIGHT = 330;
const LEFT = 44;
const TOP = 26;
const BOTTOM = 44;
// Over the questions that the F1 is over: a dataset without F1 has tokens too.

export interface Spot { readonly cell: Cell; readonly x: number; readonly y: number; readonly label: Box }

/** The largest number of a scale that holds all values: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return power * ([1, 2, 5, 10].find((step) => value <= step * power) ?? 10);
}

/** Where each method lies, and where its name stands: no name covers a point or another name. */
export function spots(cells: readonly Cell[], most: number, width = WIDE): Spot[] {
  const across = scale(width, most);
  const placed = cells.flatMap((cell) => {
    const f1 = cell.measures["f1"];
    const tokens = cell.tokens_beside_f1;
    if (!f1 || !tokens) return [];
    const [x, y] = [across(tokens.value), up(f1.value)];
    const [high, low] = [up(f1.high ?? f1.value), up(f1.low ?? f1.value)];
    const [left, right] = [across(tokens.low ?? tokens.value), across(tokens.high ?? tokens.value)];
    const lines = [{ x: x - 1, y: high, width: 2, height: low - high }, { x: left, y: y - 1, width: right - left, height: 2 }];
    return [{ cell, x, y, text: cell.method_title, lines }];
  });
  const labels = placeLabels(placed, { x: LEFT, y: 2, width: width - LEFT - 2, height: HEIGHT - BOTTOM });
  return placed.map(({ cell, x, y }, place) => ({ cell, x, y, label: labels[place] ?? { x, y, width: 0, height: 0 } }));
}

// The names of the points to the right need some room.
function scale(width: number, most: number): (tokens: number) => number {
  return (tokens) => LEFT + ((0.84 * width - LEFT) * tokens) / most;
}

function up(f1: number): number {
  return TOP + (HEIGHT - TOP - BOTTOM) * (1 - f1);
}

export function figure(cells: readonly Cell[], over: string): HTMLElement {
  const largest = Math.max(...cells.map((cell) => cell.tokens_beside_f1?.high ?? cell.tokens_beside_f1?.value ?? 0), 0);
  const most = roundUp(largest);
  const width = matchMedia("(max-width: 45rem)").matches ? NARROW : WIDE;
  const across = scale(width, most);
  const placed = spots(cells, most, width);
  if (placed.length === 0) return h("p", { class: "muted" }, "There is no F1 to draw yet.");
  const told = placed.map(({ cell }) => `${cell.method_title} F1 ${mean("f1", cell.measures["f1"])} with ${mean("tokens", cell.tokens_beside_f1)} tokens`);
  return h(
    "figure",
    { class: "scatter" },
    s(
      "svg",
      { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `F1 against tokens, ${over}: ${told.join("; ")}` },
      [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => [
        s("line", { class: "grid", x1: LEFT, x2: across(most), y1: up(share), y2: up(share) }),
        s("text", { class: "axis", x: LEFT - 6, y: up(share) + 4, "text-anchor": "end" }, share.toFixed(1)),
        s("text", { class: "axis", x: across(most * share), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, Math.round(most * share).toLocaleString("en")),
      ]),
      s("text", { class: "axis", x: across(most / 2), y: HEIGHT - 6, "text-anchor": "middle" }, "mean tokens per question"),
      s("text", { class: "axis", x: LEFT - 6, y: TOP - 13, "text-anchor": "end" }, "F1"),
      placed.map((spot) => point(spot, across)),
    ),
    h("figcaption", { class: "muted" }, `F1 against tokens, ${over}. Lines are 95 % intervals.`),
  );
}

function point({ cell, x, y, label }: Spot, across: (tokens: number) => number): SVGElement {
  const f1 = cell.measures["f1"];
  const tokens = cell.tokens_beside_f1;
  return s(
    "g",
    { class: cell.method === "beliefrag" ? "spot ours" : "spot" },
    s("title", {}, `${cell.method_title}: F1 ${mean("f1", f1)} (${interval("f1", f1)}), ${mean("tokens", tokens)} tokens (${interval("tokens", tokens)})`),
    f1 && f1.low !== null && f1.high !== null && s("line", { x1: x, x2: x, y1: up(f1.low), y2: up(f1.high) }),
    tokens && tokens.low !== null && tokens.high !== null && s("line", { y1: y, y2: y, x1: across(tokens.low), x2: across(tokens.high) }),
    leader(x, y, label),
    s("circle", { cx: x, cy: y, r: 5 }),
    s("text", { x: label.x + label.width / 2, y: label.y + label.height - 3, "text-anchor": "middle" }, cell.method_title),
  );
}

// A name that stands away from its point gets a thin line to it.
function leader(x: number, y: number, { x: left, y: top, width, height }: Box): SVGElement | null {
  const to = { x: Math.min(Math.max(x, left), left + width), y: Math.min(Math.max(y, top), top + height) };
  return Math.hypot(to.x - x, to.y - y) > 14 ? s("line", { class: "leader", x1: x, y1: y, x2: to.x, y2: to.y }) : null;
}

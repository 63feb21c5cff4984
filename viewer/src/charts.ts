// Small charts of one number over the steps of an episode, or of two, with the thresholds that it was held against.

import { h, s } from "./dom.ts";
import { share } from "./format.ts";
import type { Episode, Step } from "./schema.ts";
import { line } from "./text.ts";

export interface Threshold { readonly value: number; readonly label: string }
export interface Series {
  readonly title: string;
  /** For each episode its values over the steps; none for an episode that does not have this number. */
  readonly lines: readonly (readonly (number | null)[])[];
  readonly thresholds: readonly Threshold[];
}

const WIDTH = 272;
const HEIGHT = 104;
const LEFT = 24;
const RIGHT = 84;
const LINE = 11;
const TOP = 8;
const BOTTOM = 18;

const DRAWN: readonly { title: string; of: (step: Step) => number | null | undefined; thresholds: [string, string][] }[] = [
  {
    title: "answerability",
    of: (step) => step.answerability,
    thresholds: [["answer", "answer \u2265"], ["abstain_answerability", "abstain <"], ["least_answerability", "hold back <"]],
  },
  { title: "retrieval value", of: (step) => step.retrieval_value, thresholds: [["retrieval_value", "search \u2265"]] },
  { title: "sufficiency", of: (step) => step.belief?.["sufficiency"], thresholds: [["abstain_sufficiency", "abstain <"]] },
  { title: "reliability", of: (step) => step.belief?.["reliability"], thresholds: [["reliability", "correct <"]] },
  { title: "conflict", of: (step) => step.belief?.["conflict"], thresholds: [["conflict", "correct \u2265"]] },
  { title: "uncertainty", of: (step) => step.belief?.["uncertainty"], thresholds: [["abstain_uncertainty", "abstain >"]] },
  { title: "gap", of: (step) => step.belief?.["gap"], thresholds: [] },
  { title: "cost", of: (step) => step.belief?.["cost"], thresholds: [] },
  { title: "novelty", of: (step) => step.diagnostics?.["novelty"], thresholds: [["novelty", "rewrite <"]] },
];

/** The numbers of episodes over their steps; those that no method has are left out. */
export function series(episodes: readonly Episode[]): Series[] {
  const settings: Record<string, number> = Object.assign({}, ...episodes.map(({ thresholds }) => thresholds));
  return DRAWN.map(({ title, of, thresholds }) => ({
    title,
    lines: episodes.map((episode) => episode.steps.map((step) => of(step) ?? null)).map((values) => (values.some((value) => value !== null) ? values : [])),
    thresholds: thresholds.flatMap(([name, label]) => {
      const value = settings[name];
      return value === undefined ? [] : [{ value, label }];
    }),
  })).filter(({ lines }) => lines.some((values) => values.length > 0));
}

/** All charts of one episode, or of two on common axes; null where there is nothing to draw. */
export function charts(episodes: readonly Episode[]): HTMLElement | null {
  const drawn = series(episodes);
  if (drawn.length === 0) return null;
  const steps = Math.max(2, ...episodes.map((episode) => episode.steps.length));
  const names = episodes.map(({ method_title }) => method_title);
  return h("div", {},
    names.length > 1 && h("ul", { class: "legend" }, names.map((name, side) => drawn.some(({ lines }) => lines[side]?.length) && h("li", {}, key(side), " ", line(name, 40)))),
    h("div", { class: "charts" }, drawn.map((each) => chart(each, steps, names))));
}

function key(side: number): SVGElement {
  return s("svg", { class: "key", viewBox: "0 0 24 8", "aria-hidden": "true" }, s("path", { class: `line side-${side}`, d: "M1 4 L23 4" }), s("circle", { class: `point side-${side}`, cx: 12, cy: 4, r: 3 }));
}

/** Where a value lies in the picture. */
export function place(step: number, value: number, steps: number): { x: number; y: number } {
  const inner = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
  const clamped = Math.min(1, Math.max(0, value));
  return { x: LEFT + (inner.width * step) / Math.max(1, steps - 1), y: TOP + inner.height * (1 - clamped) };
}

function chart({ title, lines, thresholds }: Series, steps: number, names: readonly string[]): HTMLElement {
  const last = lines.flatMap((values) => (values.length ? [share(values.reduce((known, value) => value ?? known, null))] : []));
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("span", {}, title), h("b", {}, last.join(" / "))),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken(title, lines, thresholds, names) },
      [0, 0.5, 1].map((value) => grid(value, steps)),
      Array.from({ length: Math.max(...lines.map((values) => values.length)) }, (_, step) => s("text", { class: "axis", x: place(step, 0, steps).x, y: HEIGHT - 4, "text-anchor": "middle" }, step + 1)),
      thresholds.map(({ value }) => bound(value, steps)),
      lines.map((values, side) => curve(values, steps, side)),
      labelled(thresholds).map(({ y, told }) => s("text", { class: "threshold", x: WIDTH - RIGHT + 6, y: y + 3 }, told)),
    ),
  );
}

function curve(values: readonly (number | null)[], steps: number, side: number): SVGElement {
  const points = values.flatMap((value, step) => (value === null ? [] : [{ ...place(step, value, steps), value, step }]));
  const path = points.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(" ");
  return s("g", {},
    path && s("path", { class: `line side-${side}`, d: path }),
    points.map(({ x, y, value, step }) => s("circle", { class: `point side-${side}`, cx: x, cy: y, r: side ? 3.5 : 3 }, s("title", {}, `step ${step + 1}: ${share(value)}`))));
}

function grid(value: number, steps: number): SVGElement {
  const { x, y } = place(0, value, steps);
  return s("g", {}, s("line", { class: "grid", x1: x, y1: y, x2: WIDTH - RIGHT, y2: y }), s("text", { class: "axis", x: LEFT - 5, y: y + 3, "text-anchor": "end" }, value));
}

function bound(value: number, steps: number): SVGElement {
  const { x, y } = place(0, value, steps);
  return s("line", { class: "threshold", x1: x, y1: y, x2: WIDTH - RIGHT, y2: y });
}

/** Where the labels of thresholds stand, from the top: beside their lines, pushed apart where they would touch. */
export function labelled(thresholds: readonly Threshold[]): { y: number; told: string }[] {
  const sorted = [...thresholds].sort((a, b) => b.value - a.value);
  let free = -Infinity;
  const placed = sorted.map(({ value, label }) => {
    const y = Math.max(place(0, value, 2).y, free);
    free = y + LINE;
    return { y, told: `${label} ${share(value)}` };
  });
  // Those that were pushed below the picture move up again.
  return placed.map(({ y, told }, index) => ({ y: Math.min(y, HEIGHT - 4 - LINE * (placed.length - 1 - index)), told }));
}

function spoken(title: string, lines: Series["lines"], thresholds: readonly Threshold[], names: readonly string[]): string {
  const told = lines.flatMap((values, side) => {
    const steps = values.map((value, step) => `step ${step + 1} ${value === null ? "unknown" : share(value)}`).join(", ");
    return values.length ? [names.length > 1 ? `${names[side] ?? ""} ${steps}` : steps] : [];
  });
  const held = thresholds.map(({ value, label }) => `; ${label} ${share(value)}`).join("");
  return `${title} over the steps: ${told.join("; ")}${held}`;
}

// Small charts of one number over the steps of an episode, with the thresholds that it was held against.

import { h, s } from "./dom.ts";
import { share } from "./format.ts";
import type { Episode, Step } from "./schema.ts";

export interface Threshold { readonly value: number; readonly label: string }
export interface Series {
  readonly title: string;
  readonly values: readonly (number | null)[];
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

/** The numbers of an episode over its steps; those that its method does not have are left out. */
export function series(episode: Episode): Series[] {
  return DRAWN.map(({ title, of, thresholds }) => ({
    title,
    values: episode.steps.map((step) => of(step) ?? null),
    thresholds: thresholds.flatMap(([name, label]) => {
      const value = episode.thresholds[name];
      return value === undefined ? [] : [{ value, label }];
    }),
  })).filter(({ values }) => values.some((value) => value !== null));
}

/** All charts of an episode, on a common number of steps so that two episodes can be compared. */
export function charts(episode: Episode, steps: number): HTMLElement {
  const drawn = series(episode);
  if (drawn.length === 0) return h("p", { class: "muted" }, `${episode.method_title} holds no belief: there is nothing to draw.`);
  return h("div", { class: "charts" }, drawn.map((each) => chart(each, Math.max(steps, 2))));
}

/** Where a value lies in the picture. */
export function place(step: number, value: number, steps: number): { x: number; y: number } {
  const inner = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
  const clamped = Math.min(1, Math.max(0, value));
  return { x: LEFT + (inner.width * step) / Math.max(1, steps - 1), y: TOP + inner.height * (1 - clamped) };
}

function chart({ title, values, thresholds }: Series, steps: number): HTMLElement {
  const last = values.reduce<number | null>((known, value) => value ?? known, null);
  const points = values.flatMap((value, step) => (value === null ? [] : [{ ...place(step, value, steps), value, step }]));
  const path = points.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(" ");
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("span", {}, title), h("b", {}, share(last))),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken(title, values, thresholds) },
      [0, 0.5, 1].map((value) => grid(value, steps)),
      values.map((_, step) => s("text", { class: "axis", x: place(step, 0, steps).x, y: HEIGHT - 4, "text-anchor": "middle" }, step + 1)),
      thresholds.map(({ value }) => bound(value, steps)),
      s("path", { class: "line", d: path }),
      points.map(({ x, y, value, step }) => s("circle", { class: "point", cx: x, cy: y, r: 3 }, s("title", {}, `step ${step + 1}: ${share(value)}`))),
      labelled(thresholds).map(({ y, told }) => s("text", { class: "threshold", x: WIDTH - RIGHT + 6, y: y + 3 }, told)),
    ),
  );
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
  return sorted.map(({ value, label }) => {
    const y = Math.max(place(0, value, 2).y, free);
    free = y + LINE;
    return { y, told: `${label} ${share(value)}` };
  });
}

function spoken(title: string, values: readonly (number | null)[], thresholds: readonly Threshold[]): string {
  const told = values.map((value, step) => `step ${step + 1} ${value === null ? "unknown" : share(value)}`).join(", ");
  const held = thresholds.map(({ value, label }) => `; ${label} ${share(value)}`).join("");
  return `${title} over the steps: ${told}${held}`;
}

// How far confidences can be trusted: the reliability diagram, and the error among the surest answers.

import { h, s, type Child } from "./dom.ts";
import { count, percent, share } from "./format.ts";
import type { Analysis, Confidence } from "./schema.ts";
import { line } from "./text.ts";

const SIZE = 300;
const LEFT = 56;
const TOP = 10;
const BOTTOM = 40;
const RIGHT = 10;

export function confidence(analysis: Analysis, dataset: string): Child {
  const found = analysis.confidences.filter((each) => each.dataset === dataset);
  if (found.length === 0) return h("p", { class: "muted" }, "No method gave a confidence with its answers.");
  const right = analysis.right_by === "judge" ? "the judge calls them right" : "their F1 is at least 0.5";
  return [
    h("ul", { class: "legend" }, found.map((each, place) => h("li", {}, h("span", { class: `swatch side-${place}`, "aria-hidden": "true" }), " ", line(each.method_title, 40), h("span", { class: "muted" }, ` ${count(each.answers, "answer")}, ${whole(each)}calibration error ${share(each.calibration_error, 3)}`)))),
    h("div", { class: "pair-of-figures" }, reliability(found), riskCoverage(found)),
    h("p", { class: "muted small" }, `Answers count as right where ${right}.`),
  ];
}

function whole({ declined }: Confidence): string {
  return declined ? `${count(declined, "question")} declined, ` : "";
}

function reliability(found: readonly Confidence[]): HTMLElement {
  const told = found.map(({ method_title, bins }) => `${method_title}: ${bins.map(({ predicted, observed, states }) => `said ${percent(predicted)}, right ${percent(observed)} of ${states}`).join(", ")}`);
  return h("figure", {},
    s("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Reliability: ${told.join("; ")}` },
      axes("confidence", "share right"),
      s("line", { class: "ideal", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }),
      found.map(({ bins, answers }, side) => [
        s("path", { class: `line side-${side}`, d: path(bins.map(({ predicted, observed }) => [predicted, observed])) }),
        bins.map((bin) => s("circle", { class: `point side-${side}`, cx: across(bin.predicted), cy: up(bin.observed), r: 3 + 7 * Math.sqrt(bin.states / answers) }, s("title", {}, `said ${percent(bin.predicted)}: right ${percent(bin.observed)} of ${count(bin.states, "answer")}`))),
      ])),
    h("figcaption", {}, h("b", {}, "Reliability"), h("span", { class: "muted" }, ": on the line a confidence is what it says; a larger dot stands for more answers.")));
}

function riskCoverage(found: readonly Confidence[]): HTMLElement {
  const told = found.map(({ method_title, curve }) => `${method_title} ${percent(curve.at(-1)?.[1])} wrong at ${percent(curve.at(-1)?.[0])} answered`);
  return h("figure", {},
    s("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Risk against coverage: ${told.join("; ")}` },
      axes("share answered", "share wrong"),
      found.map(({ curve }, side) => [
        s("path", { class: `band side-${side}`, d: `${path([...curve.map(([x, , low]): [number, number] => [x, low]), ...[...curve].reverse().map(([x, , , high]): [number, number] => [x, high])])} Z` }),
        s("path", { class: `line side-${side}`, d: path(curve.map(([x, y]) => [x, y])) }),
        curve.length < 20 && curve.map(([x, y]) => s("circle", { class: `point side-${side}`, cx: across(x), cy: up(y), r: 2.5 }, s("title", {}, `${percent(x)} answered: ${percent(y)} of them wrong`))),
      ])),
    h("figcaption", {}, h("b", {}, "Risk and coverage"), h("span", { class: "muted" }, ": the share of wrong answers if only the surest questions were answered, with its 95 % interval.")));
}

function axes(below: string, beside: string): Child {
  return [
    [0, 0.25, 0.5, 0.75, 1].map((value) => [
      s("line", { class: "grid", x1: across(0), x2: across(1), y1: up(value), y2: up(value) }),
      s("text", { class: "axis", x: LEFT - 8, y: up(value) + 4, "text-anchor": "end" }, percent(value)),
      s("text", { class: "axis", x: across(value), y: SIZE - BOTTOM + 16, "text-anchor": value === 1 ? "end" : "middle" }, percent(value)),
    ]),
    s("text", { class: "axis", x: (across(0) + across(1)) / 2, y: SIZE - 6, "text-anchor": "middle" }, below),
    s("text", { class: "axis", x: 10, y: (up(0) + up(1)) / 2, "text-anchor": "middle", transform: `rotate(-90 10 ${(up(0) + up(1)) / 2})` }, beside),
  ];
}

function path(points: readonly (readonly [number, number])[]): string {
  return points.map(([x, y], place) => `${place ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join(" ");
}

function across(value: number): number {
  return LEFT + (SIZE - LEFT - RIGHT) * value;
}

function up(value: number): number {
  return TOP + (SIZE - TOP - BOTTOM) * (1 - value);
}

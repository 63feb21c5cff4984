// The paired differences of one method to all others, on the same questions, with their intervals.

import { h, s, type Child } from "./dom.ts";
import { signed, whole } from "./format.ts";
import type { Difference, Differences, Paired } from "./schema.ts";
import { line } from "./text.ts";

export function differences(compared: Differences, dataset: string): Child {
  const found = compared.differences.filter((each) => each.dataset === dataset);
  if (found.length === 0) return h("p", { class: "muted" }, "There are no two methods with finished questions in common.");
  const most = Math.max(0.05, ...found.flatMap(({ f1 }) => [f1.difference.low, f1.difference.high, f1.difference.value].map((value) => Math.abs(value ?? 0))));
  const about = `${compared.reference_title} minus each other method, on the questions that both finished, with 95 % intervals.`;
  return [h("p", { class: "muted small" }, about), h("div", { class: "scroll" }, h("table", { class: "numbers differences", "aria-label": "Differences" },
    h("thead", {}, h("tr", {}, ["against", "F1", "", "tokens", "questions"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, found.map((each) => row(each, most)))))];
}

function row({ method_title, f1, tokens }: Paired, most: number): HTMLElement {
  return h("tr", {},
    h("th", { scope: "row" }, line(method_title, 40)),
    h("td", {}, h("b", {}, signed(f1.difference.value, 3)), h("small", {}, reading(f1))),
    h("td", { class: "forest" }, bar(f1, most)),
    h("td", {}, h("b", {}, signed(tokens.difference.value, 0)), h("small", {}, range(tokens, 0))),
    h("td", {}, whole(f1.difference.questions)));
}

/** What the interval shows. */
export function reading({ difference, is_clear }: Difference): string {
  if (is_clear) return difference.value > 0 ? "clearly better" : "clearly worse";
  return difference.has_few_questions ? "too few questions" : "no clear difference";
}

function range({ difference: { low, high } }: Difference, digits: number): string {
  return low === null || high === null ? "\u2013" : `${signed(low, digits)} to ${signed(high, digits)}`;
}

function bar(found: Difference, most: number): SVGElement {
  const { value: mean, low, high } = found.difference;
  const across = (value: number): number => 70 + (64 * value) / most;
  return s("svg", { viewBox: "0 0 140 18", role: "img", "aria-label": `F1 ${range(found, 3)}`, class: found.is_clear ? "clear" : undefined },
    s("title", {}, range(found, 3)),
    s("line", { class: "zero", x1: 70, x2: 70, y1: 0, y2: 18 }),
    low !== null && high !== null && s("line", { class: "range", x1: across(low), x2: across(high), y1: 9, y2: 9 }),
    s("circle", { cx: across(mean), cy: 9, r: 4 }));
}

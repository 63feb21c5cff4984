// Outcomes, correctness and actions as small labels: a word or letters each, never a colour alone.

import { h } from "./dom.ts";

const CORRECTNESS: Record<string, [string, string]> = {
  right: ["\u2713", "right"],
  partly: ["\u223c", "partly right"],
  wrong: ["\u2717", "wrong"],
  unscored: ["\u2013", "not scored"],
};

const SHORT: Record<string, string> = {
  RETRIEVE: "Re",
  REWRITE: "Rw",
  VERIFY: "Ve",
  ANSWER: "An",
  STOP: "St",
  ABSTAIN: "Ab",
};

export function outcome(name: string): HTMLElement {
  return h("span", { class: `tag outcome ${/^[a-z]+$/.test(name) ? name : ""}` }, name);
}

export function correctness(name: string): HTMLElement {
  const [sign, told] = CORRECTNESS[name] ?? ["\u2013", name];
  return h("span", { class: `correctness ${told.split(" ")[0]}`, title: told }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "aside" }, told));
}

/** How right an episode's answer is: the judge's word where there is one, otherwise F1. */
export function correctnessOf(metrics: Record<string, number | null>): string {
  const judged = metrics["judge"] ?? null;
  const f1 = metrics["f1"] ?? null;
  if (judged !== null) return judged >= 0.5 ? "right" : "wrong";
  if (f1 === null) return "unscored";
  return f1 <= 0 ? "wrong" : f1 >= 1 ? "right" : "partly";
}

/** A sequence of actions as tiles of two letters. */
export function actions(sequence: string): HTMLElement {
  const names = sequence.split(" ").filter(Boolean);
  return h(
    "span",
    { class: "tiles", title: names.join(" \u2192 ") },
    names.map((name) => h("span", { class: `tile ${SHORT[name] ? name.toLowerCase() : ""}`, "aria-hidden": "true" }, SHORT[name] ?? "?")),
    h("span", { class: "aside" }, names.join(", ")),
  );
}

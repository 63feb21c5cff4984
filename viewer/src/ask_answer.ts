// How a question ended, in the words of `beliefrag ask`: the answer, or what is missing; the quotes; what it cost.

import { feedbackRow } from "./ask_feedback.ts";
import type { Asked } from "./ask_history.ts";
import type { Answer, Citation, Source } from "./ask_schema.ts";
import type { Opened } from "./ask_document.ts";
import { h, type Child } from "./dom.ts";
import { count, percent, whole } from "./format.ts";
import { line, words } from "./text.ts";

/** The words of `explanation.py`. */
const DECLINED = "Declined: the documents do not answer this clearly enough.";

export type OpenDocument = (opened: Opened, opener: HTMLElement) => void;

/** The answer of a question, with everything that belongs to it. */
export function answerView(asked: Asked, steps: HTMLElement | null, open: OpenDocument, say: (told: string) => void): Child[] {
  const { answer } = asked;
  const isDeclined = answer.outcome === "abstained";
  const cited = (isDeclined ? answer.nearest : answer.citations) ?? [];
  return [
    answer.standalone ? h("p", { class: "understood muted" }, "Understood as: ", words(answer.standalone, 600)) : null,
    isDeclined ? declined(answer) : given(answer),
    quotes(answer, cited, open),
    isDeclined ? guess(answer) : null,
    h("details", { class: "done" }, h("summary", {}, "Why"), steps?.children.length ? steps : null,
      h("p", { class: "why muted" }, words(explanation(answer), 1000)),
      furtherSources(answer, cited, open),
      h("p", {}, h("a", { href: `/page/trajectory/${encodeURIComponent(answer.id)}` }, "How it got there"))),
    h("p", { class: "cost muted" }, cost(asked)),
    feedbackRow(answer, say),
  ];
}

/** Why it searched and stopped, and what would change its mind. */
export function explanation({ why, would_change }: Pick<Answer, "why" | "would_change">): string {
  return would_change ? `${why} What would change it: ${would_change}.` : why;
}

function given(answer: Answer): HTMLElement {
  return h("div", { class: "given" },
    h("p", { class: "answer" }, answer.sentences?.length ? sentences(answer) : words(answer.answer ?? "", 4000)),
    answer.corrected ? h("p", { class: "note corrected" }, words(answer.corrected, 1200)) : null,
    confidence(answer),
    notes(answer));
}

function notes(answer: Answer): Child[] {
  return (answer.notes ?? []).map((note) => h("p", { class: "note" }, words(note, 1000)));
}

/** The sentences, or the items of a list, each with the numbers of its quotes, which lead to them. */
function sentences(answer: Answer): Child[] {
  const all = answer.sentences ?? [];
  const between = answer.answer === all.map(({ text }) => text).join("; ") ? "; " : " ";
  return all.map(({ text, cites }, place) => [place > 0 ? between : "", words(text, 2000),
    cites.map((cited) => h("button", { type: "button", class: "cite", "aria-label": `Quote ${cited + 1}`, click: (event) => { goTo(event, cited); } }, String(cited + 1)))]);
}

function goTo(event: Event, cited: number): void {
  const article = (event.currentTarget as HTMLElement).closest("article");
  article?.querySelectorAll<HTMLElement>(".quotes .open")[cited]?.focus();
}

function declined(answer: Answer): HTMLElement {
  return h("div", { class: "given declined" }, h("p", { class: "answer" }, answer.asks ? words(answer.asks, 600) : DECLINED), notes(answer));
}

function guess(answer: Answer): Child {
  if (!answer.best_guess) return null;
  return h("details", { class: "guess" }, h("summary", {}, "Best guess"),
    h("p", {}, words(answer.best_guess, 2000), " ", h("span", { class: "muted" }, `(${likely(answer)})`)));
}

function likely({ answerability, calibrated }: Answer): string {
  if (answerability === null) return "no probability: the method gives none";
  return `${percent(answerability)} likely right${calibrated === false ? ", an uncalibrated estimate" : ""}`;
}

function confidence(answer: Answer): Child {
  const probability = answer.answerability;
  if (probability === null) return h("p", { class: "muted" }, "No probability: the method gives none");
  const share = Math.round(100 * probability);
  const level = share >= 75 ? "high" : share >= 50 ? "middle" : "low";
  return h("p", { class: `confidence ${level}` },
    h("meter", { min: 0, max: 100, value: share, low: 50, high: 75, optimum: 100, "aria-label": "How likely the answer is right" }),
    h("span", {}, likely(answer)));
}

function quotes(answer: Answer, found: readonly Citation[], open: OpenDocument): Child {
  if (found.length === 0) return null;
  const title = answer.answer === null || found.at(-1)?.role === "related" ? "Nearest quotes" : "Quotes";
  return h("section", { class: "quotes", "aria-label": title }, h("h3", {}, title),
    h("ol", {}, found.map((quote) => h("li", {}, h("blockquote", {}, words(quote.quote, 1200)), openButton(answer, quote, found, open)))));
}

function openButton(answer: Answer, quote: Citation, all: readonly Citation[], open: OpenDocument): HTMLElement {
  const where = placeOf(quote);
  const button = h("button", { type: "button", class: "open" }, "Open ", line(where, 140));
  button.addEventListener("click", () => { open({ asked: answer.id, passage: quote.passage_id, quotes: all, source: where }, button); });
  return button;
}

function furtherSources(answer: Answer, cited: readonly Citation[], open: OpenDocument): Child {
  const known = new Set(cited.map((each) => each.passage_id));
  const others = answer.sources.filter((each) => !known.has(each.id));
  if (others.length === 0) return null;
  return h("details", { class: "further" },
    h("summary", {}, `${cited.length ? "Also read" : "Read"}: ${count(others.length, "passage")}`),
    h("ul", {}, others.map((source) => {
      const button = h("button", { type: "button", class: "open" }, line(placeOf(source), 140));
      button.addEventListener("click", () => { open({ asked: answer.id, passage: source.id, quotes: cited, source: placeOf(source) }, button); });
      return h("li", {}, button, " ", h("span", { class: "muted" }, line(source.excerpt, 120)));
    })));
}

/** Where a quote or a passage stands, as a person says it. */
export function placeOf(found: Citation | Source): string {
  const title = found.title && found.title !== found.source ? found.title : "";
  return [title, [found.source, found.place].filter(Boolean).join(", ")].filter(Boolean).join(" \u00b7 ") || "passage";
}

function cost({ answer: { usage }, seconds }: Asked): string {
  const recorded = usage.cached_calls ? ` (${whole(usage.cached_calls)} recorded earlier)` : "";
  return `${whole(usage.tokens)} tokens, ${count(usage.calls, "model call")}${recorded}, ${count(usage.searches, "search", "searches")}, ${seconds.toFixed(1)} s`;
}

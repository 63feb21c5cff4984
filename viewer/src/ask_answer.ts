// How a question ended: the answer, or why there is none; the quotes; what else was read; what it cost.

import { feedbackRow } from "./ask_feedback.ts";
import type { Asked } from "./ask_history.ts";
import type { Answer, Citation, Source } from "./ask_schema.ts";
import type { Opened } from "./ask_document.ts";
import { h, type Child } from "./dom.ts";
import { count, percent, whole } from "./format.ts";
import { line, words } from "./text.ts";

const WORDS_SHOWN = 6;

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
    furtherSources(answer, cited, open),
    h("p", { class: "why muted" }, words(explanation(answer), 1000)),
    h("p", { class: "cost muted" }, cost(asked), " ", h("a", { href: `/page/trajectory/${encodeURIComponent(answer.id)}` }, "How it got there")),
    steps?.children.length ? h("details", { class: "done" }, h("summary", {}, "What it did"), steps) : null,
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
    answer.left_out ? h("p", { class: "note muted" }, `Left out: ${count(answer.left_out, "sentence")} that the documents do not support.`) : null,
    answer.outcome === "stopped" && h("p", { class: "note" }, "This is the best answer that was found, not one to rely on."),
    confidence(answer));
}

/** The sentences, each with the numbers of its quotes, which lead to them. */
function sentences(answer: Answer): Child[] {
  return (answer.sentences ?? []).map(({ text, cites }, place) => [place > 0 ? " " : "", words(text, 2000),
    cites.map((cited) => h("button", { type: "button", class: "cite", "aria-label": `Quote ${cited + 1}`, click: (event) => { goTo(event, cited); } }, String(cited + 1)))]);
}

function goTo(event: Event, cited: number): void {
  const article = (event.currentTarget as HTMLElement).closest("article");
  article?.querySelectorAll<HTMLElement>(".quotes .open")[cited]?.focus();
}

function missing(answer: Answer): Child {
  if (answer.sources.length === 0) return h("p", {}, "Nothing was found for the words of the question.");
  const words = (answer.missing ?? []).slice(0, WORDS_SHOWN);
  if (words.length === 0) return h("p", {}, "The words of the question were found, but no sentence that says the answer clearly enough.");
  return h("p", {}, "What is missing: no passage that was read speaks of ", words.map((word, place) => [place > 0 && (place === words.length - 1 ? " or " : ", "), h("q", {}, line(word, 40))]), ".");
}

function declined(answer: Answer): HTMLElement {
  if (answer.asks) return h("div", { class: "given declined" }, h("p", { class: "answer" }, words(answer.asks, 600)));
  const guess = answer.best_guess;
  return h("div", { class: "given declined" },
    h("p", { class: "answer" }, "Declined: the documents do not give an answer to trust."),
    missing(answer),
    guess && h("details", { class: "guess" }, h("summary", {}, "Show the best guess"),
      h("p", {}, words(guess, 2000), " ", h("span", { class: "muted" }, answer.answerability === null ? "(a guess)" : `(a guess, ${likely(answer.answerability, answer)})`))));
}

function likely(probability: number, { calibrated }: Answer): string {
  return `${percent(probability)} likely right${calibrated === false ? ", an uncalibrated estimate" : ""}`;
}

function confidence(answer: Answer): Child {
  const probability = answer.answerability;
  if (probability === null) return h("p", { class: "muted" }, "This method does not say how likely its answer is right.");
  const share = Math.round(100 * probability);
  const level = share >= 75 ? "high" : share >= 50 ? "middle" : "low";
  return h("p", { class: `confidence ${level}` },
    h("meter", { min: 0, max: 100, value: share, low: 50, high: 75, optimum: 100, "aria-label": "How likely the answer is right" }),
    h("span", {}, likely(probability, answer)));
}

function quotes(answer: Answer, found: readonly Citation[], open: OpenDocument): Child {
  if (found.length === 0) return null;
  const titles: Record<string, string> = { abstained: "What came nearest" };
  const related = found.every((each) => each.role === "related");
  const title = titles[answer.outcome] ?? (related ? "What comes nearest to it" : "It rests on");
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
  return `${seconds.toFixed(1)} s, ${count(usage.searches, "search", "searches")}, ${count(usage.calls, "model call")}${recorded}, ${whole(usage.tokens)} tokens.`;
}

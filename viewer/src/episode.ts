// One episode, whole: how it ended, the belief, the steps, the evidence, the calls.

import { calls } from "./calls.ts";
import { charts } from "./charts.ts";
import { h, type Child } from "./dom.ts";
import { evidence } from "./evidence.ts";
import { count, percent, seconds, share, whole } from "./format.ts";
import type { Episode } from "./schema.ts";
import { correctness, correctnessOf, outcome } from "./signs.ts";
import { steps } from "./steps.ts";
import { line, words } from "./text.ts";

/** The sections of an episode. */
export function episodeView(episode: Episode): Child[] {
  return [
    ending(episode),
    section("Belief", charts([episode]) ?? h("p", { class: "muted" }, `${episode.method_title} holds no belief: there is nothing to draw.`)),
    section("Steps", steps(episode)),
    section("Evidence", evidence([episode])),
    section("Model calls", calls(episode)),
    section("Made with", made(episode)),
  ];
}

/** The question as a heading; its id where the text is not here. */
export function question(episode: Episode): HTMLElement {
  if (episode.question !== null) return h("h1", { class: "question" }, words(episode.question, 600));
  return h("h1", { class: "question" }, "Question ", line(episode.question_id, 100));
}

export function section(title: string, content: Child): HTMLElement {
  const id = title.toLowerCase().replaceAll(" ", "-");
  return h("section", { class: "panel", "aria-labelledby": id }, h("h2", { id }, title), content);
}

function ending(episode: Episode): HTMLElement {
  const scored = episode.metrics["f1"] !== undefined;
  return h(
    "section",
    { class: "panel ending", "aria-label": "How it ended" },
    h("dl", {},
      row("answer", episode.answer === null ? h("span", { class: "muted" }, "none") : h("strong", {}, words(episode.answer, 600))),
      episode.best_guess !== null && row("best guess", words(episode.best_guess, 600)),
      episode.gold !== null && row("gold answer", goldAnswers(episode)),
      row("outcome", [outcome(episode.outcome), scored && [" ", correctness(correctnessOf(episode.metrics)), h("span", {}, scores(episode))]]),
      episode.answerability !== null && row("confidence", `${percent(episode.answerability)}${episode.calibrated === false ? ", an uncalibrated estimate" : ""}`),
      episode.citations.length > 0 && row(episode.answer === null ? "nearest" : "rests on", citations(episode)),
      ended(episode) !== "" && episode.error === null && row("reason", words(ended(episode), 800)),
      episode.error !== null && row("error", [h("code", {}, line(episode.error.cause, 60)), " ", words(`${episode.error.message} ${episode.error.remedy}`, 800)]),
      row("cost", cost(episode)),
    ),
    episode.notes.map((note) => h("p", { class: "note" }, line(note, 600))),
  );
}

function row(heading: string, content: Child): HTMLElement {
  return h("div", {}, h("dt", {}, heading), h("dd", {}, content));
}

function citations(episode: Episode): HTMLElement {
  return h("ul", { class: "citations" }, episode.citations.map(({ passage_id, span: [start, end], role }) => {
    const passage = episode.passages[passage_id];
    const quote = passage?.text ? [...passage.text].slice(start, end).join("") : null;
    const where = [passage?.title || passage_id, passage?.place].filter(Boolean).join(", ");
    return h("li", {},
      quote === null ? h("span", { class: "muted" }, `characters ${start} to ${end}`) : h("q", {}, line(quote, 400)),
      " ", h("cite", {}, line(where, 120)), role !== "" && h("span", { class: "tag" }, line(role, 20)));
  }));
}

export function goldAnswers(episode: Episode): Child {
  const answers = episode.gold?.answers ?? [];
  const shown = answers.slice(0, 8).flatMap((answer, place) => [place > 0 && h("span", { class: "muted" }, " or "), words(answer, 300)]);
  const supporting = episode.gold?.supporting;
  const kept = supportKept(episode);
  return [
    shown,
    answers.length > 8 && h("span", { class: "muted" }, ` and ${answers.length - 8} more`),
    h("span", { class: "muted" }, supporting ? ` (${kept} of ${count(supporting.length, "supporting passage")} kept to the end)` : " (supporting passages are not annotated)"),
  ];
}

/** How many of the supporting passages were read for the ending. */
export function supportKept({ gold, sources }: Episode): number {
  return gold?.supporting?.filter((id) => sources.includes(id)).length ?? 0;
}

export function scores({ metrics }: Episode): string {
  const named: [string, string][] = [["exact_match", "EM"], ["f1", "F1"], ["cover", "cover"], ["judge", "judge"], ["evidence_recall", "evidence recall"], ["answer_row_recall", "answer rows"]];
  const told = named.flatMap(([name, title]) => (metrics[name] === null || metrics[name] === undefined ? [] : [`${title} ${share(metrics[name], 3)}`]));
  return ` ${told.join(", ")}`;
}

/** Why it ended, in words. */
export function ended(episode: Episode): string {
  return episode.error?.message ?? episode.steps.at(-1)?.why ?? "";
}

export function spent({ usage }: Episode): number {
  return usage.tokens_in + usage.tokens_out;
}

export function cost({ usage, seconds: took, budget }: Episode): string {
  const limit = budget?.["tokens"] ? ` of ${whole(budget["tokens"])}` : "";
  const retried = usage.retries ? `, ${count(usage.retries, "retry", "retries")}` : "";
  return `${whole(usage.tokens_in + usage.tokens_out)}${limit} tokens (${whole(usage.tokens_in)} in, ${whole(usage.tokens_out)} out), ${count(usage.calls, "call")}${retried}, ${count(usage.searches, "search", "searches")}, ${seconds(took)}`;
}

function made(episode: Episode): HTMLElement {
  const pairs: [string, string][] = [
    ["method", episode.method_title],
    ["model", episode.model],
    ["verifier", episode.verifier],
    ...Object.entries(episode.made_with),
    ...(episode.dataset ? [["dataset", episode.dataset] as [string, string], ["question", episode.question_id] as [string, string]] : []),
    ...(episode.licence ? [["licence of its texts", episode.licence] as [string, string]] : []),
  ];
  return h("dl", { class: "made" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, line(name, 60)), h("dd", {}, line(value, 200)))));
}

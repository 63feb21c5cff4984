// Two methods on the same question as a difference: what they did alike is folded, and the step where they part is marked.

import { get, getEpisode } from "./api.ts";
import { calls } from "./calls.ts";
import { charts } from "./charts.ts";
import { onKey } from "./chrome.ts";
import { alikeCalls, alikeSteps, parting } from "./difference.ts";
import { h, replace, type Child } from "./dom.ts";
import { ended, goldAnswers, question, scores, section, spent, supportKept } from "./episode.ts";
import { rivalLinks } from "./episode_page.ts";
import { evidence } from "./evidence.ts";
import { count, percent, seconds, whole } from "./format.ts";
import type { Episode, Row } from "./schema.ts";
import { correctness, correctnessOf, outcome } from "./signs.ts";
import { anchor, followAnchor, steps } from "./steps.ts";
import { line, words } from "./text.ts";
import { waterfall } from "./waterfall.ts";

type Pair = readonly [Episode, Episode];
const SIDES = ["left-", "right-"] as const;

export async function comparePage(main: HTMLElement, first: number, second: number): Promise<void> {
  const [left, right, others] = await Promise.all([getEpisode(first), getEpisode(second), get<Row[]>(`/api/episode/${first}/others`)]);
  const pair: Pair = [left, right];
  document.title = `${left.method_title} and ${right.method_title} \u2013 BeliefRAG viewer`;
  const same = left.dataset === right.dataset && left.question_id === right.question_id;
  const alike = alikeSteps(left, right);
  const belief = charts(pair);
  replace(
    main,
    same ? h("div", { class: "top" }, question(left)) : h("p", { class: "panel warn" }, "These are episodes on different questions."),
    section("How they ended", endings(pair, same && others.length > 2 ? others : [])),
    switcher(main, pair),
    section("Steps", stepsApart(pair, alike)),
    belief && section("Belief", belief),
    section("Evidence", evidence(pair, (side, step) => anchor(step, SIDES[step < alike ? 0 : side]))),
    section("Model calls", callsApart(pair)),
  );
  swipeTogether(main);
  followAnchor();
  onKey(["u"], "the left one alone", () => { location.href = `/episode/${first}`; });
  onKey(["s"], "change sides", () => { location.href = `/compare/${second}/${first}`; });
}

/** How both ended, in one table: what is the same for both stands once. */
function endings(pair: Pair, others: readonly Row[]): Child {
  const [left, right] = pair;
  const entry = (heading: string, show: (episode: Episode) => Child, of: (episode: Episode) => unknown): Child => {
    if (pair.every((episode) => of(episode) === null || of(episode) === "")) return null;
    const alike = JSON.stringify(of(left)) === JSON.stringify(of(right));
    return h("tr", {}, h("th", { scope: "row" }, heading), alike ? h("td", { colspan: 2, class: "alike" }, show(left)) : pair.map((episode) => h("td", {}, show(episode))));
  };
  const number = (heading: string, of: (episode: Episode) => number): Child => entry(heading, (episode) => whole(of(episode)), of);
  return [
    h("div", { class: "scroll" }, h("table", { class: "endings" },
      h("thead", {}, h("tr", {}, h("td", {}), pair.map((episode) => h("th", { scope: "col" }, line(episode.method_title, 40), " ", h("a", { class: "alone", href: `/episode/${episode.id}` }, "alone"))))),
      h("tbody", {},
        left.question_id !== right.question_id && entry("question", question, (episode) => episode.question_id),
        entry("answer", answer, (episode) => episode.answer ?? episode.best_guess),
        entry("outcome", (episode) => [outcome(episode.outcome), " ", correctness(correctnessOf(episode.metrics)), scores(episode)], (episode) => [episode.outcome, scores(episode)]),
        entry("gold answer", (episode) => episode.gold && goldAnswers(episode), (episode) => episode.gold && [episode.gold.answers, supportKept(episode)]),
        entry("confidence", (episode) => percent(episode.answerability), (episode) => episode.answerability),
        entry("reason", (episode) => words(ended(episode), 400), ended),
        number("tokens", (episode) => spent(episode)),
        number("calls", (episode) => episode.usage.calls),
        number("searches", (episode) => episode.usage.searches),
        entry("time", (episode) => seconds(episode.seconds), (episode) => episode.seconds)))),
    others.length > 0 && pair.map((episode, side) => rivalLinks(side ? "On the right" : "On the left", others, episode.id, (id) => (side ? `/compare/${left.id}/${id}` : `/compare/${id}/${right.id}`))),
    pair[0].notes.map((note) => h("p", { class: "note" }, line(note, 600))),
  ];
}

function answer(episode: Episode): Child {
  if (episode.answer !== null) return h("strong", {}, words(episode.answer, 300));
  return [h("span", { class: "muted" }, "none"), episode.best_guess !== null && [", best guess ", words(episode.best_guess, 300)]];
}

function stepsApart(pair: Pair, alike: number): Child {
  const [left, right] = pair;
  const ended = alike === left.steps.length && alike === right.steps.length;
  const before: Episode = { ...left, steps: left.steps.slice(0, alike) };
  return [
    alike > 0 && h("details", { class: "folded", "data-key": "alike" },
      h("summary", {}, `${alike === 1 ? "Step 1 is" : `Steps 1 to ${alike} are`} the same in both: `, h("span", { class: "muted" }, before.steps.map(({ action }) => action).join(", "))),
      steps(before, 0, SIDES[0])),
    ended
      ? h("p", { class: "parting" }, "Both took the same steps.")
      : [h("p", { class: "parting", id: "parting" }, h("b", {}, `They differ from step ${alike + 1} on: `), parting(left, right, alike)),
         sides(pair, (episode, side) => (episode.steps.length > alike ? steps(episode, alike, SIDES[side]) : h("p", { class: "muted" }, `It ended at step ${alike}.`)))],
  ];
}

function callsApart(pair: Pair): Child {
  const [left, right] = pair;
  if (pair.every((episode) => episode.calls.length === 0)) return h("p", { class: "muted" }, "No model was asked in either.");
  const alike = alikeCalls(left, right);
  const total = Math.max(...pair.map((episode) => waterfall(episode.calls).total));
  if (alike === left.calls.length && alike === right.calls.length) return [h("p", {}, "Both made the same calls, with the same replies."), calls(left)];
  return [
    alike > 0 && h("details", { class: "folded", "data-key": "alike calls" },
      h("summary", {}, `The first ${alike === 1 ? "call is" : `${alike} calls are`} the same in both`),
      calls({ ...left, calls: left.calls.slice(0, alike) }, 0, total)),
    sides(pair, (episode) => (episode.calls.length > alike ? calls(episode, alike, total) : h("p", { class: "muted" }, `It made no more than ${count(alike, "call")}.`))),
  ];
}

/** Two columns; on a narrow screen two pages to swipe between. */
function sides(pair: Pair, content: (episode: Episode, side: number) => Child): HTMLElement {
  return h("div", { class: "sides" }, pair.map((episode, side) => h("section", { class: "side", "aria-label": episode.method_title }, h("h3", { class: "sidehead" }, line(episode.method_title, 40)), content(episode, side))));
}

/** On a narrow screen: which of the two is shown. */
function switcher(main: HTMLElement, pair: Pair): HTMLElement {
  return h("nav", { class: "switch", "aria-label": "Which of the two" }, pair.map((episode, side) =>
    h("button", { type: "button", "aria-pressed": side === 0 ? "true" : "false", click: () => { showSide(main, side, "smooth"); } }, line(episode.method_title, 30), " ", correctness(correctnessOf(episode.metrics)))));
}

function showSide(main: HTMLElement, side: number, behavior: ScrollBehavior): void {
  for (const lane of main.querySelectorAll<HTMLElement>(".sides")) lane.scrollTo({ left: side * lane.clientWidth, behavior });
}

function swipeTogether(main: HTMLElement): void {
  let shown = 0;
  for (const lane of main.querySelectorAll<HTMLElement>(".sides")) {
    lane.addEventListener("scroll", () => {
      const side = Math.round(lane.scrollLeft / lane.clientWidth);
      if (side === shown) return;
      shown = side;
      main.querySelectorAll(".switch button").forEach((button, place) => { button.setAttribute("aria-pressed", String(place === side)); });
      // Without a movement of their own, so that the others do not report a place in between.
      for (const other of main.querySelectorAll<HTMLElement>(".sides")) if (other !== lane) other.scrollTo({ left: side * other.clientWidth, behavior: "instant" });
    }, { passive: true });
  }
}

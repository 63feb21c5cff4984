// The steps of an episode: the action, the branch that chose it, the numbers compared, and what it changed.

import { h, type Child } from "./dom.ts";
import { count, share, whole } from "./format.ts";
import type { Comparison, Episode, Search, Step, Way } from "./schema.ts";
import { line, words } from "./text.ts";

/** What stands for the question in the files of a run. */
const QUESTION = "[question]";

/** The steps from one on. `side` keeps their anchors apart where two episodes share a page. */
export function steps(episode: Episode, from = 0, side = ""): HTMLElement {
  if (episode.steps.length === 0) return h("p", { class: "muted" }, "No step was taken.");
  return h("ol", { class: "steps" }, episode.steps.slice(from).map((step) => h("li", {}, card(episode, step, side))));
}

/** The part of an address that leads to a step. */
export function anchor(step: number, side = ""): string {
  return `step-${side}${step + 1}`;
}

/** Goes to the part that the address names: it was not there yet when the browser looked for it. */
export function followAnchor(): void {
  if (/^#[a-z0-9-]+$/.test(location.hash) && document.getElementById(location.hash.slice(1))) location.replace(location.hash);
}

function card(episode: Episode, step: Step, side: string): HTMLElement {
  const id = anchor(step.number, side);
  return h(
    "article",
    { class: "step", id, "aria-label": `Step ${step.number + 1}, ${step.action}` },
    h(
      "header",
      {},
      h("a", { class: "number", href: `#${id}`, title: "link to this step" }, step.number + 1),
      h("h3", { class: `action ${/^[A-Z]+$/.test(step.action) ? step.action.toLowerCase() : ""}` }, line(step.action, 40)),
      h("code", { class: "branch", title: "the rule that decided" }, line(step.reason, 60)),
      h("span", { class: "muted right" }, `${whole(step.tokens)} tokens so far`),
    ),
    h("p", { class: "reason" }, line(step.why, 600)),
    step.comparisons.length > 0 && h("ul", { class: "comparisons" }, step.comparisons.map(comparison)),
    step.search && search(episode, step.search),
    step.rewritten !== null && h("p", {}, h("span", { class: "label" }, "new query"), words(step.rewritten)),
    isNew(episode, step) && flagged(episode, step),
    (step.dropped?.length ?? 0) > 0 && dropped(episode, step),
    step.attempt && attempt(step.attempt),
    numbers(step),
  );
}

function comparison({ name, value, relation, threshold, holds }: Comparison): HTMLElement {
  return h(
    "li",
    { class: holds ? "holds" : "fails" },
    h("span", { "aria-hidden": "true" }, holds ? "\u2713" : "\u2717"),
    ` ${name} `,
    h("b", {}, share(value)),
    ` ${holds ? "is" : "is not"} ${relation} `,
    h("b", {}, share(threshold)),
  );
}

function search(episode: Episode, found: Search): Child {
  if (found.query === null) return h("p", {}, "No search was made: nothing was missing, or too few tokens were left to write a query.");
  const own = found.query === QUESTION || found.query === episode.question;
  const asked = found.query.replaceAll(QUESTION, episode.question ?? QUESTION);
  const query = own && episode.question === null ? h("span", { class: "muted" }, "the question itself") : words(asked, 400);
  return [
    h("p", {}, h("span", { class: "label" }, "query"), query, own && episode.question !== null && h("span", { class: "muted" }, " (the question itself)")),
    found.hits.length === 0
      ? h("p", { class: "muted" }, "Nothing was found.")
      : h(
          "ol",
          { class: "hits" },
          found.hits.map(([id, score]) =>
            h(
              "li",
              {},
              h("span", { class: "score" }, share(score)),
              line(episode.passages[id]?.title || id, 80),
              h("span", { class: "muted" }, ` ${fate(found, id)}`),
              gold(episode, id),
              along(episode, found.found_by[id]),
            ),
          ),
        ),
  ];
}

// A passage that was found by the search's own words needs no further word.
function along(episode: Episode, way: Way | undefined): Child {
  if (way === undefined || way.way === "search") return null;
  const name = ["\u201c", line(way.name, 60), "\u201d"];
  const from = line(episode.passages[way.passage]?.title || way.passage, 60);
  const told: Record<string, Child> = {
    named: ["the question names ", name],
    link: [from, " names ", name],
    backlink: ["names ", name, ", which ", from, " is about"],
    shared: ["names ", name, ", as ", from, " does"],
  };
  return h("small", { class: "way muted" }, told[way.way] ?? line(way.way, 60));
}

function fate(found: Search, id: string): string {
  if (found.added.includes(id)) return "new";
  if (found.known.includes(id)) return "known";
  return found.refused.includes(id) ? "dropped earlier, refused" : "";
}

function gold(episode: Episode, id: string): Child {
  return episode.gold?.supporting?.includes(id) && h("span", { class: "tag gold" }, "gold");
}

// An observation can hold over several steps: its verdict is told once.
function isNew(episode: Episode, { number, flagged: now }: Step): boolean {
  const before = episode.steps.find((each) => each.number === number - 1)?.flagged ?? [];
  return now.length > 0 && now.join("\n") !== before.join("\n");
}

function flagged(episode: Episode, step: Step): HTMLElement {
  const titles = step.flagged.map((id, place) => [place > 0 && "; ", line(episode.passages[id]?.title || id, 80), gold(episode, id)]);
  return h("p", {}, h("span", { class: "label" }, "called unhelpful"), titles);
}

function dropped(episode: Episode, step: Step): HTMLElement {
  return h(
    "ul",
    { class: "hits" },
    (step.dropped ?? []).map((id) =>
      h("li", {}, h("span", { class: "label" }, "dropped"), line(episode.passages[id]?.title || id, 80), gold(episode, id), h("span", { class: "muted" }, " ", line(step.why, 200))),
    ),
  );
}

function attempt({ answer, tokens, scores }: NonNullable<Step["attempt"]>): HTMLElement {
  const worth = scores["f1"] === undefined ? "" : ` (F1 ${share(scores["f1"])})`;
  const cost = tokens ? `, for ${count(tokens, "more token")}` : "";
  return h("p", {}, h("span", { class: "label" }, "would answer"), line(answer, 200), h("span", { class: "muted" }, `${worth}${cost}`));
}

function numbers(step: Step): HTMLElement {
  const shown = step.shown.length ? `; prompts showed chosen sentences of ${count(step.shown.length, "passage")}` : "";
  return h(
    "details",
    { "data-key": `numbers ${step.number}` },
    h("summary", {}, "measurements, belief and what was legal"),
    step.diagnostics && pairs("measured", step.diagnostics),
    step.belief && pairs("believed", step.belief),
    h("p", { class: "muted" }, `Answerability ${share(step.answerability)}, retrieval value ${share(step.retrieval_value)}${shown}.`),
    h("p", { class: "muted" }, `Legal: ${step.legal.join(", ") || "unknown"}.`),
  );
}

function pairs(what: string, values: Record<string, number>): HTMLElement {
  const names = Object.keys(values);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "pairs" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, what), names.map((name) => h("th", { scope: "col" }, line(name, 40))))),
      h("tbody", {}, h("tr", {}, h("td", {}), names.map((name) => h("td", {}, share(values[name]))))),
    ),
  );
}

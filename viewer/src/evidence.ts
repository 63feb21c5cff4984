// Which passages entered the evidence, stayed and left, step by step, and why: of one episode, or of two in one table.

import { h, replace, type Child } from "./dom.ts";
import { count, share } from "./format.ts";
import type { Episode, Passage, Step } from "./schema.ts";
import { KINDS, spansOf, type Kind } from "./spans.ts";
import { anchor } from "./steps.ts";
import { line, plain, words } from "./text.ts";

export type State = "entered" | "stays" | "again" | "dropped" | "refused" | "absent";
export interface Track {
  readonly id: string;
  readonly states: readonly State[];
  /** What happened to it, in words. */
  readonly history: readonly string[];
}

/** The anchor of a step of one of the episodes. */
export type StepPlace = (side: number, step: number) => string;

const SIGNS: Record<State, [string, string]> = {
  entered: ["+", "entered"],
  stays: ["\u25cf", "stays"],
  again: ["\u21bb", "found again"],
  dropped: ["\u00d7", "dropped"],
  refused: ["\u2298", "found, but dropped earlier"],
  absent: ["", "not there"],
};

/** The passages of an episode in the order in which they came; gold ones that never came are last. */
export function passageIds(episodes: readonly Episode[]): string[] {
  const came = episodes.flatMap((episode) => episode.steps.flatMap(touched));
  return [...new Set([...came, ...episodes.flatMap((episode) => episode.gold?.supporting ?? [])])];
}

/** The way of one passage through an episode. */
export function track(episode: Episode, id: string): Track {
  let held = false;
  const states: State[] = [];
  const history: string[] = [];
  for (const step of episode.steps) {
    const [state, told] = moved(step, id, held);
    if (state === "entered") held = true;
    if (state === "dropped") held = false;
    states.push(state);
    if (told) history.push(`Step ${step.number + 1}: ${told}`);
  }
  return { id, states, history };
}

function touched(step: Step): string[] {
  const search = step.search;
  const found = search ? [...search.hits.map(([id]) => id), ...search.added, ...search.known, ...search.refused] : [];
  return [...found, ...(step.dropped ?? [])];
}

function moved(step: Step, id: string, held: boolean): [State, string] {
  const search = step.search;
  const rank = search ? search.hits.findIndex(([hit]) => hit === id) : -1;
  const score = rank >= 0 ? search?.hits[rank]?.[1] : undefined;
  const where = score === undefined ? "" : ` (rank ${rank + 1}, score ${share(score)})`;
  if (search?.added.includes(id)) return ["entered", `entered${where}: ${step.why}`];
  if (search?.refused.includes(id)) return ["refused", `found${where} and refused: it was dropped earlier`];
  if (search?.known.includes(id)) return ["again", `found again${where}`];
  if (step.dropped?.includes(id)) return ["dropped", `dropped: ${step.why}`];
  if (!held && step.evidence.includes(id)) return ["entered", "came back: nothing better was found"];
  return [held ? "stays" : "absent", ""];
}

/** The table of passages by steps; each row opens to the passage's text. Rows that two episodes share are folded. */
export function evidence(episodes: readonly Episode[], place: StepPlace = (_, step) => anchor(step)): HTMLElement {
  const found = passageIds(episodes).map((id) => ({ id, tracks: episodes.map((episode) => track(episode, id)) }));
  if (found.length === 0) return h("p", { class: "muted" }, "No passage was searched for.");
  const alike = found.filter(({ tracks }) => episodes.length > 1 && sameFate(tracks));
  const others = found.filter((each) => !alike.includes(each));
  const body = (some: typeof found, hidden: boolean): HTMLElement => h("tbody", { hidden }, some.map(({ id, tracks }) => rows(episodes, id, tracks)));
  const folded = body(alike, others.length > 0);
  const unfold = h("button", { type: "button", class: "fold", "aria-expanded": "false", click: () => {
    folded.hidden = !folded.hidden;
    unfold.setAttribute("aria-expanded", String(!folded.hidden));
  } }, `${count(alike.length, "passage")} with the same fate in both`);
  return h(
    "div",
    {},
    legend(found.map(({ id }) => id), episodes),
    h("div", { class: "scroll" }, h("table", { class: episodes.length > 1 ? "evidence both" : "evidence" }, head(episodes, place), body(others, false), folded)),
    alike.length > 0 && others.length > 0 && unfold,
  );
}

/** Whether both episodes did the same with a passage, whatever the number of their steps. */
function sameFate([left, right]: readonly Track[]): boolean {
  const course = (one: Track | undefined): string => one?.states.filter((state) => state !== "stays" && state !== "absent").join(" ") ?? "";
  return course(left) === course(right);
}

function head(episodes: readonly Episode[], place: StepPlace): HTMLElement {
  const several = episodes.length > 1;
  const columns = episodes.map((episode, side) => episode.steps.map((step, column) => h(
    "th",
    { scope: "col", class: several && column === 0 ? "narrow first" : "narrow", title: step.action },
    h("a", { href: `#${place(side, step.number)}` }, step.number + 1),
    h("small", {}, step.action.toLowerCase()),
  )));
  return h(
    "thead",
    {},
    several && h("tr", {}, h("td", {}), episodes.map((episode) => episode.steps.length > 0 && h("th", { scope: "colgroup", colspan: episode.steps.length, class: "first" }, line(episode.method_title, 30)))),
    h("tr", {}, h("th", { scope: "col" }, "passage"), columns),
  );
}

/** The row of a passage, and below it one for its text over the whole width, which is filled when it is opened. */
function rows(episodes: readonly Episode[], id: string, tracks: readonly Track[]): HTMLElement[] {
  const several = episodes.length > 1;
  const columns = 1 + episodes.reduce((sum, episode) => sum + episode.steps.length, 0);
  const text = h("td", { colspan: columns });
  const below = h("tr", { class: "opened", hidden: true }, text);
  const toggled = (event: Event): void => {
    below.hidden = !(event.currentTarget as HTMLDetailsElement).open;
    if (!below.hidden && !text.hasChildNodes()) replace(text, content(episodes, id, tracks));
  };
  const cells = tracks.map((one) => one.states.map((state, step) => {
    const [sign, name] = SIGNS[state];
    const told = one.history.find((each) => each.startsWith(`Step ${step + 1}:`)) ?? name;
    return h("td", { class: `state ${state}${several && step === 0 ? " first" : ""}`, title: plain(told) }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "aside" }, name));
  }));
  return [h("tr", {}, h("th", { scope: "row" }, h("details", { "data-key": `passage ${id}`, toggle: toggled }, title(episodes, id, tracks))), cells), below];
}

function title(episodes: readonly Episode[], id: string, tracks: readonly Track[]): HTMLElement {
  const supporting = episodes.some((episode) => episode.gold?.supporting?.includes(id));
  const used = episodes.filter((episode) => episode.sources.includes(id));
  const never = tracks.every(({ states }) => states.every((state) => state === "absent"));
  return h(
    "summary",
    {},
    line(passageOf(episodes, id)?.title || id, 90),
    supporting && h("span", { class: "tag gold", title: "The gold answer rests on this passage" }, "gold"),
    used.length > 0 && h("span", { class: "tag", title: "The ending rests on this passage" }, used.length < episodes.length ? `used by ${used[0]?.method_title ?? ""}` : "used"),
    episodes.some((episode) => episode.citations.some(({ passage_id }) => passage_id === id)) && h("span", { class: "tag cited", title: "The answer rests on sentences of this passage" }, "cited"),
    never && h("span", { class: "tag warn" }, "never found"),
  );
}

function content(episodes: readonly Episode[], id: string, tracks: readonly Track[]): Child {
  const passage = passageOf(episodes, id);
  const spans = episodes.flatMap((episode) => spansOf(episode, id));
  const where = [id, passage?.source && `from ${passage.source}`, passage?.place].filter(Boolean).join(", ");
  return [
    h("div", { class: "passage" }, passage && passage.text !== null ? words(passage.text, undefined, spans) : h("p", { class: "muted" }, "The text of this passage is not available.")),
    tracks.map(({ history }, side) => h("ul", { class: "history" }, history.map((told) => h("li", {}, episodes.length > 1 && h("b", {}, `${episodes[side]?.method_title ?? ""} `), line(told, 300))))),
    h("p", { class: "muted small" }, line(where, 200)),
  ];
}

function passageOf(episodes: readonly Episode[], id: string): Passage | null | undefined {
  return (episodes.find((episode) => episode.passages[id]?.text) ?? episodes[0])?.passages[id];
}

function legend(ids: readonly string[], episodes: readonly Episode[]): HTMLElement {
  const states = (["entered", "stays", "again", "dropped", "refused"] as const).map((state): Child => {
    const [sign, name] = SIGNS[state];
    return h("li", {}, h("span", { class: `state ${state}`, "aria-hidden": "true" }, sign), ` ${name}`);
  });
  const marked = new Set(ids.flatMap((id) => episodes.flatMap((episode) => spansOf(episode, id))).map(({ kind }) => kind));
  const marks = (Object.keys(KINDS) as Kind[]).filter((kind) => marked.has(kind)).map((kind) => h("li", {}, h("mark", { class: kind }, KINDS[kind])));
  return h("ul", { class: "legend" }, states, marks);
}

// Which passages entered the evidence, stayed and left, step by step, and why.

import { h } from "./dom.ts";
import { share } from "./format.ts";
import type { Episode, Step } from "./schema.ts";
import { line, plain, words } from "./text.ts";

export type State = "entered" | "stays" | "again" | "dropped" | "refused" | "absent";
export interface Track {
  readonly id: string;
  readonly states: readonly State[];
  /** What happened to it, in words. */
  readonly history: readonly string[];
  readonly supporting: boolean;
}

const SIGNS: Record<State, [string, string]> = {
  entered: ["+", "entered"],
  stays: ["\u25cf", "stays"],
  again: ["\u21bb", "found again"],
  dropped: ["\u00d7", "dropped"],
  refused: ["\u2298", "found, but dropped earlier"],
  absent: ["", "not there"],
};

/** The way of every passage through an episode, in the order in which they came; gold ones that never came are last. */
export function tracks(episode: Episode): Track[] {
  const supporting = new Set(episode.gold?.supporting ?? []);
  const ids = new Set<string>();
  for (const step of episode.steps) for (const id of touched(step)) ids.add(id);
  for (const id of supporting) ids.add(id);
  return [...ids].map((id) => {
    let held = false;
    const states: State[] = [];
    const history: string[] = [];
    for (const step of episode.steps) {
      const [state, told] = moved(step, id, held);
      if (state === "entered") held = true;
      if (state === "dropped") held = false;
      states.push(state);
      if (told) history.push(`Step ${step.step + 1}: ${told}`);
    }
    return { id, states, history, supporting: supporting.has(id) };
  });
}

function touched(step: Step): string[] {
  const search = step.search;
  const found = search ? [...search.hits.map(([id]) => id), ...search.added, ...search.known, ...search.refused] : [];
  return [...found, ...step.dropped.map(({ id }) => id)];
}

function moved(step: Step, id: string, held: boolean): [State, string] {
  const search = step.search;
  const rank = search ? search.hits.findIndex(([hit]) => hit === id) : -1;
  const score = rank >= 0 ? search?.hits[rank]?.[1] : undefined;
  const where = score === undefined ? "" : ` (rank ${rank + 1}, score ${share(score)})`;
  if (search?.added.includes(id)) return ["entered", `entered${where}: ${step.reason}`];
  if (search?.refused.includes(id)) return ["refused", `found${where} and refused: it was dropped earlier`];
  if (search?.known.includes(id)) return ["again", `found again${where}`];
  const dropped = step.dropped.find((each) => each.id === id);
  if (dropped) return ["dropped", `dropped: ${dropped.why}`];
  return [held ? "stays" : "absent", ""];
}

/** The table of passages by steps; each row opens to the passage's text. */
export function evidence(episode: Episode): HTMLElement {
  const found = tracks(episode);
  if (found.length === 0) return h("p", { class: "muted" }, "No passage was searched for.");
  return h(
    "div",
    {},
    legend(),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "evidence" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "passage"),
            episode.steps.map((step) => h("th", { scope: "col", class: "narrow", title: step.action }, step.step + 1, h("small", {}, step.action.toLowerCase()))),
          ),
        ),
        h("tbody", {}, found.map((track) => row(episode, track))),
      ),
    ),
  );
}

function row(episode: Episode, track: Track): HTMLElement {
  const passage = episode.passages[track.id];
  const used = episode.sources.includes(track.id);
  const never = track.states.every((state) => state === "absent");
  const text = passage?.text ?? null;
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h(
        "details",
        { "data-key": `passage ${track.id}` },
        h(
          "summary",
          {},
          line(passage?.title || track.id, 90),
          track.supporting && h("span", { class: "tag gold", title: "The gold answer rests on this passage" }, "gold"),
          used && h("span", { class: "tag", title: "The ending rests on this passage" }, "used"),
          never && h("span", { class: "tag warn" }, "never found"),
        ),
        h("div", { class: "passage" }, text === null ? h("p", { class: "muted" }, "The text of this passage is not here.") : words(text)),
        h("ul", { class: "history" }, track.history.map((told) => h("li", {}, line(told, 300)))),
        h("p", { class: "muted small" }, line(`${track.id}${passage?.source ? `, from ${passage.source}` : ""}`, 200)),
      ),
    ),
    track.states.map((state, step) => {
      const [sign, name] = SIGNS[state];
      const told = track.history.find((each) => each.startsWith(`Step ${step + 1}:`)) ?? name;
      return h("td", { class: `state ${state}`, title: plain(told) }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "aside" }, name));
    }),
  );
}

function legend(): HTMLElement {
  const shown = (["entered", "stays", "again", "dropped", "refused"] as const).map((state) => {
    const [sign, name] = SIGNS[state];
    return h("li", {}, h("span", { class: `state ${state}`, "aria-hidden": "true" }, sign), ` ${name}`);
  });
  return h("ul", { class: "legend" }, shown);
}

// The model calls of an episode as a waterfall: each opens to its prompt and its reply.

import { h, replace, type Child } from "./dom.ts";
import { count, seconds } from "./format.ts";
import type { Call, Episode, Message } from "./schema.ts";
import { line, words } from "./text.ts";
import { numberedPassages } from "./verdicts.ts";
import { describe, drawBar, waterfall, type Waterfall } from "./waterfall.ts";

/** The calls by steps. The first `skip` of them are left out; `total` is the length of the axis of time. */
export function calls(episode: Episode, skip = 0, total = 0): HTMLElement {
  if (episode.calls.length === 0) return h("p", { class: "muted" }, "No model was asked.");
  const time = waterfall(episode.calls);
  const bySteps = new Map<number, [Call, number][]>();
  episode.calls.forEach((call, place) => {
    if (place >= skip) bySteps.set(call.step, [...(bySteps.get(call.step) ?? []), [call, place]]);
  });
  return h(
    "div",
    {},
    h("p", { class: "muted small" }, describe(time, episode.calls)),
    [...bySteps].map(([step, made]) =>
      h(
        "section",
        { class: "calls" },
        h("h3", {}, `Step ${step + 1}`, h("span", { class: "muted" }, ` ${count(made.length, "call")}`)),
        made.map(([call, place]) => entry(call, place, { ...time, total: Math.max(total, time.total) })),
      ),
    ),
  );
}

function entry(call: Call, place: number, time: Waterfall): HTMLElement {
  const prompt = h("div", {});
  // A prompt is long: it is drawn when it is wanted.
  const opened = (event: Event): void => {
    if ((event.currentTarget as HTMLDetailsElement).open && !prompt.hasChildNodes()) replace(prompt, messages(call));
  };
  return h(
    "details",
    { class: "call", "data-key": `call ${place}`, toggle: opened },
    h(
      "summary",
      {},
      h("span", { class: "purpose" }, line(call.purpose.replaceAll("_", " "), 40)),
      h("span", { class: "muted cost" }, `${call.tokens_in.toLocaleString("en")} in, ${call.tokens_out.toLocaleString("en")} out`),
      h("span", { class: "when" }, drawBar(time.bars[place] ?? null, time.total, call.cached)),
      h("span", { class: "muted took" }, seconds(call.seconds), call.cached && h("span", { class: "tag" }, "cached")),
      h("span", { class: "reply" }, line(call.reply, 120), repairsOf(call).length > 0 && h("span", { class: "tag warn" }, "repaired")),
    ),
    h("h4", {}, "Prompt"),
    prompt,
    h("h4", {}, "Reply"),
    h("div", { class: "message" }, words(call.reply)),
    h("p", { class: "muted" }, facts(call).join("; "), "."),
  );
}

function messages({ messages: prompt, reply }: Call): Child {
  if (prompt.length === 0) return h("p", { class: "note" }, "It was not recorded: a run keeps replies and no prompts; 'beliefrag ask --trace' keeps them.");
  return [
    prompt.map(({ role, content }) => h("div", { class: "message" }, h("span", { class: "role" }, line(role, 30)), words(content))),
    verdicts(prompt, reply),
  ];
}

function verdicts(prompt: readonly Message[], reply: string): Child {
  const shown = numberedPassages(prompt, reply);
  if (shown.length === 0) return null;
  return [
    h("h4", {}, "Its passages by number"),
    h("ol", { class: "numbered" }, shown.map(({ number, title, verdict }) =>
      h("li", {}, h("span", { class: "score" }, number), line(title, 90), verdict !== "" && h("span", { class: verdict === "unhelpful" ? "tag warn" : "tag" }, verdict)))),
  ];
}

function facts(call: Call): string[] {
  const told = [`tokens counted by ${call.counted_by}`];
  told.push(`took ${seconds(call.seconds)}`);
  if (call.cached) told.push("recorded earlier");
  if (call.retries) told.push(count(call.retries, "retry", "retries"));
  const repairs = repairsOf(call);
  return [...told, repairs.length ? `repaired: ${repairs.join(", ")}` : "read as it was"];
}

const REPAIRS: Record<string, string> = {
  repaired: "replies repaired",
  asked_again: "replies asked for a second time",
  unusable: "replies that could not be used, replaced by a cautious reading",
  clamped: "scores moved into [0, 1]",
  unknown_ids: "passage ids ignored because no such passage was shown",
  repeated_queries: "queries that were searched for already, replaced by others",
};

function repairsOf(call: Call): string[] {
  return Object.entries(call.repairs).map(([kind, times]) => `${times} ${REPAIRS[kind] ?? kind}`);
}

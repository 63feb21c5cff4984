// The model calls of an episode: each opens to its prompt, loaded when it is wanted, and its reply.

import { h, replace, type Child } from "./dom.ts";
import { count, seconds } from "./format.ts";
import type { Call, Episode, Prompts } from "./schema.ts";
import { line, words } from "./text.ts";

export type LoadPrompts = () => Promise<Prompts>;

export function calls(episode: Episode, load: LoadPrompts): HTMLElement {
  if (episode.calls.length === 0) return h("p", { class: "muted" }, "No model was asked.");
  const bySteps = new Map<number, [Call, number][]>();
  episode.calls.forEach((call, place) => {
    bySteps.set(call.step, [...(bySteps.get(call.step) ?? []), [call, place]]);
  });
  return h(
    "div",
    {},
    [...bySteps].map(([step, made]) =>
      h("section", { class: "calls" }, h("h3", {}, `Step ${step + 1}`, h("span", { class: "muted" }, ` ${count(made.length, "call")}`)), made.map(([call, place]) => entry(call, place, load))),
    ),
  );
}

function entry(call: Call, place: number, load: LoadPrompts): HTMLElement {
  const prompt = h("div", {}, h("p", { class: "muted" }, "The prompt is being looked up."));
  let asked = false;
  const opened = (event: Event): void => {
    if (asked || !(event.currentTarget as HTMLDetailsElement).open) return;
    asked = true;
    load().then(
      (prompts) => replace(prompt, messages(prompts, place)),
      (error: unknown) => replace(prompt, h("p", { class: "warn" }, error instanceof Error ? error.message : String(error))),
    );
  };
  return h(
    "details",
    { class: "call", "data-key": `call ${place}`, toggle: opened },
    h(
      "summary",
      {},
      h("span", { class: "purpose" }, line(call.purpose.replaceAll("_", " "), 40)),
      h("span", { class: "muted cost" }, `${call.tokens_in.toLocaleString("en")} in, ${call.tokens_out.toLocaleString("en")} out`),
      h("span", { class: "reply" }, line(call.reply, 120)),
      call.repairs.length > 0 && h("span", { class: "tag warn" }, "mended"),
    ),
    h("h4", {}, "Prompt"),
    prompt,
    h("h4", {}, "Reply"),
    h("div", { class: "message" }, words(call.reply)),
    h("p", { class: "muted" }, facts(call).join("; "), "."),
  );
}

function messages(prompts: Prompts, place: number): Child {
  const prompt = prompts.calls[place];
  if (!prompt) return h("p", { class: "note" }, line(prompts.absent || "The prompt of this call was not recorded.", 1000));
  return [
    prompt.map(({ role, content }) => h("div", { class: "message" }, h("span", { class: "role" }, line(role, 30)), words(content))),
    prompts.source && h("p", { class: "muted small" }, line(prompts.source, 300)),
  ];
}

function facts(call: Call): string[] {
  const told = [`tokens counted by ${call.counted_by}`];
  if (call.seconds !== null) told.push(`took ${seconds(call.seconds)}`);
  if (call.cached) told.push("recorded earlier");
  if (call.retries) told.push(count(call.retries, "retry", "retries"));
  return [...told, call.repairs.length ? `mended: ${call.repairs.join(", ")}` : "read as it was"];
}

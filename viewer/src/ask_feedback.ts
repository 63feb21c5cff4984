// Whether an answer was right: thumbs up, thumbs down, and what the right answer is.

import { sendJson } from "./ask_api.ts";
import type { Answer, Kept } from "./ask_schema.ts";
import { h, replace, s } from "./dom.ts";
import { line } from "./text.ts";

const THUMB = "M2 9h3v8H2zM7 17V9l4-7 1.2.6c.6.3.8 1 .6 1.6L11.8 8H16c1.2 0 2 1 1.7 2.1l-1.5 5.4c-.2.9-1 1.5-2 1.5z";
const LONGEST = 1000;

const KEPT: Record<string, string> = {
  right: "Kept: the answer is right.",
  "rightly declined": "Kept: it was right to decline.",
  corrected: "Kept, with the right answer.",
  wrong: "Kept: the answer is wrong. Add the right answer to improve the calibration.",
  "wrongly declined": "Kept: it should have answered. Add the right answer to improve the calibration.",
};

/** The row below an answer. */
export function feedbackRow(answer: Answer, say: (told: string) => void): HTMLElement {
  const declined = answer.outcome === "abstained";
  const status = h("p", { class: "kept", role: "status" });
  const right = thumb("up", declined ? "Right to decline" : "Right");
  const wrong = thumb("down", declined ? "It should have answered" : "Wrong");
  const field = h("input", { type: "text", maxlength: LONGEST, autocomplete: "off", "aria-label": "The right answer is" });
  const form = h("form", { class: "correction", hidden: true, submit: (event) => { event.preventDefault(); void send("wrong"); } },
    h("label", {}, h("span", {}, "The right answer is"), field), h("button", { type: "submit" }, "Keep"));

  async function send(verdict: "right" | "wrong"): Promise<void> {
    press(verdict);
    try {
      const { kept_as: kept } = await sendJson<Kept>("/page/feedback", { id: answer.id, verdict, right_answer: verdict === "wrong" ? field.value : "" });
      replace(status, KEPT[kept] ?? "Kept.");
      say(status.textContent ?? "");
    } catch (error) {
      press(null);
      replace(status, h("span", { class: "bad" }, line(error instanceof Error ? error.message : String(error), 300)));
    }
  }

  function press(verdict: "right" | "wrong" | null): void {
    right.setAttribute("aria-pressed", String(verdict === "right"));
    wrong.setAttribute("aria-pressed", String(verdict === "wrong"));
  }

  right.addEventListener("click", () => { form.hidden = true; void send("right"); });
  wrong.addEventListener("click", () => { form.hidden = false; field.focus(); void send("wrong"); });
  press(null);
  return h("div", { class: "feedback", role: "group", "aria-label": "Was this right?" },
    h("span", { class: "muted" }, "Was this right?"), right, wrong, form, status);
}

function thumb(way: "up" | "down", label: string): HTMLButtonElement {
  const sign = s("svg", { viewBox: "0 0 20 20", class: `thumb ${way}`, "aria-hidden": "true" }, s("path", { d: THUMB }));
  return h("button", { type: "button", class: "verdict" }, sign, label);
}

// What somebody notes about an episode: kept by the server in a file beside the run.

import { put } from "./api.ts";
import { h, replace } from "./dom.ts";
import type { Episode } from "./schema.ts";
import { words } from "./text.ts";

const LONGEST = 4000;

/** The note with its field, or the note alone where nothing can be written. */
export function noteSection(episode: Episode, key: string): HTMLElement | null {
  if (!key || episode.origin !== "run") return episode.note ? panel(h("p", {}, words(episode.note))) : null;
  const status = h("span", { class: "muted", role: "status" });
  const field = h("textarea", { rows: 2, maxlength: LONGEST, "aria-label": "Note on this episode", placeholder: "What is there to say about this episode?" });
  field.value = episode.note;
  let before = episode.note;
  const save = h("button", { type: "submit", disabled: true }, "keep");
  const changed = (): void => {
    save.disabled = field.value.trim() === before;
    replace(status, save.disabled ? "" : "not kept yet");
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    save.disabled = true;
    try {
      ({ note: before } = await put<{ note: string }>(`/api/episode/${episode.id}/note`, key, { text: field.value, before }));
      changed();
      if (save.disabled) replace(status, before ? "kept in notes.json beside the run" : "removed");
    } catch (error) {
      changed();
      replace(status, h("span", { class: "warn", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  };
  // Leaving would lose what is not kept: the browser asks.
  window.addEventListener("beforeunload", (event) => { if (field.value.trim() !== before) event.preventDefault(); });
  return panel(h("form", { class: "note-form", input: changed, submit: (event) => { void submit(event); } }, field, h("div", { class: "tools" }, save, status)));
}

function panel(content: HTMLElement): HTMLElement {
  return h("section", { class: "panel", "aria-labelledby": "note" }, h("h2", { id: "note" }, "Note"), content);
}

// Looks whether a run or a trace has grown, and draws the page again if so.

import { get } from "./api.ts";

/** Milliseconds between two looks. */
const PAUSE = 2000;

/** What changes when a run or a trace has grown. */
export async function currentState(): Promise<string> {
  return (await get<{ state: string }>("/api/state")).state;
}

/** Calls `draw` when there is more to show than at `drawn`, until the server has ended. Slow drawings are made less often. */
export function refresh(draw: () => Promise<void>, drawn: string): void {
  let known = drawn;
  let wait = PAUSE;
  const look = async (): Promise<void> => {
    try {
      const state = await currentState();
      if (state !== known && !document.hidden) {
        const began = performance.now();
        await draw();
        wait = Math.max(PAUSE, 10 * (performance.now() - began));
        known = state;
      }
    } catch {
      return;
    }
    setTimeout(() => { void look(); }, wait);
  };
  void look();
}

/** What stays as it is when everything is drawn again: what was opened, and what had the focus. */
export function keeping(main: HTMLElement): () => void {
  const open = new Set([...main.querySelectorAll<HTMLElement>("details[open][data-key]")].map((each) => each.dataset["key"] ?? ""));
  const focused = document.activeElement?.closest<HTMLElement>("details[data-key]")?.dataset["key"];
  return () => {
    for (const details of main.querySelectorAll<HTMLDetailsElement>("details[data-key]")) {
      const key = details.dataset["key"] ?? "";
      if (open.has(key)) details.open = true;
      if (key === focused) details.querySelector("summary")?.focus();
    }
  };
}

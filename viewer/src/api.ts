// Asks the server that this page came from, and nobody else.

/** What went wrong, in the server's words. */
export class Refused extends Error {}

export async function get<T>(path: string): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin" });
  } catch {
    throw new Refused("The viewer has ended: start 'beliefrag view' again.");
  }
  const type = answer.headers.get("content-type") ?? "";
  const content: unknown = type.startsWith("application/json") ? await answer.json() : await answer.text();
  if (answer.ok) return content as T;
  const told = typeof content === "object" && content !== null && "error" in content ? String(content.error) : String(content);
  throw new Refused(told || `The server answered ${answer.status}.`);
}

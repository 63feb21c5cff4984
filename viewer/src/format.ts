// Numbers as the terminal and the report show them.

import type { Estimate } from "./schema.ts";

/** A number between 0 and 1, or a dash where there is none. */
export function share(value: number | null | undefined, digits = 2): string {
  return value === null || value === undefined ? "\u2013" : value.toFixed(digits);
}

export function percent(value: number | null | undefined): string {
  return value === null || value === undefined ? "unknown" : `${Math.round(value * 100)}%`;
}

export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? "\u2013" : Math.round(value).toLocaleString("en");
}

export function seconds(value: number | null | undefined): string {
  return value === null || value === undefined ? "\u2013" : `${value.toFixed(1)} s`;
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

const WHOLE = new Set(["tokens", "tokens_in", "tokens_out"]);
const FEW_DIGITS = new Set(["rounds", "actions", "calls", "seconds"]);

/** A mean with as many digits as its measure deserves. */
export function mean(measure: string, estimate: Estimate | null | undefined): string {
  return estimate ? digits(measure, estimate.value) : "\u2013";
}

/** The interval, marked with ? where there are too few questions to trust it. */
export function interval(measure: string, estimate: Estimate | null | undefined): string {
  if (!estimate || estimate.low === null || estimate.high === null) return "\u2013";
  return `${digits(measure, estimate.low)} to ${digits(measure, estimate.high)}${estimate.has_few_questions ? " ?" : ""}`;
}

function digits(measure: string, value: number): string {
  if (WHOLE.has(measure)) return whole(value);
  return value.toFixed(FEW_DIGITS.has(measure) ? 2 : 3);
}

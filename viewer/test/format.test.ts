import assert from "node:assert/strict";
import { test } from "node:test";
import { count, interval, mean, percent, seconds, share, whole } from "../src/format.ts";

const estimate = { value: 0.12345, low: 0.1, high: 0.2, questions: 19, has_few_questions: true };

test("numbers have the digits of the terminal and of the report", () => {
  assert.equal(share(0.385), "0.39");
  assert.equal(percent(0.385), "39%");
  assert.equal(whole(13046), "13,046");
  assert.equal(seconds(44.51), "44.5 s");
  assert.equal(mean("f1", estimate), "0.123");
  assert.equal(mean("rounds", estimate), "0.12");
  assert.equal(mean("tokens", { ...estimate, value: 8468.4 }), "8,468");
});

test("what is not there is a dash, never a zero", () => {
  assert.deepEqual([share(null), whole(undefined), seconds(null), mean("f1", null), interval("f1", null)], Array(5).fill("\u2013"));
  assert.equal(percent(null), "unknown");
  assert.equal(interval("f1", { ...estimate, low: null }), "\u2013");
});

test("an interval on few questions is marked", () => {
  assert.equal(interval("f1", estimate), "0.100 to 0.200 ?");
  assert.equal(interval("f1", { ...estimate, has_few_questions: false }), "0.100 to 0.200");
});

test("counts speak of one or many", () => {
  assert.deepEqual([count(1, "call"), count(2, "call"), count(2, "search", "searches")], ["1 call", "2 calls", "2 searches"]);
});

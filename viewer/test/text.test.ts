import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, pieces, plain } from "../src/text.ts";

test("characters that turn the reading direction are named in their place", () => {
  assert.deepEqual(pieces("safe\u202eexe.txt"), [
    { text: "safe", mark: false },
    { text: "U+202E", mark: true },
    { text: "exe.txt", mark: false },
  ]);
});

test("characters that cannot be seen are named, among them tags beyond the first plane", () => {
  assert.deepEqual(pieces("\u200b\u{e0041}").map(({ text }) => text), ["U+200B", "U+E0041"]);
  assert.deepEqual(pieces("\u0000\u001b").map(({ text }) => text), ["U+0000", "U+001B"]);
});

test("joiners, line breaks and ordinary letters of any script stay as they are", () => {
  for (const text of ["\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "a\n\tb", "\u05e9\u05dc\u05d5\u05dd", "\ud83d\udc69\u200d\ud83d\ude80"]) {
    assert.deepEqual(pieces(text), [{ text, mark: false }]);
  }
});

test("a cut leaves no half of a pair behind", () => {
  assert.equal(cut("ab\ud83d\ude80cd", 3), "ab");
  assert.equal(cut("ab\ud83d\ude80cd", 4), "ab\ud83d\ude80");
});

test("a title is one line with nothing hidden in it", () => {
  assert.equal(plain("a\n b\u202ec"), "a b\ufffdc");
});

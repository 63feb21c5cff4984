// Bundles the pages into the package's assets, or with --tests the tests into .built/ for node.
import { build } from "esbuild";
import { copyFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const assets = flag > 0 ? process.argv[flag + 1] : join(here, "../src/beliefrag/web/view/assets");

if (process.argv.includes("--tests")) {
  const tests = (await readdir(join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: tests.map((name) => join(here, "test", name)),
    outdir: join(here, ".built"),
    bundle: true,
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
  });
} else {
  await build({
    entryPoints: ["app.ts", "app.css", "ask.ts", "ask.css"].map((name) => join(here, "src", name)),
    outdir: assets,
    bundle: true,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    minifyWhitespace: true,
    minifySyntax: true,
  });
  for (const name of ["index.html", "ask.html", "icon.svg"]) await copyFile(join(here, "src", name), join(assets, name));
}

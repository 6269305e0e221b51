/** Bundles the extension into `dist/`, or with `--tests` each test file into `build/tests/`. */

import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

const COMMON = { bundle: true, platform: "node", target: "node20", logLevel: "warning" };

async function bundleExtension() {
  copyFileSync("../../LICENSE", "LICENSE");
  await build({
    ...COMMON,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    format: "cjs",
    external: ["vscode"],
    minify: true,
    legalComments: "none",
  });
}

async function bundleTests() {
  rmSync("build/tests", { recursive: true, force: true });
  const names = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({
    ...COMMON,
    entryPoints: names.map((name) => `test/${name}`),
    outdir: "build/tests",
    outExtension: { ".js": ".mjs" },
    format: "esm",
    sourcemap: "inline",
  });
}

await (process.argv.includes("--tests") ? bundleTests() : bundleExtension());

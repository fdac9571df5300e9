// Bundles src/ into a script and a style for each kind of page, which crates/show embeds in it, with
// the hashes that the page's content security policy admits them by.

import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

await build({
  entryPoints: { report: "src/main.ts", explain: "src/explain.ts", trace: "src/trace.ts", live: "src/live.ts" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "inline",
  charset: "utf8",
  logLevel: "warning",
});

await mkdir("dist", { recursive: true });
const files = ["report", "explain", "trace", "live"].flatMap((page) => [[`${page}.js`, "</script"], [`${page}.css`, "</style"]]);
for (const [name, closing] of files) {
  const text = await readFile(`dist/${name}`, "utf8");
  if (text.toLowerCase().includes(closing) || text.includes("<!--")) {
    throw new Error(`dist/${name} contains ${closing} or <!--, so it cannot stand in a page`);
  }
  const hash = createHash("sha256").update(text).digest("base64");
  await writeFile(`dist/${name}.sha256`, `${hash}\n`);
}

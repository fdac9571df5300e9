// Bundles src/ into dist/report.js and dist/report.css, which crates/show embeds in every report,
// with the hashes that the report's content security policy admits them by.

import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

await build({
  entryPoints: { report: "src/main.ts" },
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
for (const [name, closing] of [["report.js", "</script"], ["report.css", "</style"]]) {
  const text = await readFile(`dist/${name}`, "utf8");
  if (text.toLowerCase().includes(closing) || text.includes("<!--")) {
    throw new Error(`dist/${name} contains ${closing} or <!--, so it can not stand in a page`);
  }
  const hash = createHash("sha256").update(text).digest("base64");
  await writeFile(`dist/${name}.sha256`, `${hash}\n`);
}

// The licences of what others wrote and weigh's binary holds: the crates that are linked into it,
// the C libraries that are, and what its report embeds.
//
// Reads `cargo metadata`, the crates' own licence files and dashboard/node_modules; writes one text,
// always the same for the same Cargo.lock, to standard output. Refuses a crate that says neither
// the name of its licence nor its text.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

const top = join(import.meta.dirname ?? dirname(new URL(import.meta.url).pathname), "..");
const run = (program, ...args) =>
  execFileSync(program, args, { cwd: top, encoding: "utf8", maxBuffer: 1 << 28 });

// What a crate brings along for other languages' sources lies deeper than its own licence.
const DEEPER = {
  "libbpf-sys": {
    "libbpf (BSD-2-Clause, of LGPL-2.1 OR BSD-2-Clause)": ["libbpf/LICENSE.BSD-2-Clause"],
    "libelf of elfutils (LGPL-3.0-or-later, of GPL-2.0-or-later OR LGPL-3.0-or-later)": [
      "elfutils/COPYING-LGPLV3",
      "elfutils/COPYING",
    ],
    "zlib (Zlib)": ["zlib/LICENSE"],
  },
};
const IS_LICENCE = /^(licen[cs]e|copying|copyright|notice|unlicense)/i;

const platform = /^host: (.*)$/m.exec(run("rustc", "-vV"))[1];
const metadata = JSON.parse(
  run("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", platform),
);
const packages = new Map(metadata.packages.map((found) => [found.id, found]));
const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));

// Users of each text, by the text.
const texts = new Map();
const nameless = [];
const held = (what, text) => {
  const key = text.replace(/\r\n/g, "\n").trim();
  texts.set(key, [...(texts.get(key) ?? []), what]);
};

// What runs at build time only (macros, build scripts) is no part of the binary.
const linked = new Set();
const visit = (id) => {
  const found = packages.get(id);
  if (linked.has(id) || found.targets.some((target) => target.kind.includes("proc-macro"))) return;
  linked.add(id);
  for (const dependency of nodes.get(id).deps) {
    if (dependency.dep_kinds.some((kind) => kind.kind === null)) visit(dependency.pkg);
  }
};
visit(metadata.packages.find((found) => found.name === "weigh" && found.source === null).id);

for (const id of linked) {
  const found = packages.get(id);
  if (found.source === null) continue;
  const folder = dirname(found.manifest_path);
  const what = `${found.name} ${found.version} (${found.license ?? "see the text"})`;
  const files = readdirSync(folder).filter(
    (name) => IS_LICENCE.test(name) && statSync(join(folder, name)).isFile(),
  );
  if (files.length === 0 && !found.license) throw new Error(`${what} says no licence`);
  if (files.length === 0) nameless.push(`${what}, by ${found.authors.join(", ") || "its authors"}`);
  for (const name of files) held(what, readFileSync(join(folder, name), "utf8"));
  for (const [part, paths] of Object.entries(DEEPER[found.name] ?? {})) {
    for (const path of paths) held(part, readFileSync(join(folder, path), "utf8"));
  }
}
// What the page is bundled of: all that is locked and not for development alone.
const locked = JSON.parse(readFileSync(join(top, "dashboard/package-lock.json"), "utf8"));
for (const [path, found] of Object.entries(locked.packages)) {
  if (!path.startsWith("node_modules/") || found.dev) continue;
  const what = `${path.slice("node_modules/".length)} ${found.version}, in the report (${found.license})`;
  held(what, readFileSync(join(top, "dashboard", path, "LICENSE"), "utf8"));
}

const rule = "=".repeat(80);
const out = [
  "What others wrote and weigh's binary holds, and under which licences.",
  "",
  "Besides what follows: Rust's standard library, by the Rust Project Developers, MIT OR Apache-2.0.",
];
if (nameless.length > 0) out.push("", "Without a text in their sources:", ...nameless.sort());
const entries = [...texts].map(([text, users]) => [[...new Set(users)].sort(), text]);
const order = ([users, text]) => `${users.join()}\n${text}`;
entries.sort((a, b) => (order(a) < order(b) ? -1 : 1));
for (const [users, text] of entries) out.push("", rule, ...users, rule, "", text);
process.stdout.write(`${out.join("\n")}\n`);

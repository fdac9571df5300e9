// The dashboards for Grafana are held to Grafana's own types: each as a literal, so that a field with another name, or a value that is
// not known, is an error. A dashboard that was made wrong on purpose has to be refused.
//
// usage: node test/grafana.mjs
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const FOLDER = new URL("../../packaging/grafana/", import.meta.url);
const SCRATCH = new URL("../dist/grafana/", import.meta.url);
const TIMESERIES = "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
const ELASTICSEARCH = "@grafana/schema/dist/esm/raw/composable/elasticsearch/dataquery/x/ElasticsearchDataQuery_types.gen";

// The schema leaves queries and options of panels open; here they are those of the one kind of panel that there is.
const TYPES = `import type { Dashboard, DataQuery, FieldConfig, FieldConfigSource, GraphFieldConfig, Panel, RowPanel } from "@grafana/schema";
import type { Options } from ${JSON.stringify(TIMESERIES)};
import type { ElasticsearchDataQuery } from ${JSON.stringify(ELASTICSEARCH)};

interface PrometheusQuery extends DataQuery { expr: string; legendFormat: string }
interface PanelConfig extends Omit<FieldConfigSource, "defaults"> {
  defaults: Omit<FieldConfig, "custom"> & { custom: GraphFieldConfig };
}
interface TypedPanel<Q> extends Omit<Panel, "targets" | "options" | "fieldConfig"> {
  type: "timeseries"; targets: Q[]; options: Options; fieldConfig: PanelConfig;
}
interface TypedRow<Q> extends Omit<RowPanel, "panels"> { panels: TypedPanel<Q>[] }
interface TypedDashboard<Q> extends Omit<Dashboard, "panels"> { panels: (TypedPanel<Q> | TypedRow<Q>)[] }
/** JSON has texts where the schema has enumerations. */
type Plain<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
type Query = { prometheus: PrometheusQuery; elasticsearch: ElasticsearchDataQuery };
`;

/** What the compiler says of a dashboard; nothing where it has nothing against it. */
function complaints(name, text) {
  const kind = name.includes("elasticsearch") ? "elasticsearch" : "prometheus";
  writeFileSync(new URL(`${name}.ts`, SCRATCH), `${TYPES}export const dashboard: Plain<TypedDashboard<Query["${kind}"]>> = ${text};\n`);
  writeFileSync(new URL("tsconfig.json", SCRATCH), JSON.stringify({
    extends: "../../tsconfig.json",
    // Types of the packages themselves are theirs.
    compilerOptions: { skipLibCheck: true, noUnusedLocals: false, lib: ["es2023", "dom"] },
    include: undefined, files: [`${name}.ts`],
  }));
  try {
    execFileSync("npx", ["--no-install", "tsc", "--noEmit", "-p", "tsconfig.json"], { cwd: SCRATCH, encoding: "utf8" });
    return "";
  } catch (error) {
    return `${error.stdout}${error.stderr}` || String(error);
  }
}

mkdirSync(SCRATCH, { recursive: true });
const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));
if (files.length !== 2) throw new Error(`two dashboards are expected: ${files}`);
// Each with something that Grafana does not know.
const WRONG = [['"mode": "multi"', '"mode": "many"'], ['"fillOpacity"', '"fillOpaqueness"'], ['"refId"', '"ref"'], ['"schemaVersion"', '"schemaversion"']];
for (const file of files) {
  const text = readFileSync(new URL(file, FOLDER), "utf8");
  const name = file.replace(/\.json$/, "");
  const said = complaints(name, text);
  if (said) throw new Error(`${file} is no dashboard by @grafana/schema:\n${said}`);
  for (const [right, wrong] of file.includes("prometheus") ? WRONG : WRONG.slice(0, 1)) {
    if (!text.includes(right)) throw new Error(`${file} has no ${right}`);
    if (!complaints(`${name}-wrong`, text.replace(right, wrong))) throw new Error(`${file} with ${wrong} is not refused`);
  }
}
console.log(`${files.length} dashboards are as @grafana/schema has them`);

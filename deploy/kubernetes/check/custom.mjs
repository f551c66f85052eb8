// Checks objects of KEDA's and the Prometheus operator's kinds against the schemas of their definitions.
//
//     node custom.mjs < OBJECTS     an array of objects, as JSON; MODULES names the folder with the packages
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const packages = { "keda.sh": "@kubernetes-models/keda", "monitoring.coreos.com": "@kubernetes-models/prometheus-operator" };

let wrong = 0;
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const name = `${object.kind} ${object.metadata.name}`;
  try {
    const from = packages[object.apiVersion.split("/")[0]];
    const file = resolve(process.env.MODULES, "node_modules", from, object.apiVersion, `${object.kind}.js`);
    const kinds = await import(pathToFileURL(file));
    // One package is of modules as Node has had them before.
    const Kind = (kinds.default ?? kinds)[object.kind];
    new Kind(object).validate();
    console.log(`${name}: as its definition says`);
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    wrong += 1;
  }
}
process.exit(wrong === 0 ? 0 : 1);

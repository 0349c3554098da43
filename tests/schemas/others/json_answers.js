// Reads pairs of JSON Schemas, a line of JSON each, and writes what jsoncompat says of each: whether
// the new schema takes all that the old one did, or why it cannot tell.
const { readFileSync } = require("node:fs");
const path = require("node:path");

async function main() {
  const { check_compat, initSync } = await import("jsoncompat");
  const file = path.join(path.dirname(require.resolve("jsoncompat")), "jsoncompat_wasm_bg.wasm");
  initSync({ module: readFileSync(file) });
  for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const { old, new: later } = JSON.parse(line);
    let answer;
    try {
      answer = check_compat(JSON.stringify(old), JSON.stringify(later), "deserializer");
    } catch (error) {
      answer = String(error.message ?? error);
    }
    console.log(JSON.stringify(answer));
  }
}

main();

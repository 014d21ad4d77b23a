// Build the page: node build.mjs OUT writes OUT/dist, and OUT/dashboard_assets.cpp with the same files as gzip
// (src/server/asset.hpp). The same sources give the same bytes.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../build/dashboard"));
const types = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

const hash = (content) => createHash("sha256").update(content).digest("hex").slice(0, 16);

async function bundle() {
  const result = await build({
    entryPoints: [join(here, "src/main.tsx")],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: ["chrome123", "firefox128", "safari17.5"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    outdir: "/",
    absWorkingDir: here,
    logLevel: "warning",
  });
  const text = (end) => result.outputFiles.find((file) => file.path.endsWith(end)).text;
  return { script: text(".js"), style: text(".css") };
}

// Names with a hash may be kept by browsers for ever.
function filesOf({ script, style }) {
  const scriptPath = `/assets/app-${hash(script)}.js`;
  const stylePath = `/assets/app-${hash(style)}.css`;
  const icon = readFileSync(join(here, "src/icon.svg"), "utf8");
  const iconPath = `/assets/icon-${hash(icon)}.svg`;
  const page = readFileSync(join(here, "src/index.html"), "utf8").replace("@script@", scriptPath).replace("@style@", stylePath).replace("@icon@", iconPath);
  return { "/index.html": page, [scriptPath]: script, [stylePath]: style, [iconPath]: icon };
}

// A string literal of any bytes. Three octal digits each: no digit behind one can become a part of it.
function literal(bytes) {
  const lines = [];
  for (let from = 0; from < bytes.length; from += 32)
    lines.push('"' + [...bytes.subarray(from, from + 32)].map((byte) => "\\" + byte.toString(8).padStart(3, "0")).join("") + '"');
  return lines.join("\n    ");
}

function sourceOf(files) {
  const assets = Object.entries(files).map(([path, content]) => {
    const packed = gzipSync(content, { level: 9 });
    const type = types[path.slice(path.lastIndexOf(".") + 1)];
    return `    {"${path}", "${type}", "\\"${hash(content)}\\"", std::string_view(\n    ${literal(packed)}, ${packed.length})},`;
  });
  return `// Made by dashboard/build.mjs.
#include "server/asset.hpp"

namespace baton::server {

const std::vector<Asset>& dashboard_assets() {
    static const std::vector<Asset> assets{
${assets.join("\n")}
    };
    return assets;
}

}  // namespace baton::server
`;
}

const files = filesOf(await bundle());
rmSync(join(out, "dist"), { recursive: true, force: true });
for (const [path, content] of Object.entries(files)) {
  mkdirSync(dirname(join(out, "dist", path)), { recursive: true });
  writeFileSync(join(out, "dist", path), content);
}
writeFileSync(join(out, "dashboard_assets.cpp"), sourceOf(files));
const total = Object.values(files).reduce((sum, content) => sum + gzipSync(content, { level: 9 }).length, 0);
if (total > 300_000) throw new Error(`the first load is ${total} bytes: more than 300 KB`);

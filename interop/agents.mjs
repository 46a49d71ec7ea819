// Calls tools of `eyelet mcp` as a coding agent does, and prints the results.
// Usage: node agents.mjs BINARY < {"dir": FOLDER, "calls": [{"name": TOOL, "arguments": {}}]}
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { readFileSync } from "node:fs";

const { dir, calls } = JSON.parse(readFileSync(0, "utf8"));
const client = new Client({ name: "agent", version: "1" });
await client.connect(new StdioClientTransport({ command: process.argv[2], args: ["mcp"], cwd: dir }));
const { tools } = await client.listTools();
const results = [];
for (const call of calls) {
  const { content, isError } = await client.callTool(call);
  results.push({ text: content[0].text, failed: isError });
}
console.log(JSON.stringify({ server: client.getServerVersion(), tools: tools.map((t) => t.name), results }));
await client.close();

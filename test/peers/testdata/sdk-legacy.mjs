// A client on the TypeScript SDK for the older revisions. Prints one JSON line.
// usage: node -e, with CRIB_URL and CRIB_TOKEN, or CRIB_COMMAND (JSON array).
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const { CRIB_URL, CRIB_TOKEN, CRIB_COMMAND } = process.env;
const [command, ...args] = CRIB_COMMAND ? JSON.parse(CRIB_COMMAND) : [];
const transport = CRIB_COMMAND
  ? new StdioClientTransport({ command, args, env: process.env })
  : new StreamableHTTPClientTransport(new URL(CRIB_URL), { requestInit: { headers: { Authorization: `Bearer ${CRIB_TOKEN}` } } });
const client = new Client({ name: 'sdk-legacy', version: '1' });
await client.connect(transport);
const { tools } = await client.listTools();
const { prompts } = await client.listPrompts();
const { resources } = await client.listResources();
const progress = [];
const echo = await client.callTool({ name: 'everything__echo', arguments: { message: 'hello' } });
const long = await client.callTool({ name: 'everything__trigger-long-running-operation', arguments: { duration: 1, steps: 2 } },
  undefined, { onprogress: (p) => progress.push(p.progress) });
const prompt = await client.getPrompt({ name: 'everything__simple-prompt' });
const doc = await client.readResource({ uri: resources[0].uri });
console.log(JSON.stringify({
  version: transport.protocolVersion, tools: tools.map((t) => t.name), prompts: prompts.length, resources: resources.map((r) => r.uri),
  echo: echo.content[0].text, long: long.content[0].text, progress, prompt: prompt.messages.length, doc: doc.contents[0].uri,
}));
await client.close();

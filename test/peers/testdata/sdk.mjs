// A client on the TypeScript SDK, in the protocol generation that CRIB_ERA
// names. Reaches the crib at CRIB_URL with CRIB_TOKEN, or by CRIB_COMMAND, a
// JSON array. Prints what it met as one line of JSON.
const { CRIB_ERA, CRIB_URL, CRIB_TOKEN, CRIB_COMMAND } = process.env;
const modern = CRIB_ERA === 'modern';
const load = async (legacy, now) => import(modern ? now : legacy);
const { Client } = await load('@modelcontextprotocol/sdk/client/index.js', '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/client/streamableHttp.js', '@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js', '@modelcontextprotocol/client/stdio');

const [command, ...args] = CRIB_COMMAND ? JSON.parse(CRIB_COMMAND) : [];
const transport = CRIB_COMMAND
  ? new StdioClientTransport({ command, args, env: process.env })
  : new StreamableHTTPClientTransport(new URL(CRIB_URL), { requestInit: { headers: { Authorization: `Bearer ${CRIB_TOKEN}` } } });
const client = new Client({ name: 'sdk', version: '1' }, modern ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {});
await client.connect(transport);
const { tools } = await client.listTools();
const { prompts } = await client.listPrompts();
const { resources } = await client.listResources();
const progress = [];
const echo = await client.callTool({ name: 'everything__echo', arguments: { message: 'hello' } });
const long = await client.callTool({ name: 'everything__trigger-long-running-operation', arguments: { duration: 1, steps: 2 } },
  ...(modern ? [] : [undefined]), { onprogress: (p) => progress.push(p.progress) });
const prompt = await client.getPrompt({ name: 'everything__simple-prompt' });
const doc = await client.readResource({ uri: resources[0].uri });
console.log(JSON.stringify({
  tools: tools.map((t) => t.name), prompts: prompts.length, resources: resources.map((r) => r.uri),
  echo: echo.content[0].text, long: long.content[0].text, progress, prompt: prompt.messages.length, doc: doc.contents[0].uri,
}));
await client.close();

// Asks a running server through the npm packages.  Standard input: one JSON object {url, key, folder, edits}; standard
// output: one JSON object a line, {client, edit, text} or {client, edit, error}.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { url, key, folder, npm, edits, slow } = JSON.parse(fs.readFileSync(0, "utf8"));
const require = createRequire(path.join(npm, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: OpenAI } = await load("openai");
const { generateText, streamText } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { constructLlmApi } = await load("@continuedev/openai-adapters");
const { applyEdit, executeEditFile } = await load("@morphllm/morphsdk/tools/fastapply");

const tagged = (edit) => `<code>${edit.original}</code>\n<update>${edit.update}</update>`;
const chat = (edit) => [{ role: "user", content: edit.prompt ?? tagged(edit) }];
const sdk = (asked) => new OpenAI({ apiKey: asked.key, baseURL: `${url}/v1/`, maxRetries: 0 });
const stop = (asked) => ({ signal: asked.signal });
const morph = ({ key, timeout }) => ({ morphApiUrl: `${url}/`, morphApiKey: key, timeout, retryConfig: { maxRetries: 0 } });

function kept(result, text) {
  if (!result.success) throw Object.assign(new Error(result.error), { name: result.errorCode ?? "success: false" });
  return text ?? result.mergedCode;
}

async function aiStream(model, edit, asked) {
  let failure;
  const onError = ({ error }) => (failure = error);
  const result = streamText({ model, prompt: edit.prompt ?? tagged(edit), maxRetries: 0, onError, abortSignal: asked.signal });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  if (failure) throw failure;
  asked.signal?.throwIfAborted();
  return text;
}

async function continueText(provider, body, asked) {
  const api = constructLlmApi({ provider, apiKey: asked.key, apiBase: `${url}/v1/` });
  let text = "";
  const signal = asked.signal ?? new AbortController().signal;
  for await (const chunk of api.chatCompletionStream({ model: asked.model, stream: true, ...body }, signal)) {
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  return text;
}

const ai = (asked) => createOpenAI({ apiKey: asked.key, baseURL: `${url}/v1/` });
const compatible = (asked) => createOpenAICompatible({ name: "x", apiKey: asked.key, baseURL: `${url}/v1/` });
const clients = {
  "@morphllm/morphsdk applyEdit": async (edit, asked) => {
    const { original: originalCode, update: codeEdit } = edit;
    return kept(await applyEdit({ originalCode, codeEdit, instructions: "I do." }, morph(asked)));
  },
  "@morphllm/morphsdk executeEditFile": async (edit, asked) => {
    const file = path.join(folder, path.basename(edit.path));
    fs.writeFileSync(file, edit.original);
    const input = { target_filepath: path.basename(file), code_edit: edit.update, instruction: "I do." };
    const result = await executeEditFile(input, { ...morph(asked), baseDir: folder });
    return kept(result, fs.readFileSync(file, "utf8"));
  },
  "openai (npm) chat": async (edit, asked) =>
    (await sdk(asked).chat.completions.create({ model: asked.model, messages: chat(edit) }, stop(asked))).choices[0].message.content,
  "openai (npm) prediction": async (edit, asked) => {
    const messages = [{ role: "user", content: edit.prompt ?? edit.update }];
    const more = edit.prompt ? {} : { prediction: { type: "content", content: edit.original } };
    return (await sdk(asked).chat.completions.create({ model: asked.model, messages, ...more }, stop(asked))).choices[0].message.content;
  },
  "openai (npm) stream": async (edit, asked) => {
    let text = "";
    const body = { model: asked.model, messages: chat(edit), stream: true };
    for await (const chunk of await sdk(asked).chat.completions.create(body, stop(asked))) {
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    return text;
  },
  "openai (npm) responses": async (edit, asked) =>
    (await sdk(asked).responses.create({ model: asked.model, input: edit.prompt ?? tagged(edit) }, stop(asked))).output_text,
  "@ai-sdk/openai generateText": async (edit, asked) =>
    (await generateText({ model: ai(asked)(asked.model), prompt: edit.prompt ?? tagged(edit), maxRetries: 0, abortSignal: asked.signal })).text,
  "@ai-sdk/openai streamText": (edit, asked) => aiStream(ai(asked)(asked.model), edit, asked),
  "@ai-sdk/openai-compatible generateText": async (edit, asked) =>
    (await generateText({ model: compatible(asked)(asked.model), prompt: edit.prompt ?? tagged(edit), maxRetries: 0, abortSignal: asked.signal })).text,
  "@ai-sdk/openai-compatible streamText": (edit, asked) => aiStream(compatible(asked)(asked.model), edit, asked),
  "@continuedev/openai-adapters openai": (edit, asked) => continueText("openai", { messages: chat(edit) }, asked),
  "@continuedev/openai-adapters relace": (edit, asked) => {
    const messages = [{ role: "user", content: edit.prompt ?? edit.update }];
    const more = edit.prompt ? {} : { prediction: { type: "content", content: edit.original } };
    return continueText("relace", { messages, ...more }, asked);
  },
};

const print = (said) => process.stdout.write(JSON.stringify(said) + "\n");
const good = { key, model: "auto" };
console.log = console.info = console.warn = console.error = () => {};

/** Waits until the server works on nothing; milliseconds. */
async function idle() {
  const began = Date.now();
  while ((await (await fetch(`${url}/readyz`)).json()).n_active > 0) await new Promise((resume) => setTimeout(resume, 10));
  return Date.now() - began;
}

const STOP_MS = 200;
const began = Date.now();
await sdk(good).chat.completions.create({ model: "auto", messages: chat(slow) });
const wholeMs = Date.now() - began;
for (const [client, ask] of Object.entries(clients)) {
  const one = async (name, edit, asked) => {
    try {
      return { client, edit: name, text: await ask(edit, asked) };
    } catch (error) {
      const status = error.status ?? error.statusCode ?? null;
      return { client, edit: name, error: error.name === "Error" ? error.constructor.name : error.name, status, message: String(error.message) };
    }
  };
  for (const edit of edits) print(await one(edit.name, edit, good));
  print(await one("wrong key", edits[0], { ...good, key: `${key}x` }));
  if (!client.endsWith("relace")) {  // that adapter passes its signal on to nobody
    const stopped = await one("cancelled", slow, { ...good, timeout: STOP_MS, signal: AbortSignal.timeout(STOP_MS) });
    print({ ...stopped, is_freed: (await idle()) < (wholeMs - STOP_MS) / 2 });
  }
  // A fixed model and tags around everything; no model, and any text may be a new file.
  if (client.startsWith("@morph") || client.endsWith("relace")) continue;
  print(await one("unknown model", edits[0], { ...good, model: "gpt-none" }));
  print(await one("no edit", { prompt: "Write a poem." }, good));
}
process.exit(0);

// Asks a running server through the npm packages.  Standard input: one JSON object {url, key, folder, edits}; standard
// output: one JSON object a line, {client, edit, text} or {client, edit, error}.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { url, key, folder, npm, edits } = JSON.parse(fs.readFileSync(0, "utf8"));
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
const morph = (asked) => ({ morphApiUrl: `${url}/`, morphApiKey: asked.key, retryConfig: { maxRetries: 0 } });

function kept(result, text) {
  if (!result.success) throw Object.assign(new Error(result.error), { name: result.errorCode ?? "success: false" });
  return text ?? result.mergedCode;
}

async function aiStream(model, edit) {
  let failure;
  const onError = ({ error }) => (failure = error);
  const result = streamText({ model, prompt: edit.prompt ?? tagged(edit), maxRetries: 0, onError });
  let text = "";
  for await (const piece of result.textStream) text += piece;
  if (failure) throw failure;
  return text;
}

async function continueText(provider, body, asked) {
  const api = constructLlmApi({ provider, apiKey: asked.key, apiBase: `${url}/v1/` });
  let text = "";
  const { signal } = new AbortController();
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
    (await sdk(asked).chat.completions.create({ model: asked.model, messages: chat(edit) })).choices[0].message.content,
  "openai (npm) prediction": async (edit, asked) => {
    const messages = [{ role: "user", content: edit.prompt ?? edit.update }];
    const more = edit.prompt ? {} : { prediction: { type: "content", content: edit.original } };
    return (await sdk(asked).chat.completions.create({ model: asked.model, messages, ...more })).choices[0].message.content;
  },
  "openai (npm) stream": async (edit, asked) => {
    let text = "";
    const body = { model: asked.model, messages: chat(edit), stream: true };
    for await (const chunk of await sdk(asked).chat.completions.create(body)) {
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    return text;
  },
  "openai (npm) responses": async (edit, asked) =>
    (await sdk(asked).responses.create({ model: asked.model, input: edit.prompt ?? tagged(edit) })).output_text,
  "@ai-sdk/openai generateText": async (edit, asked) =>
    (await generateText({ model: ai(asked)(asked.model), prompt: edit.prompt ?? tagged(edit), maxRetries: 0 })).text,
  "@ai-sdk/openai streamText": (edit, asked) => aiStream(ai(asked)(asked.model), edit),
  "@ai-sdk/openai-compatible generateText": async (edit, asked) =>
    (await generateText({ model: compatible(asked)(asked.model), prompt: edit.prompt ?? tagged(edit), maxRetries: 0 })).text,
  "@ai-sdk/openai-compatible streamText": (edit, asked) => aiStream(compatible(asked)(asked.model), edit),
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
for (const [client, ask] of Object.entries(clients)) {
  const one = async (name, edit, asked) => {
    try {
      print({ client, edit: name, text: await ask(edit, asked) });
    } catch (error) {
      const status = error.status ?? error.statusCode ?? null;
      print({ client, edit: name, error: error.name === "Error" ? error.constructor.name : error.name, status, message: String(error.message) });
    }
  };
  for (const edit of edits) await one(edit.name, edit, good);
  await one("wrong key", edits[0], { ...good, key: `${key}x` });
  // A fixed model and tags around everything; no model, and any text may be a new file.
  if (client.startsWith("@morph") || client.endsWith("relace")) continue;
  await one("unknown model", edits[0], { ...good, model: "gpt-none" });
  await one("no edit", { prompt: "Write a poem." }, good);
}
const controller = new AbortController();
const stopped = sdk(good).chat.completions.create({ model: "auto", messages: chat(edits[0]), stream: true }, { signal: controller.signal });
setTimeout(() => controller.abort(), 30);
await stopped.then(
  () => print({ client: "openai (npm) stream", edit: "cancelled", text: "" }),
  (error) => print({ client: "openai (npm) stream", edit: "cancelled", error: error.constructor.name, status: null, message: String(error.message) }),
);
process.exit(0);

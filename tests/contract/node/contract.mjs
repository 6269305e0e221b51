// Asks a running server through the OpenAI SDK for Node.  Arguments: base URL, then one JSON object with the edit.
// Prints one JSON object: what each way of asking gave.
import OpenAI, { BadRequestError, NotFoundError } from "openai";

const url = process.argv[2];
const { original, update, tagged } = JSON.parse(process.argv[3]);
const sdk = (path) => new OpenAI({ apiKey: "any", baseURL: url + path, maxRetries: 0 });
const client = sdk("/v1");
const messages = [{ role: "user", content: tagged }];
const predicted = {
  messages: [{ role: "user", content: update }],
  prediction: { type: "content", content: original },
};

async function streamed(body) {
  const stream = await client.chat.completions.create({
    ...body,
    model: "auto",
    stream: true,
    stream_options: { include_usage: true },
  });
  const result = { text: "", finish: null, usage: null };
  for await (const chunk of stream) {
    result.text += chunk.choices[0]?.delta?.content ?? "";
    result.finish = chunk.choices[0]?.finish_reason ?? result.finish;
    result.usage = chunk.usage ?? result.usage;
  }
  return result;
}

async function refusal(body, kind) {
  try {
    await client.chat.completions.create(body);
    return null;
  } catch (error) {
    return { isOfKind: error instanceof kind, status: error.status, code: error.code };
  }
}

const whole = await client.chat.completions.create({ model: "morph-v3-large", messages });
const accepted = await client.chat.completions.create({ model: "Fast-Apply", ...predicted });
const relace = await sdk("/v1/apply").chat.completions.create({ model: "auto", messages });
const text = await client.completions.create({ model: "auto", prompt: tagged });
const ids = [];
for await (const model of client.models.list()) ids.push(model.id);

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    strategy: whole.apply_service.strategy,
    predicted: accepted.choices[0].message.content,
    details: accepted.usage.completion_tokens_details,
    relace: relace.choices[0].message.content,
    text: text.choices[0].text,
    streamedTags: await streamed({ messages }),
    streamedPrediction: await streamed(predicted),
    ids,
    plain: await refusal({ model: "auto", messages: [{ role: "user", content: "Hi." }] }, BadRequestError),
    unknown: await refusal({ model: "gpt-none", messages }, NotFoundError),
  }),
);

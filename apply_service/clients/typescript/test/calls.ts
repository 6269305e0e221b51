/**
 * Makes the calls that standard input asks for, and prints what came of each as a line of JSON. The tests in Python run
 * it against real servers, and hold what it prints against their own client.
 */

import { ApplyClient, ApplyError, type BatchRequest, type EditRequest } from "../src/index.js";

interface Asked {
  options: { baseUrl: string; apiKey?: string; timeoutMs?: number };
  call: "apply" | "stream" | "batch" | "models" | "health" | "isReady" | "leave" | "abort";
  request?: EditRequest & BatchRequest;
}

/** Waits until the server works on a request. */
async function taken(baseUrl: string): Promise<void> {
  for (;;) {
    const readiness = (await (await fetch(`${baseUrl}/readyz`)).json()) as { n_active: number };
    if (readiness.n_active > 0) return;
    await new Promise((resume) => setTimeout(resume, 10));
  }
}

async function make(asked: Asked): Promise<unknown> {
  const client = new ApplyClient(asked.options);
  const request = asked.request ?? {};
  switch (asked.call) {
    case "stream": {
      const events = [];
      for await (const event of client.stream(request)) events.push(event);
      return events;
    }
    case "leave": {
      for await (const event of client.stream(request)) return event;
      return null;
    }
    case "abort": {
      const controller = new AbortController();
      const answer = client.apply(request, { signal: controller.signal });
      await taken(asked.options.baseUrl);
      controller.abort();
      return answer;
    }
    case "apply":
      return client.apply(request);
    case "batch":
      return client.batch(request);
    default:
      return client[asked.call]();
  }
}

function describe(error: unknown): unknown {
  if (error instanceof ApplyError) {
    const { code, message, value, limit, remedy, status, readings } = error;
    return { code, message, value, limit, remedy, status, readings };
  }
  return { name: (error as Error).name };
}

let text = "";
for await (const piece of process.stdin) text += piece;
for (const asked of JSON.parse(text) as Asked[]) {
  const said = await make(asked).then(
    (answer) => ({ answer }),
    (error: unknown) => ({ error: describe(error) }),
  );
  console.log(JSON.stringify(said));
}

// The playground: sends the form to /v1/apply as any client does, and shows the answer.
// Text from a file, an edit or the service goes into the page as text nodes, never as markup.

import { EXAMPLES } from "./playground-examples.js";

const $ = (id) => document.getElementById(id);

/** An element with properties, and children that are elements or texts. */
function el(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// -- words ------------------------------------------------------------------------------------------------------------
const STRATEGIES = {
  exact: "A program made the merge: the edit says it all, or no model is known to do better.",
  confirmed: "A program made the merge, and the model confirmed it.",
  lattice: "The model weighed the readings of the edit and took this one.",
  model: "The model wrote the file, token by token, with drafts.",
  windowed: "The model decided the parts that the edit touches; every other line is the original's.",
  fallback: "This is the program's merge: the model's own answer was not better.",
};
const CHECKS = {
  marker_leak: "A marker was left in the file",
  truncation: "The file may be cut short",
  no_op: "Nothing changes",
  outside_edit: "Lines outside the edit change",
  symbols: "Definitions go or come twice",
  syntax: "Syntax error",
  chat_text: "Chat was left in the file",
  indentation: "Odd indentation",
  edit_markup: "Signs of the edit were left in the file",
  fallback: "The program's merge stands",
  doubt: "This may be wrong",
  instruction: "The instruction was not followed",
  reply: "Parts of the reply were left out",
  other_files: "The reply edits other files too",
  usage: "Counts are not known",
};
const ORIGINS = { original: ["", ""], update: ["+", "from the snippet: "], model: ["*", "from the model: "] };

/** A share in percent, rounded down: never 100. */
const percent = (share) => `${Math.min(99, Math.max(1, Math.floor(100 * share + 1e-9)))}%`;
const sureness = (share) => (share === null ? "" : share >= 0.9 ? "sure" : share >= 0.5 ? "unsure" : "doubtful");
const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
const seconds = (s) => (s < 1 ? `${Math.round(1000 * s)} ms` : `${s.toFixed(1)} s`);
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A message in which text quoted in backticks is shown as code. */
function quoted(text) {
  const parts = text.split("`");
  return parts.flatMap((part, i) => (i % 2 === 1 && i < parts.length - 1 ? [el("code", {}, ...shown(part))] : shown(part)));
}

/** Text with its control and direction characters made visible. */
function shown(text) {
  const parts = text.split(/([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff])/);
  const code = (part) => `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  return parts.map((part, i) => (i % 2 === 1 ? el("span", { className: "odd" }, code(part)) : part));
}

// -- calls ------------------------------------------------------------------------------------------------------------
class Refused extends Error {
  constructor(error, status) {
    super(error.message);
    Object.assign(this, { status, remedy: error.remedy, readings: error.readings ?? [] });
  }
}

let running = null;
let lastAnswer = null;
let needsKey = false;

function headers() {
  const key = sessionStorage.getItem("key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function refuse(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) askForKey();
  throw new Refused(body.error ?? { message: `The service answered with status ${response.status}.` }, response.status);
}

/** Sends one edit and returns the answer.  `onToken` gets the provisional text and its passes. */
async function apply(request, onToken = () => {}) {
  const body = JSON.stringify({ ...request, stream: true });
  const response = await fetch("v1/apply", { method: "POST", headers: headers(), body, signal: running.signal });
  if (!response.ok) await refuse(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", name = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) throw new Refused({ message: "The answer was cut off.", remedy: "apply the edit again" });
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (!line.startsWith("data: ")) continue;
      const data = JSON.parse(line.slice(6));
      if (name === "token") onToken(data);
      if (name === "error") throw new Refused(data.error);
      if (name === "final") return data;
    }
  }
}

function askForKey() {
  needsKey = true;
  $("key-field").hidden = false;
}

async function loadModels() {
  const response = await fetch("v1/models", { headers: headers() });
  if (!response.ok) await refuse(response);
  const models = (await response.json()).data.filter((model) => !model.alias_of).map((model) => model.id);
  $("model").replaceChildren(...models.map((id) => el("option", { value: id }, id)));
  $("model-field").hidden = models.length < 2;
  $("model-name").textContent = models.length === 1 ? `Model: ${models[0]}` : "";
}

/** The request that the form describes, without fields left at their defaults. */
function requestOf() {
  const request = { original: $("original").value, update: $("update").value };
  if ($("path").value) request.path = $("path").value;
  if ($("strategy").value !== "auto") request.strategy = $("strategy").value;
  if ($("model").selectedIndex > 0) request.model = $("model").value;
  return request;
}

/** Runs one piece of work at a time, and tells how it ends. */
async function work(doing, button, action) {
  if (running) return running.abort();
  running = new AbortController();
  $("error").hidden = true;
  $("status").textContent = doing;
  const label = [...button.childNodes];
  button.replaceChildren("Stop");
  for (const other of [$("apply"), $("race")]) other.disabled = other !== button;
  try {
    $("status").textContent = (await action()) ?? "";
  } catch (error) {
    $("status").textContent = error.name === "AbortError" ? "Stopped." : "";
    if (error.name !== "AbortError") showError(error);
  } finally {
    running = null;
    button.replaceChildren(...label);
    for (const other of [$("apply"), $("race")]) other.disabled = false;
  }
}

function showError(error) {
  const message = error instanceof Refused ? error.message : "The service can't be reached.";
  const remedy = error instanceof Refused ? error.remedy : "see that it still runs";
  const lines = [message, ...(remedy ? [`What to do: ${remedy}`] : [])];
  $("error").replaceChildren(...lines.map((line) => el("p", {}, ...shown(sentence(line)))));
  $("error").hidden = false;
  if (error.status === 401) $("key").focus();
}

// -- the merged file --------------------------------------------------------------------------------------------------
const MOST_UNCHANGED = 14;
const CONTEXT = 4;

/** The lines of a text as editors count them, without their ends. */
function linesOf(text) {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The origin of each line.  Spans count lines as the service does: if the text has "\n", a lone "\r" ends no line. */
function originsOf(text, spans) {
  const served = spans.flatMap(({ start_line, end_line, origin }) => Array(end_line - start_line).fill(origin));
  const ends = text.match(/\r\n|\r|\n/g) ?? [];
  let at = 0;
  return [served[0], ...ends.map((end) => served[end === "\r" && text.includes("\n") ? at : ++at])];
}

function lineRow(number, text, kind, edge = "") {
  const [mark, said] = kind === "removed" ? ["−", "removed: "] : ORIGINS[kind];
  const row = el("tr", { className: `${kind} ${edge}`, tabIndex: -1 });
  if (kind !== "removed") row.dataset.line = number;
  const cell = el("td", { className: "text" }, el("span", { className: "sr" }, said), ...shown(text));
  row.append(el("th", { scope: "row" }, kind === "removed" ? "" : String(number)), el("td", { className: "mark" }, mark), cell);
  return row;
}

function saidRow(text) {
  return el("tr", { className: "said" }, el("td", { colSpan: 3 }, text));
}

/** Unchanged lines.  If there are many, all but a few are behind a button. */
function unchangedRows(rows, isFirst, isLast) {
  const [head, tail] = [isFirst ? 0 : CONTEXT, isLast ? 0 : CONTEXT];
  if (rows.length <= MOST_UNCHANGED) return rows;
  const hidden = rows.slice(head, rows.length - tail);
  const button = el("button", { type: "button" }, `⋯ ${count(hidden.length, "unchanged line")}`);
  const fold = el("tr", { className: "fold" }, el("td", { colSpan: 3 }, button));
  fold.unfold = button.onclick = () => fold.replaceWith(...hidden);
  return [...rows.slice(0, head), fold, ...rows.slice(rows.length - tail)];
}

function fileRows(original, answer) {
  const [before, after] = [linesOf(original), linesOf(answer.merged_code)];
  const origins = originsOf(answer.merged_code, answer.spans);
  const row = (i, edge) => lineRow(i + 1, after[i], origins[i] ?? "original", edge);
  const rows = [];
  let at = 0;
  answer.hunks.forEach((hunk, i) => {
    const unchanged = [];
    for (; at < hunk.merged_start; at++) unchanged.push(row(at));
    rows.push(...unchangedRows(unchanged, i === 0, false));
    const sure = hunk.confidence === null ? "" : ` · ${percent(hunk.confidence)} sure`;
    rows.push(saidRow(`Change ${i + 1} of ${answer.hunks.length}${sure}`));
    for (let j = hunk.original_start; j < hunk.original_end && j < before.length; j++) rows.push(lineRow(0, before[j], "removed"));
    for (; at < hunk.merged_end && at < after.length; at++) rows.push(row(at, sureness(hunk.confidence)));
  });
  const unchanged = [];
  for (; at < after.length; at++) unchanged.push(row(at));
  return [...rows, ...unchangedRows(unchanged, rows.length === 0, true)];
}

function jumpTo(line) {
  const find = () => $("lines").querySelector(`[data-line="${line}"]`);
  if (!find()) for (const fold of $("lines").querySelectorAll(".fold")) fold.unfold();
  find()?.scrollIntoView({ block: "center" });
  find()?.focus({ preventScroll: true });
}

// -- beside the file --------------------------------------------------------------------------------------------------
function verdictItem({ check, severity, message, lines, side }) {
  const title = check === "doubt" && severity === "error" ? "This is probably wrong" : (CHECKS[check] ?? check);
  const item = el("li", { className: severity }, el("b", {}, title));
  const parts = check === "doubt" ? message.split("; ").filter((part) => !part.startsWith("another reading")) : [message];
  item.append(...quoted(sentence(parts.join("; "))));
  if (lines && side === "merged") {
    const button = el("button", { type: "button", className: "jump" }, `line ${lines[0]}`);
    button.onclick = () => jumpTo(lines[0]);
    item.append(" ", button);
  }
  return item;
}

function showVerdicts(verdicts) {
  const found = verdicts.filter((verdict) => verdict.severity !== "pass");
  const passed = verdicts.filter((verdict) => verdict.severity === "pass");
  const names = passed.map(({ check, message }) => el("li", { className: "pass" }, `✓ ${check.replaceAll("_", " ")}`, message && `: ${message}`));
  const summary = el("summary", {}, `${count(passed.length, "check")} passed`);
  $("verdicts").replaceChildren(el("ul", {}, ...found.map(verdictItem)), el("details", {}, summary, el("ul", {}, ...names)));
}

/** The readings of the edit that was applied last, the likeliest first, and the index of the reading shown. */
let readings = { request: null, likeliest: null, all: [], at: 0 };

/** Lists the readings.  `likeliest`: the answer for the likeliest; null if an error told the readings. */
function showReadings(request, likeliest, all) {
  readings = { request, likeliest, all, at: 0 };
  const items = all.map(({ probability, words }, at) => {
    const button = el("button", { type: "button", ariaPressed: String(at === 0) });
    button.append(el("b", {}, probability === null ? "" : `${percent(probability)} likely`), ...quoted(words));
    button.onclick = () => chooseReading(at);
    return el("li", {}, button);
  });
  $("readings").replaceChildren(items.length > 0 ? el("ul", {}, ...items) : el("p", { className: "quiet" }, "There is no other."));
}

function showReadingsOf(request, answer) {
  const likeliest = { id: answer.reading, probability: answer.confidence, words: "The likeliest, shown first." };
  showReadings(request, answer, answer.readings.length > 0 ? [likeliest, ...questions(answer.readings)] : []);
}

const questions = (told) => told.map(({ id, probability, difference }) => ({ id, probability, words: `Did you mean to ${difference}?` }));

/** Asks for a reading by its index, which wraps around, and shows it as the merged file. */
function chooseReading(place) {
  const { request, likeliest, all } = readings;
  if (running || all.length === 0) return;
  const at = (place + all.length) % all.length;
  work("Reading …", $("apply"), async () => {
    const answer = at === 0 && likeliest ? likeliest : await apply({ ...request, reading: all[at].id });
    const chosen = answer === likeliest ? "" : `You chose reading ${at + 1} of ${all.length}.`;
    const size = showAnswer(request, answer, chosen);
    readings.at = at;
    for (const [i, button] of $("readings").querySelectorAll("button").entries()) button.ariaPressed = String(i === at);
    $("lines").querySelector(".said")?.scrollIntoView({ block: "nearest" });
    return `Reading ${at + 1} of ${all.length}. ${size}`;
  });
}

function draftWords({ usage, strategy, model }) {
  if (model === null) return "No model was needed.";
  if (usage.passes === null) return "The server that runs the model does not tell its passes.";
  const [accepted, rejected] = [usage.accepted_prediction_tokens, usage.rejected_prediction_tokens];
  const how = ["confirmed", "lattice"].includes(strategy) ? "It scored the file instead of writing it: " : "";
  const each = usage.passes ? `, ${(usage.completion_tokens / usage.passes).toFixed(1)} a pass` : "";
  const drafted = accepted + rejected > 0 ? ` Of ${count(accepted + rejected, "drafted token")}, ${accepted.toLocaleString("en")} were accepted.` : "";
  return `${how}${count(usage.completion_tokens, "token")} in ${count(usage.passes, "pass")}${each}.${drafted}`;
}

/** `chosen`: says which reading it is, if the user chose one. */
function showAnswer(request, answer, chosen = "") {
  const { confidence, confidence_kind, hunks } = answer;
  const [added, removed] = ["merged", "original"].map((side) => hunks.reduce((n, hunk) => n + hunk[`${side}_end`] - hunk[`${side}_start`], 0));
  const figure = confidence === null ? "" : `${percent(confidence)} sure. `;
  const meaning = { calibrated: " The figure is the share of such answers that were right when counted.", raw: " The figure is the model's chance for its least sure choice." };
  $("summary").replaceChildren(el("b", {}, figure), chosen || (STRATEGIES[answer.strategy] ?? ""), meaning[confidence_kind] ?? "");
  const size = hunks.length === 0 ? "Nothing changes." : `${count(hunks.length, "change")}, +${added} −${removed} lines.`;
  $("lines").replaceChildren(...fileRows(request.original, answer));
  showVerdicts(answer.verdicts);
  $("drafts").replaceChildren(el("p", { className: "quiet" }, draftWords(answer)));
  $("result").hidden = false;
  lastAnswer = answer;
  return size;
}

// -- the race ---------------------------------------------------------------------------------------------------------
const LANES = [
  { drafter: "merged_edit", name: "Drafts from the merge", how: "the program's merge is proposed; the default" },
  { drafter: "suffix", name: "Drafts from the prompt", how: "what followed the same words before is proposed" },
  { drafter: "none", name: "No drafts", how: "plain decoding, one token a pass" },
];

/** One run: its passes as a strip (the whole width is the whole output), and the text as it comes. */
class Lane {
  constructor({ name, how }, expected) {
    this.sums = { passes: 0, tokens: 0, accepted: 0, rejected: 0 };
    this.expected = expected;
    this.rest = el("i");
    this.strip = el("div", { className: "strip", ariaHidden: "true" }, this.rest);
    this.live = el("pre", { className: "live", ariaHidden: "true" });
    this.figures = el("div", { className: "figures" }, "waits");
    this.node = el("div", { className: "lane" }, el("h3", {}, name), el("small", {}, how), this.figures, this.strip, this.live);
    this.fill();
  }

  begin() {
    this.started = performance.now();
    this.figures.textContent = "reads the prompt …";
  }

  take({ text, passes = [] }) {
    for (const { n_new, n_drafted, n_accepted } of passes) {
      this.sums.passes += 1;
      this.sums.tokens += n_new;
      this.sums.accepted += n_accepted === n_drafted && n_drafted > 0;
      this.sums.rejected += n_accepted < n_drafted;
      this.drawPass(n_new, n_drafted, n_accepted);
    }
    const kind = passes.some((pass) => pass.n_accepted > 0) ? "accepted" : "own";
    const last = this.live.lastChild;
    if (kind === "own" && last?.className === "own") last.append(...shown(text));
    else this.live.append(el("span", { className: kind }, ...shown(text)));
    this.live.scrollTop = this.live.scrollHeight;
    this.fill();
    this.tell((performance.now() - this.started) / 1000);
  }

  /** Passes without a draft share one piece: there may be thousands. */
  drawPass(n_new, n_drafted, n_accepted) {
    const last = this.rest.previousSibling;
    if (n_drafted === 0 && last?.className === "own") return (last.style.flexGrow = Number(last.style.flexGrow) + n_new);
    const className = n_drafted === 0 ? "own" : n_accepted < n_drafted ? "rejected" : "";
    const title = `${n_accepted} of ${n_drafted} drafted tokens accepted`;
    const piece = el("span", { className, title: n_drafted === 0 ? "no draft" : title });
    piece.style.flexGrow = n_new;
    piece.style.setProperty("--part", `${(100 * n_accepted) / n_new}%`);
    this.rest.before(piece);
  }

  fill() {
    this.rest.style.flexGrow = Math.max(0, this.expected - this.sums.tokens);
  }

  tell(elapsed) {
    const { passes, tokens, accepted, rejected } = this.sums;
    const windows = accepted + rejected > 0 ? ` · windows: ${accepted} accepted, ${rejected} rejected in part` : "";
    this.figures.replaceChildren(
      el("b", {}, seconds(elapsed)),
      `${count(tokens, "token")} in ${count(passes, "pass")} · ${passes ? (tokens / passes).toFixed(1) : 0} a pass${windows}`,
    );
  }

  end(answer) {
    const { usage, timings_s } = answer;
    this.expected = 0;
    this.sums.tokens = usage.completion_tokens;
    this.sums.passes = usage.passes ?? this.sums.passes;
    this.fill();
    this.tell(timings_s.decode_s);
  }
}

async function race() {
  const { strategy: _, ...asked } = requestOf();
  const guess = Math.ceil((asked.original.length + asked.update.length) / 3);
  const lanes = LANES.map((lane) => new Lane(lane, guess));
  $("lanes").replaceChildren(...lanes.map((lane) => lane.node));
  $("race-verdict").textContent = "";
  $("race-result").hidden = false;
  $("race-title").focus({ preventScroll: true });
  $("race-result").scrollIntoView({ block: "start" });
  const answers = [];
  for (const [i, lane] of lanes.entries()) {
    $("status").textContent = `Race: ${LANES[i].name.toLowerCase()}`;
    lane.begin();
    const answer = await apply({ ...asked, strategy: "model", drafter: LANES[i].drafter }, (token) => lane.take(token));
    lane.end(answer);
    for (const later of lanes.slice(i + 1)) later.expected = answer.usage.completion_tokens;
    for (const later of lanes.slice(i + 1)) later.fill();
    answers.push(answer);
  }
  const [fast, plain] = [answers[0], answers.at(-1)];
  if (plain.drafter !== "none") return void ($("race-verdict").textContent = "This model runs on another server, which drafts for itself: there is nothing to compare.");
  const same = answers.every((answer) => answer.result_sha256 === plain.result_sha256);
  const times = plain.timings_s.decode_s / fast.timings_s.decode_s;
  const verdict = `${times.toFixed(times < 10 ? 1 : 0)} times as fast with drafts: ${count(fast.usage.passes, "pass")} in place of ${plain.usage.passes.toLocaleString("en")}.`;
  $("race-verdict").textContent = `${verdict} ${same ? "All three wrote the same file, byte for byte." : "The files differ: this engine rounds otherwise in wide passes."}`;
}

// -- the request as code ----------------------------------------------------------------------------------------------
/** A text as a literal of Python and of TypeScript alike. */
const literal = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const AS_CODE = {
  curl(url, request) {
    const quoted = JSON.stringify(request).replaceAll("'", "'\\''");
    const key = needsKey ? ` \\\n  -H "Authorization: Bearer $APPLY_SERVICE_API_KEY"` : "";
    return `curl -s ${url}/v1/apply -H 'Content-Type: application/json'${key} \\\n  -d '${quoted}'\n`;
  },
  python(url, request) {
    const fields = Object.entries(request).map(([name, value]) => `    ${name}=${literal(value)},\n`).join("");
    const [use, key] = needsKey ? ["import os\n\n", `, api_key=os.environ["APPLY_SERVICE_API_KEY"]`] : ["", ""];
    return `${use}from apply_service.clients.http import HttpClient\nfrom apply_service.types import ApplyRequest\n\nclient = HttpClient(${literal(url)}${key})\nrequest = ApplyRequest(\n${fields})\nprint(client.apply(request).merged_code)\n`;
  },
  typescript(url, request) {
    const fields = Object.entries(request).map(([name, value]) => `  ${name}: ${literal(value)},\n`).join("");
    const key = needsKey ? ", apiKey: process.env.APPLY_SERVICE_API_KEY" : "";
    return `import { ApplyClient } from "apply-service-client";\n\nconst client = new ApplyClient({ baseUrl: ${literal(url)}${key} });\nconst answer = await client.apply({\n${fields}});\nconsole.log(answer.merged_code);\n`;
  },
};

/** Copies a text.  If the browser does not allow this (plain http), the text is shown, to be copied by hand. */
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    $("status").textContent = `Copied ${what}.`;
  } catch {
    $("dialog-title").textContent = `Copy ${what}`;
    $("dialog-text").value = text;
    $("dialog").showModal();
    $("dialog-text").select();
  }
}

// -- the form ---------------------------------------------------------------------------------------------------------
function load(example) {
  for (const name of ["path", "original", "update"]) $(name).value = example[name];
  $("strategy").value = example.strategy ?? "auto";
  for (const chip of $("examples").querySelectorAll("button")) chip.ariaPressed = String(chip.textContent === example.name);
}

function spoil() {
  $("result").classList.add("stale");
}

function start() {
  for (const example of EXAMPLES) {
    const chip = el("button", { type: "button", ariaPressed: "false" }, example.name);
    chip.onclick = () => (load(example), spoil());
    $("examples").append(chip);
  }
  if (!$("original").value && !$("update").value) load(EXAMPLES[0]);
  $("form").onsubmit = (event) => {
    event.preventDefault();
    work("Applying …", $("apply"), async () => {
      const [request, started] = [requestOf(), performance.now()];
      const onToken = () => ($("status").textContent += $("status").textContent.length < 60 ? "·" : "");
      let size;
      try {
        const answer = await apply(request, onToken);
        size = showAnswer(request, answer);
        showReadingsOf(request, answer);
      } catch (error) {
        if (!error.readings?.length) throw error; // the edit is unclear: show its likeliest reading
        size = showAnswer(request, await apply({ ...request, reading: error.readings[0].id }), "This edit is not clear. Choose what it means.");
        showReadings(request, null, questions(error.readings));
      }
      $("result").classList.remove("stale");
      $("result-title").focus({ preventScroll: true });
      $("result").scrollIntoView({ block: "nearest" });
      return `Done in ${seconds((performance.now() - started) / 1000)}. ${size}`;
    });
  };
  $("race").onclick = () => work("Race", $("race"), race);
  $("form").oninput = spoil;
  $("form").onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit($("apply"));
  };
  document.onkeydown = (event) => {
    const isTyped = event.target.closest("input, textarea, select") || event.metaKey || (event.ctrlKey && !event.altKey); // both: AltGr
    const step = { "[": -1, "]": 1 }[event.key];
    if (step && !isTyped) chooseReading(readings.at + step);
  };
  $("show-removed").onchange = (event) => $("lines").closest(".code").classList.toggle("without-removed", !event.target.checked);
  $("copy-result").onclick = () => copy(lastAnswer.merged_code, "the merged file");
  for (const button of document.querySelectorAll("[data-copy]")) {
    const url = new URL(".", location.href).href.replace(/\/$/, "");
    button.onclick = () => copy(AS_CODE[button.dataset.copy](url, requestOf()), `the request as ${button.textContent}`);
  }
  $("key").value = sessionStorage.getItem("key") ?? "";
  $("key").onchange = () => {
    sessionStorage.setItem("key", $("key").value.trim());
    loadModels().then(() => ($("error").hidden = true), showError);
  };
  loadModels().catch((error) => (error.status === 401 ? null : showError(error)));
}

start();

--- What goes on for each buffer, for the statusline.
local M = {}

local uv = vim.uv or vim.loop

---@type table<integer, {phase: string, started_ms: integer, n_bytes: integer, words: string|nil}>
local states = {}

local bytes_per_token = 4 -- a first guess; every answer corrects it

local function redraw()
  pcall(vim.cmd, "redrawstatus")
end

M.redraw = redraw

local function set(buffer, state)
  states[buffer] = state
  redraw()
end

function M.start(buffer)
  set(buffer, { phase = "waiting", started_ms = uv.now(), n_bytes = 0 })
end

--- Provisional text came.
function M.add(buffer, text)
  local state = states[buffer]
  if state.phase == "waiting" then
    state.phase, state.started_ms = "streaming", uv.now()
  end
  state.n_bytes = state.n_bytes + #text
  redraw()
end

--- The answer is here; its own counts are exact, and tell how long this model's tokens are.
function M.finish(buffer, answer)
  local n_tokens, decode_s = answer.usage.completion_tokens, (answer.timings_s or {}).decode_s or 0
  if n_tokens > 0 then
    bytes_per_token = math.max(1, #answer.merged_code / n_tokens)
  end
  local speed = n_tokens > 0 and decode_s > 0 and ("%.0f tok/s"):format(n_tokens / decode_s) or answer.strategy
  set(buffer, { phase = "review", started_ms = uv.now(), n_bytes = 0, words = speed })
end

function M.fail(buffer, code)
  set(buffer, { phase = "failed", started_ms = uv.now(), n_bytes = 0, words = code })
end

function M.clear(buffer)
  set(buffer, nil)
end

local function streaming(state)
  local n_tokens = state.n_bytes / bytes_per_token
  local passed_s = math.max(0.001, (uv.now() - state.started_ms) / 1000)
  return ("provisional ~%.0f tok, ~%.0f tok/s"):format(n_tokens, n_tokens / passed_s)
end

---@return string
function M.statusline(buffer)
  local state = states[buffer]
  if not state then
    return ""
  elseif state.phase == "waiting" then
    return "apply: waiting"
  elseif state.phase == "streaming" then
    return "apply: " .. streaming(state)
  elseif state.phase == "failed" then
    return "apply: failed (" .. state.words .. ")"
  end
  local proposals = require("apply_service.proposals")
  local n_pending, n = proposals.counts(buffer)
  local readings = proposals.readings(buffer)
  local place = readings and ", " .. readings:place() or ""
  return ("apply: %d of %d hunks, %s%s"):format(n_pending, n, state.words, place)
end

return M

--- `POST /v1/apply`, streaming or not, and `/v1/apply/batch`: progress while it runs, then exactly one answer or error.
local errors = require("apply_service.errors")
local local_server = require("apply_service.local_server")
local sse = require("apply_service.sse")
local transport = require("apply_service.transport")

local M = {}
local GRACE_S = 5 -- the service answers its own deadline; ours only ends what does not answer at all

---@class apply_service.ClientCalls
---@field on_text fun(text: string) provisional
---@field on_answer fun(answer: table)
---@field on_error fun(failure: apply_service.Error)

local function decode(text)
  local ok, value = pcall(vim.json.decode, text, { luanil = { object = true, array = true } })
  return ok and type(value) == "table" and value or nil
end

--- The key: the function's, else the environment's.  nil: none.
---@return string|nil key
---@return apply_service.Error|nil
function M.api_key(options)
  local key = vim.env[options.api_key_env]
  if key == nil and options.api_key_env == "APPLY_SERVICE_API_KEY" then
    key = vim.env.APPLY_API_KEY -- its name in earlier versions
  end
  if options.api_key then
    local ok, given = pcall(options.api_key)
    if not ok or (given ~= nil and type(given) ~= "string") then
      return nil, errors.make("invalid_field", "`api_key` gave no text: " .. tostring(given))
    end
    key = given
  end
  if key and key:find("[%c]") then
    return nil, errors.make("invalid_field", "The API key holds a control character.")
  end
  return key ~= "" and key or nil
end

--- What an exchange has come to; `ended` holds the answer or the error.
local function exchange(calls)
  local state = { body = {}, ended = nil }
  local events = sse.reader(function(name, data)
    local value = decode(data)
    if state.ended then
      return
    elseif name == "token" and value and type(value.text) == "string" then
      calls.on_text(value.text)
    elseif name == "final" then
      state.ended = { answer = value }
    elseif name == "error" then
      state.ended = { failure = errors.of_body(200, data) }
    end
  end)
  function state.take(data, reader)
    if reader:is_event_stream() then
      events:feed(data)
    else
      table.insert(state.body, data)
    end
  end
  return state
end

local function broken(url)
  return errors.make("unreachable", "The answer of " .. url .. " was cut off.", "Nothing was changed; ask again.")
end

local FIELDS = { "merged_code", "edits", "hunks", "spans", "verdicts", "result_sha256", "source_sha256", "usage" }

--- Whether an answer to an edit has all its parts.
function M.is_whole(answer)
  for _, field in ipairs(FIELDS) do
    if answer[field] == nil then
      return false
    end
  end
  return true
end

local function has_items(answer)
  return type(answer.items) == "table"
end

local function outcome(state, reader, code, words, url, is_whole)
  local body = table.concat(state.body)
  if not state.ended and code ~= 0 then
    return reader.status and code ~= 28 and { failure = broken(url) } or { failure = errors.of_curl(code, words, url) }
  end
  if not state.ended and reader.status ~= 200 then
    return { failure = errors.of_body(reader.status, body) }
  end
  local ended = state.ended or { answer = decode(body) }
  if ended.failure or (ended.answer and is_whole(ended.answer)) then
    return ended
  end
  return { failure = reader:is_event_stream() and broken(url) or errors.of_body(reader.status, body) }
end

local function post(path, is_whole, request, options, calls)
  local key, fault = M.api_key(options)
  local handle = { is_cancelled = false, stop = function() end }
  local function finish(ended)
    if handle.is_cancelled then
      calls.on_error(errors.make("cancelled", "The request was cancelled; nothing was changed."))
    elseif ended.failure then
      calls.on_error(ended.failure)
    else
      calls.on_answer(ended.answer)
    end
  end
  local call = {
    url = options.url:gsub("/+$", "") .. path,
    body = vim.json.encode(request),
    key = key,
    timeout_s = options.timeout_s + GRACE_S,
    connect_timeout_s = options.connect_timeout_s,
    curl = options.curl,
  }
  local function send(may_start)
    local state = exchange(calls)
    handle.stop = transport.send(call, state.take, function(reader, code, words)
      if may_start and errors.is_refused(code) and not handle.is_cancelled and options.start_server.enabled then
        handle.stop = local_server.start(options, function(failure)
          if failure or handle.is_cancelled then
            finish({ failure = failure })
          else
            send(false)
          end
        end)
        return
      end
      finish(outcome(state, reader, code, words, options.url, is_whole))
    end)
  end
  if fault then
    vim.schedule(function()
      finish({ failure = fault })
    end)
  else
    send(true)
  end
  return function()
    handle.is_cancelled = true
    handle.stop()
  end
end

--- Send a request.
---@param request table as the HTTP page has it
---@param options table
---@param calls apply_service.ClientCalls
---@return fun() cancel the error is then `cancelled`
function M.apply(request, options, calls)
  return post("/v1/apply", M.is_whole, request, options, calls)
end

--- Send a reply over several files; `on_text` is not called.
---@param request table as the page on batches has it
---@param options table
---@param calls apply_service.ClientCalls
---@return fun() cancel the error is then `cancelled`
function M.batch(request, options, calls)
  return post("/v1/apply/batch", has_items, request, options, calls)
end

return M

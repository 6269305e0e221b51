--- What goes wrong, in the service's own shape: code, message, remedy.
local M = {}

---@class apply_service.Error
---@field code string
---@field message string
---@field remedy string
---@field status integer|nil
---@field readings table[]|nil what an edit that is not clear may mean
---@field failures table[]|nil the parts of an edit that do not fit

local MOST_SHOWN, MOST_CONFLICTS = 80, 3
local DEADLINE, REFUSED, UNRESOLVED = 28, 7, 6

---@return apply_service.Error
function M.make(code, message, remedy)
  return { code = code, message = message, remedy = remedy or "" }
end

--- Lines of one side of a conflict.
local function side(lines)
  local said = vim.trim(((lines or ""):gsub("%s+", " "):gsub("%c", "?")))
  if said == "" then
    return "nothing"
  end
  local shown = vim.fn.strcharpart(said, 0, MOST_SHOWN)
  return ("`%s%s`"):format(shown, shown == said and "" or "…")
end

--- Each place that the buffer and the edit both changed, with what it has in either.
local function conflict_text(failures)
  local said = { "The buffer was changed where the edit changes it too; nothing was changed by it." }
  for i = 1, math.min(#failures, MOST_CONFLICTS) do
    local failure = failures[i]
    local place = failure.candidates[1] or { first = 0, last = 0 }
    local where = place.first == place.last and "Line " .. place.first
      or ("Lines %d to %d"):format(place.first, place.last)
    local ours, theirs = side(failure.found), side(failure.quoted)
    said[#said + 1] = ("%s: the buffer has %s, the edit has %s."):format(where, ours, theirs)
  end
  local n_more = #failures - MOST_CONFLICTS
  if n_more > 0 then
    said[#said + 1] = n_more == 1 and "There is 1 more place." or ("There are %d more places."):format(n_more)
  end
  said[#said + 1] = "Take your change of these lines back and accept again, or ask again."
  return table.concat(said, " ")
end

--- One line for people.
---@param failure apply_service.Error
function M.text(failure)
  if failure.code == "edit_conflict" and #(failure.failures or {}) > 0 then
    return ("%s [%s]"):format(conflict_text(failure.failures), failure.code)
  end
  local said = failure.message
  if failure.remedy ~= "" then
    said = said .. " " .. failure.remedy
  end
  return ("%s [%s]"):format(said, failure.code)
end

--- What curl's exit code says.
function M.of_curl(code, words, url)
  if code == DEADLINE then
    return M.make("deadline_exceeded", "No answer from " .. url .. " in time.", "Raise `timeout_s`.")
  end
  if code == -1 then
    return M.make("missing_dependency", "curl cannot be started: " .. words, "See :checkhealth apply-service.")
  end
  local remedy = (code == REFUSED or code == UNRESOLVED) and "Start it with `apply-service serve`, or set `url`." or ""
  return M.make("unreachable", ("No service answers at %s (%s)."):format(url, words), remedy)
end

--- Whether nothing listened at all.
function M.is_refused(code)
  return code == REFUSED
end

local function text_or(value, default)
  return type(value) == "string" and value or default
end

--- An error as the service writes one.
function M.of_detail(detail)
  detail = type(detail) == "table" and detail or {}
  local failure = M.make(text_or(detail.code, "unknown"), text_or(detail.message, ""), text_or(detail.remedy, ""))
  failure.readings = type(detail.readings) == "table" and detail.readings or nil
  failure.failures = type(detail.failures) == "table" and detail.failures or nil
  return failure
end

--- What the service says in the body of an answer that is none.
function M.of_body(status, body)
  local ok, said = pcall(vim.json.decode, body, { luanil = { object = true, array = true } })
  local detail = ok and type(said) == "table" and type(said.error) == "table" and said.error or nil
  if not detail then
    return M.make("unreachable", ("What answers with status %s is no apply-service."):format(status), "Check `url`.")
  end
  local failure = M.of_detail(detail)
  failure.status = status
  return failure
end

return M

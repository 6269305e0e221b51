--- What goes wrong, in the service's own shape: code, message, remedy.
local M = {}

---@class apply_service.Error
---@field code string
---@field message string
---@field remedy string
---@field status integer|nil
---@field readings table[]|nil what an edit that is not clear may mean

local DEADLINE, REFUSED, UNRESOLVED = 28, 7, 6

---@return apply_service.Error
function M.make(code, message, remedy)
  return { code = code, message = message, remedy = remedy or "" }
end

--- One line for people.
---@param failure apply_service.Error
function M.text(failure)
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

--- The plugin's options: one table says name, type, default and range of each; an unknown key is an error.
local M = {}

---@class apply_service.OptionSpec
---@field kind string a Lua type, or `list` (of strings)
---@field default any nil: optional
---@field choices string[]|nil
---@field above number|nil the value must be greater
---@field may_be_false boolean|nil `false` switches it off

---@type table<string, apply_service.OptionSpec>
M.SPECS = {
  ["url"] = { kind = "string", default = "http://127.0.0.1:8765" },
  ["api_key"] = { kind = "function" },
  ["api_key_env"] = { kind = "string", default = "APPLY_SERVICE_API_KEY" },
  ["model"] = { kind = "string" },
  ["strategy"] = { kind = "string", default = "auto", choices = { "auto", "model", "exact" } },
  ["drafter"] = { kind = "string" },
  ["constrain"] = { kind = "string", choices = { "sources", "none" } },
  ["on_verdict"] = { kind = "table", default = {} },
  ["timeout_s"] = { kind = "number", default = 120, above = 0 },
  ["connect_timeout_s"] = { kind = "number", default = 5, above = 0 },
  ["stream"] = { kind = "boolean", default = true },
  ["register"] = { kind = "string", default = "+" },
  ["auto_accept"] = { kind = "string", default = "never", choices = { "never", "clean", "always" } },
  ["verdicts"] = { kind = "string", default = "findings", choices = { "never", "findings", "always" } },
  ["border"] = { kind = "string", default = "rounded", choices = { "none", "single", "double", "rounded", "solid" } },
  ["curl"] = { kind = "string", default = "curl" },
  ["keymaps.next_hunk"] = { kind = "string", default = "]h", may_be_false = true },
  ["keymaps.previous_hunk"] = { kind = "string", default = "[h", may_be_false = true },
  ["keymaps.accept"] = { kind = "string", default = "g2", may_be_false = true },
  ["keymaps.reject"] = { kind = "string", default = "g3", may_be_false = true },
  ["keymaps.next_reading"] = { kind = "string", default = "]r", may_be_false = true },
  ["keymaps.previous_reading"] = { kind = "string", default = "[r", may_be_false = true },
  ["keymaps.accept_all"] = { kind = "string", default = false, may_be_false = true },
  ["keymaps.reject_all"] = { kind = "string", default = false, may_be_false = true },
  ["start_server.enabled"] = { kind = "boolean", default = false },
  ["start_server.command"] = {
    kind = "list",
    default = { "apply-service", "serve", "--host", "{host}", "--port", "{port}" },
  },
  ["start_server.wait_s"] = { kind = "number", default = 60, above = 0 },
}

local function fail(name, message)
  error(("apply-service: option `%s` %s"):format(name, message), 0)
end

local function check_list(name, value)
  if type(value) ~= "table" or #value == 0 then
    fail(name, "must be a list of strings")
  end
  for _, item in ipairs(value) do
    if type(item) ~= "string" then
      fail(name, "must be a list of strings, and holds " .. vim.inspect(item))
    end
  end
end

local function check_on_verdict(name, value)
  for check, action in pairs(value) do
    if type(check) ~= "string" or (action ~= "warn" and action ~= "fail") then
      fail(name, 'must give "warn" or "fail" to names of checks, not ' .. vim.inspect(value))
    end
  end
end

---@param name string
---@param value any
local function check(name, value)
  local spec = M.SPECS[name]
  if spec.may_be_false and value == false then
    return
  end
  if spec.kind == "list" then
    return check_list(name, value)
  end
  if type(value) ~= spec.kind then
    fail(name, ("must be a %s, not %s"):format(spec.kind, vim.inspect(value)))
  end
  if spec.choices and not vim.tbl_contains(spec.choices, value) then
    fail(name, ("must be one of %s, not %q"):format(table.concat(spec.choices, ", "), value))
  end
  if spec.above and not (value > spec.above and value < math.huge) then
    fail(name, ("must be a number above %s, not %s"):format(spec.above, value))
  end
  if name == "url" and not value:match("^https?://[^%s/]+") then
    fail(name, ("must be an http or https URL, not %q"):format(value))
  end
  if name == "on_verdict" then
    check_on_verdict(name, value)
  end
end

local function is_group(name)
  for known in pairs(M.SPECS) do
    if vim.startswith(known, name .. ".") then
      return true
    end
  end
  return false
end

--- Dotted names and values of nested tables.
local function flatten(given, prefix, found)
  for key, value in pairs(given) do
    local name = prefix .. tostring(key)
    if M.SPECS[name] then
      found[name] = value
    elseif not is_group(name) then
      fail(name, "does not exist; see :help apply-service-options")
    elseif type(value) ~= "table" then
      fail(name, "must be a table, not " .. vim.inspect(value))
    else
      flatten(value, name .. ".", found)
    end
  end
  return found
end

local function put(options, name, value)
  local group, key = name:match("^(.-)%.(.+)$")
  if not group then
    options[name] = value
    return
  end
  options[group] = options[group] or {}
  options[group][key] = value
end

--- Complete options: the given ones, and the defaults of the others.  Raises where a key is unknown or a value bad.
---@param given table|nil
---@return table
function M.complete(given)
  if given ~= nil and type(given) ~= "table" then
    error("apply-service: setup() takes a table, not " .. vim.inspect(given), 0)
  end
  local options = {}
  for name, spec in pairs(M.SPECS) do
    put(options, name, vim.deepcopy(spec.default))
  end
  for name, value in pairs(flatten(given or {}, "", {})) do
    check(name, value)
    put(options, name, vim.deepcopy(value))
  end
  return options
end

return M

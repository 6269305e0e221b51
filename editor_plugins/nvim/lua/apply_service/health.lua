--- `:checkhealth apply-service`.
local client = require("apply_service.client")
local programs = require("apply_service.programs")

local M = {}

local report = vim.health.start and vim.health
  or {
    start = vim.health.report_start,
    ok = vim.health.report_ok,
    warn = vim.health.report_warn,
    error = vim.health.report_error,
    info = vim.health.report_info,
  }

local function check_editor()
  if vim.fn.has("nvim-0.9") == 1 then
    report.ok("Neovim " .. tostring(vim.version()))
  else
    report.error("Neovim 0.9 or newer is needed")
  end
end

local function check_curl(options)
  local curl = programs.find(options.curl)
  if not curl then
    report.error(("`%s` is not executable"):format(options.curl), { "Install curl, or set the option `curl`." })
    return nil
  end
  report.ok((vim.fn.systemlist({ curl, "--version" })[1] or curl))
  return curl
end

local function check_key(options)
  local key, fault = client.api_key(options)
  if fault then
    report.error(fault.message)
  else
    report.info(key and "an API key is sent" or ("no API key (`api_key`, or $%s)"):format(options.api_key_env))
  end
end

local function check_server(options, curl)
  local url = options.url:gsub("/+$", "") .. "/readyz"
  local argv = { curl, "--disable", "--silent", "--noproxy", "*", "--max-time", "3", "--", url }
  local said = vim.fn.system(argv)
  local ok, state = pcall(vim.json.decode, said)
  if vim.v.shell_error == 0 and ok and type(state) == "table" and not state.error then
    report.ok(("the service at %s takes requests (model %s)"):format(options.url, tostring(state.model)))
  elseif options.start_server.enabled then
    report.info("no service answers at " .. options.url .. "; it is started when needed")
  else
    report.warn("no service answers at " .. options.url, { "Run `apply-service serve`, or set the option `url`." })
  end
end

--- Called by `:checkhealth`.
function M.check()
  report.start("apply-service")
  check_editor()
  local ok, options = pcall(require("apply_service").options)
  if not ok then
    return report.error(tostring(options))
  end
  report.ok("the options are valid")
  check_key(options)
  local curl = check_curl(options)
  if curl then
    check_server(options, curl)
  end
end

return M

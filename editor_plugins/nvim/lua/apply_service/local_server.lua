--- A server on this machine, started when nothing answers and `start_server.enabled` is set; it ends with Neovim.
local errors = require("apply_service.errors")
local programs = require("apply_service.programs")
local transport = require("apply_service.transport")

local M = {}
local POLL_MS = 250
local uv = vim.uv or vim.loop

local LOOPBACK = { ["127.0.0.1"] = true, ["localhost"] = true, ["[::1]"] = true }

local function host_and_port(url)
  local scheme, place = url:match("^(https?)://([^/]+)")
  local host, port = place:match("^(.-):(%d+)$")
  return host or place, port or (scheme == "https" and "443" or "80")
end

local function command(options)
  local host, port = host_and_port(options.url)
  return vim.tbl_map(function(word)
    return (word:gsub("{host}", (host:gsub("[%[%]]", ""))):gsub("{port}", port))
  end, options.start_server.command)
end

--- In the home folder: the current one may be a project, where Windows looks first for what a program starts.
local function spawn(argv, on_exit)
  local resolved = programs.resolve(argv)
  if not resolved then
    return nil
  end
  local ok, job = pcall(vim.fn.jobstart, resolved, { on_exit = on_exit, cwd = uv.os_homedir() })
  return ok and job > 0 and job or nil
end

local function ask_ready(options, on_known)
  local call = { url = options.url:gsub("/+$", "") .. "/readyz", timeout_s = 2, connect_timeout_s = 1, curl = options.curl }
  transport.send(call, function() end, function(reader)
    on_known(reader.status == 200)
  end)
end

local function failed(message)
  return errors.make("not_ready", message, "Start it by hand: apply-service serve.")
end

--- Start it and wait until it takes requests.
---@param options table
---@param on_done fun(failure: apply_service.Error|nil) called once
---@return fun() stop gives up waiting and ends the server
function M.start(options, on_done)
  local name = options.start_server.command[1]
  local deadline = uv.now() + options.start_server.wait_s * 1000
  local is_done, job = false, nil
  local function finish(failure)
    if is_done then
      return
    end
    is_done = true
    if failure and job then
      vim.fn.jobstop(job)
    end
    on_done(failure)
  end
  local function later(failure)
    vim.schedule(function()
      finish(failure)
    end)
    return function() end
  end
  if not LOOPBACK[(host_and_port(options.url))] then
    return later(failed("A server is only started for a loopback `url`, not " .. options.url .. "."))
  end
  job = spawn(command(options), function(_, code)
    finish(failed(("`%s` ended with code %d before it was ready."):format(name, code)))
  end)
  if not job then
    return later(failed(("`%s` cannot be started."):format(name)))
  end
  local function poll()
    if is_done then
      return
    elseif uv.now() > deadline then
      return finish(failed(("`%s` was not ready in %s s."):format(name, options.start_server.wait_s)))
    end
    ask_ready(options, function(is_ready)
      if is_ready then
        finish(nil)
      else
        vim.defer_fn(poll, POLL_MS)
      end
    end)
  end
  poll()
  return function()
    finish(failed("Cancelled."))
  end
end

return M

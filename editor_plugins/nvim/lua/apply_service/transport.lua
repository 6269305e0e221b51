--- One HTTP request through curl.  The body goes through its input and the key through a file that only the user can
--- read, so neither stands in a list of processes.
local http = require("apply_service.http")
local process = require("apply_service.process")

local M = {}
local uv = vim.uv or vim.loop

---@class apply_service.Call
---@field url string
---@field body string|nil nil: a GET
---@field key string|nil
---@field timeout_s number
---@field connect_timeout_s number
---@field curl string

local function write_key_file(key)
  local path = vim.fn.tempname()
  local file = assert(uv.fs_open(path, "wx", 384)) -- 0600
  uv.fs_write(file, ("Authorization: Bearer %s\n"):format(key))
  uv.fs_close(file)
  return path
end

local function arguments(call, key_file)
  local argv = { call.curl, "--disable", "--silent", "--show-error", "--include", "--no-buffer", "--noproxy", "*" }
  vim.list_extend(argv, { "--connect-timeout", tostring(call.connect_timeout_s) })
  vim.list_extend(argv, { "--max-time", tostring(call.timeout_s) })
  if key_file then
    vim.list_extend(argv, { "--header", "@" .. key_file })
  end
  if call.body then
    vim.list_extend(argv, { "--header", "Content-Type: application/json", "--header", "Expect:" })
    vim.list_extend(argv, { "--data-binary", "@-" })
  end
  return vim.list_extend(argv, { "--", call.url })
end

--- Send it.  `on_body` gets the body's pieces; `on_end` is called once, with the reader (status and headers, where an
--- answer came) and curl's exit code and words.
---@param call apply_service.Call
---@param on_body fun(data: string, reader: table)
---@param on_end fun(reader: table, code: integer, words: string)
---@return fun() stop
function M.send(call, on_body, on_end)
  local reader
  reader = http.reader(function(data)
    on_body(data, reader)
  end)
  local key_file = call.key and write_key_file(call.key)
  local function finish(code, words)
    if key_file then
      uv.fs_unlink(key_file)
    end
    on_end(reader, code, vim.trim(words))
  end
  local stop, refusal = process.start(arguments(call, key_file), call.body or "", {
    on_output = function(data)
      reader:feed(data)
    end,
    on_exit = finish,
  })
  if stop then
    return stop
  end
  vim.schedule(function()
    finish(-1, refusal or "curl cannot be started")
  end)
  return function() end
end

return M

--- A child process: input in one piece, output as it comes, one call at its end.  `vim.system` where Neovim has it
--- (0.10), else `jobstart`.
local programs = require("apply_service.programs")

local M = {}

---@class apply_service.ProcessCalls
---@field on_output fun(data: string)
---@field on_exit fun(code: integer, error_output: string)

local function start_system(argv, input, calls)
  local errors = {}
  local output = vim.schedule_wrap(function(_, data)
    if data then
      calls.on_output(data)
    end
  end)
  local function collect(_, data)
    errors[#errors + 1] = data
  end
  local done = vim.schedule_wrap(function(result)
    calls.on_exit(result.code, table.concat(errors))
  end)
  local child = vim.system(argv, { stdin = input, stdout = output, stderr = collect }, done)
  return function()
    child:kill(15)
  end
end

--- A job's pieces: lines, the first and last of which are parts, with "\n" for NUL.
local function piece(lines)
  for i, line in ipairs(lines) do
    lines[i] = line:gsub("\n", "\0")
  end
  return table.concat(lines, "\n")
end

local function start_job(argv, input, calls)
  local errors = {}
  local job = vim.fn.jobstart(argv, {
    on_stdout = function(_, lines)
      calls.on_output(piece(lines))
    end,
    on_stderr = function(_, lines)
      errors[#errors + 1] = piece(lines)
    end,
    on_exit = function(_, code)
      calls.on_exit(code, table.concat(errors))
    end,
  })
  vim.fn.chansend(job, input)
  vim.fn.chanclose(job, "stdin")
  return function()
    vim.fn.jobstop(job)
  end
end

--- Start it.  The calls come from the main loop, `on_exit` last.
---@param argv string[]
---@param input string
---@param calls apply_service.ProcessCalls
---@return fun()|nil stop nil where the program cannot be started
---@return string|nil refusal
function M.start(argv, input, calls)
  local resolved = programs.resolve(argv)
  if not resolved then
    return nil, ("`%s` is not executable"):format(argv[1])
  end
  local ok, stop = pcall(vim.system and start_system or start_job, resolved, input, calls)
  if not ok then
    return nil, tostring(stop)
  end
  return stop
end

return M

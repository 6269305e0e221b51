-- nvim -l fuzz.lua CASES RESULTS: every case in a buffer of its own file, hunks accepted in groups, undone, redone.
local arguments = _G.arg
local buffer_edits = require("apply_service.buffer_edits")
local document = require("apply_service.document")
local proposal = require("apply_service.proposal")
local proposals = require("apply_service.proposals")

vim.o.fixendofline = false
vim.o.undofile = false
local said = {}
vim.notify = function(text)
  said[#said + 1] = text
end

local function read_file(path)
  local file = assert(io.open(path, "rb"))
  local data = file:read("*a")
  file:close()
  return data
end

--- What Neovim itself writes for the buffer.
local function written(folder)
  local path = folder .. "/written"
  vim.cmd("silent noautocmd keepalt write! " .. path)
  return vim.base64.encode(read_file(path))
end

local function settle()
  local is_done = false
  vim.schedule(function()
    is_done = true
  end)
  vim.wait(1000, function()
    return is_done
  end, 1)
end

local function run(case, folder)
  vim.cmd("silent edit " .. (case.style == "mac" and "++ff=mac " or "") .. folder .. "/" .. case.seed)
  said = {}
  local buffer, n_coarse = vim.api.nvim_get_current_buf(), buffer_edits.n_coarse
  local result = { fileformat = vim.bo.fileformat, sent = vim.base64.encode(document.read(buffer).text) }
  local found = proposal.new(document.read(buffer).text, vim.json.decode(case.answer, { luanil = { object = true } }))
  if not found then
    return vim.tbl_extend("error", result, { fault = "no proposal" })
  end
  proposals.open(buffer, { asked = {}, proposal = found })
  for _, group in ipairs(case.groups) do
    proposals.accept(buffer, group)
  end
  result.notes = said
  result.n_coarse = buffer_edits.n_coarse - n_coarse
  result.accepted = written(folder)
  result.n_steps = #vim.fn.undotree().entries
  vim.cmd("silent! undo")
  settle()
  result.undone = written(folder)
  vim.cmd("silent! redo")
  settle()
  result.redone = written(folder)
  proposals.close(buffer)
  vim.cmd("bwipeout!")
  return result
end

local job = vim.json.decode(read_file(arguments[1]))
local results = {}
for i, case in ipairs(job.cases) do
  results[i] = run(case, job.folder)
end
local file = assert(io.open(arguments[2], "wb"))
file:write(vim.json.encode(results))
file:close()

--- Byte edits in a buffer: small ones, so that cursor, folds and marks stay, and all of them one undo step.
local document = require("apply_service.document")
local file_marks = require("apply_service.file_marks")

local M = {}

M.n_coarse = 0 -- how often small edits did not do; for the tests

--- An edit that reaches the end of the text replaces whole lines: only so a line end there can come or go.
local function change_tail(buffer, doc, edit)
  local row = document.place(doc, edit.first)
  local start = doc.starts[row + 1] or #doc.text
  local tail = doc.text:sub(math.min(start, edit.first) + 1, edit.first) .. edit.text
  vim.api.nvim_buf_set_lines(buffer, row, -1, false, document.split(tail, doc.separator))
end

local function change_inside(buffer, doc, edit)
  local row, column = document.place(doc, edit.first)
  local last_row, last_column = document.place(doc, edit.last)
  if column > #doc.lines[row + 1] or last_column > #doc.lines[last_row + 1] then
    return -- between the two characters of a line end
  end
  local lines = vim.split(edit.text, doc.separator, { plain = true })
  if doc.separator == "\n" or not edit.text:gsub(doc.separator, ""):find("\n", 1, true) then
    vim.api.nvim_buf_set_text(buffer, row, column, last_row, last_column, lines)
  end
end

local function clipped(edit, doc)
  local n = #doc.bom
  local text = edit.first == 0 and edit.text:gsub("^\239\187\191", "") or edit.text
  return { first = math.max(edit.first, n), last = math.max(edit.last, n), text = text }
end

local function change(buffer, doc, edits)
  for i = #edits, 1, -1 do
    local edit = clipped(edits[i], doc)
    if edit.last == #doc.text then
      change_tail(buffer, doc, edit)
    else
      change_inside(buffer, doc, edit)
    end
  end
end

--- Replaces what lies between the lines that are alike at both ends: for edits that are no edits of whole lines' texts
--- in this buffer, as where one falls between the two characters of a line end.
local function change_coarsely(buffer, wanted)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local head, tail, limit = 0, 0, math.min(#lines, #wanted)
  while head < limit and lines[head + 1] == wanted[head + 1] do
    head = head + 1
  end
  while tail < limit - head and lines[#lines - tail] == wanted[#wanted - tail] do
    tail = tail + 1
  end
  local new = vim.list_slice(wanted, head + 1, #wanted - tail)
  vim.api.nvim_buf_set_lines(buffer, head, #lines - tail, false, new)
  M.n_coarse = M.n_coarse + 1
end

local function has_lines(buffer, wanted)
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  return vim.deep_equal(lines, #wanted == 0 and { "" } or wanted)
end

--- Setting the option ends the undo step before; `join` goes on with it instead.
local function open_undo_step(buffer, join)
  vim.api.nvim_buf_call(buffer, function()
    if not (join and pcall(vim.cmd, "undojoin")) then
      vim.bo[buffer].undolevels = vim.bo[buffer].undolevels
    end
  end)
end

--- Make the buffer hold `wanted`, which `edits` lead to from `doc`, what it holds now.
---@param buffer integer
---@param doc apply_service.Document
---@param edits apply_service.ByteEdit[]
---@param wanted string
---@param join boolean go on with the undo step before
---@return string|nil refusal why nothing was changed
function M.apply(buffer, doc, edits, wanted, join)
  local target = document.parse(wanted, doc.separator)
  if not target then
    return ("a buffer with fileformat=%s cannot hold the result's line ends (:edit ++ff=unix and ask again)"):format(
      vim.bo[buffer].fileformat
    )
  end
  open_undo_step(buffer, join)
  change(buffer, doc, edits)
  if not has_lines(buffer, target.lines) then
    change_coarsely(buffer, target.lines)
  end
  file_marks.set(buffer, { eol = #target.lines == 0 or target.eol, bomb = target.bom ~= "" })
end

return M

--- The line end at the end of a file and its byte-order mark are options of a buffer, which undo does not know of:
--- here they follow it.
local M = {}

---@type table<integer, {seq: integer, before: table, after: table}[]>
local changes = {}

local function undo_position(buffer)
  return vim.api.nvim_buf_call(buffer, function()
    return vim.fn.undotree().seq_cur
  end)
end

local function put(buffer, marks)
  vim.bo[buffer].endofline = marks.eol
  vim.bo[buffer].bomb = marks.bomb
end

--- The marks that belong to where the buffer is in its undo history.
local function follow(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) or not changes[buffer] then
    return
  end
  local position, marks = undo_position(buffer), changes[buffer][1].before
  for _, change in ipairs(changes[buffer]) do
    if position >= change.seq then
      marks = change.after
    end
  end
  put(buffer, marks)
end

local function watch(buffer)
  vim.api.nvim_buf_attach(buffer, false, {
    on_lines = function()
      if not changes[buffer] then
        return true
      end
      vim.schedule(function()
        follow(buffer)
      end)
    end,
    on_reload = function()
      changes[buffer] = nil
    end,
    on_detach = function()
      changes[buffer] = nil
    end,
  })
end

--- Set the marks as part of the change just made to the buffer's lines.
---@param buffer integer
---@param marks {eol: boolean, bomb: boolean}
function M.set(buffer, marks)
  local before = { eol = vim.bo[buffer].endofline, bomb = vim.bo[buffer].bomb }
  if vim.deep_equal(before, marks) then
    return
  end
  if not changes[buffer] then
    changes[buffer] = {}
    watch(buffer)
  end
  table.insert(changes[buffer], { seq = undo_position(buffer), before = before, after = marks })
  put(buffer, marks)
end

return M

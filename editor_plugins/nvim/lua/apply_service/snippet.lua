--- Where the snippet of an edit comes from: clipboard, register, range, or the fenced block under the cursor.
local M = {}

---@class apply_service.Source
---@field text string|nil
---@field refusal string|nil

--- The text of a register; the clipboard's own where that is named and there is one, else the unnamed register's.
---@return apply_service.Source
function M.of_register(name)
  if name == "+" or name == "*" then
    local ok, text = pcall(vim.fn.getreg, name)
    if ok and text ~= "" then
      return { text = text }
    end
    name = '"'
  end
  local text = vim.fn.getreg(name)
  return text ~= "" and { text = text } or { refusal = ('clipboard or register "%s is empty'):format(name) }
end

---@param first integer 1-based
---@param last integer
function M.of_range(first, last)
  return { text = table.concat(vim.api.nvim_buf_get_lines(0, first - 1, last, false), "\n") .. "\n" }
end

local function fence_of(line)
  return line:match("^%s*(```+)") or line:match("^%s*(~~~+)")
end

local function closes(line, fence)
  local ticks = line:match("^%s*([`~]+)%s*$")
  return ticks and ticks:sub(1, 1) == fence:sub(1, 1) and #ticks >= #fence
end

--- Lines of every fenced block of the buffer, 1-based, the fences included.
local function blocks(lines)
  local found, fence, first = {}, nil, nil
  for i, line in ipairs(lines) do
    if not fence then
      fence, first = fence_of(line), i
    elseif closes(line, fence) then
      found[#found + 1] = { first, i }
      fence = nil
    end
  end
  return found
end

--- The fenced block that holds the cursor, fences included or not.
function M.of_block()
  local row = vim.api.nvim_win_get_cursor(0)[1]
  local lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
  for _, block in ipairs(blocks(lines)) do
    if row >= block[1] and row <= block[2] then
      return { text = table.concat(vim.list_slice(lines, block[1] + 1, block[2] - 1), "\n") .. "\n" }
    end
  end
  return { refusal = "the cursor is in no fenced code block" }
end

return M

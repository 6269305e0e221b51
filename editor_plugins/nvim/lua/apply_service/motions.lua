--- Where the cursor stands among the pending hunks, and moves between them.
local document = require("apply_service.document")
local notice = require("apply_service.notice")
local preview = require("apply_service.preview")
local proposals = require("apply_service.proposals")

local M = {}

---@return {index: integer, first: integer, last: integer}[] rows, 0-based, half-open
local function places(buffer)
  local proposal, found = proposals.get(buffer), {}
  if proposal then
    local doc = document.read(buffer)
    for _, i in ipairs(proposal:in_state("pending")) do
      local first, last = preview.rows(proposal, proposal.hunks[i], doc)
      found[#found + 1] = { index = i, first = first, last = last }
    end
  end
  return found
end

--- Added lines belong to the line they are drawn at and the one above.
local function holds(place, row, n_rows)
  if place.first == place.last then
    return row == math.min(place.first, n_rows - 1) or row == place.first - 1
  end
  return row >= place.first and row < place.last
end

--- Index of the pending hunk under the cursor of the current window; nil where there is none.
function M.under_cursor()
  local buffer, row = vim.api.nvim_get_current_buf(), vim.api.nvim_win_get_cursor(0)[1] - 1
  for _, place in ipairs(places(buffer)) do
    if holds(place, row, vim.api.nvim_buf_line_count(buffer)) then
      return place.index
    end
  end
end

local function go(row)
  local n_rows = vim.api.nvim_buf_line_count(0)
  vim.cmd("normal! m'")
  vim.api.nvim_win_set_cursor(0, { math.max(1, math.min(row + 1, n_rows)), 0 })
end

--- Move to the first pending hunk of a buffer that answers came for; not while the user types or selects.
---@param buffer integer
function M.go_first(buffer)
  local found = places(buffer)
  if #found > 0 and buffer == vim.api.nvim_get_current_buf() and vim.api.nvim_get_mode().mode == "n" then
    go(found[1].first)
  end
end

--- Move to the next hunk (`step` 1) or the previous one (-1), round the end.
---@param step 1|-1
function M.jump(step)
  local found, row = places(vim.api.nvim_get_current_buf()), vim.api.nvim_win_get_cursor(0)[1] - 1
  if #found == 0 then
    return notice.info("no pending hunk in this buffer")
  end
  if step == 1 then
    for _, place in ipairs(found) do
      if place.first > row then
        return go(place.first)
      end
    end
    return go(found[1].first)
  end
  for i = #found, 1, -1 do
    if found[i].first < row then
      return go(found[i].first)
    end
  end
  go(found[#found].first)
end

return M

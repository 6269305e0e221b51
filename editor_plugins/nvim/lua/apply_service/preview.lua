--- Pending hunks drawn over a buffer: what goes is struck, what comes stands below it, coloured by origin.
local document = require("apply_service.document")
local highlights = require("apply_service.highlights")

local M = {}

M.namespace = vim.api.nvim_create_namespace("apply-service")

--- Rows (0-based, half-open) of a pending hunk as the buffer is now.
---@return integer first
---@return integer last
function M.rows(proposal, hunk, doc)
  local shift = proposal:shift(hunk.first)
  local first = document.place(doc, hunk.first + shift)
  if hunk.last == hunk.first then
    return first, first
  end
  local last, column = document.place(doc, hunk.last + shift)
  return first, column > 0 and last + 1 or last
end

local function shown(line, tab_width)
  return (line.text:gsub("\t", (" "):rep(tab_width)):gsub("%c", "?"))
end

local function virtual_lines(hunk, buffer)
  local lines, width = {}, vim.bo[buffer].tabstop
  for i, line in ipairs(hunk.lines) do
    lines[i] = { { shown(line, width), highlights.of_origin(line.origin) } }
  end
  return lines
end

local function note(index, n, hunk)
  local sure = hunk.confidence and (" %.0f%%"):format(100 * hunk.confidence) or ""
  return { { (" hunk %d/%d%s"):format(index, n, sure), "ApplyServiceNote" } }
end

--- Which reading is shown, and what it does, above the row of the first hunk.
local function draw_readings(buffer, readings, row)
  local keymaps, width = require("apply_service").options().keymaps, vim.bo[buffer].tabstop
  local keys = ("%s next, %s previous"):format(
    keymaps.next_reading or ":ApplyReading",
    keymaps.previous_reading or ":ApplyReading!"
  )
  local lines = {
    { { ("%s (%s)"):format(readings:place(), keys), "ApplyServiceNote" } },
    { { shown({ text = readings:words() }, width), "ApplyServiceWarning" } },
  }
  local n_rows = vim.api.nvim_buf_line_count(buffer)
  vim.api.nvim_buf_set_extmark(buffer, M.namespace, math.min(row, n_rows - 1), 0, {
    virt_lines = lines,
    virt_lines_above = row < n_rows,
  })
  return #lines
end

local function draw(buffer, index, n, hunk, first, last)
  local n_rows = vim.api.nvim_buf_line_count(buffer)
  for row = first, math.min(last, n_rows) - 1 do
    vim.api.nvim_buf_set_extmark(buffer, M.namespace, row, 0, { line_hl_group = "ApplyServiceDelete" })
  end
  local lines, said, is_insertion = virtual_lines(hunk, buffer), note(index, n, hunk), first == last
  if is_insertion and lines[1] then
    vim.list_extend(lines[1], said) -- no line of the file is touched, so the note stands with the new ones
    said = nil
  end
  vim.api.nvim_buf_set_extmark(buffer, M.namespace, math.min(math.max(first, last - 1), n_rows - 1), 0, {
    virt_lines = lines,
    virt_lines_above = is_insertion and first < n_rows,
    virt_text = said,
  })
  return is_insertion and first == 0
end

--- Lines above the first one are only seen where the window is told to leave room for them.
local function make_room(buffer, n_lines)
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    vim.api.nvim_win_call(window, function()
      if vim.fn.winsaveview().topline == 1 then
        vim.fn.winrestview({ topfill = n_lines })
      end
    end)
  end
end

function M.clear(buffer)
  vim.api.nvim_buf_clear_namespace(buffer, M.namespace, 0, -1)
end

--- Draw the pending hunks afresh.
---@param doc apply_service.Document what the buffer holds
---@param readings table|nil those that can be shown in its place
function M.show(buffer, proposal, doc, readings)
  highlights.define()
  M.clear(buffer)
  local n_above, pending = 0, proposal:in_state("pending")
  if readings then
    local row = pending[1] and M.rows(proposal, proposal.hunks[pending[1]], doc) or 0
    local n_drawn = draw_readings(buffer, readings, row)
    n_above = row == 0 and n_drawn or 0
  end
  for _, i in ipairs(pending) do
    local hunk = proposal.hunks[i]
    local first, last = M.rows(proposal, hunk, doc)
    if draw(buffer, i, #proposal.hunks, hunk, first, last) then
      n_above = n_above + #hunk.lines
    end
  end
  if n_above > 0 then
    make_room(buffer, n_above)
  end
end

return M

--- What the checks found and how sure the model was, in a floating window.
local highlights = require("apply_service.highlights")

local M = {}

local namespace = vim.api.nvim_create_namespace("apply-service-verdicts")

---@type table<integer, table> the last answer of each buffer
local answers = {}

function M.keep(buffer, answer)
  answers[buffer] = answer
end

local function percent(share)
  return share and ("%.1f%%"):format(100 * share) or "none (no model decided)"
end

local function head(answer)
  local lines = {
    ("decided by: %s%s"):format(answer.strategy, answer.model and " (" .. answer.model .. ")" or ""),
    ("confidence: %s"):format(percent(answer.confidence)),
    ("merge:      %s%s"):format(
      answer.certainty or "?",
      #(answer.reasons or {}) > 0 and " (" .. table.concat(answer.reasons, "; ") .. ")" or ""
    ),
  }
  for i, hunk in ipairs(answer.hunks) do
    lines[#lines + 1] = ("hunk %d/%d:   %s"):format(i, #answer.hunks, percent(hunk.confidence))
  end
  return lines
end

local function verdict_line(verdict)
  local where = verdict.lines and (" (%s lines %d-%d)"):format(verdict.side, unpack(verdict.lines)) or ""
  local message = verdict.message ~= "" and ": " .. verdict.message or ""
  return (("%-7s %s%s%s"):format(verdict.severity, verdict.check, message, where):gsub("[\r\n]", " "))
end

--- Text of the window and the highlight group of each line.
---@return string[] lines
---@return table<integer, string> groups by 0-based line
function M.render(answer)
  local lines, groups = head(answer), {}
  lines[#lines + 1] = ""
  for _, verdict in ipairs(answer.verdicts) do
    groups[#lines] = highlights.of_severity(verdict.severity)
    lines[#lines + 1] = verdict_line(verdict)
  end
  return lines, groups
end

function M.has_findings(answer)
  for _, verdict in ipairs(answer.verdicts) do
    if verdict.severity ~= "pass" then
      return true
    end
  end
  return false
end

local function open_window(scratch, lines)
  local width = 20
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = math.min(width, vim.o.columns - 4)
  return vim.api.nvim_open_win(scratch, false, {
    relative = "editor",
    anchor = "SE",
    row = vim.o.lines - 2,
    col = vim.o.columns - 1,
    width = width,
    height = math.max(1, math.min(#lines, vim.o.lines - 6)),
    style = "minimal",
    border = require("apply_service").options().border,
    focusable = true,
    title = " apply-service ",
  })
end

--- It goes with the next move of the cursor after the one that is under way.
local function close_on_move(window, buffer)
  vim.schedule(function()
    vim.api.nvim_create_autocmd({ "CursorMoved", "InsertEnter", "BufLeave" }, {
      buffer = buffer,
      once = true,
      callback = function()
        pcall(vim.api.nvim_win_close, window, true)
      end,
    })
  end)
end

--- Show the last answer of a buffer.
---@return integer|nil window nil where there is no answer
function M.show(buffer)
  local answer = answers[buffer]
  if not answer then
    return nil
  end
  highlights.define()
  local lines, groups = M.render(answer)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.bo[scratch].bufhidden = "wipe"
  vim.api.nvim_buf_set_lines(scratch, 0, -1, false, lines)
  for row, group in pairs(groups) do
    vim.api.nvim_buf_set_extmark(scratch, namespace, row, 0, { line_hl_group = group })
  end
  local window = open_window(scratch, lines)
  close_on_move(window, vim.api.nvim_get_current_buf())
  return window
end

return M

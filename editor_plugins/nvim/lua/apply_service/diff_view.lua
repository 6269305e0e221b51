--- The proposal in diff mode: the file beside a scratch buffer that holds what it would become.
local document = require("apply_service.document")

local M = {}

local function scratch_for(buffer, proposal)
  local doc = document.read(buffer)
  local target = document.parse(proposal.answer.merged_code, doc.separator)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.bo[scratch].bufhidden = "wipe"
  vim.api.nvim_buf_set_lines(scratch, 0, -1, false, target and target.lines or vim.split(proposal.answer.merged_code, "\n"))
  vim.api.nvim_buf_set_name(scratch, ("apply-service://%d/proposal"):format(scratch))
  vim.bo[scratch].filetype = vim.bo[buffer].filetype
  vim.bo[scratch].modifiable = false
  return scratch
end

--- Open it in a tab of its own; closing the tab leaves diff mode.
function M.open(buffer, proposal)
  local scratch = scratch_for(buffer, proposal)
  vim.cmd("tab sbuffer " .. buffer)
  vim.cmd("diffthis")
  vim.cmd("rightbelow vertical sbuffer " .. scratch)
  vim.cmd("diffthis")
  vim.cmd("wincmd p")
end

return M

--- The proposal of each buffer: shown, accepted hunk by hunk, closed.
local buffer_edits = require("apply_service.buffer_edits")
local document = require("apply_service.document")
local keymaps = require("apply_service.keymaps")
local notice = require("apply_service.notice")
local preview = require("apply_service.preview")
local progress = require("apply_service.progress")

local M = {}

---@type table<integer, {proposal: table, readings: table|nil, tick: integer, own_tick: integer|nil}>
local open = {}

--- The open proposal of a buffer, or nil.
function M.get(buffer)
  return open[buffer] and open[buffer].proposal
end

--- The readings that the proposal of a buffer is one of; nil where its edit is not in doubt.
function M.readings(buffer)
  return open[buffer] and open[buffer].readings
end

--- Whether another reading can be shown: each begins with the buffer as it was.
function M.can_step(buffer)
  return M.readings(buffer) ~= nil and document.read(buffer).text == M.get(buffer).original
end

--- How many hunks are pending, and how many there are.
---@return integer, integer
function M.counts(buffer)
  local proposal = M.get(buffer)
  if not proposal then
    return 0, 0
  end
  return #proposal:in_state("pending"), #proposal.hunks
end

function M.close(buffer)
  open[buffer] = nil
  pcall(vim.api.nvim_del_augroup_by_name, "apply-service-" .. buffer)
  if vim.api.nvim_buf_is_valid(buffer) then
    preview.clear(buffer)
    keymaps.remove(buffer)
  end
  progress.clear(buffer)
end

local function draw(buffer)
  local readings = M.can_step(buffer) and M.readings(buffer) or nil
  preview.show(buffer, M.get(buffer), document.read(buffer), readings)
end

--- A reading that changes nothing waits for another to be chosen.
local function refresh(buffer)
  local proposal = M.get(buffer)
  if #proposal:in_state("pending") == 0 and (#proposal.hunks > 0 or not M.readings(buffer)) then
    M.close(buffer)
  else
    draw(buffer)
    progress.redraw()
  end
end

--- Where undo brought the original back, what was accepted is pending again.
function M.follow_undo(buffer)
  local state = open[buffer]
  if not state or state.tick == vim.api.nvim_buf_get_changedtick(buffer) then
    return
  end
  if document.read(buffer).text == state.proposal.original then
    state.proposal:reopen()
    state.tick = vim.api.nvim_buf_get_changedtick(buffer)
    refresh(buffer)
  end
end

--- Show a proposal for a buffer that holds its original; `readings`: those that it is one of.
function M.open(buffer, proposal, readings)
  open[buffer] = { proposal = proposal, readings = readings, tick = vim.api.nvim_buf_get_changedtick(buffer) }
  keymaps.put(buffer, readings ~= nil)
  local group = vim.api.nvim_create_augroup("apply-service-" .. buffer, { clear = true })
  local function on(event, act)
    vim.api.nvim_create_autocmd(event, { group = group, buffer = buffer, callback = act })
  end
  on("TextChanged", function()
    M.follow_undo(buffer)
  end)
  on("BufWinEnter", function() -- a window that shows it only now has to make room above the first line
    draw(buffer)
  end)
  refresh(buffer)
end

--- The buffer's document if it still holds what the proposal takes it to hold; otherwise the proposal is closed.
---@return apply_service.Document|nil
local function fresh_document(buffer)
  local state, doc = open[buffer], document.read(buffer)
  if state.tick == vim.api.nvim_buf_get_changedtick(buffer) or doc.text == state.proposal:text() then
    return doc
  end
  M.close(buffer)
  notice.warn("the buffer was changed since the answer came; nothing was changed. Ask again.")
end

local function mark(proposal, indices, state)
  for _, i in ipairs(indices) do
    proposal.hunks[i].state = state
  end
end

local function set_of(indices)
  local set = {}
  for _, i in ipairs(indices) do
    set[i] = true
  end
  return set
end

--- Put hunks into the buffer; with what was accepted right before, it is one undo step.
---@return boolean whether they are there
function M.accept(buffer, indices)
  local refusal = document.refusal(buffer)
  local doc = not refusal and fresh_document(buffer)
  if not doc then
    if refusal then
      notice.error(refusal)
    end
    return false
  end
  local state = open[buffer]
  local plan, wanted = state.proposal:plan(set_of(indices))
  local join = state.own_tick == vim.api.nvim_buf_get_changedtick(buffer)
  refusal = buffer_edits.apply(buffer, doc, plan, wanted, join)
  if refusal then
    notice.error(refusal)
    return false
  end
  state.tick = vim.api.nvim_buf_get_changedtick(buffer)
  state.own_tick = state.tick
  mark(state.proposal, indices, "accepted")
  refresh(buffer)
  return true
end

function M.reject(buffer, indices)
  if fresh_document(buffer) then
    mark(open[buffer].proposal, indices, "rejected")
    refresh(buffer)
  end
end

return M

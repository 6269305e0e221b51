--- The proposal of each buffer: shown, accepted hunk by hunk, closed.
local buffer_edits = require("apply_service.buffer_edits")
local document = require("apply_service.document")
local keymaps = require("apply_service.keymaps")
local notice = require("apply_service.notice")
local preview = require("apply_service.preview")
local progress = require("apply_service.progress")

local M = {}

---@type table<integer, {offer: apply_service.Offer, tick: integer|nil, own_tick: integer|nil}>
local open = {}

--- The open proposal of a buffer, or nil.
function M.get(buffer)
  return open[buffer] and open[buffer].offer.proposal
end

--- The readings that the proposal of a buffer is one of; nil where its edit is not in doubt.
function M.readings(buffer)
  return open[buffer] and open[buffer].offer.readings
end

--- The open proposal with its request and readings, or nil.
---@return apply_service.Offer|nil
function M.offer(buffer)
  return open[buffer] and open[buffer].offer
end

--- Whether the buffer holds something that no decision led to.
function M.is_stale(buffer)
  local state = open[buffer]
  if not state or state.tick == vim.api.nvim_buf_get_changedtick(buffer) then
    return false
  end
  return document.read(buffer).text ~= state.offer.proposal:text()
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
  if M.is_stale(buffer) then
    return preview.clear(buffer)
  end
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
  local proposal = state.offer.proposal
  if document.read(buffer).text == proposal.original then
    proposal:reopen()
    progress.finish(buffer, proposal.answer)
    state.tick = vim.api.nvim_buf_get_changedtick(buffer)
    refresh(buffer)
  end
end

--- Show a proposal; where the buffer does not hold its original, it waits until that is so.
---@param offer apply_service.Offer
function M.open(buffer, offer)
  local is_fresh = document.read(buffer).text == offer.proposal.original
  open[buffer] = { offer = offer, tick = is_fresh and vim.api.nvim_buf_get_changedtick(buffer) or nil }
  keymaps.put(buffer, offer.readings ~= nil)
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

--- Put hunks into the buffer, which is not stale; with what was accepted right before, it is one undo step.
---@return boolean whether they are there
function M.accept(buffer, indices)
  local refusal = document.refusal(buffer)
  if refusal then
    notice.error(refusal)
    return false
  elseif M.is_stale(buffer) then
    return false
  end
  local state, doc = open[buffer], document.read(buffer)
  local proposal = state.offer.proposal
  local plan, wanted = proposal:plan(set_of(indices))
  local join = state.own_tick == vim.api.nvim_buf_get_changedtick(buffer)
  refusal = buffer_edits.apply(buffer, doc, plan, wanted, join)
  if refusal then
    notice.error(refusal)
    return false
  end
  state.tick = vim.api.nvim_buf_get_changedtick(buffer)
  state.own_tick = state.tick
  mark(proposal, indices, "accepted")
  refresh(buffer)
  return true
end

function M.reject(buffer, indices)
  if not M.is_stale(buffer) then
    mark(M.get(buffer), indices, "rejected")
    refresh(buffer)
  end
end

return M

--- Answers whose buffer was changed since the request: the edit is asked for again, to be merged with the change.
local errors = require("apply_service.errors")

local M = {}

---@class apply_service.Offer
---@field asked table the request that is answered
---@field proposal table
---@field readings table|nil where the edit is in doubt, those that the proposal is one of

local MOST_TRIES = 3 -- how often an answer is asked for again, where the buffer is changed again meanwhile

local STILL_CHANGING = errors.make(
  "stale_base",
  "The buffer was changed again while the service worked; nothing was changed by it.",
  ":ApplyAccept merges the edit with the buffer."
)

--- Whether the service can read the edit again.  It can't where a model wrote the text, or hunks are decided.
local function is_read_again(offer)
  local proposal, asked = offer.proposal, offer.asked
  local is_undecided = #proposal:in_state("pending") == #proposal.hunks
  return is_undecided and proposal.answer.model == nil and asked.strategy ~= "model" and asked.update ~= nil
end

--- The request for what is still offered, with the text that it was made for as `base` and `now` as the file.
---@param offer apply_service.Offer
---@param now string
---@return table
function M.request_for(offer, now)
  local request = vim.deepcopy(offer.asked)
  request.original = now
  if is_read_again(offer) then
    request.base = offer.asked.base or offer.asked.original
  else
    -- The edit that makes the one text of the other, whatever they hold.
    request.base = offer.proposal:text()
    request.update = vim.json.encode({ old_string = request.base, new_string = offer.proposal:offered() })
    request.format, request.strategy = "json_edit", "exact"
    request.instruction, request.reading = nil, nil
  end
  request.base_sha256 = vim.fn.sha256(request.base)
  return request
end

--- The offer that the answer to such a request makes.
local function carried(offer, asked, proposal)
  local readings = offer.readings and is_read_again(offer) and offer.readings:carried(asked, proposal.answer) or nil
  return { asked = asked, proposal = proposal, readings = readings }
end

--- `on_end` gets the offer itself where the buffer holds what it takes it to hold, else the one that is merged with the
--- buffer; or nil and the error.
---@param offer apply_service.Offer
---@param now fun(): string the buffer's text
---@param ask fun(request: table, on_end: fun(proposal: table|nil, failure: apply_service.Error|nil))
---@param on_end fun(found: apply_service.Offer|nil, failure: apply_service.Error|nil)
function M.run(offer, now, ask, on_end)
  local function go(found, n_tries)
    local text = now()
    if found.proposal:text() == text then
      return on_end(found)
    elseif n_tries == MOST_TRIES then
      return on_end(nil, STILL_CHANGING)
    end
    local request = M.request_for(offer, text)
    ask(request, function(proposal, failure)
      if not proposal then
        return on_end(nil, failure)
      end
      go(carried(offer, request, proposal), n_tries + 1)
    end)
  end
  go(offer, 0)
end

return M
